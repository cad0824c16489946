"""Completions that are fetched, questions to know of, and what a person does about stuck ones.

Above is the router; beside it is the announcing, which has what is still to be told.
"""

from typing import Any, Final

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.router.announce import Announcing
from acpbridge.router.announce_requests import CompletionsRequest, DeliveriesRequest
from acpbridge.router.attention import attention
from acpbridge.router.authorize import Action, Target, authorize
from acpbridge.router.directory import Directory
from acpbridge.router.dues import Dues
from acpbridge.router.reporting import Reporting
from acpbridge.router.runs import Runs
from acpbridge.router.services import Services
from acpbridge.store.outbox import Settled
from acpbridge.store.records import OutboxEntry

# Of one answer, in characters of results; one alone is always given.
PAGE: Final = 80_000

# What a person may look for: what is over is kept until its session is deleted.
_OPEN: Final = ("pending", "sent", "blocked")
_OVER: Final = ("delivered", "dismissed")

_ATTENTION: Final = "attention:"

# Questions that somebody has taken note of; ids are short, and the oldest are forgotten.
SEEN: Final = 1024


class Completions:
    """Answers what is asked about completions.

    Args:
        directory: the sessions that there are.
        runs: the runs under way.
        services: ledger, broker and tidings.
        dues: what is still to be told.
        announcing: tells of it.
        reporting: makes a completion of a run.
    """

    def __init__(
        self,
        directory: Directory,
        runs: Runs,
        services: Services,
        dues: Dues,
        announcing: Announcing,
        reporting: Reporting,
    ) -> None:
        self._directory = directory
        self._runs = runs
        self._services = services
        self._dues = dues
        self._announcing = announcing
        self._reporting = reporting
        self._seen: dict[tuple[SessionKey, str], None] = {}

    # ---- Those of one session ----

    async def fetch(self, request: CompletionsRequest, requester: Requester) -> dict[str, Any]:
        """Return what a session is to hear of, once there is something or the time is up.

        An agent that the bridge does not run is given a completion until it acknowledges it. To
        one that the bridge runs it is told by being returned here, and in no other way after.

        Raises:
            BridgeError: `permission_denied` for whoever is no session, `store_full`.
        """
        if requester.role is not Role.AGENT or requester.session is None:
            message = "Completions are given to the session that asked for the runs."
            hint = "An operator lists them: acpbridge runs deliveries."
            raise BridgeError("permission_denied", message, hint=hint)
        for name in request.acknowledge:
            await self._acknowledge(name, requester.session)
        with anyio.move_on_after(request.wait_seconds):
            while True:
                news = self._services.tidings.news
                found = await self._found(requester, requester.session)
                if found["completions"]:
                    return found
                await news.wait()
        return await self._found(requester, requester.session)

    async def _acknowledge(self, name: str, key: SessionKey) -> None:
        """Take note that something was taken in; what is not this session's is left alone."""
        if name.startswith(_ATTENTION):
            self._seen[key, name] = None
            while len(self._seen) > SEEN:
                del self._seen[next(iter(self._seen))]
            return
        entry = await self._services.ledger.delivery(name)
        if entry is None or entry.address != str(key):
            return
        note = {"by": "acknowledged", "at": self._services.now()}
        await self._services.ledger.settle_outbox(Settled(name, ("pending",), "delivered", note))
        await self._announcing.withdraw(name)

    async def _found(self, requester: Requester, key: SessionKey) -> dict[str, Any]:
        due = [one for one in await self._dues.all() if one.entry.address == str(key)]
        ready = [one for one in due if self._dues.ready(one)]
        rows = self._attention(key)
        size = given = 0
        for one in ready:
            completion = await self._reporting.completion(one.run)
            size += len(completion.result)
            if given and size > PAGE:
                break
            if requester.external or await self._announcing.claim(one.run.run_id):
                rows.append({"id": one.entry.id, **completion.to_json()})
            given += 1
        pending = len(due) - given + len(self._runs.due(str(key)))
        return {"completions": rows, "pending": pending}

    def _attention(self, key: SessionKey) -> list[dict[str, Any]]:
        """Return what is asked of a person below a session, and was not acknowledged yet."""
        return [
            {"id": _ATTENTION + question.request.id, **attention(question)}
            for question in self._services.broker.questions()
            if key in self._directory.line_above(question.request.session)
            and (key, _ATTENTION + question.request.id) not in self._seen
        ]

    # ---- All of them ----

    async def deliveries(self, request: DeliveriesRequest, requester: Requester) -> dict[str, Any]:
        """List deliveries, or have a person's will done to some; see `DeliveriesRequest`.

        Raises:
            BridgeError: `permission_denied` for whoever is no operator, `invalid_params` for an id
                that there is not, `already_resolved` for one that is over, `store_full`.
        """
        authorize(Action.DELIVERIES, requester, Target())
        if request.action != "list":
            for name in request.ids:
                await self._change(name, request.action)
        states = (*_OPEN, *_OVER) if request.everything or request.ids else _OPEN
        entries = await self._services.ledger.outbox(states)
        wanted = [entry for entry in entries if not request.ids or entry.id in request.ids]
        return {"deliveries": [await self._row(entry) for entry in wanted]}

    async def _change(self, name: str, action: str) -> None:
        ledger, note = self._services.ledger, {"by": "operator", "at": self._services.now()}
        if action == "retry":
            # One that is pending is tried again as it is.
            step = Settled(name, ("blocked", "pending"), "pending", {**note, "quiet": False})
        else:
            step = Settled(name, ("blocked", "pending"), "dismissed", note)
        if not await ledger.settle_outbox(step):
            entry = await ledger.delivery(name)
            if entry is None:
                hint = "List them: acpbridge runs deliveries."
                raise BridgeError("invalid_params", f"There is no delivery {name!r}.", hint=hint)
            raise BridgeError("already_resolved", f"The delivery {name} is {entry.state}.")
        if action == "dismiss":
            await self._announcing.withdraw(name)
        self._services.tidings.tell()

    async def _row(self, entry: OutboxEntry) -> dict[str, Any]:
        run = await self._services.ledger.run(entry.run_id)
        return {
            "id": entry.id,
            "runId": entry.run_id,
            "sessionKey": None if run is None else str(run.session),
            "address": entry.address,
            "state": entry.state,
            "pulled": bool(entry.payload.get("pulled")),
            "attempts": entry.attempts,
            "reason": entry.payload.get("reason"),
            "at": entry.payload.get("at"),
            "task": "" if run is None else run.task,
            "outcome": None if run is None else run.outcome,
        }
