"""`acpbridge serve`: a Python agent as an ACP agent on standard input and output."""

import sys

import click

from acpbridge.cli.output import say


@click.command(
    epilog="\b\nExamples:\n  acpbridge serve shop.agents:summariser\n"
    "  acpbridge serve ./summariser.py:summariser"
)
@click.argument("entry", metavar="MODULE:AGENT")
def serve(entry: str) -> int:
    """Serve a Python agent over ACP: JSON-RPC on standard input and output, until the input ends.

    AGENT is an async function of one argument, the turn, in MODULE, which is found as Python finds
    any module, or in a file that is named by its path and ends in .py. Whatever the agent prints
    goes to stderr.
    """
    from acpbridge.serving.root import main

    typed = sys.stdin is not None and sys.stdin.isatty()  # now, for it is claimed before the agent
    return main(entry, _tell if typed else None)


def _tell() -> None:
    say("waiting for a client's JSON-RPC on standard input; Ctrl-D ends it", dim=True)
