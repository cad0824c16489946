"""How turns and sessions are ended, and what is said of it: receipts of what is proven.

An end that was begun is seen through: it runs in a task of the router's, and whoever asked for it
may go away meanwhile. A full disk or a failing audit keeps nobody from ending anything.
"""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import structlog
from anyio.abc import TaskGroup

from acpbridge.controller.census import ProcessInfo
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import CloseReason
from acpbridge.permissions.audit import Audit
from acpbridge.router.authorize import Action, Target, may
from acpbridge.router.directory import Directory
from acpbridge.router.family import Family
from acpbridge.router.inner_requests import INNER
from acpbridge.router.leftover import left_running
from acpbridge.router.receipts import CancelReceipt, KillReceipt
from acpbridge.router.session import Session
from acpbridge.router.surroundings import Inspector
from acpbridge.router.turns import Turn
from acpbridge.transport.tasks import background

log = structlog.get_logger(__name__)

T = TypeVar("T")

# The grace of the ladder for a turn whose client has vanished. Seconds.
VANISHED_GRACE: Final = 2.0

# A stop is polite for so long; what is left is killed at once, and the rest of the eight seconds is
# for the proof. Seconds.
POLITE: Final = 7.0

# A note in the audit holds up an end for so long at most. Seconds.
NOTE_WAIT: Final = 1.0

# Who ends what a dead session has spawned.
_LINEAGE: Final = Requester(Role.SYSTEM, client_id="lineage")


