"""How a command says things: data on stdout, talk on stderr, and nothing that a terminal obeys."""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from acpbridge.cli import tables
from acpbridge.errors import BridgeError
from acpbridge.model.display import escape

# The last lines of an agent's stderr that are shown with an error.
STDERR_LINES = 20


def print_json(value: Any) -> None:
    """Print one JSON document: on a line, or indented for a person at a terminal."""
    click.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None))


def terminal_width(fd: int = 1) -> int:
    """Return the columns of the terminal that a descriptor is, 0 if it is none."""
    try:
        return os.get_terminal_size(fd).columns
    except OSError:
        return 0


def say(text: str, **style: Any) -> None:
    """Say a line on stderr, in colour where somebody sees it and wants it."""
    click.echo(styled(text, **style), err=True)


def colourless() -> bool:
    """Tell whether the person wants no colours (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def styled(text: str, **style: Any) -> str:
    """Return the text with a style, if stderr is a terminal and NO_COLOR is not set."""
    if not style or colourless() or not sys.stderr.isatty():
        return text
    return click.style(text, **style)


def on_terminal() -> bool:
    """Tell whether a person can be asked: their keyboard on stdin, their eyes on stderr."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def lines(text: str) -> list[str]:
    """Return the lines of somebody's text, each made safe to look at."""
    return [escape(line) for line in text.splitlines()] or [""]


def fail(error: BridgeError) -> int:
    """Say an error on stderr, with what to do next, and return its exit status."""
    first, *more = error_lines(error)
    width = terminal_width(2)
    rows = [(row, first[1]) for row in tables.hanging(first[0], width, "")]
    # What is to be copied is left to the terminal: it knows where a line goes on.
    for text, style in (*rows, *more):
        say(text, **style)
    return error.kind.exit


def error_lines(error: BridgeError) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the lines that tell of an error and of what to do next, each with its style."""
    first, *more = lines(error.message)
    yield f"error ({error.code}): {first}", {"fg": "red"}
    yield from ((f"  {line}", {}) for line in more)
    if isinstance(error.data.get("rpcCode"), int):
        yield f"the agent's own code: {error.data['rpcCode']}", {}
    stderr = error.data.get("stderr")
    if isinstance(stderr, str) and stderr.strip():
        yield "the agent's stderr:", {}
        yield from ((f"  {line}", {}) for line in lines(stderr.strip())[-STDERR_LINES:])
    if error.hint:
        yield f"next: {' '.join(lines(error.hint))}", {}


def command_line(home: str | None, *words: str) -> str:
    """Return a command of ours as somebody can type it, for the same state directory."""
    import shlex  # seldom needed

    place = [] if home is None else ["--home", home]
    return shlex.join(["acpbridge", *place, *words])
