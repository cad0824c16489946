"""What was said in a session, put together from its events as messages; pure.

Above are history and summaries, which read the stored, redacted copy of the log. An agent's words
come in pieces: the pieces of one turn are one message, until a tool is called between them or the
agent itself says that another one begins.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# Characters of one block of text that a tool's result shows.
BLOCK: Final = 4000

# How a line begins that holds a certain type of event: what nobody wants is not even parsed. The
# type stands behind number, epoch, time, key and turn, all of them short.
_HEAD: Final = 600

_ENDS: Final = ("turn_ended", "turn_failed")

# The mark that the redaction leaves.
REDACTED: Final = "[redacted:"


@dataclass(slots=True)
class Message:
    """One message.

    Attributes:
        seq: number of the event with which it began; its id, and never another's.
        at: when it began, ISO 8601, UTC.
        run: of which run it is.
        role: `user`, `assistant`, `tool` or `system`.
        pieces: of its text.
        more: what else there is to say of it.
    """

    seq: int
    at: str
    run: str | None
    role: str
    pieces: list[str]
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join(self.pieces)

    def to_json(self) -> dict[str, Any]:
        """Return the shape in a history, its text cut to one block."""
        text = self.text
        cut = {"truncated": True} if len(text) > BLOCK else {}
        return {
            "id": str(self.seq),
            "role": self.role,
            "at": self.at,
            "runId": self.run,
            "content": [{"type": "text", "text": text[:BLOCK]}],
            **self.more,
            **cut,
        }


def messages(
    lines: Iterable[bytes], *, tools: bool, before: int = 0, whole: bool = True
) -> list[Message]:
    """Return the messages that lines of a log hold, the oldest first.

    Args:
        lines: of events, in order.
        tools: whether tool calls are told.
        before: events from this number on are left out; 0 for none.
        whole: whether the lines begin at the session's first; else what may have begun before
            them is left out.
    """
    made = _Assembly(tools=tools, certain=whole)
    for line in lines:
        kind = kind_of(line)
        if kind != "update" and kind not in ("turn_started", *_ENDS):
            continue
        if kind == "update" and not (tools or _of_interest(line)):
            continue
        event = json.loads(line)
        if before and event["seq"] >= before:
            break
        made.take(event)
    return [message for message in made.done if message.text]


def kind_of(line: bytes) -> str:
    """Return the type of the event that a line of the log holds."""
    start = line.find(b'"type":"', 0, _HEAD)
    if start < 0:
        return ""
    end = line.find(b'"', start + 8)
    return line[start + 8 : end].decode("ascii", "replace")


def _of_interest(line: bytes) -> bool:
    # A tool call is no message where tools are off; that it came ends the message before it.
    return b"agent_message_chunk" in line or b'"tool_call"' in line


class _Assembly:
    def __init__(self, *, tools: bool, certain: bool) -> None:
        self.done: list[Message] = []
        self._tools = tools
        self._certain = certain
        self._saying: Message | None = None
        self._name: object = None
        self._calls: dict[str, Message] = {}

    def take(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "update":
            update = event.get("update")
            if isinstance(update, Mapping):
                self._update(event, update)
            return
        self._saying, self._certain = None, True
        if event["type"] == "turn_started":
            prompt = event.get("prompt")
            texts = map(block_text, prompt if isinstance(prompt, list) else ())
            origin = {"provenance": event.get("provenance")}
            self._add(event, "user", "\n".join(filter(None, texts)), origin)
            self._calls.clear()
        elif text := _how_ended(event):
            self._add(event, "system", text)

    def _update(self, event: Mapping[str, Any], update: Mapping[str, Any]) -> None:
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                if not self._certain:
                    return
                text, name = block_text(update.get("content")), update.get("messageId")
                same = self._saying is not None and self._saying.run == event.get("turn")
                if self._saying is None or not same or name != self._name:
                    self._saying, self._name = self._add(event, "assistant", ""), name
                self._saying.pieces.append(text)
            case "tool_call":
                self._saying, self._certain = None, True
                if self._tools:
                    self._call(event, update)
            case "tool_call_update" if self._tools:
                self._called(update)
            case _:
                pass

    def _call(self, event: Mapping[str, Any], update: Mapping[str, Any]) -> None:
        known = {name: update.get(name) for name in ("toolCallId", "kind", "status")}
        message = self._add(event, "tool", str(update.get("title") or "tool call"), known)
        self._calls[str(update.get("toolCallId"))] = message
        self._called(update)

    def _called(self, update: Mapping[str, Any]) -> None:
        message = self._calls.get(str(update.get("toolCallId")))
        if message is None:
            return
        if update.get("status") is not None:
            message.more["status"] = update["status"]
        content = update.get("content")
        for item in content if isinstance(content, list) else ():
            inner = item.get("content") if isinstance(item, Mapping) else None
            if text := block_text(inner):
                message.pieces += ["\n", text]

    def _add(
        self,
        event: Mapping[str, Any],
        role: str,
        text: str,
        more: Mapping[str, Any] | None = None,
    ) -> Message:
        message = Message(
            event["seq"],
            event["at"],
            event.get("turn"),
            role,
            [text] if text else [],
            {**(more or {})},
        )
        self.done.append(message)
        return message


def block_text(block: Any) -> str:
    """Return the text of a content block, or what it is instead of text."""
    if not isinstance(block, Mapping):
        return ""
    text = block.get("text")
    if isinstance(text, str):
        return text
    return f"[{block.get('type')}]" if block.get("type") else ""


def _how_ended(event: Mapping[str, Any]) -> str:
    """Return how a turn ended, "" if it did as it should."""
    if event["type"] == "turn_failed":
        error = event.get("error")
        known = error if isinstance(error, Mapping) else {}
        return f"The turn failed ({known.get('code')}): {known.get('message')}"
    reason = event.get("stopReason")
    return "" if reason == "end_turn" else f"The turn ended: {reason}."
