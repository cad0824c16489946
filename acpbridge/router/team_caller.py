"""Calls agents for the daemon's inbox, by the one way by which runs begin.

A target gets a session of its own below the one that asks; a source goes on in its own session,
behind whatever waits there. A call has a name, and by it a run that was accepted before: after a
restart its end is looked up, and nothing is prompted twice. Below are `accepting` and the ledger.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.inbox import ChatRequest
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import Outcome
from acpbridge.router.accepting import Accepting
from acpbridge.router.api import RunReceipt, RunRequest, RunResult
from acpbridge.router.directory import Directory
from acpbridge.router.ending import Ending
from acpbridge.router.runs import Runs
from acpbridge.router.said import final_text
from acpbridge.router.services import Services
from acpbridge.router.session import Session

TOOL: Final = "ask_agent"

# Who prompts a source with what came of its work, and looks at what came of a run.
TEAM: Final = Requester(Role.SYSTEM, client_id="team")

# A session whose inbox is full is tried again so often, for so long. Seconds; and times.
BUSY_PAUSE: Final = 5.0
BUSY_TRIES: Final = 360

# A turn that was called and is not wanted any more ends within this time, or is left to those who
# end it. Seconds.
CANCEL_WAIT: Final = 15.0

# Daemons that may end one after the other before a call is heard.
MOST_TRIES: Final = 16

# Names of calls whose sessions are remembered, to be shown.
REMEMBERED: Final = 2048

GoingOut = Callable[[], Awaitable[None]]


class TeamCaller:
    """Calls agents; an `AgentCaller`.

    Args:
        directory: the sessions that there are.
        runs: knows how they end.
        services: log and clock.
        accepting: begins runs.
        ending: cancels them.
    """

    def __init__(
        self,
        directory: Directory,
        runs: Runs,
        services: Services,
        accepting: Accepting,
        ending: Ending,
    ) -> None:
        self._directory = directory
        self._runs = runs
        self._services = services
        self._accepting = accepting
        self._ending = ending
        self._places: OrderedDict[str, SessionKey] = OrderedDict()

    def place(self, name: str) -> SessionKey | None:
        """Return in which session a call of a name runs or ran, None while that is not known."""
        return self._places.get(name)

    async def call(self, agent_id: str, request: ChatRequest) -> Mapping[str, Any]:
        """Call an agent; see `AgentCaller.call`.

        The context has the `requester` of a call that somebody waits for, else the `source`
        session's key, on whose behalf the daemon calls.
        """
        for attempt in range(MOST_TRIES):
            again = f"{request.name}:{attempt}" if attempt else request.name
            receipt = await self._begun(agent_id, replace(request, name=again), request.name)
            result = await self._result(receipt.run_id)
            if not receipt.repeated or await self._heard(request, result):
                return await self._answer(agent_id, receipt, result)
        message = f"{MOST_TRIES} daemons ended, each before {agent_id} had heard a word of it."
        raise BridgeError("interrupted", message)

    async def _begun(self, agent_id: str, request: ChatRequest, call: str) -> RunReceipt:
        going_out: GoingOut | None = None
        if call:
            inbox_id = request.context["id"]
            going_out = partial(self._services.ledger.delegation_goes_out, inbox_id, call)
        if request.thread is None:
            receipt = await self._begin(agent_id, request, going_out)
        else:
            receipt = await self._go_on(request.thread, request, going_out)
        self._remember(call, receipt.key)
        return receipt

    async def _heard(self, request: ChatRequest, result: RunResult) -> bool:
        """Tell whether an agent heard a call of an earlier daemon; else it is made once more."""
        if result.outcome not in (Outcome.INTERRUPTED, Outcome.CANCELLED):
            return True
        last = await self._services.ledger.delegation_went_out(request.context["id"])
        return last == request.name

    # ---- Beginning ----

    async def _begin(
        self, agent_id: str, request: ChatRequest, going_out: GoingOut | None
    ) -> RunReceipt:
        """Have a target work in a session of its own, below the one that asks."""
        requester: Requester | None = request.context.get("requester")
        waited = requester is not None
        if requester is None:
            # The turn that asked, and the process it ran in, may be long gone.
            key = SessionKey.parse(request.context["source"])
            requester = Requester(Role.AGENT, key, client_id=TEAM.client_id, external=True)
        source = self._source(requester.session)
        run = RunRequest(
            content=({"type": "text", "text": request.message},),
            agent=agent_id,
            caller_cwd=source.record.cwd,
            env=source.env,
            detached=not waited,
            independent=not waited,
            idempotency_key=request.name,
            correlation_id=request.context.get("id", ""),
            provenance=_provenance(source.key, request),
            going_out=going_out,
        )
        return await self._accepting.accept(run, requester)

    async def _go_on(
        self, thread: str, request: ChatRequest, going_out: GoingOut | None
    ) -> RunReceipt:
        """Prompt a source in its own session, behind whatever waits there."""
        session = self._source(SessionKey.parse(thread))
        run = RunRequest(
            content=({"type": "text", "text": request.message},),
            session=str(session.key),
            env=session.env,
            detached=True,
            idempotency_key=request.name,
            correlation_id=request.context.get("id", ""),
            provenance=_provenance(session.key, request),
            going_out=going_out,
        )
        for _ in range(BUSY_TRIES):
            try:
                return await self._accepting.accept(run, TEAM)
            except BridgeError as error:
                if error.code != "busy":
                    raise
            await self._services.sleep(BUSY_PAUSE)
        raise BridgeError("busy", f"The inbox of {session.key} was full for too long.")

    def _source(self, key: SessionKey | None) -> Session:
        session = None if key is None else self._directory.get(key)
        if session is None:
            raise BridgeError("no_such_session", f"The session {key} that asked is gone.")
        return session

    def _remember(self, name: str, key: SessionKey) -> None:
        self._places[name] = key
        while len(self._places) > REMEMBERED:
            self._places.popitem(last=False)

    # ---- Ending ----

    async def _result(self, run_id: str) -> RunResult:
        try:
            return await self._runs.result(run_id, TEAM)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), anyio.move_on_after(CANCEL_WAIT):
                await self._cancel(run_id)
            raise

    async def _answer(
        self, agent_id: str, receipt: RunReceipt, result: RunResult
    ) -> Mapping[str, Any]:
        if result.outcome is not Outcome.COMPLETED:
            raise _failure(agent_id, result)
        session = self._source(receipt.key)
        await session.open_log()
        text = await final_text(self._services.log, receipt.key, receipt.run_id)
        return {"response": text, "sessionKey": str(receipt.key), "runId": receipt.run_id}

    async def _cancel(self, run_id: str) -> None:
        """Cancel a turn with all that it has asked for."""
        known = self._runs.turn(run_id)
        if known is None or known[1].done.is_set():
            return
        self._ending.vanished([known])
        await known[1].done.wait()


def _provenance(source: SessionKey, request: ChatRequest) -> dict[str, Any]:
    delegation = request.context.get("id")
    return {
        "kind": "inter_session",
        "sourceTool": TOOL,
        "sourceSessionKey": str(source),
        **({"delegationId": delegation} if delegation else {}),
    }


def _failure(agent_id: str, result: RunResult) -> BridgeError:
    """Return why there is no answer."""
    if result.error is not None:
        return BridgeError.from_json(result.error)
    if result.outcome is Outcome.CANCELLED:
        return BridgeError("request_cancelled", f"The turn of {agent_id} was cancelled.")
    if result.outcome is Outcome.INTERRUPTED:
        message = f"The daemon ended while {agent_id} worked on it."
        return BridgeError("interrupted", message)
    return BridgeError("turn_failed", f"The turn of {agent_id} ended: {result.stop_reason}.")
