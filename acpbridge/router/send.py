"""How a message is sent to a session that exists: found, let through, accepted, waited for.

It begins no run of its own: that is `Accepting`'s, and the queue is the target session's. A wait
that is over ends nothing; the run goes on, and its end is announced. Above is the router; beside it
are the `envelope` that goes along and the `replies` that come back.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import anyio

from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.router import replies
from acpbridge.router.accepting import Accepting
from acpbridge.router.addressees import Addressees
from acpbridge.router.api import RunReceipt, RunRequest, RunResult
from acpbridge.router.authorize import Action
from acpbridge.router.directory import Directory
from acpbridge.router.envelope import TOOL, Envelope, persons, seal
from acpbridge.router.notes import Note
from acpbridge.router.runs import Runs
from acpbridge.router.said import final_text
from acpbridge.router.send_requests import SendMode, SendRequest
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.waits import Waits
from acpbridge.transport.tasks import background

# Who looks at what came of a message; the sender was let through before it was sent.
_SELF: Final = Requester(Role.SYSTEM, client_id="send")


class Announcer(Protocol):
    """Tells a session of the end of what it has asked for."""

    def holding(self, run_id: str) -> Any:
        """Return a context within which nobody is told of the end of a run."""
        ...

    async def claim(self, run_id: str) -> bool:
        """Take a completion that was got otherwise; False if it is told already."""
        ...


class Unannounced:
    """Where nobody is told of anything."""

    @contextmanager
    def holding(self, run_id: str) -> Iterator[None]:
        """Hold nothing."""
        del run_id
        yield

    async def claim(self, run_id: str) -> bool:
        """Find nothing to take."""
        del run_id
        return True


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message on its way.

    Attributes:
        request: as it was asked.
        target: who gets it.
        sender: who sends it; None for a person.
        envelope: of it; None for a person's.
        correlation: joins what belongs to one piece of work.
    """

    request: SendRequest
    target: Session
    sender: Session | None
    envelope: Envelope | None
    correlation: str

    @property
    def hears(self) -> SessionKey | None:
        """The session that is told of the end of the run, None where nobody is."""
        sender = self.sender
        return None if sender is None or sender is self.target else sender.key


