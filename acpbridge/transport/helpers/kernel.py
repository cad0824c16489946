"""What the kernel says about processes: rows of /proc, trees of them, who is below whom.

The lowest of the helpers' modules. The daemon reads the process table through it too.
"""

import errno
import os
from collections.abc import Callable, Iterable, Mapping

LINE_LOOKS = 5  # at a line of parents of which one dies during each look
LINE_LENGTH = 10_000  # parents; a table that changes under the walk must not keep it for ever

# How the kernel says that a process is gone, or hidden from us (another user's, with hidepid).
NOT_THERE = (FileNotFoundError, ProcessLookupError, PermissionError, NotADirectoryError)


class Process:
    """One row of the process table, as /proc/PID/stat gave it at one moment."""

    __slots__ = (
        "cpu_ticks",
        "name",
        "pgid",
        "pid",
        "ppid",
        "rss_pages",
        "start_ticks",
        "state",
        "threads",
    )

    def __init__(self, stat: bytes) -> None:
        # The name is in parentheses and may hold anything, ") Z 1 " included: the last one counts.
        head, _, tail = stat.rpartition(b")")
        pid, _, name = head.partition(b" (")
        fields = tail.split()
        self.pid = int(pid)
        self.name = name.decode("utf-8", "replace")
        self.state = fields[0].decode("ascii")
        self.ppid = int(fields[1])
        self.pgid = int(fields[2])
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


def lines_of(path: bytes) -> list[bytes]:
    """Return the lines of a file of the kernel; none if it, or what it is about, is gone.

    Raises:
        OSError: it could not be looked at.
    """
    try:
        return read_file(os.fsdecode(path)).splitlines()
    except OSError as error:
        if error.errno in {errno.ENODEV, errno.EOPNOTSUPP}:
            return []  # removed while it was read, or a group of threads
        raise


def names_in(path: str) -> list[str]:
    """Return the names in a directory; none if it is not there for us."""
    try:
        return os.listdir(path)  # noqa: PTH208 - pathlib costs more than the whole keeper
    except NOT_THERE:
        return []


def write_file(path: bytes | str, data: bytes) -> None:
    """Write to a file of the kernel in one piece; OSError if it will not have that."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def read_process(pid: int) -> Process | None:
    """Return the row of one process, or None if there is none with this number."""
    stat = read_file(f"/proc/{pid}/stat")
    return Process(stat) if stat else None


def process_table() -> dict[int, Process]:
    """Return all processes by number. Not atomic: what forks meanwhile may be missing."""
    table = {}
    for name in names_in("/proc"):
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
    children = _children_in(table) if table is not None else children_of
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


def children_of(pid: int) -> list[Process]:
    """Return the children of a process by the kernel's own lists, zombies too."""
    found = []
    for thread in names_in(f"/proc/{pid}/task"):
        for child in read_file(f"/proc/{pid}/task/{thread}/children").split():
            process = read_process(int(child))
            if process is not None:
                found.append(process)
    return found


def _children_in(table: Mapping[int, Process]) -> Callable[[int], list[Process]]:
    by_parent: dict[int, list[Process]] = {}
    for process in table.values():
        by_parent.setdefault(process.ppid, []).append(process)
    return lambda pid: by_parent.get(pid, [])
