"""Drives one `attach`: finds the session, follows it, asks its questions, and leaves it running.

Above is the command; below are what is shown (`sessionview`), what is typed (`typed`), and the one
way in which questions are asked (`asking`).
"""

import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from acpbridge.cli import keys
from acpbridge.cli.below import Below
from acpbridge.cli.interrupts import obey
from acpbridge.cli.keys import BEGIN
from acpbridge.cli.output import command_line, on_terminal
from acpbridge.cli.questions.asking import Asking, Inbox, Terminal
from acpbridge.cli.terminal.screen import Screen, screen_of
from acpbridge.cli.typed import Commands
from acpbridge.cli.views.sessionview import SessionView
from acpbridge.daemon.client import DaemonClient, Events, connect
from acpbridge.daemon.paths import Paths
from acpbridge.errors import EXIT_OK, BridgeError
from acpbridge.transport.tasks import background

# As many events are looked at for the beginning of the last turn.
HISTORY: Final = 500

# A second Ctrl-C within this long detaches. Seconds.
AGAIN: Final = 2.0


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

    @property
    def shape(self) -> str:
        """As which `--format` events are shown."""
        return "json" if self.as_json else "text"

    @property
    def types(self) -> bool:
        """Whether a person is there, and wants more than to look."""
        only_looks = self.as_json or self.read_only
        return not only_looks and on_terminal() and sys.stdout.isatty()


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
        self._screen: Screen = screen_of(wanted.shape)
        self._followed: _Followed | None = None
        self._interrupted = -AGAIN
        self._scope: anyio.CancelScope
        self._left = EXIT_OK

    async def run(self) -> int:
        """Run until the session is closed or left.

        Raises:
            BridgeError: `no_such_session`, `ambiguous_key`, `connection_closed`.
        """
        with anyio.CancelScope() as self._scope:
            async with (
                background() as tasks,
                background(partial(obey, partial(self._interrupt, tasks), self._leave)),
                connect(self._paths, start=True) as client,
            ):
                epoch, row = await _find(client, self._wanted.key)
                view = SessionView(self._wanted.shape, self._screen, epoch)
                commands = Commands(client, str(row["key"]), view, self._detach)
                self._followed = _Followed(client, row, view, commands)
                follow = client.follow(str(row["key"]), -HISTORY)
                async with follow as events, self._screen:
                    await self._follow(self._followed, events)
        return self._left

    async def _follow(self, it: "_Followed", events: Events) -> None:
        await it.view.say(f"session: {it.key}", dim=True)
        if it.row.get("turn"):
            it.view.unfinished.add(str(it.row["turn"].get("id")))
        await it.view.past(events)
        if it.row.get("state") == "closed" or it.view.over:
            if not it.view.over:
                await it.view.closed(it.row.get("closeReason"))
            return
        if not self._wanted.types:
            inbox = Inbox(self._screen, self._home)
            async with self._asking_below(it, inbox):
                await _live(it.view, events, inbox)
            return
        terminal = Terminal(it.client, self._home, self._screen, it.commands.typed, key=it.key)
        it.commands.terminal = terminal
        async with background(terminal.serve), self._asking_below(it, terminal):
            await it.view.say("Enter sends; /help lists what else can be done", dim=True)
            await it.commands.ask_open()
            await _live(it.view, events, terminal)

    def _asking_below(self, it: "_Followed", asking: Asking) -> AbstractAsyncContextManager[Any]:
        return background(Below(it.client, it.key, asking, it.view.say, self._home).serve)

    # ---- Leaving ----

    async def _interrupt(self, tasks: TaskGroup) -> None:
        """The first Ctrl-C cancels the turn; the second, or one without a turn, detaches."""
        now = anyio.current_time()
        again = now - self._interrupted < AGAIN
        it = self._followed
        if it is None or again or not (self._wanted.types and it.view.unfinished):
            await self._detach()
            return
        self._interrupted = now
        tasks.start_soon(self._cancel, it)

    async def _cancel(self, it: "_Followed") -> None:
        words = "cancelling; Ctrl-C once more leaves the session to itself"
        await it.view.say(words, fg="yellow")
        await it.commands.typed("/cancel")

    async def _detach(self) -> None:
        it = self._followed
        if it is not None:
            goes_on = "; the turn goes on" if it.view.unfinished else ""
            command = command_line(self._home, "attach", it.key)
            await it.view.say(f"detached{goes_on}; come back with: {command}", dim=True)
        self._scope.cancel()

    def _leave(self, status: int) -> None:
        self._left = status
        self._scope.cancel()


@dataclass(frozen=True, slots=True)
class _Followed:
    """What is followed, and with what."""

    client: DaemonClient
    row: Mapping[str, Any]
    view: SessionView
    commands: Commands

    @property
    def key(self) -> str:
        return str(self.row["key"])


async def _find(client: DaemonClient, key: str) -> tuple[str, Mapping[str, Any]]:
    """Return the daemon's epoch, and the row of the one session that is meant."""
    if not key:
        live = (await client.call("sessions", all=False))["sessions"]
        known = live or (await client.call("sessions", all=True))["sessions"]
        found = [row["key"] for row in keys.used(known) if row.get("state") != "closed"]
        if not found:
            raise BridgeError("no_such_session", "There is no session to attach to.", hint=BEGIN)
        key = str(found[-1])
    shown = await client.call("status", key=key)
    if not shown["sessions"]:
        raise BridgeError("no_such_session", f"There is no session {key!r}.")
    return str(shown["daemon"]["epoch"]), shown["sessions"][0]


async def _live(view: SessionView, events: Events, asking: Asking) -> None:
    """Show what happens, and have questions asked, until the session is closed."""
    while True:
        line = await events.next()
        await view.event(line)
        kind = line.value.get("type")
        if kind == "permission_asked":
            await asking.asked(line.value)
        elif kind == "permission_decided":
            await asking.decided(line.value)
        elif kind == "session_closed":
            return
