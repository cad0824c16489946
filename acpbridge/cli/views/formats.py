"""How a run is shown: as text, as lines of JSON, or by its final words only.

Each view is handed the events of one turn in order and writes the data to stdout; what is said
beside goes to stderr. None of them decides anything.
"""

import sys
from collections.abc import Mapping
from typing import Any, Final, Protocol

from acpbridge.cli.output import say, terminal_width
from acpbridge.cli.terminal.screen import Screen
from acpbridge.cli.terminal.wrapping import marked
from acpbridge.cli.terminal.writer import Writer
from acpbridge.cli.views.reading import content_text, decided, message_text, update_of
from acpbridge.daemon.client import EventLine
from acpbridge.model.display import escape, visible

_SHOWN_STATUS: Final = ("completed", "failed")


class View(Protocol):
    """Shows the events of a turn."""

    async def event(self, line: EventLine) -> None:
        """Show one event."""
        ...

    async def end(self) -> None:
        """Show what is still held back; the last call."""
        ...


def view_of(name: str, screen: Screen) -> View:
    """Return the view of a `--format`."""
    if name == "text" and screen.live:
        return _run_view(screen)
    out = Writer(sys.stdout.fileno())
    if name == "json":
        return JsonView(out)
    return QuietView(out) if name == "quiet" else TextView(out)


def _run_view(screen: Screen) -> View:
    # Slow to import, and only for who looks.
    from acpbridge.cli.terminal.live import LiveScreen
    from acpbridge.cli.views.runview import RunView

    assert isinstance(screen, LiveScreen)
    return RunView(screen)


class JsonView:
    """Each event on a line, exactly as it came."""

    def __init__(self, out: Writer) -> None:
        self._out = out

    async def event(self, line: EventLine) -> None:
        """Pass the event on."""
        await self._out.write(line.raw + b"\n")

    async def end(self) -> None:
        """Nothing is held back."""


class QuietView:
    """The agent's last message of the turn and nothing else."""

    def __init__(self, out: Writer) -> None:
        self._out = out
        self._text: list[str] = []
        self._over = False

    async def event(self, line: EventLine) -> None:
        """Keep the message that may be the last one."""
        if line.value.get("kind") == "context_lost":
            say(f"notice: {escape(str(line.value.get('message')))}")
        update = update_of(line.value)
        text = message_text(update)
        if text:
            if self._over:
                self._text.clear()
                self._over = False
            self._text.append(text)
        elif update.get("sessionUpdate") == "tool_call":
            # What was said before a tool was used was not the last word, if another one comes.
            self._over = True

    async def end(self) -> None:
        """Write it."""
        await self._out.write(_encoded("".join(self._text), whole=True))


class TextView:
    """The agent's words on stdout; thoughts, tools, the plan and what else happens on stderr."""

    def __init__(self, out: Writer) -> None:
        self._out = out
        self._plain = not sys.stdout.isatty()
        self._at_start = True
        self._thought = ""
        self._titles: dict[str, str] = {}

    async def event(self, line: EventLine) -> None:
        """Show one event."""
        kind = line.value.get("type")
        if kind == "update":
            await self._update(update_of(line.value))
        elif kind == "permission_asked":
            await self._break(always=False)
        elif kind == "permission_decided":
            await self._talk(decided(line.value), fg="yellow")
        elif kind == "notice" and line.value.get("message"):
            await self._talk(f"notice: {escape(str(line.value['message']))}")
        elif kind == "mode_changed":
            await self._talk(f"mode: {escape(str(line.value.get('mode', '')))}")

    async def end(self) -> None:
        """End the last line."""
        self._flush_thought()
        await self._break(always=True)

    async def _update(self, update: Mapping[str, Any]) -> None:
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            await self._words(message_text(update))
        elif kind == "agent_thought_chunk":
            await self._break(always=False)
            self._think(content_text(update.get("content")))
        elif kind == "tool_call":
            self._titles[str(update.get("toolCallId"))] = str(update.get("title", ""))
            # What is said after a tool was used is another message, in a file as well.
            await self._break(always=True)
            await self._tool(update)
        elif kind == "tool_call_update" and update.get("status") in _SHOWN_STATUS:
            await self._tool(update)
        elif kind == "plan":
            await self._plan(update.get("entries"))
        elif kind == "current_mode_update":
            await self._talk(f"mode: {escape(str(update.get('currentModeId', '')))}")

    async def _words(self, text: str) -> None:
        if not text:
            return
        self._flush_thought()
        self._at_start = text.endswith("\n")
        await self._out.write(_encoded(text if self._plain else visible(text)))

    def _think(self, text: str) -> None:
        """Show thoughts by whole lines: they come in pieces of words."""
        *whole, self._thought = (self._thought + text).split("\n")
        for line in whole:
            _dim(line)

    def _flush_thought(self) -> None:
        if self._thought:
            _dim(self._thought)
        self._thought = ""

    async def _tool(self, update: Mapping[str, Any]) -> None:
        name = str(update.get("toolCallId"))
        title = escape(str(update.get("title") or self._titles.get(name, name)))
        status = escape(str(update.get("status") or "pending"))
        kind = update.get("kind")
        what = f"tool {escape(str(kind))}" if kind else "tool"
        await self._talk(f"{what}: {title} ({status})", fg="cyan")

    async def _plan(self, entries: Any) -> None:
        rows = entries if isinstance(entries, list) else []
        for row in rows:
            if isinstance(row, Mapping):
                status, content = escape(str(row.get("status"))), escape(str(row.get("content")))
                await self._talk(f"plan: {content} ({status})", fg="blue")

    async def _talk(self, text: str, **style: Any) -> None:
        """Say something between the agent's words."""
        self._flush_thought()
        await self._break(always=False)
        say(marked(text, terminal_width(2)), **style)

    async def _break(self, *, always: bool) -> None:
        """Have the agent's words go on with a line of their own, where somebody sees both."""
        if not self._at_start and (always or not self._plain):
            self._at_start = True
            await self._out.write(b"\n")


def _encoded(text: str, *, whole: bool = False) -> bytes:
    """Return text as bytes, with a line end where it is a whole text."""
    if whole and text and not text.endswith("\n"):
        text += "\n"
    return text.encode("utf-8", "replace")


def _dim(line: str) -> None:
    say(marked(f"thought: {escape(line)}", terminal_width(2)), dim=True)
