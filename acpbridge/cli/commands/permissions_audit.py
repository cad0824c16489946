"""`permissions audit`: who allowed what, read from the audit's own files; no daemon is needed."""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import click

from acpbridge.cli.output import lines, print_json, say
from acpbridge.cli.root import paths
from acpbridge.cli.spans import Since, read_since
from acpbridge.errors import EXIT_FAILURE, EXIT_OK, BridgeError

# So many are shown if nobody says how many, nor since when.
SHOWN = 100


@click.command(
    short_help="Show who allowed what, and prove that nobody changed it.",
    epilog="\b\nExamples:\n  acpbridge permissions audit\n"
    "  acpbridge permissions audit --since 2h --session 3f2a\n"
    "  acpbridge permissions audit -n 1000 --json\n"
    "  acpbridge permissions audit --verify",
)
@click.option("--verify", "verifies", is_flag=True, help="Check the chain of all files instead.")
@click.option(
    "-n", "--last", "number", type=click.IntRange(min=1), metavar="N", help="Only the last N."
)
@click.option(
    "--since",
    callback=read_since,
    metavar="WHEN",
    help="Behind record number 12; or from 10m, 2h, 3d ago; or from 2026-01-31T12:00.",
)
@click.option("--session", default="", metavar="KEY", help="Of this session; a part will do.")
@click.option("--json", "as_json", is_flag=True, help="Print a record a line, as it is stored.")
@click.pass_context
def audit(
    ctx: click.Context,
    *,
    verifies: bool,
    number: int | None,
    since: Since,
    session: str,
    as_json: bool,
) -> int:
    """Show what was decided, the newest last: when, for whom, what, by whom or which rule, and why.

    It is audit.jsonl in the state directory, with the full files before it; secrets are redacted.
    Without -n and --since the last 100 records are shown. --verify goes through all files: exit
    status 1 if a record was changed, lost or moved, or a file is gone, and it says where. Records
    that are cut off at the very end do not show, nor an audit that was written anew as a whole.
    """
    if verifies and (number is not None or session or since != Since()):
        raise click.UsageError("--verify checks everything: it goes with --json alone.", ctx)
    path = paths(ctx).audit
    try:
        if verifies:
            return _verify(path, as_json=as_json)
        for record in _chosen(path, number, since, session):
            click.echo(json.dumps(record, separators=(",", ":")) if as_json else _line(record))
    except OSError as error:
        raise BridgeError("state_directory", f"{path}: {error.strerror}.") from None
    return EXIT_OK


def _chosen(
    path: Path, number: int | None, since: Since, session: str
) -> Iterator[Mapping[str, Any]]:
    """Yield what is to be shown; no more is in memory than the last N."""
    from acpbridge.permissions.chain import records, records_backwards

    def wanted(record: Mapping[str, Any]) -> bool:
        return (
            int(record["seq"]) > since.after
            and str(record.get("ts_wall")) >= since.moment
            and session in str(record.get("session"))
        )

    if not path.exists():
        say(f"there is no audit yet: {' '.join(lines(str(path)))}")
        return
    if number is None and since != Since():
        yield from filter(wanted, records(path))
        return
    newest = islice(filter(wanted, records_backwards(path)), number or SHOWN)
    yield from reversed(list(newest))


def _line(record: Mapping[str, Any]) -> str:
    from acpbridge.cli.views.auditview import line

    return line(record)


def _verify(path: Path, *, as_json: bool) -> int:
    from acpbridge.permissions.chain import check

    found = check(path)
    damage = found.damage
    if as_json:
        where = None
        if damage is not None:
            where = {"file": str(damage.file), "line": damage.line, "what": damage.harm}
        files = [str(file) for file in found.files]
        told = {"files": files, "records": found.records, "damage": where}
        print_json({**told, "unfinishedBytes": found.torn_bytes})
    elif damage is None:
        click.echo(f"whole: {found.records} records in {len(found.files)} files")
        if found.torn_bytes:
            cut = f"the last record is unfinished ({found.torn_bytes} bytes)"
            say(f"{cut}: a crash, or a write under way")
    else:
        file = " ".join(lines(str(damage.file)))
        click.echo(f"damaged: {file}, line {damage.line}: {_HARM[damage.harm]}")
        say(f"{found.records} records before it are as they were written; none after it is proven")
        say(f"next: keep a copy of the files beside {file}; find out who could write there")
    return EXIT_OK if damage is None else EXIT_FAILURE


_HARM = {
    "changed": "it is not what was written",
    "lost_or_moved": "it does not follow the record before it: one was lost, added or moved",
    "missing": "the file is gone",
}