class Ending:
    """Ends turns and sessions.

    Args:
        directory: the sessions that there are.
        inspector: what really runs.
        audit: has who ended what.
        tasks: outlive whoever asks.
    """

    def __init__(
        self, directory: Directory, inspector: Inspector, audit: Audit, tasks: TaskGroup
    ) -> None:
        self._directory = directory
        self._inspector = inspector
        self._audit = audit
        self._tasks = tasks

    async def cancel(self, key: str, grace: float, requester: Requester) -> CancelReceipt:
        """End the running turn; see `RouterApi.cancel`."""
        session = self._directory.find(key, requester, Action.CANCEL)

        async def work() -> CancelReceipt:
            below: list[CancelReceipt] = []
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._cancel_below, session.turn, grace, below)
                rung, ended, stop_reason = await session.cancel(grace)
            ended = ended and all(receipt.turn_ended for receipt in below)
            await self.note("cancel", session.key, requester, rung=rung, ended=ended)
            left = await left_running(session, self._inspector.processes)
            return CancelReceipt(session.key, rung, ended, stop_reason, tuple(below), left)

        return await self.seen_through(work)

    async def _cancel_below(
        self, turn: Turn | None, grace: float, receipts: list[CancelReceipt]
    ) -> None:
        """Cancel what a turn's agent has asked for in other sessions, wherever that waits or runs.

        To stop a run stops what it has started. The sessions stay, and so does what was asked for
        by earlier turns.
        """
        below = [] if turn is None else self._directory.turns_below(turn)

        async def one(session: Session, turn: Turn) -> None:
            if session.turn is turn:
                rung, ended, stop_reason = await session.cancel(grace)
                left = await left_running(session, self._inspector.processes)
                receipts.append(CancelReceipt(session.key, rung, ended, stop_reason, left=left))
            else:
                await session.cancel_turn(turn, grace)

        async with anyio.create_task_group() as tasks:
            for session, asked in below:
                tasks.start_soon(one, session, asked)

    async def close(self, key: str, requester: Requester) -> SessionKey:
        """End a session politely, with its children; see `RouterApi.close`."""
        session = self._directory.find(key, requester, Action.CLOSE)
        receipts = await self._end("close", [session], CloseReason.CLOSED, None, requester)
        left = sorted(pid for receipt in receipts for pid in receipt.survivors)
        if left:
            message = f"Processes of {session.key} are left: {left}."
            raise BridgeError("survivors", message, data={"survivors": left})
        return session.key

    async def end_below(self, session: Session) -> tuple[int, ...]:
        """End all that a session has spawned, as by a kill, for it is reset (G12).

        Returns:
            The pids that are left.
        """
        family = self._below(session)
        receipts = await self._end_all(family, dict.fromkeys(family, CloseReason.PARENT), None)
        return tuple(pid for receipt in receipts for pid in receipt.survivors)

    def bereaved(self, session: Session) -> None:
        """Begin to end what a session has spawned whose process is dead: nobody waits for it."""
        family = self._below(session)
        if not family:
            return
        why = dict.fromkeys(family, CloseReason.PARENT)
        self._mark(why)
        self._tasks.start_soon(self._end_bereaved, session, why)

    def orphaned(self) -> None:
        """Begin to close what is not, although somebody above it is: an earlier daemon's.

        It was killed past that daemon, or the daemon ended before it could write it down; or it is
        a role, whose work was done by a process that is gone.
        """
        sessions = list(self._directory)
        above = self._directory.above(sessions)
        closed = {session.key for session in sessions if session.closed}
        for session in sessions:
            lost = session.record.runtime == INNER or not closed.isdisjoint(above[session.key])
            if not session.closed and lost:
                session.mark_ending(CloseReason.PARENT)
                self._tasks.start_soon(self._end_one, session, CloseReason.PARENT, 0.0, [])

    async def _end_bereaved(self, dead: Session, why: dict[Session, CloseReason]) -> None:
        try:
            keys = [str(session.key) for session in why]
            await self._end_all(list(why), why, None)
            await self.note("bereaved", dead.key, _LINEAGE, ended=keys)
        except Exception:
            # The top of a task.
            log.exception("what a dead session has spawned could not be ended", key=str(dead.key))

    def _below(self, session: Session) -> list[Session]:
        return [s for s in self._directory.with_descendants([session])[1:] if not s.closed]

    async def kill(
        self, keys: list[str], grace: float | None, requester: Requester
    ) -> list[KillReceipt]:
        """End sessions with all below them; see `RouterApi.kill`."""
        targets: dict[SessionKey, Session] = {}
        wrong: dict[str, BridgeError] = {}
        for key in keys:
            try:
                session = self._directory.find(key, requester, Action.KILL)
            except BridgeError as error:
                wrong[key] = error  # no reason to let the others live
            else:
                targets[session.key] = session
        receipts: list[KillReceipt] = []
        if targets:
            chosen = list(targets.values())
            receipts = await self._end("kill", chosen, CloseReason.KILLED, grace, requester)
        if wrong:
            raise _not_all(wrong, receipts)
        return receipts

    async def end_unowned(self, requester: Requester) -> list[KillReceipt]:
        """End what nobody owns; see `RouterApi.end_unowned`."""
        if not may(Action.KILL, requester, Target()):
            return []  # an agent ends what is below itself, and nothing else

        async def work() -> list[KillReceipt]:
            began = time.monotonic()
            dead, left = await self._inspector.end_unowned()
            took = round((time.monotonic() - began) * 1000)
            if not dead and not left:
                return []
            await self.note("kill", None, requester, unowned=[*dead, *left])
            return [KillReceipt(None, tuple(dead), tuple(sorted(left)), took)]

        return await self.seen_through(work)

    def vanished(self, left: list[tuple[Session, Turn]]) -> None:
        """Begin to cancel turns that nobody waits for any more."""
        for session, turn in left:
            self._tasks.start_soon(self._give_up, session, turn)

    async def stop(self) -> None:
        """End every turn, question and tree, side by side, and leave the sessions idle."""
        for session in self._directory:
            session.mark_ending(None)
        async with background(self._hurry), anyio.create_task_group() as tasks:
            for session in self._directory:
                if session.active:
                    tasks.start_soon(self._end_one, session, None, None, [])

    async def _hurry(self) -> None:
        """Take the last step with whatever has not ended politely in time (G29)."""
        await anyio.sleep(POLITE)
        async with anyio.create_task_group() as tasks:
            for session in self._directory:
                if session.active:
                    tasks.start_soon(self._end_one, session, None, 0.0, [])

    async def _give_up(self, session: Session, turn: Turn) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._cancel_below, turn, VANISHED_GRACE, [])
                await session.cancel_turn(turn, VANISHED_GRACE)
        except Exception:
            # The top of a task.
            log.exception("a vanished client's turn could not be cancelled", run=turn.run_id)

    async def _end(
        self,
        kind: str,
        targets: list[Session],
        reason: CloseReason,
        grace: float | None,
        requester: Requester,
    ) -> list[KillReceipt]:
        family = self._directory.with_descendants(targets)
        ending = [s for s in family if s in targets or not s.closed]
        why = {s: reason if s in targets else CloseReason.PARENT for s in ending}
        self._mark(why)

        async def work() -> list[KillReceipt]:
            receipts: list[KillReceipt] = []
            async with anyio.create_task_group() as tasks:
                for session in targets:
                    tasks.start_soon(partial(self.note, kind, session.key, requester, grace=grace))
                receipts += await self._end_all(ending, why, grace)
            return receipts

        return await self.seen_through(work)

    def _mark(self, why: dict[Session, CloseReason]) -> None:
        """Have a whole lineage closing before the first signal: nothing is spawned below (G12)."""
        for session, reason in why.items():
            session.mark_ending(reason)

    async def _end_all(
        self, ending: list[Session], why: dict[Session, CloseReason], grace: float | None
    ) -> list[KillReceipt]:
        """End sessions, the deepest first, and return their receipts in the order given."""
        self._mark(why)
        family = Family(ending, self._directory.above(ending))
        receipts: list[KillReceipt] = []
        async with anyio.create_task_group() as tasks:
            for session in ending:
                tasks.start_soon(self._end_one, session, why[session], grace, receipts, family)
        order: list[SessionKey | None] = [session.key for session in ending]
        return sorted(receipts, key=lambda receipt: order.index(receipt.key))

    async def _end_one(
        self,
        session: Session,
        reason: CloseReason | None,
        grace: float | None,
        receipts: list[KillReceipt],
        family: Family | None = None,
    ) -> None:
        """End one session whatever happens to others, and look afresh at what is left of it."""
        began = time.monotonic()
        name = str(session.key)
        before: list[ProcessInfo] = []
        left: tuple[int, ...] = ()
        try:
            before = await self._inspector.processes(name)
            first = None if family is None else partial(family.below, session.key)
            left = await session.end(reason, grace, first)
        except Exception:
            # The top of a task: the others are ended all the same.
            log.exception("a session could not be ended", key=name)
        finally:
            if family is not None:
                family.ended(session.key)
        # What was born since is in the shim's own report, or still there under this name.
        now = await self._inspector.processes(name)
        alive = {
            *left,
            *await self._inspector.alive(before, left),
            *(process.pid for process in now),
        }
        killed = tuple(process.pid for process in before if process.pid not in alive)
        took = round((time.monotonic() - began) * 1000)
        receipts.append(KillReceipt(session.key, killed, tuple(sorted(alive)), took))

    async def seen_through(self, work: Callable[[], Awaitable[T]]) -> T:
        """Have work done to its end, even if its caller is cancelled."""
        results: list[T] = []
        failures: list[Exception] = []
        done = anyio.Event()

        async def run() -> None:
            try:
                results.append(await work())
            except Exception as error:  # noqa: BLE001 -- the top of a task; raised where it is awaited
                failures.append(error)
            finally:
                done.set()

        self._tasks.start_soon(run)
        await done.wait()
        if failures:
            raise failures[0]
        if not results:
            raise BridgeError("daemon_stopping", "The daemon was stopped meanwhile.")
        return results[0]

    async def note(
        self, kind: str, key: SessionKey | None, requester: Requester, **fields: Any
    ) -> None:
        """Tell the audit, if it can be told."""
        session = "" if key is None else str(key)
        values = {"session": session, "by": requester.label(), "pid": requester.pid, **fields}
        try:
            with anyio.move_on_after(NOTE_WAIT):
                await self._audit.note(kind, values)
        except BridgeError as error:
            log.warning("the audit was not told", kind=kind, key=str(key), code=error.code)


def _not_all(wrong: dict[str, BridgeError], receipts: list[KillReceipt]) -> BridgeError:
    """Return the error of a kill with wrong keys, with all that it did."""
    first, *more = wrong.values()
    message = " ".join(error.message for error in (first, *more))
    data = {
        **first.data,
        "results": [receipt.to_json() for receipt in receipts],
        "unknown": {key: error.to_json() for key, error in wrong.items()},
    }
    return BridgeError(first.code, message, hint=first.hint, data=data)
