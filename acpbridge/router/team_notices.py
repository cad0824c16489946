"""How the end of handed-over work comes to a person: one notice in the session that had asked.

Whoever follows that session sees it. Above is `house_team`; below are the log and the directory.
"""

import json
from collections.abc import Collection

from acpbridge.model.events import Fact
from acpbridge.model.inbox import InboxStatus, ReplyEvent
from acpbridge.model.keys import SessionKey
from acpbridge.router.directory import Directory
from acpbridge.router.processor import TeamProcessor
from acpbridge.router.services import Services

KIND = "delegation"


class TeamNotices(TeamProcessor):
    """Puts ends into logs.

    Args:
        directory: the sessions that there are.
        services: their log.

    Attributes:
        earlier: ids of items that an earlier daemon has taken in, and may have told of.
    """

    def __init__(self, directory: Directory, services: Services) -> None:
        self._directory = directory
        self._services = services
        self.earlier: Collection[str] = ()

    async def on_reply(self, event: ReplyEvent) -> None:
        """Tell the followers of the source's session, with the whole text, once."""
        key = SessionKey.parse(event.source_thread_id or "")
        session = self._directory.get(key)
        if session is None or self._over(key):
            return  # nothing comes behind the end of a session
        await session.open_log()
        log = self._services.log
        if event.inbox_id in self.earlier and await self._told(key, event.inbox_id):
            return
        if self._over(key):  # while it was awaited
            return
        log.append(key, None, Fact("notice", _values(event)))
        await log.committed(key)

    def _over(self, key: SessionKey) -> bool:
        session = self._directory.get(key)
        return session is None or session.closing

    async def _told(self, key: SessionKey, inbox_id: str) -> bool:
        """Tell whether an earlier daemon had come as far as that."""
        wanted = json.dumps(inbox_id).encode()
        async with self._services.log.follow(key, 0, live=False, stored=True) as follower:
            while lines := await follower.read():
                for line in lines:
                    if wanted in line and _is_of(json.loads(line), inbox_id):
                        return True
        return False


def _is_of(event: dict[str, object], inbox_id: str) -> bool:
    told = (event.get("type"), event.get("kind"), event.get("delegationId"))
    return told == ("notice", KIND, inbox_id)


def _values(event: ReplyEvent) -> dict[str, object]:
    ends = {
        InboxStatus.DONE: "has answered",
        InboxStatus.FAILED: "failed",
        InboxStatus.CANCELLED: "was cancelled",
    }
    message = f"what {event.target_agent_id} was asked in the background {ends[event.status]}"
    return {
        "kind": KIND,
        "message": message,
        "delegationId": event.inbox_id,
        "agentId": event.target_agent_id,
        "status": event.status,
        **({} if event.reply_text is None else {"text": event.reply_text}),
        **({} if event.error_text is None else {"error": event.error_text}),
    }
