"""The program behind guard, keeper and shim: `python -I -S start.py CONTROL GUARD DAEMON LIMIT`.

The daemon starts it (`acpbridge.transport.child`); nobody imports it but for its path.
"""

import gc
import os
import sys


def main(control_fd: int, guard_fd: int, daemon: int, soft_limit: int) -> None:
    """Become the guard.

    Args:
        control_fd: the keeper's channel to the daemon.
        guard_fd: the guard's channel to the daemon.
        daemon: its pid.
        soft_limit: how many files agents may have open; -1 leaves the limit as it is.
    """
    # Before all else: a helper that holds the daemon's stdout keeps a pipeline from ending.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    from acpbridge.transport.helpers.guard import guard
    from acpbridge.transport.helpers.role import close_all_but

    close_all_but({0, 1, 2, control_fd, guard_fd})
    for fd in (control_fd, guard_fd):
        os.set_inheritable(fd, False)  # noqa: FBT003 - the signature of the standard library
    os.chdir("/")
    gc.disable()  # nothing here makes cycles, and a collection would unshare the forked pages
    if soft_limit >= 0:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft_limit, hard))
    guard(control_fd, guard_fd, daemon)


if __name__ == "__main__":
    # Behind the standard library: nothing that lies beside acpbridge takes a module's place.
    sys.path.append(os.path.abspath(__file__).rsplit("/", 4)[0])  # noqa: PTH100 - pathlib is slow
    main(*(int(word) for word in sys.argv[1:5]))
