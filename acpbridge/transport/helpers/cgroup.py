"""The control group that an agent's tree is born in, where the kernel has them.

A shim enters one to start its agent, and kills what is in it; the daemon makes it (`controller`),
and kills what is in it where no shim is left.
"""

import os
import time

from acpbridge.transport.helpers.kernel import (
    Process,
    lines_of,
    read_process,
    write_file,
)

REMOVE_LIMIT = 1.0  # seconds in which a control group with all below it should be removed
GROUPS_LIMIT = 1000  # groups below one agent's that are looked at, and removed, at once


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
        write_file(self.path + b"/cgroup.procs", b"0")

    def leave(self) -> None:
        """Move this process out again, to where the group was made."""
        write_file(self.path.rpartition(b"/")[0] + b"/cgroup.procs", b"0")

    def rows(self) -> list[Process]:
        """Return who lives in it, and in groups that were made below it."""
        found = {}
        for folder in self._folders():
            for word in lines_of(folder + b"/cgroup.procs"):
                # A process that this pid namespace does not know has the number 0.
                row = read_process(int(word)) if word != b"0" else None
                if row is not None and row.alive:
                    found[row.pid] = row
        return list(found.values())

    def populated(self) -> bool:
        """Ask the kernel whether anybody is in it; zombies do not count."""
        return b"populated 1" in lines_of(self.path + b"/cgroup.events")

    def kill(self) -> None:
        """Have the kernel kill all that are in it, in one step that no fork can outrun."""
        try:
            write_file(self.path + b"/cgroup.kill", b"1")
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
                    write_file(self.path.rpartition(b"/")[0] + b"/cgroup.procs", b"%d" % row.pid)
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
        os.rmdir(folder)  # noqa: PTH106 - pathlib costs more than the whole helper
    except OSError:
        return not os.path.lexists(folder)
    return True
