"""A message that goes out, to a channel or back to the agent that called.

What a called agent used and attached goes back with its words: a plain text would lose it.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from acpbridge.errors import BridgeError
from acpbridge.model.address import Address, DeliveryContext
from acpbridge.model.letters import Letter


def _read(value: Any) -> Any:
    return BridgeError.from_json(value) if isinstance(value, dict) else value


def _write(error: Exception | None) -> dict[str, Any] | None:
    if error is None or isinstance(error, BridgeError):
        return None if error is None else error.to_json()
    return BridgeError("turn_failed", f"{type(error).__name__}: {error}").to_json()


_Error = Annotated[
    Exception | None, BeforeValidator(_read), PlainSerializer(_write, when_used="json")
]


class OutboundMessage(Letter):
    """One message on its way from an agent.

    Attributes:
        tools_used: names of the tools that were called for it, in order.
        waiting_user: whether it waits for a person to answer.
        error: why there is no better answer; what caused it is its `__cause__`.
    """

    tools_used: tuple[str, ...] = ()
    waiting_user: bool = False
    error: _Error = None

    @classmethod
    def to(cls, where: DeliveryContext, sender: Address, content: str) -> "OutboundMessage":
        """Return an answer that goes back to where a message came from, by the same account."""
        return cls(
            content=content,
            sender=sender,
            recipient=where.address,
            account=where.account,
            thread=where.thread,
            channel=where.address.channel(),
            chat_id=where.address.id,
        )
