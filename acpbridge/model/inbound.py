"""A message that comes in, from a channel or from another agent, in one shape.

An agent that is called by another sees who wrote the first message, over any number of calls: each
call hands on where that came from (`handed_on`). Only a message of an agent may say so; what a
channel's message claims of itself is not looked at. Below are addresses; above, whoever answers.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Self

from pydantic import AwareDatetime, model_validator
from pydantic.alias_generators import to_camel

from acpbridge.errors import BridgeError
from acpbridge.model.address import NOBODY, Address, DeliveryContext
from acpbridge.model.letters import Letter, bad_field

AGENT_CHANNEL: Final = "agent"
"""What stands for the channel of a message that another agent sent."""

ORIGIN_ADDRESS: Final = "origin_address"
ORIGIN_CHANNEL: Final = "origin_channel"
ORIGIN_CHAT_ID: Final = "origin_chat_id"
ORIGIN_SENDER: Final = "origin_sender"
ORIGIN_ACCOUNT: Final = "origin_account"
ORIGIN_THREAD: Final = "origin_thread"
WORKSPACE_ROOT: Final = "workspace_root"

_OF_AGENTS: Final = ("parent_agent_id", "system_prompt", "allowed_tools", "role_name")


class ChatType(StrEnum):
    """With how many one talks."""

    P2P = "p2p"
    GROUP = "group"
    AGENT = "agent"


class InboundMessage(Letter):
    """One message on its way to an agent.

    Attributes:
        time: when it was sent.
        request_id: joins what is written down about it.
        is_cron: whether a timer sent it.
        sender_name: for people.
        chat_type: with how many one talks.
        parent_agent_id: call chain of the agent that sent it; of an agent's message only, as are
            the next three.
        system_prompt: what the called one is told that it is.
        allowed_tools: the only tools that it gets; empty for all of the caller's.
        role_name: as what it is called.
        sender_id: older form of `sender`: who in the channel.

    Raises:
        BridgeError: `invalid_params`, where the fields contradict one another.
    """

    time: AwareDatetime = datetime.fromtimestamp(0, UTC)
    request_id: str = ""
    is_cron: bool = False
    sender_name: str = ""
    chat_type: ChatType = ChatType.P2P
    parent_agent_id: str = ""
    system_prompt: str = ""
    allowed_tools: tuple[str, ...] = ()
    role_name: str = ""
    sender_id: str = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._fill()
        if self.sender.is_im and self.channel != self.sender.channel():
            raise bad_field("channel", f"it is {self.channel!r}, but from {self.sender}")
        if self.is_from_agent() != self.sender.is_agent:
            raise bad_field("from", f"{str(self.sender)!r} does not go with {self.channel!r}")
        if self.is_from_agent() != (self.chat_type is ChatType.AGENT):
            raise bad_field("chatType", f"{self.chat_type} does not go with {self.channel!r}")
        for name in () if self.is_from_agent() else _OF_AGENTS:
            if getattr(self, name):
                raise bad_field(to_camel(name), "it belongs to messages of agents only")
        return self

    def _fill(self) -> None:
        """Have the older fields and the addresses say the same, whichever of them was given."""
        if not self.sender and self.channel and self.channel != AGENT_CHANNEL:
            if who := self.sender_id or self.chat_id:
                self._put("sender", Address.im(self.channel, who))
        elif not self.sender and self.parent_agent_id and self.is_from_agent():
            self._put("sender", Address.agent(self.parent_agent_id))
        if self.sender and not self.channel:
            agent = self.sender.is_agent
            self._put("channel", AGENT_CHANNEL if agent else self.sender.domain)
        if self.sender.is_im:
            self._put("sender_id", self.sender_id or self.sender.id)
            self._put("chat_id", self.chat_id or self.sender.id)
        if self.sender.is_agent and self.is_from_agent():
            self._put("parent_agent_id", self.parent_agent_id or str(self.sender.path()))

    def _put(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def is_from_agent(self) -> bool:
        """Tell whether another agent sent it."""
        return self.channel == AGENT_CHANNEL

    # ---- Who began it ----

    def origin_channel(self) -> str:
        """Return in which channel it all began; its own where nobody says."""
        return self._origin(ORIGIN_CHANNEL, self.channel)

    def origin_chat_id(self) -> str:
        """Return in which chat it all began; its own where nobody says."""
        return self._origin(ORIGIN_CHAT_ID, self.chat_id)

    def origin_sender_id(self) -> str:
        """Return who began it; its own sender where nobody says."""
        return self._origin(ORIGIN_SENDER, self.sender_id)

    def _origin(self, name: str, own: str) -> str:
        return self.metadata.get(name, own) if self.is_from_agent() else own

    def origin_im(self) -> Address:
        """Return who in a channel began it: the sender, else whom the message names; or nobody."""
        if self.sender.is_im:
            return self.sender
        try:
            return Address.parse(self.metadata.get(ORIGIN_ADDRESS, ""))
        except BridgeError:
            return NOBODY

    def origin(self) -> DeliveryContext:
        """Return into which chat, by which account and in which thread an answer goes."""
        began = self.origin_im()
        if not began.is_im:
            return DeliveryContext()
        if began == self.sender:
            address = Address.im(self.channel, self.chat_id)
            return DeliveryContext(address, self.account, self.thread)
        told = self.metadata
        address = Address.im(began.channel(), told.get(ORIGIN_CHAT_ID) or began.id)
        return DeliveryContext(address, told.get(ORIGIN_ACCOUNT, ""), told.get(ORIGIN_THREAD, ""))

    def handed_on(self) -> dict[str, str]:
        """Return the metadata with which a further call keeps the origin; nothing empty in it."""
        where = self.origin()
        told = {
            ORIGIN_ADDRESS: str(self.origin_im()),
            ORIGIN_CHANNEL: self.origin_channel(),
            ORIGIN_CHAT_ID: self.origin_chat_id(),
            ORIGIN_SENDER: self.origin_sender_id(),
            ORIGIN_ACCOUNT: where.account,
            ORIGIN_THREAD: where.thread,
        }
        return {name: value for name, value in told.items() if value}
