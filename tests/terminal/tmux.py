"""A terminal of a test's own: a tmux server on a private socket, typed into and read from.

The screen is read as tmux draws it, so whatever moves the cursor has had its effect.
"""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

LIMIT = 30.0
PAUSE = 0.05

# A prompt that nothing of ours prints, with the number of the next command: bash's `\\#`.
PROMPT = "ready-{}>"


class Screen:
    """One terminal: what it shows, and what a person types.

    Args:
        socket: of the tmux server.
        name: of the session.
    """

    def __init__(self, socket: Path, name: str, env: Mapping[str, str]) -> None:
        self._socket = socket
        self._name = name
        self._env = env
        self._commands = 1
        self.seen = ""

    def text(self) -> str:
        """Return what the screen shows now, with its scrollback; wrapped lines are joined."""
        shown = self._tmux("capture-pane", "-p", "-J", "-S", "-", "-t", self._name)
        self.seen += shown
        return shown

    def visible(self) -> list[str]:
        """Return the rows that are on the screen now."""
        return self._tmux("capture-pane", "-p", "-t", self._name).splitlines()

    def type(self, text: str) -> None:
        """Type text, without Enter."""
        self._tmux("send-keys", "-t", self._name, "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Press keys by their tmux names: Enter, C-c, C-z, C-d."""
        self._tmux("send-keys", "-t", self._name, *keys)

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size."""
        self._tmux("resize-window", "-t", self._name, "-x", str(columns), "-y", str(rows))

    def command(self, line: str) -> str:
        """Type a command, wait until the shell is ready again, and return what it showed."""
        self.start(line)
        return self.finish()

    def start(self, line: str) -> None:
        """Type a command and do not wait for it."""
        self._tmux("clear-history", "-t", self._name)
        self.type(line)
        self.press("Enter")
        self._commands += 1

    def finish(self, limit: float = LIMIT) -> str:
        """Wait until the shell is ready again; return what the screen shows."""
        return self.expect(PROMPT.format(self._commands), limit=limit, last=True)

    def expect(self, text: str, *, limit: float = LIMIT, last: bool = False) -> str:
        """Wait until a text is shown, or stands on the last line; return the screen."""
        deadline = time.monotonic() + limit
        while True:
            shown = self.text()
            rows = shown.rstrip().splitlines()
            if (rows and rows[-1].strip() == text) if last else text in shown:
                return shown
            if time.monotonic() > deadline:
                raise AssertionError(f"{text!r} was not shown:\n{shown}")
            time.sleep(PAUSE)

    def _tmux(self, *args: str) -> str:
        return tmux(self._socket, self._env, *args)


def tmux(socket: Path, env: Mapping[str, str], *args: str) -> str:
    """Run a tmux command on a server of our own and return what it prints."""
    argv = ["tmux", "-f", "/dev/null", "-S", str(socket), *args]
    done = subprocess.run(argv, env=dict(env), capture_output=True, timeout=LIMIT, check=True)
    return done.stdout.decode()


@contextmanager
def terminal(
    folder: Path, env: Mapping[str, str], *, name: str = "seat", columns: int = 100, rows: int = 40
) -> Iterator[Screen]:
    """Open a terminal with a plain shell in a folder; its server ends with the block."""
    if shutil.which("tmux") is None:
        if os.environ.get("CI"):
            pytest.fail("tmux is not installed, and continuous integration needs it")
        pytest.skip("tmux is not installed")
    socket = folder / f"{name}.sock"
    shown = {
        **env,
        "TERM": "xterm-256color",
        "PS1": PROMPT.format("\\#") + " ",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
    }
    size = ("-x", str(columns), "-y", str(rows))
    start = folder / f"{name}.bashrc"
    start.write_text(f"PS1='{PROMPT.format(chr(92) + '#')} '\n", encoding="utf-8")
    shell = shlex.join(["/bin/bash", "--noprofile", "--rcfile", str(start), "-i"])
    tmux(socket, shown, "new-session", "-d", "-s", name, *size, "-c", str(folder), shell)
    server = int(tmux(socket, shown, "display-message", "-p", "#{pid}"))
    screen = Screen(socket, name, shown)
    try:
        tmux(socket, shown, "set-option", "-g", "history-limit", "5000")
        tmux(socket, shown, "set-option", "-g", "window-size", "manual")
        screen.finish()
        yield screen
    finally:
        tmux(socket, shown, "kill-server")
        _wait_gone(server)


def _wait_gone(pid: int) -> None:
    deadline = time.monotonic() + LIMIT
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "the tmux server did not end"
        time.sleep(PAUSE)
