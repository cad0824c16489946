"""The daemon's team: its agents may ask one another, and be told later.

The inbox is durable here and different targets work side by side. Above is the router, which serves
`tool/ask` and `tool/delegations`; below are the inbox, the caller and the notices.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any, Final

from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.inbox import ChatRequest, InboxMessage
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.router import delegating, routes
from acpbridge.router.accepting import Accepting
from acpbridge.router.answers import extract_call_response
from acpbridge.router.authorize import Action, Target, authorize
from acpbridge.router.directory import Directory
from acpbridge.router.ending import Ending
from acpbridge.router.inbox import InboxManager
from acpbridge.router.runs import Runs
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.team_caller import TeamCaller
from acpbridge.router.team_notices import TeamNotices
from acpbridge.router.team_requests import AskMode, AskRequest, DelegationsRequest
from acpbridge.router.teams import check_chain
from acpbridge.router.turns import text_of
from acpbridge.store.ledger import Ledger
from acpbridge.transport.tasks import Owner, background

# Pieces of work that one session has handed over and has not heard of.
MOST_OF_ONE: Final = 32

# Of a task where work is listed. Characters.
SHOWN: Final = 500


class _Stored:
    """The ledger as the inbox sees it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def put(self, message: InboxMessage, *, told: bool) -> None:
        await self._ledger.put_delegation(message, told=told)

    async def untold(self) -> list[InboxMessage]:
        return await self._ledger.delegations()


class HouseTeam(Owner):
    """Serves what agents ask of one another; use it as an async context manager.

    Args:
        directory: the sessions that there are.
        runs: knows how they end.
        services: ledger, log, clock and ids.
        config: the configuration in force.
        accepting: begins runs.
        ending: cancels them.
    """

    def __init__(
        self,
        directory: Directory,
        runs: Runs,
        services: Services,
        config: Callable[[], Config],
        accepting: Accepting,
        ending: Ending,
    ) -> None:
        self._directory = directory
        self._services = services
        self._config = config
        self._caller = TeamCaller(directory, runs, services, accepting, ending)
        self._notices = TeamNotices(directory, services)

    async def _enter(self, stack: AsyncExitStack) -> None:
        self._inbox = InboxManager(
            tasks=await stack.enter_async_context(background()),
            caller=self._caller,
            processor=self._notices,
            store=_Stored(self._services.ledger),
            parallel=True,
            now=self._services.now,
            make_id=lambda: str(self._services.ids.uuid4()),
        )
        await self._inbox.restore()
        self._notices.earlier = frozenset(item.id for item in self._inbox.list())
        self._inbox.start()

    async def stop(self) -> None:
        """Take nothing more, and leave what is there to the next daemon."""
        await self._inbox.shutdown()

    # ---- Asking ----

    async def ask(self, request: AskRequest, requester: Requester) -> dict[str, Any]:
        """Serve `ask_agent`.

        Raises:
            BridgeError: `requester_session_required`, `no_such_agent`, `agent_forbidden`,
                `subagent_policy`, `busy`, `store_full`; of a synchronous one also why it failed.
        """
        source = self._directory.asking(requester)
        if source is None:
            message = "Only an agent in a session asks another one: the answer goes to it."
            hint = "Use acpbridge run --agent, or acpbridge send."
            raise BridgeError("requester_session_required", message, hint=hint)
        target = self._target(source, request.agent_id)
        if request.mode is AskMode.SYNC:
            return await self._answered(target, request.message, requester)
        return await self._handed_over(source, target, request.message, requester)

    def _target(self, source: Session, name: str) -> str:
        """Return the id of who is asked, if that may be a child of the one that asks."""
        config = self._config()
        definition = routes.find_agent(name, config)
        above = reversed(self._directory.line_above(source.key))
        check_chain([*(str(key.agent) for key in above), str(source.key.agent)], definition.id)
        delegating.check(config, self._directory.asker(source), definition)
        return str(definition.id)

    async def _answered(self, target: str, message: str, requester: Requester) -> dict[str, Any]:
        told = await self._caller.call(
            target, ChatRequest(message, context={"requester": requester})
        )
        where = {name: told[name] for name in ("sessionKey", "runId")}
        return {"agentId": target, "response": extract_call_response(told), **where}

    async def _handed_over(
        self, source: Session, target: str, message: str, requester: Requester
    ) -> dict[str, Any]:
        if requester.external:
            text = "A client that the bridge does not run has no turn in which to be told."
            hint = "Ask with mode sync, or use sessions_spawn and fetch the completion."
            raise BridgeError("team_disabled", text, hint=hint)
        key = str(source.key)
        waiting = [item for item in self._inbox.list() if _of(item, key) and item.open]
        if len(waiting) >= MOST_OF_ONE:
            text = f"{MOST_OF_ONE} pieces of work of this session are under way or wait."
            raise BridgeError("busy", text, hint="Wait until one has been answered.")
        asked = "" if source.turn is None else text_of(source.turn.request.content)
        id = self._inbox.enqueue(
            target_agent_id=target,
            source_agent_id=str(source.key.agent),
            source_thread_id=key,
            message=message,
            user_id=requester.uid,
            original_user_prompt=asked or None,
            metadata={"source": key},
        )
        await self._inbox.stored(id)
        note = f"{target} works on it in the background. The answer comes to you by itself."
        return {"jobId": id, "status": "queued", "note": note}

    # ---- Looking ----

    async def delegations(
        self, request: DelegationsRequest, requester: Requester
    ) -> dict[str, Any]:
        """List what was handed over; end one piece of it first. For people alone.

        Raises:
            BridgeError: `no_such_delegation`; `permission_denied`.
        """
        told: dict[str, Any] = {}
        if request.cancel:
            told["cancelled"] = self._cancel(request.cancel, requester)
        rows = [
            self._row(item)
            for item in self._inbox.list()
            if (item.open or request.everything or item.id == request.cancel)
            and self._directory.may(Action.SEE, requester, _source(item))
        ]
        return {"delegations": rows, **told}

    def _cancel(self, inbox_id: str, requester: Requester) -> bool:
        item = self._inbox.get(inbox_id)
        if item is None:
            raise BridgeError("no_such_delegation", f"There is no delegated work {inbox_id!r}.")
        target = Target(_source(item), self._directory.line_above(_source(item)))
        authorize(Action.CANCEL, requester, target)
        return self._inbox.cancel(inbox_id)

    def _row(self, item: InboxMessage) -> dict[str, Any]:
        place = self._caller.place(f"{item.id}:work")
        age = self._services.clock.wall() - datetime.fromisoformat(item.created_at)
        return {
            "id": item.id,
            "status": item.status,
            "sourceAgentId": item.source_agent_id,
            "sourceSessionKey": item.source_thread_id,
            "targetAgentId": item.target_agent_id,
            "targetSessionKey": None if place is None else str(place),
            "task": item.message[:SHOWN],
            "createdAt": item.created_at,
            "updatedAt": item.updated_at,
            "ageSeconds": max(0, round(age.total_seconds())),
            "error": item.error_text,
        }


def _of(item: InboxMessage, key: str) -> bool:
    return item.source_thread_id == key


def _source(item: InboxMessage) -> SessionKey:
    return SessionKey.parse(item.source_thread_id or "")
