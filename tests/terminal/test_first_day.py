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


@pytest.mark.timeout(240)  # two terminals and a dozen commands; a guard against hanging
def test_a_first_time_user_finds_their_way_by_help_texts_alone(
    home: Home, tmp_path_factory: pytest.TempPathFactory
) -> None:
    work = tmp_path_factory.mktemp("work")
    with (
        terminal(work, home.env, name="one") as one,
        terminal(work, home.env, name="two") as two,
    ):
        person, other = Newcomer(one, two), Newcomer(two, one)
        person.does("acpbridge")
        person.does("acpbridge agents --help")
        assert "coder" in person.does("acpbridge agents")

        # A question is answered; the change is made only then.
        person.does("acpbridge run --help")
        person.begins("acpbridge run --agent coder 'edit notes.txt hello'")
        asked = one.expect("answer [")
        assert "+hello" in asked
        assert not (work / "notes.txt").exists()
        one.type("1")
        one.press("Enter")
        one.finish()
        assert (work / "notes.txt").read_text(encoding="utf-8") == "hello\n"

        # What is running? One agent is stopped, and it is proven.
        person.begins("acpbridge run --agent coder 'hang'")
        one.expect("session: agent:")
        other.does("acpbridge status --help")
        shown = other.does("acpbridge status")
        (key,) = set(KEY.findall(shown))
        assert "waits for model" in shown
        other.does("acpbridge kill --help")
        assert "nothing is left" in other.does(f"acpbridge kill {key}")
        one.finish()
        assert "no live session" in other.does("acpbridge status")

        # Tomorrow: yesterday's conversation goes on in a new process of a new daemon.
        other.does("acpbridge daemon --help")
        other.does("acpbridge daemon stop")
        rows = other.does("acpbridge sessions --all")
        (old,) = set(KEY.findall(rows)) - {key}
        assert "going on with" not in one.text()
        shown = other.does(f"acpbridge run --session {old} 'say and on we go'")
        assert "and on we go" in shown
        assert old in shown

        # Why does this one not start?
        shown = person.does("acpbridge run --agent typo 'hello there'")
        assert "cannot find the licence file" in shown
        assert "next:" in shown
        person.does("acpbridge doctor --help")
        shown = person.does("acpbridge doctor typo")
        assert "cannot find the licence file" in shown
