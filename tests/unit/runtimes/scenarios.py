"""What every runtime must do, as functions over a way to connect; who calls them says to what."""

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest

from acpbridge.errors import RESOURCE_NOT_FOUND, BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.events import Event, Update
from acpbridge.model.permission import Decision, Effect, PermissionAsk, Reason, ToolKind
from acpbridge.runtimes.base import New, RuntimeSession

Connect = Callable[..., AbstractAsyncContextManager[RuntimeSession]]
"""`connect(host, mode=None)`: a session of the scripted agent, wanted in that mode."""

Scenario = Callable[[Connect], Awaitable[None]]

HANG = 20  # seconds; everything here takes milliseconds


async def allow(ask: PermissionAsk) -> Decision:
    return Decision(Effect.ALLOW, "allow_once", Reason.OPERATOR)


async def deny(ask: PermissionAsk) -> Decision:
    return Decision(Effect.DENY, "reject_once", Reason.OPERATOR)


class Recorder:
    """A session's host that keeps what it is told and answers as it was set to."""

    def __init__(self, decide: Callable[[PermissionAsk], Awaitable[Decision]] = deny) -> None:
        self.events: list[Event] = []
        self.asks: list[PermissionAsk] = []
        self.decide = decide
        self._news = anyio.Event()

    def emit(self, event: Event) -> None:
        self.events.append(event)
        self._tell()

    async def room(self) -> None:
        pass

    async def ask(self, ask: PermissionAsk) -> Decision:
        self.asks.append(ask)
        self._tell()
        return await self.decide(ask)

    def lost(self) -> None:
        pass

    async def call(self, method: str, params: Any) -> Any:
        raise BridgeError("method_not_found", f"not served: {method}")

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    @property
    def updates(self) -> list[dict[str, Any]]:
        return [json.loads(event.raw) for event in self.events if isinstance(event, Update)]

    @property
    def said(self) -> str:
        chunks = (u for u in self.updates if u["sessionUpdate"] == "agent_message_chunk")
        return "".join(chunk["content"]["text"] for chunk in chunks)

    async def until(self, true: Callable[[], object]) -> None:
        while not true():
            await self._news.wait()


def text(words: str) -> tuple[dict[str, Any], ...]:
    return ({"type": "text", "text": words},)


async def opening_gives_a_session_id_and_its_mode(connect: Connect) -> None:
    async with connect(Recorder()) as session:
        assert session.capabilities["protocolVersion"] == 1
        assert session.capabilities["agentCapabilities"]["loadSession"] is False
        assert session.mode is None
        result = await session.open(New())
        assert isinstance(result["sessionId"], str)
        assert result["sessionId"]
        assert session.mode == "default"


async def every_update_of_a_turn_comes_before_its_end_and_in_order(connect: Connect) -> None:
    host = Recorder()
    async with connect(host) as session:
        await session.open(New())
        result = await session.prompt(text("say 500"))
        assert host.said == "".join(f"{index};" for index in range(500))
        assert result.stop_reason == "end_turn"
        assert result.raw["stopReason"] == "end_turn"


async def thoughts_plans_and_tools_are_told_in_full(connect: Connect) -> None:
    host = Recorder()
    async with connect(host) as session:
        await session.open(New())
        await session.prompt(text("everything"))
        assert not session.tool_running
    thought, plan, call, half, diff, output, done, failing, failed, said = host.updates
    assert thought["content"] == {"type": "text", "text": "hm"}
    assert [entry["status"] for entry in plan["entries"]] == ["in_progress", "pending"]
    assert (call["sessionUpdate"], call["status"], call["kind"]) == (
        "tool_call",
        "in_progress",
        "edit",
    )
    assert call["locations"][0]["path"].startswith("/")
    assert call["rawInput"] == {"n": 1}
    assert len(half["content"]) == 1
    assert "locations" not in diff
    assert [item["type"] for item in diff["content"]] == ["content", "diff"]
    assert diff["content"][1]["path"].startswith("/")
    assert output["rawOutput"] == {"ok": True}
    assert (done["toolCallId"], done["status"]) == (call["toolCallId"], "completed")
    assert failed["toolCallId"] == failing["toolCallId"] != call["toolCallId"]
    assert failed["status"] == "failed"
    assert said["content"]["text"] == "done"


async def a_permission_that_is_allowed_is_one(connect: Connect) -> None:
    host = Recorder(allow)
    async with connect(host) as session:
        await session.open(New())
        assert (await session.prompt(text("ask rm"))).stop_reason == "end_turn"
    assert host.said == "allowed"
    (ask,) = host.asks
    assert (ask.subject.title, ask.subject.kind) == ("Run it", ToolKind.EXECUTE)
    assert (ask.subject.known_kind, ask.subject.changed) == (True, ())
    assert ask.subject.raw_input == {"command": "rm"}
    assert [option.kind for option in ask.options] == ["allow_once", "reject_once"]
    assert [u.get("status") for u in host.updates[:2]] == ["pending", "completed"]


