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

# Raised when a line of the export changes its meaning.
FORMAT: Final = 1

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
    """The record and the events as they are stored, a line of JSON each."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def head(self, record: Mapping[str, Any]) -> bytes:
        """Begin with the session's record."""
        line = json.dumps(record, separators=(",", ":")).encode()
        return self._redactor.json_line(line) + b"\n"

    def event(self, line: EventLine) -> bytes:
        """Go on with an event."""
        return self._redactor.json_line(line.raw) + b"\n"

    def end(self) -> bytes:
        """Nothing is held back."""
        return b""


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
            rows = (await client.call("sessions", all=True, newest=1))["sessions"]
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
