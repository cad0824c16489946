"""Guard, keeper and shim: the three helpers between the daemon and an agent, and the one kill loop.

This file is both a program and a module. As a program (`python -I -S keeper.py ...`, started by
`acpbridge.transport.child`) it becomes the guard, which forks the keeper, which forks a shim for
each agent; the shim starts the agent on the daemon's own pipes and ends its whole tree when told
to, or when its channel to the daemon closes. Each of the three is a subreaper, so a process that
hides below an agent comes back to one of them. The daemon imports the lower half: the readers of
/proc, signals that cannot reach a stranger, and the kill loop.

It imports nothing of acpbridge and only what starts fast: no json, socket, ctypes, subprocess.
"""

import _ctypes
import _socket
import errno
import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

KILL_LIMIT = 5.0  # seconds after which the kill loop reports what is left: uninterruptible sleepers
ROUND_PAUSE = 0.003  # between two looks: a killed process needs about a millisecond to be gone
EMPTY_LOOKS = 2  # one look at /proc is not atomic: a fork can slip past it, but not past the next
END_LIMIT = (
    KILL_LIMIT + 2.0
)  # what the keeper grants its shims at the end: their loop, and a margin
REMOVE_LIMIT = 1.0  # seconds in which a control group with all below it should be removed
GROUPS_LIMIT = 1000  # groups below one agent's that are looked at, and removed, at once
MESSAGE_LIMIT = 192 * 1024  # bytes in one datagram; a socket takes 208 KiB by default
PIDS_LIMIT = 10_000  # pids that one receipt names, so that it fits into a datagram
FDS_PER_ORDER = 5  # the agent's stdin, stdout, stderr; the shim's channel; the order itself
TICK_STEPS = 1000  # a linger travels in milliseconds
LINE_LOOKS = 5  # at a line of parents of which one dies during each look
LINE_LENGTH = 10_000  # parents; a table that changes under the walk must not keep it for ever

# How the kernel says that a process is gone, or hidden from us (another user's, with hidepid).
NOT_THERE = (FileNotFoundError, ProcessLookupError, PermissionError, NotADirectoryError)
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36  # linux/prctl.h
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000  # linux/sched.h
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000  # linux/mount.h
CRASHED = 70  # EX_SOFTWARE: a shim that ends so has proven nothing, the keeper sweeps after it


# ---- What the kernel says about processes -------------------------------------------------------


class Process:
    """One row of the process table, as /proc/PID/stat gave it at one moment."""

    __slots__ = ("cpu_ticks", "name", "pid", "ppid", "rss_pages", "start_ticks", "state", "threads")

    def __init__(self, stat: bytes) -> None:
        # The name is in parentheses and may hold anything, ") Z 1 " included: the last one counts.
        head, _, tail = stat.rpartition(b")")
        pid, _, name = head.partition(b" (")
        fields = tail.split()
        self.pid = int(pid)
        self.name = name.decode("utf-8", "replace")
        self.state = fields[0].decode("ascii")
        self.ppid = int(fields[1])
        self.cpu_ticks = int(fields[11]) + int(fields[12])
        self.threads = int(fields[17])
        self.start_ticks = int(fields[19])
        self.rss_pages = int(fields[21])

    @property
    def alive(self) -> bool:
        """Whether it can still run code; a zombie can, if other threads outlive its first one."""
        return self.state not in "ZX" or self.threads > 1

    def __repr__(self) -> str:
        return f"Process({self.pid} {self.name!r} {self.state}, child of {self.ppid})"


