"""Kind 3: races of a cancel, towards a real agent process and as its log has them.

Each docstring shows what its test says when the guard that it names is taken out.
"""

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.events import Update
from acpbridge.model.permission import Decision, PermissionAsk
from acpbridge.runtimes import aftermath
from acpbridge.runtimes.base import New, RuntimeSession
from tests.integration.agents import fake_session, received
from tests.unit.fixtures.raw_client import log_of
from tests.unit.runtimes.scenarios import HANG, Recorder, allow, text

OPTIONS = [{"optionId": "allow_once", "name": "Yes", "kind": "allow_once"}]


async def never(ask: PermissionAsk) -> Decision:
    await anyio.sleep_forever()
    raise AssertionError


async def ends(session: RuntimeSession, words: str, reason: str = "cancelled") -> None:
    assert (await session.prompt(text(words))).stop_reason == reason


async def cancel_when_said(session: RuntimeSession, host: Recorder, words: str) -> None:
    """Run a turn that says `on` before its last line, and cancel it then."""
    before = host.said
    *first, last = words.split("\n")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ends, session, "\n".join((*first, "say on", last)))
        await host.until(lambda: host.said != before)
        session.cancel()


def methods(folder: Path) -> list[str]:
    return [message["method"] for message in received(folder) if "method" in message]


def late(host: Recorder, kind: str = "") -> list[bool]:
    updates = (event for event in host.events if isinstance(event, Update))
    return [update.late for update in updates if update.kind.startswith(kind)]


async def test_case_25_a_cancel_in_the_same_write_as_its_prompt_ends_the_turn(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder()) as session:
            await session.open(New())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ends, session, "hang")
                await anyio.lowlevel.checkpoint()
                session.cancel()
    assert methods(tmp_path)[2:] == ["session/prompt", "session/cancel"]


async def test_case_25_a_prompt_that_was_called_off_before_it_was_sent_is_never_sent(
    tmp_path: Path,
) -> None:
    """Without `_send` both of the second turn are sent, the cancel before its prompt."""
    host = Recorder()
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host) as session:
            await session.open(New())
            await cancel_when_said(session, host, "hang")
            async with anyio.create_task_group() as tasks:

                async def called_off() -> None:
                    with pytest.raises(BridgeError) as caught:
                        await session.prompt(text("say never"))
                    assert caught.value.code == "request_cancelled"

                tasks.start_soon(called_off)
                await anyio.lowlevel.checkpoint()
                session.cancel()
            await ends(session, "say clean", "end_turn")
    assert methods(tmp_path)[2:] == ["session/prompt", "session/cancel", "session/prompt"]
    assert host.said == "onclean"


async def test_cases_26_and_37_a_cancel_answers_27_questions_once_each_and_has_no_id(
    tmp_path: Path,
) -> None:
    """Without the loop in `_AcpSession.cancel`: `[] == [70, ..., 96]`."""
    host = Recorder(never)
    ran = tmp_path / "ran"
    words = "\n".join(f"bg ask execute t{n} do {ran}" for n in range(27))
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host, "--first-id", "70") as session:
            await session.open(New())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ends, session, f"{words}\nhang")
                await host.until(lambda: len(host.asks) == 27)
                session.cancel()
            await ends(session, "say clean", "end_turn")
    assert not ran.exists()
    lines = received(tmp_path)
    answers = [line for line in lines if "method" not in line]
    assert sorted(answer["id"] for answer in answers) == list(range(70, 97))
    assert {json.dumps(a["result"]) for a in answers} == {'{"outcome": {"outcome": "cancelled"}}'}
    (cancel,) = [line for line in lines if line.get("method") == "session/cancel"]
    assert set(cancel) == {"jsonrpc", "method", "params"}  # case 37: no id
    assert set(cancel["params"]) == {"sessionId"}
    assert max(lines.index(answer) for answer in answers) < lines.index(cancel)


async def test_case_31_what_comes_late_of_a_cancelled_turn_is_not_the_next_ones(
    tmp_path: Path,
) -> None:
    """Without `aftermath.over()` in `prompt`: the prompt is sent before `1`, which passes for its.

    Then: `assert ['say mine', 'late 0', ...] == ['late 0', ..., 'say mine']`.
    """
    host = Recorder()
    lines = "\n".join(f"late-update 60 {n};" for n in range(5))
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host) as session:
            await session.open(New())
            await cancel_when_said(session, host, f"{lines}\nhang")
            await ends(session, "say mine", "end_turn")
            await ends(session, "say again", "end_turn")
    assert host.said == "on0;1;2;3;4;mineagain"
    assert late(host) == [False, *[True] * 5, False, False]
    order = []
    for record in log_of(tmp_path / "log.jsonl"):
        seen = str(record.get("line") or record.get("bytes"))
        order += [word for word in ("4;", "say mine") if f'"{word}"' in seen]
    assert order[:2] == ["4;", "say mine"]


async def test_case_31_an_agent_that_never_is_quiet_is_prompted_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aftermath, "QUIET_LIMIT", 0.3)
    host = Recorder()
    lines = "\n".join(f"late-update 50 {n};" for n in range(40))
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host) as session:
            await session.open(New())
            await cancel_when_said(session, host, f"{lines}\nhang")
            await ends(session, "say mine", "end_turn")
            assert "39;" not in host.said


async def test_case_31_a_cancelled_turns_tool_calls_and_questions_are_never_the_next_ones(
    tmp_path: Path,
) -> None:
    """Without `_past` in `Aftermath`: the update is not late, and `old` is asked and run."""
    host = Recorder(allow)
    ran = tmp_path / "ran"
    old = {"toolCallId": "old", "title": "rm", "kind": "execute"}
    new = {**old, "toolCallId": "new"}

    def told(kind: str, call: dict[str, Any]) -> str:
        return "update " + json.dumps({"sessionUpdate": kind, **call})

    def asked(call: dict[str, Any]) -> str:
        return "ask-json " + json.dumps({"toolCall": call, "options": OPTIONS}) + f" do {ran}"

    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host) as session:
            await session.open(New())
            await cancel_when_said(session, host, f"{told('tool_call', old)}\nhang")
            words = (
                told("tool_call_update", {**old, "status": "completed"}),
                told("tool_call", new),
                asked(old),
                told("tool_call_update", {**new, "status": "completed"}),
            )
            await ends(session, "\n".join(words), "end_turn")
            assert not host.asks
            assert not ran.exists()
            assert late(host, "tool") == [False, True, False, False]
            # One that is announced anew is this turn's: some agents count from one in every turn.
            await ends(session, f"{told('tool_call', old)}\n{asked(old)}", "end_turn")
            assert len(host.asks) == 1
            assert late(host, "tool")[-1] is False


async def test_case_31_an_answer_to_a_cancelled_prompt_that_comes_twice_ends_no_other(
    tmp_path: Path,
) -> None:
    host = Recorder()
    again = 'raw {"jsonrpc":"2.0","id":@ID@,"result":{"stopReason":"refusal"}}'
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host) as session:
            await session.open(New())
            # Its own id, answered by the script before it is cancelled, and by the agent after.
            await session.prompt(text(again))
            await ends(session, "say mine", "end_turn")
    assert host.said == "mine"


async def test_a_turn_that_was_not_cancelled_delays_the_next_one_by_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aftermath, "QUIET", 1000.0)
    monkeypatch.setattr(aftermath, "QUIET_LIMIT", 1000.0)
    host = Recorder()
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host) as session:
            await session.open(New())
            for _ in range(3):
                await ends(session, "say on", "end_turn")
    assert late(host) == [False] * 3
