"""What a session has started asks the people who follow that session, wherever it stands."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_home import LIMIT, Home, daemon_home, until

PROMPT = "? = help]: "


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        made.configure(fake=())
        made.env["TERM"] = "xterm-256color"
        made.start()
        yield made


def in_turn(home: Home, parent: str | None = None) -> Any:
    """Return the session of a parent that is in its turn."""

    def look() -> Any:
        rows = home.status()["sessions"]
        found = [r for r in rows if r["parentKey"] == parent and (r["turn"] or {}).get("startedAt")]
        return found and found[0]

    return until(look)


def start_below(home: Home, key: str, words: str) -> str:
    """Have the agent of a session start another one; return its key."""
    done = home.run_inside(f"{key}.{'0' * 32}", "run", "--detach", words, "--agent", "fake")
    assert done.code == 0, done
    return done.out.strip()


def test_row_18_a_childs_question_is_asked_where_its_root_runs_and_answered_there(
    home: Home, tmp_path: Path
) -> None:
    """Without `Below`: the question waits unseen until its deadline, while a person sits there."""
    trace = tmp_path / "trace"
    with home.terminal("run", "hang", "--agent", "fake") as terminal:
        top = in_turn(home)["key"]
        middle = start_below(home, top, "hang")
        in_turn(home, top)
        child = start_below(home, middle, f'ask execute "touch it" do {trace}')
        shown = terminal.expect(PROMPT)
        flat = "".join(shown.split())
        assert "commandtouchit" in flat
        assert f"session{child}" in flat
        assert f"startedby{middle}" in flat
        (question,) = home.ask("questions")["permissions"]
        assert question["above"] == [middle, top]
        # It is in the inbox and in the status too, on the child and on all above it.
        rows = {row["key"]: row for row in home.status()["sessions"]}
        assert rows[child]["questions"][0]["id"] == question["id"]
        assert [rows[key]["questionsBelow"][0]["sessionKey"] for key in (middle, top)] == [
            child,
            child,
        ]
        assert rows[child]["questionsBelow"] == rows[top]["questions"] == []
        told = home.run("status", top).out
        assert f"of {child}, which it started: execute: touch it" in " ".join(told.split())
        terminal.type("y\r")
        terminal.expect("allowed by operator")
        until(trace.exists)
        terminal.type("\x03")
        assert terminal.wait() == 130


def test_an_attach_asks_what_is_open_below_and_takes_back_what_was_answered_elsewhere(
    home: Home,
) -> None:
    done = home.run("run", "--detach", "hang", "--agent", "fake")
    top = done.out.strip()
    in_turn(home)
    child = start_below(home, top, 'ask execute "rm x"\nask execute "rm y"')
    first = home.wait_question()["id"]
    with home.terminal("attach", top) as attached:
        assert "rm x" in attached.expect(PROMPT)
        assert home.run("permissions", "answer", first, "--deny").code == 0
        attached.expect("answered elsewhere")
        assert "rm y" in attached.expect(PROMPT)
        attached.type("d not here\r")
        attached.expect("denied by operator")
        until(lambda: home.record(child)["turn"] is None)
        attached.type("\x04")
        assert attached.wait() == 0
    assert home.run("kill", top).code == 0


def test_a_run_that_nobody_can_type_to_says_where_a_childs_question_waits(home: Home) -> None:
    with home.running("run", "hang", "--agent", "fake", "--format", "json") as run:
        top = in_turn(home)["key"]
        child = start_below(home, top, 'ask execute "rm x"')
        assert run.stderr is not None
        said = ""
        while "waits in the inbox" not in said:
            line = run.stderr.readline().decode()
            assert line, said
            said += line
        assert child in said
        # Its own log has its own questions only: each is in the log of the session that asks.
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=LIMIT)
        assert {json.loads(line)["key"] for line in out.splitlines()} == {top}
    assert home.run("kill", "--all").code == 0


def test_a_stranger_is_not_asked_and_an_agent_watches_its_own_line_only(home: Home) -> None:
    done = home.run("run", "--detach", "hang", "--agent", "fake")
    top = done.out.strip()
    in_turn(home)
    start_below(home, top, 'ask execute "rm x"')
    home.wait_question()
    other = home.run("run", "--detach", "hang", "--agent", "fake").out.strip()
    with home.terminal("attach", other) as attached:
        attached.expect("/help lists what else can be done")
        attached.type("/questions\r")
        attached.expect("no open question")
        attached.type("\x04")
        assert attached.wait() == 0
    assert home.run("kill", "--all").code == 0
