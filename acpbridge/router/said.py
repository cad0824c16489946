"""What a run's agent said in the end, from the stored and redacted log."""

from typing import Final

import pydantic_core

from acpbridge.model.keys import SessionKey
from acpbridge.store.sessionlog import SessionLog

_SPOKEN: Final = b'"agent_message_chunk"'


async def final_text(log: SessionLog, key: SessionKey, run_id: str, after: int = 0) -> str:
    """Return the latest visible text of a run's turn; "" if there is none.

    Args:
        log: of the session, which is open.
        key: of the session.
        run_id: of the run, which has ended.
        after: number of an event before the run.
    """
    await log.committed(key)
    said: list[str] = []
    spoke = False
    async with log.follow(key, after, live=False, stored=True) as follower:
        while lines := await follower.read():
            for line in lines:
                value = pydantic_core.from_json(line)
                update = value.get("update") if value.get("turn") == run_id else None
                if not isinstance(update, dict):
                    continue
                kind, content = update.get("sessionUpdate"), update.get("content")
                if kind == "agent_message_chunk" and isinstance(content, dict):
                    if not spoke:
                        said.clear()
                    said.append(str(content.get("text", "")))
                spoke = kind == "agent_message_chunk" or (spoke and kind != "tool_call")
    return "".join(said)
