"""The router: the service that every face calls. It composes its parts, and holds no queue itself.

Accepting, ending, looking and asking have a module each; here are the tasks that they share, and
what a session is made with.
"""

from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import Any, Final

import anyio

from acpbridge.config.environment import child_environment, fixed_values
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import AgentPath, SessionKey
from acpbridge.model.permission import Decision, Effect, PermissionRequest, Question
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import SessionRecord
from acpbridge.permissions.audit import Audit
from acpbridge.router import routes
from acpbridge.router.accepting import Accepting
from acpbridge.router.api import (
    Following,
    RunReceipt,
    RunRequest,
    RunResult,
    SessionFollowing,
    Span,
)
from acpbridge.router.authorize import Action
from acpbridge.router.claiming import Claim, Claiming
from acpbridge.router.completing import completing
from acpbridge.router.directory import Directory
from acpbridge.router.ending import Ending
from acpbridge.router.inner import InnerRuns
from acpbridge.router.inner_requests import InnerRequest, InnerWait
from acpbridge.router.keeping import Keeping
from acpbridge.router.lookers import Parts
from acpbridge.router.looking import Looking
from acpbridge.router.mains import Mains
from acpbridge.router.presence import Presence
from acpbridge.router.questions import Questions
from acpbridge.router.receipts import (
    CancelReceipt,
    KillReceipt,
    Pruned,
    PruneRequest,
    RestartReceipt,
    RestartRequest,
)
from acpbridge.router.restarting import Restarting
from acpbridge.router.runs import Runs
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.surroundings import Inspector, Surroundings
from acpbridge.router.tokens import Tokens, with_tools
from acpbridge.router.toolbox import Toolbox
from acpbridge.router.toolcall import ToolHandler, ToolRequest
from acpbridge.runtimes.base import SessionSpec
from acpbridge.transport.tasks import Owner, background

# Whoever reads a log of an earlier daemon waits so long for its last events to be on disk; with a
# full one it shows what there is. Seconds.
MENDED_WAIT: Final = 2.0


