"""G17: what a log lacks after a crash, from what it has and what is on record."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact, Stamp, Update, render
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.sessions import Outcome, RunRecord
from acpbridge.router.mending import UNTRACED, missing
from acpbridge.store.traces import Traces

KEY = SessionKey.acp(AgentId("codex"), UUID(int=1))


def traces(*events: tuple[str | None, str, dict[str, Any]]) -> Traces:
    """Return what a log with such events has."""
    lines = [
        render(Fact(kind, values), Stamp(number, "e1", "2026-01-02T03:04:05Z", KEY, turn))
        for number, (turn, kind, values) in enumerate(events, 1)
    ]
    return Traces().take_all([b"\n".join(lines)])


def run(name: str, outcome: Outcome | None = Outcome.INTERRUPTED, **more: Any) -> RunRecord:
    return replace(RunRecord(name, KEY, "operator", "then", outcome=outcome), **more)


def told(found: Traces, *runs: RunRecord, **decisions: Any) -> list[tuple[str | None, str, Any]]:
    out = []
    for turn, event in missing(found, runs, decisions):
        assert isinstance(event, Fact)
        assert event.values["recovered"] is True
        out.append((turn, event.type, event.values))
    return out


@pytest.mark.parametrize(
    ("record", "kind", "said"),
    [
        (run("r"), "turn_failed", "interrupted"),
        (run("r", Outcome.COMPLETED, stop_reason="end_turn"), "turn_ended", "end_turn"),
        (run("r", Outcome.CANCELLED, stop_reason="cancelled"), "turn_ended", "cancelled"),
        (run("r", Outcome.FAILED, stop_reason="refusal"), "turn_ended", "refusal"),
        (
            run("r", Outcome.FAILED, error=BridgeError("agent_died", "Gone.").to_json()),
            "turn_failed",
            "agent_died",
        ),
        (
            run("r", Outcome.TIMED_OUT, error=BridgeError("prompt_timeout", "Late.").to_json()),
            "turn_failed",
            "prompt_timeout",
        ),
    ],
)
def test_an_end_is_what_is_on_record(record: RunRecord, kind: str, said: str) -> None:
    ((turn, type_, values),) = told(traces(("r", "turn_started", {})), record)
    assert (turn, type_) == ("r", kind)
    assert values.get("stopReason", values.get("error", {}).get("code")) == said


def test_a_turn_that_has_its_end_or_is_not_over_gets_none() -> None:
    """Without `not in traces.ended`: r1 is told to be over a second time."""
    log = traces(("r1", "turn_started", {}), ("r1", "turn_ended", {}), ("r2", "turn_queued", {}))
    assert told(log, run("r1", Outcome.COMPLETED), run("r2", None)) == []


def test_one_that_never_began_is_told_so() -> None:
    log = traces(("r1", "turn_queued", {}), ("r1", "turn_started", {}), ("r2", "turn_queued", {}))
    messages = [values["error"]["message"] for *_, values in told(log, run("r1"), run("r2"))]
    assert messages == [
        "The daemon ended in the middle of this turn.",
        "The daemon ended before this turn began.",
    ]


def test_of_what_left_no_trace_only_the_last_accepted_are_told_of() -> None:
    """A damaged log does not get an end for every run there ever was."""
    runs = [run(f"r{n}") for n in range(3 * UNTRACED)]
    assert [turn for turn, *_ in told(traces(), *runs)] == [r.run_id for r in runs[-UNTRACED:]]
    assert told(traces(), *(replace(r, outcome=Outcome.COMPLETED) for r in runs)) == []
    # What came before the last one that left a trace was over before that began.
    log = traces(("r60", "turn_started", {}))
    assert [turn for turn, *_ in told(log, *runs)] == ["r60", "r61", "r62"]


def test_an_open_question_is_decided_as_on_record_else_cancelled() -> None:
    asked = {"id": "q", "title": "T", "kind": "edit", "subject": {"toolCallId": "c"}}
    log = traces(("r", "turn_started", {}), ("r", "permission_asked", asked))
    first, second = told(log, run("r"), q={"effect": "deny", "by": "operator"})
    assert first[:2] == ("r", "permission_decided")
    assert (first[2]["id"], first[2]["toolCallId"], first[2]["effect"]) == ("q", "c", "deny")
    assert second[1] == "turn_failed"
    assert told(log, run("r"))[0][2]["effect"] == "cancel"
    done = traces(("r", "permission_asked", asked), ("r", "permission_decided", {"id": "q"}))
    assert [kind for _, kind, _ in told(done, run("r"))] == ["turn_failed"]


def test_an_agent_that_writes_like_us_is_not_believed() -> None:
    """What it says stands behind the type; searched for anywhere, its turn would count as over."""
    lie = {"sessionUpdate": "x", "seq": 9, "turn": "r", "type": "turn_ended"}
    said = render(Update(json.dumps(lie).encode()), Stamp(2, "e", "t", KEY, "r"))
    spaced = said.replace(b": ", b":").replace(b", ", b",")
    assert b'"type":"turn_ended"' in spaced
    started = render(Fact("turn_started", {}), Stamp(1, "e", "t", KEY, "r"))
    found = Traces().take_all([started, said, spaced])
    assert (list(found.seen), found.ended) == (["r"], set())


def test_a_log_that_is_closed_is_known_to_be() -> None:
    assert traces((None, "session_closed", {"reason": "killed"})).closed
    assert not traces((None, "notice", {"type": "session_closed"})).closed
