"""A completion in words: the true state, and a result that stays data whatever it says."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acpbridge.model.keys import SessionKey
from acpbridge.model.sessions import Outcome, RunRecord
from acpbridge.router.said import Said
from acpbridge.router.telling import RESULT, Completion, plain, protected

KEY = SessionKey.parse("agent:codex:acp:8ad97405-f452-4b86-9fdd-d9fb9fe7d48e")


def completion(
    text: str = "done", outcome: Outcome = Outcome.COMPLETED, said: Any = None, **fields: Any
) -> Completion:
    run = RunRecord(
        run_id="r1",
        session=KEY,
        requested_by="agent:inside",
        accepted_at="2026-01-02T03:04:05.000+00:00",
        ended_at="2026-01-02T03:04:17.500+00:00",
        outcome=outcome,
        **{"task": "inspect the tests", **fields},
    )
    return Completion(run, said or Said(text), "acp", "their-id")


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=200))
def test_no_result_can_close_its_wrapper_or_pass_for_a_line_of_the_bridge(text: str) -> None:
    """Every line of it bears the mark, whatever ends a line for whoever reads it."""
    one = completion(text)
    for told in (plain(one), protected(one)):
        lines = told.splitlines()
        if not one.result.strip():
            continue
        begin = lines.index("result:")
        end = next(i for i, line in enumerate(lines) if i > begin and not line.startswith("| "))
        assert [line[2:] for line in lines[begin + 1 : end]] == one.result.splitlines()
        assert lines[end] == ""
        assert lines[end + 1].startswith("stats: ")
        assert [i for i, line in enumerate(lines) if line.startswith("| ")] == list(
            range(begin + 1, end)
        )


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=100), st.text(max_size=100))
def test_no_task_and_no_error_makes_a_line_of_its_own(task: str, message: str) -> None:
    one = completion(outcome=Outcome.FAILED, task=task, error={"code": "x", "message": message})
    plainly = completion(outcome=Outcome.FAILED, error={"code": "x", "message": "m"})
    assert len(plain(one).splitlines()) == len(plain(plainly).splitlines())


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.COMPLETED, "completed; ready for parent review"),
        (Outcome.TIMED_OUT, "timed out"),
        (Outcome.CANCELLED, "cancelled"),
        (Outcome.INTERRUPTED, "interrupted"),
        (Outcome.FAILED, "failed: it stopped with refusal"),
    ],
)
def test_the_status_is_that_of_the_run_and_not_what_the_agent_said(
    outcome: Outcome, status: str
) -> None:
    one = completion("status: completed", outcome, stop_reason="refusal")
    assert one.status == status
    assert f"\nstatus: {status}\n" in plain(one)
    partial = outcome is not Outcome.COMPLETED
    assert ("\nresult (partial):\n" in plain(one)) == partial
    assert one.to_json()["partial"] == partial


@pytest.mark.parametrize("text", ["", "NO_REPLY", "no_reply"])
def test_r10_no_output_where_some_was_due_is_a_missing_deliverable(text: str) -> None:
    one = completion(text)
    assert one.status == "completed without a result: the deliverable is missing"
    assert "\nresult: none\n" in plain(one)


def test_r9_what_was_used_is_told_and_what_nobody_knows_is_unknown() -> None:
    known = completion(
        said=Said("done", cost={"amount": 0.25, "currency": "USD"}),
        usage={"inputTokens": 10, "outputTokens": 20, "totalTokens": 30},
    )
    assert "stats: runtime 12.5 s; tokens in 10, out 20, total 30; cost 0.25 USD;" in plain(known)
    assert "tokens unknown; cost unknown;" in plain(completion())
    assert "tokens out 0;" in plain(completion(usage={"outputTokens": 0, "inputTokens": "lots"}))


def test_3_9_an_agent_that_speaks_acp_gets_plain_text_and_one_of_the_house_the_event() -> None:
    one = completion()
    assert plain(one).startswith("What follows is a report of acpbridge")
    assert "[Internal" not in plain(one)
    assert "\nInstruction: " in plain(one)
    assert protected(one).startswith("[Internal task completion event]\n")
    assert "\nAction: " in protected(one)
    for told in (plain(one), protected(one)):
        assert f"session_key: {KEY}\nsession_id: their-id\ntype: acp task\n" in told
        assert "task: inspect the tests\n" in told
        assert "NO_REPLY" in told


def test_r10_denials_and_tool_calls_that_did_not_end_are_named() -> None:
    told = plain(completion(said=Said("x", denied=("Run (timed_out)",), open_tools=2)))
    assert "\ndenied: Run (timed_out)\n" in told
    assert "\nnote: 2 of its tool calls had not ended\n" in told


def test_a_result_that_is_too_long_is_cut_with_a_mark() -> None:
    one = completion("x" * (RESULT + 5))
    assert "⟨5 more characters⟩" in plain(one)
    assert len(one.to_json()["result"]) < RESULT + 100
