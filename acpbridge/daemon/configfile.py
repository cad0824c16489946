"""The configuration file on disk: read, and read again when it changes.

Above are the composition roots and the commands that look at it; what its text means is told by
`acpbridge.config.load`.
"""

from pathlib import Path
from typing import Final

from acpbridge.config.load import load
from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError

# Four times what the reader of the text takes, should every character be a long one. Bytes.
CONFIG_LIMIT: Final = 1024 * 1024


class ConfigFile:
    """The configuration in force: read again when the file changes, the last good one if it is bad.

    Args:
        path: of the file; without one the defaults hold.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, ...] | None = None
        self._config = Config()
        self.problem = ""

    def first(self) -> Config:
        """Read the file for the first time.

        Raises:
            BridgeError: `config_error`, with file, line and key.
        """
        self._stamp = self._look()
        self._config = self._read(first=True)
        return self._config

    def current(self) -> Config:
        """Return what is in force now."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._config, self.problem = self._read(first=False), ""
            except BridgeError as error:
                self.problem = f"the last good configuration is in force: {error.message}"
        return self._config

    def _look(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return (error.errno or 0,)  # reading it says what is wrong
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

    def _read(self, *, first: bool) -> Config:
        try:
            # A FIFO would hold the daemon up, and a device might never end.
            if self._path.exists() and not self._path.is_file():
                raise BridgeError("config_error", f"{self._path} is not a file.")
            with self._path.open("rb") as file:
                data = file.read(CONFIG_LIMIT + 1)
            if len(data) > CONFIG_LIMIT:
                raise BridgeError("config_error", f"{self._path}: over {CONFIG_LIMIT} bytes.")
            text = data.decode("utf-8-sig")
        except FileNotFoundError:
            if first:
                return Config()
            raise BridgeError("config_error", f"{self._path} is gone.") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            message = f"{self._path}, line {line}: not UTF-8; save the file as UTF-8."
            raise BridgeError("config_error", message) from None
        except OSError as error:
            message = f"{self._path} cannot be read: {error.strerror}."
            raise BridgeError("config_error", message) from None
        return load(text, str(self._path), str(Path.home()))
