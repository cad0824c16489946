"""`daemon stop` and `daemon restart`: the end of a daemon of any version, frozen or not."""

import os
from typing import Final

import click

from acpbridge.cli import options
from acpbridge.cli.output import lines, on_terminal, print_json, say
from acpbridge.cli.root import paths
from acpbridge.config.environment import MARK
from acpbridge.daemon import frozen, unit
from acpbridge.daemon.paths import Paths, default_of
from acpbridge.daemon.quick import Quick, connect
from acpbridge.errors import EXIT_FAILURE, EXIT_OK, BridgeError

# A polite stop ends every tree within eight seconds; the rest is a margin. Seconds.
STOP_LIMIT: Final = 12.0

_force = click.option(
    "--force", is_flag=True, help="Ask nothing and end it at once, also if it is frozen."
)
_yes = click.option("--yes", is_flag=True, help="Ask nothing: cancel what runs.")


@click.command(
    short_help="Stop the daemon and all that it runs.",
    epilog="\b\nExamples:\n  acpbridge daemon stop\n  acpbridge daemon stop --force\n\n"
    "Exit status: 0 it is gone, or there was none; 1 it has work and nobody could be asked; "
    "8 it is frozen.",
)
@_yes
@_force
@options.as_json
@click.pass_context
def stop(ctx: click.Context, *, yes: bool, force: bool, as_json: bool) -> int:
    """Stop the daemon: turns are cancelled, every process tree is ended, and it is gone.

    Where a turn runs or a question is open it asks first; where nobody can be asked it refuses.
    Sessions stay on record and can be taken up again.
    """
    pid = _end(paths(ctx), "stop", yes=yes, force=force)
    if pid is None:
        return EXIT_FAILURE
    if as_json:
        print_json({"stopped": pid or None})
    else:
        click.echo(_told(pid))
    return EXIT_OK


@click.command(
    short_help="Stop the daemon and start it afresh.",
    epilog="\b\nExamples:\n  acpbridge daemon restart\n  acpbridge daemon restart --force\n\n"
    "Exit status: as of stop; 2 the configuration is wrong, and nothing was done; also that of a "
    "daemon that does not start.",
)
@_yes
@_force
@options.as_json
@click.pass_context
def restart(ctx: click.Context, *, yes: bool, force: bool, as_json: bool) -> int:
    """Stop the daemon, as `daemon stop` does, and start it afresh: after an upgrade, say.

    Each session is reopened with its next prompt.
    """
    found = paths(ctx)
    from acpbridge.daemon.configfile import ConfigFile
    from acpbridge.daemon.policyfile import PolicyFile

    # A daemon that works is not ended for one that would not start.
    ConfigFile(found.config).first()
    PolicyFile.first(found)
    _check_unmanaged(found)
    pid = _end(found, "restart", yes=yes, force=force)
    if pid is None:
        return EXIT_FAILURE
    from acpbridge.cli.starting import start

    try:
        new = start(found)
    except BridgeError:
        say(f"{_told(pid)}, and no new one has started", fg="yellow")
        raise
    if as_json:
        print_json({"stopped": pid or None, "pid": new})
    else:
        click.echo(f"{_told(pid)}; the daemon runs (pid {new})")
    return EXIT_OK


def _check_unmanaged(found: Paths) -> None:
    """Check that no service manager has the daemon: it would start another one, or lose this one.

    Raises:
        BridgeError: `usage`, naming the command that restarts it.
    """
    running = frozen.daemon_of(found)
    name = unit.name(found, default_of(os.environ))
    if running is not None and unit.runs_in(name, running.pid):
        hint = f"Restart the service: systemctl --user restart {name}"
        raise BridgeError("usage", f"The daemon belongs to the service {name}.", hint=hint)


def _told(pid: int) -> str:
    return f"stopped (pid {pid})" if pid else "no daemon runs"


def _end(found: Paths, verb: str, *, yes: bool, force: bool) -> int | None:
    """End the daemon and return its pid, 0 if none ran; None if a person does not want that."""
    if force:
        return _end_by_force(found)
    client = connect(found, any_version=True)
    if client is None:
        return 0
    with client:
        try:
            _call_stop(client, if_idle=not yes and not client.stopping)
        except BridgeError as error:
            if error.code != "busy":
                raise
            if not _agreed(error, verb):
                return None
            _call_stop(client, if_idle=False)
        if not frozen.wait_stopped(found, STOP_LIMIT):
            message = f"The daemon (pid {client.pid}) has not stopped in {STOP_LIMIT:g} s."
            raise BridgeError("daemon_frozen", message)
    return client.pid


def _call_stop(client: Quick, *, if_idle: bool) -> None:
    try:
        client.call("stop", force=False, ifIdle=if_idle)
    except BridgeError as error:
        # An idle daemon may be gone before its answer is.
        if error.code != "connection_closed":
            raise


def _agreed(busy: BridgeError, verb: str) -> bool:
    """Ask whoever is at the terminal.

    Raises:
        BridgeError: `busy`, where nobody is.
    """
    if not on_terminal():
        hint = f"Wait, or end it all the same: acpbridge daemon {verb} --yes."
        raise BridgeError("busy", busy.message, hint=hint, data=busy.data)
    say(" ".join(lines(busy.message)), fg="yellow")
    if click.confirm("Cancel all that and go on?", err=True):
        return True
    say("nothing was done")
    return False


def _end_by_force(found: Paths) -> int:
    if os.environ.get(MARK):
        message = "The daemon is not ended by force from inside a supervised agent."
        raise BridgeError("permission_denied", message)
    known = frozen.daemon_of(found)
    left = frozen.stop_by_force(found)
    if left:
        raise BridgeError("survivors", f"Processes are left: {', '.join(map(str, left))}.")
    if not frozen.wait_stopped(found, STOP_LIMIT):
        raise BridgeError("daemon_running", "Another daemon was started meanwhile.")
    return 0 if known is None else known.pid
