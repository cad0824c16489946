"""A text file read, and written whole or not at all, at a place that a session may reach.

A write is a new file beside the old one, synced, then renamed over it. `look` says what there is,
for a question; `read` and `write` look again and do nothing if it is no longer what was looked at.
All of it blocks: above, `runtimes.client_files` calls it in a thread.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults
from acpbridge.permissions.confine import Place, Roots, path_of, refused

# As large as a file may be, in bytes; sources have some hundred kilobytes at most.
LARGEST: Final = 10 * 1024 * 1024

# A FIFO would hang, a terminal become ours.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LOOK: Final = getattr(os, "O_PATH", _READ) | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SPECIAL: Final = stat.S_ISUID | stat.S_ISGID
_ACL: Final = "system.posix_acl_access"
_CAPABILITY: Final = "security.capability"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was at a place when it was looked at.

    Attributes:
        path: the real one.
        file: identity of the file: device, inode, size and time of its last change; None: none yet.
        links: names that the file has.
        folder: identity of its directory: device and inode; for a write only.
        text: what it holds; for a write only, None for a new file.
    """

    path: str
    file: tuple[int, ...] | None
    links: int = 1
    folder: tuple[int, int] | None = None
    text: str | None = None


def look(roots: Roots, place: Place) -> Seen:
    """Return what there is to be read.

    Raises:
        BridgeError: `invalid_params`, `no_such_file`, `message_too_large`, `file_failed`.
    """
    fd, status = _open_to_read(roots, place)
    try:
        return Seen(path_of(fd), _identity(status), status.st_nlink)
    finally:
        os.close(fd)


def read(roots: Roots, place: Place, seen: Seen) -> str:
    """Return the text of the file that was looked at.

    Raises:
        BridgeError: as `look`; `file_failed` too if it is another file by now.
    """
    fd, status = _open_to_read(roots, place)
    try:
        if (path_of(fd), _identity(status)[:2]) != (seen.path, (seen.file or ())[:2]):
            raise changed(place)
        return _text(place, _bytes(place, fd))
    finally:
        os.close(fd)


def look_to_write(roots: Roots, place: Place) -> Seen:
    """Return what would be written over, or that there is nothing.

    Raises:
        BridgeError: as `look`; `no_such_file` if there is no directory for it.
    """
    folder = _open_folder(roots, place)
    try:
        return _seen(place, folder)
    finally:
        os.close(folder)


