"""Work that is handed to a session, and how it got here."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import OnPermission
from acpbridge.model.requesters import Requester
from acpbridge.model.settings import Settings


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """One prompt for one session.

    Attributes:
        requester: who asks.
        key: for whom.
        content: ACP content blocks, as they came.
        origin: address that the request first came from, "" for the requester itself.
        delivery: address that the completion goes to, "" for nobody but the followers.
        provenance: what kind of message it is (`operator`, `inter_session`, ...), with its fields.
        correlation_id: joins the records of one piece of work over sessions.
        idempotency_key: a second request with the same key is the same work.
        on_permission: rule of this run.
        timeout: seconds that the turn may take, None for no limit.
        detached: whether it goes on when its requester disconnects.
        settings: chosen for the session from this prompt on.
        wishes: what is chosen as well if the agent offers it.
        mcp_servers: for the agent, if this prompt starts its process; in memory only.
        fresh: whether it may go on without the earlier conversation, where that is lost.
        announces: id of the completion in the outbox that this prompt tells of, "" for none.
        going_out: awaited just before the words go out; if it fails, they do not.
    """

    requester: Requester
    key: SessionKey
    content: tuple[Mapping[str, Any], ...]
    origin: str = ""
    delivery: str = ""
    provenance: Mapping[str, Any] = field(default_factory=lambda: {"kind": "operator"})
    correlation_id: str = ""
    idempotency_key: str = ""
    on_permission: OnPermission = OnPermission.ASK
    timeout: float | None = None
    detached: bool = False
    settings: Settings = field(default_factory=Settings)
    wishes: Settings = field(default_factory=Settings)
    mcp_servers: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    fresh: bool = False
    announces: str = ""
    going_out: Callable[[], Awaitable[None]] | None = field(default=None, repr=False)
