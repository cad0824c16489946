"""How a run is accepted: a session is found or made, and the run is on record before it is told.

From the look at the limits to the reservation nothing is awaited, so that neither a burst of spawns
nor a kill in between gets past them (G12, case 141); what follows is not cut short by a caller that
goes away.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from acpbridge.config.environment import server_values
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import SessionKey
from acpbridge.model.messages import PromptRequest
from acpbridge.model.permission import OnPermission
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import (
    CloseReason,
    Lineage,
    Outcome,
    RunRecord,
    SessionRecord,
    SessionState,
)
from acpbridge.router import delegating, mains, routes, view
from acpbridge.router.api import RunReceipt, RunRequest
from acpbridge.router.authorize import Action, Target, authorize
from acpbridge.router.births import tell_parent
from acpbridge.router.claiming import EXTERNAL
from acpbridge.router.directory import Directory
from acpbridge.router.environments import Environments
from acpbridge.router.errands import Errand
from acpbridge.router.lane import in_lane
from acpbridge.router.line import Line
from acpbridge.router.runs import Runs
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.surroundings import Surroundings
from acpbridge.router.turns import Turn, text_of, weight
from acpbridge.runtimes.logins import login_source

# Of an idempotency key, in characters: a uuid or a hash with a few words.
KEY_LIMIT: Final = 512

MakeSession = Callable[[SessionRecord, AgentDefinition], Session]


class Accepting:
    """Accepts runs.

    Args:
        directory: the sessions that there are.
        runs: takes in what is accepted.
        services: ledger, log, clock and ids.
        around: configuration and default agent.
        make: makes a session of a record.
        start: runs a session's task.
    """

    def __init__(
        self,
        directory: Directory,
        runs: Runs,
        services: Services,
        around: Surroundings,
        *,
        make: MakeSession,
        start: Callable[[Session], None],
    ) -> None:
        self._directory = directory
        self._runs = runs
        self._services = services
        self._around = around
        self._make = make
        self._start = start
        self._line = Line(directory, services.places, around.config)
        self._environments = Environments()
        self._keyed = anyio.Lock()
        self._stopping = False

    @property
    def line(self) -> Line:
        """Who waits for a place."""
        return self._line

    def stop(self) -> None:
        """Accept nothing any more; what is to be told is told by the next daemon."""
        self._stopping = self._services.tidings.over = True

    async def accept(
        self, request: RunRequest, requester: Requester, action: Action = Action.PROMPT
    ) -> RunReceipt:
        """Accept one turn; see `RouterApi.run`.

        Args:
            request: what is wanted.
            requester: who wants it.
            action: what it is to a session that exists.
        """
        self._check_running()
        if request.on_permission is OnPermission.ALLOW:
            authorize(Action.ALLOW_BY_RULE, requester, Target())
        if request.settings.mode is not None or request.settings.options or request.mcp_servers:
            # Each may widen what is done unasked; a model does not.
            authorize(Action.CHOOSE, requester, Target())
        if not request.idempotency_key:
            return await self._accept(request, requester, "", action)
        if len(request.idempotency_key) > KEY_LIMIT:
            # It is stored with the run, for as long as that.
            message = f"idempotencyKey: it is longer than {KEY_LIMIT} characters."
            raise BridgeError("invalid_params", message)
        # An agent's keys are its own: it can neither guess nor take another's.
        scope = f"{requester.session} " if requester.role is Role.AGENT else ""
        key = scope + request.idempotency_key
        async with self._keyed:
            run = await self._services.ledger.run_by_idempotency(key)
            if run is not None:
                agent = str(run.session.agent)
                return RunReceipt(run.session, run.run_id, 0, agent, repeated=True)
            return await self._accept(request, requester, key, action)

    def _check_running(self) -> None:
        if self._stopping:
            raise BridgeError("daemon_stopping", "The daemon is stopping.")

    async def _accept(
        self, request: RunRequest, requester: Requester, key: str, action: Action
    ) -> RunReceipt:
        if _brings_secrets(request, requester):
            self._around.learn(request.env)
            for name, value in server_values(request.mcp_servers):
                self._around.learn({name: value})
        new = not request.session and not request.continue_last
        if new:
            session = await self._new(request, requester)
        else:
            session = self._known(request, requester, action)
        # Nothing was awaited since the look at the limits.
        session.inbox.reserve(weight(request.content))
        asking = self._directory.asking(requester)
        caller = None if asking is None or request.independent else asking.turn
        with anyio.CancelScope(shield=True):
            try:
                run = await self._put_on_record(session, requester, request, key, new=new)
                await self._check_still_wanted(session, run, caller)
            except BaseException as error:
                session.inbox.release(weight(request.content))
                ended = isinstance(error, BridgeError) and error.code == "session_closed"
                if request.birth is not None and ended:
                    raise _not_admitted(session) from None
                raise
        if action is Action.SEND and not self._owns(asking, session):
            caller = None  # what is sent to a peer does not end with the turn that sent it
        return self._submit(session, run, request, requester, caller)

    def _owns(self, asking: Session | None, session: Session) -> bool:
        return asking is not None and asking.key in self._directory.line_above(session.key)

    # ---- Which session ----

    def _known(self, request: RunRequest, requester: Requester, action: Action) -> Session:
        """Find a session; one that has no process gets one, and counts as started again."""
        session = self._meant(request, requester, action)
        session.check_open()
        asking = self._directory.asking(requester)
        if mains.unused(session) and session.record.runtime != EXTERNAL:
            session = self._housed(session, request, asking)
        if not session.has_place:
            self._line.check_place(asking, request, session.key, lane=in_lane(session.record))
        above = session.record.lineage.parent
        parent = None if above is None else self._directory.get(above)
        if parent is not None and not session.active:
            limits = self._around.config().limits
            delegating.check_number(limits, self._directory.asker(parent))
        return session

    def _housed(self, session: Session, request: RunRequest, asking: Session | None) -> Session:
        """Settle how a main session is run that is prompted for the first time."""
        config = self._around.config()
        definition = config.agents.get(session.key.agent, session.definition)
        cwds: tuple[str, ...] = (request.cwd, request.caller_cwd)
        if asking is not None:
            # An agent does not choose where others work: only where a person has its family do so.
            top = self._directory.get(asking.record.lineage.root or asking.key) or asking
            cwds = (top.record.cwd,)
        made = mains.housed(session, definition, config.revision, cwds, self._make)
        self._directory.add(made)
        return made

    def _meant(self, request: RunRequest, requester: Requester, action: Action) -> Session:
        if request.session:
            return self._directory.find(request.session, requester, action)
        here = request.cwd or request.caller_cwd
        found = [
            session
            for session in self._directory
            if session.record.cwd == here
            and not mains.unused(session)
            and not session.closing
            and self._directory.may(Action.PROMPT, requester, session.key)
        ]
        if not found:
            message = f"There is no session to go on with in {here}."
            hint = "Leave --continue out, or choose one: acpbridge sessions --all."
            raise BridgeError("no_such_session", message, hint=hint)
        # Of those made in the same moment the one made last.
        return max(reversed(found), key=lambda session: session.record.created_at)

    async def _new(self, request: RunRequest, requester: Requester) -> Session:
        """Make a session, known from now on."""
        authorize(Action.RUN, requester, Target())
        self._lineage(requester)  # a refusal comes before whatever else may be wrong
        definition = self._choose_agent(request)
        self._check_allowed(requester, definition)
        cwd = request.cwd or definition.workspace or request.caller_cwd
        if not Path(cwd).is_absolute() or not await anyio.Path(cwd).is_dir():
            raise BridgeError("usage", f"{cwd!r} is not a directory.", hint="Give one with --cwd.")
        # It looks for files, which may lie on a slow disk.
        login = await anyio.to_thread.run_sync(login_source, definition, request.env)
        # No await from here on.
        self._check_running()
        self._check_allowed(requester, definition)
        lineage = self._lineage(requester)
        asking = self._directory.asking(requester)
        python = definition.kind is RuntimeKind.PYTHON
        self._line.check_place(asking, request, None, lane=python)
        if asking is not None or request.birth is not None:
            self._line.check_room()
        make_key = SessionKey.subagent if python else SessionKey.acp
        unique = None if request.birth is None else request.birth.unique
        record = SessionRecord(
            key=make_key(definition.id, unique or self._services.ids.uuid4()),
            state=SessionState.IDLE,
            cwd=cwd,
            created_at=self._services.now(),
            runtime=definition.kind,
            lineage=lineage,
            one_shot=request.one_shot,
            auth_source=login,
            definition={"id": definition.id, "revision": self._around.config().revision},
        )
        if request.birth is not None:
            record = request.birth.put_on(record)
        session = self._make(record, definition)
        self._directory.add(session)
        return session

    def _choose_agent(self, request: RunRequest) -> AgentDefinition:
        config = self._around.config()
        if request.agent:
            return routes.find_agent(request.agent, config)
        cwd = request.cwd or request.caller_cwd
        return config.default or self._around.default_agent(request.env, cwd)

    def _lineage(self, requester: Requester) -> Lineage:
        """Return where a new session belongs; an agent's are its children, bounded (case 137)."""
        parent = self._directory.asking(requester)
        if parent is None:
            return Lineage()
        asker = self._directory.asker(parent)
        delegating.check_room(self._around.config().limits, asker)
        root = parent.record.lineage.root or parent.key
        return Lineage(parent.key, root, asker.depth + 1)

    def _check_allowed(self, requester: Requester, definition: AgentDefinition) -> None:
        """Check what an agent may start; a person may start everything but what is switched off."""
        config = self._around.config()
        delegating.check_enabled(config, definition.kind)
        parent = self._directory.asking(requester)
        if parent is not None:
            delegating.check(config, self._directory.asker(parent), definition)

    # ---- On record ----

    async def _put_on_record(
        self, session: Session, requester: Requester, request: RunRequest, key: str, *, new: bool
    ) -> RunRecord:
        """Store a run, and its session if it is new; nothing is left of what cannot be stored."""
        run_id = str(self._services.ids.uuid4())
        record = RunRecord(
            run_id=run_id,
            session=session.key,
            requested_by=requester.label(),
            accepted_at=self._services.now(),
            correlation_id=request.correlation_id or run_id,
            idempotency_key=key,
            task=request.task or text_of(request.content),
            requested_by_key=str(requester.session or ""),
            deliver_to=str(request.deliver_to or ""),
            pulled=requester.external,
        )
        try:
            # Of a new session nothing can be missing.
            await (self._services.log.open(session.key) if new else session.open_log())
            if new and not session.closing:
                await self._services.ledger.put_session(session.record)
            session.check_open()
            self._check_running()
            await self._put_run(record)
        except BridgeError:
            if new and not session.closing:
                self._undo(session)
            raise
        return record

    async def _put_run(self, record: RunRecord) -> None:
        if not await self._services.ledger.put_run(record):
            raise BridgeError("internal", "The run is on record already.")

    def _undo(self, session: Session) -> None:
        self._directory.drop(session)
        closed = replace(
            session.record, state=SessionState.CLOSED, close_reason=CloseReason.CLEANUP
        )
        self._services.scribe.put(lambda: self._services.ledger.put_session(closed))

    async def _check_still_wanted(
        self, session: Session, record: RunRecord, caller: Turn | None
    ) -> None:
        """Give a run its outcome whose session, or whose caller, was ended while it was stored."""
        unwanted = caller is not None and caller.cancelling
        if not session.closing and not unwanted:
            return
        now = self._services.now()
        await self._services.ledger.finish_run(
            record.run_id, Outcome.CANCELLED, "cancelled", None, now
        )
        self._check_running()
        session.check_open()
        raise BridgeError("request_cancelled", "The turn that asked for it was cancelled.")

    def _submit(
        self,
        session: Session,
        run: RunRecord,
        request: RunRequest,
        requester: Requester,
        caller: Turn | None,
    ) -> RunReceipt:
        """Hand the run over; nothing can go wrong any more, and nothing is awaited."""
        prompt = PromptRequest(
            requester=requester,
            key=session.key,
            content=request.content,
            correlation_id=run.correlation_id,
            idempotency_key=run.idempotency_key,
            on_permission=request.on_permission,
            timeout=request.timeout,
            detached=request.detached,
            settings=request.settings,
            wishes=request.wishes,
            mcp_servers=request.mcp_servers,
            fresh=request.fresh,
            delivery=run.deliver_to,
            provenance=request.provenance or {"kind": "operator"},
            announces=request.announces,
            going_out=request.going_out,
        )
        session.env = self._environments.shared(request.env) or session.env
        turn = Turn(run.run_id, prompt, run.accepted_at, caller)
        if request.announces:
            turn.errand = Errand(request.announces)
        else:
            self._services.tidings.prompted(session.key)
        after = self._services.log.last_seq(session.key)
        if not after:
            tell_parent(self._directory, self._services, session)
        self._runs.add(session, turn)
        if session.submit(turn):
            self._start(session)
        live = [s for s in self._directory.visible(requester) if s.live or s is session]
        warnings = tuple(w for w in view.shared_directories(live) if str(session.key) in w)
        return RunReceipt(session.key, run.run_id, after, str(session.key.agent), warnings)


def _brings_secrets(request: RunRequest, requester: Requester) -> bool:
    """Tell whether an environment is that of somebody outside, whose secrets are to be learnt.

    An agent of ours has no secret that its own session's caller did not have; what it calls one
    would only be blacked out where others must be able to read. What the daemon begins by itself,
    on whose behalf ever, hands on the environment of a session, which an agent may have chosen.
    """
    outside = requester.external and not request.independent
    return outside or requester.role not in (Role.AGENT, Role.SYSTEM)


def _not_admitted(session: Session) -> BridgeError:
    """Return the error for a session that was made, and ended before its first turn was taken."""
    message = f"{session.key} was made and ended; its first turn was not taken."
    return BridgeError("dispatch_failed", message, data={"childSessionKey": str(session.key)})