def read_file(path: str) -> bytes:
    """Return what a file of /proc holds; empty if it, or its process, is not there for us.

    Raises:
        OSError: it could not be looked at, out of descriptors for instance: that proves nothing.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except NOT_THERE:
        return b""
    try:
        data = chunk = os.read(fd, 65536)
        while len(chunk) > 0:
            chunk = os.read(fd, 65536)
            data += chunk
    except NOT_THERE:
        return b""
    else:
        return data
    finally:
        os.close(fd)


def read_process(pid: int) -> Process | None:
    """Return the row of one process, or None if there is none with this number."""
    stat = read_file(f"/proc/{pid}/stat")
    return Process(stat) if stat else None


def process_table() -> dict[int, Process]:
    """Return all processes by number. Not atomic: what forks meanwhile may be missing."""
    table = {}
    for name in _names("/proc"):
        if name.isdecimal():
            process = read_process(int(name))
            if process is not None:
                table[process.pid] = process
    return table


def boot_id() -> str:
    """Return the id of this boot of the machine: start ticks mean nothing across boots."""
    return read_file("/proc/sys/kernel/random/boot_id").decode("ascii").strip()


def tree_of(
    root: int, table: Mapping[int, Process] | None = None, skip: Iterable[int] = ()
) -> list[Process]:
    """Return the living descendants of a process, parents first, without the process itself.

    Args:
        root: the process whose tree is wanted; it need not be alive in the table.
        table: a table already read; without it the tree is walked by the kernel's lists of
            children, which costs by the size of the tree and not of the machine.
        skip: children of the root that are left out with all that is below them.
    """
    children = _children_in(table) if table is not None else _children_by_walk
    left_out = set(skip)
    found: list[Process] = []
    reached = {root}
    queue = [child for child in children(root) if child.pid not in left_out]
    while queue:
        process = queue.pop(0)
        if process.pid in reached:
            continue
        reached.add(process.pid)
        if process.alive:
            found.append(process)
        queue.extend(children(process.pid))
    return found


def descends_from(pid: int, top: int) -> bool:
    """Tell whether a process is below another one; of one that is gone nobody needs to know: True.

    Its line may lose a member while it is read, and is then read anew.
    """
    for _ in range(LINE_LOOKS):
        row = read_process(pid)
        if row is None:
            return True
        for _ in range(LINE_LENGTH):
            if row is None or row.ppid in {0, top}:
                break
            row = read_process(row.ppid)
        if row is not None:
            return row.ppid == top
    return False


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 - pathlib costs more than the whole keeper
    except NOT_THERE:
        return []


def _children_in(table: Mapping[int, Process]) -> Callable[[int], list[Process]]:
    by_parent: dict[int, list[Process]] = {}
    for process in table.values():
        by_parent.setdefault(process.ppid, []).append(process)
    return lambda pid: by_parent.get(pid, [])


def _children_by_walk(pid: int) -> list[Process]:
    found = []
    for thread in _names(f"/proc/{pid}/task"):
        for child in read_file(f"/proc/{pid}/task/{thread}/children").split():
            process = read_process(int(child))
            if process is not None:
                found.append(process)
    return found


# ---- A control group, where the kernel has them --------------------------------------------------


class Cgroup:
    """The control group (version 2) that one tree was born in, by its directory.

    Nobody leaves it by hiding: neither a session of its own nor an empty environment helps. Who may
    write to it can be moved out, or move a stranger in; the tree below the shim is looked at too.
    """

    __slots__ = ("path",)

    def __init__(self, path: bytes) -> None:
        self.path = path

    def enter(self) -> None:
        """Move this process in; OSError if the kernel will not have it."""
        _write(self.path + b"/cgroup.procs", b"0")

    def leave(self) -> None:
        """Move this process out again, to where the group was made."""
        _write(self.path.rpartition(b"/")[0] + b"/cgroup.procs", b"0")

    def rows(self) -> list[Process]:
        """Return who lives in it, and in groups that were made below it."""
        found = {}
        for folder in self._folders():
            for word in _lines_of(folder + b"/cgroup.procs"):
                # A process that this pid namespace does not know has the number 0.
                row = read_process(int(word)) if word != b"0" else None
                if row is not None and row.alive:
                    found[row.pid] = row
        return list(found.values())

    def populated(self) -> bool:
        """Ask the kernel whether anybody is in it; zombies do not count."""
        return b"populated 1" in _lines_of(self.path + b"/cgroup.events")

    def kill(self) -> None:
        """Have the kernel kill all that are in it, in one step that no fork can outrun."""
        try:
            _write(self.path + b"/cgroup.kill", b"1")
        except OSError:
            return  # gone, or made one of threads by the agent: the loop goes on without it

    def remove(self, limit: float = REMOVE_LIMIT) -> bool:
        """Remove it with all groups below it, and say whether it is gone.

        Call it when the tree is proven dead: who is still in it was moved in by somebody, is no
        part of the tree, and is put out before. It blocks for about the limit at most, in seconds,
        however many groups there are; what is left then is there for another call.
        """
        deadline = time.monotonic() + limit
        while True:
            for row in self.rows():
                try:
                    _write(self.path.rpartition(b"/")[0] + b"/cgroup.procs", b"%d" % row.pid)
                except OSError:
                    continue
            folders = self._folders()
            removed = [folder for folder in reversed(folders) if _remove(folder)]
            if len(removed) == len(folders):
                return True
            if not removed or time.monotonic() > deadline:
                return False

    def _folders(self) -> list[bytes]:
        """Return its directory and those below it, parents first; of very many only some.

        An agent can make a hundred thousand faster than anybody looks at them. Whoever is in one of
        them is below the shim too, and the kernel kills them with the group.
        """
        found = [self.path] if _folders_in(self.path) is not None else []
        for folder in found:
            if len(found) >= GROUPS_LIMIT:
                break
            names = (_folders_in(folder) or ())[: GROUPS_LIMIT - len(found)]
            found += [folder + b"/" + name for name in names]
        return found


def _folders_in(path: bytes) -> list[bytes] | None:
    """Return the names of the directories in one; None if it is none itself."""
    try:
        found = os.lstat(path)
        if found.st_mode & 0o170000 != 0o040000:  # stat.S_ISDIR, without the import
            return None
        if found.st_nlink == 2:  # the kernel counts those below: there are none
            return []
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return None


def _remove(folder: bytes) -> bool:
    try:
        os.rmdir(folder)  # noqa: PTH106 - pathlib costs more than the whole keeper
    except OSError:
        return not os.path.lexists(folder)
    return True


def _lines_of(path: bytes) -> list[bytes]:
    try:
        return read_file(os.fsdecode(path)).splitlines()
    except OSError as error:
        if error.errno in {errno.ENODEV, errno.EOPNOTSUPP}:
            return []  # removed while it was read, or a group of threads
        raise


def _write(path: bytes | str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


# ---- Signals that never reach a stranger, and the kill loop ------------------------------------


def send_signal(pid: int, start_ticks: int, number: int, ppid: int | None = None) -> bool:
    """Signal a process if it is still the one that is meant, and say whether it was sent.

    The pidfd pins whoever has the number now; only then is it asked when it started (and, if
    given, who its parent is: a look that is not atomic may have hung a stranger into our tree).

    Raises:
        OSError: it could not be looked at; nothing was sent.
    """
    if pid <= 0:
        return False
    try:
        fd = os.pidfd_open(pid)
    except NOT_THERE:
        return False
    try:
        now = read_process(pid)
        if now is None or now.start_ticks != start_ticks or ppid not in {None, now.ppid}:
            return False
        signal.pidfd_send_signal(fd, number)
    except NOT_THERE:
        return False
    else:
        return True
    finally:
        os.close(fd)


def signal_all(processes: Iterable[Process], number: int) -> list[int]:
    """Signal each of a tree, and return the pids of those that were reached."""
    return [
        process.pid
        for process in processes
        if send_signal(process.pid, process.start_ticks, number, process.ppid)
    ]


class KillLoop:
    """The last step: STOP all, KILL all, look again, until two looks in a row find nobody.

    Args:
        look: returns who is to die and still lives, parents first.
        limit: seconds after which it gives up and `survivors` names who is left.
        at_once: kills in one step whom it can, given who was found; the signals follow anyway.
    """

    def __init__(
        self,
        look: Callable[[], list[Process]],
        limit: float = KILL_LIMIT,
        at_once: Callable[[list[Process]], None] = lambda _: None,
    ) -> None:
        self.killed: set[int] = set()
        self.survivors: list[int] = []
        self._look = look
        self._limit = limit
        self._at_once = at_once
        self._empty = 0
        self.again()

    def again(self) -> None:
        """Begin anew, with the whole limit: there is more to kill than when it began."""
        self._empty = 0
        self._deadline = time.monotonic() + self._limit

    def round(self) -> bool:
        """Do one round, a few milliseconds, and say whether it was the last."""
        members = self._look()
        if not members:
            self._empty += 1
            return self._empty >= EMPTY_LOOKS
        self._empty = 0
        if time.monotonic() > self._deadline:
            self.survivors = [member.pid for member in members]
            self.killed.difference_update(self.survivors)
            return True
        self._at_once(members)
        signal_all(members, signal.SIGSTOP)
        # Leaves first: a parent's death gives its children another parent, and nobody is
        # signalled whose parent is not the one that was seen.
        self.killed.update(signal_all(reversed(members), signal.SIGKILL))
        return False

    def run(self) -> None:
        """Do rounds until the last; blocks for at most the limit."""
        while not self.round():
            time.sleep(ROUND_PAUSE)


# ---- Words on the wire --------------------------------------------------------------------------


class Order:
    """What a shim is told to start; one blob of NUL-separated fields, written to a memfd."""

    __slots__ = ("argv", "cgroup", "cwd", "env", "linger", "pidns", "program")

    def __init__(  # noqa: PLR0913 - one value for each field
        self,
        program: bytes,
        argv: Sequence[bytes],
        env: Mapping[bytes, bytes],
        cwd: bytes,
        linger: float,
        *,
        cgroup: bytes = b"",
        pidns: bool = False,
    ) -> None:
        self.program = program
        self.argv = list(argv)
        self.env = dict(env)
        self.cwd = cwd
        self.linger = linger
        self.cgroup = cgroup
        self.pidns = pidns

    def encode(self) -> bytes:
        """Return the blob; ValueError if exec could not pass a field on as it is."""
        if any(not name or b"=" in name for name in self.env):
            raise ValueError("the name of an environment variable is empty or holds a '='")
        pairs = [b"%b=%b" % pair for pair in self.env.items()]
        head = [b"%d" % round(self.linger * TICK_STEPS), b"%d" % len(self.argv)]
        held = [self.cgroup, b"1" if self.pidns else b"0"]
        fields = [*head, *held, self.program, self.cwd, *self.argv, *pairs]
        if any(b"\0" in field for field in fields):
            raise ValueError("an argument, variable or path holds a NUL byte")
        return b"\0".join(fields)

    @classmethod
    def decode(cls, blob: bytes) -> "Order":
        """Rebuild the order from its blob."""
        linger, count, cgroup, pidns, program, cwd, *rest = blob.split(b"\0")
        argv, pairs = rest[: int(count)], rest[int(count) :]
        env = {name: value for name, _, value in (pair.partition(b"=") for pair in pairs)}
        seconds = int(linger) / TICK_STEPS
        return cls(program, argv, env, cwd, seconds, cgroup=cgroup, pidns=pidns == b"1")


def encode_pids(pids: Iterable[int]) -> bytes:
    """Return pids as one word of a message: `12,15`, or `-` for none."""
    return b",".join(b"%d" % pid for pid in sorted(pids)[:PIDS_LIMIT]) or b"-"


def decode_pids(word: bytes) -> tuple[int, ...]:
    """Return the pids of a word that `encode_pids` wrote."""
    return () if word == b"-" else tuple(int(pid) for pid in word.split(b","))


# ---- The process: guard, keeper, shim -----------------------------------------------------------


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg] # noqa: SLF001 - ctypes is slow
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


def _call(name: str, *args: int | bytes | None) -> None:
    """Call a function of the C library that returns 0, or raise OSError."""
    result: object = _Function(_ctypes.dlsym(_ctypes.dlopen("", 0), name))(*args)
    if result != 0:
        number = _ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _prctl(option: int, value: int | bytes) -> None:
    _call("prctl", option, value, 0, 0, 0)


def _become(name: bytes, parent: int) -> bool:
    """Take up a role: a name, a session, subreaper, woken at the parent's death.

    SIGCONT and not a deadly signal: the end of its channel tells a helper what to do, the signal
    only wakes one that somebody stopped. False if the parent was gone before that was arranged.
    """
    _prctl(PR_SET_NAME, name)
    if os.getsid(0) != os.getpid():
        os.setsid()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
    return os.getppid() == parent


class _Wakeups:
    """Signals as bytes of a pipe, so that one poll sees them together with the sockets."""

    def __init__(self) -> None:
        self.fd, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._told_to_end = False

    def told_to_end(self) -> bool:
        """Take in what came; say whether one of it, now or earlier, was an order to end."""
        try:
            came = os.read(self.fd, 4096)
        except BlockingIOError:
            return self._told_to_end
        self._told_to_end = self._told_to_end or any(number != signal.SIGCHLD for number in came)
        return self._told_to_end


def _reap() -> tuple[dict[int, int], bool]:
    """Collect the dead children: wait statuses by pid, and whether there are children left."""
    dead: dict[int, int] = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return dead, True
            dead[pid] = status
    except ChildProcessError:
        return dead, False


def _tree_below_me() -> list[Process]:
    # The lists of children may skip one while siblings exit, or be missing from the kernel.
    return tree_of(os.getpid()) or tree_of(os.getpid(), process_table())


def _look_below_me() -> list[Process]:
    """Return who lives below this process; without a look if the kernel knows of no child."""
    _, children = _reap()
    return _tree_below_me() if children else []


def _fork(role: Callable[[], None], keep: Iterable[int]) -> int:
    """Fork a process that does `role` and exits, with its standard streams and `keep` only."""
    # Nobody may be hit by a signal while it still has its parent's handlers and wakeup pipe.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _run_role(role, keep)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _run_role(role: Callable[[], None], keep: Iterable[int]) -> None:
    status = CRASHED
    try:
        signal.set_wakeup_fd(-1)
        _close_all_but({0, 1, 2, *keep})
        role()
        status = 0
    finally:
        os._exit(status)  # never back into the loop of the parent


def _close_all_but(keep: set[int]) -> None:
    for name in _names("/proc/self/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                continue  # the one that listed the directory


def _tell(channel: _socket.socket, message: bytes) -> None:
    try:
        channel.send(message, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
    except OSError:
        return  # nobody listens any more, and the end of the channel says what to do about it


def _hear(channel: _socket.socket) -> bytes | None:
    """Return the next message, b"" when the other end is gone, None when there is none yet."""
    try:
        return channel.recv(MESSAGE_LIMIT, _socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _channel(fd: int) -> _socket.socket:
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fd)


def _spawn(order: Order, stdio: Sequence[int]) -> int:
    """Start the agent of an order in the current directory and return its pid; OSError."""
    return os.posix_spawn(
        order.program,
        order.argv,
        order.env,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, i) for i, fd in enumerate(stdio)],
        setsid=True,
        setsigmask=(),
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )


def _enter_namespaces() -> None:
    """Have the next child of this process be the first one of a pid namespace; OSError.

    The user namespace is what lets somebody who is not root do so. In it one user and one group
    are known, and they are the same as outside.
    """
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWUSER | CLONE_NEWPID)
    _write("/proc/self/setgroups", b"deny")  # user_namespaces(7): else no gid may be mapped
    _write("/proc/self/uid_map", b"%d %d 1" % (uid, uid))
    _write("/proc/self/gid_map", b"%d %d 1" % (gid, gid))


class Init:
    """Process 1 of an agent's pid namespace: starts the agent, reaps, and takes all along.

    When it ends, by its shim's death too, the kernel kills whatever is left in the namespace.
    """

    def __init__(self, order: Order, stdio: Sequence[int], report_fd: int) -> None:
        self._order = order
        self._stdio = list(stdio)
        self._report = _channel(report_fd)

    def run(self) -> None:
        """Start the agent and live until nobody else does."""
        _prctl(PR_SET_NAME, b"acpb-init")
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        step = b"pidns"
        try:
            _call("unshare", CLONE_NEWNS)
            _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
            _call("mount", b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
            step = b"exec"
            agent = _spawn(self._order, self._stdio)
        except OSError as error:
            self._report.send(b"failed %b %d" % (step, error.errno or 0))
            return
        # Raises if the shim died before its death was a signal for us: all ends with us.
        self._report.send(b"started %d" % agent)
        for fd in self._stdio:
            os.close(fd)
        os.chdir("/")
        self._report.recv(16)  # not reaped before the shim has found it by its number out there
        told = False
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            if pid == agent and not told:  # its number may come again
                self._report.send(b"exit %d" % os.waitstatus_to_exitcode(status))
                told = True


def _known_inside_as(number: int, init: int) -> Process | None:
    """Return the child of a namespace's first process that has this number in there."""
    for row in _children_by_walk(init):
        for line in _lines_of(b"/proc/%d/status" % row.pid):
            if line.startswith(b"NSpid:") and int(line.split()[-1]) == number:
                return row
    return None


