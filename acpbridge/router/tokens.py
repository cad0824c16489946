"""Tool tokens: by which the server of the session tools says whose it is, where no ancestry tells.

One for each process of a session, in memory only, void when that process has ended. A token makes
nobody an operator: at most it lowers one who is taken for a person to the agent that it is.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from acpbridge.model.keys import SessionKey
from acpbridge.model.ports import Ids

# By which redaction knows one wherever it stands; see `redact`.
PREFIX: Final = "acpb_"


class Tokens:
    """The tokens that are in force.

    Args:
        ids: source of random names.
        lives: whether a session has a process, or is about to have one.
    """

    def __init__(self, ids: Ids, lives: Callable[[SessionKey], bool]) -> None:
        self._ids = ids
        self._lives = lives
        self._of: dict[SessionKey, str] = {}

    def issue(self, key: SessionKey) -> str:
        """Return a new token for the process that a session is about to have; the old is void."""
        self._of = {other: token for other, token in self._of.items() if self._lives(other)}
        token = self._of[key] = f"{PREFIX}{self._ids.uuid4().hex}{self._ids.uuid4().hex}"
        return token

    def owner(self, token: str) -> SessionKey | None:
        """Return whose token it is; None if it is nobody's, or nobody's any more."""
        found = (key for key, known in self._of.items() if known == token)
        return next((key for key in found if self._lives(key)), None)


def with_tools(
    servers: tuple[Mapping[str, Any], ...],
    token: str,
    build: Callable[[str], Mapping[str, Any]] | None,
) -> tuple[Mapping[str, Any], ...]:
    """Return an agent's MCP servers with that of the session tools behind them.

    Args:
        servers: that it is given anyway; one of the same name, which a person gave, stands.
        token: of the agent's process; "" where it has no session tools.
        build: makes the server's entry for a token; None where there is none.
    """
    if not token or build is None:
        return servers
    ours = build(token)
    taken = any(server.get("name") == ours["name"] for server in servers)
    return servers if taken else (*servers, ours)
