"""What runs, written down: pid, start ticks and boot id of every supervised process.

The supervisor writes it; a `kill` while the daemon is frozen and the sweep of the next start read
it. Imports only what starts fast. An entry is evidence, never proof: whoever acts on it looks at
the kernel again, and a process counts only with its start ticks in the same boot.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from acpbridge.transport import keeper as kernel

VERSION: Final = 1

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
    """

    shim: Entry
    agent: Entry
    members: tuple[Entry, ...] = ()
    argv_sha256: str = ""
    parent: str = ""
    above: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields as they are written."""
        return {
            "shim": self.shim.to_json(),
            "agent": self.agent.to_json(),
            "members": [member.to_json() for member in self.members],
            "argvSha256": self.argv_sha256,
            "parent": self.parent,
            "above": list(self.above),
        }


@dataclass(frozen=True, slots=True)
class Journal:
    """The whole state of one daemon's processes."""

    boot_id: str
    uid: int
    daemon: Entry
    keeper: Entry
    trees: Mapping[str, Tree] = field(default_factory=dict)
    guard: Entry | None = None

    def write(self, path: Path) -> None:
        """Replace the file; a reader sees the old one or the new one, whole.

        It is not flushed to the disk: after a loss of power it would mean nothing anyway.

        Raises:
            OSError: when it cannot be written.
        """
        value = {
            "version": VERSION,
            "bootId": self.boot_id,
            "uid": self.uid,
            "daemon": self.daemon.to_json(),
            "keeper": self.keeper.to_json(),
            "guard": None if self.guard is None else self.guard.to_json(),
            "sessions": {name: tree.to_json() for name, tree in self.trees.items()},
        }
        part = path.with_name(path.name + ".part")
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as out:
            json.dump(value, out, separators=(",", ":"))
        part.replace(path)

    @classmethod
    def read(cls, path: Path) -> "Journal | None":
        """Return what the file holds, None if there is none or it cannot be understood."""
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            if value["version"] != VERSION:
                return None
            return cls(
                boot_id=str(value["bootId"]),
                uid=int(value["uid"]),
                daemon=_entry(value["daemon"]),
                keeper=_entry(value["keeper"]),
                trees={name: _tree(tree) for name, tree in value["sessions"].items()},
                # An older daemon did not write it down.
                guard=None if value.get("guard") is None else _entry(value["guard"]),
            )
        except (OSError, *_NOT_A_JOURNAL):
            return None

    def of_this_boot(self) -> bool:
        """Whether its numbers mean anything now."""
        return self.boot_id == kernel.boot_id() and self.uid == os.getuid()


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
    return Tree(shim, agent, members, str(value["argvSha256"]), parent, above)
