"""Sessions beyond a run, as a person sees them: restarted, read, exported, deleted, kept."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_home import LIMIT, Home, alive, daemon_home, until, wait_gone

SENTINEL = "sentinel-31d5c0ffee"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        memory = str(made.path / "memory")
        made.configure(fake=("--resume", "--memory", memory))
        yield made


def a_session(home: Home, *words: str, mode: str = "run") -> str:
    """Run a turn to its end and return the session's key."""
    done = home.run("run", "--agent", "fake", "--format", "json", "--mode", mode, *words)
    assert done.code == 0, done
    return str(done.events[0]["key"])


def row(home: Home, key: str) -> Any:
    return home.row(key)


def agent_pid(home: Home, key: str) -> int:
    (pid,) = [p["pid"] for p in row(home, key)["processes"] if p["role"] == "agent"]
    return int(pid)


def until_running(home: Home, key: str) -> None:
    def said_something() -> bool:
        found = row(home, key)
        return found["state"] == "running" and bool(found["turn"]["lastUpdateAt"])

    until(said_something)


# ---- restart ----


def test_case_114_a_deaf_agent_is_ended_and_another_answers(home: Home) -> None:
    key = home.run("run", "--detach", "--agent", "fake", "say on it\nhang deaf").out.strip()
    until_running(home, key)
    old = agent_pid(home, key)
    busy = home.run("restart", key, "--json")
    assert (busy.code, busy.json["error"]["code"]) == (1, "busy")
    assert "error (busy)" in busy.err
    assert "--force" in busy.err
    assert alive(old)
    done = home.run("restart", key, "--force", "--json", limit=40)
    assert done.code == 0, done
    receipt = done.json
    assert set(receipt) == {"key", "pid", "was", "opens", "mode", "contextLost", "tookMs"}
    assert (receipt["key"], receipt["contextLost"]) == (key, False)
    assert old in receipt["was"]
    assert not alive(old)
    assert receipt["pid"] == agent_pid(home, key) != old
    assert row(home, key)["state"] == "ready"
    assert home.run("run", "--session", key, "say hello").out == "hello\n"


def test_case_114_it_is_not_ok_without_a_new_answer_to_initialize(home: Home) -> None:
    key = a_session(home, "say one", mode="session")
    old = agent_pid(home, key)
    # The very same session, but what is started for it now never answers.
    home.configure({"startSeconds": 0.5}, fake=("--silent-start",))
    home.run("daemon", "stop")
    done = home.run("restart", key, "--json")
    assert (done.code, done.json["error"]["code"]) == (6, "start_timeout")
    assert "error (start_timeout)" in done.err
    assert not alive(old)
    assert row(home, key)["state"] == "failed"
    assert row(home, key)["processes"] == []


def test_a_session_that_died_and_one_of_an_earlier_daemon_are_restarted(home: Home) -> None:
    key = a_session(home, "say one", mode="session")
    os.kill(agent_pid(home, key), signal.SIGKILL)
    first = home.run("restart", "--last", "--json")
    assert (first.code, first.json["key"]) == (0, key)
    assert home.run("daemon", "stop").code == 0
    second = home.run("restart", key[-8:])  # and the daemon is started for it
    assert second.code == 0, second
    assert f"{key}: pid {agent_pid(home, key)} answers in " in second.out


def test_a_context_is_lost_only_where_that_is_wanted_and_then_it_is_said(home: Home) -> None:
    key = a_session(home, "say one")
    (home.path / "memory").unlink()
    refused = home.run("restart", key)
    assert (refused.code, "error (resume_not_found)" in refused.err) == (4, True), refused
    done = home.run("restart", key, "--fresh")
    assert done.code == 0, done
    assert "context is lost" in done.err


def test_a_closed_session_is_not_restarted(home: Home) -> None:
    key = a_session(home, "say one")
    assert home.run("close", key).code == 0
    done = home.run("restart", key)
    assert (done.code, "error (session_closed)" in done.err) == (1, True)


def test_a_process_in_a_supervised_tree_restarts_and_deletes_nothing(home: Home) -> None:
    key = a_session(home, "say one", mode="session")
    home.env["ACPBRIDGE_MARK"] = f"{key}.0123456789abcdef"
    for words in (("restart", key), ("sessions", "prune", "--keep", "0", "--yes")):
        done = home.run(*words)
        assert (done.code, "error (permission_denied)" in done.err) == (5, True), done
    del home.env["ACPBRIDGE_MARK"]


# ---- logs ----