async def a_permission_that_is_denied_ends_nothing(connect: Connect) -> None:
    host = Recorder(deny)
    async with connect(host) as session:
        await session.open(New())
        assert (await session.prompt(text("ask rm"))).stop_reason == "end_turn"
    assert host.said == "denied"
    assert [u.get("status") for u in host.updates[:2]] == ["pending", "failed"]


async def an_allow_of_what_was_not_offered_is_none(connect: Connect) -> None:
    async def lie(ask: PermissionAsk) -> Decision:
        return Decision(Effect.ALLOW, "allow_always", Reason.OPERATOR)

    host = Recorder(lie)
    async with connect(host) as session:
        await session.open(New())
        await session.prompt(text("ask rm"))
    assert host.said == "denied"


async def a_choice_is_one_that_was_offered_or_none(connect: Connect) -> None:
    host = Recorder()

    def answer(
        effect: Effect, option: str | None
    ) -> Callable[[PermissionAsk], Awaitable[Decision]]:
        async def decide(ask: PermissionAsk) -> Decision:
            return Decision(effect, option, Reason.OPERATOR)

        return decide

    async with connect(host) as session:
        await session.open(New())
        for decide in (
            answer(Effect.ALLOW, "right"),
            answer(Effect.DENY, "reject_once"),
            answer(Effect.ALLOW, "straight on"),
            answer(Effect.CANCEL, None),
        ):
            host.decide = decide
            await session.prompt(text("choose"))
    assert host.said == "chose rightchose Nonechose Nonechose None"
    offered = [(option.option_id, str(option.kind)) for option in host.asks[0].options]
    assert offered == [
        ("left", "allow_once"),
        ("right", "allow_once"),
        ("reject_once", "reject_once"),
    ]
    ends = [u["status"] for u in host.updates if u["sessionUpdate"] == "tool_call_update"]
    assert ends == ["completed", "failed", "failed", "failed"]


async def a_question_says_what_was_first_told_otherwise(connect: Connect) -> None:
    host = Recorder(allow)
    async with connect(host) as session:
        await session.open(New())
        await session.prompt(text("grow"))
    assert host.said == "[True, True, True]"
    assert [ask.subject.changed for ask in host.asks] == [
        (),
        ("content",),
        ("locations", "content"),
    ]
    assert [len(ask.subject.content) for ask in host.asks] == [1, 2, 2]
    assert [len(ask.subject.locations) for ask in host.asks] == [1, 1, 2]


async def what_a_turn_takes_is_told_with_its_end(connect: Connect) -> None:
    host = Recorder()
    async with connect(host) as session:
        await session.open(New())
        result = await session.prompt(text("count"))
        assert result.raw["usage"] == {
            "inputTokens": 100,
            "outputTokens": 25,
            "cachedReadTokens": 50,
            "totalTokens": 175,
        }
        assert "usage" not in (await session.prompt(text("return"))).raw
    (told, _) = host.updates
    cost = {"amount": 0.25, "currency": "USD"}
    assert told == {"sessionUpdate": "usage_update", "used": 1200, "size": 200_000, "cost": cost}


async def pictures_and_resources_of_a_prompt_reach_the_code(connect: Connect) -> None:
    host = Recorder()
    async with connect(host) as session:
        await session.open(New())
        promised = session.capabilities["agentCapabilities"]["promptCapabilities"]
        assert promised == {"image": True, "audio": False, "embeddedContext": True}
        picture = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
        link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
        whole = {"type": "resource", "resource": {"uri": "file:///b", "text": "held"}}
        await session.prompt((*text("look"), picture, link, whole))
    assert host.said == "image/png 3, file:///a None, file:///b held"


async def code_that_exits_fails_its_turn_and_no_other(connect: Connect) -> None:
    async with connect(Recorder()) as session:
        await session.open(New())
        with pytest.raises(BridgeError) as caught:
            await session.prompt(text("leave 3"))
        assert caught.value.message == "The agent's code raised SystemExit: 3"
        assert (await session.prompt(text("return"))).stop_reason == "end_turn"


async def a_cancel_ends_the_turn_after_its_last_words(connect: Connect) -> None:
    host = Recorder()
    async with connect(host) as session:
        await session.open(New())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancelled_turn, session, "hang")
            await host.until(lambda: session.tool_running)
            session.cancel()
        assert host.said == "hangingcleaned up"
        assert [u.get("status") for u in host.updates[1:3]] == ["in_progress", "failed"]
        await session.prompt(text("return"))
    assert host.said.endswith("the last words")


async def _cancelled_turn(session: RuntimeSession, words: str) -> None:
    assert (await session.prompt(text(words))).stop_reason == "cancelled"


async def a_cancel_with_an_open_question_allows_nothing(connect: Connect) -> None:
    async def never(ask: PermissionAsk) -> Decision:
        await anyio.sleep_forever()
        raise AssertionError

    host = Recorder(never)
    async with connect(host) as session:
        await session.open(New())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancelled_turn, session, "ask rm")
            await host.until(lambda: host.asks)
            session.cancel()
        assert "allowed" not in host.said
        host.decide = allow
        host.events.clear()
        await session.prompt(text("ask again"))
    assert host.said == "allowed"


