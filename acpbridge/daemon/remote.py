"""`RouterApi` over a connection to the daemon: the same calls, the same values.

Below is `client`. The requester that a call carries says nothing here: who calls is found by the
daemon, from the kernel.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import anyio

from acpbridge.daemon.client import DaemonClient, Events
from acpbridge.daemon.params import write_prune
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Effect
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import CancelRung, Outcome, SessionState
from acpbridge.router.api import (
    Following,
    RunReceipt,
    RunRequest,
    RunResult,
    SessionFollowing,
    Span,
)
from acpbridge.router.receipts import (
    CancelReceipt,
    KillReceipt,
    Pruned,
    PruneRequest,
    RestartReceipt,
    RestartRequest,
)
from acpbridge.router.toolcall import ToolRequest


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

    async def follow(
        self, key: str, after: int, requester: Requester, span: Span | None = None
    ) -> SessionFollowing:
        """Return a cursor; see `RouterApi.follow`."""
        del requester
        part = span or Span()
        wanted = {"since": part.since, "live": part.live, "stored": part.stored}
        return await _following(self._client.follow(key, after, **wanted))

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

    async def sessions(
        self, requester: Requester, *, everything: bool, agent: str = "", cwd: str = ""
    ) -> list[dict[str, Any]]:
        """Return rows; see `RouterApi.sessions`."""
        del requester
        value = await self._client.call("sessions", all=everything, agent=agent, cwd=cwd)
        rows: list[dict[str, Any]] = value["sessions"]
        return rows

    async def restart(self, request: RestartRequest, requester: Requester) -> RestartReceipt:
        """Give a session a new process; see `RouterApi.restart`."""
        del requester
        wanted = {"env": dict(request.env), "force": request.force, "fresh": request.fresh}
        value = await self._client.call("restart", key=request.key, **wanted)
        return RestartReceipt(
            key=SessionKey.parse(value["key"]),
            pid=value["pid"],
            was=tuple(value["was"]),
            opens=value["opens"],
            mode=value["mode"],
            context_lost=value["contextLost"],
            took_ms=value["tookMs"],
        )

    async def prune(self, request: PruneRequest, requester: Requester) -> list[Pruned]:
        """Delete sessions without a process; see `RouterApi.prune`."""
        del requester
        value = await self._client.call("prune", **write_prune(request))
        return [_pruned(row) for row in value["pruned"]]

    async def cancel(self, key: str, grace: float, requester: Requester) -> CancelReceipt:
        """End the running turn; see `RouterApi.cancel`."""
        del requester
        value = await self._client.call("cancel", key=key, grace=grace)
        return _cancel_receipt(value)

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

    async def end_unowned(self, requester: Requester) -> list[KillReceipt]:
        """End what nobody owns; see `RouterApi.end_unowned`."""
        del requester
        value = await self._client.call("kill", keys=[], grace=0, unowned=True)
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

    async def watch(self, requester: Requester, key: str = "") -> Following:
        """Return a cursor over the questions; see `RouterApi.watch`."""
        del requester
        return await _following(self._client.watch(key))

    def attend(self, key: str, requester: Requester) -> None:
        """Take note of a person; see `RouterApi.attend`."""
        del requester
        self._client.attend(key)

    async def answer(
        self,
        question: str,
        requester: Requester,
        *,
        option_id: str | None,
        effect: Effect | None,
        note: str,
        confirm: str | None = None,
    ) -> dict[str, Any]:
        """Answer a question; see `RouterApi.answer`."""
        del requester
        decision = await self._client.answer(
            question, option=option_id, effect=effect, note=note, confirm=confirm
        )
        return dict(decision)

    async def tool(self, request: ToolRequest, requester: Requester) -> dict[str, Any]:
        """Serve one call of a session tool; see `RouterApi.tool`."""
        del requester
        connection = self._client.connection
        await connection.drained()
        # Whoever does not wait any more takes the wait back: it may be long, and has its place.
        return dict(await connection.request(request.METHOD, request.write(), retract=True))

    async def grants(self, requester: Requester) -> list[dict[str, Any]]:
        """Return the grants; see `RouterApi.grants`."""
        del requester
        rows: list[dict[str, Any]] = (await self._client.call("grants"))["grants"]
        return rows

    async def revoke(self, grants: list[str], requester: Requester) -> list[dict[str, Any]]:
        """End grants; see `RouterApi.revoke`."""
        del requester
        rows: list[dict[str, Any]] = (await self._client.call("revoke", ids=grants))["revoked"]
        return rows


async def _following(entering: AbstractAsyncContextManager[Events]) -> "_Following":
    async with AsyncExitStack() as stack:
        events = await stack.enter_async_context(entering)
        return _Following(events, stack.pop_all())


class _Following:
    """A cursor whose events the daemon sends."""

    def __init__(self, events: Events, stack: AsyncExitStack) -> None:
        self._events = events
        self._stack = stack

    @property
    def newest(self) -> int:
        return self._events.newest

    async def read(self) -> list[bytes]:
        try:
            return [(await self._events.next()).raw]
        except anyio.EndOfStream:
            return []

    async def aclose(self) -> None:
        await self._stack.aclose()


def _pruned(row: Mapping[str, Any]) -> Pruned:
    return Pruned(
        key=SessionKey.parse(row["key"]),
        state=SessionState(row["state"]),
        cwd=row["cwd"],
        created_at=row["createdAt"],
        last_used_at=row["lastUsedAt"],
    )


def _cancel_receipt(value: Mapping[str, Any]) -> CancelReceipt:
    return CancelReceipt(
        key=SessionKey.parse(value["key"]),
        rung=CancelRung(value["rung"]),
        turn_ended=value["turnEnded"],
        stop_reason=value.get("stopReason"),  # of a child it is not told
        # An older daemon says nothing of children.
        children=tuple(_cancel_receipt(child) for child in value.get("children", ())),
        left=tuple(value.get("left", ())),
    )


def _kill_receipt(value: Mapping[str, Any]) -> KillReceipt:
    return KillReceipt(
        None if value["key"] is None else SessionKey.parse(value["key"]),
        tuple(value["killed"]),
        tuple(value["survivors"]),
        value["tookMs"],
    )
