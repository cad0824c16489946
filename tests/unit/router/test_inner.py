"""7.4: roles that run inside a run are sessions like any other: key, lineage, outcome, kill."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from acpbridge.agents.asking import sub_agent, unload_sub_agent
from acpbridge.agents.preparing import Caller
from acpbridge.agents.registered import Registered
from acpbridge.agents.roles import Role, Roles
from acpbridge.agents.subagents import Household, SubAgents
from acpbridge.config.snapshot import Limits
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.model.requesters import Role as Standing
from acpbridge.model.sessions import CancelRung, CloseReason, Outcome, SessionState
from acpbridge.router import inner as inner_runs
from acpbridge.router.inner_requests import INNER, TEXT_LIMIT, InnerRequest, InnerWait
from acpbridge.runtimes import reported
from tests.unit.agents.house import Scripted, Tools, manager
from tests.unit.router.world import OPERATOR, World, agent_in, refused, until, world

ROLES = Roles(
    {
        "reviewer": Role("reviewer", "Reviews"),
        "lead": Role("lead", "Leads", tools=("SubAgent",)),
    }
)


async def parent(w: World) -> SessionKey:
    receipt = await w.run("wait top", one_shot=False)
    await w.diary.has("prompt wait top")
    return receipt.key


def roles_of(w: World, key: SessionKey, engine: Scripted) -> SubAgents:
    """Return the roles of an agent's run, made known to the router."""

    async def call(request: Any) -> dict[str, Any]:
        return await w.router.tool(request, agent_in(key))

    house = Household(engine, registry=Registered(call))
    return SubAgents(Caller(str(key), Tools("Read", "SubAgent")), house)


async def ask(agents: SubAgents, text: str, role: str = "reviewer", *, more: bool = False) -> str:
    params = {"task": text, "role": role, "interactive": more}
    return await sub_agent(manager(agents), ROLES, params)


def inner(w: World, key: SessionKey) -> list[SessionKey]:
    return [child.key for child in w.router._directory.children(key)]


async def rows(w: World) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in await w.router.sessions(OPERATOR, everything=True)}


async def test_7_4_a_role_has_key_lineage_state_and_an_outcome_of_its_own(tmp_path: Path) -> None:
    engine = Scripted()
    async with world(tmp_path) as w:
        top = await parent(w)

        async def talk() -> None:
            async with roles_of(w, top, engine) as agents:
                told.append(await ask(agents, "wait here"))

        told: list[str] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk)
            await engine.begun.wait()
            [key] = inner(w, top)
            assert key.kind == "subagent"
            assert SessionKey.parse(str(key)) == key
            await until(lambda: w.session(key).record.state is SessionState.RUNNING)
            shown = (await rows(w))[str(key)]
            assert (shown["runtime"], shown["parentKey"]) == (INNER, str(top))
            assert shown["state"] == "running"
            lineage = w.session(key).record.lineage
            # As deep as the session that it runs in: the chain of calls is another count.
            assert (lineage.parent, lineage.root, lineage.depth) == (top, top, 0)
            status = await w.router.status(str(key), OPERATOR)
            assert status["sessions"][0]["processes"] == []
            assert not [text for text in status["warnings"] if "work in" in text]
            engine.go.set()
        assert told == ["done here"]
        record = w.session(key).record
        assert (record.state, record.close_reason) == (SessionState.CLOSED, CloseReason.CLOSED)
        events = await w.events(key)
        [ended] = [event for event in events if event["type"] in ("turn_ended", "turn_failed")]
        assert ended["stopReason"] == "end_turn"
        said = [e["update"]["content"]["text"] for e in events if e["type"] == "update"]
        assert said == ["done here"]
        [run] = await w.ledger.runs(key)
        assert run.outcome is Outcome.COMPLETED
        assert w.session(top).turn is not None


