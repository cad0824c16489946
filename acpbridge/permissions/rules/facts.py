"""What a rule may look at: the facts of one request. Values only.

A fact that nobody is sure of is None. It cannot satisfy a rule that allows, and does satisfy one
that denies or asks; so to leave one out is always safe, and to guess one never is.
"""

from dataclasses import dataclass

from acpbridge.model.permission import ToolKind


@dataclass(frozen=True, slots=True)
class PathFact:
    """One path that a request is about.

    Attributes:
        literal: as the agent wrote it.
        resolved: absolute, with every symlink of the part that exists followed; None if nobody
            could tell.
    """

    literal: str
    resolved: str | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one request.

    Attributes:
        agent: id of the agent that asks.
        label: of its session, "" without one.
        kind: of the tool call; None where the agent gave none that is known.
        tool: the tool's own name; None where nobody said it.
        server: the MCP server that the tool is of; None where nobody said it.
        argv: the words that will run, exactly; None unless that is beyond doubt.
        paths: every path that the call is about; None unless all of them are known.
        host: of the address that is fetched; None unless it is known.
        roots: directories of the session, resolved.
        spelled: the same as they were given; a path as the agent wrote it may begin with them.
        excess: whether more paths were named than are looked at.
    """

    agent: str
    label: str = ""
    kind: ToolKind | None = None
    tool: str | None = None
    server: str | None = None
    argv: tuple[str, ...] | None = None
    paths: tuple[PathFact, ...] | None = None
    host: str | None = None
    roots: tuple[str, ...] = ()
    spelled: tuple[str, ...] = ()
    excess: bool = False
