"""G16, G17: a turn that a crash of the daemon cut off has its last event in the log all the same.

The daemon that opens such a log first writes what is missing, as it is on record, exactly once.
"""

import json
import os
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_home import Home, daemon_home, until, wait_gone
from tests.integration.faultsweep import killed, nursery

pytestmark = pytest.mark.timeout(120)

ENDS = ("turn_ended", "turn_failed")


def detach(home: Home, words: str, *options: str) -> str:
    done = home.run("run", words, "--agent", "fake", "--detach", *options)
    assert done.code == 0, done
    return done.out.strip()


def crash(home: Home) -> None:
    os.kill(home.daemon_pid(), signal.SIGKILL)
    assert wait_gone([home.daemon_pid(), *home.marked()], 10) == []


def events(home: Home, key: str, *options: str) -> list[dict[str, Any]]:
    done = home.run("logs", key, "--json", *options)
    assert done.code == 0, done
    return done.events


def stored(home: Home) -> list[dict[str, Any]]:
    """Return what is on disk, read without any code of ours."""
    path = home.path / "agents" / "fake" / "sessions" / "events.db"
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT lines FROM events ORDER BY rowid").fetchall()
    return [json.loads(line) for (blob,) in rows for line in blob.split(b"\n")]


def asked(home: Home) -> Any:
    """Return the one open question, once its event is on disk: nobody is shown it before that."""
    question = home.wait_question()
    until(lambda: "permission_asked" in [event["type"] for event in stored(home)])
    return question


def test_g17_a_turn_cut_off_with_its_question_and_what_waited_behind_it_end_in_the_log(
    tmp_path: Path,
) -> None:
    """Without `mend` in `Closing.open_log`: the list of what came after is empty.

    A second crash and a third daemon add nothing.
    """
    with daemon_home(tmp_path) as home:
        key = detach(home, "say one\nask execute run", "--mode", "session")
        question = asked(home)
        home.run("run", "say two", "--session", key, "--detach")
        crash(home)
        before = stored(home)
        first = events(home, key)
        assert first[: len(before)] == before
        added = first[len(before) :]
        turns = list(dict.fromkeys(event["turn"] for event in before if event["turn"]))
        assert [(event["type"], event["turn"]) for event in added] == [
            ("permission_decided", turns[0]),
            ("turn_failed", turns[0]),
            ("turn_failed", turns[1]),
        ]
        assert [event["seq"] for event in first] == list(range(1, len(first) + 1))
        assert len({event["epoch"] for event in added} | {before[0]["epoch"]}) == 2
        assert all(event["recovered"] for event in added)
        decided, cut, waited = added
        assert (decided["id"], decided["effect"]) == (question["id"], "cancel")
        assert cut["error"]["code"] == waited["error"]["code"] == "interrupted"
        assert "in the middle" in cut["error"]["message"]
        assert "before this turn began" in waited["error"]["message"]
        crash(home)
        assert events(home, key) == first
        # It goes on as ever, behind what was added.
        again = home.run("run", "say again", "--session", key, "--fresh")
        assert (again.code, again.out.strip()) == (0, "again"), again
        assert events(home, key)[: len(first)] == first


def test_g17_who_follows_or_attaches_is_told_that_the_turn_was_cut_off(tmp_path: Path) -> None:
    """Without it `logs -f` shows nothing more and the attach says nothing of an error."""
    with daemon_home(tmp_path) as home:
        key = detach(home, "say one\nhang", "--mode", "session")
        until(lambda: any(e["type"] == "update" for e in stored(home)) or None)
        seen = len(stored(home))
        crash(home)
        with home.running("logs", key, "-f", "--json", "--since", str(seen)) as logs:
            assert logs.stdout is not None
            event = json.loads(logs.stdout.readline())
            while event["seq"] <= seen:
                event = json.loads(logs.stdout.readline())
        assert (event["type"], event["error"]["code"]) == ("turn_failed", "interrupted")
        with home.terminal("attach", key) as terminal:
            terminal.expect("The daemon ended in the middle of this turn.")
            terminal.type("\x03")
            terminal.expect("detached; come back")
            assert terminal.wait() == 0
        text = home.run("logs", key)
        assert "in the middle of this turn" in text.out + text.err