def test_the_log_of_a_session_outlives_its_daemon(home: Home) -> None:
    key = a_session(home, "think hm\nsay one\nsay two")
    before = home.run("logs", key, "--json")
    assert home.run("daemon", "stop").code == 0
    after = home.run("logs", "--last", "--json")
    assert (after.code, after.err) == (0, "")
    assert after.out == before.out
    seqs = [event["seq"] for event in after.events]
    assert seqs == list(range(1, len(seqs) + 1))  # G16
    assert [e["seq"] for e in home.run("logs", key, "--json", "--since", "3").events] == seqs[3:]
    assert home.run("logs", key, "--json", "--since", "1h").events == after.events
    moment = after.events[4]["at"]
    since = home.run("logs", key, "--json", "--since", moment).events
    assert since == [event for event in after.events if event["at"] >= moment]
    turn = after.events[0]["turn"]
    of_turn = home.run("logs", key, "--json", "--turn", turn[:8]).events
    assert of_turn == [event for event in after.events if event["turn"] == turn]
    assert home.run("logs", key, "--since", "9999").out == ""
    lines = home.run("logs", key).out.splitlines()
    assert all(line[:2] == "20" for line in lines)
    assert any(line.endswith("Z  thought: hm") for line in lines)


def test_wrong_use_is_an_error(home: Home) -> None:
    for words in (("logs",), ("logs", "a", "--last"), ("logs", "a", "--since", "yesterday")):
        assert home.run(*words).code == 2
    assert home.run("logs", "--last").code == 4
    assert home.run("logs", "nobody").code == 4


def test_a_follower_sees_what_comes_and_leaving_changes_nothing(home: Home) -> None:
    key = a_session(home, "say one", mode="session")
    with home.running("logs", key, "-f", "--json") as viewer:
        assert viewer.stdout is not None
        assert json.loads(viewer.stdout.readline())["seq"] == 1
        running = home.run("run", "--detach", "--session", key, "say later\nhang").out.strip()
        assert running == key
        for line in viewer.stdout:
            text = json.loads(line).get("update", {}).get("content", {}).get("text")
            if text == "later":
                break
        else:
            raise AssertionError("it was not seen")
        viewer.send_signal(signal.SIGINT)
        assert viewer.wait(LIMIT) == 0
    assert row(home, key)["state"] == "running"
    assert home.run("cancel", key).code == 0


def test_following_ends_when_the_session_is_deleted_or_the_daemon_is_gone(home: Home) -> None:
    key = a_session(home, "say one")
    for words, code, error in (
        (("sessions", "prune", "--keep", "0", "--yes"), 4, b"error (no_such_session)"),
        (("daemon", "stop"), 8, b"error (connection_closed)"),
    ):
        with home.running("logs", key, "-f", "--json") as viewer:
            assert viewer.stdout is not None
            assert viewer.stderr is not None
            assert viewer.stdout.readline()
            assert home.run(*words).code == 0
            viewer.stdout.read()
            assert error in viewer.stderr.read()
            assert viewer.wait(LIMIT) == code
        key = a_session(home, "say two") if code == 4 else ""


def test_a_reader_that_has_seen_enough_ends_it_quietly(home: Home) -> None:
    done = home.run("run", "--format", "json", "-", stdin="say x\n" * 2000)
    key = done.events[0]["key"]
    with home.running("logs", key) as viewer:
        assert viewer.stdout is not None
        assert viewer.stderr is not None
        viewer.stdout.readline()
        viewer.stdout.close()
        assert viewer.wait(LIMIT) in (0, 1)
        assert viewer.stderr.read() == b""


# ---- sessions ----


def test_sessions_are_found_by_agent_directory_and_number(home: Home) -> None:
    home.configure(fake=(), other=())
    keys = [a_session(home, "say one") for _ in range(3)]
    other = home.run("run", "--agent", "other", "--format", "json", "--cwd", "/tmp", "say x")
    keys.append(other.events[0]["key"])

    def found(*words: str) -> list[str]:
        rows = home.records(*words)
        return [str(one["key"]) for one in rows]

    assert found() == keys
    assert found("--agent", "other") == keys[3:]
    assert found("--cwd", ".") == keys[:3]
    assert found("--cwd", "/tmp/") == keys[3:]
    assert found("--limit", "2") == keys[2:]
    assert found("--agent", "fake", "--limit", "1") == keys[2:3]
    head = home.run("sessions", "--all").out.splitlines()[0].split()
    assert head == ["KEY", "STATE", "AGE", "DIRECTORY"]
    assert home.run("sessions").out == "no sessions\n"


