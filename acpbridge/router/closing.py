"""How a session ends, as it is put on record and told: for good, or until it is taken up again.

Above is the session, which ends its turn and its process; below are its record and its log.
"""

from typing import Final

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.events import SESSION_END, Fact
from acpbridge.model.permission import Reason
from acpbridge.model.sessions import LIVE_STATES, CloseReason, SessionState
from acpbridge.router.book import Book
from acpbridge.router.host import Host
from acpbridge.router.life import Life
from acpbridge.router.mending import missing_ends
from acpbridge.router.opening import REFUSED
from acpbridge.router.services import Services

log = structlog.get_logger(__name__)

# That a session is closed is told its log if that can be opened in so long: a disk that hangs
# keeps nobody from ending anything. Seconds.
CLOSED_WAIT: Final = 1.0


class Closing:
    """The end of one session.

    Args:
        book: its record.
        host: of its turns; allows nothing more once the end has begun.
        services: its log, and the broker of its questions.
    """

    def __init__(self, book: Book, host: Host, services: Services) -> None:
        self._book = book
        self._host = host
        self._services = services
        self._reason: CloseReason | None = None

    def begin(self, reason: CloseReason | None) -> None:
        """Refuse all further work, and allow nothing more; see `Session.mark_ending`."""
        self._host.closing = True
        self._reason = self._reason or reason
        self._host.because = self._reason or Reason.STOPPING
        if self._book.record.state in LIVE_STATES:
            self._book.note(state=SessionState.STOPPING)
        self._services.broker.withdraw(self._book.record.key, Reason.CANCELLED)
        if reason is not None:
            self._services.remarks.forget(self._book.record.key)
            self._services.notes.forget(self._book.record.key)
            self._services.watching.changed(self._book.record.key, {"type": f"closed: {reason}"})
            self._services.watching.forget(self._book.record.key)
        self._services.scribe.put(self._services.broker.tell)

    async def finish(self) -> None:
        """Put the end on record, and have whoever follows know of it; nothing of it runs."""
        state = self._book.record.state
        if state is not self._after and (state in LIVE_STATES or self._reason is not None):
            self.note(self._after)
            await self._book.save()
        await self._tell()

    async def _tell(self) -> None:
        """Have whoever follows know that nothing will come any more, if it can be told."""
        if self._book.record.state is not SessionState.CLOSED:
            return
        try:
            with anyio.move_on_after(CLOSED_WAIT):
                await self.open_log()
        except BridgeError as error:
            log.warning("a closed session's log cannot be written", code=error.code)

    async def open_log(self) -> int:
        """Make the session's log known; return its last number.

        What an earlier daemon could not say any more is said first, each once: how its turns and
        questions ended, and that the session is closed.

        Raises:
            BridgeError: `store_full`, `daemon_version`, as `SessionLog.open` does.
        """
        key, services = self._book.record.key, self._services
        try:
            await services.log.open(key, lambda traces: missing_ends(key, traces, services.ledger))
        except BridgeError as error:
            if error.code != "internal":
                raise
            # Some of it cannot be read: that is no reason to prompt the session no more.
            log.warning("nobody knows what a log lacks", key=str(key), why=error.message)
            await services.log.open(key)
        if self._book.record.state is SessionState.CLOSED and not services.log.closed(key):
            self._host.emit(Fact(SESSION_END, {"reason": self._book.record.close_reason}))
        return services.log.last_seq(key)

    @property
    def _after(self) -> SessionState:
        return SessionState.IDLE if self._reason is None else SessionState.CLOSED

    def state_after(self, life: Life, error: BridgeError | None) -> SessionState:
        """Return the state of the session after one process, by how that ended."""
        if self._host.closing:
            return self._after
        if error is not None and not life.opened:
            return SessionState.IDLE if error.code in REFUSED else SessionState.FAILED
        if error is not None:
            return SessionState.DIED
        return SessionState.IDLE if life.died is None else SessionState.DIED

    def note(self, state: SessionState) -> None:
        """Put a state on record, with the reason if it is the last."""
        reason = self._reason if state is SessionState.CLOSED else None
        self._book.note(state=state, close_reason=reason)
