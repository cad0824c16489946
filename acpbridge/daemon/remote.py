"""`RouterApi` over a connection to the daemon: the same calls, the same values.

Below is `client`. The requester that a call carries says nothing here: who calls is found by the
daemon, from the kernel.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from acpbridge.daemon.client import DaemonClient, Events
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Effect
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import CancelRung, Outcome
from acpbridge.router.api import (
    CancelReceipt,
    Following,
    KillReceipt,
    RunReceipt,
    RunRequest,
    RunResult,
)


class RemoteRouter:
    """The daemon's router."""

    def __init__(self, client: DaemonClient) -> None:
        self._client = client

    async def run(self, request: RunRequest, requester: Requester) -> RunReceipt:
        """Accept one turn; see `RouterApi.run`."""
        del requester
        value = await self._client.run(request)
        return RunReceipt(
            key=SessionKey.parse(value["key"]),
            run_id=value["runId"],
            after=value["after"],
            agent=value["agentId"],
            warnings=tuple(value["warnings"]),
        )

    async def follow(self, key: str, after: int, requester: Requester) -> Following:
        """Return a cursor; see `RouterApi.follow`."""
        del requester
        async with AsyncExitStack() as stack:
            events = await stack.enter_async_context(self._client.follow(key, after))
            return _Following(events, stack.pop_all())

    async def wait(self, run_id: str, requester: Requester) -> RunResult:
        """Wait for the end of a run; see `RouterApi.wait`."""
        del requester
        value = await self._client.call("wait", runId=run_id)
        outcome = Outcome(value["outcome"])
        return RunResult(value["runId"], outcome, value["stopReason"], value["error"])

    async def status(self, key: str, requester: Requester) -> dict[str, Any]:
        """Return the truth, now; see `RouterApi.status`."""
        del requester
        status: dict[str, Any] = await self._client.call("status", key=key)
        return status

    async def sessions(self, requester: Requester, *, everything: bool) -> list[dict[str, Any]]:
        """Return rows; see `RouterApi.sessions`."""
        del requester
        value = await self._client.call("sessions", all=everything)
        rows: list[dict[str, Any]] = value["sessions"]
        return rows

    async def cancel(self, key: str, grace: float, requester: Requester) -> CancelReceipt:
        """End the running turn; see `RouterApi.cancel`."""
        del requester
        value = await self._client.call("cancel", key=key, grace=grace)
        key_, rung = SessionKey.parse(value["key"]), CancelRung(value["rung"])
        return CancelReceipt(key_, rung, value["turnEnded"], value["stopReason"])

    async def close(self, key: str, requester: Requester) -> SessionKey:
        """End a session politely; see `RouterApi.close`."""
        del requester
        return SessionKey.parse((await self._client.call("close", key=key))["key"])

    async def kill(
        self, keys: list[str], grace: float | None, requester: Requester
    ) -> list[KillReceipt]:
        """End sessions with all below them; see `RouterApi.kill`."""
        del requester
        value = await self._client.call("kill", keys=keys, grace=grace)
        return [_kill_receipt(result) for result in value["results"]]

    async def matching(self, agent: str, requester: Requester) -> list[str]:
        """Return keys of live sessions; see `RouterApi.matching`."""
        del requester
        keys: list[str] = (await self._client.call("matching", agent=agent))["keys"]
        return keys

    async def questions(self, requester: Requester) -> list[dict[str, Any]]:
        """Return the open questions; see `RouterApi.questions`."""
        del requester
        rows: list[dict[str, Any]] = (await self._client.call("questions"))["permissions"]
        return rows

    async def answer(
        self,
        question: str,
        requester: Requester,
        *,
        option_id: str | None,
        effect: Effect | None,
        note: str,
    ) -> dict[str, Any]:
        """Answer a question; see `RouterApi.answer`."""
        del requester
        return dict(await self._client.answer(question, option=option_id, effect=effect, note=note))


class _Following:
    """A cursor whose events the daemon sends."""

    def __init__(self, events: Events, stack: AsyncExitStack) -> None:
        self._events = events
        self._stack = stack

    async def read(self) -> list[bytes]:
        return [(await self._events.next()).raw]

    async def aclose(self) -> None:
        await self._stack.aclose()


def _kill_receipt(value: Mapping[str, Any]) -> KillReceipt:
    return KillReceipt(
        SessionKey.parse(value["key"]),
        tuple(value["killed"]),
        tuple(value["survivors"]),
        value["tookMs"],
    )