def test_prune_deletes_what_is_shown_and_asks_a_person_first(home: Home) -> None:
    idle, closed = a_session(home, "say one"), a_session(home, "say two")
    live = a_session(home, "say three", mode="session")
    assert home.run("close", closed).code == 0
    assert home.run("sessions", "prune").code == 2
    nobody = home.run("sessions", "prune", "--keep", "0")
    assert (nobody.code, "--yes" in nobody.err) == (2, True)
    assert home.run("sessions", "prune", "--state", "ready", "--yes").code == 2
    assert home.run("sessions", "prune", "--older-than", "1d", "--yes", "--json").json == {
        "dryRun": False,
        "pruned": [],
    }
    shown = home.run("sessions", "prune", "--keep", "0", "--dry-run", "--json").json
    assert [one["key"] for one in shown["pruned"]] == [idle, closed]
    with home.terminal("sessions", "prune", "--state", "closed") as terminal:
        terminal.expect("Delete these 1 sessions")
        terminal.type("n\n")
        assert terminal.wait() == 1
    with home.terminal("sessions", "prune", "--state", "closed,idle") as terminal:
        terminal.expect(closed)
        terminal.expect("Delete these 2 sessions")
        terminal.type("y\n")
        assert terminal.wait() == 0
    left = home.records()
    assert [one["key"] for one in left] == [live]
    assert home.run("logs", idle).code == 4
    with closing(sqlite3.connect(home.path / "agents/fake/sessions/events.db")) as connection:
        keys = {key for (key,) in connection.execute("SELECT DISTINCT session_key FROM events")}
    assert keys == {live}


def test_g26_an_export_has_no_secret_of_the_agents_or_the_callers(home: Home) -> None:
    secret = f"planted-{SENTINEL}"
    home.env["PLANTED_TOKEN"] = secret
    key = a_session(home, f"say here: {secret}\nsay and {SENTINEL}-of-the-caller", mode="session")
    del home.env["PLANTED_TOKEN"]
    home.env["OTHER_TOKEN"] = f"{SENTINEL}-of-the-caller"
    target = home.path / "session.jsonl"
    done = home.run("sessions", "export", key, "--output", str(target))
    assert (done.code, done.out) == (0, "")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    head, *events = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert (head["type"], head["key"], head["agentId"]) == ("session", key, "fake")
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    again = home.run("sessions", "export", key, "--output", str(target))
    assert (again.code, "--force" in again.err) == (2, True)
    assert home.run("sessions", "export", key, "--output", str(target), "--force").code == 0
    texts = [target.read_text("utf-8")]
    for shape in ("jsonl", "md"):
        done = home.run("sessions", "export", "--last", "--format", shape)
        assert (done.code, done.err) == (0, "")
        texts.append(done.out)
    for text in texts:
        assert SENTINEL not in text
        assert "here: [redacted:env:" in text
    # What is read with `logs` is the stored copy too, though the daemon still has the other.
    assert secret not in home.run("logs", key, "--json").out


# ---- Keeping ----


def test_at_its_start_the_daemon_deletes_what_is_too_old(home: Home) -> None:
    old, young = a_session(home, "say one"), a_session(home, "say two")
    assert home.run("daemon", "stop").code == 0
    with closing(sqlite3.connect(home.path / "state.db", isolation_level=None)) as connection:
        connection.execute(
            "UPDATE runs SET ending = json_set(ending, '$[3]', '2020-01-01T00:00:00.000+00:00')"
            " WHERE session_key = ?",
            (old,),
        )

    def on_record() -> list[str]:
        return [one["key"] for one in home.records()]

    until(lambda: old not in on_record())
    assert on_record() == [young]
    assert home.run("logs", old).code == 4
    audit = (home.path / "audit.jsonl").read_text("utf-8")
    assert "system:retention" in audit
    assert old in audit


def test_a_wrong_key_keeps_no_other_session_alive(home: Home) -> None:
    key = a_session(home, "say one", mode="session")
    pid = agent_pid(home, key)
    done = home.run("kill", "nope", key, "--json")
    assert done.code == 4
    assert "no_such_session" in done.err
    assert done.json["ok"] is False
    assert [result["key"] for result in done.json["results"]] == [key]
    assert [error["key"] for error in done.json["errors"]] == ["nope"]
    assert wait_gone([pid]) == []


SLOW = ("anyio", "pydantic", "structlog", "rich", "psutil", "asyncio")


@pytest.mark.parametrize(
    "words", [("sessions", "--all"), ("sessions", "prune", "--keep", "1", "--dry-run")]
)
def test_the_list_and_prune_import_nothing_that_is_slow(home: Home, words: tuple[str, ...]) -> None:
    assert home.run("daemon", "start").code == 0
    code = (
        "import sys\n"
        "from acpbridge.cli.root import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit as end:\n    assert end.code == 0, end.code\n"
        f"print([name for name in {SLOW!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--home", str(home.path), *words],
        capture_output=True,
        env=home.env,
        timeout=30,
        check=False,
    )
    assert done.stdout.decode().splitlines()[-1] == "[]", done
