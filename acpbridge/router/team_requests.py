"""What an agent asks another agent through the daemon, and what is asked about handed-over work."""

from enum import StrEnum
from typing import ClassVar

from pydantic import StrictBool, StrictStr, field_validator
from pydantic_core import PydanticCustomError

from acpbridge.router.toolcall import ToolRequest


class AskMode(StrEnum):
    """How an answer comes."""

    SYNC = "sync"
    BACKGROUND = "background"


class AskRequest(ToolRequest):
    """A piece of work for another agent, in a conversation of its own (`ask_agent`).

    Attributes:
        agent_id: who is asked.
        message: what is to be done.
        mode: `sync` waits for the answer; `background` hands the work over, and the answer comes
            to the session that asked.
    """

    METHOD: ClassVar[str] = "tool/ask"
    WAITS: ClassVar[bool] = True

    agent_id: StrictStr
    message: StrictStr
    mode: AskMode = AskMode.SYNC

    @field_validator("message")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise PydanticCustomError("blank", "must not be blank")
        return value


class DelegationsRequest(ToolRequest):
    """Which work was handed over, and where does it stand?

    Attributes:
        everything: list what has ended since the daemon's start, too.
        cancel: id of a piece of work that is to be ended first; "" for none.
    """

    METHOD: ClassVar[str] = "tool/delegations"

    everything: StrictBool = False
    cancel: StrictStr = ""
