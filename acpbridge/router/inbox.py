"""The inbox of agents that hand work to one another, and are told later what came of it.

An item goes one way: the target is called in a new conversation, the source is called in its own
with what came of that, and the processor hears how it ended: once, whatever the end. Without a
store the inbox is in memory and one item is worked on at a time; what waits is lost with the
process. With a store nothing that was taken in is lost: a name goes with each call, by which the
caller knows one that was made before. Above are `teams`, and whoever calls agents; below are
values.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import anyio
import structlog
from anyio.abc import TaskGroup

from acpbridge.errors import BridgeError
from acpbridge.model.inbox import ChatRequest, InboxMessage, InboxStatus, ReplyEvent
from acpbridge.router.answers import extract_call_response
from acpbridge.router.followup import failure_prompt
from acpbridge.router.processor import AgentCaller, InboxStore, TeamProcessor

log = structlog.get_logger(__name__)

# Items whose end is not known yet. Each may become a conversation of its own.
MOST_OPEN: Final = 256

# Items that have ended and can still be asked after.
KEPT: Final = 1024

# At a shutdown the ends of what is cancelled are told within this time. Seconds.
END_WAIT: Final = 5.0


def utc_now() -> str:
    """Return the wall-clock time, ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def new_id() -> str:
    """Return a name that was never used before."""
    return str(uuid4())


