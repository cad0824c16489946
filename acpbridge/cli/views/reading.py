"""What an event says, in words: the agent's own, how a question was decided, a turn ended. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from acpbridge.cli.questions.question import how_decided
from acpbridge.model.display import clip, escape

# Of a title that is only named again. Characters.
TITLE: Final = 200


def update_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the agent's own object in an event, empty if it is none."""
    update = event.get("update") if event.get("type") == "update" else None
    return update if isinstance(update, Mapping) else {}


def message_text(update: Mapping[str, Any]) -> str:
    """Return the words of a message chunk, "" if it is none."""
    if update.get("sessionUpdate") != "agent_message_chunk":
        return ""
    return content_text(update.get("content"))


def content_text(content: Any) -> str:
    """Return the text of a content block, or what it is instead of text."""
    if not isinstance(content, Mapping):
        return ""
    text = content.get("text")
    if isinstance(text, str):
        return text
    return f"[{content.get('type')}]" if content.get("type") else ""


def decided(event: Mapping[str, Any]) -> str:
    """Return how a question was decided, by whom and why."""
    title = clip(escape(str(event.get("title", ""))), TITLE)
    return f"permission {escape(str(event.get('id')))} {how_decided(event)} ({title})"


def why_cancelled(event: Mapping[str, Any]) -> str:
    """Return what the end of a cancelled turn came with, to be put behind the rest; often ""."""
    because = event.get("because")
    return f": {_BECAUSE.get(str(because)) or escape(str(because))}" if because else ""


_BECAUSE: Final = {
    "killed": "the session was killed",
    "closed": "the session was closed",
    "parent": "the session that spawned it has ended",
    "cleanup": "the session was deleted",
    "daemon_stopping": "the daemon was stopped",
}
