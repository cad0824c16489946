"""The rows of the fail-closed table at the connection: what an agent writes, and what it is sent.

The agent is the test, byte by byte; what it is answered is looked at exactly, and how often.
"""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact
from acpbridge.model.permission import Decision, PermissionAsk
from acpbridge.protocol.jsonrpc import MAX_OPEN_CALLS
from acpbridge.runtimes.acp_client import MAX_PERMISSION_BYTES
from acpbridge.runtimes.base import Load, New
from acpbridge.runtimes.malformed import MOST
from tests.unit.runtimes.scenarios import HANG, Recorder, allow, text
from tests.unit.runtimes.wire import (
    END,
    OPTIONS,
    PERMISSION,
    SESSION,
    line,
    params,
    prompted,
    wired,
)

CANCELLED = {"outcome": {"outcome": "cancelled"}}
YES = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}


async def never(_ask: PermissionAsk) -> Decision:
    """Leave every question open."""
    await anyio.sleep_forever()
    raise AssertionError


def notices(host: Recorder, kind: str) -> list[dict[str, Any]]:
    return [
        dict(event.values)
        for event in host.events
        if isinstance(event, Fact) and event.type == "notice" and event.values["kind"] == kind
    ]


def ask(number: Any, **other: Any) -> dict[str, Any]:
    return {"id": number, "method": PERMISSION, "params": params(**other)}


