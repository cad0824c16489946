"""The router: finds the session, asks the gate, and hands the work over. It holds no queue itself.

Every face calls it through `RouterApi`. Below are the sessions, the ledger, the log and the broker;
what the kernel knows of processes comes through `Inspector`.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

import anyio
import anyio.to_thread

from acpbridge.config.environment import auth_source, child_environment
from acpbridge.config.snapshot import Config
from acpbridge.controller.census import ProcessInfo
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.events import Fact
from acpbridge.model.keys import AgentPath, SessionKey
from acpbridge.model.messages import PromptRequest
from acpbridge.model.permission import Decision, Effect, OnPermission, PermissionRequest, Question
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import (
    CloseReason,
    Lineage,
    Outcome,
    RunRecord,
    SessionRecord,
    SessionState,
)
from acpbridge.permissions.audit import Audit
from acpbridge.router import routes, view
from acpbridge.router.api import (
    CancelReceipt,
    Following,
    KillReceipt,
    RunReceipt,
    RunRequest,
    RunResult,
)
from acpbridge.router.authorize import Action, Target, authorize, may
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.turns import Turn
from acpbridge.runtimes.base import SessionSpec
from acpbridge.transport.tasks import background

# The grace of the ladder for a turn whose client has vanished. Seconds.
VANISHED_GRACE: Final = 2.0


class Inspector(Protocol):
    """What really runs, from the kernel."""

    @property
    def keeper_pid(self) -> int:
        """Of the keeper."""
        ...

    async def processes(self, name: str) -> list[ProcessInfo]:
        """Return the whole tree of one session."""
        ...

    async def alive(self, processes: list[ProcessInfo]) -> list[int]:
        """Return the pids of those that still live."""
        ...


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the router finds itself.

    Attributes:
        daemon: what `status` says of the daemon.
        config: the configuration in force.
        default_agent: which agent runs where none is named and none is configured, given the
            caller's environment.
        learn: told of a caller's environment, so that its secrets are known to redaction.
        notices: what an operator should know.
    """

    daemon: view.DaemonInfo
    config: Callable[[], Config]
    default_agent: Callable[[Mapping[str, str], str], AgentDefinition]
    learn: Callable[[Mapping[str, str]], None]
    notices: Callable[[], list[str]]


