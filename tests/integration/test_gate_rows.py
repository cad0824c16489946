"""Rows of the fail-closed table end to end: a real daemon, a real agent, and what it was sent.

Whether anything was allowed is told by the file that the agent writes when it runs what it asked
for, and by nothing that acpbridge says of itself.
"""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from acpbridge.errors import BridgeError
from acpbridge.runtimes.malformed import MOST
from tests.integration.daemon_home import Home, daemon_home, failed, until
from tests.integration.traffic import Client, Look, client, ended, log_option, start

MODES = ("--modes", "default,acceptEdits,yolo")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("rows")) as made:
        deaf = (*MODES, "--mode-deaf", *log_option(made))
        made.configure(fake=log_option(made), moded=(*MODES, *log_option(made)), deaf=deaf)
        made.start()
        yield made


@pytest.fixture
def mine(shared: Home) -> Iterator[Client]:
    with client(shared) as made:
        yield made


def audit(home: Home, kind: str) -> list[dict[str, Any]]:
    """Return the records of a kind in the audit."""
    lines = (home.path / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def log(home: Home, key: str, kind: str) -> list[dict[str, Any]]:
    """Return the events of a kind in a session's log."""
    done = home.run("logs", key, "--json")
    assert done.code == 0, done
    return [event for event in done.events if event["type"] == kind]


def answers(look: Look) -> list[dict[str, Any]]:
    """Return what the agent was answered, in order."""
    return [message for message in look.sent_to_agent if "method" not in message]


def questions(client: Client, key: str, count: int = 1) -> list[dict[str, Any]]:
    """Wait until so many questions of a session are open, and return them."""

    def found() -> list[dict[str, Any]]:
        listed = client.call("questions")["permissions"]
        return [question for question in listed if question["sessionKey"] == key]

    until(lambda: len(found()) == count)
    return found()


def died(client: Client, key: str) -> dict[str, Any]:
    """Wait until a session has died whole, and return its row."""

    def row() -> dict[str, Any]:
        (found,) = client.call("status", key=key)["sessions"]
        return found if found["state"] == "died" and not found["processes"] else {}

    return until(row)


def over(client: Client, receipt: Any) -> Any:
    return client.call("wait", runId=receipt["runId"])


CALL = {"toolCallId": "t", "title": "x", "kind": "execute", "rawInput": {"command": "x"}}
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def asked(**other: Any) -> str:
    return f"ask-json {json.dumps({'toolCall': CALL, 'options': OPTIONS, **other})}"


def test_rows_05_10_11_13_what_is_malformed_is_refused_and_runs_nothing(
    shared: Home, mine: Client, tmp_path: Path
) -> None:
    """Rows 5, 10, 11 and 13, under a rule that allows everything that can be allowed."""
    look, ran = Look(shared), tmp_path / "ran"
    rows: list[tuple[dict[str, Any], int | None]] = [
        ({"options": []}, None),
        ({"options": "yes"}, -32602),
        ({"options": None}, -32602),
        ({"toolCall": None}, -32602),
        ({"toolCall": {"title": "x"}}, -32602),
        ({"sessionId": 5}, -32602),
        ({"sessionId": "s-of-nobody"}, -32602),
    ]
    words = "\n".join(f"{asked(**other)} do {ran}" for other, _ in rows)
    assert ended(mine, words, agent="fake", onPermission="allow")["outcome"] == "completed"
    sent = answers(look)
    assert [m.get("error", {}).get("code") for m in sent] == [code for _, code in rows]
    assert [m["id"] for m in sent] == list(range(len(rows)))
    assert sent[0]["result"] == {"outcome": {"outcome": "cancelled"}}
    assert not ran.exists()


def test_row_11_the_twentieth_malformed_request_ends_the_session_and_says_so_everywhere(
    shared: Home, mine: Client, tmp_path: Path
) -> None:
    look, ran = Look(shared), tmp_path / "ran"
    words = "\n".join([*['ask-json {"options": 1}'] * MOST, f"ask execute x do {ran}", "hang"])
    result = ended(mine, words, agent="fake", mode="session", onPermission="allow")
    why = f"it sent {MOST} malformed requests"
    assert result["outcome"] == "failed"
    assert result["error"]["code"] == "agent_died"
    assert why in result["error"]["message"]
    row = died(mine, result["key"])
    assert why in row["lastError"]["message"]
    assert why in shared.run("status", result["key"]).out
    notices = [e for e in log(shared, result["key"], "notice") if e["kind"] == "malformed_request"]
    assert [notice["count"] for notice in notices] == list(range(1, MOST + 1))
    assert why in look.daemon
    assert not ran.exists()


def test_row_12_what_is_too_large_to_be_shown_is_refused_and_told_of(
    shared: Home, mine: Client, tmp_path: Path
) -> None:
    look, ran = Look(shared), tmp_path / "ran"
    huge = asked(toolCall={**CALL, "title": "x" * (1 << 20)})
    receipt = ended(mine, f"{huge} do {ran}", agent="fake", mode="session", onPermission="allow")
    assert receipt["outcome"] == "completed"
    (answer,) = answers(look)
    assert (answer["id"], answer["error"]["code"]) == (0, -32600)
    (notice,) = log(shared, receipt["key"], "notice")
    assert "1048576 bytes" in notice["message"]
    assert not ran.exists()
    mine.call("close", key=receipt["key"])


def test_row_13_another_agents_session_is_none(shared: Home, mine: Client, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    one = ended(mine, "say one", agent="fake", mode="session")
    (row,) = mine.call("status", key=one["key"])["sessions"]
    look = Look(shared)
    theirs = asked(sessionId=row["agentSessionId"] + "-not-mine")
    other = ended(mine, f"{theirs} do {ran}", agent="moded", onPermission="allow")
    assert other["outcome"] == "completed"
    (answer,) = answers(look)
    assert answer["error"]["code"] == -32602
    assert not ran.exists()
    assert log(shared, one["key"], "permission_asked") == []
    mine.call("close", key=one["key"])


def test_row_14_a_question_behind_the_answer_is_asked_although_the_run_allows(
    shared: Home, mine: Client
) -> None:
    """The turn may still be under way for whoever goes by its task."""
    look = Look(shared)
    request = {
        "jsonrpc": "2.0",
        "id": 77,
        "method": "session/request_permission",
        "params": {"sessionId": "@SID@", "toolCall": CALL, "options": OPTIONS},
    }
    end = '{"jsonrpc":"2.0","id":@ID@,"result":{"stopReason":"end_turn"}}'
    words = f"raw {end}\nraw {json.dumps(request)}\nno-answer"
    receipt = start(mine, words, agent="fake", mode="session", onPermission="allow")
    (question,) = questions(mine, receipt["key"])
    assert question["subject"]["runId"] is None
    assert over(mine, receipt)["outcome"] == "completed"
    mine.call("answer", id=question["id"], effect="deny")
    until(lambda: [m for m in answers(look) if m["id"] == 77])
    (answer,) = [m for m in answers(look) if m["id"] == 77]
    assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": "no"}
    mine.call("close", key=receipt["key"])


def test_row_15_what_is_asked_after_the_cancel_is_cancelled_and_runs_nothing(
    shared: Home, mine: Client, tmp_path: Path
) -> None:
    look, ran = Look(shared), tmp_path / "ran"
    asks = [f"ask execute {name} do {ran}" for name in ("one", "two", "three")]
    words = "\n".join([*asks, "ignore-cancel"])
    receipt = start(mine, words, agent="fake", mode="session")
    questions(mine, receipt["key"])
    mine.call("cancel", key=receipt["key"], grace=0.5)
    assert over(mine, receipt)["outcome"] == "cancelled"
    assert [m["result"] for m in answers(look)] == [{"outcome": {"outcome": "cancelled"}}] * 3
    assert not ran.exists()
    mine.call("close", key=receipt["key"])


def test_row_16_a_reused_id_gets_one_error_and_neither_question_is_allowed(
    shared: Home, mine: Client, tmp_path: Path
) -> None:
    look, ran = Look(shared), tmp_path / "ran"
    first = f"next-id 5\nbg ask execute one do {ran}"
    receipt = start(mine, f"{first}\nsleep 100\nnext-id 5\nbg ask execute two do {ran}\nhang")
    until(lambda: [m for m in answers(look) if m["id"] == 5])
    questions(mine, receipt["key"], 0)
    mine.call("cancel", key=receipt["key"], grace=1)
    (answer,) = [m for m in answers(look) if m["id"] == 5]
    assert answer["error"]["code"] == -32600
    assert not ran.exists()


def test_row_35_the_questions_of_a_dead_agent_are_withdrawn_and_clients_are_told(
    shared: Home, mine: Client
) -> None:
    with shared.running("permissions", "--watch", "--json") as watch:
        assert watch.stdout is not None
        assert json.loads(watch.stdout.readline())["type"] == "open_questions"
        receipt = start(mine, "bg ask execute x\nhang", agent="fake", mode="session")
        (question,) = questions(mine, receipt["key"])
        (row,) = mine.call("status", key=receipt["key"])["sessions"]
        os.kill(next(p["pid"] for p in row["processes"] if p["role"] == "agent"), signal.SIGKILL)
        assert json.loads(watch.stdout.readline())["type"] == "permission_asked"
        told = json.loads(watch.stdout.readline())
    assert (told["type"], told["id"], told["effect"]) == (
        "permission_decided",
        question["id"],
        "cancel",
    )
    assert told["reason"] == "agent_died"
    with pytest.raises(BridgeError) as caught:
        mine.call("answer", id=question["id"], effect="allow")
    assert caught.value.code == "already_resolved"


def test_rows_36_37_39_40_what_we_do_not_serve_is_refused_and_what_we_do_not_know_is_noted(
    shared: Home, mine: Client
) -> None:
    """Rows 36, 37, 39 and 40; and the words of an elicitation are stored nowhere."""
    look = Look(shared)
    secret = "pin-hush-hush-4711"
    form = {"mode": "form", "message": secret, "requestedSchema": {"type": "object"}}
    url = {"mode": "url", "url": f"https://x.example/?t={secret}", "message": "open it"}
    calls = [
        ("_vendor/allow_everything", {}, -32601),
        ("session/prompt", {}, -32601),
        ("fs/read_text_file", {"path": "/etc/passwd"}, -32601),
        ("fs/write_text_file", {"path": "/tmp/x", "content": "x"}, -32601),
        ("terminal/create", {"command": "id"}, -32601),
        ("terminal/output", {"terminalId": "1"}, -32601),
        ("elicitation/create", form, -32602),
        ("elicitation/create", url, -32602),
    ]
    words = [f"call {method} {json.dumps(params)}" for method, params, _ in calls]
    words += ["notify _vendor/told {}", 'notify elicitation/complete {"elicitationId": "1"}']
    done = ended(mine, "\n".join(words), agent="fake", mode="session", onPermission="allow")
    assert done["outcome"] == "completed"
    assert [m["error"]["code"] for m in answers(look)] == [code for _, _, code in calls]
    notices = log(shared, done["key"], "notice")
    assert [n["method"] for n in notices if n["kind"] == "agent_notification"] == [
        "_vendor/told",
        "elicitation/complete",
    ]
    assert [n["mode"] for n in notices if n["kind"] == "elicitation_refused"] == ["form", "url"]
    assert secret not in json.dumps(notices)
    assert secret not in (shared.path / "audit.jsonl").read_text(encoding="utf-8")
    assert secret not in shared.run("daemon", "logs").out
    assert log(shared, done["key"], "permission_asked") == []
    mine.call("close", key=done["key"])


def test_row_38_a_question_that_is_taken_back_is_withdrawn_and_clients_are_told(
    shared: Home, mine: Client
) -> None:
    look = Look(shared)
    receipt = start(mine, "bg ask execute x\nsleep 100\nwithdraw\nsay on", mode="session")
    assert over(mine, receipt)["outcome"] == "completed"
    (answer,) = answers(look)
    assert answer["error"]["code"] == -32800
    (decided,) = log(shared, receipt["key"], "permission_decided")
    assert (decided["effect"], decided["reason"]) == ("cancel", "withdrawn")
    assert mine.call("questions")["permissions"] == []
    mine.call("close", key=receipt["key"])


# Restarts.


def on_record(home: Home) -> set[str]:
    """Return the questions that the ledger has: what it has not yet, no restart can tell of."""
    with closing(sqlite3.connect(f"file:{home.path / 'state.db'}?mode=ro", uri=True)) as ledger:
        return {name for (name,) in ledger.execute("SELECT id FROM questions")}


@pytest.mark.parametrize("how", ["stop", "kill -9"])
def test_row_34_nothing_that_was_open_is_ever_restored_as_allowed(how: str, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with daemon_home(tmp_path) as home:
        memory = ("--memory", str(tmp_path / "memory"))
        home.configure(fake=(*memory, *log_option(home)))
        home.start()
        with client(home) as caller:
            words = f"say one\nbg ask execute one do {ran}\nask execute two do {ran}"
            receipt = start(caller, words, agent="fake", mode="session")
            opened = {question["id"] for question in questions(caller, receipt["key"], 2)}
            until(lambda: on_record(home) == opened)
        if how == "stop":
            assert home.run("daemon", "stop", "--force").code == 0
        else:
            os.kill(home.daemon_pid(), signal.SIGKILL)
        home.start()
        with client(home) as caller:
            assert caller.call("questions")["permissions"] == []
            for name in opened:
                with pytest.raises(BridgeError) as caught:
                    caller.call("answer", id=name, effect="allow")
                assert caught.value.code in ("no_such_question", "already_resolved")
            assert ended(caller, "say again", session=receipt["key"])["outcome"] == "completed"
        decided = {e["id"]: e for e in log(home, receipt["key"], "permission_decided")}
        recorded = {r["request_uid"]: r for r in audit(home, "permission_decided")}
        for found in (decided, recorded):
            assert set(found) == opened
        assert {e["effect"] for e in decided.values()} == {"cancel"}
        assert {r["decision"] for r in recorded.values()} == {"cancel"}
        assert not ran.exists()
        if how == "kill -9":
            assert {r["rule_id"] for r in recorded.values()} == {"system:recovery"}
            # Once only: the next start finds them decided.
            assert home.run("daemon", "restart").code == 0
            assert len(audit(home, "permission_decided")) == len(opened)


# Modes.


def test_g30_an_agent_that_lets_itself_go_loses_its_turn_and_is_put_back_and_all_is_told(
    shared: Home, mine: Client
) -> None:
    receipt = ended(mine, "set-mode yolo\nhang", agent="moded", mode="session")
    assert receipt["outcome"] == "failed"
    assert receipt["error"]["code"] == "bypass_refused"
    key = receipt["key"]
    (row,) = mine.call("status", key=key)["sessions"]
    assert (row["mode"], row["bypass"], row["state"]) == ("default", False, "ready")
    changes = [(e["before"], e["mode"], e["by"]) for e in log(shared, key, "mode_changed")]
    assert changes == [("default", "yolo", "agent"), ("yolo", "default", "acpbridge")]
    refusals = [e for e in log(shared, key, "notice") if e["kind"] == "mode_refused"]
    assert len(refusals) == 1
    records = [r for r in audit(shared, "mode_changed") if r["session"] == key]
    assert [(r["from"], r["to"], r["by"], r["bypass"]) for r in records] == [
        ("default", "yolo", "agent", True),
        ("yolo", "default", "acpbridge", False),
    ]
    (refused,) = [r for r in audit(shared, "mode_refused") if r["session"] == key]
    assert (refused["by"], refused["turn"]) == ("agent", receipt["runId"])
    mine.call("close", key=key)


def test_g30_an_agent_that_does_not_come_back_is_ended_with_the_reason(
    shared: Home, mine: Client
) -> None:
    receipt = ended(mine, "set-mode yolo\nignore-cancel", agent="deaf", mode="session")
    assert receipt["outcome"] == "failed"
    row = died(mine, receipt["key"])
    assert "nobody is asked any more (Mode 'yolo')" in row["lastError"]["message"]


def test_g30_a_mode_is_shown_loudly_in_status_whatever_the_agent_is(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        command = home.agent(*MODES)
        entry = {"runtime": {"kind": "acp", "command": command}}
        config = {"agents": {"list": [{"id": "free", **entry, "allow_bypass": True}]}}
        (home.path / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        home.start()
        with client(home) as caller:
            shown = {}
            for mode in ("default", "acceptEdits", "yolo"):
                receipt = ended(caller, f"set-mode {mode}", agent="free", mode="session")
                (row,) = caller.call("status", key=receipt["key"])["sessions"]
                text = home.run("status", receipt["key"]).out
                shown[mode] = (row["mode"], row["asks"], row["bypass"], "BYPASS" in text)
                assert (mode != "acceptEdits") or "does not ask" in text
                caller.call("close", key=receipt["key"])
        assert shown == {
            "default": ("default", None, False, False),
            "acceptEdits": ("acceptEdits", False, False, False),
            "yolo": ("yolo", False, True, True),
        }
        (record,) = [r for r in audit(home, "mode_changed") if r["bypass"]]
        assert (record["to"], record["by"]) == ("yolo", "agent")
        assert audit(home, "mode_refused") == []


def test_row_28_a_run_that_wants_such_a_mode_is_refused_and_the_audit_has_it(
    shared: Home, mine: Client
) -> None:
    done = shared.run("run", "--agent", "moded", "--set", "mode=yolo", "say hi")
    assert "yolo" in failed(done, "bypass_refused", 6)
    record = audit(shared, "mode_refused")[-1]
    assert (record["agent"], record["by"]) == ("moded", "client")
