"""The sessions of a served agent: a task for each, which owns its runtime and runs its prompts.

Above is `serve`, which reads what the client wants. Prompts of one session run one after another,
in the order in which they came; a cancel ends the running one and those that wait.
"""

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import anyio
from anyio.abc import TaskStatus

from acpbridge.errors import BridgeError
from acpbridge.logline import Logger
from acpbridge.model.events import Event, Update
from acpbridge.model.permission import Decision, PermissionAsk, Reason
from acpbridge.permissions import policy
from acpbridge.protocol.jsonrpc import Call
from acpbridge.runtimes.base import New, Runtime, RuntimeSession, SessionSpec
from acpbridge.transport.connection import Connection

log = Logger(__name__)

# Prompts that may wait in one session; an editor sends one at a time.
WAITING_LIMIT: Final = 20

PERMISSION: Final = "session/request_permission"

CANCELLED: Final[Mapping[str, Any]] = {"stopReason": "cancelled"}


class Job:
    """A prompt on its way: the call that brought it, and what becomes of it."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.content: tuple[Mapping[str, Any], ...] = ()
        self.cancelled = False
        self.session: ServedSession | None = None
        self._done = anyio.Event()
        self._result: Mapping[str, Any] = {}
        self._error: BridgeError | None = None

    @property
    def wanted(self) -> bool:
        """Whether it is to be run at all: not cancelled, and not taken back."""
        return self._call.open and not self.cancelled

    def finish(self, result: Mapping[str, Any]) -> None:
        """End it with a result."""
        self._result = result
        self._done.set()

    def fail(self, error: BridgeError) -> None:
        """End it with an error."""
        self._error = error
        self._done.set()

    async def result(self) -> Mapping[str, Any]:
        """Wait for its end; whoever stops waiting cancels it."""
        try:
            await self._done.wait()
        except anyio.get_cancelled_exc_class():
            if self.session is not None:
                self.session.drop(self)
            raise
        if self._error is not None:
            raise self._error
        return self._result


class ClientHost:
    """The host of one session: what its agent says and asks goes to the client."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._id: str | None = None
        self._early: list[Update] = []

    def opened(self, session_id: str) -> None:
        """Take the session's id; what was said before it was known is sent now."""
        self._id = session_id
        for update in self._early:
            self.emit(update)
        self._early.clear()

    def emit(self, event: Event) -> None:
        """Send an update with the bytes that it came with; nothing else concerns the client."""
        if not isinstance(event, Update):
            return
        if self._id is None:
            self._early.append(event)
            return
        head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%s,"update":'
        name = json.dumps(self._id).encode("ascii")
        self._connection.send_raw(head % name + event.raw + b"}}\n")

    async def room(self) -> None:
        """Wait until the client has read enough."""
        await self._connection.drained()

    async def ask(self, ask: PermissionAsk) -> Decision:
        """Ask the client; whatever is not a clear answer denies."""
        subject = ask.subject
        told = {
            "rawInput": subject.raw_input,
            "locations": [{"path": path} for path in subject.locations] or None,
            "content": [dict(item) for item in subject.content] or None,
        }
        params = {
            "sessionId": self._id,
            "toolCall": {
                "toolCallId": subject.tool_call_id,
                "title": subject.title,
                "kind": str(subject.kind),
                **{name: value for name, value in told.items() if value is not None},
            },
            "options": [option.to_json() for option in ask.options],
        }
        try:
            result = await self._connection.request(PERMISSION, params, retract=True)
        except BridgeError as error:
            if error.code == "connection_closed":
                # Whoever was asked has gone, and the turn is over with that (row 25).
                return policy.cancellation(Reason.CANCELLED)
            return policy.denial(ask, Reason.MALFORMED, note=error.message)
        return read_decision(ask, result)

    def lost(self) -> None:
        """The code runs in this very process: with it all of this is gone."""

    async def call(self, method: str, params: Any) -> Any:
        """Relay any other request to the client."""
        if not isinstance(params, dict):
            raise BridgeError("invalid_params", f"The parameters of {method} are not an object.")
        return await self._connection.request(method, params, retract=True)


def read_decision(ask: PermissionAsk, result: Any) -> Decision:
    """Return what a client's answer comes to: only an id that was offered is ever an allow."""
    outcome = result.get("outcome") if isinstance(result, dict) else None
    word = outcome.get("outcome") if isinstance(outcome, dict) else None
    if word == "cancelled":
        return policy.cancellation(Reason.CANCELLED)
    if isinstance(outcome, dict) and word == "selected":
        chosen = outcome.get("optionId")
        found = [option for option in ask.options if option.option_id == chosen]
        if isinstance(chosen, str) and len(found) == 1:
            return Decision(policy.effect_of(found[0]), chosen, Reason.OPERATOR)
    return policy.denial(ask, Reason.MALFORMED, note="The client's answer is not one.")


class ServedSession:
    """One session: its runtime, its prompts, its end."""

    def __init__(self, runtime: Runtime, spec: SessionSpec, host: ClientHost) -> None:
        self._runtime = runtime
        self._spec = spec
        self._host = host
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._more = anyio.Event()
        self._closing = False
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._session: RuntimeSession | None = None

    async def run(self, *, task_status: TaskStatus[Mapping[str, Any]]) -> None:
        """Open the session, tell the answer, and run prompts until it is closed."""
        try:
            with self._scope:
                async with self._runtime.connect(self._spec, self._host) as session:
                    result = await session.open(New())
                    self._session = session
                    self._host.opened(result["sessionId"])
                    task_status.started(result)
                    await self._work(session)
        finally:
            self._ended.set()

    def end(self) -> None:
        """End it at once, whatever it does; there is nobody left to tell."""
        self._scope.cancel()

    async def _work(self, session: RuntimeSession) -> None:
        while True:
            while self._waiting:
                self._running = self._waiting.popleft()
                await self._run(session, self._running)
                self._running = None
            if self._closing:
                return
            await self._more.wait()
            self._more = anyio.Event()

    async def _run(self, session: RuntimeSession, job: Job) -> None:
        if not job.wanted:
            job.finish(CANCELLED)
            return
        try:
            job.finish((await session.prompt(job.content)).raw)
        except BridgeError as error:
            job.fail(error)
        except Exception:
            # The boundary of a call: the text of an unknown error stays in the log.
            log.exception("the turn failed")
            job.fail(BridgeError("internal", "acpbridge failed to run this turn."))

    # What the client wants, from its own tasks.

    @property
    def session(self) -> RuntimeSession:
        """The runtime's session, once it is open."""
        assert self._session is not None
        return self._session

    def add(self, job: Job) -> None:
        """Queue a prompt.

        Raises:
            BridgeError: `busy`, when too many wait.
        """
        if len(self._waiting) >= WAITING_LIMIT:
            raise BridgeError("busy", f"{WAITING_LIMIT} prompts wait already.")
        job.session = self
        self._waiting.append(job)
        self._more.set()

    def cancel(self) -> None:
        """End the running prompt and those that wait, each with `cancelled`."""
        for job in self._waiting:
            job.cancelled = True
        if self._running is not None:
            self.session.cancel()

    def drop(self, job: Job) -> None:
        """End one prompt that nobody waits for any more."""
        job.cancelled = True
        if job is self._running:
            self.session.cancel()

    async def close(self) -> None:
        """Cancel what there is, end the session and free it."""
        self.cancel()
        self._closing = True
        self._more.set()
        try:
            await self.session.close()
        finally:
            await self._ended.wait()
