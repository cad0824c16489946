"""What runs, written down: pid, start ticks and boot id of every supervised process.

The supervisor writes it; a `kill` while the daemon is frozen and the sweep of the next start read
it. Imports only what starts fast. An entry is evidence, never proof: whoever acts on it looks at
the kernel again, and a process counts only with its start ticks in the same boot.
"""

import errno
import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from acpbridge.controller.ownfile import read_own
from acpbridge.model.faults import Faults, no_faults
from acpbridge.transport.helpers import kernel

VERSION: Final = 1

# A thousand trees of a hundred processes each take half of it. Bytes.
LIMIT: Final = 16 * 1024 * 1024

# What reading something else raises, whatever it is.
_NOT_A_JOURNAL: Final = (
    *(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One process: its pid means nothing without its start ticks."""

    pid: int
    start_ticks: int

    def to_json(self) -> dict[str, int]:
        """Return the fields as they are written."""
        return {"pid": self.pid, "startTicks": self.start_ticks}

    def alive(self) -> bool:
        """Ask the kernel whether this very process still runs."""
        row = kernel.read_process(self.pid)
        return row is not None and row.start_ticks == self.start_ticks and row.alive


@dataclass(frozen=True, slots=True)
class Tree:
    """One session's processes: its shim, its agent, and the members as last seen.

    Attributes:
        shim: ends the tree.
        agent: the program itself.
        members: everything below the shim.
        argv_sha256: of the command.
        parent: the session that spawned this one; "" for nobody's.
        above: the parent, who spawned that one, and so on: some of them may have no process.
        beside: shims of what else is the session's: each ends the tree of one of its terminals.
    """

    shim: Entry
    agent: Entry
    members: tuple[Entry, ...] = ()
    argv_sha256: str = ""
    parent: str = ""
    above: tuple[str, ...] = ()
    beside: tuple[Entry, ...] = ()

    @property
    def shims(self) -> tuple[Entry, ...]:
        """Who ends it: each of them a part."""
        return (self.shim, *self.beside)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as they are written."""
        return {
            "shim": self.shim.to_json(),
            "agent": self.agent.to_json(),
            "members": [member.to_json() for member in self.members],
            "argvSha256": self.argv_sha256,
            "parent": self.parent,
            "above": list(self.above),
            "beside": [shim.to_json() for shim in self.beside],
        }


@dataclass(frozen=True, slots=True)
class Journal:
    """The whole state of one daemon's processes.

    Attributes:
        boot_id: of the boot in which the numbers mean something.
        uid: whose processes they are.
        daemon: who wrote it.
        keeper: its keeper.
        trees: what runs for each session, by its key.
        guard: the keeper's guard.
        home: the state directory; "" where an older daemon wrote none down.
        above: the daemon's ancestors at its start: one of them, or the first process, is given
            whatever outlives daemon and helpers.
        left: processes of an earlier daemon that could not be ended.
        group: the daemon's own control group; "" where there are none, or where an older daemon
            did not write it down.
    """

    boot_id: str
    uid: int
    daemon: Entry
    keeper: Entry
    trees: Mapping[str, Tree] = field(default_factory=dict)
    guard: Entry | None = None
    home: str = ""
    above: tuple[Entry, ...] = ()
    left: tuple[Entry, ...] = ()
    group: str = ""

    def write(self, path: Path, faults: Faults = no_faults, folder: int | None = None) -> None:
        """Replace the file; a reader sees the old one or the new one, whole.

        Args:
            path: of the file.
            faults: the points at which a test may cut it off.
            folder: descriptor of its directory: should that have been moved or removed, nothing is
                written to what stands in its place, which is another daemon's.

        It is not flushed to the disk: it has to outlive the daemon, which the kernel's cache does.
        After a loss of power it means nothing, for the boot is another one; should it be torn
        then, its checksum says so.

        Raises:
            OSError: when it cannot be written.
        """
        value: dict[str, Any] = {
            "version": VERSION,
            "bootId": self.boot_id,
            "uid": self.uid,
            "daemon": self.daemon.to_json(),
            "keeper": self.keeper.to_json(),
            "guard": None if self.guard is None else self.guard.to_json(),
            "sessions": {name: tree.to_json() for name, tree in self.trees.items()},
            "home": self.home,
            "above": [entry.to_json() for entry in self.above],
            "left": [entry.to_json() for entry in self.left],
            "group": self.group,
        }
        value["crc"] = checksum(value)
        data = json.dumps(value, separators=(",", ":")).encode()
        whole = os.fspath(path) if folder is None else path.name
        part = f"{whole}.part"
        # Whatever an earlier one left there, a FIFO or a link included, is nobody's.
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(part, flags, 0o600, dir_fd=folder)
        try:
            if os.write(fd, data[: faults("journal.write")]) != len(data):
                raise OSError(errno.ENOSPC, "only a part was written")
        finally:
            os.close(fd)
        faults("journal.rename")
        os.replace(part, whole, src_dir_fd=folder, dst_dir_fd=folder)
        faults("journal.renamed")

    @classmethod
    def read(cls, path: Path) -> "Journal | None":
        """Return what the file holds, None if there is none or it cannot be understood."""
        try:
            value = json.loads(read_own(path, LIMIT) or b"")
            # An older daemon wrote no sum.
            if value.pop("crc", None) not in (None, checksum(value)) or value["version"] != VERSION:
                return None
            return cls(
                boot_id=str(value["bootId"]),
                uid=int(value["uid"]),
                daemon=_entry(value["daemon"]),
                keeper=_entry(value["keeper"]),
                trees={name: _tree(tree) for name, tree in value["sessions"].items()},
                # An older daemon did not write it down.
                guard=None if value.get("guard") is None else _entry(value["guard"]),
                home=str(value.get("home", "")),
                above=tuple(_entry(entry) for entry in value.get("above", ())),
                left=tuple(_entry(entry) for entry in value.get("left", ())),
                group=str(value.get("group", "")),
            )
        except _NOT_A_JOURNAL:
            return None

    @classmethod
    def damaged(cls, path: Path) -> bool:
        """Whether there is something in its place that says nothing of what runs."""
        return os.path.lexists(path) and cls.read(path) is None

    def of_this_boot(self) -> bool:
        """Whether its numbers mean anything now."""
        return self.boot_id == kernel.boot_id() and self.uid == os.getuid()

    def entries(self) -> set[tuple[int, int]]:
        """Return everybody who is the daemon's: pid and start ticks of helpers and trees."""
        helpers = (self.keeper, *(() if self.guard is None else (self.guard,)), *self.left)
        trees = self.trees.values()
        below = [e for tree in trees for e in (*tree.shims, tree.agent, *tree.members)]
        return {(entry.pid, entry.start_ticks) for entry in (*helpers, *below)}


def without_journal(path: Path) -> str:
    """Return what an operator should know where a daemon's journal is damaged."""
    return (
        f"the process journal {path} is damaged: what an earlier daemon left is known by its marker"
        " alone, which is no proof. It is shown as unowned, and not ended"
    )


def checksum(value: Mapping[str, Any]) -> int:
    """Return a sum in which each single bit of a JSON object counts: one pid is like another."""
    return zlib.crc32(json.dumps(value, separators=(",", ":"), sort_keys=True).encode())


def _entry(value: Any) -> Entry:
    entry = Entry(int(value["pid"]), int(value["startTicks"]))
    if entry.pid <= 0:
        raise ValueError("a pid of 0 or below names a group, not a process")
    return entry


def _tree(value: Any) -> Tree:
    members = tuple(_entry(member) for member in value["members"])
    shim, agent = _entry(value["shim"]), _entry(value["agent"])
    parent = str(value.get("parent", ""))
    # An older daemon wrote down no more than the parent.
    above = tuple(map(str, value.get("above", [parent] if parent else [])))
    beside = tuple(_entry(shim) for shim in value.get("beside", ()))
    return Tree(shim, agent, members, str(value["argvSha256"]), parent, above, beside)
