"""Addresses of whoever sends and receives messages: `scheme://domain/id`, and no more than that.

Three kinds of them: `im` is somebody in a channel for messages (`im://telegram/4711`), `agent` an
agent by its call chain (`agent://main/code-reviewer`), `system` a part of ours (`system://cron`).
By which account and into which thread a message goes is no part of an address; `DeliveryContext`
has both beside it. Below are the errors; above, messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentPath

IM: Final = "im"
AGENT: Final = "agent"
SYSTEM: Final = "system"
SCHEMES: Final = (IM, AGENT, SYSTEM)

_MARK: Final = "://"


def _problem(address: "Address") -> str | None:
    if not (address.scheme or address.domain or address.id):
        return None
    if address.scheme not in SCHEMES:
        return f"its scheme must be one of {', '.join(SCHEMES)}"
    if not address.domain or "/" in address.domain:
        return "its domain must be a word without a slash"
    if address.is_system and address.id:
        return "a part of ours has no id"
    if address.is_agent and address.id and not all(address.id.split("/")):
        return "a name in its chain is empty"
    return None


def _bad(text: str, problem: str) -> BridgeError:
    hint = "Write it as im://CHANNEL/ID, agent://NAME[/NAME...] or system://NAME."
    return BridgeError("invalid_params", f"{text!r} is no address: {problem}.", hint=hint)


@dataclass(frozen=True, slots=True)
class Address:
    """Who somebody is, over all channels. `Address()` is nobody, and false.

    Attributes:
        scheme: one of `SCHEMES`, "" for nobody.
        domain: the channel, the agent at the head of the chain, or the part of ours.
        id: of somebody in the channel; the rest of the chain; "" where there is none.

    Raises:
        BridgeError: `invalid_params`, for parts that no text would give back.
    """

    scheme: str = ""
    domain: str = ""
    id: str = ""

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem is not None:
            raise _bad(f"{self.scheme}{_MARK}{self.domain}/{self.id}", problem)

    def __bool__(self) -> bool:
        return bool(self.scheme)

    def __str__(self) -> str:
        if not self:
            return ""
        return f"{self.scheme}{_MARK}{self.domain}" + (f"/{self.id}" if self.id else "")

    @classmethod
    def im(cls, channel: str, id: str) -> "Address":
        """Return the address of a person or a group in a channel."""
        return cls(IM, channel, id)

    @classmethod
    def agent(cls, *parts: str) -> "Address":
        """Return the address of an agent, from the names of a call chain or from its path."""
        domain, _, rest = "/".join(parts).partition("/")
        return cls(AGENT, domain, rest)

    @classmethod
    def system(cls, name: str) -> "Address":
        """Return the address of a part of ours, such as `cron` or `cli`."""
        return cls(SYSTEM, name)

    @property
    def is_im(self) -> bool:
        """Whether it is somebody in a channel."""
        return self.scheme == IM

    @property
    def is_agent(self) -> bool:
        """Whether it is an agent."""
        return self.scheme == AGENT

    @property
    def is_system(self) -> bool:
        """Whether it is a part of ours."""
        return self.scheme == SYSTEM

    def channel(self) -> str:
        """Return the name of the channel; "" for whoever is not in one."""
        return self.domain if self.is_im else ""

    def path(self) -> AgentPath:
        """Return the call chain of an agent; "" for whoever is none."""
        path = f"{self.domain}/{self.id}" if self.id else self.domain
        return AgentPath(path if self.is_agent else "")

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read an address; the inverse of `str`.

        Raises:
            BridgeError: `invalid_params`, saying what is wrong with the text.
        """
        scheme, mark, rest = text.partition(_MARK)
        if not mark or not scheme:
            raise _bad(text, "it must read scheme://domain/id")
        domain, slash, id = rest.partition("/")
        if slash and not id:
            raise _bad(text, "nothing follows its last slash")
        return cls(scheme, domain, id)


NOBODY: Final = Address()


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """Where a message came from, exactly enough for an answer to find back.

    Attributes:
        address: of the chat.
        account: ours in that channel, by which the answer leaves; "" for the only one.
        thread: into which it goes; "" for none.
    """

    address: Address = NOBODY
    account: str = ""
    thread: str = ""

    def __bool__(self) -> bool:
        return bool(self.address)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values; what is empty is left out."""
        fields = {"address": str(self.address), "account": self.account, "thread": self.thread}
        return {name: value for name, value in fields.items() if value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "DeliveryContext":
        """Read what `to_json` wrote.

        Raises:
            BridgeError: `invalid_params`.
        """
        address = value.get("address", "")
        return cls(
            Address.parse(address) if address else NOBODY,
            value.get("account", ""),
            value.get("thread", ""),
        )
