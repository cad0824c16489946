"""What comes before a prompt: all that a run chose is so, or nothing is prompted.

Above is the life of a process, below is the seam. A choice that does not hold costs the turn and
nothing else: neither the session nor what was chosen before.
"""

from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.events import Fact
from acpbridge.protocol.content import check_content
from acpbridge.router.book import Book
from acpbridge.router.turns import Turn
from acpbridge.runtimes.base import RuntimeSession, SessionHost, SessionSpec


async def prepare(
    agent: RuntimeSession, turn: Turn, definition: AgentDefinition, spec: SessionSpec, book: Book
) -> None:
    """Make an agent ready for a turn, and put on record what was chosen for the session.

    Args:
        agent: open.
        turn: about to be prompted.
        definition: of the agent.
        spec: what its process was started with.
        book: the session's record.

    Raises:
        BridgeError: what was chosen cannot be had.
    """
    request = turn.request
    check_content(agent.capabilities, request.content)
    missing = [s["name"] for s in request.mcp_servers if s not in spec.mcp_servers]
    if missing:
        message = f"The agent runs already; it was started without {', '.join(map(repr, missing))}."
        hint = "MCP servers are taken when an agent starts: wait until its process has ended."
        raise BridgeError("unsupported_control", message, hint=hint)
    layers = [definition.settings, book.record.settings, request.settings]
    if request.wishes:
        layers.insert(1, request.wishes)
    if any(layers):
        _, *wished, kept, chosen = await agent.apply(layers)
        for layer in reversed(wished):
            kept = layer.merged(kept)
        book.note(settings=kept.merged(chosen))


def note_servers(book: Book, host: SessionHost, spec: SessionSpec, given: tuple[str, ...]) -> None:
    """Put the names of a run's MCP servers on record, and say which of earlier runs are not there.

    Args:
        book: the session's record.
        host: told by a notice of what is missing.
        spec: what the process is started with.
        given: names of the servers that runs gave.
    """
    names = {server.get("name") for server in spec.mcp_servers}
    missing = [name for name in book.record.mcp_servers if name not in names]
    if missing:
        message = f"MCP servers of an earlier run are not there: {', '.join(map(repr, missing))}"
        host.emit(Fact("notice", {"kind": "mcp_servers_missing", "message": message}))
    book.note(mcp_servers=given)
