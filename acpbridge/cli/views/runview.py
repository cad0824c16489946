"""A run on a terminal that can be drawn on: what is over stays, what goes on is shown below it.

Above is the run, which hands over the events of one turn; below are the rows (cards.py, prose.py)
and the screen. Nothing is decided here.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import anyio.lowlevel

from acpbridge.cli.output import styled
from acpbridge.cli.terminal.canvas import WRAP_OFF, WRAP_ON
from acpbridge.cli.terminal.cells import wrap
from acpbridge.cli.terminal.live import LiveScreen
from acpbridge.cli.terminal.wrapping import WRAPPED
from acpbridge.cli.views import cards
from acpbridge.cli.views.blocks import Blocks
from acpbridge.cli.views.prose import INDENT, plain, prose
from acpbridge.cli.views.reading import content_text, decided, message_text, update_of
from acpbridge.cli.views.status import Status, moment
from acpbridge.daemon.client import EventLine
from acpbridge.model.display import escape
from acpbridge.model.events import TURN_ENDS
from acpbridge.permissions.policy import names_bypass, names_mode

# Between two looks for finished blocks: as often as a frame is drawn. Seconds.
SETTLE: Final = 0.05

# Characters that are not looked at before: they are many, and a look costs.
UNSETTLED: Final = 16_384

# An unfinished block that is longer is shown as it came, and its end only. Characters.
RENDERED: Final = 4_000

# Characters of a thought without a line end, before it is shown.
LONGEST_THOUGHT: Final = 4_000

# Rows of running tools; more are counted.
TOOLS: Final = 5


class RunView:
    """Shows the events of one turn on a screen.

    Args:
        screen: where.
        clock: seconds since 1970: a turn that began before it was looked at is as old as it is.
    """

    def __init__(self, screen: LiveScreen, clock: Callable[[], float] = time.time) -> None:
        self._screen = screen
        self._clock = clock
        self._status = Status(clock)
        self._said = _Said()
        self._tools = cards.Tools()
        self._plan: list[cards.Object] = []
        self._mode = ""
        self._at = clock()
        self._last_kind = "head"
        screen.region = self._region

    async def event(self, line: EventLine) -> None:
        """Show one event."""
        self._status.event(line.value)
        self._at = moment(line.value, self._clock)
        kind = str(line.value.get("type"))
        if kind == "update":
            await self._update(update_of(line.value))
        elif kind == "permission_asked":
            await self._flush()
        elif kind == "permission_decided":
            effect = line.value.get("effect")
            mark, colour = ("✓", "green") if effect == "allow" else ("✗", "yellow")
            await self._note(mark, decided(line.value), fg=colour)
        elif kind == "notice":
            await self._notice(line.value)
        elif kind == "mode_changed":
            await self._mode_is(str(line.value.get("mode", "")))
        elif kind in TURN_ENDS:
            await self._ended(line.value)

    async def end(self) -> None:
        """Show what is still held back."""
        await self._flush()
        self._screen.region = _nothing

    # ---- what stays ----

    async def _update(self, update: cards.Object) -> None:
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            await self._words(message_text(update), str(update.get("messageId", "")))
        elif kind == "agent_thought_chunk":
            await self._think(content_text(update.get("content")))
        elif kind in ("tool_call", "tool_call_update"):
            await self._tool(update)
        elif kind == "plan":
            await self._plan_is(cards.entries_of(update.get("entries")))
        elif kind == "current_mode_update":
            await self._mode_is(str(update.get("currentModeId", "")))
        elif kind == "notice":
            told = [update[n] for n in ("title", "description") if isinstance(update.get(n), str)]
            await self._note("!", f"the agent says: {cards.as_text(': '.join(told))}", fg="yellow")

    async def _words(self, text: str, message: str) -> None:
        if not text:
            return
        if self._said.thought or self._said.is_new(message):
            await self._flush()
        for at in range(0, len(text), UNSETTLED):
            self._said.words.feed(text[at : at + UNSETTLED])
            now = self._clock()
            if abs(now - self._said.settled) >= SETTLE or self._said.words.fresh >= UNSETTLED:
                self._said.settled = now
                await self._settle(last=False)

    async def _settle(self, *, last: bool) -> None:
        """Write the blocks that are finished, each set off from the one before."""
        for block in self._said.words.take(last=last):
            kind = "words" if block.joined and self._last_kind == "words" else "block"
            await self._put(kind, prose(block, self._width))
            self._last_kind = "words"
            # Rows cost: an agent that says very much must not hold up a Ctrl-C.
            await anyio.lowlevel.checkpoint()

    async def _think(self, text: str) -> None:
        """Show thoughts by whole lines: they come in pieces of words."""
        await self._settle(last=True)
        *whole, self._said.thought = (self._said.thought + text).split("\n")
        for line in whole:
            await self._thought(line)
        if len(self._said.thought) > LONGEST_THOUGHT:
            line, self._said.thought = self._said.thought, ""
            await self._thought(line)

    async def _thought(self, line: str) -> None:
        for at in range(0, len(line), LONGEST_THOUGHT):
            if (part := line[at : at + LONGEST_THOUGHT]).strip():
                await self._put("thought", _thought_rows(part, self._width))
                await anyio.lowlevel.checkpoint()

    async def _tool(self, update: cards.Object) -> None:
        await self._flush()
        over = self._tools.take(update, self._at)
        if over is not None:
            await self._put("tool", cards.finished(over, self._at, self._width))

    async def _plan_is(self, entries: list[cards.Object]) -> None:
        """Take a plan; one with other steps leaves the old one as it was last."""
        old, self._plan = self._plan, entries
        steps = [entry.get("content") for entry in entries]
        if old and steps != [entry.get("content") for entry in old]:
            await self._flush()
            await self._put("plan", cards.plan_rows(old, self._width))

    async def _mode_is(self, mode: str) -> None:
        if mode == self._mode:
            return
        self._mode = mode
        if names_bypass(mode):
            text = f"WARNING  mode {escape(mode)}: nobody is asked any more"
            await self._note("!", text, fg="red", bold=True)
        elif names_mode(mode):
            text = f"mode {escape(mode)}: fewer questions are asked"
            await self._note("!", text, fg="yellow", bold=True)
        else:
            await self._note("!", f"mode {escape(mode)}", fg="yellow")

    async def _notice(self, event: cards.Object) -> None:
        # Waiting for a place is what the status tells.
        if event.get("message") and event.get("kind") != "waiting":
            await self._note("!", cards.as_text(event["message"]), fg="yellow")

    async def _ended(self, event: cards.Object) -> None:
        await self._flush()
        for tool in self._tools.open():
            await self._put("tool", cards.finished(tool, self._at, self._width))
        self._tools.forget()
        if self._plan:
            await self._put("plan", cards.plan_rows(self._plan, self._width))
        self._plan = []
        await self._put("summary", self._status.summary(event, self._width))

    async def _note(self, mark: str, text: str, **style: Any) -> None:
        await self._flush()
        first, *more = wrap(f"{mark} {text}", self._width, WRAPPED)
        await self._put("note", [styled(part, **style) for part in (first, *more)])

    async def _flush(self) -> None:
        """End what is being said: something else comes now."""
        thought, self._said.thought = self._said.thought, ""
        await self._thought(thought)
        await self._settle(last=True)

    async def _put(self, kind: str, rows: Sequence[str]) -> None:
        """Write rows that stay, with an empty one before those of another kind."""
        if not rows:
            return
        apart = kind != self._last_kind or kind == "block"
        self._last_kind = kind
        await self._screen.write(("\n" if apart else "") + "\n".join(map(_unwrapped, rows)))

    @property
    def _width(self) -> int:
        return max(self._screen.tty.size()[0] - 1, 1)

    # ---- what goes on ----

    def _region(self, width: int, height: int) -> Sequence[str]:
        """Return the rows of now: what is being said, the tools, the plan, what is waited for."""
        below = [*self._running(width), *self._planned(width), self._waiting(width)]
        said = _last(self._said.rows(width), height - len(below) - 2)
        goes_on = self._last_kind == "thought" and self._said.thought
        rows = [*said, "", *below] if said else below
        return _last(rows if said and goes_on else ["", *rows], height)

    def _waiting(self, width: int) -> str:
        return self._status.row(width, self._screen.waits_for)

    def _running(self, width: int) -> list[str]:
        now, tools = self._clock(), self._tools.open()
        out = [cards.running(tool, now, width) for tool in tools[-TOOLS:]]
        more = len(tools) - TOOLS
        return [*out, styled(f"  … {more} more", dim=True)] if more > 0 else out

    def _planned(self, width: int) -> list[str]:
        return cards.plan_rows(self._plan, width, cards.PLAN) if self._plan else []


class _Said:
    """What the agent is saying: the words and thoughts that are not finished."""

    def __init__(self) -> None:
        self.words = Blocks()
        self.thought = ""
        self.settled = 0.0
        self._message = ""
        self._shown: tuple[object, list[str]] = ((), [])

    def is_new(self, message: str) -> bool:
        """Tell whether a message is another one than before; "" belongs to any."""
        before, self._message = self._message, message or self._message
        return bool(before) and before != self._message

    def rows(self, width: int) -> list[str]:
        """Return it as rows; made anew only for another text or width."""
        what = (self.thought, self.words.rest, width)
        if self._shown[0] != what:
            self._shown = (what, self._made(width))
        return self._shown[1]

    def _made(self, width: int) -> list[str]:
        if self.thought.strip():
            return _thought_rows(self.thought[-RENDERED:], width)
        rest = self.words.rest
        if len(rest) > RENDERED:
            return plain(rest[-RENDERED:], width)
        out: list[str] = []
        for block in self.words.preview():
            out += ["", *prose(block, width)] if out else prose(block, width)
        return out


def _unwrapped(row: str) -> str:
    """Return a row that a terminal cuts where it finds it too wide.

    Many draw an emoji of several characters in more columns than we count. What they then wrapped
    would begin at the left edge, like a row of ours; the log has every word.
    """
    return row if row.isascii() else f"{WRAP_OFF}{row}{WRAP_ON}"


def _last(rows: Sequence[str], count: int) -> list[str]:
    return list(rows[-count:]) if count > 0 else []


def _thought_rows(line: str, width: int) -> list[str]:
    return [styled(row, dim=True) for row in wrap(f"· {escape(line.expandtabs(4))}", width, INDENT)]


def _nothing(width: int, height: int) -> Sequence[str]:
    del width, height
    return ()
