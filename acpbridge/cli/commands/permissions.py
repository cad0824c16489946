"""`acpbridge permissions`: the inbox of questions, and `answer`."""

import click

from acpbridge.cli import moments, options
from acpbridge.cli.commands import granted
from acpbridge.cli.commands.permissions_audit import audit
from acpbridge.cli.output import command_line, lines, print_json, say, terminal_width
from acpbridge.cli.questions.question import REASON_GOES, how_long, render
from acpbridge.cli.reaching import connect_or_start
from acpbridge.cli.root import home, paths
from acpbridge.errors import EXIT_FAILURE, EXIT_OK, BridgeError

# A decision is on disk before the agent hears of it. Seconds.
ANSWER_LIMIT = 30.0


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n  acpbridge permissions\n"
    "  acpbridge permissions --watch\n"
    "  acpbridge permissions answer 1a2b3c4d --allow\n"
    "  acpbridge permissions answer 1a2b3c4d --deny --reason 'not on a Friday'",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document; with --watch, one a line."
)
@click.option("--watch", is_flag=True, help="Stay; ask each question as it comes up, until Ctrl-C.")
@click.pass_context
def permissions(ctx: click.Context, *, as_json: bool, watch: bool) -> int:
    """List the questions that wait for a person, with all that would happen.

    A question that nobody answers until it expires is denied. With --watch the questions of all
    sessions are asked here as they come up, or printed where there is no terminal, with what they
    come to; Ctrl-C ends it with exit status 0, the end of the daemon with 8.
    """
    if ctx.invoked_subcommand is not None:
        if as_json or watch:
            word = "--json" if as_json else "--watch"
            hint = f"{word} goes behind {ctx.invoked_subcommand}, if it takes it."
            raise click.UsageError(hint, ctx)
        return EXIT_OK
    return _watch(ctx, as_json=as_json) if watch else _list(ctx, as_json=as_json)


permissions.add_command(audit)


@permissions.command(
    name="list",
    short_help="List the questions that wait.",
    epilog="\b\nExamples:\n  acpbridge permissions list --json",
)
@options.as_json
@click.pass_context
def list_(ctx: click.Context, *, as_json: bool) -> int:
    """List the questions that wait for a person: the same as `permissions` alone."""
    return _list(ctx, as_json=as_json)


@permissions.command(
    short_help="Show one question, all of it.",
    epilog="\b\nExamples:\n  acpbridge permissions show 1a2b3c4d\n"
    "  acpbridge permissions show 1a2b3c4d | less\n"
    "  acpbridge permissions show 1a2b3c4d --json",
)
@click.argument("question", metavar="ID")
@options.as_json
@click.pass_context
def show(ctx: click.Context, question: str, *, as_json: bool) -> int:
    """Show one question that waits, all of it, however long it is.

    Exit status 4 if it is not open any more.
    """
    with connect_or_start(paths(ctx)) as client:
        found = client.call("questions")["permissions"]
    for one in found:
        if one.get("id") == question:
            if as_json:
                print_json(one)
            else:
                click.echo(render(one, now=moments.now(), width=terminal_width()))
            return EXIT_OK
    hint = f"See what waits: {command_line(home(ctx), 'permissions')}"
    raise BridgeError("no_such_question", f"No open question is {question!r}.", hint=hint)


def _watch(ctx: click.Context, *, as_json: bool) -> int:
    import anyio

    from acpbridge import logs
    from acpbridge.cli.watching import Watch

    logs.to_stderr(quiet=True)
    return anyio.run(Watch(paths(ctx), home(ctx), as_json=as_json).run)


def _list(ctx: click.Context, *, as_json: bool) -> int:
    with connect_or_start(paths(ctx)) as client:
        found = client.call("questions")["permissions"]
    if as_json:
        print_json({"permissions": found})
    elif not found:
        click.echo("no open question")
    else:
        now, count = moments.now(), len(found)
        # The terminal's own word: what it wrapped by itself would have no mark of ours.
        width = terminal_width()
        shown = (
            render(question, now=now, place=(number, count), width=width)
            for number, question in enumerate(found, 1)
        )
        click.echo("\n\n".join(shown))
        # One that is alone can be answered by what stands there.
        which = str(found[0]["id"]) if count == 1 else "ID"
        answer_with = command_line(home(ctx), "permissions", "answer", which)
        say(f"answer with: {answer_with} --allow")
        say("or instead of --allow: --deny, --deny --reason TEXT, --option OPTION")
    return EXIT_OK


@permissions.command(
    short_help="Answer one question.",
    epilog="\b\nExamples:\n  acpbridge permissions answer 1a2b3c4d --allow\n"
    "  acpbridge permissions answer 1a2b3c4d --option allow_once --json",
)
@click.argument("question", metavar="ID")
@click.option("--allow", is_flag=True, help="Allow once; needs exactly one option that does so.")
@click.option("--deny", is_flag=True, help="Deny, this time only.")
@click.option("--option", metavar="OPTION", help="Select an offered option by its exact id.")
@click.option(
    "--confirm",
    metavar="OPTION",
    help="The option's id once more, where it changes the agent's mode or its kind is unknown.",
)
@click.option(
    "--reason",
    default="",
    metavar="TEXT",
    help="Why; kept in audit and log. With --deny the agent is told with its next prompt.",
)
@options.as_json
@click.pass_context
def answer(  # noqa: PLR0913 - one for each option
    ctx: click.Context,
    question: str,
    *,
    allow: bool,
    deny: bool,
    option: str | None,
    confirm: str | None,
    reason: str,
    as_json: bool,
) -> int:
    """Answer one question; the first valid answer counts.

    Exit status 0 if the question came to what was answered, 4 if it is not open any more, 1 if the
    option must be confirmed; the question is open then.
    """
    if sum((allow, deny, option is not None)) != 1:
        raise click.UsageError("Give one of: --allow, --deny, --option.", ctx)
    effect = None if option is not None else "allow" if allow else "deny"
    with connect_or_start(paths(ctx)) as client:
        decision = client.call(
            "answer",
            limit=ANSWER_LIMIT,
            id=question,
            optionId=option,
            effect=effect,
            note=reason,
            confirm=confirm,
        )
    if as_json:
        print_json(decision)
    else:
        chosen = decision.get("optionId")
        by_option = "" if chosen is None else f" (option {chosen})"
        click.echo(" ".join(lines(f"{question}: {decision['effect']}{by_option}")))
        if how_long(decision):
            say(how_long(decision))
    if decision.get("told") is not None:
        say(REASON_GOES[bool(decision["told"])])
    if decision.get("reason") == "operator":
        return EXIT_OK
    say(f"it did not come to that: {' '.join(lines(str(decision.get('reason'))))}")
    return EXIT_FAILURE


permissions.add_command(granted.grants)
permissions.add_command(granted.revoke)
