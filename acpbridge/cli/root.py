"""The command group: finds the module of a command when it is used, and ends every error alike."""

import errno
import importlib
import os
import sys
from typing import Any, Final

import click

from acpbridge import __version__
from acpbridge.cli.output import fail
from acpbridge.daemon.paths import Paths, find
from acpbridge.errors import EXIT_FAILURE, EXIT_INTERRUPTED, BridgeError

# Command -> module that holds it under the same name, and the help line of the list.
COMMANDS: Final = {
    "run": ("acpbridge.cli.run", "Run one turn of an agent."),
    "status": ("acpbridge.cli.quick", "Show what runs, from the kernel, now."),
    "sessions": ("acpbridge.cli.sessions", "List, delete and export sessions."),
    "logs": ("acpbridge.cli.logs", "Show what happened in a session."),
    "kill": ("acpbridge.cli.quick", "End sessions and their whole process trees."),
    "cancel": ("acpbridge.cli.quick", "Cancel the running turn of a session."),
    "close": ("acpbridge.cli.quick", "End a session politely."),
    "restart": ("acpbridge.cli.restart", "Give a session a new process."),
    "permissions": ("acpbridge.cli.permissions", "List and answer open questions."),
    "daemon": ("acpbridge.cli.daemon", "Start, stop and look at the daemon."),
    "serve": ("acpbridge.cli.serve", "Serve a Python agent over ACP on stdio."),
}


class _Commands(click.Group):
    """A group whose commands are imported on use, and listed without an import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: acpbridge run 'Say hello'",
)
@click.option("--home", metavar="DIR", help="State directory (default: $ACPBRIDGE_HOME, else XDG).")
@click.version_option(__version__, prog_name="acpbridge")
@click.pass_context
def commands(ctx: click.Context, home: str | None) -> None:
    """Run coding agents under supervision: ask before they act, and leave nothing behind."""
    ctx.obj = home


def home(ctx: click.Context) -> str | None:
    """Return what was given as `--home`."""
    given: str | None = ctx.find_root().obj
    return given


def paths(ctx: click.Context) -> Paths:
    """Return the paths of the state directory that the command line names."""
    return find(home(ctx), os.environ)


def main(args: list[str] | None = None) -> Any:
    """Run the command line and exit."""
    _open_standard_streams()
    try:
        code = commands.main(args=args, prog_name="acpbridge", standalone_mode=False)
        sys.stdout.flush()
    except BridgeError as error:
        code = fail(error)
    except click.ClickException as error:
        code = fail(_of_click(error))
    except (click.Abort, KeyboardInterrupt):
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        code = EXIT_FAILURE
        _let_go_of_output()
    except OSError as error:
        full = error.errno == errno.ENOSPC
        where = f"{error.filename}: " if error.filename else ""
        message = f"{where}{error.strerror or error}."
        code = fail(BridgeError("store_full" if full else "internal", message, hint=_hint(full)))
        _let_go_of_output()
    except BaseExceptionGroup as group:
        if group.split(BrokenPipeError)[1] is not None:
            raise
        code = EXIT_FAILURE
        _let_go_of_output()
    sys.exit(code if isinstance(code, int) else 0)


def _hint(full: bool) -> str | None:  # noqa: FBT001 - full or not
    return None if full else "Look at the permissions of the file or directory."


def _of_click(error: click.ClickException) -> BridgeError:
    """Return click's own errors as ours: a wrong use of the command line, or a file."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    command = "acpbridge" if ctx is None else ctx.command_path
    return BridgeError("usage", error.format_message(), hint=f"See: {command} --help")


def _open_standard_streams() -> None:
    """Where one of the three is closed, keep its number from becoming a socket's."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _let_go_of_output() -> None:
    """The reader of our output has gone: keep Python from flushing into nothing at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.dup2(null, sys.stderr.fileno())
