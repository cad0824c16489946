"""`acpbridge policy`: what the rules say, and which of them decides. Needs no daemon."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from acpbridge.cli import options
from acpbridge.cli.output import lines, print_json, say
from acpbridge.cli.root import here, paths
from acpbridge.errors import EXIT_OK

if TYPE_CHECKING:
    from acpbridge.model.permission import PermissionRequest
    from acpbridge.permissions.rules.rulebook import Rulebook

# For looking up the paths of one question on the disk.
DISK_SECONDS = 10.0


@click.group(
    epilog="\b\nExamples:\n  acpbridge policy check\n  acpbridge policy explain question.json"
)
def policy() -> None:
    """Look at the rules on permissions, policy.yaml beside the configuration."""


@policy.command(
    short_help="Load a policy and say what is doubtful about it.",
    epilog="\b\nExamples:\n  acpbridge policy check\n  acpbridge policy check ./policy.yaml --json",
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@options.as_json
@click.pass_context
def check(ctx: click.Context, file: Path | None, *, as_json: bool) -> int:
    """Load FILE, or the policy in use, and list the rules that can never decide or reach too far.

    Exit status: 0 it loads, 2 it does not.
    """
    from acpbridge.permissions.rules.check import findings

    path, book = _load(ctx, file)
    found = findings(book.rules)
    if as_json:
        rows = [
            {"rule": row.rule, "line": row.line, "kind": row.kind, "message": row.message}
            for row in found
        ]
        print_json(
            {
                "path": str(path),
                "sha256": book.sha256 or None,
                "rules": len(book.rules),
                "findings": rows,
            }
        )
        return EXIT_OK
    if not book.sha256:
        click.echo(_line(f"there is no {path}; everything is asked"))
        return EXIT_OK
    click.echo(_line(f"{path}: {len(book.rules)} rules, revision {book.sha256[:12]}"))
    for row in found:
        click.echo(_line(f"  line {row.line}, {row.rule} {row.message}"))
    return EXIT_OK


@policy.command(
    short_help="Say which rule decides on a question.",
    epilog="\b\nExamples:\n  acpbridge permissions --json | acpbridge policy explain -\n"
    "  acpbridge policy explain q.json --policy ./policy.yaml --root ~/src/shop",
)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, exists=True))
@click.option(
    "--policy",
    "policy_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The rules; without it those in use.",
)
@click.option(
    "--root",
    "roots",
    metavar="DIR",
    multiple=True,
    type=click.Path(file_okay=False),
    help="A directory of the session; without it the current one.",
)
@options.as_json
@click.pass_context
def explain(
    ctx: click.Context,
    file: str,
    policy_file: Path | None,
    roots: tuple[str, ...],
    *,
    as_json: bool,
) -> int:
    """Say what the rules make of the questions in FILE, as `permissions --json` prints them.

    `-` reads stdin. What is asked is looked up on this disk now: symlinks count. Grants and
    `--on-permission` are not looked at.
    """
    from acpbridge.permissions.rules.explain import requests

    _, book = _load(ctx, policy_file)
    places = [os.path.abspath(Path(root).expanduser()) for root in roots or (here(),)]  # noqa: PTH100 - as it is written, links and all
    with click.open_file(file, encoding="utf-8", errors="replace") as stream:
        text = stream.read()
    found = [_explained(book, request) for request in requests(text, places)]
    if as_json:
        print_json({"requests": found})
        return EXIT_OK
    for row in found:
        _print(row)
    if not found:
        click.echo("no question")
    return EXIT_OK


def _load(ctx: click.Context, file: Path | None) -> tuple[Path, "Rulebook"]:
    """Return the rules of a file, or of the policy in use, with those that are built in.

    Raises:
        BridgeError: `config_error`, with file, line and key.
    """
    from acpbridge.daemon import textfile
    from acpbridge.daemon.policyfile import PolicyFile, guarded
    from acpbridge.permissions.rules.load import parse

    used = paths(ctx)
    if file is None:
        return used.policy, PolicyFile.first(used).book
    text = textfile.read(file)
    if text is None:
        raise click.UsageError(f"There is no file {file}.", ctx)
    return file, guarded(parse(text, str(file), str(Path.home())), used)


def _explained(book: "Rulebook", request: "PermissionRequest") -> dict[str, Any]:
    from acpbridge.permissions.judging import combined
    from acpbridge.permissions.resolving import resolver
    from acpbridge.permissions.rules.explain import facts_json
    from acpbridge.permissions.rules.gather import facts_of

    facts = facts_of(request, resolver(DISK_SECONDS), str(Path.home()))
    verdict = combined(request, [book.judge(facts)])
    return {
        "id": request.id,
        "effect": verdict.effect,
        "rule": verdict.rule,
        "matches": [
            {"rule": rule.id, "effect": rule.effect, "line": rule.line}
            for rule in book.about(facts)
        ],
        "facts": facts_json(facts),
    }


def _print(row: dict[str, Any]) -> None:
    click.echo(_line(f"{row['id']}: {row['effect']}, by {row['rule']}"))
    for rule in row["matches"]:
        click.echo(_line(f"  line {rule['line']}, {rule['rule']}: {rule['effect']}"))
    facts = row["facts"]
    for name in ("kind", "tool", "server", "argv", "host"):
        if facts[name] is not None:
            shown = shlex.join(facts[name]) if name == "argv" else facts[name]
            click.echo(_line(f"  {name}: {shown}"))
    for path in facts["paths"] or ():
        found = "nobody knows which" if path["resolved"] is None else path["resolved"]
        same = path["literal"] == path["resolved"]
        click.echo(_line(f"  path: {path['literal']}" + ("" if same else f" ({found})")))
    unknown = [name for name in ("kind", "argv", "paths", "host", "tool") if facts[name] is None]
    say(_line(f"{row['id']}: not known: {', '.join(unknown) or 'nothing'}"))


def _line(text: str) -> str:
    return " ".join(lines(text))
