"""The session tools as requests: what a main agent may ask, and the one way in which it is asked.

Each tool is one class. Its fields are the parameters in camelCase, its `METHOD` the name of the
call on the control socket; the answer is the JSON object that its face shows. A new tool is a class
of this kind, listed in `toolset`, and a handler in the router, and nothing in between.
"""

import difflib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from acpbridge.errors import BridgeError
from acpbridge.model.requesters import Requester

# What a face says of whoever called it; never a model's to give.
FACES: Final = frozenset({"callerCwd", "env", "idempotencyKey"})


def unknown_param(name: str, known: Iterable[str]) -> BridgeError:
    """Return the error for a parameter that there is not; the one that may be meant is named."""
    names = [other for other in known if other not in FACES]
    bare = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.replace("_", "").lower(), bare, n=1)
    guess = f"; did you mean {bare[near[0]]}?" if near else "."
    takes = f" Known are {', '.join(names)}." if names else " There are none."
    return BridgeError("invalid_params", f"{name[:100]} is not a known parameter{guess}{takes}")


class ToolRequest(BaseModel):
    """What one call of a tool asks; frozen, and no field of it is unknown.

    Attributes:
        METHOD: name of the call on the control socket.
        WAITS: whether it waits for something else to happen, and takes no thread meanwhile: it
            does not count as one of the few calls of an agent that are served at once.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    METHOD: ClassVar[str]
    WAITS: ClassVar[bool] = False

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> Self:
        """Return the request that the params of a call hold.

        Raises:
            BridgeError: `invalid_params`, naming the field.
        """
        try:
            return cls.model_validate(params, by_alias=True, by_name=False)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
                raise unknown_param(str(first["loc"][0]), cls.params()) from None
            where = ".".join(map(str, first["loc"])) or cls.METHOD
            raise BridgeError("invalid_params", f"{where}: {first['msg']}.") from None

    @classmethod
    def params(cls) -> list[str]:
        """Return the names of the parameters on the wire, in order."""
        fields = cls.model_fields.items()
        return [str(one.serialization_alias or one.alias or name) for name, one in fields]

    def write(self) -> dict[str, Any]:
        """Return the params of the call; the inverse of `read`."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


R = TypeVar("R", bound=ToolRequest)

ToolHandler = Callable[[R, Requester], Awaitable[dict[str, Any]]]
"""Serves the requests of one class, in the router."""


class AgentsRequest(ToolRequest):
    """Which agents may be spoken to or started from here (`agents_list`)."""

    METHOD: ClassVar[str] = "tool/agents"
