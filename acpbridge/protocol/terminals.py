"""The shapes of `terminal/*` of ACP version 1, read strictly: the bridge acts on all of it.

Above are the runtimes; `acp.read` reads them.
"""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

# The longest path that the kernel takes (PATH_MAX of limits.h), in bytes; no name is longer.
LONGEST_PATH: Final = 4096


class _Shape(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Variable(_Shape):
    """A variable of the environment."""

    name: StrictStr
    value: StrictStr


class CreateTerminal(_Shape):
    """The params of `terminal/create`."""

    sessionId: StrictStr  # noqa: N815 - the word on the wire
    command: Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_PATH)]
    args: list[StrictStr] | None = None
    env: list[Variable] | None = None
    cwd: Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_PATH)] | None = None
    outputByteLimit: Annotated[StrictInt, Field(ge=0)] | None = None  # noqa: N815 - the word on the wire


class OfTerminal(_Shape):
    """The params of every other method."""

    sessionId: StrictStr  # noqa: N815 - the word on the wire
    terminalId: StrictStr  # noqa: N815 - the word on the wire
