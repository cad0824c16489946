"""How a message is sent to a session that exists: found, let through, accepted, waited for.

It begins no run of its own: that is `Accepting`'s, and the queue is the target session's. A wait
that is over ends nothing; the run goes on. Above is the router; `envelope` says what goes along.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import anyio

from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import Outcome
from acpbridge.router.accepting import Accepting
from acpbridge.router.addressees import Addressees
from acpbridge.router.api import RunReceipt, RunRequest, RunResult
from acpbridge.router.authorize import Action
from acpbridge.router.directory import Directory
from acpbridge.router.envelope import TOOL, Envelope, seal
from acpbridge.router.runs import Runs
from acpbridge.router.said import final_text
from acpbridge.router.send_requests import SendMode, SendRequest
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.transport.tasks import background

# Who looks at what came of a message; the sender was let through before it was sent.
_SELF: Final = Requester(Role.SYSTEM, client_id="send")

_QUEUED: Final = "queued"


class Sending:
    """Sends messages.

    Args:
        directory: the sessions that there are.
        runs: knows how they end.
        services: log, ids and clock.
        config: the configuration in force.
        accepting: begins runs.
    """

    def __init__(
        self,
        directory: Directory,
        runs: Runs,
        services: Services,
        config: Callable[[], Config],
        accepting: Accepting,
    ) -> None:
        self._directory = directory
        self._runs = runs
        self._services = services
        self._config = config
        self._accepting = accepting
        self._addressees = Addressees(directory)

    async def send(self, request: SendRequest, requester: Requester) -> dict[str, Any]:
        """Serve `sessions_send`.

        Raises:
            BridgeError: it was not sent: `invalid_params`, `no_such_session`, `ambiguous_key`,
                `send_loop`, `not_running`, `busy`, `session_closed`, ...
        """
        target = self._addressees.choose(request, requester)
        sender = self._directory.asking(requester)
        envelope = None if sender is None else self._seal(sender, target, request)
        if request.mode is SendMode.STEER and target.turn is None:
            message = f"Nothing runs in {target.key} that could be steered."
            raise BridgeError("not_running", message)
        receipt = await self._accepting.accept(
            self._run_request(target, sender, envelope, request), requester, Action.SEND
        )
        result = await self._wait(receipt, request.timeout_seconds)
        return await self._told(receipt, result)

    def _seal(self, sender: Session, target: Session, request: SendRequest) -> Envelope:
        if target is sender and request.timeout_seconds:
            message = "A session that waits for itself waits for ever."
            hint = "Send it with timeoutSeconds 0, or just go on."
            raise BridgeError("send_loop", message, hint=hint)
        fresh = str(self._services.ids.uuid4())
        hops = self._config().limits.max_hops
        envelope = seal(sender.key, target.key, sender.turn, max_hops=hops, fresh=fresh)
        return replace(envelope, sub_agent=sender.record.lineage.parent is not None)

    def _run_request(
        self,
        target: Session,
        sender: Session | None,
        envelope: Envelope | None,
        request: SendRequest,
    ) -> RunRequest:
        if envelope is None:
            text, correlation = request.message, str(self._services.ids.uuid4())
            provenance: dict[str, Any] = {
                "kind": "external_user",
                "targetSessionKey": str(target.key),
                "correlationId": correlation,
                "sourceTool": TOOL,
            }
        else:
            text, correlation = envelope.text(request.message), envelope.correlation_id
            provenance = envelope.provenance()
        env = target.env or request.env or ({} if sender is None else sender.env)
        return RunRequest(
            content=({"type": "text", "text": text},),
            session=str(target.key),
            env=env,
            detached=True,
            correlation_id=correlation,
            idempotency_key=request.idempotency_key,
            provenance=provenance,
        )

    # ---- The wait ----

    async def _wait(self, receipt: RunReceipt, seconds: float) -> RunResult | None:
        """Wait for the end of a run; None if that did not come in time."""
        if not seconds:
            return None
        with anyio.CancelScope() as scope:

            async def limit() -> None:
                await self._services.sleep(seconds)
                scope.cancel()

            async with background(limit):
                return await self._runs.result(receipt.run_id, _SELF)
        return None

    async def _told(self, receipt: RunReceipt, result: RunResult | None) -> dict[str, Any]:
        of_run = {"runId": receipt.run_id, "sessionKey": str(receipt.key)}
        if result is None:
            delivery = {"status": "skipped", "mode": "announce"}
            return {
                "status": "accepted",
                **of_run,
                "targetDisposition": _QUEUED,
                "delivery": delivery,
            }
        if result.outcome is Outcome.CANCELLED:
            return {"status": "cancelled", **of_run}
        if result.outcome is not Outcome.COMPLETED:
            return {**_failed(result), **of_run, "sentBeforeError": True}
        text = await final_text(self._services.log, receipt.key, receipt.run_id)
        if not text.strip():
            message = "The turn ended, and nothing visible was said in it."
            return {"status": "no_reply", **of_run, "message": message}
        delivery = {"status": "skipped", "mode": "announce"}
        return {"status": "ok", **of_run, "reply": text, "delivery": delivery}


def _failed(result: RunResult) -> dict[str, Any]:
    error = result.error or {}
    message = error.get("message") or f"The turn ended: {result.stop_reason or result.outcome}."
    if result.outcome is Outcome.TIMED_OUT:
        return {"status": "timeout", "error": message}
    return {"status": "error", "error": message, "errorCode": error.get("code", "turn_failed")}
