"""`sessions_yield`: the caller says that it has nothing to do until something comes.

It is a pause and never an end: nothing about the session changes. What it waits for comes as a turn
of its own queue; a client that the bridge does not run gets it in the answer. Above is the router.
"""

from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.router.authorize import Action, Target, authorize
from acpbridge.router.directory import Directory
from acpbridge.router.look_requests import YieldRequest
from acpbridge.router.session import Session
from acpbridge.router.subagents import Dispatch
from acpbridge.router.workload import Work, Workload

# A client that pulls is held for so long; then it may ask again. Seconds.
PULL_WAIT: Final = 30

# The tool whose prompts bring completions.
ANNOUNCED_BY: Final = "subagent_announce"

# Deliveries of which the caller has still to hear.
_TO_COME: Final = ("pending", "sent")


class Yielding:
    """Serves those who pause.

    Args:
        directory: the sessions that there are.
        workload: the runs.
        dispatch: calls the tool that has completions.
    """

    def __init__(self, directory: Directory, workload: Workload, dispatch: Dispatch) -> None:
        self._directory = directory
        self._workload = workload
        self._dispatch = dispatch
        self._paused: dict[SessionKey, str] = {}

    async def pause(self, request: YieldRequest, requester: Requester) -> dict[str, Any]:
        """Return what the caller waits for, or what has come for it.

        Raises:
            BridgeError: `nothing_pending` where nothing will come; `invalid_params`.
        """
        if requester.session is None:
            message = "Only an agent pauses; a person looks: acpbridge runs."
            raise BridgeError("invalid_params", message)
        authorize(Action.SEE, requester, Target(requester.session))
        if requester.external:
            return await self._pull(request, requester)
        if request.acknowledgment:
            message = "acknowledgment is for clients that pull completions; yours come as messages."
            raise BridgeError("invalid_params", message)
        pending = await self._pending(requester)
        own = self._directory.get(requester.session)
        if own is not None and _has_come(own):
            what = "Completions wait in your queue: end your turn, and they come as messages."
            return {"status": "deferred", "message": what, "pending": pending}
        if not pending:
            raise _nothing()
        turn = None if own is None or own.turn is None else own.turn.run_id
        again = turn is not None and self._paused.get(requester.session) == turn
        self._paused = {key: run for key, run in self._paused.items() if self._runs(key, run)}
        if turn is not None:
            self._paused[requester.session] = turn
        what = "End your turn now; what you wait for comes as a message. Do not poll."
        status = "already_pending" if again else "yielded"
        return {"status": status, "message": what, "pending": pending}

    async def _pull(self, request: YieldRequest, requester: Requester) -> dict[str, Any]:
        """Return the completions that are held for a client, waiting for one if there is none."""
        taken = request.acknowledgment
        ids = [taken] if isinstance(taken, str) and taken else [*taken]
        found = await self._dispatch("tool/completions", {"acknowledge": ids}, requester)
        if not found["completions"]:
            if await self._pending(requester):
                wait = {"waitSeconds": PULL_WAIT}
                found = await self._dispatch("tool/completions", wait, requester)
            elif not taken:
                raise _nothing()
        return {"status": "yielded", **found, "children": await self._pending(requester)}

    async def _pending(self, requester: Requester) -> list[dict[str, Any]]:
        works = await self._workload.tasks(requester)
        return [
            {
                "runId": work.run.run_id,
                "sessionKey": str(work.session.key),
                "status": work.status,
                "deliveryStatus": work.delivery,
            }
            for work in works
            if _to_come(work)
        ]

    def _runs(self, key: SessionKey, run: str) -> bool:
        session = self._directory.get(key)
        return session is not None and session.turn is not None and session.turn.run_id == run


def _to_come(work: Work) -> bool:
    return not work.over or work.delivery in _TO_COME


def _has_come(session: Session) -> bool:
    return any(
        turn.request.provenance.get("sourceTool") == ANNOUNCED_BY
        for turn in session.inbox.waiting()
    )


def _nothing() -> BridgeError:
    return BridgeError("nothing_pending", "No sub-agent of yours runs, and no completion is due.")
