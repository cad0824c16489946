"""Who asks. Every call to the router carries a `Requester`; the role is found, never claimed."""

from dataclasses import dataclass
from enum import StrEnum

from acpbridge.model.keys import SessionKey


class Role(StrEnum):
    """In what capacity somebody asks."""

    OPERATOR = "operator"
    AGENT = "agent"
    EDITOR = "editor"
    CHANNEL = "channel"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Requester:
    """One who asks something of the router.

    Attributes:
        role: decided by the daemon from the peer's place in the process tree, not by the peer.
        session: the session that the peer runs inside, for role `agent`.
        pid: of the peer, 0 for a caller in this process.
        uid: of the peer.
        client_id: names the connection, for the audit and for "already answered by".
        origin: the address that the request first came from, if another than the peer's.
        external: whether it is an agent that the bridge does not run, with a key of its own.
    """

    role: Role
    session: SessionKey | None = None
    pid: int = 0
    uid: int = 0
    client_id: str = ""
    origin: str = ""
    external: bool = False

    def label(self) -> str:
        """Return a short name for audit lines and answers."""
        return f"{self.role}:{self.client_id or self.pid}"
