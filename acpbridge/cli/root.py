"""The command group: finds the module of a command when it is used, and ends every error alike."""

import errno
import gc
import importlib
import os
import sys
from typing import Any, Final

import click

from acpbridge import __version__
from acpbridge.cli.output import fail, print_json
from acpbridge.daemon.paths import Paths, find
from acpbridge.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, BridgeError

# Command -> module that holds it under the same name, and the help line of the list.
COMMANDS: Final = {
    "run": ("acpbridge.cli.commands.run", "Run one turn of an agent."),
    "spawn": ("acpbridge.cli.commands.spawn", "Start a child that works by itself."),
    "send": ("acpbridge.cli.commands.send", "Send a message to a session that exists."),
    "status": ("acpbridge.cli.commands.status", "Show what runs, from the kernel, now."),
    "sessions": ("acpbridge.cli.commands.sessions", "List, delete and export sessions."),
    "tree": ("acpbridge.cli.commands.tree", "Show who started whom."),
    "runs": ("acpbridge.cli.commands.runs", "List runs, how they ended, and who is to hear."),
    "logs": ("acpbridge.cli.commands.logs", "Show what happened in a session."),
    "kill": ("acpbridge.cli.commands.kill", "End sessions and their whole process trees."),
    "cancel": ("acpbridge.cli.commands.cancel", "Cancel the running turn of a session."),
    "close": ("acpbridge.cli.commands.cancel", "End a session politely."),
    "attach": ("acpbridge.cli.commands.attach", "Follow a session, type to it, answer it."),
    "restart": ("acpbridge.cli.commands.restart", "Give a session a new process."),
    "permissions": ("acpbridge.cli.commands.permissions", "List and answer open questions."),
    "delegations": ("acpbridge.cli.commands.delegations", "List and end delegated work."),
    "policy": ("acpbridge.cli.commands.policy", "Check the rules on permissions, explain them."),
    "agents": ("acpbridge.cli.commands.agents", "List the agents and what each would run."),
    "doctor": ("acpbridge.cli.commands.doctor", "Check the bridge and the agents."),
    "login": ("acpbridge.cli.commands.login", "Run an agent's own login."),
    "config": ("acpbridge.cli.commands.config", "Check the configuration."),
    "daemon": ("acpbridge.cli.commands.daemon", "Start, stop and look at the daemon."),
    "serve": ("acpbridge.cli.commands.serve", "Serve a Python agent over ACP on stdio."),
    "mcp": ("acpbridge.cli.commands.mcp", "Serve the session tools to an MCP client on stdio."),
}

# What click raises for a group without a command; an older click prints the help by itself.
_NO_ARGS: Final = getattr(click.exceptions, "NoArgsIsHelpError", ())


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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a name that is nearly one is told which."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib  # seldom needed

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if not near:
                raise
            message = f"{error.format_message()} Did you mean: {near[0]}?"
            raise click.UsageError(message, error.ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a wrong use of it, found after click was content, names its help."""
        try:
            return super().invoke(ctx)
        except BridgeError as error:
            if error.code == "usage" and error.hint == error.kind.hint and ctx.invoked_subcommand:
                error.hint = f"See: {ctx.command_path} {ctx.invoked_subcommand} --help"
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: acpbridge run 'Say hello'",
)
@click.option(
    "--home",
    metavar="DIR",
    help="State directory (default: $ACPBRIDGE_HOME, else ~/.local/state/acpbridge).",
)
@click.version_option(__version__, prog_name="acpbridge")
@click.pass_context
def commands(ctx: click.Context, home: str | None) -> None:
    """Run coding agents under supervision: ask before they act, and leave nothing behind."""
    ctx.obj = home
    # Modules stay to the end: from here on only what is made by the work itself is looked at.
    gc.freeze()
    gc.enable()


def home(ctx: click.Context) -> str | None:
    """Return what was given as `--home`."""
    given: str | None = ctx.find_root().obj
    return given


def paths(ctx: click.Context) -> Paths:
    """Return the paths of the state directory that the command line names."""
    return find(home(ctx), os.environ)


def here() -> str:
    """Return the current directory, "/" where it is gone: for commands that only look."""
    try:
        return os.getcwd()  # noqa: PTH109 - as the kernel has it
    except OSError:
        return "/"


def main(args: list[str] | None = None) -> Any:
    """Run the command line and exit."""
    _open_standard_streams()
    words = sys.argv[1:] if args is None else args
    try:
        code = commands.main(args=words, prog_name="acpbridge", standalone_mode=False)
        sys.stdout.flush()
    except BridgeError as error:
        code = _fail(error, words)
    except click.ClickException as error:
        code = _help(error) if isinstance(error, _NO_ARGS) else _fail(_of_click(error), words)
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
    gc.freeze()  # the process ends: nobody has to look for garbage in it once more
    sys.exit(code if isinstance(code, int) else 0)


def _help(error: click.ClickException) -> int:
    """Whoever types only the name of a group wants to know what there is."""
    click.echo(error.format_message())
    return EXIT_OK


def _fail(error: BridgeError, words: list[str]) -> int:
    """Say an error on stderr, and print it as data to whoever asked for JSON."""
    code = fail(error)
    if _wants_json(words):
        try:
            print_json({"error": error.to_json()})
            sys.stdout.flush()
        except OSError:
            _let_go_of_output()  # it was said on stderr
    return code


def _wants_json(words: list[str]) -> bool:
    """Tell whether a command line asks for JSON; it may be one that could not be understood."""
    options = words[: words.index("--")] if "--" in words else words
    pairs = zip(options, [*options[1:], ""], strict=True)
    return any(
        word in ("--json", "--format=json") or (word, value) == ("--format", "json")
        for word, value in pairs
    )


def _hint(full: bool) -> str | None:  # noqa: FBT001 - full or not
    return None if full else "Look at the permissions of the file or directory."


def _of_click(error: click.ClickException) -> BridgeError:
    """Return click's own errors as ours: a wrong use of the command line, or a file."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    command = "acpbridge" if ctx is None else _typed(ctx)
    return BridgeError("usage", error.format_message(), hint=f"See: {command} --help")


def _typed(ctx: click.Context) -> str:
    """Return the names of a command and of those around it: click's own path has arguments too."""
    name = ctx.info_name or ""
    return name if ctx.parent is None else f"{_typed(ctx.parent)} {name}"


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