class Shim:
    """Starts one agent, watches it, and ends its whole tree; one process for each agent."""

    def __init__(self, fds: Sequence[int], keeper: int) -> None:
        self._stdio = list(fds[:3])
        self._channel = _channel(fds[3])
        self._order_fd = fds[4]
        self._keeper = keeper
        self._agent = 0
        self._cgroup: Cgroup | None = None
        self._init = 0  # of the agent's pid namespace, where it has one
        self._report: _socket.socket | None = None  # from it
        self._linger = 0.0
        self._seen: set[int] = set()
        self._deadline: float | None = None

    def run(self) -> None:
        """Live through it all: start, watch, end, report."""
        in_time = _become(b"acpb-shim", self._keeper)
        wakeups = _Wakeups()
        order = Order.decode(_read_order(self._order_fd))
        self._linger = order.linger
        if not in_time or not self._start(order):
            _tell(self._channel, b"gone - -")
            return
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(wakeups.fd, select.POLLIN)
        if self._report is not None:
            poll.register(self._report, select.POLLIN)
        going_on = True
        while going_on:
            poll.poll(self._patience())
            told_to_end = wakeups.told_to_end()
            going_on = self._reap() and self._obey() and not told_to_end and self._patience() != 0
        loop = KillLoop(
            lambda: _tree_below_me() if self._reap() else [], at_once=self._kill_at_once
        )
        loop.run()
        if self._cgroup is not None and not loop.survivors:
            self._cgroup.remove()
        dead = (self._seen | loop.killed).difference(loop.survivors)
        _tell(self._channel, b"gone %b %b" % (encode_pids(dead), encode_pids(loop.survivors)))

    def _start(self, order: Order) -> bool:
        step = b"cwd"
        try:
            os.chdir(order.cwd)
            if _hear(self._channel) is not None:
                return False  # closed, or told to kill before there was anything
            if order.cgroup:
                step = b"cgroup"
                self._cgroup = Cgroup(order.cgroup)
                self._cgroup.enter()
            try:
                step = b"pidns" if order.pidns else b"exec"
                if order.pidns:
                    _enter_namespaces()
                    self._start_in_namespace(order)
                else:
                    self._agent = _spawn(order, self._stdio)
            finally:
                self._leave_cgroup()
            if self._agent == 0:
                return False
        except OSError as error:
            _tell(self._channel, b"failed %b %d" % (step, error.errno or 0))
            return False
        # No EOF can come out of the agent's pipes while a copy of their ends is open here.
        for fd in (*self._stdio, self._order_fd):
            os.close(fd)
        os.chdir("/")
        me, agent = read_process(os.getpid()), read_process(self._agent)
        if me is None or agent is None:
            raise RuntimeError("no /proc")
        ids = (me.pid, me.start_ticks, agent.pid, agent.start_ticks)
        _tell(self._channel, b"started %d %d %d %d" % ids)
        return True

    def _leave_cgroup(self) -> None:
        try:
            if self._cgroup is not None:
                self._cgroup.leave()
        except OSError:
            return  # a group with the shim in it is not killed at once: see `_kill_at_once`

    def _start_in_namespace(self, order: Order) -> None:
        """Start the first process of the namespace, and have it start the agent; OSError."""
        self._report, far = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0)
        fd = far.fileno()
        self._init = _fork(lambda: Init(order, self._stdio, fd).run(), [*self._stdio, fd])
        far.close()
        word, *rest = self._report.recv(256).split(b" ")
        if word == b"started":
            agent = _known_inside_as(int(rest[0]), self._init)
            self._agent = 0 if agent is None else agent.pid
            self._report.send(b"seen")
        elif word == b"failed":
            _tell(self._channel, b"failed %b %b" % (rest[0], rest[1]))
        else:
            raise OSError(errno.ECHILD, "")

    def _kill_at_once(self, members: list[Process]) -> None:
        """Have the kernel kill the whole control group, if no stranger was moved into it."""
        if self._cgroup is None:
            return
        known = {member.pid for member in members}
        mine = os.getpid()
        if all(r.pid in known or descends_from(r.pid, mine) for r in self._cgroup.rows()):
            self._cgroup.kill()

    def _patience(self) -> int | None:
        """Return the milliseconds that what the agent left behind may still live, if it exited."""
        if self._deadline is None:
            return None
        return max(0, int((self._deadline - time.monotonic()) * 1000 + 1))

    def _reap(self) -> bool:
        """Collect the dead, report the agent's exit, and say whether anybody is left."""
        dead, children = _reap()
        code = (
            self._exit_code(dead) if self._deadline is None else None
        )  # its number may come again
        if code is not None:
            _tell(self._channel, b"exit %d" % code)
            self._deadline = time.monotonic() + self._linger
            self._mark()
        return children

    def _exit_code(self, dead: Mapping[int, int]) -> int | None:
        """Return how the agent ended, None if it has not; a signal is negative."""
        if self._report is None:
            return os.waitstatus_to_exitcode(dead[self._agent]) if self._agent in dead else None
        told = _hear(self._report)
        if told:
            return int(told.split(b" ")[1])
        return -signal.SIGKILL if self._init in dead else None

    def _obey(self) -> bool:
        """Do what the daemon says; False when that is to end everything."""
        while (word := _hear(self._channel)) is not None:
            if word == b"term":
                # A stopped process does not see the TERM before it goes on.
                members = self._mark()
                signal_all(members, signal.SIGTERM)
                signal_all(members, signal.SIGCONT)
            elif word == b"mark":
                self._mark()
            else:
                _tell(self._channel, b"killing")
                return False
        return True

    def _mark(self) -> list[Process]:
        """Remember who is there when the end begins: the receipt names them, however they die."""
        members = _tree_below_me()
        self._seen.update([self._agent], [member.pid for member in members])
        return members


