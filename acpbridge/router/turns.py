"""One turn and the inbox it waits in: values with their events, no tasks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.messages import PromptRequest
from acpbridge.model.sessions import CancelRung, Outcome, TurnState, WaitsFor
from acpbridge.router.errands import Errand
from acpbridge.store.records import OutboxEntry, completion

_LADDER: Final = tuple(CancelRung)

# Of a prompt, characters that are looked through for what its run is about.
TASK_READ: Final = 4000

# Prompts that may wait in one session, and their text in characters; one alone always may.
INBOX_LIMIT: Final = 20
INBOX_SIZE: Final = 32 * 1024 * 1024


def text_of(content: Iterable[Mapping[str, Any]]) -> str:
    """Return the beginning of the text in blocks of content; what is kept of it is shorter."""
    texts = (block["text"] for block in content if isinstance(block.get("text"), str))
    return "\n".join(text[:TASK_READ] for text in texts)[:TASK_READ]


def weight(content: Iterable[Any]) -> int:
    """Return how many characters all texts in blocks of content have."""
    found, rest = 0, list(content)
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            found += len(value)
        elif isinstance(value, Mapping):
            rest += value.values()
        elif isinstance(value, list | tuple):
            rest += value
    return found


@dataclass(eq=False, slots=True)
class Turn:
    """One accepted prompt on its way to exactly one outcome.

    Attributes:
        run_id: of its run record.
        request: what was asked.
        accepted_at: ISO 8601, UTC.
        caller: the turn whose agent asked for this one; None where a person did.
        state: where it stands.
        cancelling: whether anybody wants it ended; its outcome is then `cancelled`.
        timed_out: whether its own limit ended it.
        verdict: why the bridge ended it, which then is how it failed, whatever the agent answers.
        open_questions: how many permissions it waits for.
        rung: how far its end had to go, whoever it was that wanted it.
        survivors: pids of what still runs it although it was ended by force.
        stored: whether its outcome is in the ledger.
        done: set once the outcome is on record, or cannot be put there for now.
        errand: the completion that it tells of, None for every other turn.
    """

    run_id: str
    request: PromptRequest
    accepted_at: str
    caller: "Turn | None" = field(default=None, repr=False)
    state: TurnState = TurnState.QUEUED
    started_at: str | None = None
    last_update_at: str | None = None
    last_update: float = 0.0
    cancelling: bool = False
    timed_out: bool = False
    verdict: BridgeError | None = None
    open_questions: int = 0
    rung: CancelRung = CancelRung.NONE
    survivors: tuple[int, ...] = ()
    outcome: Outcome | None = None
    stop_reason: str | None = None
    error: BridgeError | None = None
    stored: bool = False
    done: anyio.Event = field(default_factory=anyio.Event)
    errand: Errand | None = None
    _answered: anyio.Event = field(default_factory=anyio.Event)

    @property
    def over(self) -> bool:
        """Whether it has its outcome, and nothing that was started for it is left running."""
        return self.done.is_set() and not self.survivors

    def reach(self, rung: CancelRung) -> bool:
        """Go down the ladder, never up; tell whether nobody has been as far before."""
        further = _LADDER.index(rung) > _LADDER.index(self.rung)
        if further:
            self.rung = rung
        return further

    def asked_by(self, turn: "Turn") -> bool:
        """Tell whether this one was asked for by a turn, or by one that that asked for."""
        above = self.caller
        while above is not None and above is not turn:
            above = above.caller
        return above is turn

    def asked(self) -> None:
        """Count a question that it waits for."""
        self.open_questions += 1
        if not self.cancelling:
            self.state = TurnState.WAITING

    def answered(self) -> None:
        """Count a question that it waits for no more."""
        self.open_questions -= 1
        if self.open_questions:
            return
        self._answered.set()
        self._answered = anyio.Event()
        if self.state is TurnState.WAITING:
            self.state = TurnState.RUNNING

    async def all_answered(self) -> None:
        """Wait until it waits for no question."""
        while self.open_questions:
            await self._answered.wait()

    def waits_for(self, *, tool_running: bool) -> WaitsFor:
        """Tell whom it waits for."""
        if self.state is TurnState.QUEUED:
            return WaitsFor.NOBODY
        if self.open_questions:
            return WaitsFor.PERMISSION
        return WaitsFor.TOOL if tool_running else WaitsFor.MODEL

    def to_json(self, *, tool_running: bool) -> dict[str, Any]:
        """Return the shape in `status`."""
        return {
            "id": self.run_id,
            "state": self.state,
            "waitsFor": self.waits_for(tool_running=tool_running),
            "startedAt": self.started_at,
            "lastUpdateAt": self.last_update_at,
        }


def completion_of(turn: Turn, outcome: Outcome) -> OutboxEntry | None:
    """Return what goes to whoever is to hear of the end of a turn; None: nobody is.

    Where it was cancelled with the turn that had asked for it, nobody is woken for it.
    """
    request = turn.request
    if not request.delivery:
        return None
    stopped = turn.caller is not None and turn.caller.cancelling
    quiet = stopped and outcome is Outcome.CANCELLED
    pulled = request.requester.external
    return completion(turn.run_id, request.delivery, pulled=pulled, quiet=quiet)


class Inbox:
    """The prompts of one session, in order, bounded."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []  # few; an empty deque takes ten times the room of a list
        self._reserved = 0
        self._size = 0
        self._news: anyio.Event | None = None  # while somebody waits

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def expected(self) -> int:
        """How many turns wait or are just being put on record."""
        return len(self._turns) + self._reserved

    def reserve(self, size: int = 0) -> None:
        """Keep room for a turn that is being put on record; `put` or `release` must follow.

        Args:
            size: its `weight`; the same as that of the request which is put.

        Raises:
            BridgeError: `busy`, when it is full.
        """
        waiting = sum(weight(turn.request.content) for turn in self._turns) + self._size
        if self.expected and waiting + size > INBOX_SIZE:
            message = f"{waiting} characters of prompts wait already; {size} more are too many."
            raise BridgeError("busy", message, data={"queueDepth": len(self._turns)})
        if self.expected >= INBOX_LIMIT:
            message = f"{INBOX_LIMIT} prompts wait already."
            raise BridgeError("busy", message, data={"queueDepth": len(self._turns)})
        self._reserved += 1
        self._size += size

    def release(self, size: int = 0) -> None:
        """Give up what `reserve` kept."""
        self._reserved -= 1
        self._size -= size

    def put(self, turn: Turn) -> None:
        """Take a turn at the end, into the room that was kept for it."""
        self._reserved -= 1
        self._size = max(0, self._size - weight(turn.request.content))
        self._turns.append(turn)
        if self._news is not None:
            self._news.set()

    def take(self) -> Turn | None:
        """Return the first turn, None if there is none."""
        return self._turns.pop(0) if self._turns else None

    def waiting(self) -> list[Turn]:
        """Return what waits, the first one first."""
        return list(self._turns)

    def take_all(self) -> list[Turn]:
        """Return everything that waits, the first one first; nothing waits after."""
        turns = list(self._turns)
        self._turns.clear()
        return turns

    def remove(self, turn: Turn) -> bool:
        """Take one turn out, and tell whether it was still waiting."""
        if turn in self._turns:
            self._turns.remove(turn)
            return True
        return False

    async def news(self) -> None:
        """Wait until there is a turn to take."""
        while not self._turns:
            self._news = anyio.Event()
            try:
                await self._news.wait()
            finally:
                self._news = None