class Sending:
    """Sends messages.

    Args:
        directory: the sessions that there are.
        runs: knows how they end.
        services: log, notes, ids and clock.
        config: the configuration in force.
        accepting: begins runs.
        announcer: tells senders of the end of what they did not wait for.
    """

    def __init__(
        self,
        directory: Directory,
        runs: Runs,
        services: Services,
        config: Callable[[], Config],
        accepting: Accepting,
        announcer: Announcer,
    ) -> None:
        self._directory = directory
        self._runs = runs
        self._services = services
        self._config = config
        self._accepting = accepting
        self._announcer = announcer
        self._addressees = Addressees(directory)
        self._waits = Waits(self._asked_by)

    async def send(self, request: SendRequest, requester: Requester) -> dict[str, Any]:
        """Serve `sessions_send`.

        Raises:
            BridgeError: it was not sent: `invalid_params`, `no_such_session`, `ambiguous_key`,
                `permission_denied`, `send_loop`, `not_running`, `busy`, `session_closed`, ...
        """
        sent = self._sealed(request, requester)
        target, sender = sent.target, sent.sender
        if request.mode is SendMode.NOTIFY:
            return self._note(sent)
        if request.mode is SendMode.STEER and target.turn is None:
            raise BridgeError("not_running", f"Nothing runs in {target.key} that could be steered.")
        if sender is not None and request.timeout_seconds:
            self._waits.check(sender.key, target.key)
        receipt = await self._accepting.accept(_run_of(sent), requester, Action.SEND)
        if receipt.repeated and (again := await self._again(sent, receipt)) is not None:
            return again
        return await self._outcome(sent, receipt)

    def _sealed(self, request: SendRequest, requester: Requester) -> _Sent:
        """Find the target, and whether the sender may send it this; nothing is awaited."""
        target = self._addressees.choose(request, requester)
        target.check_open()
        fresh = str(self._services.ids.uuid4())
        sender = self._directory.asking(requester)
        if sender is None:
            return _Sent(request, target, None, None, fresh)
        spawned = sender.record.lineage.parent is not None
        below = sender.key in self._directory.line_above(target.key)
        if spawned and not below and target is not sender:
            message = "What was spawned sends messages only to what it has spawned itself."
            hint = "Say it in your answer: whoever has spawned you gets that."
            raise BridgeError("permission_denied", message, hint=hint)
        hops = self._config().limits.max_hops
        envelope = seal(sender.key, target.key, sender.turn, max_hops=hops, fresh=fresh)
        envelope = replace(envelope, sub_agent=spawned)
        return _Sent(request, target, sender, envelope, envelope.correlation_id)

    def _asked_by(self, key: SessionKey) -> set[SessionKey]:
        session = self._directory.get(key)
        return set() if session is None else self._directory.asked_by(session)

    def _note(self, sent: _Sent) -> dict[str, Any]:
        """Keep a message for the next turn of its target."""
        note_id, message = str(self._services.ids.uuid4()), sent.request.message
        text = persons(message) if sent.envelope is None else sent.envelope.text(message)
        self._services.notes.add(sent.target.key, Note(note_id, text, _provenance(sent)))
        return replies.noted(sent.target, note_id)

    # ---- What came of it ----

    async def _again(self, sent: _Sent, receipt: RunReceipt) -> dict[str, Any] | None:
        """Return what there is to say of a message that was sent before; None if that has ended."""
        if receipt.key != sent.target.key:
            message = "idempotencyKey: it belongs to a message for another session."
            raise BridgeError("invalid_params", message)
        record = await self._services.ledger.run(receipt.run_id)
        ended = record is not None and record.outcome is not None
        return None if ended else replies.under_way(receipt)

    async def _outcome(self, sent: _Sent, receipt: RunReceipt) -> dict[str, Any]:
        seconds, sender = sent.request.timeout_seconds, sent.sender
        steer = sent.request.mode is SendMode.STEER
        if not seconds:
            return replies.accepted(receipt, announced=sent.hears is not None, steer=steer)
        waits = (
            nullcontext() if sender is None else self._waits.waiting(sender.key, sent.target.key)
        )
        with self._announcer.holding(receipt.run_id), waits:
            result = await self._wait(receipt, seconds)
            if result is None:
                return replies.accepted(receipt, announced=sent.hears is not None, steer=steer)
            if sent.hears is not None:
                await self._announcer.claim(receipt.run_id)  # nobody is told twice (case 133)
        text = await final_text(self._services.log, receipt.key, receipt.run_id)
        return replies.ended(receipt, result, text)

    async def _wait(self, receipt: RunReceipt, seconds: float) -> RunResult | None:
        """Wait for the end of a run; None if that did not come in time."""
        with anyio.CancelScope() as scope:

            async def limit() -> None:
                await self._services.sleep(seconds)
                scope.cancel()

            async with background(limit):
                return await self._runs.result(receipt.run_id, _SELF)
        return None


def _provenance(sent: _Sent) -> dict[str, Any]:
    if sent.envelope is not None:
        return sent.envelope.provenance()
    return {
        "kind": "external_user",
        "targetSessionKey": str(sent.target.key),
        "correlationId": sent.correlation,
        "sourceTool": TOOL,
    }


def _run_of(sent: _Sent) -> RunRequest:
    """Return the run that a message begins."""
    request, sender, envelope = sent.request, sent.sender, sent.envelope
    text = request.message if envelope is None else envelope.text(request.message)
    key = request.idempotency_key
    env = sent.target.env or request.env or ({} if sender is None else sender.env)
    return RunRequest(
        content=({"type": "text", "text": text},),
        session=str(sent.target.key),
        env=env,
        caller_cwd=request.caller_cwd,
        detached=True,
        correlation_id=sent.correlation,
        idempotency_key=f"send {key}" if key else "",
        provenance=_provenance(sent),
        deliver_to=sent.hears,
        task=request.message,
    )
