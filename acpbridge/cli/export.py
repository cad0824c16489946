"""Writes all that is on record of a session: its record first, then each event, without secrets.

The stored copy is read, never what live followers see; the secrets of the caller's environment,
which the daemon need not know, are taken out here.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import anyio

from acpbridge import __version__
from acpbridge.cli import keys
from acpbridge.cli.moments import now
from acpbridge.cli.output import lines, say
from acpbridge.cli.privatefile import private_file
from acpbridge.cli.views.markdown import Markdown
from acpbridge.daemon.client import EventLine, connect
from acpbridge.daemon.paths import Paths
from acpbridge.errors import EXIT_OK, BridgeError
from acpbridge.logs import to_stderr
from acpbridge.redact import Redactor
from acpbridge.store.joins import Joins, State

# Raised when a line of the export changes its meaning.
FORMAT: Final = 1

# So much waits for an event that may end in half a secret; then its mark stands. Bytes.
HELD_BACK: Final = 4 * 1024 * 1024

# What is true of a process or of this moment only.
_PASSING: Final = (
    *("turn", "queueDepth", "pendingPermissions", "questions", "questionsBelow"),
    *("processes", "containment"),
)


class Shape(Protocol):
    """A format: each method returns what is to be written."""

    def head(self, record: Mapping[str, Any]) -> bytes:
        """Begin with the session's record."""
        ...

    def event(self, line: EventLine) -> bytes:
        """Go on with an event."""
        ...

    def end(self) -> bytes:
        """Write what is still held back."""
        ...


class Lines:
    """The record and the events as they are stored, a line of JSON each.

    Args:
        redactor: takes the caller's secrets out, over the borders of events too.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._joins = Joins(redactor, redactor.json_line, State())
        self._size = 0
        self._written = 0

    def head(self, record: Mapping[str, Any]) -> bytes:
        """Begin with the session's record."""
        line = json.dumps(record, separators=(",", ":")).encode()
        return self._redactor.json_line(line) + b"\n"

    def event(self, line: EventLine) -> bytes:
        """Go on with an event; it waits as long as one before it may end in half a secret."""
        number = int(line.value.get("seq", 0))
        self._joins.feed(number, line.raw)
        self._size += len(line.raw)
        before = number + 1
        if self._size < HELD_BACK:
            before = min(self._joins.state.events, default=before)
        return self._ready(before)

    def end(self) -> bytes:
        """Write what is still held back."""
        self._joins.finish()
        return self._ready(max(self._joins.stored, default=0) + 1)

    def _ready(self, before: int) -> bytes:
        """Return the events with smaller numbers."""
        stored = self._joins.stored
        found = [(n, stored.pop(n)) for n in sorted(stored) if n < before]
        # One that was written with its mark cannot be written again.
        ready = [line for number, line in found if number > self._written]
        self._written = max([self._written, *(number for number, _ in found)])
        if not stored:
            self._size = 0
        return b"".join(line + b"\n" for line in ready)


def export_to(
    paths: Paths, key: str, *, last: bool, shape: str, target: Path | None, force: bool
) -> int:
    """Export a session to a file, or to stdout, and return the exit status."""
    to_stderr(quiet=True)
    redactor = Redactor(os.environ.items())
    form: Shape = Markdown(redactor) if shape == "md" else Lines(redactor)
    with ExitStack() as stack:
        file: BinaryIO = sys.stdout.buffer
        if target is not None:
            file = stack.enter_context(private_file(target, force=force))
        anyio.run(partial(_export, paths, key, last, form, file))
        file.flush()
    if target is not None:
        say(f"written: {' '.join(lines(str(target)))}")
    return EXIT_OK


async def _export(paths: Paths, key: str, last: bool, form: Shape, file: BinaryIO) -> None:  # noqa: FBT001 - as the option
    async with connect(paths, start=True) as client:
        if last:
            rows = (await client.call("sessions", all=True, newest=keys.LOOKED_AT))["sessions"]
            key = keys.newest(rows, on_record=True)
        row = (await client.call("status", key=key))["sessions"][0]
        async with client.follow(row["key"], 0, live=False, stored=True) as events:
            file.write(form.head(_record(row)))
            while True:
                try:
                    file.write(form.event(await events.next()))
                except anyio.EndOfStream:
                    break
            file.write(form.end())


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(row.get("key"), str):
        raise BridgeError("internal", "The daemon told of no session.")
    head = {"type": "session", "format": FORMAT, "version": __version__, "exportedAt": now()}
    return head | {name: value for name, value in row.items() if name not in _PASSING}