class Router:
    """The service; use it as an async context manager."""

    def __init__(
        self, services: Services, inspector: Inspector, audit: Audit, setting: Setting
    ) -> None:
        self._services = services
        self._inspector = inspector
        self._audit = audit
        self._setting = setting
        self._sessions: dict[SessionKey, Session] = {}
        self._runs: dict[str, tuple[Session, Turn]] = {}
        self._stopping = False

    async def __aenter__(self) -> Self:
        for record in await self._services.ledger.sessions():
            self._sessions[record.key] = self._session(record, self._definition_of(record))
        async with AsyncExitStack() as stack:
            self._tasks = await stack.enter_async_context(background())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    # ---- Runs ----

    async def run(self, request: RunRequest, requester: Requester) -> RunReceipt:
        """Accept one turn; see `RouterApi.run`."""
        if self._stopping:
            raise BridgeError("daemon_stopping", "The daemon is stopping.")
        if request.on_permission is OnPermission.ALLOW:
            authorize(Action.ALLOW_BY_RULE, requester, Target())
        earlier = await self._same_run(request.idempotency_key)
        if earlier is not None:
            return earlier
        self._setting.learn(request.env)
        if request.session or request.continue_last:
            session = self._known(request, requester)
        else:
            session = await self._open_record(request, requester)
        session.check_open()
        session.env = request.env
        return await self._accept(session, request, requester)

    async def _same_run(self, idempotency_key: str) -> RunReceipt | None:
        if not idempotency_key:
            return None
        run = await self._services.ledger.run_by_idempotency(idempotency_key)
        if run is None:
            return None
        return RunReceipt(run.session, run.run_id, 0, str(run.session.agent))

    def _known(self, request: RunRequest, requester: Requester) -> Session:
        if request.session:
            return self._find(request.session, requester, Action.PROMPT)
        here = request.cwd or request.caller_cwd
        seen = [s for s in self._sessions.values() if self._may(Action.PROMPT, requester, s.key)]
        found = [s for s in seen if s.record.cwd == here and not s.closed]
        if not found:
            raise BridgeError("no_such_session", f"There is no session to go on with in {here}.")
        return max(found, key=lambda s: s.record.created_at)

    async def _open_record(self, request: RunRequest, requester: Requester) -> Session:
        authorize(Action.RUN, requester, Target())
        definition = self._choose_agent(request)
        lineage = self._lineage(requester)
        cwd = request.cwd or definition.workspace or request.caller_cwd
        if not Path(cwd).is_absolute() or not await anyio.Path(cwd).is_dir():
            raise BridgeError("usage", f"{cwd!r} is not a directory.", hint="Give one with --cwd.")
        python = definition.kind is RuntimeKind.PYTHON
        make = SessionKey.subagent if python else SessionKey.acp
        record = SessionRecord(
            key=make(definition.id, self._services.ids.uuid4()),
            state=SessionState.IDLE,
            cwd=cwd,
            created_at=self._services.now(),
            runtime=definition.kind,
            lineage=lineage,
            one_shot=request.one_shot,
            auth_source=auth_source(definition, request.env),
            definition={"id": definition.id, "revision": self._setting.config().revision},
        )
        await self._services.ledger.put_session(record)
        session = self._sessions[record.key] = self._session(record, definition)
        return session

    def _choose_agent(self, request: RunRequest) -> AgentDefinition:
        config = self._setting.config()
        if request.agent:
            return routes.find_agent(request.agent, config)
        cwd = request.cwd or request.caller_cwd
        return config.default or self._setting.default_agent(request.env, cwd)

    def _lineage(self, requester: Requester) -> Lineage:
        """Return where a new session belongs; an agent's are its children, bounded."""
        if requester.role is not Role.AGENT or requester.session is None:
            return Lineage()
        parent = self._sessions.get(requester.session)
        if parent is None or parent.closing:
            raise BridgeError("session_closed", "The session that asks is being ended.")
        limits = self._setting.config().limits
        depth = parent.record.lineage.depth + 1
        if depth > limits.max_depth:
            message = f"The depth would be {depth}; limits.maxDepth is {limits.max_depth}."
            raise BridgeError("subagent_policy", message)
        children = [s for s in self._sessions.values() if s.record.lineage.parent == parent.key]
        active = sum(s.live or bool(len(s.inbox)) for s in children)
        if active >= limits.max_children_per_session:
            bound = limits.max_children_per_session
            message = f"{active} children are active; limits.maxChildrenPerSession is {bound}."
            raise BridgeError("subagent_policy", message)
        root = parent.record.lineage.root or parent.key
        return Lineage(parent.key, root, depth)

    async def _accept(
        self, session: Session, request: RunRequest, requester: Requester
    ) -> RunReceipt:
        run_id = str(self._services.ids.uuid4())
        prompt = PromptRequest(
            requester=requester,
            key=session.key,
            content=request.content,
            correlation_id=request.correlation_id or run_id,
            idempotency_key=request.idempotency_key,
            on_permission=request.on_permission,
            timeout=request.timeout,
            detached=request.detached,
        )
        turn = Turn(run_id, prompt, self._services.now())
        record = RunRecord(
            run_id=run_id,
            session=session.key,
            requested_by=requester.label(),
            accepted_at=turn.accepted_at,
            correlation_id=prompt.correlation_id,
            idempotency_key=request.idempotency_key,
        )
        after = await self._services.log.open(session.key)
        await self._services.ledger.put_run(record)
        after = self._services.log.last_seq(session.key)
        session.check_open()  # again: somebody else may have filled or ended it meanwhile
        self._runs = {i: known for i, known in self._runs.items() if not known[1].done.is_set()}
        self._runs[run_id] = (session, turn)
        if session.submit(turn):
            self._tasks.start_soon(session.serve, name=f"session {session.key}")
        live = [s for s in self._sessions.values() if s.live or s is session]
        warnings = tuple(
            warning for warning in view.shared_directories(live) if str(session.key) in warning
        )
        return RunReceipt(session.key, run_id, after, str(session.key.agent), warnings)

    async def follow(self, key: str, after: int, requester: Requester) -> Following:
        """Return a cursor; see `RouterApi.follow`."""
        session = self._find(key, requester, Action.SEE)
        await self._services.log.open(session.key)
        return self._services.log.follow(session.key, after)

    async def wait(self, run_id: str, requester: Requester) -> RunResult:
        """Wait for the end of a run; see `RouterApi.wait`."""
        known = self._runs.get(run_id)
        if known is not None:
            self._authorize(Action.SEE, requester, known[0].key)
            await known[1].done.wait()
        record = await self._services.ledger.run(run_id)
        if record is None or record.outcome is None:
            raise BridgeError("no_such_session", f"There is no run {run_id!r}.")
        self._authorize(Action.SEE, requester, record.session)
        return RunResult(run_id, Outcome(record.outcome), record.stop_reason, record.error)

    async def vanished(self, client_id: str) -> None:
        """Cancel what a client that is gone had asked for, but for its detached runs."""
        for session, turn in list(self._runs.values()):
            request = turn.request
            if request.requester.client_id != client_id or turn.done.is_set() or request.detached:
                continue
            await session.cancel_turn(turn.run_id, VANISHED_GRACE)

    # ---- Looking ----

    async def status(self, key: str, requester: Requester) -> dict[str, Any]:
        """Return the truth, now; see `RouterApi.status`."""
        if key:
            shown = [self._find(key, requester, Action.SEE)]
        else:
            shown = [s for s in self._visible(requester) if s.live]
        pending = self._pending()
        rows = []
        for session in shown:
            processes = await self._inspector.processes(str(session.key))
            base = view.row(session, pending.get(session.key, 0))
            rows.append(view.with_processes(base, processes))
        warnings = [*self._setting.notices(), *self._setting.config().warnings]
        live = [s for s in self._visible(requester) if s.live]
        return {
            "daemon": self._setting.daemon.to_json(self._inspector.keeper_pid),
            "sessions": rows,
            "unowned": [],
            "pendingPermissions": sum(pending.get(s.key, 0) for s in self._visible(requester)),
            "warnings": [*warnings, *view.shared_directories(live)],
            "observedAt": self._services.now(),
        }

    async def sessions(self, requester: Requester, *, everything: bool) -> list[dict[str, Any]]:
        """Return rows, the newest last; see `RouterApi.sessions`."""
        pending = self._pending()
        seen = [s for s in self._visible(requester) if everything or s.live]
        seen.sort(key=lambda s: s.record.created_at)
        return [view.row(s, pending.get(s.key, 0)) for s in seen]

    async def matching(self, agent: str, requester: Requester) -> list[str]:
        """Return keys of live sessions; see `RouterApi.matching`."""
        live = [s for s in self._visible(requester) if s.live]
        return [str(s.key) for s in live if agent in ("", str(s.key.agent))]

    def _visible(self, requester: Requester) -> list[Session]:
        return [s for s in self._sessions.values() if self._may(Action.SEE, requester, s.key)]

    def _pending(self) -> dict[SessionKey, int]:
        out: dict[SessionKey, int] = {}
        for question in self._services.broker.questions():
            key = question.request.session
            out[key] = out.get(key, 0) + 1
        return out

    # ---- Ending ----

    async def cancel(self, key: str, grace: float, requester: Requester) -> CancelReceipt:
        """End the running turn; see `RouterApi.cancel`."""
        session = self._find(key, requester, Action.CANCEL)
        rung, ended, stop_reason = await session.cancel(grace)
        await self._note("cancel", session.key, requester, rung=rung, ended=ended)
        return CancelReceipt(session.key, rung, ended, stop_reason)

    async def close(self, key: str, requester: Requester) -> SessionKey:
        """End a session politely, its children first; see `RouterApi.close`."""
        session = self._find(key, requester, Action.CLOSE)
        receipts = await self._end([session], CloseReason.CLOSED, None)
        await self._note("close", session.key, requester)
        if any(receipt.survivors for receipt in receipts):
            raise BridgeError("survivors", f"Processes of {session.key} are left.")
        return session.key

    async def kill(
        self, keys: list[str], grace: float | None, requester: Requester
    ) -> list[KillReceipt]:
        """End sessions with all below them; see `RouterApi.kill`."""
        targets = [self._find(key, requester, Action.KILL) for key in keys]
        for session in targets:
            await self._note("kill", session.key, requester, grace=grace)
        return await self._end(targets, CloseReason.KILLED, grace)

    async def _end(
        self, targets: list[Session], reason: CloseReason, grace: float | None
    ) -> list[KillReceipt]:
        parents = self._parents()
        reasons = dict.fromkeys((s.key for s in targets), reason)
        for target in targets:
            for below in routes.descendants(target.key, parents):
                if not self._sessions[below].closed:
                    reasons.setdefault(below, CloseReason.PARENT)
        # The whole lineage is closing before the first signal, so that nothing is spawned under it.
        for key in reasons:
            self._sessions[key].mark_ending()
        receipts: dict[SessionKey, KillReceipt] = {}

        async def end_one(key: SessionKey, why: CloseReason) -> None:
            receipts[key] = await self._end_one(self._sessions[key], why, grace)

        async with anyio.create_task_group() as tasks:
            for key, why in reasons.items():
                tasks.start_soon(end_one, key, why)
        return [receipts[key] for key in reasons]

    async def _end_one(
        self, session: Session, reason: CloseReason, grace: float | None
    ) -> KillReceipt:
        began = time.monotonic()
        await self._services.log.open(session.key)
        before = await self._inspector.processes(str(session.key))
        left = await session.end(reason, grace)
        # What was born after the look above is in the shim's own report.
        alive = sorted({*left, *await self._inspector.alive(before)})
        killed = tuple(process.pid for process in before if process.pid not in alive)
        took = round((time.monotonic() - began) * 1000)
        return KillReceipt(session.key, killed, tuple(alive), took)

    async def stop(self) -> None:
        """Refuse new work, cancel turns and questions, and end every tree, side by side."""
        self._stopping = True
        self._services.broker.stop()
        live = [s for s in self._sessions.values() if s.live or len(s.inbox)]
        for session in live:
            session.mark_ending()
        async with anyio.create_task_group() as tasks:
            for session in live:
                tasks.start_soon(session.end, None, None)

    # ---- Permissions ----

    async def questions(self, requester: Requester) -> list[dict[str, Any]]:
        """Return the open questions; see `RouterApi.questions`."""
        return [
            question.to_json()
            for question in self._services.broker.questions()
            if self._may(Action.LIST_QUESTIONS, requester, question.request.session)
        ]

    async def answer(
        self,
        question: str,
        requester: Requester,
        *,
        option_id: str | None,
        effect: Effect | None,
        note: str,
    ) -> dict[str, Any]:
        """Answer a question; see `RouterApi.answer`. The broker audits refusals too (row 24)."""
        decision = await self._services.broker.answer(
            question, requester=requester, option_id=option_id, effect=effect, note=note
        )
        return {"id": question, **decision.to_json()}

    def asked(self, question: Question) -> None:
        """Put an open question into its session's log and on record."""
        request = question.request
        fact = Fact("permission_asked", question.to_json())
        self._services.log.append(request.session, request.turn, fact)

    def decided(self, request: PermissionRequest, decision: Decision) -> None:
        """Put a decision into its session's log."""
        subject = request.ask.subject
        values = {
            "id": request.id,
            "title": subject.title,
            "kind": subject.kind,
            "toolCallId": subject.tool_call_id,
            **decision.to_json(),
        }
        fact = Fact("permission_decided", values)
        self._services.log.append(request.session, request.turn, fact)

    # ---- Small things ----

    def _find(self, text: str, requester: Requester, action: Action) -> Session:
        visible = [s.key for s in self._visible(requester)]
        key = routes.find_session(text, visible)
        self._authorize(action, requester, key)
        return self._sessions[key]

    def _parents(self) -> dict[SessionKey, SessionKey | None]:
        return {key: s.record.lineage.parent for key, s in self._sessions.items()}

    def _target(self, key: SessionKey) -> Target:
        return Target(key, routes.ancestors(key, self._parents()))

    def _may(self, action: Action, requester: Requester, key: SessionKey) -> bool:
        if requester.role is Role.OPERATOR:
            return True
        return may(action, requester, self._target(key))

    def _authorize(self, action: Action, requester: Requester, key: SessionKey) -> None:
        authorize(action, requester, self._target(key))

    async def _note(self, kind: str, key: SessionKey, requester: Requester, **fields: Any) -> None:
        values = {"session": str(key), "by": requester.label(), "pid": requester.pid, **fields}
        await self._audit.note(kind, values)

    def _definition_of(self, record: SessionRecord) -> AgentDefinition:
        """Return today's definition of a session of an earlier daemon."""
        try:
            return routes.find_agent(str(record.key.agent), self._setting.config())
        except BridgeError:
            return AgentDefinition(id=record.key.agent)

    def _session(self, record: SessionRecord, definition: AgentDefinition) -> Session:
        return Session(record, definition, self._spec, self._services)

    def _spec(self, session: Session) -> SessionSpec:
        config, record = self._setting.config(), session.record
        mark = f"{record.key}.{self._services.ids.uuid4().hex}"
        env = child_environment(
            session.definition, session.env, home=self._setting.daemon.home, mark=mark
        )
        return SessionSpec(
            definition=session.definition,
            revision=config.revision,
            key=record.key,
            path=AgentPath(str(record.key.agent)),
            lineage=record.lineage,
            cwd=record.cwd,
            additional_directories=record.additional_directories,
            mcp_servers=session.definition.mcp_servers,
            env=env,
            mark=mark,
            start_seconds=config.limits.start_seconds,
            cold_start_seconds=config.limits.cold_start_seconds,
        )
