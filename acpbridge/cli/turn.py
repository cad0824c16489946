"""Drives one run through the daemon: accepts, follows, asks, cancels, and ends with a status."""

import json
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import anyio
import click
from anyio.abc import TaskGroup

from acpbridge.cli import exits, moments
from acpbridge.cli.below import Below
from acpbridge.cli.interrupts import obey
from acpbridge.cli.mode import ModeWarning
from acpbridge.cli.output import command_line, error_lines, lines, on_terminal
from acpbridge.cli.questions.asking import Asking, Inbox, Terminal
from acpbridge.cli.silence import tell_when_frozen
from acpbridge.cli.terminal.screen import Screen, screen_of
from acpbridge.cli.views.formats import View, view_of
from acpbridge.cli.views.reading import why_cancelled
from acpbridge.daemon.client import DaemonClient, EventLine, Events, connect
from acpbridge.daemon.paths import Paths
from acpbridge.errors import EXIT_INTERRUPTED, EXIT_OK, BridgeError
from acpbridge.model.events import TURN_ENDS
from acpbridge.model.permission import OnPermission
from acpbridge.router.api import RunRequest
from acpbridge.transport.tasks import background

# Between two rungs of the ladder after a Ctrl-C. Seconds.
CANCEL_GRACE: Final = 2.0

# Once a cancel is through, the turn's last event is this far away at most. Seconds.
LAST_EVENT: Final = 5.0

# For words that were not written yet, on a terminal that may be stopped. Seconds.
LAST_WORDS: Final = 1.0


