"""Calls of the C library that `os` has not; without ctypes, which is slow to import."""

import _ctypes
import os

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36  # linux/prctl.h
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000  # linux/sched.h
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000  # linux/mount.h


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg] # noqa: SLF001 - ctypes is slow
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


def call(name: str, *args: int | bytes | None) -> None:
    """Call a function of the C library that returns 0, or raise OSError."""
    result: object = _Function(_ctypes.dlsym(_ctypes.dlopen("", 0), name))(*args)
    if result != 0:
        number = _ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def prctl(option: int, value: int | bytes) -> None:
    """Change what the kernel does with this process; OSError."""
    call("prctl", option, value, 0, 0, 0)
