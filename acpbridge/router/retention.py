"""Which sessions are given up: by their age, their number, and the room they take. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from acpbridge.model.keys import SessionKey
from acpbridge.model.sessions import SessionState
from acpbridge.router.receipts import PruneRequest

# Nobody can tell a long pause from a clock that jumped ahead, but by what comes after: so long a
# stretch without any use is doubted until the bridge was used for so long behind it.
DOUBTED: Final = timedelta(days=30)
SETTLED: Final = timedelta(days=7)


def believed(now: datetime, used: Iterable[datetime]) -> datetime:
    """Return the time by which ages are counted: that of the clock, less what it may have jumped.

    A clock that is put years ahead makes nothing old. One that is put back never did: what was used
    in the future is not old either.

    Args:
        now: of the wall clock.
        used: the days on which anything was used, as they are on record.
    """
    doubt, lived, later = timedelta(), timedelta(), now
    for moment in sorted((moment for moment in used if moment <= now), reverse=True):
        gap = later - moment
        if gap <= DOUBTED:
            lived += gap
        else:
            doubt += gap
        if lived >= SETTLED:
            break
        later = moment
    return now - doubt


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session that nothing speaks against deleting.

    Attributes:
        key: its address.
        state: as shown.
        last_used: when it last took or ended a run, else when it was made.
    """

    key: SessionKey
    state: SessionState
    last_used: datetime


def chosen(
    candidates: Iterable[Candidate], request: PruneRequest, now: datetime
) -> list[Candidate]:
    """Return those that a request means, the one that was used longest ago first."""
    found = [candidate for candidate in candidates if _fits(candidate, request)]
    found.sort(key=lambda candidate: candidate.last_used)
    if request.keep:
        del found[-request.keep :]
    if request.older_than is None:
        return found
    border = timedelta(seconds=request.older_than)
    return [candidate for candidate in found if now - candidate.last_used > border]


def _fits(candidate: Candidate, request: PruneRequest) -> bool:
    if request.keys is not None and str(candidate.key) not in request.keys:
        return False
    return request.states is None or candidate.state in request.states


def beyond(candidates: Sequence[Candidate], sizes: dict[str, int], surplus: int) -> list[Candidate]:
    """Return those, used longest ago first, whose events make up a surplus of bytes."""
    out: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda candidate: candidate.last_used):
        if surplus <= 0:
            break
        size = sizes.get(str(candidate.key), 0)
        if size:
            out.append(candidate)
            surplus -= size
    return out
