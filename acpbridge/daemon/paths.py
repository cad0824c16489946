"""Where a daemon keeps its things. Standard library only, for the quick commands."""

import errno
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from acpbridge.errors import BridgeError

# sizeof(sun_path) of unix(7), less the NUL.
SOCKET_PATH_LIMIT: Final = 107

# How another process starts acpbridge: it imports nothing from the directory it is started in.
PROGRAM: Final = (sys.executable, "-P", "-X", "faulthandler", "-m", "acpbridge")


class Paths(NamedTuple):
    """The files of one state directory.

    Attributes:
        home: the state directory, absolute.
        config: the configuration file; it need not exist.
    """

    home: Path
    config: Path

    @property
    def policy(self) -> Path:
        """The rules on permissions, beside the configuration; it need not exist."""
        return self.config.parent / "policy.yaml"

    @property
    def lock(self) -> Path:
        """Held by the daemon; never removed."""
        return self.home / "daemon.lock"

    @property
    def socket(self) -> Path:
        """The control socket; in a short place where the state directory's path is too long."""
        path = self.home / "daemon.sock"
        if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT:
            return path
        import hashlib  # seldom needed, and slow to import

        name = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:16]
        return Path(f"/tmp/acpbridge-{os.getuid()}") / f"{name}.sock"  # noqa: S108 - checked: 0700

    @property
    def journal(self) -> Path:
        """What runs, for the sweep and for a kill past a frozen daemon."""
        return self.home / "processes.json"

    @property
    def killed(self) -> Path:
        """Which sessions were killed past a frozen daemon, until a daemon has taken note of it."""
        return self.home / "killed.jsonl"

    @property
    def audit(self) -> Path:
        """The chain of decisions."""
        return self.home / "audit.jsonl"

    @property
    def log(self) -> Path:
        """What the daemon says of itself."""
        return self.home / "daemon.log"


def find(home: str | None, environ: Mapping[str, str]) -> Paths:
    """Return the paths for `--home`, else `ACPBRIDGE_HOME`, else the XDG directories.

    Raises:
        BridgeError: `usage`, when there is no home directory to put them in.
    """
    chosen = home or environ.get("ACPBRIDGE_HOME")
    if chosen:
        base = _absolute(chosen)
        return Paths(base, base / "config.yaml")
    return default_of(environ)


def default_of(environ: Mapping[str, str]) -> Paths:
    """Return the paths for nobody's choice: the XDG directories.

    Raises:
        BridgeError: `usage`, when there is no home directory to put them in.
    """
    user = environ.get("HOME")
    if not user:
        raise BridgeError("usage", "HOME is not set.", hint="Give a state directory with --home.")
    state = _xdg(environ, "XDG_STATE_HOME", Path(user, ".local", "state"))
    config = _xdg(environ, "XDG_CONFIG_HOME", Path(user, ".config"))
    return Paths(_absolute(str(state / "acpbridge")), config / "acpbridge" / "config.yaml")


def _absolute(chosen: str) -> Path:
    """Return one spelling for one directory: agents' environments and the socket's name hold it.

    The directory itself may not be a link, what is above it may.
    """
    if "\0" in chosen:
        raise BridgeError("usage", f"{chosen!r} cannot be a state directory: it holds a NUL.")
    try:
        path = Path(os.path.normpath(Path(chosen).expanduser().absolute()))
        return path.parent.resolve() / path.name
    except (RuntimeError, OSError) as error:
        raise BridgeError("usage", f"{chosen!r} cannot be a state directory: {error}.") from None


def _xdg(environ: Mapping[str, str], name: str, default: Path) -> Path:
    """Return a directory of the XDG specification, which says to ignore a relative one."""
    path = Path(environ.get(name) or default)
    return path if path.is_absolute() else default


def make_private(directory: Path) -> None:
    """Make a directory of ours alone, or check that it is one.

    Raises:
        BridgeError: `not_our_socket`, when it is a link, another user's, or open to others;
            `state_directory`, when it cannot be made.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        pass  # it is no directory, which the check says better
    except OSError as error:
        full = error.errno == errno.ENOSPC
        message = f"The directory {directory} cannot be made: {error.strerror}."
        raise BridgeError("store_full" if full else "state_directory", message) from None
    check_private(directory)


def check_private(directory: Path) -> None:
    """Check that a directory is ours alone.

    Raises:
        BridgeError: `not_our_socket`, when it is a link, another user's, or open to others;
            `state_directory`, when it may not even be looked at.
        OSError: when there is none.
    """
    try:
        found = directory.lstat()
    except PermissionError as error:
        raise BridgeError("state_directory", f"{directory}: {error.strerror}.") from None
    if not stat.S_ISDIR(found.st_mode):
        raise BridgeError("not_our_socket", f"{directory} is not a directory.")
    if found.st_uid != os.getuid():
        raise BridgeError("not_our_socket", f"{directory} belongs to another user.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise BridgeError(
            "not_our_socket",
            f"{directory} is open to other users.",
            hint=f"Close it: chmod 700 {directory}",
        )