class Drive:
    """One run of the command.

    Args:
        paths: of the state directory.
        request: what is wanted.
        shape: how it is shown, a `--format`.
        home: the state directory as it was given.
    """

    def __init__(self, paths: Paths, request: RunRequest, shape: str, home: str | None) -> None:
        self._paths = paths
        self._request = request
        self._shape = shape
        self._home = home
        self._screen: Screen = screen_of("" if request.detached else shape)
        self._view = view_of(shape, self._screen)
        self._tasks: TaskGroup
        self._left = EXIT_INTERRUPTED
        self._receipt: Mapping[str, Any] = {}
        self._client: DaemonClient | None = None
        self._started = False
        self._denied = False
        self._interrupted = False
        self._context_lost = False
        self._scope: anyio.CancelScope | None = None

    async def run(self) -> int:
        """Run to the end and return the exit status."""
        async with (
            self._screen,
            background() as self._tasks,
            background(partial(obey, self._interrupt, self._leave)),
        ):
            with anyio.CancelScope() as self._scope:
                try:
                    return await self._connected()
                finally:
                    await self._show_rest()
        return self._left

    async def _show_rest(self) -> None:
        """Let what is only in the region that goes stay: the words of a turn that was left."""
        if self._screen.live:
            with anyio.move_on_after(LAST_WORDS, shield=True):
                await self._view.end()

    def without_context(self) -> RunRequest | None:
        """Return the run to make once more, if a person here wants it without what is lost."""
        if not self._context_lost or not on_terminal():
            return None
        question = "start anew without the earlier conversation?"
        try:
            wanted = click.confirm(question, default=False, err=True)
        except click.Abort:
            return None
        key = str(self._receipt["key"])
        if not wanted:
            return None
        return replace(self._request, session=key, continue_last=False, fresh=True)

    async def _connected(self) -> int:
        self._screen.status("connecting to the daemon")
        async with connect(self._paths, start=True) as client:
            receipt = self._receipt = await client.run(self._request)
            self._screen.status("")
            await self._tell(receipt)
            if self._request.detached:
                click.echo(receipt["key"])
                return EXIT_OK
            self._client = client
            silence = partial(
                tell_when_frozen, client, self._screen.say, receipt["key"], self._home
            )
            async with (
                background(silence),
                client.follow(receipt["key"], receipt["after"]) as events,
            ):
                return await self._follow(client, events)

    async def _tell(self, receipt: Mapping[str, Any]) -> None:
        request = self._request
        if not (request.agent or request.session or request.continue_last):
            await self._screen.say(
                f"agent: {' '.join(lines(str(receipt['agentId'])))} (the default)", dim=True
            )
        key = " ".join(lines(str(receipt["key"])))
        if request.continue_last:
            await self._screen.say(f"going on with: {key}", dim=True)
        elif self._shape == "text" and not request.detached:
            await self._screen.say(f"session: {key}", dim=True)
        for warning in receipt.get("warnings", ()):
            await self._screen.say(f"warning: {' '.join(lines(str(warning)))}", fg="yellow")

    async def _follow(self, client: DaemonClient, events: Events) -> int:
        view = self._view
        if self._request.on_permission is OnPermission.ASK and on_terminal():
            terminal = Terminal(client, self._home, self._screen, key=str(self._receipt["key"]))
            async with background(terminal.serve), self._asking_below(client, terminal):
                last = await self._to_the_end(events, view, terminal)
        else:
            inbox = Inbox(self._screen, self._home)
            async with self._asking_below(client, inbox):
                last = await self._to_the_end(events, view, inbox)
        return await self._verdict(last)

    def _asking_below(
        self, client: DaemonClient, asking: Asking
    ) -> AbstractAsyncContextManager[Any]:
        key = str(self._receipt["key"])
        return background(Below(client, key, asking, self._screen.say, self._home).serve)

    async def _to_the_end(self, events: Events, view: View, asking: Asking) -> Mapping[str, Any]:
        """Show the events of our turn up to its last one, and return that."""
        mode = None if self._shape == "json" else self._mode_warning()
        while True:
            try:
                line = await events.next()
            except BridgeError as error:
                line = self._lost(error)
            event = line.value
            if event.get("turn") not in (None, self._receipt["runId"]):
                continue
            if mode is not None:
                await mode.before(event)
            await view.event(line)
            await self._note(event, asking)
            if event.get("type") in TURN_ENDS and event.get("turn") is not None:
                await view.end()
                return event

    async def _note(self, event: Mapping[str, Any], asking: Asking) -> None:
        kind = event.get("type")
        if kind == "turn_started":
            self._started = True
        elif kind == "permission_asked":
            await asking.asked(event)
        elif kind == "permission_decided":
            self._denied = self._denied or event.get("effect") == "deny"
            await asking.decided(event)

    def _mode_warning(self) -> ModeWarning:
        assert self._client is not None
        return ModeWarning(self._client, self._receipt["key"], self._screen, self._tasks)

    def _lost(self, error: BridgeError) -> EventLine:
        """Return the end that nobody is left to tell: the daemon is gone in mid-turn."""
        if error.code == "connection_closed":
            # To run the command again would begin all anew.
            going_on = command_line(self._home, "run", "--session", str(self._receipt["key"]))
            error.hint = f"Go on with the session: {going_on}"
        value = {
            "seq": None,
            "epoch": None,
            "at": moments.now(),
            "key": self._receipt["key"],
            "turn": self._receipt["runId"],
            "type": "turn_failed",
            "error": error.to_json(),
        }
        return EventLine(json.dumps(value, separators=(",", ":")).encode(), value)

    async def _verdict(self, last: Mapping[str, Any]) -> int:
        if last["type"] == "turn_failed" and not self._interrupted:
            error = exits.error_of(last)
            self._context_lost = error.code == "resume_not_found"
            await self._fail(error)
        elif last["type"] == "turn_ended" and last.get("stopReason") != "end_turn":
            reason = " ".join(lines(str(last.get("stopReason"))))
            if not self._screen.live:  # where its summary has said so
                why = why_cancelled(last)
                await self._screen.say(f"the turn ended: {reason}{why}", fg="yellow")
        return exits.exit_code(last, denied=self._denied, interrupted=self._interrupted)

    async def _fail(self, error: BridgeError) -> None:
        for text, style in error_lines(error):
            await self._screen.say(text, **style)

    # ---- signals ----

    async def _interrupt(self) -> None:
        """Cancel and wait at the first Ctrl-C, leave at the second."""
        if self._interrupted:
            # The daemon finishes the ladder: our connection ends with us.
            self._screen.abandon()
            os._exit(EXIT_INTERRUPTED)
        self._interrupted = True
        self._tasks.start_soon(self._cancel)

    async def _cancel(self) -> None:
        if self._client is None or not self._started:
            # Nothing runs yet; leaving takes our prompt out of the queue, and nobody else's.
            self._leave()
            return
        words = "cancelling; Ctrl-C once more to leave at once"
        if self._screen.live:
            self._screen.status(words)
        else:
            await self._screen.say(f"\n{words}", fg="yellow")
        try:
            await self._client.call("cancel", key=self._receipt["key"], grace=CANCEL_GRACE)
        except BridgeError as error:
            if error.code == "connection_closed":
                return  # the turn has ended, and with it our connection
            await self._fail(error)
        await anyio.sleep(LAST_EVENT)
        self._leave()

    def _leave(self, code: int = EXIT_INTERRUPTED) -> None:
        self._left = code
        if self._scope is not None:
            self._scope.cancel()
