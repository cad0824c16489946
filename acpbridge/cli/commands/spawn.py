"""`acpbridge spawn`: a task for an agent that works by itself; and how it ended, for who waits."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from acpbridge.cli import options
from acpbridge.cli.caller import environment
from acpbridge.cli.keys import short
from acpbridge.cli.output import fail, print_json, say
from acpbridge.cli.reaching import connect_or_start
from acpbridge.cli.root import here, paths
from acpbridge.cli.tables import shown
from acpbridge.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK
from acpbridge.model.delegation import THINKING
from acpbridge.model.display import visible
from acpbridge.model.sessions import Outcome

if TYPE_CHECKING:
    from acpbridge.embed.run import Result

# For the daemon to take the task: it looks at the disk, and for the agent's login. Seconds.
LIMIT: Final = 60.0


@click.command(
    epilog="\b\nExamples:\n  acpbridge spawn 'Inspect the tests' --agent codex --label tests\n"
    "  acpbridge spawn 'Three sources on X' --agent research --wait\n"
    "  acpbridge spawn - --agent claude --mode session --json < task.md"
)
@click.argument("task")
@click.option("--agent", metavar="ID", help="The agent; else acp.defaultAgent of config.yaml.")
@click.option("--label", metavar="TEXT", help="A short title for it.")
@click.option("--task-name", metavar="NAME", help="A handle for it: letters, digits, _ and -.")
@click.option("--cwd", metavar="DIR", help="Where it works; else its workspace, else here.")
@click.option(
    "--mode",
    type=click.Choice(("run", "session")),
    default="run",
    show_default=True,
    help="run: its process ends with the task. session: it stays for further messages; not for "
    "agents in Python.",
)
@click.option(
    "--timeout",
    type=click.IntRange(0, 86400),
    metavar="S",
    help="Seconds for the task, the wait for a place not counted; 0: as long as it likes. Else "
    "limits.runTimeoutSeconds.",
)
@click.option("--model", metavar="M", help="Its model, by id or name.")
@click.option("--thinking", type=click.Choice(THINKING), help="How much it thinks, if it can.")
@click.option("--resume", metavar="ID", help="The agent's own id of a conversation to go on with.")
@click.option("--wait", is_flag=True, help="Wait for the end, and print what it said.")
@options.as_json
@click.pass_context
def spawn(  # noqa: PLR0913 - one for each option
    ctx: click.Context,
    task: str,
    *,
    agent: str | None,
    label: str | None,
    task_name: str | None,
    cwd: str | None,
    mode: str,
    timeout: int | None,
    model: str | None,
    thinking: str | None,
    resume: str | None,
    wait: bool,
    as_json: bool,
) -> int:
    """Start an agent on a task, and print the key of its session and the id of its run.

    TASK is what it is to do, or - to read it from standard input. It works by itself, also when
    this command has ended: what it asks waits in the inbox, see acpbridge permissions. Where all
    places are taken it waits for one. Ctrl-C ends a wait, and not the task.

    Exit status: 0 it was accepted, or with --wait has completed; 1 it was refused, or failed,
    2 usage, 3 it ran out of time, 4 no such agent, 6 the agent is missing, died or did not start,
    7 it needs a login, 8 the daemon cannot be reached, 130 it was cancelled.
    """
    given = {
        "agentId": agent,
        "label": label,
        "taskName": task_name,
        "cwd": None if cwd is None else os.path.normpath(Path(cwd).expanduser().absolute()),
        "mode": mode,
        "runTimeoutSeconds": timeout,
        "model": model,
        "thinking": thinking,
        "resumeSessionId": resume,
        "callerCwd": here(),
        "env": environment(),
    }
    params = {name: value for name, value in given.items() if value is not None}
    with connect_or_start(paths(ctx)) as client:
        receipt = client.call("tool/spawn", limit=LIMIT, task=_text(ctx, task), **params)
    if not wait:
        if as_json:
            print_json(receipt)
        else:
            _show(receipt)
        return EXIT_OK
    return _waited(ctx, receipt, as_json=as_json)


def _show(receipt: Mapping[str, Any]) -> None:
    click.echo(f"{shown(receipt['childSessionKey'])} {shown(receipt['runId'])}")
    key = shown(short(receipt["childSessionKey"]))
    say(f"it works by itself; follow it: acpbridge logs -f {key}")
    say("see and answer what it asks: acpbridge permissions --watch")


def _waited(ctx: click.Context, receipt: Mapping[str, Any], *, as_json: bool) -> int:
    """Wait for the end of a task; print it, and return the exit status."""
    import anyio

    from acpbridge import logs
    from acpbridge.embed.spawned import Spawned

    logs.to_stderr(quiet=True)

    async def work() -> "Result":
        from acpbridge.daemon.client import connect
        from acpbridge.daemon.remote import RemoteRouter
        from acpbridge.model.requesters import Requester, Role

        async with connect(paths(ctx), start=False) as client:
            me = Requester(Role.OPERATOR)
            return await Spawned.from_json(receipt, RemoteRouter(client), me).result()

    if not as_json:
        say(f"{receipt['childSessionKey']} {receipt['runId']}")
    result = anyio.run(work)
    error = None if result.error is None else result.error.to_json()
    if as_json:
        more = {"outcome": result.outcome, "stopReason": result.stop_reason}
        print_json({**receipt, **more, "error": error, "result": result.text})
    elif result.text:
        click.echo(visible(result.text))
    return _code(result)


def _code(result: "Result") -> int:
    if result.outcome is Outcome.COMPLETED:
        return EXIT_OK
    if result.error is not None:
        return fail(result.error)
    if result.outcome is Outcome.CANCELLED:
        say("the task was cancelled")
        return EXIT_INTERRUPTED
    say(f"the task ended: {result.outcome}, {result.stop_reason}")
    return EXIT_FAILURE


def _text(ctx: click.Context, given: str) -> str:
    if given == "-":
        data = b"" if sys.stdin is None else sys.stdin.buffer.read()
    else:
        data = os.fsencode(given)
    text = data.decode("utf-8", "replace")
    if not text.strip():
        raise click.UsageError("The task is blank.", ctx)
    return text
