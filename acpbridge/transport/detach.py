"""Starts the daemon: a process that outlives its starter and tells it once when it is ready."""

import errno
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from acpbridge.transport.pipes import PipeReader

# One process in between, which ends at once: whoever starts the daemon may live long, and is not to
# have it as a child that nobody waits for.
_FORK: Final = "import os, sys\nif os.fork() == 0:\n    os.execv(sys.argv[1], sys.argv[1:])\n"


def _open(log: Path) -> int:
    """Open the log; where something else stands in its place, the daemon has to start all the same.

    Raises:
        OSError: out of descriptors, for instance.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        out = os.open(log, flags, 0o600)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES):
            raise
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.set_blocking(out, True)
    return out


def start_detached(
    argv: tuple[str, ...], env: Mapping[str, str], log: Path, ready_option: str
) -> PipeReader:
    """Start a process in a session of its own; return what it writes to say that it is ready.

    Args:
        argv: the program, by its path; `ready_option` and the number of a descriptor are added.
        env: the whole environment.
        log: where its stdout and stderr are appended; made with mode 0600.
        ready_option: the option that takes the descriptor.

    Raises:
        OSError: when it cannot be started.
    """
    with ExitStack() as stack:
        out = _open(log)
        stack.callback(os.close, out)
        read, write = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, write)
        guard = stack.enter_context(ExitStack())
        guard.callback(os.close, read)
        subprocess.run(
            (sys.executable, "-I", "-S", "-c", _FORK, *argv, ready_option, str(write)),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=dict(env),
            cwd="/",
            pass_fds=(write,),
            start_new_session=True,
        )
        os.set_blocking(read, False)
        guard.pop_all()
        return PipeReader(read)