class InboxManager:
    """The items, and the tasks that work on them.

    Args:
        tasks: outlive whoever puts an item in. With a store they are its own, and cancelled at a
            shutdown: an item is left then as it is.
        caller: calls agents.
        processor: hears of ends.
        store: keeps items; None for in memory.
        parallel: whether different targets work side by side; each does one thing at a time.
        now: the time, ISO 8601, UTC.
        make_id: makes names.
    """

    def __init__(  # noqa: PLR0913 -- wired in one place, by name
        self,
        *,
        tasks: TaskGroup,
        caller: AgentCaller,
        processor: TeamProcessor,
        store: InboxStore | None = None,
        parallel: bool = False,
        now: Callable[[], str] = utc_now,
        make_id: Callable[[], str] = new_id,
    ) -> None:
        self.processor = processor
        self._tasks = tasks
        self._caller = caller
        self._store = store
        self._parallel = parallel
        self._now = now
        self._make_id = make_id
        self._messages: dict[str, InboxMessage] = {}
        self._untold: set[str] = set()
        self._lanes: dict[str, deque[str]] = {}
        self._calls: dict[str, anyio.CancelScope] = {}
        self._scopes: set[anyio.CancelScope] = set()
        self._empty = anyio.Event()
        self._started = False
        self._stopping = False

    # ---- For everybody ----

    def enqueue(  # noqa: PLR0913 -- the fields of an item, by name
        self,
        *,
        target_agent_id: str,
        source_agent_id: str,
        source_thread_id: str | None,
        message: str,
        user_id: str | int,
        original_user_prompt: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Take an item in, and return its id at once; see `InboxMessage`.

        Without a store it is worked on from now on; with one, once it is `stored`.

        Raises:
            BridgeError: `busy`, when it is full; `daemon_stopping`.
        """
        now = self._now()
        item = InboxMessage(
            id=self._make_id(),
            target_agent_id=target_agent_id,
            source_agent_id=source_agent_id,
            source_thread_id=source_thread_id,
            message=message,
            user_id=user_id,
            created_at=now,
            updated_at=now,
            original_user_prompt=original_user_prompt,
            metadata=dict(metadata or {}),
        )
        self._check_room()
        self._messages[item.id] = item
        self._untold.add(item.id)
        if self._store is None:
            self._put_in_lane(item)
        return item.id

    async def stored(self, inbox_id: str) -> None:
        """Put an item that was just taken in on disk, and have it worked on.

        Raises:
            BridgeError: `store_full`; the item is gone then.
        """
        if self._store is None:
            return
        try:
            with anyio.CancelScope(shield=True):
                await self._store.put(self._messages[inbox_id], told=False)
        except BridgeError:
            if self._messages[inbox_id].open:  # else it was cancelled, and that is told
                del self._messages[inbox_id]
                self._settle(inbox_id)
                raise
        item = self._messages[inbox_id]
        if item.status is InboxStatus.QUEUED:
            self._put_in_lane(item)

    def get(self, inbox_id: str) -> InboxMessage | None:
        """Return an item as it stands; None for one that never was, or ended long ago."""
        return self._messages.get(inbox_id)

    def list(
        self,
        *,
        target: str | None = None,
        source: str | None = None,
        status: InboxStatus | None = None,
    ) -> "list[InboxMessage]":
        """Return the items that fit all that is given, the oldest first."""
        return [
            item
            for item in self._messages.values()
            if target in (None, item.target_agent_id)
            and source in (None, item.source_agent_id)
            and status in (None, item.status)
        ]

    def cancel(self, inbox_id: str) -> bool:
        """End an item, whether it waits or is worked on; False if it has ended or never was."""
        item = self._messages.get(inbox_id)
        if item is None or not item.open:
            return False
        waiting = item.status is InboxStatus.QUEUED
        self._move(inbox_id, InboxStatus.CANCELLED)
        if waiting:
            for lane in self._lanes.values():
                if inbox_id in lane:
                    lane.remove(inbox_id)
            self._start(self._end, inbox_id, None, name="inbox cancel")
        elif inbox_id in self._calls:
            self._calls[inbox_id].cancel()  # whoever made the call tells of the end
        return True

    # ---- Its life ----

    async def restore(self) -> None:
        """Take up what an earlier process has left; before `start`."""
        for item in [] if self._store is None else await self._store.untold():
            self._messages[item.id] = item
            self._untold.add(item.id)
            self._put_in_lane(item)

    def start(self) -> None:
        """Begin to work."""
        self._started = True
        for lane in self._lanes:
            self._start(self._work, lane, name=f"inbox {lane}")

    async def shutdown(self, drain: float = 0.0) -> None:
        """Take nothing more, and come to an end within a bound.

        What is in memory is cancelled then, and that is told; what is stored is left as it is, for
        the next one who takes it up.

        Args:
            drain: how long what is there may still be worked on, seconds.
        """
        self._stopping = True
        if drain and self._started:
            with anyio.move_on_after(drain):
                await self.settled()
        if self._store is None:
            for inbox_id in list(self._untold):
                self.cancel(inbox_id)
            with anyio.move_on_after(END_WAIT):
                await self.settled()
        else:
            # Not the group: it may have been entered in the very task that waits here.
            for scope in list(self._scopes):
                scope.cancel()

    async def settled(self) -> None:
        """Wait until the end of each item was told."""
        while self._untold:
            self._empty = anyio.Event()
            await self._empty.wait()

    # ---- Taking in ----

    def _check_room(self) -> None:
        if self._stopping:
            raise BridgeError("daemon_stopping", "The inbox takes nothing more.")
        if len(self._untold) >= MOST_OPEN:
            message = f"{MOST_OPEN} pieces of delegated work are under way or wait."
            raise BridgeError("busy", message, hint="Wait for one to end, or cancel one.")

    def _put_in_lane(self, item: InboxMessage) -> None:
        name = item.target_agent_id if self._parallel else ""
        lane = self._lanes.get(name)
        if lane is not None:
            lane.append(item.id)
            return
        self._lanes[name] = deque([item.id])
        if self._started:
            self._start(self._work, name, name=f"inbox {name}")

    # ---- Working ----

    def _start(self, work: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        async def stoppable() -> None:
            with anyio.CancelScope() as scope:
                self._scopes.add(scope)
                try:
                    if not self._stopping or self._store is None:
                        await work(*args)
                finally:
                    self._scopes.discard(scope)

        self._tasks.start_soon(stoppable, name=name)

    async def _work(self, name: str) -> None:
        """Serve one lane until nothing is left in it."""
        lane = self._lanes[name]
        while lane:
            inbox_id = lane.popleft()
            result = await self._ask_target(inbox_id)
            if self._parallel:
                # A source that is busy for long holds up nobody else's work.
                self._start(self._go_on, inbox_id, result, name="inbox reply")
            else:
                await self._go_on(inbox_id, result)
        del self._lanes[name]

    async def _ask_target(self, inbox_id: str) -> str | None:
        """Have the target work; return its words, None if it failed or is not wanted any more."""
        item = self._messages[inbox_id]
        if item.status is InboxStatus.QUEUED:
            await self._save(self._move(inbox_id, InboxStatus.RUNNING))
        request = ChatRequest(
            message=item.message,
            name=f"{inbox_id}:work",
            chain=(item.source_agent_id, item.target_agent_id),
            context={**item.metadata, "id": inbox_id},
        )
        try:
            if self._messages[inbox_id].open:
                return await self._call(inbox_id, item.target_agent_id, request)
        except Exception as error:  # noqa: BLE001 -- the boundary of a call; told by `_said`
            if self._messages[inbox_id].open:
                self._move(inbox_id, InboxStatus.FAILED, _said(error, item))
                await self._save(self._messages[inbox_id])
        return None

    async def _go_on(self, inbox_id: str, result: str | None) -> None:
        """Have the source say what came of it, and tell the end."""
        reply: str | None = None
        try:
            reply = await self._ask_source(inbox_id, result)
        except Exception as error:  # noqa: BLE001 -- the boundary of a call; told by `_said`
            item = self._messages[inbox_id]
            if item.open:
                self._move(inbox_id, InboxStatus.FAILED, _said(error, item))
            else:
                log.warning("no explanation of a failure", id=inbox_id, why=_said(error, item))
        await self._end(inbox_id, reply)

    async def _ask_source(self, inbox_id: str, result: str | None) -> str | None:
        item = self._messages[inbox_id]
        if item.status is InboxStatus.RUNNING and result is not None:
            item = self._move(inbox_id, InboxStatus.REPLYING)
            await self._save(item)
        item = self._messages[inbox_id]
        if item.status is InboxStatus.REPLYING:
            prompt = self.processor.compose_followup(item, result or "")
        elif item.status is InboxStatus.FAILED:
            prompt = failure_prompt(item, item.error_text or "")
        else:
            return None
        request = ChatRequest(
            message=prompt,
            thread=item.source_thread_id,
            name=f"{inbox_id}:reply",
            chain=(item.source_agent_id,),
            context={**item.metadata, "id": inbox_id},
        )
        reply = await self._call(inbox_id, item.source_agent_id, request)
        if self._messages[inbox_id].status is InboxStatus.REPLYING:
            self._move(inbox_id, InboxStatus.DONE)
        return reply if self._messages[inbox_id].status is not InboxStatus.CANCELLED else None

    async def _call(self, inbox_id: str, agent: str, request: ChatRequest) -> str | None:
        """Call an agent; None where the item was cancelled meanwhile, and the call with it."""
        with anyio.CancelScope() as scope:
            self._calls[inbox_id] = scope
            try:
                return extract_call_response(await self._caller.call(agent, request))
            finally:
                del self._calls[inbox_id]
        return None

    async def _end(self, inbox_id: str, reply: str | None) -> None:
        """Tell how an item ended."""
        item = self._messages[inbox_id]
        if item.status is InboxStatus.CANCELLED:
            await self._save(item)  # else it would be taken up again by the next process
        try:
            await self.processor.on_reply(ReplyEvent.of(item, reply))
        except Exception:
            # The boundary of a call: a host's fault holds up no other item.
            log.exception("the end of delegated work could not be told", id=inbox_id)
        await self._save(item, told=True)
        self._settle(inbox_id)
        self._forget_old()

    def _settle(self, inbox_id: str) -> None:
        self._untold.discard(inbox_id)
        if not self._untold:
            self._empty.set()

    def _move(self, inbox_id: str, status: InboxStatus, error: str | None = None) -> InboxMessage:
        item = self._messages[inbox_id].moved(status, self._now(), error)
        self._messages[inbox_id] = item
        return item

    async def _save(self, item: InboxMessage, *, told: bool = False) -> None:
        """Store a move; what cannot be stored is made once more after a restart, by name."""
        if self._store is None:
            return
        try:
            await self._store.put(item, told=told)
        except BridgeError as error:
            log.warning("delegated work is not stored", id=item.id, code=error.code)

    def _forget_old(self) -> None:
        ended = [id for id, item in self._messages.items() if id not in self._untold]
        for inbox_id in ended[: max(0, len(ended) - KEPT)]:
            del self._messages[inbox_id]


def _said(error: Exception, item: InboxMessage) -> str:
    """Return what may be told of an error: ours are written to be read, others stay in the log."""
    if isinstance(error, BridgeError):
        return error.message
    log.error("delegated work failed", id=item.id, exc_info=error)
    return f"It failed ({type(error).__name__})."
