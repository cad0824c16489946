"""Answers of those who may not answer: each is in the audit, or counted there (row 24).

One that hammers must not fill the disk, nor have the decisions of others wait behind its records.
Beyond so many of one requester in a minute they are only counted; its next record tells the count.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from acpbridge.model.ports import Clock
from acpbridge.model.requesters import Requester
from acpbridge.permissions.record import requester_fields
from acpbridge.permissions.recorder import Recorder

# Records of one requester in a row of so many seconds. A person's slip, or an agent that tries a
# few times, is told one by one.
MOST: Final = 20
SECONDS: Final = 60.0
# Requesters that are told apart; an agent is one, however many connections it makes.
REQUESTERS: Final = 256


@dataclass(slots=True)
class _Count:
    """What one requester did since `since`; `silent` of it is in no record yet."""

    since: float
    requester: Requester
    recorded: int = 0
    silent: int = 0


class Refusals:
    """Records refusals.

    Args:
        recorder: takes the records.
        clock: its monotonic time.
    """

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self._counts: OrderedDict[str, _Count] = OrderedDict()

    async def record(self, place: dict[str, Any], requester: Requester) -> None:
        """Record one refusal, or count it.

        Args:
            place: which question, as far as it is known.
            requester: who was refused.
        """
        count = self._count_of(requester)
        if count.recorded >= MOST:
            count.silent += 1
            return
        count.recorded += 1
        silent, count.silent = count.silent, 0
        if not await self._write(place, requester, silent):
            count.silent += silent + 1

    async def tell(self) -> None:
        """Record how many were only counted; what cannot be recorded now is told the next time."""
        for count in list(self._counts.values()):
            silent, count.silent = count.silent, 0
            if silent and not await self._write({"request_uid": None}, count.requester, silent):
                count.silent += silent
                return

    async def _write(self, place: dict[str, Any], requester: Requester, silent: int) -> bool:
        fields = {**place, "requester": requester_fields(requester), "not_recorded": silent}
        return await self._recorder.recorded("permission_refused", lambda: fields, durable=False)

    def _count_of(self, requester: Requester) -> _Count:
        name = str(requester.session) if requester.session else requester.label()
        now = self._clock.monotonic()
        count = self._counts.pop(name, None) or _Count(now, requester)
        if now - count.since >= SECONDS:
            count.since, count.recorded = now, 0
        self._counts[name] = count
        while len(self._counts) > REQUESTERS:
            self._counts.popitem(last=False)
        return count
