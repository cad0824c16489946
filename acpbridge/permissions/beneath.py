"""Opening what truly lies beneath a directory: the kernel refuses every way out.

Links inside lead on as long as they stay inside; an absolute link, `..` past the top and a magic
link of procfs are refused. `openat2` does it where there is one; else the path is walked by hand,
a component at a time, and means the same. Above is `confine`, which knows what a session may reach.
"""

import ctypes
import errno
import functools
import os
from collections.abc import Callable, Sequence
from typing import Final

# openat2(2), the same number on every architecture; linux/openat2.h.
_OPENAT2: Final = 437
_NO_MAGICLINKS: Final = 0x02
_BENEATH: Final = 0x08

# Links in one path, as for the kernel (MAXSYMLINKS of linux/namei.h).
MOST_LINKS: Final = 40
# A rename somewhere in the file system makes the kernel give up a path with `..`: as often again.
_TRIES: Final = 64

# Directories that the walk holds open at once; no real tree is so deep.
DEEPEST: Final = 128

# A place to stand on while walking; where there is no O_PATH the directory has to be readable.
_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Opener = Callable[[int, Sequence[str], int], int]
"""`opener(top, names, flags)`: a descriptor of what the names lead to from the directory `top`."""


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def by_kernel(top: int, names: Sequence[str], flags: int) -> int:
    """Open by `openat2`.

    Raises:
        OSError: EXDEV for every way out, ELOOP for a magic link, ENOSYS where there is none.
    """
    path = os.fsencode("/".join(names) or ".")
    how = _How(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGICLINKS)
    syscall = _libc().syscall
    number = errno.EAGAIN
    for _ in range(_TRIES):
        fd: int = syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(top),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number))


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def by_walking(top: int, names: Sequence[str], flags: int) -> int:
    """Open by component, each link read and followed by hand; `..` goes back the way we came.

    Raises:
        OSError: as `by_kernel`.
    """
    held = [os.open(".", _STEP, dir_fd=top)]
    todo = [name for name in reversed(names) if name]
    links = 0
    try:
        while todo:
            name = todo.pop()
            if name == "..":
                _leave(held)
                continue
            if name == ".":
                continue
            target = _link(held[-1], name)
            if target is not None:
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                todo += _steps(target)
            elif todo:
                if len(held) > DEEPEST:
                    raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
                held.append(os.open(name, _STEP, dir_fd=held[-1]))
            else:
                return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=held[-1])
        return os.open(".", flags | os.O_CLOEXEC, dir_fd=held[-1])
    finally:
        for fd in held:
            os.close(fd)


def _leave(held: list[int]) -> None:
    if len(held) == 1:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    os.close(held.pop())


def _link(folder: int, name: str) -> str | None:
    """Return what a link holds; None if it is none, or is not there."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _steps(target: str) -> list[str]:
    """Return the components of a link in the order in which they are popped."""
    if target.startswith("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    # What ends with a slash is a directory, or an error.
    steps = [*target.split("/"), "."] if target.endswith("/") else target.split("/")
    return [step for step in reversed(steps) if step]


@functools.cache
def opener() -> Opener:
    """Return the way that this kernel has, found out by trying once."""
    top = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(by_kernel(top, (), os.O_RDONLY | os.O_DIRECTORY))
    except (OSError, AttributeError):  # none, or forbidden by a filter; or another C library
        return by_walking
    finally:
        os.close(top)
    return by_kernel
