"""`acpbridge agents`: which agents there are, and what each would run. Needs no daemon."""

from collections.abc import Mapping
from typing import Any, Final

import click

from acpbridge.cli import tables
from acpbridge.cli.output import print_json, terminal_width
from acpbridge.cli.root import here, paths
from acpbridge.errors import EXIT_OK

_HEAD: Final = ("", "AGENT", "KIND", "LAUNCH", "MODE", "LOGIN")

# Before what an agent would run.
INDENT: Final = " " * 5

_ASKED: Final = {True: "asks", False: "nobody is asked", None: "asking unknown"}


@click.command(epilog="\b\nExamples:\n  acpbridge agents\n  acpbridge agents --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def agents(ctx: click.Context, *, as_json: bool) -> int:
    """List the agents: the configured ones, those that are known, and the demo.

    Of each it shows what would be run (installed, downloaded by npx or uvx at the first start, or
    missing), the mode and whether a person is asked in it, and where its login comes from, as far
    as that can be seen without starting it. The default is marked with *. Of those that are
    known and not installed only the names are shown.
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
        click.echo("\n".join(listing(rows, terminal_width())))
    return EXIT_OK


def listing(rows: list[dict[str, Any]], width: int) -> list[str]:
    """Return the list for a person: what each is and, below it, what it would run.

    Args:
        rows: as they are printed with --json.
        width: of the terminal, 0 for none.
    """
    # What is known and not installed is of use to few: a name is enough to ask further.
    missing = [row["id"] for row in rows if row["launch"] == "missing" and not row["configured"]]
    nameless = [row["id"] for row in rows if row["launch"] == "unknown"]
    shown = [row for row in rows if row["id"] not in {*missing, *nameless}]
    head, *facts = tables.columns([_HEAD, *(_facts(row) for row in shown)])
    out = [head]
    for line, row in zip(facts, shown, strict=True):
        out += [line, *tables.hanging(_command(row), width, INDENT)]
    for title, names in (
        ("not installed (acpbridge doctor NAME tells what to do)", missing),
        ("without a known command (give runtime.command)", nameless),
    ):
        if names:
            out += ["", *tables.hanging(f"{title}: {', '.join(names)}", width, "")]
    return out


def _facts(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        "*" if row["default"] else "",
        tables.shown(row["id"]),
        "configured" if row["configured"] else "known",
        tables.shown(row["launch"]),
        f"{tables.shown(row['mode'] or 'unknown')} ({_ASKED[row['asks']]})",
        tables.shown(row["login"]),
    )


def _command(row: Mapping[str, Any]) -> str:
    if row["command"] is not None:
        return tables.shown(" ".join(row["command"]))
    why, hint = row["missing"]["message"].rstrip("."), row["missing"]["hint"]
    return tables.shown(f"{why}. {hint}")
