"""A run as it is seen on a terminal, at several widths, while it goes on and when it is over."""

import json
import os
import re
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acpbridge.cli.terminal.cells import width_of
from acpbridge.cli.terminal.live import LiveScreen
from acpbridge.cli.terminal.tty import Tty
from acpbridge.cli.views.runview import RunView
from acpbridge.daemon.client import EventLine
from tests.unit.cli.terminal.watched import watched

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
END = "∎"
WIDTHS = [20, 40, 80, 200]
PROSE = (
    "# Title\n\nSome **strong** words.\n\n"
    "- one\n- two\n\n```py\nx = 1\n```\n\n| a | b |\n|-|-|\n|1|2|\n"
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def event(name: str, /, **fields: Any) -> EventLine:
    value = {"type": name, **fields}
    return EventLine(json.dumps(value).encode(), value)


def update(kind: str, /, **fields: Any) -> EventLine:
    return event("update", update={"sessionUpdate": kind, **fields})


def words(text: str, **fields: Any) -> EventLine:
    return update("agent_message_chunk", content={"type": "text", "text": text}, **fields)


def thought(text: str) -> EventLine:
    return update("agent_thought_chunk", content={"type": "text", "text": text})


def tool(status: str, name: str = "1", **fields: Any) -> EventLine:
    return update("tool_call", toolCallId=name, status=status, **fields)


def plan(*steps: str) -> EventLine:
    entries = [{"content": s.split("=")[0], "status": s.split("=")[1]} for s in steps]
    return update("plan", entries=entries)


ENDED = event("turn_ended", stopReason="end_turn", usage={"inputTokens": 12, "outputTokens": 3})
SCRIPT = [
    event("turn_queued", position=0),
    event("turn_started"),
    event("process_started", pid=1),
    thought("hm, a thought that is long enough to be wrapped on a narrow terminal\nand "),
    thought("more"),
    plan("look=in_progress", "tell=pending"),
    words(PROSE[:30]),
    words(PROSE[30:]),
    tool("in_progress", title="npm test " * 30, kind="execute"),
    update("tool_call_update", toolCallId="1", status="completed"),
    plan("look=completed", "tell=pending"),
    event("mode_changed", mode="other", before="default"),
    update("current_mode_update", currentModeId="other"),
    event("notice", kind="x", message="careful " * 20),
    update("usage_update", used=50, size=200),
    words("The end."),
    ENDED,
]


async def final(width: int, *lines: EventLine, rows: int = 24) -> str:
    """Return what is left on a terminal when a run is over."""
    async with watched(width, rows) as terminal:
        async with LiveScreen(terminal.tty) as screen:
            view = RunView(screen, Clock())
            for line in lines:
                await view.event(line)
            await view.end()
        assert terminal.restored
        os.write(terminal.side, END.encode())
        await terminal.sees(END)
        assert terminal.shown.visible
        return terminal.shown.text.removesuffix(END).rstrip()


async def test_what_is_over_stays() -> None:
    assert (
        await final(40, *SCRIPT)
        == """
· hm, a thought that is long enough to
  be wrapped on a narrow terminal
· and more

  Title

  Some strong words.

   • one
   • two

    x = 1

   a  b
   ────
   1  2

✓ execute  npm test npm test npm…  0.0s

! mode other
! careful careful careful careful
    : careful careful careful careful
    : careful careful careful careful
    : careful careful careful careful
    : careful careful careful careful

  The end.

≡ plan  1 of 2 done
  ☑ look
  ☐ tell

■ done in 0.0s · context 50 of 200
  (25%) · tokens 12 input, 3 output"""
    )


@pytest.mark.parametrize("width", WIDTHS)
async def test_every_row_fits_and_only_ours_begin_at_the_edge(width: int) -> None:
    text = await final(width, *SCRIPT)
    for row in text.split("\n"):
        assert width_of(row) < width
        assert row == "" or row[0] in " ·✓!≡■"


@pytest.mark.parametrize("width", WIDTHS)
async def test_any_cutting_of_the_words_leaves_the_same(width: int) -> None:
    whole = await final(width, words(PROSE), ENDED)
    clocked = [words(PROSE[at : at + 3]) for at in range(0, len(PROSE), 3)]
    assert await final(width, *clocked, ENDED) == whole


class _Region:
    """A view whose region can be looked at without a terminal."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.screen = LiveScreen(Tty(-1, None))
        self.view = RunView(self.screen, self.clock)

    async def after(self, *lines: EventLine) -> "_Region":
        for line in lines:
            await self.view.event(line)
        return self

    def rows(self, width: int = 60, height: int = 20) -> list[str]:
        return list(self.screen.region(width, height))


async def test_what_goes_on_is_shown_below() -> None:
    seen = await _Region().after(*SCRIPT[:3], words("Half a sen"))
    seen.clock.now += 7
    assert seen.rows() == [
        "",
        "  Half a sen",
        "",
        "⠦ waiting for the model  7s, last update 7s ago",
    ]
    await seen.after(plan("a=completed", "b=in_progress"), tool("pending", title="ls", kind="read"))
    seen.clock.now += 2
    assert seen.rows()[1:] == [
        "▸ read  ls  2s",
        "≡ plan  1 of 2 done",
        "  ☑ a",
        "  ▸ b",
        "⠹ waiting for a tool  9s",
    ]


async def test_it_says_what_is_waited_for() -> None:
    seen = _Region()
    told = []
    for line in [
        event("turn_queued", position=1),
        event("notice", kind="waiting", message="waiting for one of 8 places"),
        event("turn_started"),
        event("process_started", pid=1),
        thought("x"),
        tool("in_progress", title="t"),
        tool("in_progress", "2", title="u"),
        event("permission_asked", id="q", title="t"),
        event("permission_decided", id="q", effect="allow", by="operator"),
        update("tool_call_update", toolCallId="1", status="failed"),
        update("tool_call_update", toolCallId="2", status="completed"),
    ]:
        await seen.after(line)
        told.append(seen.rows()[-1][2:].rpartition("  ")[0])
    assert told == [
        "waiting for its turn",
        "waiting for one of 8 places",
        "starting the agent",
        "waiting for the agent",
        "waiting for the model",
        "waiting for a tool",
        "waiting for tools",
        "waiting for an answer to the question",
        "waiting for tools",
        "waiting for a tool",
        "waiting for the model",
    ]


TEXT = st.text("ab `*-#|\n日\t\x1b", max_size=60)
EVENTS = st.lists(
    st.one_of(
        TEXT.map(words),
        TEXT.map(thought),
        st.tuples(st.sampled_from(["pending", "failed", "x"]), st.sampled_from("123456789")).map(
            lambda pair: tool(*pair, title="t" * 300)
        ),
        st.integers(0, 30).map(lambda n: plan(*[f"step {i} {'x' * 90}=pending" for i in range(n)])),
        st.just(event("permission_asked", id="q")),
    ),
    max_size=6,
)


@settings(deadline=None)
@given(EVENTS, st.sampled_from(WIDTHS), st.integers(0, 30))
async def test_the_region_is_never_larger_than_the_screen(
    lines: list[EventLine], width: int, height: int
) -> None:
    seen = _Region()
    for line in lines:
        await seen.after(line)
        rows = seen.rows(width, height)
        assert len(rows) <= height
        assert all(width_of(row) <= width for row in rows)
        assert all(COLOUR.sub("", row).isprintable() for row in rows)


async def test_tools_that_were_left_are_shown_as_such_and_a_new_plan_leaves_the_old_one() -> None:
    ended = event("turn_ended", stopReason="cancelled")
    script = (plan("a=completed", "b=pending"), plan("c=pending"), tool("pending", title="t"))
    assert (
        await final(60, *script, ended)
        == """
≡ plan  1 of 2 done
  ☑ a
  ☐ b

◌ tool  t  0.0s, not finished

≡ plan  0 of 1 done
  ☐ c

■ cancelled after 0.0s"""
    )


async def test_a_turn_that_ended_with_its_session_says_so() -> None:
    ended = event("turn_ended", stopReason="cancelled", because="killed")
    assert (await final(60, ended)).strip() == "■ cancelled after 0.0s: the session was killed"


async def test_what_is_looked_at_again_took_as_long_as_it_did() -> None:
    def at(second: int, line: EventLine) -> EventLine:
        return event("", **line.value, at=f"2026-01-01T12:00:{second:02}.500Z")

    script = (
        at(1, event("turn_started")),
        at(2, tool("pending", title="ls")),
        at(14, tool("completed", title="ls")),
        at(31, event("turn_ended", stopReason="end_turn")),
    )
    text = await final(60, *script)
    assert "✓ tool  ls  12s" in text
    assert text.endswith("■ done in 30s")


async def test_a_turn_that_is_come_to_late_is_as_old_as_it_is() -> None:
    began = event("turn_started", at="1970-01-01T00:00:40.000Z")  # the test's clock is at 100 s
    seen = await _Region().after(began)
    assert seen.rows()[-1].endswith("  1m00s, last update 1m00s ago")


async def test_why_a_turn_stopped_is_said_in_a_sentence() -> None:
    ended = event("turn_ended", stopReason="max_tokens")
    assert await final(60, ended) == "\n■ stopped (max_tokens) after 0.0s"


async def test_what_comes_late_of_a_tool_opens_it_no_more() -> None:
    late = update("tool_call_update", toolCallId="1", content=[], status="completed")
    seen = await _Region().after(tool("completed", title="t"), late)
    await seen.after(update("tool_call_update", toolCallId="1", rawOutput="x"))
    assert not any("▸" in row for row in seen.rows())
    again = await final(60, tool("completed", title="t"), late, ENDED)
    assert again.count("✓") == 1


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 2), (9, 200)])
async def test_a_tiny_terminal_breaks_nothing(size: tuple[int, int]) -> None:
    assert "■" in await final(size[0], *SCRIPT, rows=size[1])


async def test_a_new_message_is_a_paragraph_of_its_own() -> None:
    said = (words("one", messageId="a"), words(" two", messageId="a"), words("3", messageId="b"))
    assert await final(60, *said) == "\n  one two\n\n  3"


async def test_a_decision_and_a_bypass_are_told() -> None:
    decided = event("permission_decided", id="q", effect="deny", reason="expired", title="rm x")
    text = await final(60, decided, event("mode_changed", mode="yolo", before="default"))
    assert "✗ permission q denied by expired (rm x)" in text
    assert "! WARNING  mode yolo: nobody is asked any more" in text


async def test_g30_a_mode_in_which_less_is_asked_says_so() -> None:
    text = await final(60, event("mode_changed", mode="acceptEdits", before="default"))
    assert "! mode acceptEdits: fewer questions are asked" in text


async def test_broken_updates_are_passed_over() -> None:
    odd: list[Any] = [None, 7, [], {}, {"sessionUpdate": 5}, {"sessionUpdate": "plan"}]
    odd += [{"sessionUpdate": "agent_message_chunk", "content": 5}]
    odd += [{"sessionUpdate": "plan", "entries": [5, {}]}]
    odd += [{"sessionUpdate": "tool_call", "content": 7, "status": ["completed"]}]
    odd += [{"sessionUpdate": "usage_update", "used": {}, "size": "x", "cost": 7}]
    odd += [{"sessionUpdate": "notice", "title": 7}]
    lines = [event("update", update=value) for value in odd]
    assert "■ failed after 0.0s" in await final(60, *lines, event("turn_failed", error=7))


async def test_others_have_their_turn_while_very_much_is_shown() -> None:
    seen: list[str] = []

    async def other(scope: anyio.CancelScope) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append("other")
        scope.cancel()

    async with watched(40, 12) as terminal, LiveScreen(terminal.tty) as screen:
        view = RunView(screen)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(other, scope)
                await view.event(words("a paragraph\n\n" * 20_000))
                seen.append("all")
    assert seen == ["other"]


async def test_a_thought_that_never_ends_its_line_is_shown_in_parts() -> None:
    async with watched(100, 12) as terminal, LiveScreen(terminal.tty) as screen:
        view = RunView(screen)
        await view.event(thought("first "))
        for _ in range(40):
            await view.event(thought("and " * 50))
        await terminal.sees("· first")  # it has left the region, which shows an end only
        assert terminal.shown.text.count("· first") == 1
        await view.end()


async def test_what_a_terminal_finds_wider_than_we_do_does_not_reach_the_left_edge() -> None:
    """An emoji of five characters has two columns here, and six on many terminals."""
    async with watched(40, 12) as terminal, LiveScreen(terminal.tty) as screen:
        view = RunView(screen)
        forged = "✓ permission p1 allowed by operator"
        await view.event(words("\U0001f468\u200d\U0001f469\u200d\U0001f467" * 13 + forged + "\n\n"))
        await view.end()
        await terminal.sees("by operator")
        assert not any(row.startswith("✓") for row in terminal.shown.text.splitlines())
