"""`acpbridge run`: one turn of an agent, from the prompt to its exit status."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from acpbridge.cli.caller import environment
from acpbridge.cli.root import home, paths
from acpbridge.errors import BridgeError
from acpbridge.model.permission import OnPermission

if TYPE_CHECKING:
    from acpbridge.router.api import RunRequest

FORMATS: Final = ("text", "json", "quiet")
MODES: Final = ("run", "session")


@click.command(
    epilog="\b\nExamples:\n  acpbridge run 'Explain what this repository does'\n"
    "  acpbridge run --agent codex --cwd ~/src/shop --format json - < task.md\n"
    "  acpbridge run --continue 'Now write the tests'\n"
    "  acpbridge run --model opus --set effort=high --image a.png 'What is this?'"
)
@click.argument("prompt", required=False)
@click.option("--agent", metavar="ID", help="Which agent (default: the configured default).")
@click.option("--cwd", metavar="DIR", help="Where it works (default: its workspace, else here).")
@click.option("--session", metavar="KEY", help="Go on with this session; any unique part will do.")
@click.option("--continue", "go_on", is_flag=True, help="Go on with the last session in --cwd.")
@click.option(
    "--fresh",
    is_flag=True,
    help="If the agent cannot take the earlier conversation up, go on without it.",
)
@click.option("--model", metavar="M", help="Model of the session, by id or name, from now on.")
@click.option(
    "--set",
    "options",
    multiple=True,
    metavar="ID=VALUE",
    help="Set an option that the agent offers, from now on; may be repeated. ID= takes an earlier "
    "--set back.",
)
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="FILE",
    help="Show it a PNG, JPEG, GIF or WebP image with the prompt; may be repeated.",
)
@click.option(
    "--mcp-config",
    metavar="FILE",
    help='MCP servers for this run, JSON or YAML: {"mcpServers": {NAME: {"command": ...}}}.',
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="run",
    show_default=True,
    help="run: the agent's process ends with the turn. session: it stays for the next prompt "
    "until it was idle for limits.idleTtlSeconds.",
)
@click.option(
    "--format",
    "shape",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="text: the agent's words as they come. json: an event a line. quiet: the last words.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Seconds for the turn; then it is cancelled, exit status 3.",
)
@click.option(
    "--on-permission",
    type=click.Choice([word.value for word in OnPermission]),
    default=OnPermission.ASK.value,
    show_default=True,
    help="ask: you are asked. allow: what is beyond doubt is allowed, this once; all else is "
    "asked. deny: nothing is allowed.",
)
@click.option("--detach", is_flag=True, help="Print the session's key and leave the turn running.")
@click.pass_context
def run(  # noqa: PLR0913 - one for each option
    ctx: click.Context,
    prompt: str | None,
    *,
    agent: str | None,
    cwd: str | None,
    session: str | None,
    go_on: bool,
    fresh: bool,
    model: str | None,
    options: tuple[str, ...],
    images: tuple[str, ...],
    mcp_config: str | None,
    mode: str,
    shape: str,
    timeout: float | None,
    on_permission: str,
    detach: bool,
) -> int:
    """Run one turn of an agent.

    PROMPT is what the agent is told. Without one, or with -, it is read from standard input.

    The agent starts with a small part of this environment: PATH and the like, and what belongs to
    it or is named in config.yaml. Its questions are asked on this terminal; where there is none
    they wait in the inbox, see: acpbridge permissions. Ctrl-C cancels the turn.

    Exit status: 0 the turn ended normally, 1 it failed or was refused, 2 usage or configuration,
    3 the timeout passed, 4 no such session or agent, 5 a permission was denied and the turn did
    not end normally, 6 the agent is missing, died or did not start, 7 it needs a login, 8 the
    daemon cannot be reached, 130 cancelled by a person.
    """
    _check(ctx, agent, session, go_on=go_on, fresh=fresh)
    text = _prompt(ctx, prompt)
    directory = "" if cwd is None else _directory(ctx, cwd)
    from acpbridge.cli.choices import images_of, servers_of, settings_of
    from acpbridge.router.api import RunRequest

    request = RunRequest(
        content=({"type": "text", "text": text}, *images_of(images)),
        agent=agent or "",
        session=session or "",
        continue_last=go_on,
        cwd=directory,
        caller_cwd=directory or _here(),
        env=environment(),
        one_shot=mode == "run",
        on_permission=OnPermission(on_permission),
        timeout=timeout,
        detached=detach,
        settings=settings_of(model, options),
        mcp_servers=servers_of(mcp_config, directory or _here()),
        fresh=fresh,
    )
    return _drive(ctx, request, shape)


def _check(
    ctx: click.Context, agent: str | None, session: str | None, *, go_on: bool, fresh: bool
) -> None:
    """Check that the options which choose a session go together."""
    if session is not None and (go_on or agent is not None):
        raise click.UsageError("--session goes with neither --continue nor --agent.", ctx)
    if go_on and agent is not None:
        raise click.UsageError("Give --continue or --agent, not both.", ctx)
    if fresh and session is None and not go_on:
        raise click.UsageError("--fresh goes with --session or --continue.", ctx)


def _drive(ctx: click.Context, request: "RunRequest", shape: str) -> int:
    """Run the turn; once more if its conversation is lost and a person goes on without it."""
    import anyio

    from acpbridge import logs
    from acpbridge.cli.turn import Drive

    logs.to_stderr(quiet=True)
    drive = Drive(paths(ctx), request, shape, home(ctx))
    code = anyio.run(drive.run)
    again = drive.without_context()
    return code if again is None else anyio.run(Drive(paths(ctx), again, shape, home(ctx)).run)


def _prompt(ctx: click.Context, given: str | None) -> str:
    if given is None and sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError("Give a prompt, or - to read it from standard input.", ctx)
    if given is None or given == "-":
        data = b"" if sys.stdin is None else sys.stdin.buffer.read()
        text = data.decode("utf-8", "replace")
    else:
        text = os.fsencode(given).decode("utf-8", "replace")
    if not text.strip():
        raise click.UsageError("The prompt is empty.", ctx)
    return text


def _directory(ctx: click.Context, given: str) -> str:
    path = Path(given).expanduser().absolute()
    if not path.is_dir():
        raise click.UsageError(f"--cwd: {given!r} is not a directory.", ctx)
    try:
        given.encode()
    except UnicodeEncodeError:
        message = f"--cwd: the name {given!r} is not UTF-8; agents cannot be told it."
        raise click.UsageError(message, ctx) from None
    return os.path.normpath(path)


def _here() -> str:
    try:
        here = str(Path.cwd())
        here.encode()
    except (OSError, UnicodeEncodeError):
        message = "The current directory is gone, or its name is not UTF-8."
        raise BridgeError("usage", message, hint="Give one with --cwd.") from None
    return here