CALL = params()["toolCall"]
MALFORMED: dict[str, Any] = {
    "row 5: options missing": {"sessionId": SESSION, "toolCall": CALL},
    "row 5: options null": params(options=None),
    "row 5: options an object": params(options={"a": OPTIONS[0]}),
    "row 5: an option without a name": params(options=[{"optionId": "a", "kind": "allow_once"}]),
    "row 5: an id that is a number": params(options=[{**OPTIONS[0], "optionId": 1}]),
    "row 5: a kind that is null": params(options=[{**OPTIONS[0], "kind": None}]),
    "row 10: no tool call": {"sessionId": SESSION, "options": list(OPTIONS)},
    "row 10: a tool call that is text": params(toolCall="t-1"),
    "row 10: a tool call without an id": params(toolCall={"title": "x"}),
    "row 10: an id that is empty": params(toolCall={"toolCallId": ""}),
    "row 11: params that are a list": [params()],
    "row 11: no params": None,
    "row 11: a session that is a number": params(sessionId=1),
    "row 11: a title that is a number": params(toolCall={**CALL, "title": 1}),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_rows_05_10_11_malformed_params_are_refused_by_their_id_and_nobody_is_asked(
    name: str, tmp_path: Path
) -> None:
    """Rows 5, 10 and 11."""
    host = Recorder(allow)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            await wire.send({"id": "q", "method": PERMISSION, "params": MALFORMED[name]})
            await wire.settled()
            (answer,) = wire.answered("q")
    assert (answer["error"]["code"], answer["id"]) == (-32602, "q")
    assert host.asks == []
    assert len(notices(host, "malformed_request")) == 1


UNREADABLE = {
    "equal keys": line(**ask(7)).replace(b'"t-1"', b'"t-1", "toolCallId": "t-2"'),
    "NaN": line(**ask(7)).replace(b'"rm x"', b"NaN"),
    "a number beyond all": line(**ask(7)).replace(b'"rm x"', b"1e999"),
    "a lone surrogate": line(**ask(7)).replace(b"rm x", b"\\ud800"),
    "bytes that are no UTF-8": line(**ask(7)).replace(b"rm x", b"rm \xff"),
    "nested too deep": line(**ask(7)).replace(b'"rm x"', b"[" * 300 + b"]" * 300),
    "nested far too deep": line(**ask(7)).replace(b'"rm x"', b"[" * 100_000 + b"]" * 100_000),
    "another version": line(**ask(7)).replace(b'"2.0"', b'"1.0"'),
    "a method that is a number": line(**ask(7)).replace(f'"{PERMISSION}"'.encode(), b"5"),
}


@pytest.mark.parametrize("name", UNREADABLE)
async def test_row_11_what_cannot_be_read_is_refused_by_its_id_once(
    name: str, tmp_path: Path
) -> None:
    host = Recorder(allow)
    data = UNREADABLE[name].replace(b'"jsonrpc": "2.0", "id": 7', b'"id": 7, "jsonrpc": "2.0"')
    if "version" not in name:
        data = UNREADABLE[name]
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            await wire.raw(data)
            await wire.settled()
            (answer,) = wire.answered(7)
    assert answer["error"]["code"] == -32600
    assert host.asks == []
    assert len(notices(host, "malformed_request")) == 1


@pytest.mark.parametrize("number", ["null", "true", "[]", "{}", "1e999"])
async def test_row_11_nothing_is_sent_for_an_id_that_is_none(number: str, tmp_path: Path) -> None:
    """Never `id: null` to an agent."""
    host = Recorder(allow)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            await wire.raw(line(**ask(7)).replace(b'"id": 7', f'"id": {number}'.encode()))
            await wire.settled()
            answers = [m for m in wire.heard if "method" not in m]
    assert [str(m["id"])[:7] for m in answers] == ["settled"]
    assert host.asks == []


async def test_row_11_the_twentieth_malformed_request_ends_the_agent_and_says_why(
    tmp_path: Path,
) -> None:
    """Params and lines count together; what is right behind the last one is not served."""
    host = Recorder(allow)
    with anyio.fail_after(HANG):
        async with wired(tmp_path, host, how=New()) as (session, wire):
            for n in range(MOST // 2):
                await wire.send({"id": f"p{n}", "method": PERMISSION, "params": {}})
            for n in range(MOST // 2 - 1):
                await wire.raw(line(**ask(f"l{n}")).replace(b'"rm x"', b"NaN"))
            await wire.settled()
            assert host.asks == []
            bad = line(id="bad", method=PERMISSION, params={})
            await wire.raw(bad + line(**ask("behind")))
            error = await session.died()
        assert wire.ended
        assert [m for m in wire.answered("behind") if "error" not in m] == []
    assert isinstance(error, BridgeError)
    assert error.code == "agent_died"
    assert f"it sent {MOST} malformed requests" in error.message
    assert host.asks == []
    assert len(notices(host, "malformed_request")) == MOST


async def test_row_11_nothing_but_malformed_requests_counts(tmp_path: Path) -> None:
    host = Recorder(allow)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            for n in range(MOST * 2):
                await wire.send(
                    {"id": f"{n}s", **{k: ask(0, sessionId="x")[k] for k in ("method", "params")}},
                    {"id": f"{n}u", "method": "unknown/thing", "params": {}},
                    {"method": "unknown/told", "params": {}},
                    {"id": f"{n}a", "result": {}},
                    {"method": PERMISSION, "params": {}},
                )
                await wire.raw(b"noise\n")
            await wire.send(ask("last"))
            (answer,) = await wire.answers("last")
    assert answer["result"] == YES
    assert notices(host, "malformed_request") == []


async def test_row_12_a_request_that_no_person_can_be_shown_is_refused_once_and_told_of(
    tmp_path: Path,
) -> None:
    host = Recorder(allow)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            big = [{**OPTIONS[0], "name": "n" * MAX_PERMISSION_BYTES}]
            await wire.send(ask(5, options=big))
            await wire.send(ask(6, options=big * 3))
            await wire.settled()
            answers = [*wire.answered(5), *wire.answered(6)]
    assert [(m["id"], m["error"]["code"]) for m in answers] == [(5, -32600), (6, -32600)]
    assert host.asks == []
    told = [notice["message"] for notice in notices(host, "malformed_request")]
    assert len(told) == 2
    assert all(f"more than {MAX_PERMISSION_BYTES} bytes" in message for message in told)


async def test_row_12_g15_a_long_request_with_the_word_of_an_update_is_answered(
    tmp_path: Path,
) -> None:
    """It was taken for an update that is passed on unread, and never answered."""
    host = Recorder(allow)
    title = {**CALL, "title": "session/update", "rawInput": "x" * (MAX_PERMISSION_BYTES // 2)}
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            message = ask(5, toolCall=title)
            message["params"] = {"toolCall": title, **message["params"]}
            await wire.send(message)
            (answer,) = await wire.answers(5)
    assert answer["result"] == YES


@pytest.mark.parametrize("session", ["", "s-2", "S-1", "s-1 ", "agent:wired:main"])
async def test_row_13_no_other_session_is_served(session: str, tmp_path: Path) -> None:
    host = Recorder(allow)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            await wire.send(ask(5, sessionId=session))
            (answer,) = await wire.answers(5)
    assert answer["error"]["code"] == -32602
    assert host.asks == []


async def test_row_13_before_the_session_is_named_there_is_none(tmp_path: Path) -> None:
    host = Recorder(allow)
    early = {"session/new": line(**ask(5)) + line(**ask(6, sessionId=""))}
    with anyio.fail_after(HANG):
        async with wired(tmp_path, host, how=New(), before=early) as (_, wire):
            answers = [*await wire.answers(5), *await wire.answers(6)]
    assert [m["error"]["code"] for m in answers] == [-32602, -32602]
    assert host.asks == []


async def test_row_13_a_session_is_bound_to_its_connection(tmp_path: Path) -> None:
    one, two = Recorder(allow), Recorder(allow)
    other = {"sessionId": "s-2"}
    with anyio.fail_after(HANG):
        async with (
            prompted(tmp_path, one) as (_, first, _),
            prompted(tmp_path, two, session_new=other) as (_, second, _),
        ):
            await first.send(ask(5, sessionId="s-2"))
            await second.send(ask(5, sessionId=SESSION))
            answers = [*await first.answers(5), *await second.answers(5)]
    assert [m["error"]["code"] for m in answers] == [-32602, -32602]
    assert one.asks == two.asks == []


async def test_row_13_a_session_that_was_closed_is_none(tmp_path: Path) -> None:
    host = Recorder(allow)
    able = {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}}
    with anyio.fail_after(HANG):
        async with wired(tmp_path, host, how=New(), initialize=able, session_close={}) as (
            session,
            wire,
        ):
            await session.close()
            await wire.until("session/close")
            await wire.send(ask(5))
            (answer,) = await wire.answers(5)
    assert answer["error"]["code"] == -32602
    assert host.asks == []


async def test_row_14_what_is_asked_in_a_turn_is_of_it(tmp_path: Path) -> None:
    host = Recorder(allow)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            await wire.send(ask(5))
            await wire.answers(5)
    assert [one.outside_turn for one in host.asks] == [False]


async def test_row_14_what_is_asked_right_behind_the_answer_is_of_no_turn(tmp_path: Path) -> None:
    """In one write: by its task it would still be of the turn, and the turn's rule would allow."""
    host = Recorder(allow)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, number):
            await wire.send({"id": number, "result": END}, ask(5))
            await wire.answers(5)
    assert [one.outside_turn for one in host.asks] == [True]


async def test_row_14_files_and_terminals_behind_the_answer_are_of_no_turn(tmp_path: Path) -> None:
    host = Recorder()
    target = str(tmp_path / "file")
    Path(target).write_text("x", encoding="utf-8")
    calls = [
        ("fs/read_text_file", {"path": target}),
        ("fs/write_text_file", {"path": target, "content": "y"}),
        ("terminal/create", {"command": "true", "cwd": str(tmp_path)}),
    ]
    requests = [
        {"id": f"{when}{n}", "method": method, "params": {"sessionId": SESSION, **fields}}
        for when in ("in", "out")
        for n, (method, fields) in enumerate(calls)
    ]
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host, serves=True) as (_, wire, number):
            await wire.send(*requests[:3])
            await host.until(lambda: len(host.asks) == 3)
            await wire.send({"id": number, "result": END}, *requests[3:])
            await host.until(lambda: len(host.asks) == 6)
            for request in requests:
                (answer,) = await wire.answers(request["id"])
                assert "error" in answer
    assert [one.outside_turn for one in host.asks] == [False] * 3 + [True] * 3


async def test_row_14_what_is_asked_in_a_replay_is_of_no_turn(tmp_path: Path) -> None:
    host = Recorder(allow)
    early = {"session/load": line(**ask(5))}
    with anyio.fail_after(HANG):
        async with wired(tmp_path, host, how=Load(SESSION), before=early) as (_, wire):
            await wire.answers(5)
    assert [one.outside_turn for one in host.asks] == [True]


async def test_row_15_after_the_cancel_everything_is_cancelled_until_the_next_prompt(
    tmp_path: Path,
) -> None:
    """What is open, what comes before the turn's end, and what comes in one write with it."""
    host = Recorder(never)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (session, wire, number):
            await wire.send(ask("open"))
            await host.until(lambda: host.asks)
            session.cancel()
            await wire.until("session/cancel")
            assert [m["result"] for m in wire.answered("open")] == [CANCELLED]
            await wire.send(ask("late"))
            await wire.answers("late")
            await wire.send({"id": number, "result": END}, ask("behind"))
            await wire.answers("behind")
            answers = [*wire.answered("late"), *wire.answered("behind")]
    assert [m["result"] for m in answers] == [CANCELLED, CANCELLED]
    assert len(host.asks) == 1


async def test_row_15_a_question_whose_agent_was_told_cancelled_is_open_to_nobody_any_more(
    tmp_path: Path,
) -> None:
    """Of no turn, so that no end of a turn withdraws it: a person could still have "allowed" it."""
    ended: list[str] = []

    async def open_for_ever(one: PermissionAsk) -> Decision:
        try:
            return await never(one)
        finally:
            ended.append(one.wire_id)

    host = Recorder(open_for_ever)
    with anyio.fail_after(HANG):
        async with (
            wired(tmp_path, host, how=New()) as (session, wire),
            anyio.create_task_group() as tasks,
        ):
            await wire.send(ask("outside"))
            await host.until(lambda: host.asks)
            tasks.start_soon(session.prompt, text("go"))
            await wire.until("session/prompt")
            session.cancel()
            assert [m["result"] for m in await wire.answers("outside")] == [CANCELLED]
            await wire.settled()
            assert ended == ['"outside"']
            tasks.cancel_scope.cancel()
    assert len(wire.answered("outside")) == 1


@pytest.mark.parametrize(
    "again",
    [
        line(**ask(5)),
        line(id=5, method="_vendor/x", params={}),
        line(**ask(5)).replace(b'"rm x"', b"NaN"),
    ],
)
async def test_row_16_a_reused_id_gets_one_error_and_its_question_is_withdrawn(
    again: bytes, tmp_path: Path
) -> None:
    withdrawn: list[str] = []

    async def open_for_ever(one: PermissionAsk) -> Decision:
        try:
            return await never(one)
        finally:
            withdrawn.append(one.wire_id)

    host = Recorder(open_for_ever)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            await wire.send(ask(5))
            await host.until(lambda: host.asks)
            await wire.raw(again)
            await wire.settled()
            (answer,) = wire.answered(5)
            assert withdrawn == ["5"]
            # The id is free again, and counts as any other.
            host.decide = allow
            await wire.send(ask(5))
            assert [m.get("result") for m in await wire.answers(5, 2)] == [None, YES]
    assert answer["error"]["code"] == -32600
    assert len(notices(host, "malformed_request")) == 1


async def test_rows_36_39_what_is_not_advertised_is_refused_and_never_asked(
    tmp_path: Path,
) -> None:
    """Rows 36 and 39: never answered "ok" by the bridge."""
    methods = ["_vendor/approve", "session/new", "initialize", "fs/x", "terminal/x", ""]
    host = Recorder(allow)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            for number, method in enumerate(methods):
                await wire.send({"id": number, "method": method, "params": params()})
            await wire.settled()
            answers = [m for n in range(len(methods)) for m in wire.answered(n)]
    assert [m["error"]["code"] for m in answers] == [-32601] * len(methods)
    assert host.asks == []


async def test_row_37_unknown_notifications_are_recorded_each_and_not_answered(
    tmp_path: Path,
) -> None:
    host = Recorder(allow)
    told = [f"_vendor/{n}" for n in range(5)]
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            # A notification is no request, whatever its method is.
            await wire.send(*({"method": name} for name in (*told, PERMISSION)))
            await wire.settled()
            sent = [m for m in wire.heard if "method" not in m]
    assert [notice["method"] for notice in notices(host, "agent_notification")] == [
        *told,
        PERMISSION,
    ]
    assert len(sent) == 1
    assert host.asks == []


async def test_row_38_a_question_that_the_agent_takes_back_is_answered_once(
    tmp_path: Path,
) -> None:
    host = Recorder(never)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            await wire.send(ask(5), ask("5"))
            await host.until(lambda: len(host.asks) == 2)
            back = {"method": "$/cancel_request", "params": {"requestId": 5}}
            await wire.send(back, back)
            await wire.settled()
            (answer,) = wire.answered(5)
            assert wire.answered("5") == []
    assert answer["error"]["code"] == -32800


@pytest.mark.parametrize(
    ("more", "mode"),
    [
        ({"mode": "form", "requestedSchema": {"properties": {"pin": {"type": "string"}}}}, "form"),
        ({"mode": "url", "url": "https://x.example/?token=hush", "elicitationId": "1"}, "url"),
        ({"mode": "hush"}, "unknown"),
        ({}, "unknown"),
    ],
)
async def test_row_40_c22_an_elicitation_is_refused_told_of_and_not_kept(
    more: dict[str, Any], mode: str, tmp_path: Path
) -> None:
    """Never accepted, and never declined for a person who did not see it."""
    host = Recorder(allow)
    asked = {"sessionId": SESSION, "message": "Your hush, please", **more}
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            await wire.send({"id": 5, "method": "elicitation/create", "params": asked})
            (answer,) = await wire.answers(5)
            initialize = await wire.until("initialize")
    assert answer["error"]["code"] == -32602
    assert "elicitation" not in initialize["params"]["clientCapabilities"]
    (notice,) = notices(host, "elicitation_refused")
    assert notice["mode"] == mode
    assert "hush" not in json.dumps([answer, notice])
    assert host.asks == []


IDS: tuple[Any, ...] = (0, -1, 2**63, -(2**70), "", "0", "null", "é\u202e", 1.5, 1e300, "x" * 5000)


async def test_g15_case_44_each_id_of_each_type_is_answered_as_it_came(tmp_path: Path) -> None:
    """And the same tool call asked again and again is so many questions: case 44."""
    host = Recorder(allow)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            await wire.send(*map(ask, IDS))
            for number in IDS:
                (answer,) = await wire.answers(number)
                assert answer["result"] == YES
    assert [one.wire_id for one in host.asks] == [json.dumps(number) for number in IDS]


async def test_case_39_the_answer_has_its_exact_shape_and_an_offered_id(tmp_path: Path) -> None:
    options = [
        {"optionId": "opt-7f", "name": "Yes", "kind": "allow_once"},
        {"optionId": "opt-91", "name": "No", "kind": "reject_once"},
    ]

    async def take(one: PermissionAsk) -> Decision:
        decision = await allow(one)
        return Decision(decision.effect, "opt-7f", decision.reason)

    with anyio.fail_after(HANG):
        async with prompted(tmp_path, Recorder(take)) as (_, wire, _):
            await wire.send(ask(5, options=options))
            (answer,) = await wire.answers(5)
    told = {"outcome": {"outcome": "selected", "optionId": "opt-7f"}}
    assert answer == {"jsonrpc": "2.0", "id": 5, "result": told}


async def test_case_39_a_decision_that_names_what_was_not_offered_is_not_sent(
    tmp_path: Path,
) -> None:
    options = [{**option, "optionId": f"o-{n}"} for n, option in enumerate(OPTIONS)]
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, Recorder(allow)) as (_, wire, _):
            await wire.send(ask(5, options=options))
            (answer,) = await wire.answers(5)
    assert answer["result"] == CANCELLED  # `allow` names another id


async def test_more_requests_than_may_be_open_are_refused_each_by_its_id(tmp_path: Path) -> None:
    host = Recorder(never)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (_, wire, _):
            await wire.send(*(ask(n) for n in range(MAX_OPEN_CALLS + 3)))
            beyond = [await wire.answers(MAX_OPEN_CALLS + n) for n in range(3)]
            assert not [n for n in range(MAX_OPEN_CALLS) if wire.answered(n)]
    assert [len(answers) for answers in beyond] == [1, 1, 1]
    assert len(host.asks) == MAX_OPEN_CALLS


async def test_answers_that_nobody_waits_for_answer_nothing(tmp_path: Path) -> None:
    """Case 147, in the middle of a question."""
    host = Recorder(never)
    with anyio.fail_after(HANG):
        async with prompted(tmp_path, host) as (session, wire, number):
            await wire.send(ask(5))
            stray = [{"id": one, "result": YES} for one in (5, "5", number + 1, None, True)]
            await wire.send(*stray)
            await wire.settled()
            assert wire.answered(5) == []
            session.cancel()
            assert [m["result"] for m in await wire.answers(5)] == [CANCELLED]