async def test_7_4_a_role_of_a_role_lies_below_it(tmp_path: Path) -> None:
    engine = Scripted()
    async with world(tmp_path, limits=Limits(max_depth=1)) as w:
        top = await parent(w)
        async with roles_of(w, top, engine) as agents:
            assert await ask(agents, "call reviewer say deep", "lead") == "done done deep"
        [lead] = inner(w, top)
        [reviewer] = inner(w, lead)
        assert w.session(reviewer).record.lineage.root == top
        assert w.session(reviewer).record.label == "main/lead/reviewer"


async def test_7_4_a_role_that_fails_has_failed_with_its_reason(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        async with roles_of(w, top, Scripted()) as agents:
            assert "no money" in await ask(agents, "fail no money")
            assert "RuntimeError" in await ask(agents, "raise odd")
        first, second = inner(w, top)
        for key, words in ((first, "no money"), (second, "has failed")):
            [ended] = [e for e in await w.events(key) if e["type"] == "turn_failed"]
            assert words in ended["error"]["message"]


@pytest.mark.parametrize("how", ["kill", "cancel", "close"])
async def test_7_4_a_role_is_ended_by_a_person_and_its_caller_goes_on(
    tmp_path: Path, how: str
) -> None:
    engine = Scripted()
    told: list[str] = []
    async with world(tmp_path) as w:
        top = await parent(w)

        async def talk() -> None:
            async with roles_of(w, top, engine) as agents:
                told.append(await ask(agents, "wait here"))
                told.append(await ask(agents, "and more"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk)
            await engine.begun.wait()
            [key] = inner(w, top)
            if how == "kill":
                [receipt] = await w.router.kill([str(key)], None, OPERATOR)
                assert (receipt.killed, receipt.survivors) == ((), ())
            elif how == "close":
                await w.router.close(str(key), OPERATOR)
            else:
                cancelled = await w.router.cancel(str(key), 5, OPERATOR)
                assert (cancelled.rung, cancelled.turn_ended) == (CancelRung.CANCEL, True)
        assert told == ["Sub-agent error: The sub-agent's turn was stopped.", "done more"]
        [run] = await w.ledger.runs(key)
        assert run.outcome is Outcome.CANCELLED
        assert w.session(key).closed
        assert w.session(top).turn is not None


async def test_7_4_the_end_of_its_callers_turn_ends_a_role(tmp_path: Path) -> None:
    engine = Scripted()
    async with world(tmp_path) as w:
        top = await parent(w)

        async def talk() -> None:
            async with roles_of(w, top, engine) as agents:
                await ask(agents, "wait here")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk)
            await engine.begun.wait()
            [key] = inner(w, top)
            receipt = await w.router.cancel(str(top), 5, OPERATOR)
        assert receipt.turn_ended
        [run] = await w.ledger.runs(key)
        assert run.outcome is Outcome.CANCELLED


async def test_7_4_the_death_of_its_callers_process_ends_a_role(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reported, "REPORT_WAIT", 0.01)
    async with world(tmp_path) as w:
        top = await parent(w)
        opened = await w.router.tool(InnerRequest(action="open", role="x"), agent_in(top))
        key = SessionKey.parse(opened["sessionKey"])
        turn = InnerRequest(action="turn", session_key=str(key), task="t")
        await w.router.tool(turn, agent_in(top))
        # Nobody will ever report: the agent is dead.
        w.agent(top).die()
        await until(lambda: w.session(key).closed)
        assert w.session(key).record.close_reason is CloseReason.PARENT
        [run] = await w.ledger.runs(key)
        assert run.outcome is Outcome.CANCELLED


async def test_7_5_a_conversation_is_one_session_with_a_run_for_each_turn(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        async with roles_of(w, top, Scripted()) as agents:
            await ask(agents, "one", more=True)
            await ask(agents, "two", more=True)
            [key] = inner(w, top)
            assert not w.session(key).closed
            # Nothing by which it could be taken up is in the store.
            assert w.session(key).record.agent_session_id is None
            await unload_sub_agent(manager(agents), {"role": "reviewer"})
            assert w.session(key).closed
        outcomes = [run.outcome for run in await w.ledger.runs(key)]
        assert outcomes == [Outcome.COMPLETED, Outcome.COMPLETED]


async def test_7_5_a_conversation_that_was_killed_is_not_followed_by_another_in_silence(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        async with roles_of(w, top, Scripted()) as agents:
            await ask(agents, "one", more=True)
            [key] = inner(w, top)
            await w.router.kill([str(key)], None, OPERATOR)
            told = await ask(agents, "two", more=True)
            assert "is closed. Unload it to begin anew: UnloadSubAgent." in told
            assert inner(w, top) == [key]


async def test_roles_take_no_place_of_a_process(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_processes=1)) as w:
        top = await parent(w)
        async with roles_of(w, top, Scripted()) as agents:
            assert await ask(agents, "one") == "done"
            await ask(agents, "two", more=True)
            # And one that waits there does not make it look as if anybody could go on.
            await refused("capacity", w.run("say x", by=agent_in(top)))


async def test_roles_count_as_children_of_their_caller(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_children_per_session=1)) as w:
        top = await parent(w)
        async with roles_of(w, top, Scripted()) as agents:
            await ask(agents, "one", more=True)
            assert "limits.maxChildrenPerSession" in await ask(agents, "two")


# ---- Who may ----


async def test_only_an_agent_that_runs_here_has_roles_and_only_its_own(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        mine = (await w.router.tool(InnerRequest(action="open"), agent_in(top)))["sessionKey"]
        other = (await w.run("wait b", one_shot=False)).key
        await w.diary.has("prompt wait b")
        external = Requester(Standing.AGENT, top, external=True)
        for request in (InnerRequest(action="open"), InnerWait(session_key=mine, run_id="r")):
            await refused("permission_denied", w.router.tool(request, OPERATOR))
            await refused("permission_denied", w.router.tool(request, external))
        for action in ("turn", "end", "close"):
            request = InnerRequest(action=action, session_key=mine)
            await refused("no_such_session", w.router.tool(request, agent_in(other)))
        below = InnerRequest(action="open", parent_key=mine)
        await refused("no_such_session", w.router.tool(below, agent_in(other)))
        waiting = InnerWait(session_key=mine, run_id="r")
        await refused("no_such_session", w.router.tool(waiting, agent_in(other)))
        # Nor is a session that it has spawned a role of its own.
        spawned = await w.run("wait c", by=agent_in(top), detached=True)
        forged = InnerRequest(action="end", session_key=str(spawned.key))
        await refused("no_such_session", w.router.tool(forged, agent_in(top)))


async def test_r15_an_agent_that_runs_wild_opens_only_so_many_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inner_runs, "MOST_OPEN", 2)
    monkeypatch.setattr(inner_runs, "MOST_IN_A_TURN", 3)
    async with world(tmp_path) as w:
        first, second = await parent(w), (await w.run("wait b", one_shot=False)).key
        await w.diary.has("prompt wait b")

        async def opened(by: SessionKey) -> InnerRequest:
            told = await w.router.tool(InnerRequest(action="open"), agent_in(by))
            return InnerRequest(action="close", session_key=told["sessionKey"])

        close = await opened(first)
        await opened(first)
        await refused("capacity", opened(first))
        await opened(second)  # another's are not counted
        # One that was ended makes room, and counts in its turn all the same.
        await w.router.tool(close, agent_in(first))
        close = await opened(first)
        await w.router.tool(close, agent_in(first))
        await refused("capacity", opened(first))
        w.agent(first).answer("end_turn")
        await w.is_ready(first)
        await w.run("wait again", key=first)
        await w.diary.has("prompt wait again")
        await opened(first)


async def test_a_role_runs_inside_a_turn_and_nowhere_else(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say x", one_shot=False)
        await w.is_ready(receipt.key)
        await refused(
            "subagent_policy", w.router.tool(InnerRequest(action="open"), agent_in(receipt.key))
        )


async def test_nobody_but_its_caller_has_a_role_do_anything(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        by = agent_in(top)
        key = (await w.router.tool(InnerRequest(action="open"), by))["sessionKey"]
        _, result = await w.done("say x", key=SessionKey.parse(key))
        assert result.outcome is Outcome.FAILED
        assert result.error is not None
        assert "who alone calls it" in result.error["message"]
        # Nor does a prompt of somebody else's take the answer of a turn of the caller's.
        turn = InnerRequest(action="turn", session_key=key, task="t")
        run_id = (await w.router.tool(turn, by))["runId"]
        await refused("busy", w.router.tool(turn, by))
        late = await w.run("say y", key=SessionKey.parse(key))
        wrong = InnerRequest(action="end", session_key=key, run_id="another")
        await refused("no_such_session", w.router.tool(wrong, by))
        end = InnerRequest(
            action="end", session_key=key, run_id=run_id, outcome=Outcome.COMPLETED, text="mine"
        )
        await w.router.tool(end, by)
        assert (await w.router.wait(run_id, OPERATOR)).outcome is Outcome.COMPLETED
        assert (await w.wait(late)).outcome is Outcome.FAILED


async def test_1_7_after_a_restart_no_role_is_left_open(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        key = (await w.router.tool(InnerRequest(action="open"), agent_in(top)))["sessionKey"]
    async with world(tmp_path) as w:
        session = w.session(SessionKey.parse(key))
        await until(lambda: session.closed)
        await refused("session_closed", w.run("say x", key=session.key))
        assert not w.session(top).closed


async def test_what_a_role_says_at_length_is_cut_off_and_no_failure(tmp_path: Path) -> None:
    class Talkative(Scripted):
        async def run(self, child: Any, messages: Any) -> Any:
            answered = await super().run(child, messages)
            long = answered.answer.model_copy(update={"content": "x" * (TEXT_LIMIT + 1)})
            return replace(answered, answer=long)

    async with world(tmp_path) as w:
        top = await parent(w)
        async with roles_of(w, top, Talkative()) as agents:
            assert len(await ask(agents, "speak")) == TEXT_LIMIT + 1
        [key] = inner(w, top)
        [said] = [e["update"] for e in await w.events(key) if e["type"] == "update"]
        assert len(said["content"]["text"]) == TEXT_LIMIT
        [run] = await w.ledger.runs(key)
        assert run.outcome is Outcome.COMPLETED


@pytest.mark.parametrize("code", ["daemon_stopping", "connection_closed"])
async def test_a_router_that_cannot_be_told_costs_a_role_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(reported, "REPORT_WAIT", 0.01)
    async with world(tmp_path) as w:
        top = await parent(w)

        async def call(request: Any) -> dict[str, Any]:
            if getattr(request, "action", "") in ("end", "close"):
                raise BridgeError(code, "The daemon is not there.")
            return await w.router.tool(request, agent_in(top))

        house = Household(Scripted(), registry=Registered(call))
        async with SubAgents(Caller(str(top), Tools("Read")), house) as agents:
            assert await ask(agents, "one") == "done"


async def test_why_a_role_has_failed_is_stored_only_up_to_a_bound(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        by = agent_in(await parent(w))

        async def told(action: str, **fields: Any) -> dict[str, Any]:
            return await w.router.tool(InnerRequest.read({"action": action, **fields}), by)

        role = await told("open", role="reviewer")
        turn = await told("turn", **role, task="x")
        await told("end", **role, **turn, outcome="failed", error="e" * 100_000)
        run = await w.ledger.run(turn["runId"])
        assert run is not None
        assert run.error is not None
        assert run.error["message"].startswith("eee")
        assert len(run.error["message"]) < 2100