def _read_order(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    blob = b""
    while len(blob) < size:
        blob += os.pread(fd, size - len(blob), len(blob))
    return blob


class Keeper:
    """Forks the shims, reaps them, and sweeps up after one that did not finish its work."""

    def __init__(self, control_fd: int, guard: int) -> None:
        self._control = _channel(control_fd)
        self._guard = guard
        self._shims: dict[int, tuple[bytes, int]] = {}  # pid -> the daemon's name for it, ticks
        self._lost: list[bytes] = []
        self._sweep = KillLoop(self._orphans)

    def run(self) -> None:
        """Serve until the daemon's end of the channel closes, then end all shims."""
        _become(b"acpb-keeper", self._guard)
        wakeups = _Wakeups()
        me = read_process(os.getpid())
        if me is None:
            raise RuntimeError("no /proc")
        _tell(self._control, b"hello %d %d" % (me.pid, me.start_ticks))
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wakeups.fd, select.POLLIN)
        serving = True
        while serving:
            poll.poll(ROUND_PAUSE * 1000 if self._lost else None)
            serving = not wakeups.told_to_end() and self._serve()
            self._tidy()
        poll.unregister(self._control)
        for pid, (_, start_ticks) in self._shims.items():
            send_signal(pid, start_ticks, signal.SIGTERM)
            send_signal(pid, start_ticks, signal.SIGCONT)
        deadline = time.monotonic() + END_LIMIT
        while (self._shims or self._lost) and time.monotonic() < deadline:
            poll.poll(ROUND_PAUSE * 1000 if self._lost else 100)
            wakeups.told_to_end()
            self._tidy()
        KillLoop(_look_below_me).run()

    def _serve(self) -> bool:
        """Carry out one order of the daemon; False when there is no daemon any more."""
        space = _socket.CMSG_SPACE(FDS_PER_ORDER * 4)
        flags = _socket.MSG_DONTWAIT | _socket.MSG_CMSG_CLOEXEC
        try:
            name, ancillary, _, _ = self._control.recvmsg(256, space, flags)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not name:
            return False
        fds = []
        for _, _, data in ancillary:
            fds += [
                int.from_bytes(data[i : i + 4], sys.byteorder) for i in range(0, len(data) - 3, 4)
            ]
        try:
            if len(fds) == FDS_PER_ORDER:
                self._start_shim(name, fds)
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _start_shim(self, name: bytes, fds: Sequence[int]) -> None:
        me = os.getpid()
        try:
            pid = _fork(lambda: Shim(fds, me).run(), fds)
        except OSError as error:
            channel = _channel(os.dup(fds[3]))
            _tell(channel, b"failed fork %d" % (error.errno or 0))
            channel.close()
            return
        shim = read_process(pid)
        self._shims[pid] = (name, shim.start_ticks if shim is not None else 0)

    def _tidy(self) -> None:
        """Reap, and do one round of the sweep if a shim left its tree behind."""
        dead, _ = _reap()
        for pid, status in dead.items():
            name, _ = self._shims.pop(pid, (b"", 0))
            if name and status != 0:
                self._lost.append(name)
                self._sweep.again()
        if self._lost and self._sweep.round():
            names = b",".join(self._lost)
            receipt = encode_pids(self._sweep.killed), encode_pids(self._sweep.survivors)
            _tell(self._control, b"swept %b %b %b" % (names, *receipt))
            self._lost.clear()
            self._sweep = KillLoop(self._orphans)

    def _orphans(self) -> list[Process]:
        return tree_of(os.getpid(), process_table(), skip=self._shims)


