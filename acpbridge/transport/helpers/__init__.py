"""Guard, keeper and shim: the helpers between the daemon and an agent, and what they are made of.

`start.py` is run by the daemon as a program of its own. It becomes the guard, which forks the
keeper, which forks a shim for each agent. Each is a subreaper, so a process that hides below an
agent comes back to one of them. From below, each module importing only those before it:

- `kernel`, `killing`, `cgroup`, `wire`: what the kernel says, signals and the kill loop, control
  groups, words; the daemon uses these too
- `libc`, `role`, `namespace`: what a helper does as a process
- `shim`, `keeper`, `guard`, `start`: the helpers, each forked by the next

These modules import nothing else of acpbridge, and only what starts fast: no json, socket, ctypes,
subprocess, typing.
"""
