"""`acpbridge mcp`: the session tools for any MCP client, on standard input and output."""

import sys

import click

from acpbridge.cli.caller import environment
from acpbridge.cli.output import say
from acpbridge.cli.root import here, paths
from acpbridge.errors import BridgeError
from acpbridge.model.keys import MAIN, SessionKey, agent_id


@click.command(
    epilog="\b\nExamples:\n  acpbridge mcp\n  acpbridge mcp --agent reviewer\n\n"
    "docs/mcp.md says how to add it to a client."
)
@click.option("--session", metavar="KEY", help="Be known under this key (see docs/mcp.md).")
@click.option("--agent", metavar="ID", help="Be known as this agent's main session.")
@click.pass_context
def mcp(ctx: click.Context, session: str | None, agent: str | None) -> None:
    """Serve the session tools over MCP: JSON-RPC on standard input and output, until it ends.

    An MCP client starts this; a main agent then lists agents, starts them in sessions of their own,
    speaks to them and waits for them. The client is an agent itself, agent:main:main unless
    another key is given: it sees what it has started, and answers no question. The daemon is
    started when it is needed.
    """
    if session is not None and agent is not None:
        raise click.UsageError("Give --session or --agent, not both.", ctx)
    key = _key(session, agent)
    from acpbridge.edge.stdio import claim_stdio

    typed = sys.stdin is not None and sys.stdin.isatty()  # now, for it is claimed below
    found = paths(ctx)
    # Before anything else is imported: what that may print does not belong into the protocol.
    stdio = claim_stdio()
    if typed:
        say("waiting for an MCP client's JSON-RPC on standard input; Ctrl-D ends it", dim=True)
    from acpbridge.app.mcp import serve_tools
    from acpbridge.tools.registry import Caller

    serve_tools(found, key, Caller(here(), environment()), stdio)


def _key(session: str | None, agent: str | None) -> str:
    try:
        if session is not None:
            return str(SessionKey.parse(session))
        return str(SessionKey.main(MAIN if agent is None else agent_id(agent)))
    except BridgeError as error:
        raise BridgeError("usage", error.message) from None
