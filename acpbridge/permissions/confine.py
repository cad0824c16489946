"""The directories that a session may reach, and the places below them that an agent's path names.

A root is opened once, when the session's process starts, and is what its path meant then. A path is
compared by component, never as text, and what it leads to is found from the open root by `beneath`:
no link, no `..` and no renamed directory gets out. Blocking; above are `textfiles` and runtimes.
"""

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.permissions.beneath import Opener, opener

# As long as a path may be for the kernel, in bytes (PATH_MAX of linux/limits.h).
LONGEST_PATH: Final = 4096

_ROOT: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Out of the root, or by a link that the kernel does not follow.
_WAYS_OUT: Final = (errno.EXDEV, errno.ELOOP)
# What the kernel makes up: the daemon's own environment is a regular file there.
_MADE_UP: Final = (("proc",), ("sys",))


@dataclass(frozen=True, slots=True)
class Root:
    """A directory of a session.

    Attributes:
        fd: of it, open for as long as the session's process lives.
        names: the components of its path: as it was given, and with every link followed.
    """

    fd: int
    names: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads from its root; whether anything is there is not looked at yet.

    Attributes:
        root: that it is below.
        path: as the agent wrote it.
        names: the components below the root; none for the root itself.
    """

    root: Root
    path: str
    names: tuple[str, ...]


class Roots:
    """The directories of a session, open.

    Args:
        roots: of the session; a path below several is below the deepest.
        open_beneath: the way to open what is below one; by default that of this kernel.
    """

    def __init__(self, roots: Sequence[Root] = (), open_beneath: Opener | None = None) -> None:
        self._roots = tuple(roots)
        self._open = open_beneath or opener()
        self._held = [root.fd for root in roots]
        self._users: set[object] = set()
        self._left = False

    @classmethod
    def of(cls, paths: Sequence[str], open_beneath: Opener | None = None) -> "Roots":
        """Open the directories of a session.

        A directory that is not there, or whose path is not absolute, is none: nothing is below it.
        """
        found = (_opened(path) for path in paths)
        return cls([root for root in found if root is not None], open_beneath)

    def close(self) -> None:
        """Close the directories, now or when the last thread that is using them is done."""
        self._left = True
        if not self._users:
            self._let_go()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the directories open meanwhile, whoever closes them: their numbers stay theirs.

        For the threads that work with them: one that hangs is given up and not waited for. A set
        and a list each change in one step, so that no lock is needed.

        Raises:
            BridgeError: `request_cancelled`: they are closed.
        """
        me = object()
        self._users.add(me)
        try:
            if self._left:
                raise BridgeError("request_cancelled", "The session is being left.")
            yield
        finally:
            self._users.discard(me)
            if self._left and not self._users:
                self._let_go()

    def _let_go(self) -> None:
        with suppress(IndexError):
            while True:
                os.close(self._held.pop())

    def place(self, path: str) -> Place:
        """Return where an agent's path leads, by its text alone.

        Raises:
            BridgeError: `invalid_params`: it is not an absolute path truly below a root.
        """
        names = _components(path)
        found: Place | None = None
        for root in self._roots:
            for prefix in root.names:
                if names[: len(prefix)] != prefix:
                    continue
                place = Place(root, path, names[len(prefix) :])
                if found is None or len(place.names) < len(found.names):
                    found = place
        if found is None:
            raise refused(path, "is not below a directory of this session")
        return found

    def open(self, place: Place, flags: int) -> int:
        """Open what is at a place; inner links are followed.

        Raises:
            BridgeError: `invalid_params`: it leads out.
            OSError: whatever else the kernel says.
        """
        return self._checked(place, place.names, flags)

    def open_folder(self, place: Place) -> int:
        """Open the directory that the last component of a place is in.

        Raises:
            BridgeError: `invalid_params`: it leads out, or the place is the root itself.
            OSError: whatever else the kernel says.
        """
        if not place.names:
            raise refused(place.path, "is a directory of the session itself")
        return self._checked(place, place.names[:-1], _FOLDER)

    def folder(self, path: str) -> str:
        """Return the real path of a directory that is a root or below one.

        Raises:
            BridgeError: `invalid_params`: it is not.
            OSError: whatever else the kernel says.
        """
        fd = self.open(self.place(path), _FOLDER)
        try:
            return path_of(fd)
        finally:
            os.close(fd)

    def _checked(self, place: Place, names: Sequence[str], flags: int) -> int:
        try:
            fd = self._open(place.root.fd, names, flags)
        except OSError as error:
            if error.errno in _WAYS_OUT:
                message = "leads out of the session's directories, or through a link that may"
                raise refused(place.path, message) from None
            raise
        try:
            _check_below(place, path_of(fd))
        except BaseException:
            os.close(fd)
            raise
        return fd


def path_of(fd: int) -> str:
    """Return the real path of an open directory or file.

    Raises:
        OSError: the system does not say.
    """
    command = getattr(fcntl, "F_GETPATH", None)  # where there is no procfs
    if command is not None:
        return os.fsdecode(fcntl.fcntl(fd, command, bytes(1024)).rstrip(b"\0"))
    return str(Path(f"/proc/self/fd/{fd}").readlink())


def refused(path: str, why: str) -> BridgeError:
    """Return the error for a path that an agent may not name."""
    return BridgeError(
        "invalid_params",
        f"{path[:LONGEST_PATH]} {why}.",
        hint="Name a file below the session's directory by its absolute path.",
        data={"path": path[:LONGEST_PATH]},
    )


def _check_below(place: Place, real: str) -> None:
    """Refuse a file by where the system itself says that it is, after every way out was refused."""
    names, above = _split(real), _split(path_of(place.root.fd))
    # A name that is no UTF-8 could be neither shown nor compared with a rule.
    sound = real.startswith("/") and not any("\ud800" <= c <= "\udfff" for c in real)
    if not sound or names[: len(above)] != above or names[:1] in _MADE_UP:
        raise refused(place.path, "is not below a directory of this session")


def _opened(path: str) -> Root | None:
    """Return a root; an empty path must not come to mean this process's own directory."""
    if not path.startswith("/") or "\0" in path:
        return None
    try:
        fd = os.open(path, _ROOT)
    except OSError:
        return None
    try:
        names = dict.fromkeys((_split(os.path.normpath(path)), _split(path_of(fd))))
    except BaseException:
        os.close(fd)
        raise
    return Root(fd, tuple(names))


def _components(path: str) -> tuple[str, ...]:
    if not path.startswith("/"):
        raise refused(path, "is not an absolute path")
    if "\0" in path:
        raise refused(path.replace("\0", "\ufffd"), "has a NUL in it")
    if len(path.encode("utf-8", "surrogatepass")) > LONGEST_PATH:
        raise refused(path, f"... has more than {LONGEST_PATH} bytes")
    names = _split(path)
    if ".." in names:
        raise refused(path, "has `..` in it: name the file by its plain path")
    return names


def _split(path: str) -> tuple[str, ...]:
    """Return the components of an absolute path."""
    return tuple(name for name in path.split("/") if name not in ("", "."))