def guard(control_fd: int, guard_fd: int, daemon: int) -> None:
    """Start the keeper and outlive it: what it leaves behind comes here, and dies here.

    With it any two of daemon, keeper and shim may be killed in the same instant: there is always
    one left to which the orphans fall, however well they hide.
    """
    in_time = _become(b"acpb-guard", daemon)
    wakeups = _Wakeups()
    channel = _channel(guard_fd)
    if not in_time:
        return
    me = os.getpid()
    pid = _fork(lambda: Keeper(control_fd, me).run(), [control_fd])
    keeper = read_process(pid)
    start_ticks = keeper.start_ticks if keeper is not None else 0
    os.close(control_fd)
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    poll.register(wakeups.fd, select.POLLIN)
    watching = True
    while pid not in _reap()[0]:
        poll.poll()
        if wakeups.told_to_end():
            send_signal(pid, start_ticks, signal.SIGTERM)
        if watching and _hear(channel) == b"":
            # The daemon is gone. The keeper knows by itself, unless somebody stopped it.
            send_signal(pid, start_ticks, signal.SIGCONT)
            poll.unregister(channel)
            watching = False
    loop = KillLoop(_look_below_me)
    loop.run()
    receipt = encode_pids(loop.killed), encode_pids(loop.survivors)
    _tell(channel, b"swept * %b %b" % receipt)


def _main(control_fd: int, guard_fd: int, daemon: int, soft_limit: int) -> None:
    # Before all else: a helper that holds the daemon's stdout keeps a pipeline from ending.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    _close_all_but({0, 1, 2, control_fd, guard_fd})
    for fd in (control_fd, guard_fd):
        os.set_inheritable(fd, False)  # noqa: FBT003 - the signature of the standard library
    os.chdir("/")
    gc.disable()  # nothing here makes cycles, and a collection would unshare the forked pages
    if soft_limit >= 0:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft_limit, hard))
    guard(control_fd, guard_fd, daemon)


if __name__ == "__main__":
    _main(*(int(word) for word in sys.argv[1:5]))
