"""Drives one `attach`: history, live events, typed prompts, questions, and the ways to leave.

Above is the command. Prompts are detached runs, so that leaving ends none of them; questions are
asked in the one way in which they are asked (`asking`).
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from acpbridge.cli import exits
from acpbridge.cli.asking import Asking, Inbox, Terminal
from acpbridge.cli.caller import environment
from acpbridge.cli.interrupts import obey
from acpbridge.cli.output import command_line, error_lines, lines
from acpbridge.cli.screen import Screen, screen_of
from acpbridge.cli.turn import CANCEL_GRACE
from acpbridge.cli.views import View, view_of
from acpbridge.cli.writer import on_terminal
from acpbridge.daemon.client import DaemonClient, EventLine, Events, connect
from acpbridge.daemon.paths import Paths
from acpbridge.errors import EXIT_OK, BridgeError
from acpbridge.model.display import clip, escape
from acpbridge.router.api import RunRequest
from acpbridge.transport.tasks import background

# As many events are looked at for the beginning of the last turn.
HISTORY: Final = 500

# A second Ctrl-C within this long detaches. Seconds.
AGAIN: Final = 2.0

# Of somebody's prompt so much is shown: characters of a line, and lines.
PROMPT: Final = 2_000
PROMPT_LINES: Final = 40

_LAST: Final = ("turn_ended", "turn_failed")

# What is worth a word outside of any turn as well.
_ALONE: Final = ("notice", "mode_changed", "permission_decided")

HELP: Final = """\
  Enter          send what was typed; while a turn runs it waits behind it
  /cancel        end the turn, and what waits behind it (or Ctrl-C)
  /close         end the session politely, for good
  /kill          end the session and all that it started, at once
  /questions     ask again what was left for later
  /detach        leave; the session goes on (or Ctrl-D)
  //...          send a prompt that begins with /"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asked for.

    Attributes:
        key: of the session or a part of one; "" for the last one.
        as_json: print events as they are.
        read_only: only look.
    """

    key: str
    as_json: bool
    read_only: bool


class Attached:
    """One run of the command.

    Args:
        paths: of the state directory.
        home: the state directory as it was given.
        wanted: what was asked for.
    """

    def __init__(self, paths: Paths, home: str | None, wanted: Wanted) -> None:
        self._paths = paths
        self._home = home
        self._wanted = wanted
        self._shape = "json" if wanted.as_json else "text"
        self._types = not (wanted.as_json or wanted.read_only) and _has_terminal()
        self._screen: Screen = screen_of(self._shape)
        self._client: DaemonClient
        self._terminal: Terminal
        self._key = ""
        self._view: View | None = None
        self._turn: Any = None
        self._unfinished: set[str] = set()
        self._mine: set[str] = set()
        self._interrupted = -AGAIN
        self._scope: anyio.CancelScope
        self._tasks: TaskGroup
        self._left = EXIT_OK

    async def run(self) -> int:
        """Run until the session is closed or left.

        Raises:
            BridgeError: `no_such_session`, `ambiguous_key`, `connection_closed`.
        """
        with anyio.CancelScope() as self._scope:
            async with (
                background() as self._tasks,
                background(partial(obey, self._interrupt, self._leave)),
                connect(self._paths, start=True) as self._client,
            ):
                row = await self._find()
                self._key = str(row["key"])
                follow = self._client.follow(self._key, -HISTORY)
                async with follow as events, self._screen:
                    await self._follow(row, events)
        return self._left

    async def _find(self) -> Mapping[str, Any]:
        """Return the row of the one session that is meant."""
        if self._wanted.key:
            shown = await self._client.call("status", key=self._wanted.key)
            return _row(shown["sessions"], self._wanted.key)
        live = (await self._client.call("sessions", all=False))["sessions"]
        known = live or (await self._client.call("sessions", all=True))["sessions"]
        found = [row for row in known if row.get("state") != "closed"]
        return _row(found[-1:], "")

    async def _follow(self, row: Mapping[str, Any], events: Events) -> None:
        turn = row.get("turn")
        if turn:
            self._unfinished.add(str(turn.get("id")))
        await self._say(f"session: {self._key}", dim=True)
        await self._show_history(events)
        if row.get("state") == "closed":
            await self._say(f"the session is closed ({row.get('closeReason')})", fg="yellow")
            return
        if not self._types:
            await self._live(events, Inbox(self._screen, self._home))
            return
        screen, key = self._screen, self._key
        terminal = Terminal(self._client, self._home, screen, self._typed, key=key)
        async with background(terminal.serve):
            await self._say("Enter sends; /help lists what else can be done", dim=True)
            self._terminal = terminal
            await self._ask_open()
            await self._live(events, terminal)

    async def _show_history(self, events: Events) -> None:
        """Show the events from the last turn's beginning on, and draw conclusions from the rest."""
        past: list[EventLine] = []
        start = 0
        while not past or past[-1].value["seq"] < events.newest:
            if not events.newest:
                return
            line = await events.next()
            if line.value.get("type") == "turn_started":
                start = len(past)
            past.append(line)
        began = past[start].value
        if began["seq"] > 1 and began.get("type") != "turn_started":
            await self._say("(what came before is in the session's log)", dim=True)
        current = past[-1].value.get("epoch")
        for index, line in enumerate(past):
            # A turn of an earlier daemon has no end of its own, and waits for nothing.
            if line.value.get("epoch") == current:
                self._count(line.value)
            if index >= start:
                await self._show(line)

    async def _live(self, events: Events, asking: Asking) -> None:
        while True:
            line = await events.next()
            event = line.value
            self._count(event)
            await self._show(line)
            kind = event.get("type")
            if kind == "permission_asked":
                await asking.asked(event)
            elif kind == "permission_decided":
                await asking.decided(event)
            elif kind == "session_closed":
                return

    def _count(self, event: Mapping[str, Any]) -> None:
        turn, kind = str(event.get("turn")), event.get("type")
        if kind == "turn_queued":
            self._unfinished.add(turn)
        elif kind in _LAST:
            self._unfinished.discard(turn)

    # ---- What is shown ----

    async def _show(self, line: EventLine) -> None:
        event = line.value
        kind = event.get("type")
        if kind == "turn_started":
            await self._tell_prompt(event)
            self._view, self._turn = view_of(self._shape, self._screen), event.get("turn")
        await self._look(line)
        if kind in _LAST:
            began = event.get("turn") == self._turn
            if began:
                await self._end_view()
            await self._tell_end(event, began=began)
        elif kind == "session_closed":
            await self._say(f"the session is closed ({event.get('reason')})", fg="yellow")

    async def _look(self, line: EventLine) -> None:
        """Have an event shown by the view of its turn, or, where no turn has one, by itself."""
        event = line.value
        alone = self._wanted.as_json or event.get("type") in _ALONE
        if self._view is not None and (event.get("turn") in (None, self._turn) or alone):
            await self._view.event(line)
        elif alone:
            view = view_of(self._shape, self._screen)
            await view.event(line)
            await view.end()

    async def _end_view(self) -> None:
        if self._view is not None:
            await self._view.end()
        self._view, self._turn = None, None

    async def _tell_prompt(self, event: Mapping[str, Any]) -> None:
        """Say what was asked of the agent, unless it has just been typed here."""
        if str(event.get("turn")) in self._mine:
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
        await self._say("\n".join([f"> {first}", *(f"  {part}" for part in rest)]), bold=True)

    async def _tell_end(self, event: Mapping[str, Any], *, began: bool) -> None:
        if event.get("type") == "turn_failed":
            await self._tell_error(exits.error_of(event))
        elif event.get("stopReason") != "end_turn" and not (began and self._screen.live):
            # On a live screen the turn's view has said it.
            which = "the turn" if began else "a prompt that waited"
            await self._say(f"{which} ended: {escape(str(event.get('stopReason')))}", fg="yellow")

    async def _tell_error(self, error: BridgeError) -> None:
        for text, style in error_lines(error):
            await self._say(text, **style)

    async def _say(self, text: str, **style: Any) -> None:
        if not self._wanted.as_json:
            await self._screen.say(text, **style)

    # ---- What is typed ----

    async def _typed(self, line: str | None) -> None:
        text = "/detach" if line is None else line.strip()
        commands = {
            "/cancel": self._cancel,
            "/close": self._close,
            "/kill": self._kill,
            "/questions": self._ask_again,
            "/detach": self._detach,
            "/quit": self._detach,
            "/help": self._help,
        }
        if not text:
            return
        try:
            if text in commands:
                await commands[text]()
            else:
                await self._prompt(text.removeprefix("/") if text.startswith("//") else line or "")
        except BridgeError as error:
            await self._tell_error(error)

    async def _prompt(self, text: str) -> None:
        request = RunRequest(
            content=({"type": "text", "text": text},),
            session=self._key,
            env=environment(),
            detached=True,
        )
        behind = len(self._unfinished)
        receipt = await self._client.run(request)
        if behind:
            waiting = "the running turn" if behind == 1 else f"{behind} turns"
            await self._say(f"queued behind {waiting}", dim=True)
        else:
            self._mine.add(str(receipt["runId"]))

    async def _cancel(self) -> None:
        receipt = await self._client.call("cancel", key=self._key, grace=CANCEL_GRACE)
        if receipt.get("rung") == "none":
            await self._say("no turn runs", dim=True)
        elif not receipt.get("turnEnded"):
            await self._say("the turn STILL RUNS; /kill ends it", fg="red")

    async def _close(self) -> None:
        await self._client.call("close", key=self._key)

    async def _kill(self) -> None:
        (result,) = (await self._client.call("kill", keys=[self._key], grace=0))["results"]
        killed = ", ".join(map(str, result["killed"])) or "no process"
        await self._say(f"killed {killed}; left: {len(result['survivors'])}", fg="yellow")

    async def _ask_open(self) -> int:
        """Have what is open asked; return how much that is."""
        found = (await self._client.call("questions"))["permissions"]
        ours = [question for question in found if question.get("sessionKey") == self._key]
        for question in ours:
            await self._terminal.asked(question)
        return len(ours)

    async def _ask_again(self) -> None:
        if not await self._ask_open():
            await self._say("no open question", dim=True)

    async def _help(self) -> None:
        await self._say(HELP)

    async def _detach(self) -> None:
        command = command_line(self._home, "attach", self._key)
        goes_on = "; the turn goes on" if self._unfinished else ""
        if self._key:
            await self._say(f"detached{goes_on}; come back with: {command}", dim=True)
        self._scope.cancel()

    # ---- Signals ----

    async def _interrupt(self) -> None:
        """The first one cancels the turn; the second, or one without a turn, detaches."""
        now = anyio.current_time()
        if now - self._interrupted < AGAIN or not self._unfinished or not self._types:
            await self._detach()
            return
        self._interrupted = now
        self._tasks.start_soon(self._cancel_turn)

    async def _cancel_turn(self) -> None:
        await self._say("cancelling; Ctrl-C once more leaves the session to itself", fg="yellow")
        await self._typed("/cancel")

    def _leave(self, status: int) -> None:
        self._left = status
        self._scope.cancel()


def _has_terminal() -> bool:
    return on_terminal() and sys.stdout.isatty()


def _row(rows: list[Mapping[str, Any]], key: str) -> Mapping[str, Any]:
    if not rows:
        what = f"There is no session {key!r}." if key else "There is no session to attach to."
        raise BridgeError("no_such_session", what)
    return rows[0]
