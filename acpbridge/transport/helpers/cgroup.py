"""The control group that an agent's tree is born in, where the kernel has them.

A shim enters one to start its agent, and kills what is in it; the daemon makes it (`controller`),
and kills what is in it where no shim is left.
"""

import os

from acpbridge.transport.helpers.kernel import (
    Process,
    lines_of,
    names_in,
    read_process,
    write_file,
)


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

    def remove(self) -> bool:
        """Remove it with all groups below it, and say whether it is gone.

        Call it when the tree is proven dead: who is still in it was moved in by somebody, is no
        part of the tree, and is put out before.
        """
        for row in self.rows():
            try:
                write_file(self.path.rpartition(b"/")[0] + b"/cgroup.procs", b"%d" % row.pid)
            except OSError:
                continue
        for folder in reversed(self._folders()):
            try:
                os.rmdir(folder)  # noqa: PTH106 - pathlib costs more than the whole keeper
            except OSError:
                continue
        return not self._folders()

    def _folders(self) -> list[bytes]:
        """Return its directory and those below it, parents first."""
        found = [self.path] if _is_folder(self.path) else []
        for folder in found:
            for name in names_in(os.fsdecode(folder)):
                below = folder + b"/" + os.fsencode(name)
                if _is_folder(below):
                    found.append(below)
        return found


def _is_folder(path: bytes) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return mode & 0o170000 == 0o040000  # stat.S_ISDIR, without the import
