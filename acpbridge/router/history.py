"""`sessions_history`: what was said in a session, from the stored copy, a page at a time.

Above is the router, below are the transcript and who reads it. Pages are told apart by the number
of a message, which never changes; what the agent says meanwhile shifts none of them.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.model.requesters import Requester
from acpbridge.router.directory import Directory
from acpbridge.router.finding import find, session_id
from acpbridge.router.look_requests import MOST_MESSAGES, HistoryRequest
from acpbridge.router.reading import Reading
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.transcript import BLOCK, REDACTED, block_text
from acpbridge.router.turns import Turn

# All of one answer's messages, as JSON. Bytes.
SIZE: Final = 80 * 1024


class History:
    """Tells what was said.

    Args:
        directory: the sessions that there are.
        services: takes secrets out of what was not stored yet.
        reading: reads the logs.
    """

    def __init__(self, directory: Directory, services: Services, reading: Reading) -> None:
        self._directory = directory
        self._services = services
        self._reading = reading

    async def history(self, request: HistoryRequest, requester: Requester) -> dict[str, Any]:
        """Return a page of a session's messages, the oldest first.

        Raises:
            BridgeError: `no_such_session`; `invalid_params` for another session's id, or for a
                message that is not there.
        """
        session = find(self._directory, request.session_key, requester)
        if request.session_id and request.session_id != session_id(session.key):
            message = f"sessionId {request.session_id!r} is not of {session.key}."
            raise BridgeError("invalid_params", message)
        return await self.of(session, request)

    async def of(self, session: Session, request: HistoryRequest) -> dict[str, Any]:
        """Return a page of a session that the requester may see."""
        limit = min(request.limit, MOST_MESSAGES)
        before = request.offset
        if request.message_id:
            before = _number(request.message_id) + 1
        found, older = await self._reading.last_messages(
            session, limit + 1, tools=request.include_tools, before=before
        )
        if request.message_id and (not found or str(found[-1].seq) != request.message_id):
            message = f"There is no message {request.message_id!r} in {session.key}."
            raise BridgeError("invalid_params", message)
        page = found[-limit:]
        shown = within([message.to_json() for message in page], SIZE)
        dropped = len(page) - len(shown)
        more = older or len(found) > len(shown)
        texts = [message.text for message in page[dropped:]]
        return {
            "sessionKey": str(session.key),
            "messages": shown,
            "truncated": more,
            "droppedMessages": dropped,
            "contentTruncated": any(len(text) > BLOCK for text in texts),
            "contentRedacted": any(REDACTED in text for text in texts),
            "bytes": size_of(shown),
            **({"nextOffset": int(shown[0]["id"])} if more and shown else {}),
            "pendingInputs": self._pending(session, request.pending_before),
        }

    def _pending(self, session: Session, before: str) -> dict[str, Any]:
        """Return the prompts that wait, which no log has yet, the newest last."""
        waiting = session.inbox.waiting()
        ids = [turn.run_id for turn in waiting]
        if before and before not in ids:
            raise BridgeError("invalid_params", f"No prompt of run {before!r} waits.")
        wanted = waiting[: ids.index(before)] if before else waiting
        rows = [self._input(turn) for turn in wanted]
        items = within(rows, SIZE)
        next_before = {"nextBefore": items[0]["runId"]} if items and len(items) < len(rows) else {}
        return {"total": len(waiting), "items": items, **next_before}

    def _input(self, turn: Turn) -> dict[str, Any]:
        request = turn.request
        text = "\n".join(filter(None, map(block_text, request.content)))
        return {
            "runId": turn.run_id,
            "acceptedAt": turn.accepted_at,
            "text": str(self._services.redact(text))[:BLOCK],
            "provenance": dict(request.provenance),
        }


def _number(message: str) -> int:
    if not (message.isascii() and message.isdigit()):
        raise BridgeError("invalid_params", f"messageId {message!r} is not one of a history.")
    return int(message)


def size_of(rows: Sequence[Any]) -> int:
    """Return how many bytes rows take as JSON."""
    return sum(len(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace")) for row in rows)


def within(rows: list[dict[str, Any]], bound: int) -> list[dict[str, Any]]:
    """Return the last rows that together take no more bytes than that."""
    left, kept = bound, len(rows)
    while kept and (left := left - size_of(rows[kept - 1 : kept])) >= 0:
        kept -= 1
    return rows[kept:]
