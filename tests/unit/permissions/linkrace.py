"""Files are read and written below a directory that another process swaps for a link, and back."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acpbridge.errors import BridgeError
from acpbridge.permissions import textfiles
from acpbridge.permissions.beneath import Opener, by_kernel, by_walking, opener
from acpbridge.permissions.confine import Roots
from acpbridge.transport.helpers import libc

# What this kernel has; the walk by hand is everywhere.
OPENERS = [by_walking, by_kernel] if opener() is by_kernel else [by_walking]

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h


class Race:
    """A session's directory with `d` in it, and a secret outside that a link leads to.

    Attributes:
        got: how the attempts ended: `inside`, `written`, or the code of the error.
        tries: how many there were.
    """

    def __init__(self, folder: Path, way: Opener) -> None:
        self._app, self._out = folder / "app", folder / "out"
        for where, text in ((self._app / "d", "inside"), (self._out, "secret")):
            where.mkdir(parents=True)
            (where / "x").write_text(text, encoding="utf-8")
        self._way = way
        self._roots = Roots()
        self.got: Counter[str] = Counter()
        self.tries = 0

    @contextmanager
    def swapping(self) -> Iterator[None]:
        """Have `d` swapped for a link to the secret, and back, all the while."""
        self._roots = Roots.of([str(self._app)], self._way)
        pid = os.fork()
        if pid == 0:
            self._swap()
        try:
            yield
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self._roots.close()

    def _swap(self) -> None:
        link = self._app / "link"
        names = [os.fsencode(path) for path in (self._app / "d", link)]
        try:
            link.symlink_to("../out")
            while True:
                libc.call("renameat2", AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE)
        finally:
            os._exit(1)

    def attempt(self) -> None:
        """Read a file and write one; what was looked at may be another thing in between."""
        self.tries += 2
        for work in (self._read, self._write):
            try:
                self.got[work()] += 1
            except BridgeError as error:
                self.got[error.code] += 1

    def _read(self) -> str:
        place = self._roots.place(str(self._app / "d" / "x"))
        return textfiles.read(self._roots, place, textfiles.look(self._roots, place))

    def _write(self) -> str:
        place = self._roots.place(str(self._app / "d" / "new"))
        seen = textfiles.look_to_write(self._roots, place)
        textfiles.write(self._roots, place, seen, "inside")
        return "written"

    @property
    def escapes(self) -> int:
        """How often something came out, and what came in."""
        strangers = [entry for entry in self._out.iterdir() if entry.name != "x"]
        return self.got["secret"] + len(strangers)

    @property
    def seen_both_ways(self) -> bool:
        """Whether the other process really ran: some attempts met the directory, some the link."""
        met = self.got["inside"] + self.got["written"]
        return met > 0 and self.got["invalid_params"] > 0
