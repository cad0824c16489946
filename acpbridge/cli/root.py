"""The command group: finds the module of a command when it is used, and ends every error alike."""

import importlib
import os
import sys
from typing import Any, Final

import click

from acpbridge import __version__
from acpbridge.daemon.paths import Paths, find
from acpbridge.errors import BridgeError

# Command -> module that holds it under the same name, and the help line of the list.
COMMANDS: Final = {
    "run": ("acpbridge.cli.run", "Run one turn of an agent."),
    "status": ("acpbridge.cli.quick", "Show what runs, from the kernel, now."),
    "sessions": ("acpbridge.cli.quick", "List sessions."),
    "kill": ("acpbridge.cli.quick", "End sessions and their whole process trees."),
    "cancel": ("acpbridge.cli.quick", "Cancel the running turn of a session."),
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


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--home", metavar="DIR", help="State directory (default: $ACPBRIDGE_HOME, else XDG).")
@click.version_option(__version__, prog_name="acpbridge")
@click.pass_context
def commands(ctx: click.Context, home: str | None) -> None:
    """Run coding agents under supervision: ask before they act, and leave nothing behind."""
    ctx.obj = home


def paths(ctx: click.Context) -> Paths:
    """Return the paths of the state directory that the command line names."""
    return find(ctx.find_root().obj, os.environ)


def fail(error: BridgeError) -> int:
    """Say an error on stderr, with what to do next, and return its exit status."""
    click.echo(f"error ({error.code}): {error.message}", err=True)
    stderr = error.data.get("stderr")
    if isinstance(stderr, str) and stderr.strip():
        click.echo("the agent's stderr:", err=True)
        for line in stderr.strip().splitlines()[-20:]:
            click.echo(f"  {line}", err=True)
    if error.hint:
        click.echo(f"next: {error.hint}", err=True)
    return error.kind.exit


def main(args: list[str] | None = None) -> Any:
    """Run the command line and exit."""
    try:
        code = commands.main(args=args, prog_name="acpbridge", standalone_mode=False)
    except BridgeError as error:
        code = fail(error)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        code = 130
    except BrokenPipeError:
        # The reader of our output has gone: end quietly, and keep Python from flushing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
