"""What a run may choose, and how a session is taken up again or refused, with scripted agents."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentFacts
from acpbridge.model.sessions import Outcome, SessionState
from acpbridge.model.settings import Settings
from acpbridge.router.opening import OPENS_FAILED, reload_pause
from acpbridge.runtimes.base import Load, Resume
from tests.unit.router.world import OPERATOR, agent_in, until, world

SERVER = {
    "name": "docs",
    "command": "/usr/bin/docs",
    "args": [],
    "env": [{"name": "TOKEN", "value": "hush-hush"}],
}


@pytest.mark.parametrize(
    ("caps", "refused", "opened"),
    [
        ((), {}, []),
        (("resume",), {Resume: "resume_not_found"}, ["Resume"]),
        (
            ("resume", "load"),
            {Resume: "resume_not_found", Load: "resume_not_found"},
            ["Resume", "Load"],
        ),
    ],
)
async def test_a_lost_conversation_is_refused_and_nothing_is_prompted_however_often(
    tmp_path: Path, caps: tuple[str, ...], refused: dict[Any, str], opened: list[str]
) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a")
        await w.rest(receipt.key)
        w.runtime.script.caps = caps
        w.runtime.script.opens = refused
        for _ in range(OPENS_FAILED + 1):
            w.diary.lines.clear()
            _, result = await w.done("say b", key=receipt.key)
            assert result.error is not None
            assert result.error["code"] == "resume_not_found"
            assert "s100" in result.error["message"]
            assert "--fresh" in result.error["hint"]
            tried = [line.split()[1] for line in w.diary.lines if line.startswith("open")]
            assert tried == opened
            assert not [line for line in w.diary.lines if line.startswith("prompt")]
            assert await w.rest(receipt.key) is SessionState.IDLE
        record = w.session(receipt.key).record
        assert (record.agent_session_id, record.former_session_ids) == ("s100", ())
        # What the agent can do today is tried anew each time.
        w.runtime.script.caps, w.runtime.script.opens = ("resume",), {}
        assert (await w.done("say c", key=receipt.key))[1].outcome is Outcome.COMPLETED


async def test_a_session_in_which_nothing_was_said_has_nothing_to_take_up(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.runtime.script.refuses = True
        receipt, result = await w.done("say a", settings=Settings(model="m"))
        assert result.error is not None
        assert result.error["code"] == "unsupported_control"
        assert await w.rest(receipt.key) is SessionState.IDLE
        assert w.session(receipt.key).record.agent_session_id is None
        assert not [line for line in w.diary.lines if line.startswith("prompt")]
        w.runtime.script.refuses, w.runtime.script.caps = False, ()
        _, result = await w.done("say b", key=receipt.key)
        assert result.outcome is Outcome.COMPLETED
        assert not [e for e in await w.events(receipt.key) if e["type"] == "notice"]


async def test_what_was_chosen_is_kept_and_set_again_after_each_opening(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first = Settings("m1", None, {"a": "1", "b": "2"})
        receipt, _ = await w.done("say a", settings=first)
        await w.done("say b", key=receipt.key)
        _, result = await w.done("say c", key=receipt.key, settings=Settings("m2", None, {"a": ""}))
        assert result.outcome is Outcome.COMPLETED
        applied = [json.loads(line[6:]) for line in w.diary.lines if line.startswith("apply")]
        assert [(kept["model"], chosen["model"]) for _, kept, chosen in applied] == [
            (None, "m1"),
            ("m1", None),
            ("m1", "m2"),
        ]
        await w.rest(receipt.key)
        stored = await w.ledger.session(receipt.key)
        assert stored is not None
        assert stored.settings == Settings("m2", None, {"b": "2"})


async def test_a_choice_that_is_refused_changes_nothing_and_costs_its_turn_only(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", settings=Settings("m1"), one_shot=False)
        await w.is_ready(receipt.key)
        w.agent(receipt.key).script.refuses = True
        _, result = await w.done("say b", key=receipt.key, settings=Settings("m2"))
        assert result.error is not None
        assert "prompt say b" not in w.diary.lines
        w.agent(receipt.key).script.refuses = False
        assert (await w.done("say c", key=receipt.key))[1].outcome is Outcome.COMPLETED
        assert w.session(receipt.key).record.settings == Settings("m1")
        assert w.diary.lines.count("start") == 1


async def test_an_agent_may_choose_a_model_for_its_child_and_nothing_else(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await w.run("ask 1")
        await w.questions(1)
        inside = agent_in(parent.key)
        for how in (
            {"settings": Settings(options={"mode": "auto"})},
            {"settings": Settings(mode="auto")},
            {"mcp_servers": (SERVER,)},
        ):
            with pytest.raises(BridgeError) as caught:
                await w.run("say x", by=inside, **how)
            assert caught.value.code == "permission_denied"
        child = await w.run("say x", by=inside, settings=Settings("m"))
        assert (await w.wait(child, inside)).outcome is Outcome.COMPLETED


# ---- MCP servers of a run ----


async def test_mcp_servers_of_a_run_are_kept_in_memory_and_by_name_only(tmp_path: Path) -> None:
    own = {**SERVER, "name": "own"}
    replaced = {**SERVER, "command": "/other"}
    async with world(tmp_path, mcp_servers=(own, replaced)) as w:
        receipt, _ = await w.done("say a", mcp_servers=(SERVER,))
        await w.rest(receipt.key)
        await w.done("say b", key=receipt.key)
        await w.rest(receipt.key)
        assert [s.mcp_servers for s in w.runtime.specs] == [(own, SERVER)] * 2
        assert {"TOKEN": "hush-hush"} in w.learned
        stored = await w.ledger.session(receipt.key)
        assert stored is not None
        assert stored.mcp_servers == ("docs",)
        # A later daemon has forgotten them, and says so.
        w.session(receipt.key).mcp_servers = ()
        await w.done("say c", key=receipt.key)
        assert w.runtime.specs[-1].mcp_servers == (own, replaced)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"hush-hush" not in path.read_bytes(), path


async def test_mcp_servers_that_are_not_there_any_more_are_said_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", mcp_servers=(SERVER,))
        w.session(receipt.key).mcp_servers = ()
        for text in ("say b", "say c"):
            await w.done(text, key=receipt.key)
        notices = [e for e in await w.events(receipt.key) if e["type"] == "notice"]
        assert [(n["kind"], "docs" in n["message"]) for n in notices] == [
            ("mcp_servers_missing", True)
        ]


async def test_an_agent_that_runs_already_gets_no_further_mcp_servers(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", one_shot=False, mcp_servers=(SERVER,))
        assert (await w.done("say b", key=receipt.key, mcp_servers=(SERVER,)))[1].error is None
        other = {**SERVER, "args": ["--more"]}
        _, result = await w.done("say c", key=receipt.key, mcp_servers=(other,))
        assert result.error is not None
        assert result.error["code"] == "unsupported_control"
        assert "prompt say c" not in w.diary.lines


# ---- Programs that may not load at once ----


@pytest.mark.parametrize(
    ("opened", "pause"),
    [
        ("2026-01-02T03:04:05+00:00", 55.5),
        ("2026-01-02T03:04:00+00:00", 55.5),
        ("2026-01-02T03:05:00+00:00", 55.5),  # the clock was put back
        ("", 55.5),
        ("2026-01-02T03:03:59.999+00:00", 0.0),
    ],
)
def test_a_load_waits_for_the_next_minute_of_the_clock(opened: str, pause: float) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert reload_pause("minute", opened, now) == pause
    assert reload_pause("", opened, now) == 0.0


async def test_the_wait_before_a_load_is_said_and_can_be_cancelled(tmp_path: Path) -> None:
    facts = AgentFacts(reload_wait="minute")
    async with world(tmp_path, facts=facts) as w:
        w.runtime.script.caps = ("load",)
        receipt, _ = await w.done("say a")
        await w.rest(receipt.key)
        second = await w.run("say b", key=receipt.key)
        await until(lambda: w.log.last_seq(receipt.key) > second.after + 3)
        waiting = [e for e in await w.events(receipt.key) if e["type"] == "notice"]
        assert [(e["kind"], "56 s" in e["message"]) for e in waiting] == [("waiting", True)]
        await w.router.cancel(str(receipt.key), 1, OPERATOR)
        assert (await w.wait(second)).outcome is Outcome.CANCELLED
        await w.rest(receipt.key)
        assert "open Load s100" not in w.diary.lines
        assert w.session(receipt.key).record.agent_session_id == "s100"