async def code_that_raises_fails_its_turn_and_no_other(connect: Connect) -> None:
    host = Recorder()
    async with connect(host) as session:
        await session.open(New())
        with pytest.raises(BridgeError) as caught:
            await session.prompt(text("raise"))
        assert caught.value.code == "turn_failed"
        assert caught.value.message == "The agent's code raised RuntimeError: it broke"
        assert (await session.prompt(text("refuse"))).stop_reason == "refusal"


async def the_agent_knows_its_directory_and_its_history(connect: Connect) -> None:
    host = Recorder()
    async with connect(host) as session:
        await session.open(New())
        await session.prompt(text("cwd"))
        assert host.said.startswith("/")
        directory = host.said
        await session.prompt(text("return"))
        host.events.clear()
        await session.prompt(text("recall"))
    assert host.said == f"cwd>{directory}|return>the last words"


async def an_unknown_request_is_an_error(connect: Connect) -> None:
    async with connect(Recorder()) as session:
        await session.open(New())
        with pytest.raises(BridgeError) as caught:
            await session.request("session/nonsense", {})
        assert caught.value.rpc_code == -32601
        session.notify("session/nonsense", {})
        assert (await session.prompt(text("return"))).stop_reason == "end_turn"


async def a_mode_is_verified_and_an_unknown_one_refused(connect: Connect) -> None:
    async with connect(Recorder(), mode="default") as session:
        await session.open(New())
        await session.set_mode("default")
        with pytest.raises(BridgeError) as caught:
            await session.set_mode("auto")
        assert caught.value.code == "mode_not_set"
        assert session.mode == "default"
    async with connect(Recorder(), mode="auto") as session:
        with pytest.raises(BridgeError) as caught:
            await session.open(New())
        assert caught.value.code == "mode_not_set"


async def a_closed_session_takes_no_prompt(connect: Connect) -> None:
    async with connect(Recorder()) as session:
        with pytest.raises(BridgeError) as caught:
            await session.prompt(text("return"))
        assert caught.value.code == "no_such_session"
        await session.open(New())
        await session.close()
        with pytest.raises(BridgeError) as caught:
            await session.prompt(text("return"))
        assert caught.value.rpc_code == RESOURCE_NOT_FOUND


async def a_stop_in_a_turn_leaves_nothing(connect: Connect) -> None:
    host = Recorder()
    async with connect(host) as session:
        await session.open(New())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_died_turn, session, "hang")
            await host.until(lambda: host.said)
            assert await session.stop() == ()
        error = await session.died()
        assert isinstance(error, BridgeError)
        assert error.code == "agent_died"
        await _died_turn(session, "return")


async def _died_turn(session: RuntimeSession, words: str) -> None:
    with pytest.raises(BridgeError) as caught:
        await session.prompt(text(words))
    assert caught.value.code == "agent_died"


async def leaving_in_a_turn_leaves_nothing(connect: Connect) -> None:
    host = Recorder()
    async with anyio.create_task_group() as tasks, connect(host) as session:
        await session.open(New())
        tasks.start_soon(_died_turn, session, "hang")
        await host.until(lambda: host.said)


SCENARIOS: tuple[Scenario, ...] = (
    opening_gives_a_session_id_and_its_mode,
    every_update_of_a_turn_comes_before_its_end_and_in_order,
    thoughts_plans_and_tools_are_told_in_full,
    a_permission_that_is_allowed_is_one,
    a_permission_that_is_denied_ends_nothing,
    an_allow_of_what_was_not_offered_is_none,
    a_choice_is_one_that_was_offered_or_none,
    a_question_says_what_was_first_told_otherwise,
    what_a_turn_takes_is_told_with_its_end,
    pictures_and_resources_of_a_prompt_reach_the_code,
    code_that_exits_fails_its_turn_and_no_other,
    a_cancel_ends_the_turn_after_its_last_words,
    a_cancel_with_an_open_question_allows_nothing,
    code_that_raises_fails_its_turn_and_no_other,
    the_agent_knows_its_directory_and_its_history,
    an_unknown_request_is_an_error,
    a_mode_is_verified_and_an_unknown_one_refused,
    a_closed_session_takes_no_prompt,
    a_stop_in_a_turn_leaves_nothing,
    leaving_in_a_turn_leaves_nothing,
)


def named(scenario: Scenario) -> str:
    return scenario.__name__


def spec_fields(definition: AgentDefinition, cwd: str) -> dict[str, Any]:
    from uuid import uuid4

    from acpbridge.model.keys import AgentPath, SessionKey
    from acpbridge.model.sessions import Lineage

    return {
        "definition": definition,
        "revision": "1",
        "key": SessionKey.subagent(definition.id, uuid4()),
        "path": AgentPath(definition.id),
        "lineage": Lineage(),
        "cwd": cwd,
    }
