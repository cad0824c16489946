"""Roles that run inside a run: each has a session like any other, and an agent's process behind it.

So a role has a key, a lineage, a state, a log and one outcome for each of its runs, and it can be
cancelled and killed; to do that the agent is told, and the end of the agent is the end of all its
roles. They hold no place of a process, and their nesting is bounded by the chain of calls, not by
`limits.maxDepth`: a role is as deep as the session that it runs in.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from acpbridge.errors import TABLE, BridgeError
from acpbridge.model.agents import UNKNOWN_FACTS, AgentDefinition, RuntimeKind
from acpbridge.model.display import clip
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import Lineage, Outcome, SessionRecord, SessionState
from acpbridge.model.settings import Settings
from acpbridge.router.api import RunReceipt, RunRequest, RunResult
from acpbridge.router.authorize import unreachable
from acpbridge.router.directory import Directory
from acpbridge.router.inner_requests import INNER, InnerRequest, InnerWait
from acpbridge.router.places import Holder, Places
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.runtimes.reported import Report, ReportedRuntime, ReportedTurn
from acpbridge.transport.tasks import background

Accept = Callable[[RunRequest, Requester], Awaitable[RunReceipt]]
MakeSession = Callable[[SessionRecord, AgentDefinition, Services], Session]

# Roles of one agent that are open at once: the chain of calls is short, and each caller has few.
MOST_OPEN: Final = 100

# Roles that are opened in one turn: each is a record, and a loop may run wild (R15).
MOST_IN_A_TURN: Final = 1000

# Of why a role has failed: it is stored with the run. Characters.
ERROR_LIMIT: Final = 2000

_STOP_REASONS: Final = {Outcome.COMPLETED: "end_turn", Outcome.CANCELLED: "cancelled"}


class _NoPlaces(Places):
    """Places for what has no process: there is always one, and nobody gives way."""

    def __init__(self) -> None:
        super().__init__(lambda: 1_000_000)

    def holds(self, holder: Holder | None) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class _Inner:
    """A role: who does its work, and its session."""

    owner: SessionKey
    session: Session
    runtime: ReportedRuntime


class InnerRuns:
    """Takes in the roles of agents.

    Args:
        directory: the sessions that there are.
        services: what sessions work with.
        accept: accepts a run; the one way in which one begins.
        result: waits for the end of a run.
        close: ends a session politely.
        make: makes a session of a record.
    """

    def __init__(
        self,
        directory: Directory,
        services: Services,
        *,
        accept: Accept,
        result: Callable[[str, Requester], Awaitable[RunResult]],
        close: Callable[[str, Requester], Awaitable[SessionKey]],
        make: MakeSession,
    ) -> None:
        self._directory = directory
        self._services = replace(services, places=_NoPlaces(), idle_ttl=lambda: float("inf"))
        self._accept = accept
        self._result = result
        self._close = close
        self._make = make
        self._known: dict[SessionKey, _Inner] = {}
        # By agent: in which of its turns how many were opened.
        self._opened: dict[SessionKey, tuple[str, int]] = {}

    async def serve(self, request: InnerRequest, requester: Requester) -> dict[str, Any]:
        """Serve `tool/inner`.

        Raises:
            BridgeError: `permission_denied` for anybody but an agent that runs here;
                `no_such_session`; `session_closed`, `subagent_policy`, `busy`.
        """
        _check(requester)
        if request.action == "open":
            return await self._open(request, requester)
        inner = self._of(request.session_key, requester)
        match request.action:
            case "turn":
                return await self._turn(inner, request, requester)
            case "end":
                return await self._end(inner, request, requester)
            case _:
                return await self._closed(inner, requester)

    def _of(self, key: str, requester: Requester) -> _Inner:
        """Return a role of the agent that asks; of another's nobody says that it is there."""
        inner = self._known.get(SessionKey.parse(key))
        if inner is None or inner.owner != requester.session:
            raise unreachable()
        return inner

    async def _open(self, request: InnerRequest, requester: Requester) -> dict[str, Any]:
        owner = self._directory.asking(requester)
        assert owner is not None  # `serve` has refused whoever is no agent
        if owner.turn is None:
            message = f"No turn of {owner.key} runs: a role runs inside one."
            raise BridgeError("subagent_policy", message, hint="Call it while you serve a prompt.")
        self._count(owner.key, owner.turn.run_id)
        above = owner
        if request.parent_key not in ("", str(owner.key)):
            above = self._of(request.parent_key, requester).session
        if above.closing:
            raise BridgeError("session_closed", f"The session {above.key} is closed.")
        lineage = above.record.lineage
        record = SessionRecord(
            key=SessionKey.subagent(owner.key.agent, self._services.ids.uuid4()),
            state=SessionState.IDLE,
            cwd=owner.record.cwd,
            created_at=self._services.now(),
            runtime=INNER,
            lineage=Lineage(above.key, lineage.root or above.key, lineage.depth),
            one_shot=False,
            auth_source=owner.record.auth_source,
            definition={"id": owner.key.agent, "role": request.role},
            label=request.path or request.role,
        )
        inner = self._new(record, owner)
        try:
            await self._services.log.open(record.key)
            await self._services.ledger.put_session(record)
        except BaseException:
            self._directory.drop(inner.session)
            del self._known[record.key]
            raise
        return {"sessionKey": str(record.key)}

    def _count(self, owner: SessionKey, run_id: str) -> None:
        """Count a role that is opened, or refuse it."""
        self._known = {k: i for k, i in self._known.items() if not i.session.closed}
        self._opened = {k: o for k, o in self._opened.items() if self._directory.get(k)}
        among = sum(inner.owner == owner for inner in self._known.values())
        turn, before = self._opened.get(owner, ("", 0))
        before = before if turn == run_id else 0
        if among >= MOST_OPEN or before >= MOST_IN_A_TURN:
            message = (
                f"{among} roles are open, and this turn has opened {before}: that is the most."
            )
            hint = f"End some; {MOST_OPEN} may be open, {MOST_IN_A_TURN} be opened in a turn."
            raise BridgeError("capacity", message, hint=hint)
        self._opened[owner] = (run_id, before + 1)

    def _new(self, record: SessionRecord, owner: Session) -> _Inner:
        runtime = ReportedRuntime()
        definition = replace(
            owner.definition,
            kind=RuntimeKind.PYTHON,
            settings=Settings(),
            mcp_servers=(),
            mode=None,
            session_tools=False,
            facts=UNKNOWN_FACTS,
        )
        services = replace(self._services, runtime=lambda _: runtime)
        session = self._make(record, definition, services)
        runtime.running = lambda: "" if session.turn is None else session.turn.run_id
        self._directory.add(session)
        inner = self._known[record.key] = _Inner(owner.key, session, runtime)
        return inner

    async def _turn(
        self, inner: _Inner, request: InnerRequest, requester: Requester
    ) -> dict[str, Any]:
        inner.session.check_open()
        if inner.runtime.turn is not None and not inner.runtime.turn.reported.is_set():
            raise BridgeError("busy", f"A turn of {inner.session.key} runs already.")
        turn = inner.runtime.turn = ReportedTurn()
        content = ({"type": "text", "text": request.task},)
        key = str(inner.session.key)
        try:
            receipt = await self._accept(
                # An agent calls over connections that come and go: it ends with its caller's turn.
                RunRequest(content, session=key, one_shot=False, detached=True),
                requester,
            )
        except BaseException:
            inner.runtime.turn = None
            raise
        # The session's task has not come to it yet: nothing was awaited since it was submitted.
        turn.run_id = receipt.run_id
        return {"runId": receipt.run_id}

    async def wait(self, request: InnerWait, requester: Requester) -> dict[str, Any]:
        """Serve `tool/inner/wait`: return once a turn is unwanted, or over.

        Raises:
            BridgeError: as `serve`.
        """
        _check(requester)
        turn = self._of(request.session_key, requester).runtime.turn
        if turn is None or turn.run_id != request.run_id:
            return {"unwanted": False}
        async with background(partial(self._note_end, turn, requester)):
            await turn.unwanted.wait()
        return {"unwanted": not turn.reported.is_set()}

    async def _note_end(self, turn: ReportedTurn, requester: Requester) -> None:
        """Have a turn unwanted that has come to its end, however that came."""
        await self._result(turn.run_id, requester)
        turn.unwanted.set()

    async def _end(
        self, inner: _Inner, request: InnerRequest, requester: Requester
    ) -> dict[str, Any]:
        """Take a report, and return when the outcome is on record: what follows changes nothing."""
        turn = inner.runtime.turn
        if turn is None or turn.run_id != request.run_id:
            message = f"No run {request.run_id!r} of that role is under way."
            raise BridgeError("no_such_session", message)
        error = None
        if request.outcome not in _STOP_REASONS:
            code = request.error_code if request.error_code in TABLE else "turn_failed"
            why = clip(request.error, ERROR_LIMIT) or "The role has failed."
            error = BridgeError(code, why)
        turn.end(Report(_STOP_REASONS.get(request.outcome, ""), request.text, error))
        await self._result(request.run_id, requester)
        return {}

    async def _closed(self, inner: _Inner, requester: Requester) -> dict[str, Any]:
        if not inner.session.closing:
            await self._close(str(inner.session.key), requester)
        self._known.pop(inner.session.key, None)
        return {}


def _check(requester: Requester) -> None:
    if requester.role is not Role.AGENT or requester.external:
        raise BridgeError("permission_denied", "Only an agent that runs here has roles.")
