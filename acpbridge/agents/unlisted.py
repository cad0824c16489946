"""The registry where no router is: a child gets a key, and nobody else knows of it."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from acpbridge.agents.calls import InnerCall, InnerTurn
from acpbridge.errors import BridgeError
from acpbridge.model.keys import MAIN, SessionKey
from acpbridge.model.sessions import Outcome


class _Turn:
    def end(self, outcome: Outcome, error: Exception | None = None, text: str = "") -> None:
        pass


class _Session:
    def __init__(self, key: str) -> None:
        self.key = key

    @asynccontextmanager
    async def turn(self, _task: str, _cancel: Callable[[], None]) -> AsyncIterator[InnerTurn]:
        yield _Turn()

    async def close(self) -> None:
        pass


class Unlisted:
    """Gives keys; see `RunRegistry`."""

    async def open(self, call: InnerCall) -> _Session:
        """Give a child its key."""
        try:
            agent = SessionKey.parse(call.parent).agent
        except BridgeError:
            agent = MAIN
        return _Session(str(SessionKey.subagent(agent, uuid.uuid4())))
