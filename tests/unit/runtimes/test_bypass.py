"""G30 and row 28: whatever lets an agent act unasked is found, refused, shown, and brought back.

The agent is the test, byte by byte.
"""

from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from acpbridge.config.catalogue import CATALOGUE
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, AgentFacts
from acpbridge.model.events import Fact
from acpbridge.model.keys import AgentId
from acpbridge.model.settings import Settings
from acpbridge.permissions import policy
from acpbridge.runtimes.base import Load, New, Resume, RuntimeSession
from acpbridge.runtimes.bypass import Bypass
from tests.unit.runtimes.scenarios import HANG, Recorder, text
from tests.unit.runtimes.wire import END, SESSION, Wire, wired

FACTS = AgentFacts(grace=0.01, asking_mode="ask", bypass_modes=("m3",))


def modes(current: str) -> dict[str, Any]:
    names = {"ask": "Ask", "acceptEdits": "Edits", "m3": "Free", "m4": "YOLO", "yolo": "Y"}
    listed = [{"id": name, "name": title} for name, title in names.items()]
    return {"currentModeId": current, "availableModes": listed}


def switch(*, on: bool) -> dict[str, Any]:
    return {"id": "s", "name": "Skip permissions", "type": "boolean", "currentValue": on}


def select(current: str, category: str = "other") -> dict[str, Any]:
    values = [{"value": "1", "name": "Ask"}, {"value": "2", "name": "Full access"}]
    one = {"id": "approval", "name": "Approval", "type": "select", "category": category}
    return {**one, "currentValue": current, "options": values}


def update(kind: str, **fields: Any) -> dict[str, Any]:
    body = {"sessionUpdate": kind, **fields}
    return {"method": "session/update", "params": {"sessionId": SESSION, "update": body}}


def mode_is(mode: str) -> dict[str, Any]:
    return update("current_mode_update", currentModeId=mode)


def options_are(*options: dict[str, Any]) -> dict[str, Any]:
    return update("config_option_update", configOptions=list(options))


def facts_of(host: Recorder, kind: str) -> list[dict[str, Any]]:
    return [
        dict(event.values)
        for event in host.events
        if isinstance(event, Fact) and kind in (event.type, event.values.get("kind"))
    ]


async def refused(how: Any, **answers: Any) -> tuple[BridgeError, Recorder]:
    host = Recorder()
    with anyio.fail_after(HANG):
        async with wired(Path("/"), host, **answers) as (session, _):
            with pytest.raises(BridgeError) as caught:
                await session.open(how)
    return caught.value, host


# What is one.


def test_every_bypass_mode_of_the_catalogue_is_one_by_its_name_too() -> None:
    """A request's options and the terminal know names only."""
    known = [mode for facts in CATALOGUE.values() for mode in facts.bypass_modes]
    assert known
    assert [mode for mode in known if not policy.names_bypass(mode)] == []


@pytest.mark.parametrize(
    ("session", "mode", "found"),
    [
        ({}, None, ""),
        ({"modes": modes("ask")}, "ask", ""),
        ({"modes": modes("acceptEdits")}, "acceptEdits", ""),
        ({"modes": modes("yolo")}, "yolo", "Mode 'yolo'"),
        ({"modes": modes("m3")}, "m3", "Mode 'm3'"),
        ({"modes": modes("m4")}, "m4", "Mode 'm4'"),
        ({"configOptions": [select("1")]}, None, ""),
        ({"configOptions": [select("2")]}, None, "Option 'approval'"),
        ({"configOptions": [select("2", "mode")]}, "2", "Mode '2'"),
        ({"configOptions": [select("2", "model")]}, None, ""),
        ({"configOptions": [switch(on=True)]}, "ask", "Option 's'"),
        ({"configOptions": [switch(on=False)]}, "ask", ""),
        ({"configOptions": [{**select("off"), "id": "yolo"}]}, None, ""),
        ({"configOptions": [{**select("on"), "id": "yolo"}]}, None, "Option 'yolo'"),
        ({"configOptions": ["x", {"id": 1}], "modes": {"availableModes": [1]}}, "x", ""),
    ],
)
def test_g30_what_lets_an_agent_go_unasked(session: Any, mode: str | None, found: str) -> None:
    definition = AgentDefinition(AgentId("a"), facts=FACTS)
    assert Bypass(definition).found(session, mode) == found


# Roads into one that somebody takes.

