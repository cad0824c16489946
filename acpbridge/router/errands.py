"""A turn that tells its session of a completion: when that is sent, and what became of it.

The completion is `sent` on record just before its words go out, and never goes out again by itself
from then on; until then it is pending, whatever happens to the turn. Above is the host, which asks
here before a prompt and at its end; below is the ledger.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

from acpbridge.errors import BridgeError
from acpbridge.store.ledger import Ledger
from acpbridge.store.outbox import AMBIGUOUS, Settled

# A prompt that failed so was never heard: the agent says so, or was never asked.
UNHEARD: Final = frozenset({"mode_not_set", "resume_not_found", "unsupported_control"})


@dataclass(eq=False, slots=True)
class Errand:
    """What one turn has to tell.

    Attributes:
        entry: id of the completion in the outbox.
        began: set once the turn is worked on: from then on its time counts.
        told: whether the words have gone out.
        late: whether it was given up because it took too long.
    """

    entry: str
    began: anyio.Event = field(default_factory=anyio.Event)
    told: bool = False
    late: bool = False

    async def go(self, ledger: Ledger, unwanted: Callable[[], bool]) -> None:
        """Put on record that the words go out now; what follows must not wait for anything.

        Args:
            ledger: has the completion.
            unwanted: whether the turn is being cancelled.

        Raises:
            BridgeError: `request_cancelled`: somebody got it otherwise, or nobody wants the turn
                any more; or `store_full`.
        """
        if self.told:
            return  # the agent has not taken the prompt, and gets the same one once more
        if not await ledger.settle_outbox(Settled(self.entry, ("pending",), "sent")):
            raise BridgeError("request_cancelled", "What it was to tell is known already.")
        if unwanted():
            # `settled` takes it back with the end of the turn.
            raise BridgeError("request_cancelled", "The turn was cancelled.")
        self.told = True

    def over(self, error: BridgeError | None) -> bool:
        """Tell whether nothing of it is to be told any more by itself, once its turn has ended."""
        return self.told and (error is None or error.code not in UNHEARD)

    def settled(self, error: BridgeError | None, at: str) -> Settled:
        """Return the step that the completion takes with the end of the turn.

        Args:
            error: of the turn; None for one that the agent answered, or that was cancelled.
            at: ISO 8601, UTC.
        """
        if not self.over(error):
            return Settled(self.entry, ("sent",), "pending")
        if error is None:
            return Settled(self.entry, ("sent",), "delivered", {"at": at})
        # It may have been heard: a person looks, and has it told again if it was not.
        note = {"reason": AMBIGUOUS, "at": at, "code": error.code}
        return Settled(self.entry, ("sent",), "blocked", note)
