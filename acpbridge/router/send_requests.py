"""What `sessions_send` is asked: one message for one session that exists."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import AliasChoices, Field, StrictBool, StrictStr, field_validator
from pydantic_core import PydanticCustomError

from acpbridge.router.toolcall import ToolRequest

# How long a sender waits unless it says, and at most. Seconds.
WAIT: Final = 30
MOST_WAIT: Final = 86400


class SendMode(StrEnum):
    """How a message reaches a session; none given: it is queued, or begins a turn."""

    NOTIFY = "notify"
    STEER = "steer"
    FOLLOWUP = "followup"
    RESUME = "resume"


class SendRequest(ToolRequest):
    """A message for a session that exists (`sessions_send`).

    Attributes:
        message: as it is to arrive; never trimmed.
        session_key: of the target, in full, or the uuid in it.
        label: of the target, if no key is given; `agent_id` narrows it.
        agent_id: alone, it means that agent's main session.
        timeout_seconds: how long the sender waits, not how long the receiver may work; 0: not.
        mode: how it reaches the target.
        watch: whether the sender is told, with its next turn, what becomes of the target.
        idempotency_key: a second message with the same key is the same one.
        env: the caller's environment, for a target that has none yet. Never stored.
        caller_cwd: absolute directory of the caller, for a target that has none yet.
    """

    METHOD: ClassVar[str] = "tool/send"
    WAITS: ClassVar[bool] = True

    message: StrictStr = Field(
        validation_alias=AliasChoices("message", "SendMessage", "content", "text"),
        serialization_alias="message",
    )
    session_key: StrictStr = ""
    label: StrictStr = ""
    agent_id: StrictStr = ""
    timeout_seconds: Annotated[int, Field(strict=True, ge=0, le=MOST_WAIT)] = WAIT
    mode: SendMode | None = None
    watch: StrictBool = False
    idempotency_key: StrictStr = ""
    env: Mapping[StrictStr, StrictStr] = Field(default_factory=dict, repr=False)
    caller_cwd: StrictStr = ""

    @field_validator("message")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise PydanticCustomError("blank", "must not be blank")
        return value
