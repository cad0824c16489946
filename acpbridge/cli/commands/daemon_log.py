"""`daemon logs`: what the daemon says of itself, read from its files; no daemon is needed."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from acpbridge.cli import moments
from acpbridge.cli.output import lines, say
from acpbridge.cli.root import paths
from acpbridge.errors import EXIT_OK, BridgeError
from acpbridge.model.display import escape

# As `logs` moves them; named here because that floor is slow to import. The oldest first.
OLDER: Final = (".4", ".3", ".2", ".1")

# Between two looks for more: the kernel's own word for it is not in the standard library. Seconds.
LOOK_PAUSE: Final = 0.2

# Fields of a line that are shown before all others.
_FIRST: Final = ("timestamp", "level", "event")


@click.command(
    epilog="\b\nExamples:\n  acpbridge daemon logs\n  acpbridge daemon logs -f -n 0\n"
    "  acpbridge daemon logs -n 1000 --json"
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "-n",
    "number",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    metavar="N",
    help="Show the last N lines.",
)
@click.option("--json", "as_json", is_flag=True, help="Print an object a line.")
@click.pass_context
def logs(ctx: click.Context, *, follow: bool, number: int, as_json: bool) -> int:
    """Show the daemon's own log, the newest lines last.

    It is daemon.log in the state directory, with up to four older files of 1 MiB; secrets are
    redacted. A daemon that was started by `daemon run` logs to its stderr instead.
    """
    path = paths(ctx).log
    tail = Tail(path)
    try:
        for line in tail.last(number):
            click.echo(_as_json(line) if as_json else _as_text(line))
        if not follow and not path.exists():
            say(f"there is no log yet: {escape(str(path))}")
        while follow:
            for line in tail.more():
                click.echo(_as_json(line) if as_json else _as_text(line))
            time.sleep(LOOK_PAUSE)
    except PermissionError as error:
        raise BridgeError("state_directory", f"{path}: {error.strerror}.") from None
    return EXIT_OK


class Tail:
    """The end of a log, and what comes to it, over its turning over.

    Args:
        path: of the youngest file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1
        self._part = b""

    def last(self, number: int) -> list[str]:
        """Return the last lines of all files."""
        older = [_read(self._path.with_name(self._path.name + end)) for end in OLDER]
        data = b"".join(older) + b"".join(self._chunks())
        *whole, self._part = data.split(b"\n")
        return [_text(line) for line in whole[-number:]] if number else []

    def more(self) -> list[str]:
        """Return the whole lines that have come since."""
        *whole, self._part = (self._part + b"".join(self._chunks())).split(b"\n")
        return [_text(line) for line in whole]

    def _chunks(self) -> Iterator[bytes]:
        """Read on; where the file was moved away, to its end and then in the new one."""
        while True:
            while self._file >= 0 and (chunk := os.read(self._file, 1 << 16)):
                yield chunk
            if not self._moved():
                return

    def _moved(self) -> bool:
        """Open what has the name now, if it is not what is open; tell whether it was so."""
        try:
            now = self._path.stat()
        except FileNotFoundError:
            return False
        if self._file >= 0:
            mine = os.fstat(self._file)
            if (mine.st_dev, mine.st_ino) == (now.st_dev, now.st_ino):
                return False
            os.close(self._file)
        self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return True


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def _fields(line: str) -> dict[str, Any] | None:
    """Return a line of the log as an object, None for what a crash has left."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _as_json(line: str) -> str:
    return line if _fields(line) is not None else json.dumps({"level": "raw", "event": line})


def _as_text(line: str) -> str:
    fields = _fields(line)
    if fields is None:
        return escape(line)
    at, level, event = (str(fields.pop(name, "-")) for name in _FIRST)
    trace = fields.pop("exception", None)
    rest = " ".join(f"{name}={json.dumps(value)}" for name, value in fields.items())
    head = escape(f"{moments.clock(at)} {level:7} {event}  {rest}".rstrip())
    return head if trace is None else "\n".join([head, *(f"  {t}" for t in lines(str(trace)))])
