"""`acpbridge serve`: a Python agent as an ACP agent on standard input and output."""

import click

from acpbridge.errors import EXIT_OK


@click.command(
    epilog="\b\nExamples:\n  acpbridge serve shop.agents:summariser\n"
    "  acpbridge serve acpbridge.agents.demo:demo"
)
@click.argument("entry", metavar="MODULE:AGENT")
def serve(entry: str) -> int:
    """Serve a Python agent over ACP: JSON-RPC on standard input and output, until the input ends.

    AGENT is an async function of one argument, the turn, in MODULE, which is found as Python finds
    any module. Whatever the agent prints goes to stderr.
    """
    from acpbridge.serving import serve as serve_agent

    serve_agent(entry)
    return EXIT_OK
