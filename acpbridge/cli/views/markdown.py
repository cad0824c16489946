"""A session's log as Markdown, to be read: who said what, which tools ran, what was decided."""

from collections.abc import Mapping
from typing import Any

from acpbridge.cli.views.logview import Updates, happened
from acpbridge.cli.views.reading import content_text, update_of
from acpbridge.daemon.client import EventLine
from acpbridge.model.display import escape, visible
from acpbridge.redact import Redactor, StreamRedactor

# Whose words a piece is, by the kind of update.
_WHOSE = {
    "agent_message_chunk": "Agent",
    "agent_thought_chunk": "Thought",
    "user_message_chunk": "User",
}
_SHOWN = ("key", "agentId", "cwd", "createdAt", "state", "mode", "exportedAt")


class Markdown:
    """Writes events as Markdown; what an agent says stays as it said it.

    Args:
        redactor: takes the caller's secrets out, over the borders of pieces too.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._stream = StreamRedactor(redactor)
        self._updates = Updates()
        self._speaker = ""

    def head(self, record: Mapping[str, Any]) -> bytes:
        """Begin with the session's record."""
        rows = [f"- {name}: {_code(record.get(name))}\n" for name in _SHOWN]
        return self._encoded(f"# Session {_code(record.get('key'))}\n\n{''.join(rows)}")

    def event(self, line: EventLine) -> bytes:
        """Go on with an event."""
        update = update_of(line.value)
        whose = _WHOSE.get(str(update.get("sessionUpdate")))
        if whose is not None:
            return self._words(whose, content_text(update.get("content")))
        if line.value.get("type") == "turn_started":
            return self._prompt(line.value)
        texts = self._updates.lines(update) if update else happened(line.value)
        if not texts:
            return b""
        at = str(line.value.get("at"))
        said = "".join(f"- {escape(at)} {_code(text, shown=True)}\n" for text in texts)
        start = "" if self._speaker == "-" else "\n"
        return self._stop("-") + self._encoded(start + said)

    def end(self) -> bytes:
        """Write what is still held back."""
        return self._stop("")

    def _words(self, whose: str, text: str) -> bytes:
        if not text:
            return b""
        out = b"" if self._speaker == whose else self._stop(whose) + f"\n**{whose}**\n\n".encode()
        return out + _plain(self._stream.feed(visible(text)))

    def _prompt(self, event: Mapping[str, Any]) -> bytes:
        blocks = event.get("prompt")
        texts = map(content_text, blocks) if isinstance(blocks, list) else ()
        quoted = "".join(f"> {visible(line)}\n" for text in texts for line in text.split("\n"))
        head = f"\n## Turn {_code(event.get('turn'))}, {escape(str(event.get('at')))}\n\n"
        return self._stop("") + self._encoded(head + quoted)

    def _stop(self, speaker: str) -> bytes:
        """End what somebody said, and note who comes next."""
        held = self._stream.flush()
        said = self._speaker not in ("", "-")
        self._speaker = speaker
        return _plain(held + ("\n" if said else ""))

    def _encoded(self, text: str) -> bytes:
        return _plain(self._redactor.text(text))


def _code(value: Any, *, shown: bool = False) -> str:
    """Return a value as inline code that its own backticks cannot end."""
    text = str(value) if shown else escape("-" if value is None else str(value))
    return f"`{text.replace('`', chr(0x2BB))}`"


def _plain(text: str) -> bytes:
    return text.encode("utf-8", "replace")
