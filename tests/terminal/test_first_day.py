"""A first-time user at a terminal: every word they type was on the screen before they typed it.

Nothing is known but the name of the program; help texts, errors and hints lead from one command to
the next. Prompts are the user's own words.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.daemon_home import Home, daemon_home
from tests.terminal.tmux import Screen, terminal

KEY = re.compile(r"agent:[a-z]+:[a-z]+:[0-9a-f-]{36}")


class Newcomer:
    """Types commands, and only words that they could have read on their screens."""

    def __init__(self, screen: Screen, *others: Screen) -> None:
        self.screen = screen
        self._screens = (screen, *others)

    def does(self, line: str) -> str:
        """Type a command to its end; return what it showed."""
        self.begins(line)
        return self.screen.finish()

    def begins(self, line: str) -> None:
        """Type a command that goes on."""
        self._check(line)
        self.screen.start(line)

    def learns(self, *words: str) -> None:
        """Check that the screen tells of words."""
        shown = self.screen.text()
        for word in words:
            assert word in shown, f"{word!r} is not told:\n{shown}"

    def _check(self, line: str) -> None:
        seen = "".join(screen.seen for screen in self._screens)
        for word in shlex.split(line)[1:]:
            assert " " in word or word in seen, f"{word!r} was never on a screen:\n{seen[-3000:]}"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as home:
        program = home.path / "bin" / "acpbridge"
        program.parent.mkdir()
        text = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m acpbridge "$@"\n'
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
        home.env |= {
            "PATH": f"{program.parent}:{home.env['PATH']}",
            "ACPBRIDGE_HOME": str(home.path),
        }
        home.configure(
            coder=("--memory", str(home.path / "memory.json"), "--resume"),
            typo=("--die-at-start", "3", "--stderr", "cannot find the licence file"),
        )
        yield home


def test_a_first_time_user_finds_their_way_by_help_texts_alone(home: Home) -> None:
    with (
        terminal(home.path, home.env, name="one") as one,
        terminal(home.path, home.env, name="two") as two,
    ):
        person = Newcomer(one, two)
        # What is there, and what can it do?
        person.does("acpbridge")
        person.learns("run", "status", "agents", "doctor", "kill", "permissions")
        person.does("acpbridge agents --help")
        person.does("acpbridge agents")
        person.learns("coder", "typo")

        # A question is answered.
        person.does("acpbridge run --help")
        person.begins("acpbridge run --agent coder 'write hello.txt and ask edit'")
