"""`status`, `kill`, `cancel`, `close`: quick, by the blocking client.

None of them starts a daemon. `kill` works past a frozen one, by its journal.
Nothing that is slow to import may be imported here, but where a daemon has to be started; what
only a kill past the daemon needs is imported there.
"""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from acpbridge.cli import keys, tables
from acpbridge.cli.output import command_line, fail, print_json, say
from acpbridge.cli.root import home, paths
from acpbridge.daemon.paths import Paths
from acpbridge.daemon.quick import Quick, connect
from acpbridge.errors import EXIT_DAEMON, EXIT_FAILURE, EXIT_OK, BridgeError
from acpbridge.model.display import escape

# What a kill may take after the grace: an answer, TERM, the last step, and a margin. Seconds.
KILL_LIMIT: Final = 30.0

# A grace of the agent's own, where none was given, is at most this. Seconds.
LONGEST_GRACE: Final = 10.0

# What was started while the last round was under way is ended in the next one.
KILL_ROUNDS: Final = 3

# How a daemon that cannot do the work itself is told.
_LOST: Final = ("daemon_frozen", "daemon_unreachable", "daemon_version", "connection_closed")

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_grace = click.FloatRange(min=0, max=3600)


@click.command(epilog="\b\nExamples:\n  acpbridge status\n  acpbridge status 3f2a --json")
@click.argument("key", required=False, default="")
@_json
@click.pass_context
def status(ctx: click.Context, key: str, *, as_json: bool) -> int:
    """Show the daemon, the sessions that live, and their whole process trees.

    KEY, or any unique part of one, shows that session only, live or not. What is shown of processes
    is read from the kernel at the time of the call. Exit status 8 where no daemon runs.

    A turn that was silent for two minutes while it waits for the model gets a warning; one whose
    tool runs, or that has a question open, does not: it says so, and for how long.
    """
    client = connect(paths(ctx))
    if client is None:
        if key:
            raise _no_daemon()
        shown = _nothing()
        questions: list[Any] = []
    else:
        with client:
            shown = client.call("status", key=key)
            questions = [] if as_json else client.call("questions")["permissions"]
    if as_json:
        print_json(shown)
    else:
        click.echo(tables.status_text(shown, questions))
        keys_shown = {row["key"] for row in shown["sessions"]}
        if any(question["sessionKey"] in keys_shown for question in questions):
            say(f"see and answer questions: {command_line(home(ctx), 'permissions', '--watch')}")
    return EXIT_DAEMON if client is None else EXIT_OK


def _nothing() -> dict[str, Any]:
    return {
        "daemon": None,
        "sessions": [],
        "unowned": [],
        "pendingPermissions": 0,
        "warnings": [],
        "observedAt": tables.now(),
    }


def _no_daemon() -> BridgeError:
    hint = "List what is on record: acpbridge sessions --all."
    return BridgeError("daemon_unreachable", "No daemon runs, so no session is live.", hint=hint)


def connect_or_start(found: Paths) -> Quick:
    """Connect to the daemon, and start it if none runs.

    Raises:
        BridgeError: what kept it from starting, or from being reached.
    """
    client = connect(found)
    if client is not None and client.stopping:
        client.close()
        client = None
    if client is None:
        from acpbridge.cli.starting import start

        start(found)  # after the end of one that is on its way out
        client = connect(found)
    if client is None:
        raise BridgeError("daemon_unreachable", "The daemon ended just after its start.")
    return client


@click.command(
    epilog="\b\nExamples:\n  acpbridge kill 3f2a\n  acpbridge kill --agent codex --now\n"
    "  acpbridge kill --all --json"
)
@click.argument("names", nargs=-1, metavar="[KEY]...")
@click.option("--agent", metavar="ID", help="Every live session of this agent.")
@click.option("--all", "everything", is_flag=True, help="Every live session.")
@click.option("--last", is_flag=True, help=keys.NEWEST_LIVE)
@click.option(
    "--grace",
    type=_grace,
    metavar="S",
    help="Seconds for a polite end after its input is closed (default: the agent's own).",
)
@click.option("--now", is_flag=True, help="No polite end: the same as --grace 0.")
@_json
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
        _print_receipt(results, wanted.wrong, left=left, as_json=as_json)
    codes = [fail(error) for error in wanted.wrong.values()]
    return EXIT_FAILURE if left else max(codes, default=EXIT_OK)


def _print_receipt(
    results: list[Any], wrong: Mapping[str, BridgeError], *, left: bool, as_json: bool
) -> None:
    if not as_json:
        click.echo(tables.kill_text(results))
        return
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

    def of(self, client: Quick) -> list[str]:
        """Ask the daemon."""
        if self.last:
            return [keys.meant(client, "", last=True)]
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
        raise _no_daemon()
    return _end_recorded(found, wanted.among(list(trees)), trees)


def _kill_past_daemon(found: Paths, wanted: _Wanted, error: BridgeError) -> list[Any]:
    """End the trees by the journal; if that cannot be done, the daemon's error stands."""
    from acpbridge.config.environment import MARK
    from acpbridge.daemon import frozen

    if os.environ.get(MARK):
        raise error  # only the daemon knows what an agent may kill
    try:
        trees = frozen.recorded(found)
        names = wanted.among(list(trees))
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
    return frozen.end_trees({name: trees[name] for name in ending})


def _on_one(
    ctx: click.Context, key: str, *, last: bool, work: Callable[[Quick, str], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Find the one session that is meant, and do the work on it."""
    keys.check(ctx, key, last=last)
    client = connect(paths(ctx))
    if client is None:
        raise _no_daemon()
    with client:
        return work(client, keys.meant(client, key, last=last))


@click.command(epilog="\b\nExamples:\n  acpbridge cancel 3f2a\n  acpbridge cancel --last --grace 0")
@keys.one_key(keys.NEWEST_LIVE)
@click.option(
    "--grace",
    type=_grace,
    default=2.0,
    show_default=True,
    metavar="S",
    help="Seconds on each rung.",
)
@_json
@click.pass_context
def cancel(ctx: click.Context, key: str, *, last: bool, grace: float, as_json: bool) -> int:
    """Cancel the running turn of a session, and those that wait behind it.

    The agent is asked first; if that is not enough its session and its input are closed, and then
    it is killed. Exit status 0 when no turn is left running, however far that had to go.
    """
    began = time.monotonic()
    receipt = _on_one(
        ctx,
        key,
        last=last,
        work=lambda client, name: client.call(
            "cancel", limit=KILL_LIMIT + 3 * grace, key=name, grace=grace
        ),
    )
    if as_json:
        print_json(receipt)
    else:
        took = round((time.monotonic() - began) * 1000)
        ended = "no turn is left running" if receipt["turnEnded"] else "the turn STILL RUNS"
        click.echo(f"{escape(receipt['key'])}: {ended} (rung: {receipt['rung']}, {took} ms)")
    return EXIT_OK if receipt["turnEnded"] else EXIT_FAILURE


@click.command(epilog="\b\nExamples:\n  acpbridge close 3f2a\n  acpbridge close --last --json")
@keys.one_key(keys.NEWEST_LIVE)
@_json
@click.pass_context
def close(ctx: click.Context, key: str, *, last: bool, as_json: bool) -> int:
    """End a session politely, with those that it spawned; a closed session is final."""
    limit = KILL_LIMIT + LONGEST_GRACE
    receipt = _on_one(
        ctx, key, last=last, work=lambda client, name: client.call("close", limit=limit, key=name)
    )
    if as_json:
        print_json(receipt)
    else:
        click.echo(f"{escape(receipt['key'])}: closed")
    return EXIT_OK