class Router(Owner):
    """The service; use it as an async context manager.

    Args:
        services: what sessions work with.
        inspector: what really runs.
        audit: has who ended what.
        around: where it finds itself.
    """

    def __init__(
        self, services: Services, inspector: Inspector, audit: Audit, around: Surroundings
    ) -> None:
        self._services = services
        self._inspector = inspector
        self._audit = audit
        self._around = around
        self._directory = Directory(lambda: around.config().tools)
        self._runs = Runs(services.ledger, self._directory)
        self._looking = Looking(self._directory, inspector, services, around)
        self._questions = Questions(self._directory, services)
        self._presence = Presence()
        self._tokens = Tokens(services.ids, self._lives)
        self._claiming = Claiming(
            self._directory,
            around,
            self._tokens,
            now=services.now,
            make=self._session,
            put=services.ledger.put_session,
        )

    async def _enter(self, stack: AsyncExitStack) -> None:
        for record in await self._services.ledger.sessions():
            self._directory.add(self._session(record, self._definition_of(record)))
        await stack.enter_async_context(self._services.scribe)
        self._tasks = await stack.enter_async_context(background())
        self._ending = Ending(self._directory, self._inspector, self._audit, self._tasks)
        self._restarting = Restarting(
            self._directory,
            self._inspector,
            self._ending,
            self._services,
            self._around,
            self._start,
        )
        self._keeping = Keeping(
            self._directory, self._runs, self._services, self._audit, self._around, self._session
        )
        self._tasks.start_soon(self._keeping.watch, name="retention")
        self._ending.orphaned()
        self._accepting = Accepting(
            self._directory,
            self._runs,
            self._services,
            self._around,
            make=self._session,
            start=self._start,
        )
        self._completing = completing(
            self._directory,
            self._runs,
            self._services,
            self._around,
            accept=self._accepting.accept,
            tasks=self._tasks,
        )
        self._mains = Mains(self._directory, self._services, self._around.config, self._session)
        self._mains.ensure()
        self._toolbox = await stack.enter_async_context(self._make_toolbox())
        # Without a `stop` before, the sessions' tasks are cancelled then: that is a stop too.
        stack.callback(self._take_no_more)

    def _make_toolbox(self) -> Toolbox:
        inner = InnerRuns(
            self._directory,
            self._services,
            accept=self.run,
            result=self.wait,
            close=self.close,
            make=self._session,
        )
        handlers: dict[type[ToolRequest], ToolHandler[Any]] = {
            InnerRequest: inner.serve,
            InnerWait: inner.wait,
        }
        parts = Parts(
            self._directory,
            self._looking,
            self._runs,
            self._questions,
            self._services,
            self._inspector,
            self._around,
            kill=self.kill,
            tools=handlers,
        )
        return Toolbox(
            parts, handlers, self._accepting, self._ending, self._completing, self._tasks
        )

    def _take_no_more(self) -> None:
        self._accepting.stop()
        for session in self._directory:
            session.mark_ending(None)

    async def stop(self) -> None:
        """Refuse new work, cancel turns and questions, and end every tree, side by side."""
        await self._toolbox.stop()
        self._accepting.stop()
        self._services.broker.stop()
        await self._ending.stop()

    def busy(self) -> bool:
        """Tell whether any session has a process or anything to do."""
        return self._completing.dues.busy or any(session.active for session in self._directory)

    # ---- Runs ----

    async def run(self, request: RunRequest, requester: Requester) -> RunReceipt:
        """Accept one turn; see `RouterApi.run`."""
        self._mains.ensure()
        self._toolbox.check_run(request, requester)
        return await self._accepting.accept(request, requester)

    async def follow(
        self, key: str, after: int, requester: Requester, span: Span | None = None
    ) -> SessionFollowing:
        """Return a cursor; see `RouterApi.follow`."""
        span = span or Span()
        session = self._directory.find(key, requester, Action.SEE)
        key_of, log = session.key, self._services.log
        mended = not log.knows(key_of)
        newest = await session.open_log()
        if mended:
            # It is read up to what is on disk, and what was missing may not be there yet.
            with anyio.move_on_after(MENDED_WAIT):
                await log.committed(key_of)
        replay = after < 0
        if replay:
            after = max(0, newest + after)
        if span.since:
            after = max(after, await log.number_before(key_of, span.since))
        if self._directory.get(key_of) is None:
            raise BridgeError("no_such_session", f"The session {key_of} was deleted.")
        return log.follow(key_of, after, live=span.live, stored=span.stored, replay=replay)

    async def wait(self, run_id: str, requester: Requester) -> RunResult:
        """Wait for the end of a run; see `RouterApi.wait`."""
        return await self._runs.result(run_id, requester)

    async def vanished(self, client_id: str) -> None:
        """Cancel what a client that is gone had asked for, but for its detached runs."""
        self._presence.leave(client_id)
        self._ending.vanished(self._runs.left_by(client_id))

    # ---- Looking ----

    async def status(self, key: str, requester: Requester) -> dict[str, Any]:
        """Return the truth, now; see `RouterApi.status`."""
        self._mains.ensure()
        return await self._looking.status(key, requester)

    async def sessions(
        self, requester: Requester, *, everything: bool, agent: str = "", cwd: str = ""
    ) -> list[dict[str, Any]]:
        """Return rows, the newest last; see `RouterApi.sessions`."""
        self._mains.ensure()
        return self._looking.sessions(requester, everything=everything, agent=agent, cwd=cwd)

    async def matching(self, agent: str, requester: Requester) -> list[str]:
        """Return keys of live sessions; see `RouterApi.matching`."""
        return self._looking.matching(agent, requester)

    # ---- Ending ----

    async def cancel(self, key: str, grace: float, requester: Requester) -> CancelReceipt:
        """End the running turn; see `RouterApi.cancel`."""
        return await self._ending.cancel(key, grace, requester)

    async def close(self, key: str, requester: Requester) -> SessionKey:
        """End a session politely, with its children; see `RouterApi.close`."""
        return await self._ending.close(key, requester)

    async def kill(
        self, keys: list[str], grace: float | None, requester: Requester
    ) -> list[KillReceipt]:
        """End sessions with all below them; see `RouterApi.kill`."""
        return await self._ending.kill(keys, grace, requester)

    async def end_unowned(self, requester: Requester) -> list[KillReceipt]:
        """End what nobody owns; see `RouterApi.end_unowned`."""
        return await self._ending.end_unowned(requester)

    # ---- Beyond a run ----

    async def restart(self, request: RestartRequest, requester: Requester) -> RestartReceipt:
        """Give a session a new process; see `RouterApi.restart`."""
        return await self._restarting.restart(request, requester)

    async def prune(self, request: PruneRequest, requester: Requester) -> list[Pruned]:
        """Delete sessions; see `RouterApi.prune`."""
        return await self._keeping.prune(request, requester)

    # ---- Permissions ----

    async def questions(self, requester: Requester) -> list[dict[str, Any]]:
        """Return the open questions; see `RouterApi.questions`."""
        return self._questions.listed(requester)

    async def watch(self, requester: Requester, key: str = "") -> Following:
        """Return a cursor over the questions; see `RouterApi.watch`."""
        return self._questions.watch(requester, key)

    def attend(self, key: str, requester: Requester) -> None:
        """Take note of a person at a terminal; see `RouterApi.attend`."""
        self._presence.attend(key, requester)

    def attended(self, key: SessionKey) -> int:
        """Return at how many clients a person is asked right now what a session asks."""
        return self._presence.attended(key, self._directory.line_above(key))

    def persons_roots(self, key: SessionKey) -> tuple[str, ...] | None:
        """Return within which directories a person has a session work; None: its own are that."""
        return self._directory.persons_roots(key)

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
        return await self._questions.answer(
            question, requester, option_id=option_id, effect=effect, note=note, confirm=confirm
        )

    async def grants(self, requester: Requester) -> list[dict[str, Any]]:
        """Return the grants; see `RouterApi.grants`."""
        return await self._questions.grants(requester)

    async def revoke(self, grants: list[str], requester: Requester) -> list[dict[str, Any]]:
        """End grants; see `RouterApi.revoke`."""
        return await self._questions.revoke(grants, requester)

    def asked(self, question: Question) -> None:
        """Take note of an open question; the broker calls it."""
        self._questions.asked(question)
        self._completing.attention.asked(question)

    def decided(self, request: PermissionRequest, decision: Decision) -> None:
        """Take note of a decision; the broker calls it."""
        self._questions.decided(request, decision)

    # ---- Tools of a main agent ----

    def tools(self) -> Collection[type[ToolRequest]]:
        """Return the tools that are served."""
        return self._toolbox.tools()

    async def tool(self, request: ToolRequest, requester: Requester) -> dict[str, Any]:
        """Serve one call of a session tool; see `RouterApi.tool`."""
        self._mains.ensure()
        return await self._toolbox.call(request, requester)

    async def claimed(self, who: Requester, claim: Claim) -> Requester:
        """Return who a peer is that says something of itself; see `Claiming.judge`."""
        return await self._claiming.judge(who, claim)

    # ---- Making sessions ----

    def _definition_of(self, record: SessionRecord) -> AgentDefinition:
        """Return today's definition of a session of an earlier daemon."""
        try:
            return routes.find_agent(str(record.key.agent), self._around.config())
        except BridgeError:
            return AgentDefinition(id=record.key.agent)

    def _lives(self, key: SessionKey) -> bool:
        session = self._directory.get(key)
        return session is not None and session.live and not session.closing

    def _start(self, session: Session) -> None:
        self._tasks.start_soon(session.serve, name=f"session {session.key}")

    def _session(
        self, record: SessionRecord, definition: AgentDefinition, services: Services | None = None
    ) -> Session:
        for name, value in fixed_values(definition):
            self._around.learn({name: value})
        # Not before there is one who ends: nothing dies before it was started.
        return Session(
            record,
            definition,
            self._spec,
            services or self._services,
            bereave=lambda session: self._ending.bereaved(session),
        )

    def _spec(self, session: Session) -> SessionSpec:
        config, record = self._around.config(), session.record
        mark = f"{record.key}.{self._services.ids.uuid4().hex}"
        env = child_environment(
            session.definition, session.env, home=self._around.daemon.home, mark=mark
        )
        given = {server["name"] for server in session.mcp_servers}
        kept = (s for s in session.definition.mcp_servers if s.get("name") not in given)
        servers = (*kept, *session.mcp_servers)
        token = self._tokens.issue(record.key) if session.definition.session_tools else ""
        return SessionSpec(
            definition=session.definition,
            revision=config.revision,
            key=record.key,
            path=AgentPath(str(record.key.agent)),
            lineage=record.lineage,
            cwd=record.cwd,
            above=self._directory.above([session])[record.key],
            additional_directories=record.additional_directories,
            mcp_servers=with_tools(servers, token, self._around.tool_server),
            tool_token=token,
            env=env,
            mark=mark,
            start_seconds=config.limits.start_seconds,
            cold_start_seconds=config.limits.cold_start_seconds,
        )