def write(
    roots: Roots,
    place: Place,
    seen: Seen,
    content: str,
    *,
    wanted: Callable[[], bool] = lambda: True,
    faults: Faults = no_faults,
) -> None:
    """Write a file whole, over exactly what was looked at.

    It keeps the mode, the owner and the access list of the file that it replaces. A new one is
    readable for whoever may list its directory, and writable for its owner alone: the daemon's own
    umask, which shuts out everybody, would make files that nobody expects in a workspace.

    Args:
        roots: of the session.
        place: of the file.
        seen: what was there when it was allowed.
        content: all that it is to hold.
        wanted: asked just before it counts.
        faults: points at which a test may fail or kill.

    Raises:
        BridgeError: as `look_to_write`; `file_failed` too if something else is there by now;
            `request_cancelled` if it is no longer wanted. Then nothing was written.
    """
    folder = _open_folder(roots, place)
    draft = f".acpbridge-{secrets.token_hex(8)}.tmp"
    try:
        _expect(place, folder, seen)
        fd = os.open(draft, _NEW, 0o600, dir_fd=folder)
        try:
            _fill(fd, content.encode(), faults)
            _dress(place, folder, fd)
            faults("file.sync")
            os.fsync(fd)
            _expect(place, folder, seen)
            _check_wanted(wanted)
            faults("file.rename")
            os.rename(draft, place.names[-1], src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise
        finally:
            os.close(fd)
        faults("file.renamed")
        os.fsync(folder)
    except OSError as error:
        raise failed(place, error) from None
    finally:
        os.close(folder)


def changed(place: Place) -> BridgeError:
    """Return the error for a place where something else is than was shown."""
    message = f"{place.path} was changed since it was asked about; nothing was done."
    return BridgeError("file_failed", message, hint="Read it again, then ask again.")


def failed(place: Place, error: OSError) -> BridgeError:
    """Return the error for what the system says of a file."""
    if error.errno == errno.ENOENT:
        message = f"Resource not found: {place.path}"
        return BridgeError("no_such_file", message, data={"path": place.path})
    words = (error.strerror or "failed").lower()
    return BridgeError("file_failed", f"{place.path}: {words}.", data={"path": place.path})


def _open_to_read(roots: Roots, place: Place) -> tuple[int, os.stat_result]:
    _check_name(place)
    try:
        # Looked at before it is opened: to open a device may do something.
        before = _status_of(roots, place, _LOOK)
        _check_kind(place, before)
        fd = roots.open(place, _READ)
    except OSError as error:
        raise failed(place, error) from None
    try:
        status = os.fstat(fd)
        _check_kind(place, status)
    except BaseException:
        os.close(fd)
        raise
    return fd, status


def _status_of(roots: Roots, place: Place, flags: int) -> os.stat_result:
    fd = roots.open(place, flags)
    try:
        return os.fstat(fd)
    finally:
        os.close(fd)


def _open_folder(roots: Roots, place: Place) -> int:
    _check_name(place)
    try:
        return roots.open_folder(place)
    except OSError as error:
        if error.errno == errno.ENOENT:
            message = f"The directory of {place.path} does not exist; create it first."
            raise BridgeError("no_such_file", message, data={"path": place.path}) from None
        raise failed(place, error) from None


def _check_name(place: Place) -> None:
    if not place.names:
        raise refused(place.path, "is a directory of the session itself")
    if place.path.endswith(("/", "/.")):
        raise refused(place.path, "names a directory")


def _check_kind(place: Place, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise refused(place.path, "is no regular file")
    if status.st_size > LARGEST:
        raise _too_large(place)


def _too_large(place: Place) -> BridgeError:
    message = f"{place.path} has more than {LARGEST} bytes; that is the limit for files."
    return BridgeError("message_too_large", message, data={"path": place.path})


def _seen(place: Place, folder: int) -> Seen:
    """Return what is there to be written over; no link is followed."""
    here = os.fstat(folder)
    path = f"{path_of(folder).rstrip('/')}/{place.names[-1]}"
    identity = (here.st_dev, here.st_ino)
    fd = _open_old(place, folder)
    if fd is None:
        return Seen(path, None, folder=identity)
    try:
        status = os.fstat(fd)
        _check_kind(place, status)
        if status.st_mode & _SPECIAL or _CAPABILITY in _attributes(fd):
            raise refused(place.path, "runs with rights of its own (setuid, setgid): not written")
        text = _text(place, _bytes(place, fd))
        return Seen(path, _identity(status), status.st_nlink, identity, text)
    finally:
        os.close(fd)


def _open_old(place: Place, folder: int) -> int | None:
    name = place.names[-1]
    try:
        before = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(before.st_mode):
            raise refused(place.path, "is a symbolic link: write to the file itself")
        _check_kind(place, before)
        return os.open(name, _READ | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failed(place, error) from None


def _expect(place: Place, folder: int, seen: Seen) -> None:
    """Look again: the same directory, the same path, the same file with the same content."""
    if _seen(place, folder) != seen:
        raise changed(place)


def _check_wanted(wanted: Callable[[], bool]) -> None:
    if not wanted():
        raise BridgeError("request_cancelled", "It is no longer wanted; nothing was written.")


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _bytes(place: Place, fd: int) -> bytes:
    """Return all that a file holds; it may grow while it is read, but not without end."""
    pieces, size = [], 0
    while piece := os.read(fd, min(1 << 20, LARGEST + 1 - size)):
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST:
            raise _too_large(place)
    return b"".join(pieces)


def _text(place: Place, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        message = f"{place.path} is no UTF-8 text: byte {error.start} is not."
        raise BridgeError("file_failed", message, data={"path": place.path}) from None


def _fill(fd: int, data: bytes, faults: Faults) -> None:
    at_most = faults("file.write")
    done = os.write(fd, data if at_most is None else data[:at_most])
    while done < len(data):
        done += os.write(fd, data[done:])


def _dress(place: Place, folder: int, fd: int) -> None:
    """Give the new file the mode, the owner and the access list of the one that it replaces."""
    old = _open_old(place, folder)
    if old is None:
        os.fchmod(fd, 0o600 | (0o044 & os.fstat(folder).st_mode))
        return
    try:
        status, now = os.fstat(old), os.fstat(fd)
        if (status.st_uid, status.st_gid) != (now.st_uid, now.st_gid):
            os.fchown(fd, status.st_uid, status.st_gid)
        # The list before the mode: alone, the mode of a file with a list lets its group in.
        _copy_attributes(old, fd)
        os.fchmod(fd, stat.S_IMODE(status.st_mode))
    except PermissionError:
        raise refused(place.path, "belongs to somebody else: its owner would change") from None
    finally:
        os.close(old)


def _attributes(fd: int) -> tuple[str, ...]:
    try:
        return tuple(os.listxattr(fd)) if hasattr(os, "listxattr") else ()
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return ()
        raise


def _copy_attributes(old: int, new: int) -> None:
    """Copy extended attributes, the access list among them: without it others could get in."""
    names = _attributes(old)
    for name in names:
        if name.startswith("user.") or name == _ACL:
            os.setxattr(new, name, os.getxattr(old, name))
    if _ACL in _attributes(new) and _ACL not in names:
        os.removexattr(new, _ACL)
