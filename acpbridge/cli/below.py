"""The questions of what a session has started, asked where somebody follows that session.

A session that an agent has started asks the same people as the session of that agent: whoever
follows the one at the top is asked for all below it. Above are `run` and `attach`; below are the
daemon's feed of questions and the one way of asking.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from acpbridge.cli.output import command_line, lines
from acpbridge.cli.questions.asking import Asking, columns
from acpbridge.cli.terminal.wrapping import marked
from acpbridge.cli.views.reading import decided
from acpbridge.daemon.client import DaemonClient
from acpbridge.errors import BridgeError

# What asks people; an agent that follows its children is no one to ask.
_PERSON: Final = "operator"


class Below:
    """Asks what is asked below one session; what that session asks itself comes by its log.

    Args:
        client: of the daemon.
        key: of the session, in full.
        asking: asks, or says where a question waits.
        say: says a line beside.
        home: the state directory as it was given.
    """

    def __init__(
        self,
        client: DaemonClient,
        key: str,
        asking: Asking,
        say: Callable[[str], Awaitable[None]],
        home: str | None,
    ) -> None:
        self._client = client
        self._key = key
        self._asking = asking
        self._say = say
        self._home = home
        self._open: set[str] = set()

    async def serve(self) -> None:
        """Have them asked until cancelled, or until the daemon is gone."""
        if self._client.hello.get("role") != _PERSON:
            return
        try:
            async with self._client.watch(self._key) as events:
                while True:
                    await self._take((await events.next()).value)
        except BridgeError as error:
            if error.code != "connection_closed":  # which the session's own log tells
                how = command_line(self._home, "permissions", "--watch")
                why = " ".join(lines(error.message))
                await self._say(f"what its sub-agents ask is not asked here ({why}); see: {how}")

    async def _take(self, event: Mapping[str, Any]) -> None:
        kind, name = event.get("type"), str(event.get("id"))
        if kind == "open_questions":
            # Some of what came since may have been missed.
            for gone in self._open - {str(one) for one in event.get("ids", ())}:
                self._open.discard(gone)
                known = {"id": gone, "effect": "decided", "reason": "elsewhere"}
                await self._asking.decided(known)
        elif event.get("key") == self._key:
            return
        elif kind == "permission_asked":
            self._open.add(name)
            await self._asking.asked(event)
        elif kind == "permission_decided":
            self._open.discard(name)
            await self._asking.decided(event)
            what = f"{decided(event)} for {' '.join(lines(str(event.get('key'))))}"
            await self._say(marked(what, columns() - 1))
