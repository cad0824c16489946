"""Row 12: a person allows nothing that was not shown to them whole, however long it is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_home import Home, daemon_home, failed

PROMPT = "? = help]: "
# As many as fit twice on a command line.
LINES = 4_000


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        made.configure(fake=())
        yield made


def asks(tmp_path: Path, **call: Any) -> tuple[str, Path]:
    """Return a prompt whose agent asks for a call, and what is there once it was done."""
    trace = tmp_path / "trace"
    options = [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    params = {"toolCall": {"toolCallId": "t", "kind": "edit", **call}, "options": options}
    return f"ask-json {json.dumps(params)} do {trace}", trace


def long_change() -> dict[str, Any]:
    text = "".join(f"line {number}\n" for number in range(LINES))
    return {"content": [{"type": "diff", "path": "/f", "oldText": None, "newText": text}]}


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
@pytest.mark.parametrize("answer", ["y", "1"])
def test_row_12_an_allow_shows_first_what_was_left_out_and_has_to_be_said_again(
    home: Home, tmp_path: Path, term: str, answer: str
) -> None:
    home.env["TERM"] = term
    script, trace = asks(tmp_path, **long_change())
    with home.terminal("run", script, "--agent", "fake") as terminal:
        before = terminal.expect("v = view all")
        assert "line 2000" not in before
        assert "rows are not shown here" in before
        terminal.expect(PROMPT)
        terminal.type(f"{answer}\r")
        assert "+line 2000" in terminal.expect("a part was left out before; answer once more")
        assert not trace.exists()
        assert home.ask("questions")["permissions"]
        terminal.expect(PROMPT)
        terminal.type(f"{answer}\r")
        terminal.expect("allowed by operator")
        assert terminal.wait() == 0
    assert trace.exists()


def test_row_12_all_of_it_can_be_viewed_and_a_denial_needs_no_view(
    home: Home, tmp_path: Path
) -> None:
    script, trace = asks(tmp_path, **long_change())
    with home.terminal("run", f"{script}\n{script}", "--agent", "fake") as terminal:
        terminal.expect(PROMPT)
        terminal.type("v\r")
        assert "+line 3998" in terminal.expect("that was all of it")
        assert "v = view all" not in terminal.expect(PROMPT)
        terminal.type("y\r")
        terminal.expect("v = view all")
        assert trace.read_text(encoding="utf-8") == "executed\n"
        terminal.expect(PROMPT)
        terminal.type("d\r")
        terminal.expect("denied by operator")
        assert terminal.wait() == 0
    assert trace.read_text(encoding="utf-8") == "executed\n"


def test_row_12_one_question_can_be_shown_whole_from_elsewhere(home: Home, tmp_path: Path) -> None:
    script, _ = asks(tmp_path, title="x\x1b[2J" * 2_000, rawInput={"blob": "\x00\x07é" * 3_000})
    key = home.run("run", "--detach", script, "--agent", "fake").out.strip()
    question = home.wait_question()
    shown = home.run("permissions", "show", question["id"])
    assert shown.code == 0
    assert shown.out.count("⟨U+001B⟩") == 2_000
    assert shown.out.count("⟨U+0007⟩") == 3_000
    assert shown.out.replace("\n", "").isprintable()
    assert home.run("permissions", "show", question["id"], "--json").json == question
    assert "permissions" in failed(home.run("permissions", "show", "nope"), "no_such_question", 4)
    assert home.run("kill", key).code == 0
