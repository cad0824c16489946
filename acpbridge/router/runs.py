"""The runs that are under way, and how a run ended."""

from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import Outcome
from acpbridge.router.api import RunResult
from acpbridge.router.authorize import Action
from acpbridge.router.directory import Directory
from acpbridge.router.session import Session
from acpbridge.router.turns import Turn
from acpbridge.store.ledger import Ledger


class Runs:
    """Runs by id: in memory until their outcome is in the ledger, and there from then on."""

    def __init__(self, ledger: Ledger, directory: Directory) -> None:
        self._ledger = ledger
        self._directory = directory
        self._known: dict[str, tuple[Session, Turn]] = {}

    def add(self, session: Session, turn: Turn) -> None:
        """Take in a run that was accepted, and forget those that are on record by now."""
        self._known = {i: known for i, known in self._known.items() if not known[1].stored}
        self._known[turn.run_id] = (session, turn)

    def forget(self, keys: set[SessionKey]) -> None:
        """Know no more of the runs of sessions that are deleted."""
        self._known = {i: known for i, known in self._known.items() if known[0].key not in keys}

    def left_by(self, client_id: str) -> list[tuple[Session, Turn]]:
        """Return what a client wanted for itself and has not got yet."""
        return [
            (session, turn)
            for session, turn in self._known.values()
            if turn.request.requester.client_id == client_id
            and not turn.request.detached
            and not turn.done.is_set()
        ]

    def turn(self, run_id: str) -> tuple[Session, Turn] | None:
        """Return a run's session and turn while they are known, None for one of long ago."""
        return self._known.get(run_id)

    def due(self, address: str) -> list[tuple[Session, Turn]]:
        """Return the runs under way of whose end a session is to hear."""
        return [
            known
            for known in self._known.values()
            if known[1].request.delivery == address and not known[1].done.is_set()
        ]

    async def result(self, run_id: str, requester: Requester) -> RunResult:
        """Wait for the end of a run.

        Raises:
            BridgeError: `no_such_session`, also for one that the requester may not see.
        """
        known = self._known.get(run_id)
        if known is not None:
            session, turn = known
            self._check(run_id, session.key, requester)
            await turn.done.wait()
            assert turn.outcome is not None
            error = None if turn.error is None else turn.error.to_json()
            return RunResult(run_id, turn.outcome, turn.stop_reason, error)
        record = await self._ledger.run(run_id)
        if record is None or record.outcome is None:
            raise _no_such_run(run_id)
        self._check(run_id, record.session, requester)
        return RunResult(run_id, Outcome(record.outcome), record.stop_reason, record.error)

    def _check(self, run_id: str, key: SessionKey, requester: Requester) -> None:
        if not self._directory.may(Action.SEE, requester, key):
            raise _no_such_run(run_id)


def _no_such_run(run_id: str) -> BridgeError:
    return BridgeError("no_such_session", f"There is no run {run_id!r}.")
