"""The parts of the configuration that say what may be started by agents: `acp`, `subagents`. Pure.

Above is `load`, which puts them together; what they allow is decided in `router.delegating`.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictStr
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from acpbridge.errors import BridgeError
from acpbridge.model.delegation import ANY, Delegation
from acpbridge.model.keys import agent_id

_STRICT = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


def _id(text: str) -> str:
    try:
        return agent_id(text)
    except BridgeError as error:
        raise PydanticCustomError("agent_id", "{said}", {"said": error.message}) from None


def _id_or_any(text: str) -> str:
    return text if text == ANY else _id(text)


_Id = Annotated[StrictStr, AfterValidator(_id)]
_Ids = tuple[Annotated[StrictStr, AfterValidator(_id_or_any)], ...]


class Acp(BaseModel):
    """External agents; the section of the file and its defaults.

    Attributes:
        enabled: whether any session of one may be begun.
        default_agent: which one is started where a spawn names none.
        allowed_agents: the only ones that may be spawned, `*` for all; none given: all.
    """

    model_config = _STRICT

    enabled: StrictBool = True
    default_agent: _Id | None = None
    allowed_agents: _Ids | None = None


class Subagents(BaseModel):
    """What sessions of one agent may start; a section of its entry, and of the defaults.

    Attributes:
        allow_agents: the Python agents, `*` for any configured one; none given: only itself.
        model: of children for which none is asked for.
        thinking: likewise.
        require_agent_id: whether a spawn has to name the agent.
    """

    model_config = _STRICT

    allow_agents: _Ids | None = None
    model: Annotated[StrictStr, Field(min_length=1)] | None = None
    thinking: (
        Literal["off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max", "ultra"]
        | None
    ) = None
    require_agent_id: StrictBool | None = None

    def over(self, defaults: "Subagents") -> Delegation:
        """Return what holds for an agent: what it says, and else what the defaults say."""
        given = self.model_dump(exclude_none=True)
        said = {**defaults.model_dump(exclude_none=True), **given}
        return Delegation(**said)
