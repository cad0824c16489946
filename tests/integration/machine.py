"""A machine for a test: a PATH of its own, with fake agents under the names of real ones."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fixtures.fake_acp import ENTRY
from tests.integration.daemon_home import Home

# The modes of an agent that starts in one in which nobody is asked, as a known one does.
MODES = ("--modes", "agent,read-only", "--mode", "agent")


class Machine:
    """The programs that a home's commands find, and nothing else.

    Args:
        home: whose PATH it is.
        folder: empty.
    """

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.bin = folder / "bin"
        self.bin.mkdir()
        home.env["PATH"] = str(self.bin)

    def install(self, name: str, *options: str, first: Sequence[str] = ()) -> Path:
        """Put a fake agent on the PATH under a name.

        Args:
            name: of the program.
            options: of the fake agent; what the program itself is given is left out.
            first: lines of shell that come before it.
        """
        agent = [sys.executable, "-I", "-S", ENTRY, "--mark", self.home.mark, *options]
        return self.script(name, *first, f"exec {shlex.join(agent)}")

    def script(self, name: str, *lines: str) -> Path:
        """Put a shell script on the PATH."""
        path = self.bin / name
        path.write_text("\n".join(("#!/bin/sh", *lines, "")), encoding="utf-8")
        path.chmod(0o755)
        return path
