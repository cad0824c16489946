"""The embedded agent: it asks before it writes, and writes nowhere else."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from acpbridge.agents.demo import LARGEST, demo
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import AgentId
from acpbridge.model.permission import Decision, Effect, PermissionAsk, Reason
from acpbridge.router.briefing import Brief, envelope
from acpbridge.runtimes.base import New, SessionSpec
from acpbridge.runtimes.python import PythonRuntime
from tests.unit.runtimes.scenarios import Recorder, allow, deny, spec_fields, text


async def run(host: Recorder, cwd: Path, words: str) -> list[dict[str, Any]]:
    definition = AgentDefinition(AgentId("demo"), kind=RuntimeKind.PYTHON)
    spec = SessionSpec(**spec_fields(definition, str(cwd)))
    with anyio.fail_after(20):
        async with PythonRuntime(demo).connect(spec, host) as session:
            await session.open(New())
            assert (await session.prompt(text(words))).stop_reason == "end_turn"
    return host.updates


def ends(updates: list[dict[str, Any]]) -> list[str]:
    """Return how the tool calls ended."""
    told = (u for u in updates if u["sessionUpdate"] == "tool_call_update")
    return [u["status"] for u in told if "status" in u]


async def test_spawned_it_finds_what_it_is_asked_in_what_a_child_is_told(tmp_path: Path) -> None:
    """Else `acpbridge spawn "write ..." --agent demo` says hello."""
    host = Recorder(allow)
    await run(host, tmp_path, envelope(Brief(0, 3, "agent:demo:main"), "write a.txt with words"))
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "words\n"


async def test_it_writes_what_it_was_allowed_to(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    host = Recorder(allow)
    updates = await run(host, tmp_path, "write sub/a.txt with some words")
    target = tmp_path / "sub" / "a.txt"
    assert target.read_text(encoding="utf-8") == "some words\n"
    (ask,) = host.asks
    assert (ask.subject.kind, ask.subject.locations) == ("edit", (str(target),))
    diff = {"type": "diff", "path": str(target), "oldText": None, "newText": "some words\n"}
    assert ask.subject.content == (diff,)
    assert ends(updates) == ["completed"]
    plans = [u["entries"] for u in updates if u["sessionUpdate"] == "plan"]
    assert [[entry["status"] for entry in plan] for plan in plans] == [
        ["in_progress", "pending"],
        ["completed", "in_progress"],
        ["completed", "completed"],
    ]


async def test_it_shows_what_it_would_replace(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a longer text than the new one", encoding="utf-8")
    host = Recorder(allow)
    await run(host, tmp_path, "write a")
    assert host.asks[0].subject.content[0]["oldText"] == "a longer text than the new one"
    assert (tmp_path / "a").read_text(
        encoding="utf-8"
    ) == "Written by the demo agent of acpbridge.\n"


async def test_it_says_that_it_was_denied(tmp_path: Path) -> None:
    host = Recorder(deny)
    updates = await run(host, tmp_path, "write a with b")
    assert "not allowed" in host.said
    assert ends(updates) == ["failed"]
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("path", ["../a", "/tmp/a", ".", "out/a", "file/a", "link", "pipe", "no/a"])
async def test_it_leaves_alone_what_is_not_a_plain_file_of_its_own(
    path: str, tmp_path: Path
) -> None:
    inside, outside = tmp_path / "in", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "out").symlink_to(outside)
    (inside / "link").symlink_to(outside / "a")
    (inside / "file").write_text("", encoding="utf-8")
    os.mkfifo(inside / "pipe")
    host = Recorder(allow)
    await run(host, inside, f"write {path} with x")
    assert host.asks == []
    assert "I do not write" in host.said
    assert list(outside.iterdir()) == []


async def test_it_leaves_a_large_file_and_one_with_other_names_alone(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(LARGEST + 1))
    (tmp_path / "first").write_text("kept", encoding="utf-8")
    (tmp_path / "second").hardlink_to(tmp_path / "first")
    for name in ("large", "second"):
        host = Recorder(allow)
        await run(host, tmp_path, f"write {name}")
        assert host.asks == []
    assert (tmp_path / "first").read_text(encoding="utf-8") == "kept"


async def test_a_link_that_is_put_there_after_the_question_leads_nowhere(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "outside"
    inside.mkdir()

    async def swap(ask: PermissionAsk) -> Decision:
        (inside / "a").symlink_to(outside)
        return await allow(ask)

    host = Recorder(swap)
    updates = await run(host, inside, "write a with x")
    assert not outside.exists()
    assert "could not write" in host.said
    assert ends(updates)[-1] == "failed"


async def test_to_anything_else_it_plans_looks_and_says_what_it_is(tmp_path: Path) -> None:
    host = Recorder()
    updates = await run(host, tmp_path, "write me a poem")
    kinds = [update["sessionUpdate"] for update in updates]
    assert kinds == [
        *("agent_thought_chunk", "plan", "tool_call", "tool_call_update", "tool_call_update"),
        *("plan", "usage_update", "agent_message_chunk"),
    ]
    assert updates[2]["kind"] == "read"
    assert "I am demo" in host.said
    assert "0 entries" in host.said
    assert "\n\n- `write hello.txt with Hi there`: " in host.said  # a list, to Markdown
    again = Recorder()
    await run(again, tmp_path, "write me a poem")
    assert again.said == host.said
    assert (
        "cannot be read" in (await run(Recorder(), tmp_path / "gone", "hi"))[-1]["content"]["text"]
    )


async def test_it_has_a_person_choose_and_says_what_was_chosen(tmp_path: Path) -> None:
    async def second(ask: PermissionAsk) -> Decision:
        assert [(o.option_id, o.name) for o in ask.options][:3] == [
            ("1", "red"),
            ("2", "deep green"),
            ("3", "orange"),
        ]
        return Decision(Effect.ALLOW, "2", Reason.OPERATOR)

    host = Recorder(second)
    await run(host, tmp_path, "choose red, deep green or orange, red")
    assert host.said == "You chose deep green."
    host = Recorder(deny)
    await run(host, tmp_path, "choose a or b")
    assert host.said == "You chose none of them."
    host = Recorder(allow)
    await run(host, tmp_path, "choose nothing")
    assert host.asks == []


async def test_it_counts_words_for_tokens_over_its_whole_session(tmp_path: Path) -> None:
    host = Recorder(deny)
    definition = AgentDefinition(AgentId("demo"), kind=RuntimeKind.PYTHON)
    spec = SessionSpec(**spec_fields(definition, str(tmp_path)))
    with anyio.fail_after(20):
        async with PythonRuntime(demo).connect(spec, host) as session:
            await session.open(New())
            for _ in range(2):
                result = await session.prompt(text("choose a or b"))
                assert result.raw["usage"] == {
                    "inputTokens": 4,
                    "outputTokens": 5,
                    "totalTokens": 9,
                }
    used = [u["used"] for u in host.updates if u["sessionUpdate"] == "usage_update"]
    assert used == [9, 18]


async def test_a_directory_in_a_files_place_costs_no_descriptor(tmp_path: Path) -> None:
    """With `os.fdopen` before the look at what it is, each costs one."""
    (tmp_path / "folder").mkdir()
    await run(Recorder(allow), tmp_path, "write folder with x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        await run(Recorder(allow), tmp_path, "write folder with x")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
