"""Names of agents and sessions: parsing, printing, nothing else.

A session key is flat at every depth of nesting; who spawned whom is stored, never encoded.
"""

import re
import uuid
from dataclasses import dataclass
from typing import Final, NewType

from acpbridge.errors import BridgeError

AgentId = NewType("AgentId", str)
"""A canonical agent id: `^[a-z0-9][a-z0-9_-]{0,63}$`."""

AgentPath = NewType("AgentPath", str)
"""A call chain such as `main/code-reviewer`; never part of a session key."""

MAIN: Final = AgentId("main")
MAIN_ALIAS: Final = "primary"

_AGENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NOT_ID = re.compile(r"[^a-z0-9_-]+")
_ESCAPED = re.compile(r"%([0-9A-F]{2})")

# Words of the scheme: no channel, account or peer kind may bear one as its name.
RESERVED: Final = frozenset(
    {"main", "subagent", "acp", "direct", "group", "channel", "thread", "topic"}
)


def agent_id(text: str) -> AgentId:
    """Return the canonical id for what a person wrote; `primary` reads as `main`.

    Raises:
        BridgeError: `no_such_agent`, when nothing usable is left of the text.
    """
    name = _NOT_ID.sub("-", text.lower()).lstrip("-_").rstrip("-")[:64].rstrip("-")
    if not _AGENT_ID.fullmatch(name):
        message = f"{text!r} is not an agent id: use letters, digits, - and _, at most 64."
        raise BridgeError("no_such_agent", message)
    return MAIN if name == MAIN_ALIAS else AgentId(name)


def is_agent_id(text: str) -> bool:
    """Tell whether the text is an agent id exactly as it would be printed."""
    return _AGENT_ID.fullmatch(text) is not None


def _encode(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A").replace("/", "%2F")


def _decode(part: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), part)


def _is_uuid4(text: str) -> bool:
    try:
        value = uuid.UUID(text)
    except ValueError:
        return False
    return str(value) == text and value.version == 4


@dataclass(frozen=True, slots=True, order=True)
class SessionKey:
    """The address of one session: `agent:<agentId>:<kind>[:<part>...]`.

    Attributes:
        agent: whose session it is.
        kind: `main`, `subagent`, `acp`, or the channel of a conversation.
        parts: what follows the kind, decoded.
    """

    agent: AgentId
    kind: str
    parts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ":".join(("agent", self.agent, *map(_encode, (self.kind, *self.parts))))

    @property
    def short(self) -> str:
        """The part that a person types: the first eight characters of the uuid, or the kind."""
        return self.parts[0][:8] if self.parts else self.kind

    @classmethod
    def main(cls, agent: AgentId) -> "SessionKey":
        """Return the key of an agent's main session."""
        return cls(agent, "main")

    @classmethod
    def subagent(cls, agent: AgentId, unique: uuid.UUID) -> "SessionKey":
        """Return the key of a session of a Python agent."""
        return cls(agent, "subagent", (str(unique),))

    @classmethod
    def acp(cls, agent: AgentId, unique: uuid.UUID) -> "SessionKey":
        """Return the key of a session of an external agent."""
        return cls(agent, "acp", (str(unique),))

    @classmethod
    def parse(cls, text: str) -> "SessionKey":
        """Read a key; the inverse of `str`.

        Raises:
            BridgeError: `no_such_session`, saying which part is wrong.
        """
        scheme, _, rest = text.partition(":")
        agent, _, tail = rest.partition(":")
        if scheme != "agent" or not _AGENT_ID.fullmatch(agent) or not tail:
            raise _bad_key(text, "it must read agent:<agentId>:<kind>, as in agent:main:main")
        kind, *parts = map(_decode, tail.split(":"))
        key = cls(AgentId(agent), kind, tuple(parts))
        problem = _problem(key)
        if problem is None and str(key) != text:
            problem = "its parts are not encoded in the one canonical way"
        if problem is not None:
            raise _bad_key(text, problem)
        return key


def _problem(key: SessionKey) -> str | None:
    if key.kind == "main":
        return "a main session has no further part" if key.parts else None
    if key.kind == "acp" and key.parts[:1] == ("binding",):
        return None if len(key.parts) == 3 and all(key.parts) else "a binding needs account, hash"
    if key.kind in ("subagent", "acp"):
        good = len(key.parts) == 1 and _is_uuid4(key.parts[0])
        return None if good else "its last part must be a version 4 uuid in lower case"
    if not key.kind or key.kind in RESERVED:
        return f"{key.kind!r} cannot name a channel"
    if len(key.parts) < 2 or not all(key.parts):
        return "a conversation needs its kind and its peer"
    return None


def _bad_key(text: str, problem: str) -> BridgeError:
    return BridgeError("no_such_session", f"{text!r} is not a session key: {problem}.")
