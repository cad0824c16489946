"""Agents of the daemon ask one another: at once, or in the background; nothing is told twice."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from acpbridge.config.delegation import Acp
from acpbridge.config.snapshot import Config, Limits
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.inbox import InboxMessage
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import Outcome
from acpbridge.router import house_team
from acpbridge.router.team_requests import AskMode, AskRequest, DelegationsRequest
from acpbridge.store.ledger import Ledger
from tests.unit.router.world import (
    OPERATOR,
    Agent,
    World,
    agent_in,
    refused,
    until,
    world,
)

NAMES = ("fake", "helper", "third")


def config(**limits: Any) -> Config:
    agents = {AgentId(n): AgentDefinition(id=AgentId(n), command=(n,)) for n in NAMES}
    return Config(agents=agents, limits=Limits(**limits))


@asynccontextmanager
async def house(path: Path, **options: Any) -> AsyncIterator[World]:
    options.setdefault("config", config())
    async with world(path, **options) as w:
        yield w


async def source(w: World) -> SessionKey:
    """Return a session whose turn is under way."""
    receipt = await w.run("work on something", one_shot=False)
    await w.diary.has("prompt work on something")
    return receipt.key


async def ask(w: World, key: SessionKey, message: str, **fields: Any) -> dict[str, Any]:
    fields.setdefault("agent_id", "helper")
    return await w.router.tool(AskRequest(message=message, **fields), agent_in(key))


async def hand_over(w: World, key: SessionKey, message: str, agent: str = "helper") -> str:
    answer = await ask(w, key, message, agent_id=agent, mode=AskMode.BACKGROUND)
    assert answer["status"] == "queued"
    return str(answer["jobId"])


async def listed(w: World, by: Requester = OPERATOR, **fields: Any) -> dict[str, Any]:
    return await w.router.tool(DelegationsRequest(**fields), by)


async def row(w: World, job: str) -> dict[str, Any]:
    (found,) = (
        one for one in (await listed(w, everything=True))["delegations"] if one["id"] == job
    )
    return dict(found)


async def events(w: World, key: SessionKey) -> list[dict[str, Any]]:
    await w.session(key).open_log()
    await w.log.committed(key)
    async with w.log.follow(key, 0, live=False, stored=True) as follower:
        found = []
        while lines := await follower.read():
            found += [json.loads(line) for line in lines]
    return found


async def notices(w: World, key: SessionKey) -> list[dict[str, Any]]:
    return [e for e in await events(w, key) if e.get("kind") == "delegation"]


async def prompts(w: World, key: SessionKey) -> list[str]:
    found = await events(w, key)
    return [e["prompt"][0]["text"] for e in found if e["type"] == "turn_started"]


async def at_work(w: World, agent: str = "helper") -> Agent:
    """Return an agent that works, once it does."""

    def working() -> list[Agent]:
        return [a for a in w.runtime.running.values() if a.spec.definition.id == agent and a.word]

    await until(working)
    return working()[0]


async def told(w: World, key: SessionKey, number: int = 1) -> list[dict[str, Any]]:
    """Return the notices of a session, once there are so many."""
    while len(found := await notices(w, key)) < number:
        await anyio.lowlevel.checkpoint()
    return found


async def reply(w: World, key: SessionKey, text: str) -> None:
    """Have the source answer what it is told."""

    def is_told() -> bool:
        agent = w.runtime.running.get(str(key))
        return agent is not None and agent.word == "[Delegated" and agent._reason is None

    await until(is_told)
    w.agent(key).say(text)
    w.agent(key).answer("end_turn")


async def test_4_13_an_agent_that_asks_waits_for_the_answer(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        answer = await ask(w, key, "say found")
        assert (answer["agentId"], answer["response"]) == ("helper", "found")
        child = SessionKey.parse(answer["sessionKey"])
        assert w.session(child).record.lineage.parent == key
        assert child.agent == "helper"
        assert (await listed(w, everything=True))["delegations"] == []
        run = await w.ledger.run(answer["runId"])
        assert run is not None
        assert run.outcome is Outcome.COMPLETED


async def test_an_answer_that_fails_is_the_error_of_the_one_that_asks(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        await refused("agent_died", ask(w, key, "crash now"))
        await refused("turn_failed", ask(w, key, "raise now"))
        await refused("no_such_agent", ask(w, key, "say x", agent_id="ghost"))


async def test_4_14_one_who_is_no_session_asks_nobody(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        for mode in AskMode:
            request = AskRequest(agent_id="helper", message="m", mode=mode)
            await refused("requester_session_required", w.router.tool(request, OPERATOR))
        ghost = agent_in(SessionKey.main(AgentId("ghost")))
        await refused(
            "permission_denied",
            w.router.tool(AskRequest(agent_id="helper", message="m"), ghost),
        )


async def test_4_17_what_comes_of_it_waits_in_the_sources_own_queue(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        job = await hand_over(w, key, "say found")
        # It is answered while the source's turn is under way, and not told into that.
        await until(lambda: len(w.session(key).inbox) == 1)
        assert (await row(w, job))["status"] == "replying"
        assert await prompts(w, key) == ["work on something"]
        assert await notices(w, key) == []
        w.agent(key).answer("end_turn")
        await reply(w, key, "the user hears this")
        (notice,) = await told(w, key)
        assert notice["status"] == "done"
        assert (notice["delegationId"], notice["agentId"]) == (job, "helper")
        assert notice["text"] == "the user hears this"
        first, second = await prompts(w, key)
        assert first == "work on something"
        assert "found" in second
        assert "work on something" in second  # what the user had asked
        found = [e["type"] for e in await events(w, key) if e["type"].startswith("turn_")]
        assert found.index("turn_ended") < found.index("turn_started", 2)


async def test_4_15_an_end_is_pushed_once_to_whoever_follows_with_the_whole_text(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        follower = await w.router.follow(str(key), 0, OPERATOR)
        await hand_over(w, key, "say x")
        w.agent(key).answer("end_turn")
        text = "word " * 5000
        await reply(w, key, text)
        seen: list[dict[str, Any]] = []
        while not [e for e in seen if e.get("kind") == "delegation"]:
            seen += [json.loads(line) for line in await follower.read()]
        await follower.aclose()
        (notice,) = await told(w, key)
        assert notice["text"] == text.strip()


async def test_4_7b_two_targets_meet_and_two_pieces_for_one_do_not(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        first = await hand_over(w, key, "hold one")
        second = await hand_over(w, key, "hold two")
        other = await hand_over(w, key, "hold three", "third")
        helper, third = await at_work(w), await at_work(w, "third")  # both at once
        assert [(await row(w, job))["status"] for job in (first, second, other)] == [
            *("running", "queued", "running")
        ]
        prompted = [line for line in w.diary.lines if line.startswith("prompt hold")]
        assert sorted(prompted) == ["prompt hold one", "prompt hold three"]
        helper.answer("end_turn")
        await w.diary.has("prompt hold two")
        assert (await row(w, second))["status"] == "running"
        third.answer("end_turn")
        (await at_work(w)).answer("end_turn")
        await until(lambda: len(w.session(key).inbox) == 3)
        rows = (await listed(w))["delegations"]
        assert [one["status"] for one in rows] == ["replying"] * 3


async def test_4_9_a_target_that_fails_is_explained_in_the_sources_session(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        job = await hand_over(w, key, "crash now")
        w.agent(key).answer("end_turn")
        await reply(w, key, "it did not work")
        (notice,) = await told(w, key)
        assert (notice["status"], notice["text"]) == ("failed", "it did not work")
        assert "died" in notice["error"]
        assert (await prompts(w, key))[1].count("died") == 1
        assert (await row(w, job))["error"] == notice["error"]


async def test_4_19_a_running_piece_that_is_cancelled_ends_the_targets_turn(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        job = await hand_over(w, key, "hold on")
        helper = await at_work(w)
        where = SessionKey.parse((await row(w, job))["targetSessionKey"])
        answer = await listed(w, cancel=job)
        assert answer["cancelled"] is True
        (notice,) = await told(w, key)
        assert notice["status"] == "cancelled"
        assert helper.word == "hold"
        (run,) = await w.ledger.runs(where)
        assert run.outcome is Outcome.CANCELLED
        assert (await listed(w, cancel=job))["cancelled"] is False
        assert (await prompts(w, key)) == ["work on something"]
        assert len(w.session(key).inbox) == 0


async def test_4_6_a_queued_piece_that_is_cancelled_is_never_begun(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        await hand_over(w, key, "hold one")
        second = await hand_over(w, key, "hold two")
        await at_work(w)
        assert (await listed(w, cancel=second))["cancelled"] is True
        (notice,) = await told(w, key)
        assert (notice["delegationId"], notice["status"]) == (second, "cancelled")
        (await at_work(w)).answer("end_turn")
        await until(lambda: len(w.session(key).inbox) == 1)
        assert "prompt hold two" not in w.diary.lines


async def test_4_19_a_piece_may_be_cancelled_while_its_answer_waits(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        job = await hand_over(w, key, "say x")
        await until(lambda: len(w.session(key).inbox) == 1)
        await listed(w, cancel=job)
        (notice,) = await told(w, key)
        assert notice["status"] == "cancelled"
        assert len(w.session(key).inbox) == 0
        assert w.turn(key).cancelling is False  # the turn in front goes on


async def test_4_22_who_may_see_and_end_what_was_handed_over(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key, other = await source(w), (await w.run("other work")).key
        job = await hand_over(w, key, "hold one")
        await at_work(w)
        (found,) = (await listed(w))["delegations"]
        assert (found["sourceSessionKey"], found["sourceAgentId"]) == (str(key), "fake")
        assert (found["targetAgentId"], found["status"]) == ("helper", "running")
        assert found["ageSeconds"] >= 0
        assert found["task"] == "hold one"
        await refused("no_such_delegation", listed(w, cancel="nobody"))
        # It is a person's to look at, and no agent's, not even that of the one that asked.
        child = SessionKey.parse(found["targetSessionKey"])
        for one in (key, other, child):
            await refused("permission_denied", listed(w, agent_in(one)))
            await refused("permission_denied", listed(w, agent_in(one), cancel=job))
        assert (await listed(w, cancel=job))["cancelled"] is True


async def test_4_24_a_cycle_is_refused_at_once_with_its_chain(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        await refused("subagent_policy", ask(w, key, "say x", agent_id="fake"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, w, key, "hold it")
            helper = await at_work(w)
            for mode in AskMode:
                error = await refused(
                    "subagent_policy",
                    ask(w, helper.spec.key, "say x", agent_id="fake", mode=mode),
                )
                assert "fake -> helper -> fake" in error.message
            answer = await ask(w, helper.spec.key, "say deep", agent_id="third")
            assert answer["response"] == "deep"
            helper.answer("end_turn")


async def test_what_an_agent_may_not_start_it_may_not_ask_either(tmp_path: Path) -> None:
    agents = {AgentId(n): AgentDefinition(id=AgentId(n), command=(n,)) for n in NAMES}
    shut = Config(agents=agents, acp=Acp(allowed_agents=("third",)))
    deep = Config(agents=agents, limits=Limits(max_depth=1, max_children_per_session=1))
    async with house(tmp_path, config=shut) as w:
        key = await source(w)
        for mode in AskMode:
            await refused("agent_forbidden", ask(w, key, "say x", mode=mode))
        assert (await ask(w, key, "say x", agent_id="third"))["response"] == "x"
    async with house(tmp_path, config=deep) as w:
        key = await source(w)
        await hand_over(w, key, "hold on")
        helper = await at_work(w)
        for mode in AskMode:
            error = await refused("subagent_policy", ask(w, key, "say x", mode=mode))
            assert "limits.maxChildrenPerSession" in error.message
            below = ask(w, helper.spec.key, "say x", agent_id="third", mode=mode)
            assert "limits.maxDepth" in (await refused("subagent_policy", below)).message


async def test_a_client_without_a_turn_hands_nothing_over(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        receipt, _ = await w.done("say x", one_shot=False)
        client = Requester(Role.AGENT, receipt.key, client_id="outside", external=True)
        request = AskRequest(agent_id="helper", message="say y", mode=AskMode.BACKGROUND)
        await refused("team_disabled", w.router.tool(request, client))
        answer = await w.router.tool(AskRequest(agent_id="helper", message="say y"), client)
        assert answer["response"] == "y"


async def test_one_session_hands_over_so_much_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house_team, "MOST_OF_ONE", 2)
    async with house(tmp_path) as w:
        key = await source(w)
        await hand_over(w, key, "hold one")
        second = await hand_over(w, key, "hold two")
        await refused("busy", ask(w, key, "hold three", mode=AskMode.BACKGROUND))
        await listed(w, cancel=second)
        await hand_over(w, key, "hold three")


async def test_what_is_handed_over_outlives_the_turn_that_asked_and_its_cancel(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        job = await hand_over(w, key, "hold on")
        helper = await at_work(w)
        await w.router.cancel(str(key), 0.0, OPERATOR)
        assert (await row(w, job))["status"] == "running"
        helper.say("late")
        helper.answer("end_turn")
        await reply(w, key, "so it is")
        (notice,) = await told(w, key)
        assert notice["status"] == "done"


async def test_nothing_is_told_behind_the_end_of_a_session(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        job = await hand_over(w, key, "say x")
        await until(lambda: len(w.session(key).inbox) == 1)
        await w.router.kill([str(key)], 0.0, OPERATOR)
        while (await row(w, job))["status"] == "replying":
            await anyio.lowlevel.checkpoint()
        assert (await row(w, job))["status"] == "failed"
        while await w.ledger.delegations():
            await anyio.lowlevel.checkpoint()
        assert (await events(w, key))[-1]["type"] == "session_closed"


async def test_a_full_inbox_of_the_source_is_tried_again(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        for n in range(20):
            await w.run(f"say {n}", key=key)
        job = await hand_over(w, key, "say x")
        before = w.clock.sleeps
        await until(lambda: w.clock.sleeps > before)
        w.agent(key).answer("end_turn")
        await until(lambda: len(w.session(key).inbox) == 0)
        w.clock.advance(10)
        await reply(w, key, "well")
        (notice,) = await told(w, key)
        assert (notice["delegationId"], notice["status"]) == (job, "done")


# ---- Over a restart ----


async def stored(path: Path, *items: InboxMessage) -> None:
    async with Ledger(path) as ledger:
        for item in items:
            await ledger.put_delegation(item, told=False)


async def test_4_7b_a_restart_loses_nothing_that_waits(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        jobs = [await hand_over(w, key, f"hold {n}") for n in "ab"]
        await at_work(w)
        w.agent(key).answer("end_turn")
        await until(lambda: w.session(key).turn is None)
    async with house(tmp_path) as w:
        assert [r["id"] for r in (await listed(w))["delegations"]] == jobs
        # The first was under way: it is over, and is explained; the second is begun.
        await reply(w, key, "it was cut off")
        (notice,) = await told(w, key)
        assert (notice["delegationId"], notice["status"]) == (jobs[0], "failed")
        (await at_work(w)).answer("end_turn")
        await reply(w, key, "and this is the second")
        _, last = await told(w, key, 2)
        assert (last["delegationId"], last["status"]) == (jobs[1], "done")
        prompted = [line for line in w.diary.lines if line.startswith("prompt hold")]
        assert prompted == ["prompt hold b"]
    async with house(tmp_path) as w:
        assert (await listed(w, everything=True))["delegations"] == []
        assert len(await notices(w, key)) == 2


async def test_4_7b_an_end_that_was_told_just_before_the_restart_is_not_told_again(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        job = await hand_over(w, key, "say x")
        await until(lambda: len(w.session(key).inbox) == 1)
        (item,) = await w.ledger.delegations()
        w.agent(key).answer("end_turn")
        await reply(w, key, "once")
        await told(w, key)
        while await w.ledger.delegations():
            await anyio.lowlevel.checkpoint()
    await stored(tmp_path, item)  # as if the daemon had died before that was on disk
    async with house(tmp_path) as w:
        while (await row(w, job))["status"] != "done":
            await anyio.lowlevel.checkpoint()
        while await w.ledger.delegations():
            await anyio.lowlevel.checkpoint()
        (notice,) = await notices(w, key)
        assert notice["text"] == "once"
        assert not [line for line in w.diary.lines if line.startswith("prompt")]


async def test_4_7b_an_answer_that_was_still_to_be_told_is_told_by_the_next_daemon(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        job = await hand_over(w, key, "say found")
        await until(lambda: len(w.session(key).inbox) == 1)
    for _ in range(2):  # two daemons end before it is heard
        async with house(tmp_path) as w:
            w.runtime.script.starts = "hang"
            await w.diary.has("start")
            assert (await row(w, job))["status"] == "replying"
    async with house(tmp_path) as w:
        await reply(w, key, "they found it")
        (notice,) = await told(w, key)
        assert (notice["status"], notice["text"]) == ("done", "they found it")
        assert (await prompts(w, key)).count("work on something") == 1
        assert "say found" not in w.diary.lines  # the target was not asked again


async def test_4_7b_a_stop_is_no_end_of_what_is_under_way(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        jobs = [await hand_over(w, key, f"hold {n}") for n in "ab"]
        await at_work(w)
        await w.router.stop()
        assert await notices(w, key) == []
        assert [item.id for item in await w.ledger.delegations()] == jobs
    async with house(tmp_path) as w:
        await reply(w, key, "it was cut off")
        (notice,) = await told(w, key)
        assert (notice["delegationId"], notice["status"]) == (jobs[0], "failed")
        assert "cancelled" in notice["error"]
        assert (await at_work(w)).word == "hold"


async def test_4_7b_an_answer_that_was_just_being_told_is_not_told_twice(tmp_path: Path) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        job = await hand_over(w, key, "say found")
        w.agent(key).answer("end_turn")
        await until(lambda: w.agent(key).word == "[Delegated")
    async with house(tmp_path) as w:
        (notice,) = await told(w, key)
        assert (notice["delegationId"], notice["status"]) == (job, "failed")
        assert "text" not in notice
        assert not [line for line in w.diary.lines if line.startswith("prompt")]


async def test_4_7b_an_end_that_the_ledger_knows_is_looked_up_and_not_worked_on_again(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as w:
        key = await source(w)
        await hand_over(w, key, "say found")
        (item,) = await w.ledger.delegations()
        await until(lambda: len(w.session(key).inbox) == 1)
        children = len(w.runtime.specs)
    # As if the daemon had died before it was on disk that the target has answered.
    await stored(tmp_path, item)
    async with house(tmp_path) as w:
        await reply(w, key, "they found it")
        (notice,) = await told(w, key)
        assert notice["status"] == "done"
        assert [str(spec.key.agent) for spec in w.runtime.specs] == ["fake"]
        assert children == 2


async def test_what_an_agent_calls_a_secret_is_never_learnt_by_way_of_the_team(
    tmp_path: Path,
) -> None:
    """Else it would black out words of its choice where a person must be able to read them."""
    async with house(tmp_path) as w:
        top = await source(w)
        chosen = {"MY_TOKEN": "a-word-that-others-must-read"}
        receipt = await w.run("hold on", by=agent_in(top), one_shot=False, env=chosen)
        await w.diary.has("prompt hold on")
        await hand_over(w, receipt.key, "say found")
        w.agent(receipt.key).answer("end_turn")
        await reply(w, receipt.key, "heard")
        assert w.session(receipt.key).env == chosen
        assert not any("MY_TOKEN" in known for known in w.learned)
