"""How a message is sent to a session that exists: found, let through, accepted, waited for.

It begins no run of its own: that is `Accepting`'s, and the queue is the target session's. A wait
that is over ends nothing; the run goes on, and its end is announced. Above is the router; beside it
are the `envelope` that goes along and the `replies` that come back.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from anyio.abc import TaskGroup

from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.agents import RuntimeKind
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.router import replies
from acpbridge.router.accepting import Accepting
from acpbridge.router.addressees import Addressees
from acpbridge.router.api import RunReceipt, RunRequest
from acpbridge.router.authorize import Action
from acpbridge.router.directory import Directory
from acpbridge.router.envelope import TOOL, Envelope, persons, seal
from acpbridge.router.hearing import Hearing
from acpbridge.router.notes import Note
from acpbridge.router.replyback import Exchange, Replying, talks
from acpbridge.router.send_requests import SendMode, SendRequest
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.waits import Waits
from acpbridge.router.ways import Ways


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
        services: notes, watchers, records and ids.
        config: the configuration in force.
        accepting: begins runs.
        hearing: waits for their ends.
        tasks: outlive a call.
    """

    def __init__(
        self,
        directory: Directory,
        services: Services,
        config: Callable[[], Config],
        accepting: Accepting,
        hearing: Hearing,
        tasks: TaskGroup,
    ) -> None:
        self._directory = directory
        self._services = services
        self._config = config
        self._accepting = accepting
        self._hearing = hearing
        self._replying = Replying(accepting.accept, hearing, services, tasks)
        self._addressees = Addressees(directory)
        self._waits = Waits(self._asked_by)
        self._ways = Ways(directory)

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
        paused = await self._paused(sent) if request.mode is SendMode.RESUME else ""
        if sender is not None and request.timeout_seconds and not paused:
            self._waits.check(sender.key, target.key)
        if sender is not None and request.watch and target is not sender:
            self._services.watching.watch(sender.key, target.key)
        run = self._run_of(sent, requester)
        receipt = await self._accepting.accept(run, requester, Action.SEND)
        self._ways.came(sent.envelope)
        if receipt.repeated and (again := await self._again(sent, receipt)) is not None:
            return again
        if paused:
            return replies.resumed(receipt, paused)
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
        way = self._ways.leading_to(sender, external=requester.external)
        hops = self._config().limits.max_hops
        envelope = seal(sender.key, target.key, sender.turn, way, max_hops=hops, fresh=fresh)
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

    async def _paused(self, sent: _Sent) -> str:
        """Return the run that a paused child had last, which goes on with a message.

        Raises:
            BridgeError: `not_paused`.
        """
        target, sender = sent.target, sent.sender
        runs = await self._services.ledger.runs(target.key)
        owned = sender is None or sender.key in self._directory.line_above(target.key)
        at_rest = target.turn is None and not target.inbox.expected
        if not (owned and runs and at_rest and target.record.runtime == RuntimeKind.PYTHON):
            message = f"{target.key} is no Python agent of yours that has paused."
            raise BridgeError("not_paused", message)
        return max(runs, key=lambda run: run.accepted_at).run_id

    def _run_of(self, sent: _Sent, requester: Requester) -> RunRequest:
        """Return the run that a message begins."""
        request, sender, envelope = sent.request, sent.sender, sent.envelope
        text = request.message if envelope is None else envelope.text(request.message)
        key = request.idempotency_key
        # What runs in a session of ours does not choose in which environment another one runs.
        ours = sender is not None and not requester.external
        given = sender.env if sender is not None and ours else request.env
        limit = self._config().limits.run_timeout_seconds
        return RunRequest(
            content=({"type": "text", "text": text},),
            session=str(sent.target.key),
            env={} if sent.target.env else given,  # what it has, it keeps
            caller_cwd=request.caller_cwd,
            timeout=limit or None if ours else None,
            detached=True,
            correlation_id=sent.correlation,
            idempotency_key=f"send {key}" if key else "",
            provenance=_provenance(sent),
            deliver_to=sent.hears,
            task=request.message,
        )

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
        request, due = sent.request, sent.hears is not None
        result = None
        if request.timeout_seconds:
            with self._waiting(sent):
                result = await self._hearing.end(receipt, request.timeout_seconds, due=due)
        if result is None:
            steer = request.mode is SendMode.STEER
            return replies.accepted(receipt, announced=due, steer=steer)
        text, talks = await self._hearing.reply(receipt), self._talks(sent)
        told = replies.ended(receipt, result, text, pending=talks)
        if talks and told["status"] == "ok" and sent.envelope is not None:
            self._replying.begin(Exchange(sent.envelope, request.message, text))
        return told

    def _waiting(self, sent: _Sent) -> AbstractContextManager[None]:
        if sent.sender is None:
            return nullcontext()
        return self._waits.waiting(sent.sender.key, sent.target.key)

    def _talks(self, sent: _Sent) -> bool:
        sender = sent.sender
        if sender is None or sent.envelope is None or sent.hears is None:
            return False
        below = sender.key in self._directory.line_above(sent.target.key)
        return talks(sent.envelope, below=below)


def _provenance(sent: _Sent) -> dict[str, Any]:
    if sent.envelope is not None:
        return sent.envelope.provenance()
    return {
        "kind": "external_user",
        "targetSessionKey": str(sent.target.key),
        "correlationId": sent.correlation,
        "sourceTool": TOOL,
    }
