"""How a session is shown that is followed turn by turn: each turn by the view of a run.

Above is `attach`; below are the views of one turn and the screen. What somebody asked of the agent
is shown too, and which turns are not over is counted.
"""

from collections.abc import Mapping
from typing import Any, Final

from acpbridge.cli import exits
from acpbridge.cli.output import error_lines, lines
from acpbridge.cli.terminal.screen import Screen
from acpbridge.cli.views.formats import View, view_of
from acpbridge.cli.views.reading import why_cancelled
from acpbridge.daemon.client import EventLine, Events
from acpbridge.errors import BridgeError
from acpbridge.model.display import clip, escape
from acpbridge.model.events import TURN_ENDS

# Of somebody's prompt so much is shown: characters of a line, and lines.
PROMPT: Final = 2_000
PROMPT_LINES: Final = 40

# What is worth a word outside of any turn as well.
_ALONE: Final = ("notice", "mode_changed", "permission_decided")


class SessionView:
    """Shows a session's events.

    Args:
        shape: a `--format`.
        screen: where.
        epoch: of the daemon that runs: turns of an earlier one are over.

    Attributes:
        unfinished: the turns that are not over.
        own: correlation ids of the prompts that were typed here, and need not be shown again.
        over: whether the session's end was shown.
    """

    def __init__(self, shape: str, screen: Screen, epoch: str) -> None:
        self.unfinished: set[str] = set()
        self.own: set[str] = set()
        self.over = False
        self._shape = shape
        self._screen = screen
        self._epoch = epoch
        self._view: View | None = None
        self._turn: Any = None

    async def past(self, events: Events) -> None:
        """Show what was before, from the beginning of the last turn."""
        past: list[EventLine] = []
        start = 0
        while events.newest and (not past or past[-1].value["seq"] < events.newest):
            line = await events.next()
            if line.value.get("type") == "turn_started":
                start = len(past)
            past.append(line)
        if past and past[start].value["seq"] > 1 and not _begins(past[start]):
            await self.say("(what came before is in the session's log)", dim=True)
        for index, line in enumerate(past):
            if index < start:
                self._count(line.value)
            else:
                await self.event(line)
        if self._view is not None and str(self._turn) not in self.unfinished:
            await self._end()
            await self.say("the turn was interrupted: its daemon has ended", fg="yellow")

    async def event(self, line: EventLine) -> None:
        """Show one event."""
        event = line.value
        kind = event.get("type")
        self._count(event)
        if kind == "turn_started":
            await self._tell_prompt(event)
            self._view, self._turn = view_of(self._shape, self._screen), event.get("turn")
        await self._look(line)
        if kind in TURN_ENDS:
            began = event.get("turn") == self._turn
            if began:
                await self._end()
            await self._tell_end(event, began=began)
        elif kind == "session_closed":
            self.over = True
            await self.closed(event.get("reason"))

    async def closed(self, reason: Any) -> None:
        """Say that nothing will come any more."""
        await self.say(f"the session is closed ({escape(str(reason))})", fg="yellow")

    async def say(self, text: str, **style: Any) -> None:
        """Say something beside, unless only data is wanted."""
        if self._shape != "json":
            await self._screen.say(text, **style)

    async def tell_error(self, error: BridgeError) -> None:
        """Say what went wrong, and what to do next."""
        for text, style in error_lines(error):
            await self.say(text, **style)

    def _count(self, event: Mapping[str, Any]) -> None:
        turn, kind = str(event.get("turn")), event.get("type")
        if kind in ("turn_queued", "turn_started") and event.get("epoch") == self._epoch:
            self.unfinished.add(turn)
        elif kind in TURN_ENDS:
            self.unfinished.discard(turn)

    async def _look(self, line: EventLine) -> None:
        """Have an event shown by the view of its turn, or, where no turn has one, by itself."""
        event = line.value
        alone = self._shape == "json" or event.get("type") in _ALONE
        if self._view is not None and (event.get("turn") in (None, self._turn) or alone):
            await self._view.event(line)
        elif alone:
            view = view_of(self._shape, self._screen)
            await view.event(line)
            await view.end()

    async def _end(self) -> None:
        if self._view is not None:
            await self._view.end()
        self._view, self._turn = None, None

    async def _tell_prompt(self, event: Mapping[str, Any]) -> None:
        """Say what was asked of the agent, unless it has just been typed here."""
        if event.get("correlationId") in self.own:
            return
        blocks = event.get("prompt")
        texts = [
            str(block.get("text") or f"[{block.get('type')}]")
            for block in (blocks if isinstance(blocks, list) else [])
            if isinstance(block, Mapping)
        ]
        shown = [clip(part, PROMPT) for part in lines("\n".join(texts))]
        more = [f"({len(shown) - PROMPT_LINES} more lines)"] if len(shown) > PROMPT_LINES else []
        first, *rest = [*shown[:PROMPT_LINES], *more]
        await self.say("\n".join([f"> {first}", *(f"  {part}" for part in rest)]), bold=True)

    async def _tell_end(self, event: Mapping[str, Any], *, began: bool) -> None:
        if event.get("type") == "turn_failed":
            await self.tell_error(exits.error_of(event))
        elif event.get("stopReason") != "end_turn" and not (began and self._screen.live):
            # On a live screen the turn's view has said it.
            which = "the turn" if began else "a prompt that waited"
            how = f"{escape(str(event.get('stopReason')))}{why_cancelled(event)}"
            await self.say(f"{which} ended: {how}", fg="yellow")


def _begins(line: EventLine) -> bool:
    return line.value.get("type") == "turn_started"
