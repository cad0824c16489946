"""`acpbridge agents`: which agents there are, and what each would run. Needs no daemon."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from textwrap import wrap
from typing import Any, Final

import click

from acpbridge.cli import moments, options, tables
from acpbridge.cli.output import print_json
from acpbridge.cli.root import here, paths
from acpbridge.errors import EXIT_OK

# Whether a person is asked. It is a column of its own, so that no long mode can push it away.
_ASKED: Final = {True: "yes", False: "NOBODY", None: "unknown"}

# How an agent would be launched, in a word or two; a launcher that is none of these has its name.
_STATES: Final = {
    "configured": "configured",
    "installed": "installed",
    "python": "python",
    "missing": "not installed",
}

# Where there is no terminal, and the most of a line that is of use on one. Columns.
WIDTH: Final = 100

_HEAD: Final = ("", "AGENT", "STATE", "MODE", "ASKED", "LOGIN", "COMMAND")

# Of cells, where the table would not fit otherwise; the command takes what is left.
_LONGEST: Final = {"AGENT": 16, "MODE": 18, "LOGIN": 21}
_SHORTEST_COMMAND: Final = 12


@click.command(epilog="\b\nExamples:\n  acpbridge agents\n  acpbridge agents --json")
@options.as_json
@click.pass_context
def agents(ctx: click.Context, *, as_json: bool) -> int:
    """List the agents: the configured ones, those that are known, and the demo.

    Of each it shows whether it is installed, or would be downloaded by npx or uvx at its first
    start; the mode that its sessions are put in, and whether a person is asked in that; where its
    login comes from, as far as that can be seen without starting it; and what would run. The
    default is marked with *.

    What is missing, and how it is installed, is told by: acpbridge doctor AGENT.
    """
    import os

    from acpbridge.config.environment import fixed_values
    from acpbridge.daemon.configfile import ConfigFile
    from acpbridge.redact import Redactor
    from acpbridge.runtimes.inventory import inventory

    config = ConfigFile(paths(ctx).config).first()
    fixed = (pair for agent in config.agents.values() for pair in fixed_values(agent))
    redactor = Redactor((*os.environ.items(), *fixed))
    found = inventory(config, os.environ, here())
    rows = [redactor.value(listed.to_json()) for listed in found]
    if as_json:
        print_json({"agents": rows})
    else:
        click.echo("\n".join(text_of(rows, os.environ.get("HOME", ""), _width())))
    return EXIT_OK


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH


def text_of(rows: Sequence[Mapping[str, Any]], home: str, width: int) -> list[str]:
    """Return the rows of `agents --json` as lines for people.

    Args:
        rows: of the agents, in order.
        home: the user's home directory, which is shown as `~`; "" if there is none.
        width: columns that a line may have.
    """
    table = [_HEAD, *(_cells(row, home) for row in rows if row["launch"] != "unknown")]
    if _left(table, width) < _SHORTEST_COMMAND:
        for name, longest in _LONGEST.items():
            table = _shortened(table, _HEAD.index(name), longest)
    table = _shortened(table, len(_HEAD) - 1, max(_SHORTEST_COMMAND, _left(table, width)))
    out = tables.columns(table)
    if any(row["launch"] == "missing" for row in rows):
        out += ["", "what to do about one that is not installed: acpbridge doctor AGENT"]
    nameless = [str(row["id"]) for row in rows if row["launch"] == "unknown"]
    if nameless:
        words = f"without a known command (give runtime.command): {', '.join(nameless)}"
        out += ["", *wrap(words, width)]
    return out


def _cells(row: Mapping[str, Any], home: str) -> tuple[str, ...]:
    launch = str(row["launch"])
    login = str(row["login"] or "")
    return (
        "*" if row["default"] else "",
        tables.shown(row["id"]),
        _STATES.get(launch, f"via {launch}"),
        tables.shown(row["mode"] or "unknown"),
        _ASKED[row["asks"]],
        tables.shown(login.replace(f":{home}/", ":~/", 1) if home else login),
        _command(row, home),
    )


def _command(row: Mapping[str, Any], home: str) -> str:
    """Return what would run: the program by its name alone, where that says enough."""
    if row["command"] is None:
        return moments.NOTHING
    program, *rest = map(str, row["command"])
    if row["launch"] == "python":
        return tables.shown(rest[-1])  # its entry; what runs that is our own
    if row["launch"] == "configured":
        # Which of several programs of one name is meant is what an entry is for.
        program = program.replace(f"{home}/", "~/", 1) if home else program
    else:
        program = PurePath(program).name
    return tables.shown(" ".join((program, *rest)))


def _left(table: Sequence[tuple[str, ...]], width: int) -> int:
    """Return the columns that are left for the last cell of each row."""
    return width + 1 - len(tables.columns([(*cells[:-1], "|") for cells in table])[0])


def _shortened(table: Sequence[tuple[str, ...]], index: int, longest: int) -> list[tuple[str, ...]]:
    """Return a table with every cell of one column cut to a length."""
    return [(*cells[:index], _cut(cells[index], longest), *cells[index + 1 :]) for cells in table]


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
