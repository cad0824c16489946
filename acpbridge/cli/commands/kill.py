"""`acpbridge kill`: sessions with all that they started are ended, and that is proven.

Quick; starts no daemon, and works past a frozen one, by its journal. What only that needs is
imported there.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

import click

from acpbridge.cli import keys, options, tables
from acpbridge.cli.options import KILL_LIMIT, LONGEST_GRACE
from acpbridge.cli.output import fail, print_json, say, terminal_width
from acpbridge.cli.reaching import no_daemon
from acpbridge.cli.root import paths
from acpbridge.daemon.paths import Paths
from acpbridge.daemon.quick import Quick, connect
from acpbridge.errors import EXIT_FAILURE, EXIT_OK, BridgeError
from acpbridge.model.display import escape

# What was started while the last round was under way is ended in the next one.
KILL_ROUNDS: Final = 3

# How a daemon that cannot do the work itself is told.
_LOST: Final = ("daemon_frozen", "daemon_unreachable", "daemon_version", "connection_closed")


@click.command(
    epilog="\b\nExamples:\n  acpbridge kill 3f2a\n  acpbridge kill --agent codex --now\n"
    "  acpbridge kill --all --json"
)
@click.argument("names", nargs=-1, metavar="[KEY]...")
@click.option("--agent", metavar="ID", help="Every live session of this agent.")
@click.option(
    "--all", "everything", is_flag=True, help="Every live session, and what is ours and in none."
)
@click.option("--last", is_flag=True, help=keys.NEWEST_LIVE)
@click.option(
    "--grace",
    type=options.GRACE,
    metavar="S",
    help="Seconds for a polite end after its input is closed (default: the agent's own).",
)
@click.option("--now", is_flag=True, help="No polite end: the same as --grace 0.")
@options.as_json
@click.pass_context
def kill(  # noqa: PLR0913 - one for each option
    ctx: click.Context,
    names: tuple[str, ...],
    *,
    agent: str | None,
    everything: bool,
    last: bool,
    grace: float | None,
    now: bool,
    as_json: bool,
) -> int:
    """End sessions with all that they started, and prove it.

    KEY is a session's key or any unique part of one; sessions that it spawned are ended with it.
    The receipt names every process that was ended. Exit status 0 only if nothing is left. A wrong
    key keeps no other session alive: it is said once the others are ended. With a frozen daemon
    the process trees are ended past it; without a daemon the status is 8.
    """
    if sum((bool(names), agent is not None, everything, last)) != 1:
        raise click.UsageError("Give one of: keys, --agent, --all, --last.", ctx)
    if now and grace is not None:
        raise click.UsageError("Give --grace or --now, not both.", ctx)
    wanted = _Wanted(names, agent, everything=everything, last=last)
    found = paths(ctx)
    seconds = 0.0 if now else grace
    try:
        results = _kill_by_daemon(found, wanted, seconds)
    except BridgeError as error:
        if error.code not in _LOST:
            raise
        results = _kill_past_daemon(found, wanted, error)
    left = any(result["survivors"] for result in results)
    if results or not wanted.wrong:
        _print_receipt(results, wanted, left=left, as_json=as_json)
    codes = [fail(error) for error in wanted.wrong.values()]
    return EXIT_FAILURE if left else max(codes, default=EXIT_OK)


def _print_receipt(results: list[Any], wanted: "_Wanted", *, left: bool, as_json: bool) -> None:
    if not as_json:
        click.echo(tables.kill_text(results, terminal_width(), wanted.names))
        return
    wrong = wanted.wrong
    receipt = {"ok": not left and not wrong, "results": results}
    if wrong:
        receipt["errors"] = [
            {"key": key, "code": error.code, "message": error.message}
            for key, error in wrong.items()
        ]
    print_json(receipt)


class _Wanted:
    """Which sessions a command line means; `wrong` has the keys that mean none, and why."""

    def __init__(
        self, keys: tuple[str, ...], agent: str | None, *, everything: bool, last: bool
    ) -> None:
        self.keys = list(dict.fromkeys(keys))
        self.agent = agent
        self.everything = everything
        self.last = last
        self.wrong: dict[str, BridgeError] = {}

    @property
    def repeats(self) -> bool:
        """Whether what comes up meanwhile is meant as well."""
        return self.everything or self.agent is not None

    def names(self, key: str) -> bool:
        """Tell whether a session was asked for, and not only ended with the one that was."""
        if self.agent is not None:
            return key.split(":")[1:2] == [self.agent]
        return self.everything or any(text in key for text in self.keys)

    def of(self, client: Quick) -> list[str]:
        """Ask the daemon."""
        if self.last:
            self.keys = [keys.meant(client, "", last=True)]
        if self.repeats:
            found: list[str] = client.call("matching", agent=self.agent or "")["keys"]
            return found
        return self.keys

    def among(self, names: list[str]) -> list[str]:
        """Choose among keys that are known without a daemon.

        Raises:
            BridgeError: `daemon_frozen`, for `--last`.
        """
        if self.everything:
            return names
        if self.agent is not None:
            return [name for name in names if name.split(":")[1:2] == [self.agent]]
        if self.last:
            raise BridgeError("daemon_frozen", "Only the daemon knows which session is the last.")
        chosen = []
        for key in self.keys:
            try:
                chosen.append(_unique(key, names))
            except BridgeError as error:
                self.wrong[key] = error
        return chosen


def _unique(text: str, names: list[str]) -> str:
    found = [name for name in names if text == name] or [name for name in names if text in name]
    if len(found) == 1:
        return found[0]
    if not found:
        raise BridgeError("no_such_session", f"No running session's key is or holds {text!r}.")
    listed = ", ".join(sorted(found))
    raise BridgeError("ambiguous_key", f"{text!r} fits {len(found)} sessions: {listed}.")


def _kill_by_daemon(found: Paths, wanted: _Wanted, grace: float | None) -> list[Any]:
    client = connect(found)
    if client is None:
        return _kill_left_over(found, wanted)
    limit = KILL_LIMIT + (LONGEST_GRACE if grace is None else grace)
    results: list[Any] = []
    with client:
        for _ in range(KILL_ROUNDS if wanted.repeats else 1):
            names = wanted.of(client)
            if not names:
                break
            try:
                results += client.call("kill", limit=limit, keys=names, grace=grace)["results"]
            except BridgeError as error:
                if "unknown" not in error.data:
                    raise
                results += error.data["results"]
                told = error.data["unknown"].items()
                wanted.wrong |= {key: BridgeError.from_json(why) for key, why in told}
        if wanted.everything:
            # What nobody owns any more: an older daemon knows nothing of that, and ends nothing.
            results += client.call("kill", limit=limit, keys=[], grace=0, unowned=True)["results"]
        if not results and wanted.agent is not None:
            _check_known(client, wanted.agent)
    return results


def _check_known(client: Quick, agent: str) -> None:
    """A wrong name must not read like the proof that nothing runs."""
    rows = client.call("sessions", all=True)["sessions"]
    if not any(row.get("agentId") == agent for row in rows):
        raise BridgeError("no_such_session", f"There is no session of an agent {agent!r}.")


def _kill_left_over(found: Paths, wanted: _Wanted) -> list[Any]:
    """No daemon: its trees died with it. Look all the same, for the receipt is a proof."""
    from acpbridge.daemon import frozen

    try:
        trees = frozen.recorded(found)
    except BridgeError:
        trees = {}
    if not trees:
        raise no_daemon()
    return _end_recorded(found, wanted.among(frozen.known(trees)), trees)


def _kill_past_daemon(found: Paths, wanted: _Wanted, error: BridgeError) -> list[Any]:
    """End the trees by the journal; if that cannot be done, the daemon's error stands."""
    from acpbridge.config.environment import MARK
    from acpbridge.daemon import frozen

    if os.environ.get(MARK):
        raise error  # only the daemon knows what an agent may kill
    try:
        trees = frozen.recorded(found)
        names = wanted.among(frozen.known(trees))
    except BridgeError as unknown:
        if unknown.code == "daemon_frozen":
            raise error from None
        raise
    if not names and all(why.code == "no_such_session" for why in wanted.wrong.values()):
        raise error
    say(f"{escape(error.message)} Its process trees are ended past it.")
    return _end_recorded(found, names, trees)


def _end_recorded(found: Paths, names: list[str], trees: Mapping[str, Any]) -> list[Any]:
    """End trees with their descendants', and leave a note for the daemon's records."""
    from acpbridge.daemon import frozen, killed

    ending = frozen.with_descendants(names, trees)
    try:
        killed.note(found.killed, ending)
    except BridgeError as error:
        say(f"the records will call them died: {escape(error.message)}")
    return frozen.end_trees({name: trees[name] for name in ending if name in trees})
