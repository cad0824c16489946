"""Where control groups of version 2 can be made, and what an earlier daemon left in them.

The hierarchy is found by /proc/self/mountinfo and our place in it by /proc/self/cgroup, never by a
fixed path. The groups of one state directory are told from another's by a part of their names; who
calls `sweep` holds the lock of that directory. Blocks for a few reads of the kernel's files.
"""

import hashlib
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from acpbridge.transport.helpers import kernel, killing
from acpbridge.transport.helpers.cgroup import Cgroup

PREFIX: Final = "acpbridge"

# How often a hierarchy is looked through for groups; deeper than any that systemd makes.
DEPTH: Final = 16


@dataclass(frozen=True, slots=True)
class Mount:
    """A cgroup v2 hierarchy as it is mounted here.

    Attributes:
        root: which directory of the hierarchy is mounted.
        path: where.
    """

    root: str
    path: str


def mounts(mountinfo: str) -> list[Mount]:
    """Return the cgroup v2 hierarchies of a text as /proc/PID/mountinfo has it (proc(5))."""
    found = []
    for line in mountinfo.splitlines():
        head, dash, tail = line.partition(" - ")
        fields = head.split(" ")
        if dash and tail.split(" ")[0] == "cgroup2" and len(fields) > 4:
            found.append(Mount(_plain(fields[3]), _plain(fields[4])))
    return found


def _plain(word: str) -> str:
    """Undo the octal escapes of a path: space, tab, newline and backslash."""
    for escaped, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(escaped, char)
    return word


def place_in(mount: Mount, own: str) -> Path | None:
    """Return where our group is below a mount, None if it is not there.

    Args:
        mount: of a hierarchy.
        own: our group, as /proc/self/cgroup has it.
    """
    root = mount.root.rstrip("/")
    if own != root and not own.startswith(root + "/"):
        return None
    below = own[len(root) :].strip("/")
    if ".." in below.split("/"):
        return None  # outside the namespace that we see
    return Path(mount.path, below)


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Makes control groups for the trees of one state directory.

    Attributes:
        place: our own group's directory, in which they are made.
        top: where the hierarchy is mounted.
        tag: what is in their names.
    """

    place: Path
    top: Path
    tag: str

    @classmethod
    def find(cls, home: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> Self | None:
        """Return where groups can be made, None if there is no such place.

        Args:
            home: the state directory.
            mountinfo: says what is mounted.
        """
        try:
            text = mountinfo.read_text(encoding="utf-8", errors="surrogateescape")
            own = _own_group()
            tag = _tag(home)
        except OSError:
            return None
        for mount in mounts(text):
            place = place_in(mount, own)
            if place is not None:
                found = cls(place, Path(mount.path), tag)
                if found.usable():
                    return found
        return None

    def usable(self) -> bool:
        """Try it out: whether a group can be made, killed as one and left again."""
        try:
            group = self.make()
        except OSError:
            return False
        try:
            kills = os.access(group.path + b"/cgroup.kill", os.W_OK)  # Linux 5.14
            ordinary = (
                kernel.read_file(f"{os.fsdecode(group.path)}/cgroup.type").strip() == b"domain"
            )
            back = os.access(self.place / "cgroup.procs", os.W_OK)
        finally:
            group.remove()
        return kills and ordinary and back

    def make(self) -> Cgroup:
        """Make one more group; OSError."""
        path = self.place / f"{PREFIX}-{self.tag}-{uuid.uuid4().hex[:12]}"
        path.mkdir(mode=0o700)
        return Cgroup(os.fsencode(path))

    def left(self) -> list[Cgroup]:
        """Return the groups of this state directory, wherever in the hierarchy they were made."""
        found = []
        for folder, names, _ in os.walk(self.top):
            if len(Path(folder).relative_to(self.top).parts) >= DEPTH:
                names.clear()
            mine = [name for name in names if name.startswith(f"{PREFIX}-{self.tag}-")]
            found += [Cgroup(os.fsencode(Path(folder, name))) for name in mine]
            names[:] = [name for name in names if name not in mine]
        return found

    def sweep(self) -> list[int]:
        """End what is left in the groups of an earlier daemon; return who was killed.

        Nobody of ours lives in them: whoever calls this holds the lock of the state directory.
        """
        killed: set[int] = set()
        for group in self.left():
            killed |= _end(group)
        return sorted(killed)


def _end(group: Cgroup) -> set[int]:
    def look() -> list[kernel.Process]:
        return [row for row in group.rows() if not _spared(row.pid)]

    def at_once(_: list[kernel.Process]) -> None:
        if not any(_spared(row.pid) for row in group.rows()):
            group.kill()

    loop = killing.KillLoop(look, at_once=at_once)
    loop.run()
    deadline = time.monotonic() + killing.KILL_LIMIT
    while group.populated() and not group.rows() and time.monotonic() < deadline:
        group.kill()  # in a pid namespace that we do not see
        time.sleep(killing.ROUND_PAUSE)
    if not loop.survivors:
        group.remove(killing.KILL_LIMIT)
    return loop.killed


def _spared(pid: int) -> bool:
    """Tell whether it is this process or one above it: an agent may have moved it in."""
    return pid == os.getpid() or kernel.descends_from(os.getpid(), pid)


def _own_group() -> str:
    for line in (
        kernel.read_file("/proc/self/cgroup").decode("utf-8", "surrogateescape").split("\n")
    ):
        if line.startswith("0::"):
            return line[3:]
    raise FileNotFoundError("this kernel has no cgroup v2")


def _tag(home: Path) -> str:
    """Return what tells a state directory from all others: its path, and the directory itself."""
    stat = home.stat()
    name = f"{home.resolve()}:{stat.st_dev}:{stat.st_ino}"
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
