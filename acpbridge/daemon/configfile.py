"""The configuration file on disk: read, and read again when it changes.

Above are the composition roots and the commands that look at it; what its text means is told by
`acpbridge.config.load`.
"""

from pathlib import Path

from acpbridge.config.load import load
from acpbridge.config.snapshot import Config
from acpbridge.daemon import textfile
from acpbridge.errors import BridgeError


class ConfigFile:
    """The configuration in force: read again when the file changes, the last good one if it is bad.

    Args:
        path: of the file; without one the defaults hold.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: textfile.Stamp = None
        self._config = Config()
        self.problem = ""

    def first(self) -> Config:
        """Read the file for the first time.

        Raises:
            BridgeError: `config_error`, with file, line and key.
        """
        self._stamp = textfile.stamp(self._path)
        self._config = self._read(first=True)
        return self._config

    def current(self) -> Config:
        """Return what is in force now."""
        stamp = textfile.stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._config, self.problem = self._read(first=False), ""
            except BridgeError as error:
                self.problem = f"the last good configuration is in force: {error.message}"
        return self._config

    def _read(self, *, first: bool) -> Config:
        text = textfile.read(self._path)
        if text is not None:
            return load(text, str(self._path), str(Path.home()))
        if first:
            return Config()
        raise BridgeError("config_error", f"{self._path} is gone.")
