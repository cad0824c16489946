"""What an agent's shell is told to run: a long command whose children go out of reach.

`workload.py MARKER [GATE]` is four processes until somebody ends them: itself, a child in its
group, a child in a session of its own, and one that has left its parent as well and has nothing in
its environment. With a GATE, a FIFO, the command itself ends when somebody opens that, and leaves
the three behind, as a server is left that was started with `&`. Marker and role are words of each
one's arguments, for who looks for them in /proc.
"""

import os
import signal
import sys

ROLES = ("command", "child", "detached", "hidden")


def main(marker: str, *gate: str) -> None:
    """Start the children, and become the command."""
    for role in ROLES[1:]:
        if os.fork() == 0:
            _become(role, marker)
    _become(ROLES[0], marker, *gate)


def _become(role: str, *words: str) -> None:
    env = dict(os.environ)
    if role in ("detached", "hidden"):
        os.setsid()
    if role == "hidden":
        if os.fork() != 0:
            os._exit(0)
        env = {}
    if role != "command":
        # A shell waits for whoever holds its pipes.
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
    marker, *gate = words
    argv = [sys.executable, "-I", "-S", __file__, marker, role, *gate]
    os.execve(sys.executable, argv, env)


if __name__ == "__main__":
    if sys.argv[2:3] == ["command"] and sys.argv[3:]:
        with open(sys.argv[3], "rb") as gate:  # noqa: PTH123 - pathlib starts slowly
            gate.read()
    elif sys.argv[2:3] and sys.argv[2] in ROLES:
        while True:
            signal.pause()
    else:
        main(*sys.argv[1:])
