"""A session's log for people: each line with its time, the agent's words as they came.

Everything is data here, so all of it goes to stdout, and whatever would steer a terminal is spelt
out even in a pipe: `--json` is there for the exact bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from acpbridge.cli.terminal.wrapping import flowing, marked
from acpbridge.cli.terminal.writer import Writer
from acpbridge.cli.views.reading import content_text, decided, update_of, why_cancelled
from acpbridge.daemon.client import EventLine
from acpbridge.model.display import escape, visible

# Words that come in pieces, by the kind of update, with how their lines begin.
_WORDS: Final = {
    "agent_message_chunk": "",
    "agent_thought_chunk": "thought: ",
    "user_message_chunk": "user: ",
}

# Tools whose titles are remembered for their updates; a log may be long.
TITLES: Final = 256


class LogView:
    """Writes events as lines with their time.

    Args:
        out: where.
        width: of the terminal that it is, 0 if it is none. Each line begins with a time, so what a
            terminal wraps must not look like one that does.
    """

    def __init__(self, out: Writer, width: int = 0) -> None:
        self._out = out
        self._width = width
        self._used = 0
        self._open: str | None = None
        self._updates = Updates()

    async def event(self, line: EventLine) -> None:
        """Show one event."""
        value = line.value
        at = escape(str(value.get("at")))
        update = update_of(value)
        kind = str(update.get("sessionUpdate"))
        if kind in _WORDS:
            await self._out.write(
                self._words(at, _WORDS[kind], content_text(update.get("content")))
            )
            return
        texts = self._updates.lines(update) if update else happened(value)
        if texts:
            rows = [f"{marked(f'{at}  {text}', self._width)}\n" for text in texts]
            await self._out.write(_encoded(self._break() + "".join(rows)))

    async def end(self) -> None:
        """End the last line."""
        await self._out.write(_encoded(self._break()))

    def _words(self, at: str, start: str, text: str) -> bytes:
        """Return words that go on where others of their kind have stopped."""
        if not text:
            return b""
        out = self._break() if self._open not in (None, start) else ""
        head = f"{at}  {start}"
        *whole, rest = text.split("\n")  # most lines are printable, and then quickly seen to be
        for piece in [*(f"{visible(line)}\n" for line in whole), visible(rest)]:
            if piece:
                begun = self._open == start
                line, self._used = flowing(
                    piece.removesuffix("\n") if begun else head + piece.removesuffix("\n"),
                    self._used if begun else 0,
                    self._width,
                )
                out += line + ("\n" if piece.endswith("\n") else "")
                self._open = None if piece.endswith("\n") else start
        return _encoded(out)

    def _break(self) -> str:
        ended, self._open = self._open is not None, None
        return "\n" if ended else ""


class Updates:
    """Says what an update without words is about; a tool's title is remembered for its end."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}

    def lines(self, update: Mapping[str, Any]) -> list[str]:
        """Return the lines of an update, none where there is nothing to see."""
        kind = update.get("sessionUpdate")
        if kind in ("tool_call", "tool_call_update"):
            return [self._tool(update)]
        if kind == "plan":
            entries = update.get("entries")
            rows = entries if isinstance(entries, list) else []
            return [_plan(row) for row in rows if isinstance(row, Mapping)]
        if kind == "current_mode_update":
            return [f"mode: {escape(str(update.get('currentModeId', '')))}"]
        return []

    def _tool(self, update: Mapping[str, Any]) -> str:
        name = str(update.get("toolCallId"))
        if update.get("title"):
            self._titles[name] = str(update["title"])
            if len(self._titles) > TITLES:
                del self._titles[next(iter(self._titles))]
        title = escape(self._titles.get(name, name))
        status = escape(str(update.get("status") or "pending"))
        what = f"tool {escape(str(update['kind']))}" if update.get("kind") else "tool"
        return f"{what}: {title} ({status})"


def happened(event: Mapping[str, Any]) -> list[str]:
    """Return the lines that say what happened, for an event that is no update."""
    kind = str(event.get("type"))
    make = _HAPPENED.get(kind)
    if make is not None:
        return make(event)
    message = event.get("message")
    return [f"{escape(kind)}: {escape(str(message))}" if message else escape(kind)]


def _plan(row: Mapping[str, Any]) -> str:
    return f"plan: {escape(str(row.get('content')))} ({escape(str(row.get('status')))})"


def _started(event: Mapping[str, Any]) -> list[str]:
    blocks = event.get("prompt")
    texts = map(content_text, blocks) if isinstance(blocks, Sequence) else ()
    lines = [line for text in texts for line in text.splitlines()]
    head = f"turn {escape(str(event.get('turn')))} started{_came_from(event)}"
    return [head, *(f"> {escape(x)}" for x in lines)]


def _came_from(event: Mapping[str, Any]) -> str:
    """Return from which session a turn's prompt came, "" where it came from a person."""
    found = event.get("provenance")
    source = found.get("sourceSessionKey") if isinstance(found, Mapping) else None
    if not source or not isinstance(found, Mapping):
        return ""
    tool, hop = found.get("sourceTool", ""), found.get("hop")
    how = [f"from {source}", f"by {tool}", *([f"hop {hop}"] if hop else [])]
    return escape(f" {' '.join(how)}, correlation {event.get('correlationId')}")


def _ended(event: Mapping[str, Any]) -> list[str]:
    return [f"turn ended: {escape(str(event.get('stopReason')))}{why_cancelled(event)}"]


def _failed(event: Mapping[str, Any]) -> list[str]:
    error = event.get("error")
    found = error if isinstance(error, Mapping) else {}
    return [f"turn failed ({escape(str(found.get('code')))}): {escape(str(found.get('message')))}"]


def _asked(event: Mapping[str, Any]) -> list[str]:
    return [f"permission {escape(str(event.get('id')))} asked: {escape(str(event.get('title')))}"]


def _process(event: Mapping[str, Any]) -> list[str]:
    how = str(event.get("type")).removeprefix("process_")
    died = f": {escape(str(event['message']))}" if event.get("message") else ""
    return [f"process {event.get('pid')} {how}{died}"]


def _file(event: Mapping[str, Any]) -> list[str]:
    how = str(event.get("type")).removeprefix("file_")
    size, path = event.get("bytes"), escape(str(event.get("resolved")))
    return [f"file {how} by acpbridge: {path}, {size} bytes"]


_HAPPENED: Final[Mapping[str, Callable[[Mapping[str, Any]], list[str]]]] = {
    "turn_queued": lambda _: [],
    "turn_started": _started,
    "turn_ended": _ended,
    "turn_failed": _failed,
    "permission_asked": _asked,
    "permission_decided": lambda event: [decided(event)],
    "process_started": _process,
    "process_exited": _process,
    "session_closed": lambda event: [f"session closed ({escape(str(event.get('reason')))})"],
    "file_read": _file,
    "file_written": _file,
    "mode_changed": lambda event: [f"mode: {escape(str(event.get('mode', '')))}"],
}


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
