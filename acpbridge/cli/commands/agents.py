"""`acpbridge agents`: which agents there are, and what each would run. Needs no daemon."""

from collections.abc import Mapping
from typing import Any

import click

from acpbridge.cli import tables
from acpbridge.cli.output import print_json
from acpbridge.cli.root import here, paths
from acpbridge.errors import EXIT_OK

_ASKED = {True: "asks", False: "nobody is asked", None: "asking unknown"}


@click.command(epilog="\b\nExamples:\n  acpbridge agents\n  acpbridge agents --json")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def agents(ctx: click.Context, *, as_json: bool) -> int:
    """List the agents: the configured ones, those that are known, and the demo.

    Of each it shows what would be run (installed, downloaded by npx or uvx at the first start, or
    missing), the mode and whether a person is asked in it, and where its login comes from, as far
    as that can be seen without starting it. The default is marked with *.
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
        click.echo("\n".join(_text(rows)))
    return EXIT_OK


def _text(rows: list[dict[str, Any]]) -> list[str]:
    head = ("", "AGENT", "KIND", "LAUNCH", "MODE", "LOGIN", "COMMAND")
    table = [
        (
            "*" if row["default"] else "",
            _names(row),
            "configured" if row["configured"] else "known",
            tables.shown(row["launch"]),
            f"{tables.shown(row['mode'] or 'unknown')} ({_ASKED[row['asks']]})",
            tables.shown(row["login"]),
            _command(row),
        )
        for row in rows
        if row["launch"] != "unknown"
    ]
    out = tables.columns([head, *table])
    nameless = [row["id"] for row in rows if row["launch"] == "unknown"]
    if nameless:
        out += ["", f"without a known command (give runtime.command): {', '.join(nameless)}"]
    return out


def _names(row: Mapping[str, Any]) -> str:
    other = ", ".join(row["aliases"])
    return tables.shown(f"{row['id']} ({other})" if other else row["id"])


def _command(row: Mapping[str, Any]) -> str:
    if row["command"] is not None:
        return tables.shown(" ".join(row["command"]))
    return tables.shown(f"{row['missing']['message']} {row['missing']['hint']}")
