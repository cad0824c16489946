"""Which session a command means: KEY, any unique part of one, or `--last`. One way for all of them.

Commands that end something mean the sessions that live; those that look at what is on record, or
bring it back, mean all of them.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from acpbridge.daemon.quick import Quick
from acpbridge.errors import BridgeError

Function = TypeVar("Function", bound=Callable[..., Any])

NEWEST_LIVE = "The session that was started last, of those that live."
NEWEST = "The session that was started last, of all on record."

# So many of the newest are looked at: main sessions that nobody has used may be among them.
LOOKED_AT: Final = 200

# Characters of a UUID.
UUID: Final = 36

# What to do where there is nothing that could be listed.
BEGIN: Final = "Begin one: acpbridge run 'Say hello'."


def one_key(last: str) -> Callable[[Function], Function]:
    """Give a command the argument KEY and the option `--last`, with that help."""

    def decorate(function: Function) -> Function:
        with_last = click.option("--last", is_flag=True, help=last)(function)
        return click.argument("key", required=False, default="")(with_last)

    return decorate


def check(ctx: click.Context, key: str, *, last: bool) -> None:
    """Check that one session is meant.

    Raises:
        click.UsageError: when both or neither are given.
    """
    if bool(key) == last:
        raise click.UsageError("Give either KEY or --last.", ctx)


def meant(client: Quick, key: str, *, last: bool, on_record: bool = False) -> str:
    """Return the key that is meant; a part of one stays a part, which the daemon looks up.

    Raises:
        BridgeError: `no_such_session`, when there is no last one.
    """
    if not last:
        return key
    rows = client.call("sessions", all=on_record, newest=LOOKED_AT)["sessions"]
    return newest(rows, on_record=on_record)


def newest(rows: list[Any], *, on_record: bool) -> str:
    """Return the key of the last row of `sessions`; an agent's main one counts once it is used.

    Raises:
        BridgeError: `no_such_session`, when there is none.
    """
    rows = used(rows)
    if not rows:
        if on_record:
            raise BridgeError("no_such_session", "No session is on record.", hint=BEGIN)
        raise BridgeError("no_such_session", "No session is live.")
    return str(rows[-1]["key"])


def used(rows: list[Any]) -> list[Any]:
    """Return rows of `sessions` without the main ones that nobody has prompted."""
    return [row for row in rows if row["opens"] or not row["key"].endswith(":main")]


def short(key: str) -> str:
    """Return a part of a key that is easy to type: of one that ends in a UUID its beginning."""
    last = key.rpartition(":")[2]
    return last.partition("-")[0] if len(last) == UUID else key
