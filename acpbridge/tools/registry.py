"""The registry of tools: which somebody has, described for them, and how one is called.

Above are the faces that serve them, `mcp` first; below are the entries of `sessions`. In the daemon
and in a program it is the same `RouterApi` that a call goes to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from acpbridge.model.requesters import Requester
from acpbridge.router.api import RouterApi
from acpbridge.router.toolcall import FACES, ToolRequest, unknown_param
from acpbridge.router.tooling import ToolsRequest
from acpbridge.tools import schema


@dataclass(frozen=True, slots=True)
class Facts:
    """What the daemon says of somebody who has tools.

    Attributes:
        key: of their session.
        external: whether the bridge does not run them.
        acp: whether an external agent can be spawned.
        names: of the tools that they have.
    """

    key: str
    external: bool
    acp: bool
    names: tuple[str, ...]

    @classmethod
    async def ask(cls, router: RouterApi, who: Requester) -> Self:
        """Ask for them."""
        told = await router.tool(ToolsRequest(), who)
        return cls(told["sessionKey"], told["external"], told["acp"], tuple(told["tools"]))


@dataclass(frozen=True, slots=True)
class Caller:
    """What a face says of its caller, where that is nobody whom the bridge runs.

    Attributes:
        cwd: absolute directory.
        env: whole environment, from which that of an agent is built. Never stored.
    """

    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    Attributes:
        name: by which a model calls it.
        title: for people.
        text: for a model: when to use it, what comes back, what not to do.
        request: that its arguments become.
        words: what to say of each parameter, by its name on the wire.
        required: names of those that must be given, besides what the request requires.
        reads: whether it only looks.
        ends: whether it may end what runs.
    """

    name: str
    title: str
    text: str
    request: type[ToolRequest]
    words: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    reads: bool = False
    ends: bool = False

    def parameters(self, facts: Facts) -> dict[str, Any]:
        """Return the schema of its parameters; `runtime: acp` is there only while it is usable."""
        found = schema.parameters(self.request, self.words, self.required)
        runtime = found["properties"].get("runtime", {})
        if "enum" in runtime and not facts.acp:
            runtime["enum"] = [name for name in runtime["enum"] if name != "acp"]
        return found

    async def call(
        self, router: RouterApi, who: Requester, arguments: Mapping[str, Any], caller: Caller
    ) -> dict[str, Any]:
        """Call it; return its result.

        Raises:
            BridgeError: what is wrong, and with which parameter.
        """
        # A model that must name every parameter says null for those that it leaves out.
        given = {name: value for name, value in arguments.items() if value is not None}
        for name in given:
            if name in FACES:
                raise unknown_param(name, self.words)
        return await router.tool(self._of(self.request.read(given), caller), who)

    def _of(self, request: ToolRequest, caller: Caller) -> ToolRequest:
        """Return the request with what is said of the caller, if it has a place for that."""
        said = {"caller_cwd": caller.cwd, "env": dict(caller.env)}
        fields = type(request).model_fields
        given = {name: value for name, value in said.items() if name in fields and value}
        return request.model_copy(update=given) if given else request


def tools_for(facts: Facts) -> tuple[Tool, ...]:
    """Return the tools that somebody has."""
    from acpbridge.tools.sessions import TOOLS

    return tuple(tool for tool in TOOLS if tool.name in facts.names)