REQUESTS: dict[str, dict[str, Any]] = {
    "a mode of the catalogue": {"modeId": "m3"},
    "a mode by its id": {"modeId": "yolo"},
    "a mode by its name": {"modeId": "m4"},
    "a value by its name": {"configId": "approval", "value": "2"},
    "a switch by its name": {"configId": "s", "value": True},
    "a switch by its id": {"configId": "skip-permissions", "value": True},
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_row_28_no_request_of_a_client_leads_into_one(name: str, tmp_path: Path) -> None:
    params, host = REQUESTS[name], Recorder()
    method = "session/set_mode" if "modeId" in params else "session/set_config_option"
    offered = {"modes": modes("ask"), "configOptions": [select("1"), switch(on=False)]}
    with anyio.fail_after(HANG):
        opened = {"sessionId": SESSION, **offered}
        async with wired(tmp_path, host, facts=FACTS, how=New(), session_new=opened) as (at, wire):
            with pytest.raises(BridgeError) as caught:
                await at.request(method, params)
            assert [m for m in wire.heard if m.get("method") == method] == []
    assert caught.value.code == "bypass_refused"
    (notice,) = facts_of(host, "mode_refused")
    assert notice["by"] == "client"


async def test_row_28_setting_a_mode_and_choosing_one_for_a_run_are_refused_alike(
    tmp_path: Path,
) -> None:
    host = Recorder()
    opened = {"sessionId": SESSION, "modes": modes("ask")}
    with anyio.fail_after(HANG):
        async with wired(tmp_path, host, facts=FACTS, how=New(), session_new=opened) as (at, wire):
            with pytest.raises(BridgeError) as caught:
                await at.set_mode("m3")
            assert caught.value.code == "bypass_refused"
            for layer in (Settings(None, "yolo"), Settings(None, None, {"mode": "m3"})):
                with pytest.raises(BridgeError) as caught:
                    await at.apply([layer])
                assert caught.value.code == "bypass_refused"
            assert at.mode == "ask"
            assert [m for m in wire.heard if m.get("method") == "session/set_mode"] == []
    assert len(facts_of(host, "mode_refused")) == 3


async def test_row_28_a_definition_may_not_choose_one_without_saying_so() -> None:
    new = {"sessionId": SESSION, "modes": modes("ask")}
    error, host = await refused(New(), facts=FACTS, mode="yolo", session_new=new)
    assert error.code == "bypass_refused"
    assert len(facts_of(host, "mode_refused")) == 1


@pytest.mark.parametrize("how", [New(), Load(SESSION), Resume(SESSION)])
@pytest.mark.parametrize("with_what", ["a mode", "an option", "a switch"])
async def test_row_28_no_session_begins_or_comes_back_in_one(how: Any, with_what: str) -> None:
    """Of an agent that nobody knows, so that there is no mode to put it into."""
    roads: dict[str, dict[str, Any]] = {
        "a mode": {"modes": modes("yolo")},
        "an option": {"configOptions": [select("2")]},
        "a switch": {"configOptions": [switch(on=True)]},
    }
    came = roads[with_what]
    capabilities = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    error, host = await refused(
        how,
        initialize={"protocolVersion": 1, "agentCapabilities": capabilities},
        session_new={"sessionId": SESSION, **came},
        session_load=came,
        session_resume=came,
    )
    assert error.code == "bypass_refused"
    (notice,) = facts_of(host, "mode_refused")
    assert notice["by"] == "agent"


async def test_g30_allow_bypass_lets_it_in_and_it_is_shown(tmp_path: Path) -> None:
    host = Recorder()
    opened = {"sessionId": SESSION, "modes": modes("yolo")}
    with anyio.fail_after(HANG):
        async with wired(
            tmp_path, host, how=New(), mode="yolo", allow_bypass=True, session_new=opened
        ) as (session, wire):
            assert session.unasked == "Mode 'yolo'"
            await wire.send(mode_is("ask"), mode_is("yolo"))
            await wire.settled()
            assert session.unasked
    told = [(f["before"], f["mode"], f["by"], f["bypass"]) for f in facts_of(host, "mode_changed")]
    assert told == [("yolo", "ask", "agent", False), ("ask", "yolo", "agent", True)]
    assert facts_of(host, "mode_refused") == []


# An agent that lets itself go.

OPENED = {"sessionId": SESSION, "modes": modes("ask"), "configOptions": [switch(on=False)]}


class Prompted:
    """A turn, and what became of it."""

    def __init__(self) -> None:
        self.number = -1
        self._error: BridgeError | None = None
        self._over = anyio.Event()

    async def run(self, session: RuntimeSession) -> None:
        try:
            await session.prompt(text("go"))
        except BridgeError as error:
            self._error = error
        self._over.set()

    async def error(self) -> BridgeError:
        await self._over.wait()
        assert self._error is not None
        return self._error


async def prompt(session: RuntimeSession, wire: Wire, tasks: anyio.abc.TaskGroup) -> Prompted:
    """Start a turn."""
    turn = Prompted()
    tasks.start_soon(turn.run, session)
    turn.number = (await wire.until("session/prompt"))["id"]
    return turn


async def test_g30_its_turn_is_cancelled_and_it_is_put_back_at_once(tmp_path: Path) -> None:
    """Behind the cancel, and not only when the turn has ended: until then it acts unasked."""
    host = Recorder()
    with anyio.fail_after(HANG):
        async with (
            wired(tmp_path, host, facts=FACTS, how=New(), session_new=OPENED) as (session, wire),
            anyio.create_task_group() as tasks,
        ):
            turn = await prompt(session, wire, tasks)
            await wire.send(mode_is("m3"))
            await wire.until("session/cancel")
            setting = await wire.until("session/set_mode")
            assert setting["params"]["modeId"] == "ask"
            assert session.unasked
            await wire.send({"id": setting["id"], "result": {}}, mode_is("ask"))
            await wire.send({"id": turn.number, "result": END})
            code = (await turn.error()).code
            assert (code, session.mode, session.unasked) == ("bypass_refused", "ask", "")
            # It goes on as if nothing had been.
            tasks.start_soon(session.prompt, text("go on"))
            await wire.settled()
            while (
                len(prompts := [m for m in wire.heard if m.get("method") == "session/prompt"]) < 2
            ):
                await wire.settled()
            await wire.send({"id": prompts[1]["id"], "result": END})
    told = [(f["before"], f["mode"], f["by"], f["bypass"]) for f in facts_of(host, "mode_changed")]
    assert told == [("ask", "m3", "agent", True), ("m3", "ask", "acpbridge", False)]
    assert [f["by"] for f in facts_of(host, "mode_refused")] == ["agent"]


async def test_g30_between_two_turns_it_is_put_back_too(tmp_path: Path) -> None:
    host = Recorder()
    with anyio.fail_after(HANG):
        async with wired(tmp_path, host, facts=FACTS, how=New(), session_new=OPENED) as (at, wire):
            await wire.send(mode_is("yolo"))
            setting = await wire.until("session/set_mode")
            await wire.send(mode_is("ask"), {"id": setting["id"], "result": {}})
            await wire.settled()
            assert (at.mode, at.unasked) == ("ask", "")


async def test_g30_one_that_nobody_knows_goes_back_to_where_it_was(tmp_path: Path) -> None:
    with anyio.fail_after(HANG):
        async with wired(tmp_path, Recorder(), how=New(), session_new=OPENED) as (_, wire):
            await wire.send(mode_is("yolo"))
            assert (await wire.until("session/set_mode"))["params"]["modeId"] == "ask"


LET_GO = {
    "a mode that it does not leave": mode_is("yolo"),
    "a switch, which no mode undoes": options_are(switch(on=True)),
    "an option that is new": options_are(select("2")),
}


@pytest.mark.parametrize("name", LET_GO)
async def test_g30_one_that_does_not_come_back_is_ended_with_the_reason(
    name: str, tmp_path: Path
) -> None:
    """Its questions are cancelled with the turn, and no answer is an allow."""
    host = Recorder()
    with anyio.fail_after(HANG):
        async with (
            wired(tmp_path, host, facts=FACTS, how=New(), session_new=OPENED) as (session, wire),
            anyio.create_task_group() as tasks,
        ):
            turn = await prompt(session, wire, tasks)
            await wire.send(LET_GO[name])
            error = await session.died()
            assert isinstance(error, BridgeError)
            assert "nobody is asked any more" in error.message
            assert (await turn.error()).code == "agent_died"
    assert wire.ended


async def test_g30_one_that_does_not_end_its_turn_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acpbridge.runtimes.modes.STOP_WAIT", 0.01)
    host = Recorder()
    with anyio.fail_after(HANG):
        async with (
            wired(tmp_path, host, facts=FACTS, how=New(), session_new=OPENED) as (session, wire),
            anyio.create_task_group() as tasks,
        ):
            await prompt(session, wire, tasks)
            await wire.send(mode_is("yolo"))
            setting = await wire.until("session/set_mode")
            await wire.send(mode_is("ask"), {"id": setting["id"], "result": {}})
            assert isinstance(await session.died(), BridgeError)


async def test_g30_a_mode_in_which_less_is_asked_is_told_and_left_before_the_next_prompt(
    tmp_path: Path,
) -> None:
    host = Recorder()
    with anyio.fail_after(HANG):
        async with (
            wired(tmp_path, host, facts=FACTS, how=New(), session_new=OPENED) as (session, wire),
            anyio.create_task_group() as tasks,
        ):
            await wire.send(mode_is("acceptEdits"))
            await wire.settled()
            assert (session.mode, session.unasked) == ("acceptEdits", "")
            tasks.start_soon(session.prompt, text("go"))
            setting = await wire.until("session/set_mode")
            assert [m for m in wire.heard if m.get("method") == "session/prompt"] == []
            await wire.send(mode_is("ask"), {"id": setting["id"], "result": {}})
            await wire.until("session/prompt")
            tasks.cancel_scope.cancel()
    assert [f["mode"] for f in facts_of(host, "mode_changed")] == ["acceptEdits", "ask"]
