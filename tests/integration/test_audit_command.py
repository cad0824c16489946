"""`permissions audit`: what people see of the audit, and what it says of itself, with no daemon."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_home import Home, daemon_home, failed


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Give a state directory in which something was decided, and no daemon runs any more."""
    with daemon_home(tmp_path_factory.mktemp("audit")) as made:
        with made.terminal("run", 'ask execute "\\u001b[2Jclean up"') as terminal:
            question = made.wait_question()
            answer = ("permissions", "answer", question["id"], "--deny", "--reason", "not now")
            assert made.run(*answer).code == 0
            terminal.wait()
        made.run("run", "--on-permission", "allow", "ask execute tidy")
        key = made.run("run", "--detach", "hang").out.strip()
        made.run("kill", key)
        made.run("daemon", "stop")
        yield made


def records(home: Home, *args: str) -> list[dict[str, Any]]:
    return home.run("permissions", "audit", "--json", *args).events


def test_a_decision_has_all_that_proves_it(home: Home) -> None:
    denied, allowed = [r for r in records(home) if r["kind"] == "permission_decided"]
    assert set(denied) >= {
        *("seq", "kind", "ts_wall", "ts_mono", "boot_id", "prev_hash", "hash"),
        *("request_uid", "agent", "agent_pid", "agent_start", "session", "turn", "jsonrpc_id"),
        *("tool_call_id", "tool_kind", "title", "changed", "argv", "paths", "raw_sha256"),
        "resolved",
        *("options", "rule_id", "policy_sha256", "decision", "option_id", "reason", "note"),
        *("decided_by", "latency_ms", "clients_offered"),
    }
    assert (denied["decision"], denied["reason"], denied["note"]) == ("deny", "operator", "not now")
    assert denied["decided_by"]["role"] == "operator"
    assert denied["clients_offered"] == 1
    assert denied["agent_start"] > 0
    assert (allowed["decision"], allowed["decided_by"]) == ("allow", None)
    assert allowed["clients_offered"] == 0


def test_what_else_happened_is_in_it(home: Home) -> None:
    kinds = [r["kind"] for r in records(home)]
    assert kinds.count("daemon_started") == kinds.count("daemon_stopped") == 1
    assert "kill" in kinds
    assert kinds[-1] == "daemon_stopped"


def test_people_read_when_who_what_and_why_and_nothing_moves_their_cursor(home: Home) -> None:
    shown = home.run("permissions", "audit")
    assert (shown.code, shown.err) == (0, "")
    (line,) = [line for line in shown.out.splitlines() if " deny " in line]
    assert "by operator" in line
    assert line.endswith("operator: not now")
    assert "execute" in line
    assert "\x1b" not in shown.out


def test_it_is_chosen_by_number_moment_and_session(home: Home) -> None:
    every = records(home)
    assert records(home, "-n", "2") == every[-2:]
    assert records(home, "--since", "3") == every[3:]
    assert records(home, "--since", "2h") == every
    assert records(home, "--since", "2099-01-01T00:00") == []
    session = next(r["session"] for r in every if r["kind"] == "kill")
    assert records(home, "--session", session[-12:]) == [
        r for r in every if r.get("session") == session
    ]


def test_verify_finds_nothing_then_says_where_it_was_changed(home: Home) -> None:
    whole = home.run("permissions", "audit", "--verify")
    assert (whole.code, whole.err) == (0, "")
    assert whole.out.startswith("whole: ")
    path = home.path / "audit.jsonl"
    data = path.read_bytes()
    try:
        path.write_bytes(data + b'{"seq":')
        torn = home.run("permissions", "audit", "--verify")
        assert torn.code == 0
        assert "unfinished (7 bytes)" in torn.err
        path.write_bytes(data.replace(b'"decision":"deny"', b'"decision":"allow"'))
        bad = home.run("permissions", "audit", "--verify")
        number = next(n for n, r in enumerate(data.splitlines(), 1) if b'"deny"' in r)
        assert bad.code == 1
        assert f"damaged: {path}, line {number}: it is not what was written" in bad.out
        assert "next: keep a copy" in bad.err
        told = home.run("permissions", "audit", "--verify", "--json")
        assert told.code == 1
        assert json.loads(told.out) == {
            "files": [str(path)],
            "records": number - 1,
            "damage": {"file": str(path), "line": number, "what": "changed"},
            "unfinishedBytes": 0,
        }
        # What was changed is shown to nobody as a record.
        assert len(home.run("permissions", "audit", "--json").events) == len(data.splitlines()) - 1
    finally:
        path.write_bytes(data)


def test_what_cannot_be_read_or_asked_for_is_said(home: Home, tmp_path: Path) -> None:
    assert home.run("permissions", "audit", "--verify", "-n", "3").code == 2
    assert home.run("permissions", "audit", "--since", "soon").code == 2
    with daemon_home(tmp_path) as other:
        none = other.run("permissions", "audit")
        assert (none.code, none.out) == (0, "")
        assert "there is no audit yet" in none.err
        (other.path / "audit.jsonl").mkdir()
        failed(other.run("permissions", "audit"), "state_directory", 8)


def test_a_path_is_recorded_as_it_was_named_and_as_it_leads(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
        place.mkdir()
        elsewhere.mkdir()
        (place / "link").symlink_to(elsewhere)
        named = str(place / "link" / "file")
        call = {
            "toolCallId": "c1",
            "kind": "read",
            "locations": [{"path": named}],
            "rawInput": {"path": named},
        }
        options = [{"optionId": "no", "name": "No", "kind": "reject_once"}]
        script = "ask-json " + json.dumps({"toolCall": call, "options": options})
        home.run("run", "--cwd", str(place), "--on-permission", "deny", script)
        (record,) = [r for r in records(home) if r["kind"] == "permission_decided"]
        assert record["paths"] == [named]
        assert record["resolved"] == [str(elsewhere / "file")]
