"""A person is called by a bell or a notification; no words of an agent steer the terminal."""

import pytest

from acpbridge.cli.questions.alert import LONGEST, sequence


def question(title: str = "rm x") -> dict[str, str]:
    return {"agentId": "fake", "title": title, "kind": "execute"}


def test_a_bell_is_a_bell_and_off_is_nothing() -> None:
    assert sequence("bell", question(), "xterm") == "\a"
    assert sequence("off", question(), "xterm") == ""
    assert sequence("something new", question(), "xterm") == ""


def test_a_notification_is_written_as_the_terminal_knows_it() -> None:
    assert (
        sequence("osc", question(), "xterm-256color")
        == "\x1b]9;acpbridge: fake asks (execute): rm x\a"
    )
    rxvt = sequence("osc", question(), "rxvt-unicode")
    assert rxvt == "\x1b]777;notify;acpbridge;fake asks (execute): rm x\a"


@pytest.mark.parametrize("term", ["xterm", "foot"])
@pytest.mark.parametrize(
    "title", ["\a\x1b]0;mine\a", "\x1b\\\x9c;b;c", "\u202e" * 900, "x" * 10_000, "a\nb"]
)
def test_nothing_of_the_agents_ends_the_sequence_or_begins_a_field(title: str, term: str) -> None:
    text = sequence("osc", question(title), term)
    body = text.rpartition(";")[2].removesuffix("\a")
    assert body.isprintable()
    assert len(body) < LONGEST + 60
    assert text.count("\x1b") == text.count("\a") == 1
    assert text.count(";") == sequence("osc", question(), term).count(";")
