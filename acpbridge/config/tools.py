"""What agents may reach of one another's sessions: the section `tools` of the file.

`router.authorize` acts on it, for every tool and command alike.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr
from pydantic.alias_generators import to_camel

_SECTION: Final = ConfigDict(
    extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
)

_Glob = Annotated[StrictStr, Field(min_length=1)]


class Visibility(StrEnum):
    """How far a session sees."""

    SELF = "self"
    TREE = "tree"
    AGENT = "agent"
    ALL = "all"


class SessionTools(BaseModel):
    """What the session tools reach.

    Attributes:
        visibility: `self`, this session; `tree`, with all that it spawned, and of a main session
            all sessions of its agent; `agent`, the sessions of this agent that no other one owns;
            `all`, every one.
    """

    model_config = _SECTION

    visibility: Visibility = Visibility.TREE


class AgentToAgent(BaseModel):
    """Whether sessions of different agents may have to do with one another.

    Attributes:
        enabled: no other agent's session is reached without, but for those that one owns.
        allow: patterns of agent ids (`*`, `?`); both must fit one. Empty: the same agent only.
    """

    model_config = _SECTION

    enabled: StrictBool = True
    allow: tuple[_Glob, ...] = ()


class Attached(BaseModel):
    """Files that a spawn gives to a child.

    Attributes:
        enabled: whether it may at all.
        retain_on_session_keep: whether they stay with a session that is kept.
    """

    model_config = _SECTION

    enabled: StrictBool = False
    retain_on_session_keep: StrictBool = False


class SpawnTool(BaseModel):
    """The tool that starts children."""

    model_config = _SECTION

    attachments: Attached = Field(default_factory=Attached)


ToolName = Literal[
    "sessions_spawn",
    "sessions_send",
    "agents_list",
    "sessions_list",
    "sessions_history",
    "session_status",
    "sessions_yield",
    "subagents",
]
"""The session tools. A name that is none is refused: a deny that denies nothing is worse."""


class ToolLists(BaseModel):
    """Which session tools somebody has, of those that there would be.

    Attributes:
        allow: only these; empty: no less than there would be. It adds none.
        deny: not these, whatever `allow` says.
    """

    model_config = _SECTION

    allow: tuple[ToolName, ...] = ()
    deny: tuple[ToolName, ...] = ()

    def lack(self, name: str) -> bool:
        """Tell whether a tool is taken away."""
        return name in self.deny or (bool(self.allow) and name not in self.allow)


class SubagentTools(BaseModel):
    """What holds for sessions that were spawned."""

    model_config = _SECTION

    tools: ToolLists = Field(default_factory=ToolLists)


class Tools(BaseModel):
    """The section with its defaults."""

    model_config = _SECTION

    sessions: SessionTools = Field(default_factory=SessionTools)
    agent_to_agent: AgentToAgent = Field(default_factory=AgentToAgent)
    sessions_spawn: SpawnTool = Field(default_factory=SpawnTool)
    subagents: SubagentTools = Field(default_factory=SubagentTools)


NO_TOOLS: Final = Tools()
"""The defaults, where no configuration is in question."""
