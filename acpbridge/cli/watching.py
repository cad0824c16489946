"""`permissions --watch`: the questions of all sessions as they come up, asked or printed.

Above is the command; below are the daemon's feed of questions and the one way of asking.
"""

import sys
from functools import partial

import anyio

from acpbridge.cli import moments
from acpbridge.cli.interrupts import obey
from acpbridge.cli.output import on_terminal, say, terminal_width
from acpbridge.cli.questions.alert import alert
from acpbridge.cli.questions.asking import Terminal, columns
from acpbridge.cli.questions.question import render
from acpbridge.cli.terminal.screen import screen_of
from acpbridge.cli.terminal.wrapping import marked
from acpbridge.cli.terminal.writer import Writer
from acpbridge.cli.views.reading import decided
from acpbridge.daemon.client import DaemonClient, EventLine, Events, connect
from acpbridge.daemon.paths import Paths
from acpbridge.errors import EXIT_OK
from acpbridge.transport.tasks import background


class Watch:
    """One run of the command.

    Args:
        paths: of the state directory.
        home: the state directory as it was given.
        as_json: whether lines of JSON are printed, and nothing is asked.
    """

    def __init__(self, paths: Paths, home: str | None, *, as_json: bool) -> None:
        self._paths = paths
        self._home = home
        self._as_json = as_json

    async def run(self) -> int:
        """Run until Ctrl-C.

        Raises:
            BridgeError: `connection_closed`, when the daemon is gone.
        """
        code = EXIT_OK
        with anyio.CancelScope() as scope:

            async def interrupted() -> None:
                scope.cancel()

            def leave(status: int) -> None:
                nonlocal code
                code = status
                scope.cancel()

            async with (
                background(partial(obey, interrupted, leave)),
                connect(self._paths, start=True) as client,
                client.watch() as events,
            ):
                asks = not self._as_json and on_terminal() and sys.stdout.isatty()
                await (self._ask(client, events) if asks else self._print(client, events))
        return code

    async def _ask(self, client: DaemonClient, events: Events) -> None:
        async with screen_of("text") as screen:
            terminal = Terminal(client, self._home, screen)
            async with background(terminal.serve):
                await screen.say("waiting for questions; Ctrl-C ends it", dim=True)
                while True:
                    event = (await events.next()).value
                    kind = event.get("type")
                    if kind == "open_questions":
                        await terminal.keep([str(name) for name in event.get("ids", ())])
                    elif kind == "permission_asked":
                        await terminal.asked(event)
                    elif kind == "permission_decided":
                        await terminal.decided(event)
                        await screen.say(marked(decided(event), columns() - 1))

    async def _print(self, client: DaemonClient, events: Events) -> None:
        out = Writer(sys.stdout.fileno())
        how = str(client.hello.get("notify", "bell"))
        if not self._as_json:
            say("waiting for questions; Ctrl-C ends it")
        while True:
            line = await events.next()
            if line.value.get("type") == "permission_asked":
                alert(how, line.value)
            await out.write(line.raw + b"\n" if self._as_json else _text(line).encode())


def _text(line: EventLine) -> str:
    if line.value.get("type") == "permission_asked":
        return render(line.value, now=moments.now(), width=terminal_width()) + "\n"
    if line.value.get("type") == "permission_decided":
        return marked(decided(line.value), terminal_width()) + "\n"
    return ""