def test_g17_a_recorded_outcome_is_what_the_log_says_and_a_killed_session_is_closed(
    tmp_path: Path,
) -> None:
    """A kill between the outcome and its event, and a session killed past a frozen daemon."""
    with daemon_home(tmp_path) as home, nursery(home) as daemons:
        # The run is accepted, and then its outcome is on record: the end is in no log yet.
        assert daemons.start() is None
        key = detach(home, "say one", "--mode", "session")
        until(lambda: any(e["type"] in ENDS for e in stored(home)) or None)
        assert home.run("daemon", "stop").code == 0
        daemons.ended()
        with closing(sqlite3.connect(home.path / "agents/fake/sessions/events.db")) as connection:
            rows = connection.execute("SELECT rowid, lines FROM events").fetchall()
            ((row, _),) = [pair for pair in rows if b'"type":"turn_ended"' in pair[1]]
            connection.execute("DELETE FROM events WHERE rowid >= ?", (row,))
            connection.commit()
        assert daemons.start() is None
        (end,) = [event for event in events(home, key) if event["type"] in ENDS]
        assert (end["type"], end["stopReason"], end["recovered"]) == (
            "turn_ended",
            "end_turn",
            True,
        )
        other = detach(home, "say one\nhang", "--mode", "session")
        until(
            lambda: any(e["key"] == other and e["type"] == "update" for e in stored(home)) or None
        )
        frozen = home.daemon_pid()
        os.kill(frozen, signal.SIGSTOP)
        try:
            assert home.run("kill", other).code == 0
        finally:
            os.kill(frozen, signal.SIGKILL)
        assert killed(daemons.ended())
        assert daemons.start() is None
        types = [(event["type"], event.get("stopReason")) for event in events(home, other)]
        assert types[-2:] == [("turn_ended", "cancelled"), ("session_closed", None)]
        assert [kind for kind, _ in types].count("session_closed") == 1
        assert home.run("kill", other).code == 0
        assert [(e["type"], e.get("stopReason")) for e in events(home, other)] == types
        assert home.run("daemon", "stop").code == 0
        daemons.ended()


def test_g17_a_daemon_killed_when_it_has_written_the_missing_end_leaves_exactly_one(
    tmp_path: Path,
) -> None:
    """With the end appended without a look at the log: `turn_failed` stands there twice."""
    with daemon_home(tmp_path) as home, nursery(home) as daemons:
        assert daemons.start() is None
        key = detach(home, "say one\nask execute run", "--mode", "session")
        asked(home)
        os.kill(home.daemon_pid(), signal.SIGKILL)
        assert killed(daemons.ended())
        assert daemons.start("log.after_commit:1") is None
        home.run("logs", key, "--json")  # which kills the daemon at the commit, and starts another
        assert killed(daemons.ended())
        home.run("logs", key, "--json")
        counts = Counter(event["type"] for event in stored(home))
        assert (counts["turn_failed"], counts["permission_decided"]) == (1, 1)


def test_g20_a_decision_that_only_the_audit_has_is_the_one_that_the_log_and_the_ledger_tell(
    tmp_path: Path,
) -> None:
    """Killed between the audit and all else; without `last_decisions` both say `cancel`.

    Whoever reads the log would believe that nothing was allowed, and the audit says otherwise.
    """
    with daemon_home(tmp_path) as home, nursery(home) as daemons:
        assert daemons.start("permission.recorded:1") is None
        key = detach(home, "say one\nask execute run", "--mode", "session")
        question = asked(home)
        home.run("permissions", "answer", question["id"], "--allow", "--reason", "fine")
        assert killed(daemons.ended())
        (decided,) = [e for e in events(home, key) if e["type"] == "permission_decided"]
        assert (decided["id"], decided["effect"]) == (question["id"], "allow")
        assert (decided["reason"], decided["recovered"]) == ("operator", True)
        assert decided["optionId"] in [option["optionId"] for option in question["options"]]
        with closing(sqlite3.connect(home.path / "state.db")) as connection:
            ((text,),) = connection.execute("SELECT decision FROM questions").fetchall()
        assert json.loads(text)["effect"] == "allow"
