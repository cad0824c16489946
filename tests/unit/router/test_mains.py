"""Main sessions: on record for each configured agent, and settled when they are first prompted."""

from dataclasses import replace
from pathlib import Path

from acpbridge.config.snapshot import Config
from acpbridge.config.tools import SessionTools, Tools, Visibility
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.sessions import Outcome, SessionState
from acpbridge.router.api import RunRequest
from acpbridge.router.authorize import Action
from acpbridge.router.receipts import PruneRequest
from tests.unit.router.spawning import agency, house, parent, spawn
from tests.unit.router.world import OPERATOR, agent_in, refused, until, world

MAIN = SessionKey.main(AgentId("codex"))


async def test_3_2_3_each_configured_agent_has_one_before_any_message(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        rows = await w.router.sessions(OPERATOR, everything=True)
        assert [row["key"] for row in rows] == [f"agent:{name}:main" for name in house()]
        assert {row["state"] for row in rows} == {"idle"}
        assert await w.router.sessions(OPERATOR, everything=False) == []
        assert not w.router.busy()
        await w.services.scribe.written()
        assert {record.key for record in await w.ledger.sessions()} == {
            SessionKey.main(name) for name in house()
        }
    async with agency(tmp_path) as w:
        rows = await w.router.sessions(OPERATOR, everything=True)
        assert len(rows) == len(house())


async def test_3_2_3_an_agent_that_is_added_has_one_as_soon_as_anybody_looks(
    tmp_path: Path,
) -> None:
    agents = dict(house())
    new = AgentId("new")
    async with world(tmp_path, config=Config(agents=agents)) as w:
        agents[new] = AgentDefinition(new, command=("new",), workspace=w.cwd)
        rows = await w.router.sessions(OPERATOR, everything=True)
        (row,) = [row for row in rows if row["key"] == "agent:new:main"]
        assert row["cwd"] == w.cwd


async def test_one_without_a_workspace_works_where_its_first_caller_does_and_stays_there(
    tmp_path: Path,
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with agency(tmp_path) as w:
        error = await refused("cwd_resolution_failed", w.run("say x", key=MAIN, cwd=""))
        assert "workspace" in error.hint
        receipt, result = await w.done("say x", key=MAIN, cwd="", caller_cwd=str(other))
        assert result.outcome is Outcome.COMPLETED
        assert receipt.key == MAIN
        assert w.runtime.specs[-1].cwd == str(other)
        await w.done("say y", key=MAIN, cwd=w.cwd)
        assert w.runtime.specs[-1].cwd == str(other)
        assert w.router.persons_roots(MAIN) is None


async def test_g19_an_agent_that_prompts_it_first_does_not_choose_where_it_works(
    tmp_path: Path,
) -> None:
    """Without the family's directory in `Accepting._housed` it works where the agent says."""
    (tmp_path / "away").mkdir()
    away = str(tmp_path / "away")
    reach = Tools(sessions=SessionTools(visibility=Visibility.ALL))
    config = Config(agents=house(), tools=reach)
    async with world(tmp_path, config=config) as w:
        top = await parent(w, "codex")
        child = await w.run("wait", by=agent_in(top), agent="codex", cwd=away, one_shot=False)
        await until(lambda: str(child.key) in w.runtime.running)
        request = RunRequest(
            ({"type": "text", "text": "say x"},), session=str(MAIN), cwd=away, caller_cwd=away
        )
        accepting = w.router._accepting
        receipt = await accepting.accept(request, agent_in(child.key), Action.SEND)
        await w.wait(receipt)
        assert w.session(MAIN).record.cwd == w.cwd


async def test_one_that_was_never_used_is_run_by_todays_definition(tmp_path: Path) -> None:
    agents = dict(house())
    async with world(tmp_path, config=Config(agents=agents)) as w:
        await w.router.sessions(OPERATOR, everything=True)
        agents[MAIN.agent] = replace(agents[MAIN.agent], command=("newer",), workspace=w.cwd)
        await w.done("say x", key=MAIN, cwd="")
        assert w.runtime.specs[-1].definition.command == ("newer",)
        assert w.runtime.specs[-1].cwd == w.cwd


async def test_the_last_session_here_is_one_that_somebody_used(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        await refused("no_such_session", w.run("say x", continue_last=True, cwd=w.cwd))
        used = (await w.done("say x", one_shot=False))[0].key
        assert (await w.done("say y", continue_last=True, cwd=w.cwd))[0].key == used


async def test_one_is_not_pruned_while_its_agent_is_configured_but_once_it_is_ended(
    tmp_path: Path,
) -> None:
    async with agency(tmp_path) as w:
        await w.done("say x", key=MAIN)
        await w.router.kill([str(MAIN)], 0, OPERATOR)
        assert await w.rest(MAIN) is SessionState.CLOSED
        pruned = await w.router.prune(PruneRequest(), OPERATOR)
        assert [one.key for one in pruned] == [MAIN]
        await w.router.sessions(OPERATOR, everything=True)
        assert w.session(MAIN).record.state is SessionState.IDLE
        assert w.session(MAIN).record.opens == 0


async def test_case_136_a_main_session_spawns_at_depth_one_however_often(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        await w.run("wait", key=MAIN)
        await w.diary.has("prompt wait")
        for _ in range(20):
            receipt = await spawn(w, "say x", agent_in(MAIN))
            await w.router.wait(receipt["runId"], OPERATOR)
            key = SessionKey.parse(receipt["childSessionKey"])
            await w.rest(key)
            assert w.session(key).record.lineage.depth == 1
        assert w.session(MAIN).record.lineage.depth == 0
        assert w.session(await parent(w)).record.lineage.depth == 0
