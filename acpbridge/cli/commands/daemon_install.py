"""`daemon install` and `daemon uninstall`: the daemon as a service of the user's systemd."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import click

from acpbridge.cli import options
from acpbridge.cli.output import print_json, say
from acpbridge.cli.privatefile import private_file
from acpbridge.cli.root import paths
from acpbridge.daemon import unit
from acpbridge.daemon.paths import PROGRAM, Paths, default_of
from acpbridge.errors import EXIT_OK, BridgeError

T = TypeVar("T")


@click.command(
    short_help="Write a systemd user unit for the daemon.",
    epilog="\b\nExamples:\n  acpbridge daemon install\n  acpbridge daemon install --print\n\n"
    "Exit status: 0 it is there; 2 somebody has changed it, or it cannot be "
    "written.",
)
@click.option("--print", "only_print", is_flag=True, help="Print the unit and write nothing.")
@click.option("--force", is_flag=True, help="Replace a unit that somebody has changed.")
@options.as_json
@click.pass_context
def install(ctx: click.Context, *, only_print: bool, force: bool, as_json: bool) -> int:
    """Write a systemd user unit, so that the daemon starts with your login and comes back.

    systemd ends it with all its agents, starts it again when it crashes or no longer answers, and
    lets it hold each agent in a control group. Nothing is enabled or started by this command.
    """
    found = paths(ctx)
    text = unit.text(PROGRAM, found)
    if only_print:
        click.echo(text, nl=False)
        return EXIT_OK
    target = _target(found)
    written = _write(target, text, force=force)
    if as_json:
        print_json({"unit": target.name, "path": str(target), "written": written})
        return EXIT_OK
    click.echo(f"{'wrote' if written else 'unchanged:'} {target}")
    say(
        f"next: systemctl --user daemon-reload && systemctl --user enable --now {target.name}\n"
        "(a daemon that runs already is to be stopped first: acpbridge daemon stop)\n"
        "to have it without being logged in: loginctl enable-linger"
    )
    return EXIT_OK


@click.command(
    short_help="Remove the unit that daemon install has written.",
    epilog="\b\nExamples:\n  acpbridge daemon uninstall\n  acpbridge daemon uninstall --json",
)
@click.option("--force", is_flag=True, help="Remove it even if somebody has changed it.")
@options.as_json
@click.pass_context
def uninstall(ctx: click.Context, *, force: bool, as_json: bool) -> int:
    """Remove the systemd user unit. A daemon that runs in it goes on until it is stopped."""
    target = _target(paths(ctx))
    there = _read(target)
    if there is not None:
        _check_ours(target, there, force=force)
        _changing(target, target.unlink)
    if as_json:
        print_json({"unit": target.name, "path": str(target), "removed": there is not None})
    elif there is None:
        click.echo(f"there is no {target}")
    else:
        click.echo(f"removed {target}")
        say(f"next: systemctl --user disable --now {target.name}; systemctl --user daemon-reload")
    return EXIT_OK


def _target(found: Paths) -> Path:
    """Return where the user's systemd looks for the unit of a state directory.

    Raises:
        BridgeError: `usage`, when there is no home directory.
    """
    default = default_of(os.environ)
    # Of that directory systemd knows as well where it is: XDG_CONFIG_HOME, else ~/.config.
    return default.config.parent.parent / "systemd" / "user" / unit.name(found, default)


def _write(target: Path, text: str, *, force: bool) -> bool:
    """Write the unit; return False where it is there already."""
    there = _read(target)
    if there == text:
        return False
    if there is not None:
        _check_ours(target, there, force=force)

    def write() -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with private_file(target, force=True) as file:
            file.write(text.encode())

    _changing(target, write)
    return True


def _read(target: Path) -> str | None:
    with suppress(FileNotFoundError):
        return _changing(target, lambda: target.read_text(encoding="utf-8", errors="replace"))
    return None


def _check_ours(target: Path, there: str, *, force: bool) -> None:
    if not force and not unit.untouched(there):
        raise BridgeError(
            "usage",
            f"{target} is not as acpbridge has written it.",
            hint="Keep your changes with systemctl --user edit, or lose them with --force.",
        )


def _changing(target: Path, act: Callable[[], T]) -> T:
    """Do something to the unit's file.

    Raises:
        FileNotFoundError: there is none.
        BridgeError: `usage`, with the system's reason.
    """
    try:
        return act()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BridgeError("usage", f"{target}: {error.strerror}.") from None
