"""The keys of an agent that is defined by a model, below `runtime`. Pure.

What the models are called is the vendors' business: a name that there is not is refused by their
APIs. Who they are, the catalogue says.
"""

import re
from dataclasses import replace
from typing import Final, Protocol

from acpbridge.config import catalogue, yamltext
from acpbridge.config.catalogue import MODEL_VENDORS
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import AgentId
from acpbridge.model.modelagent import ENTRY, HOUSE_TOOLS, ROLE_TOOLS, SESSION_TOOLS, ModelAgent

# The whole definition travels in one variable, and of those the kernel takes 128 KiB. Bytes.
LONGEST: Final = 98304

# An agent that needs more answers of its model in one turn does something else than its task.
MOST_ITERATIONS: Final = 1000

_TOOLS: Final = (*HOUSE_TOOLS, *SESSION_TOOLS, *ROLE_TOOLS)

_MODEL: Final = re.compile(r"([a-z-]+):\S+")
_URL: Final = re.compile(r"https?://[^\s/]\S*")


class Keys(Protocol):
    """The keys of `runtime` that are read here."""

    model: str | None
    instructions: str | None
    tools: list[str] | None
    max_iterations: int | None
    base_url: str | None


NAMES: Final = ("model", "instructions", "tools", "max_iterations", "base_url")


def given(keys: Keys) -> list[str]:
    """Return which of the keys are there, as they are written in the file."""
    written = {"max_iterations": "maxIterations", "base_url": "baseUrl"}
    return [written.get(name, name) for name in NAMES if getattr(keys, name) is not None]


def definition(
    source: yamltext.Text, here: yamltext.Path, key: AgentId, keys: Keys, python: str
) -> AgentDefinition:
    """Return the definition of an agent that has a model.

    Raises:
        BridgeError: `config_error`, with file, line and key.
    """
    found = _MODEL.fullmatch(keys.model or "")
    if found is None or found[1] not in MODEL_VENDORS:
        known = ", ".join(MODEL_VENDORS)
        raise source.error((*here, "model"), f"write it as VENDOR:NAME; vendors are {known}")
    if keys.base_url is not None and not _URL.fullmatch(keys.base_url):
        raise source.error((*here, "baseUrl"), "give an address that begins with http(s)://")
    for place, name in enumerate(keys.tools or ()):
        if name not in _TOOLS:
            there = ", ".join(_TOOLS)
            raise source.error((*here, "tools", place), f"not a tool that there is: {there}")
    agent = ModelAgent(
        keys.model or "",
        keys.instructions or "",
        tuple(dict.fromkeys(keys.tools or ())),
        keys.max_iterations or 0,
        keys.base_url or "",
        source.name if set(ROLE_TOOLS) & set(keys.tools or ()) else "",
    )
    if len(agent.write().encode("utf-8", "surrogatepass")) > LONGEST:
        raise source.error((*here, "instructions"), f"too long: {LONGEST} bytes is the most")
    names = MODEL_VENDORS[found[1]]
    facts = replace(
        catalogue.PYTHON,
        secret_names=names,
        login_hint=f"Give it an API key: `env: {{pass: [{names[0]}]}}` in its entry.",
    )
    return AgentDefinition(
        key, kind=RuntimeKind.PYTHON, entry=ENTRY, python=python, facts=facts, by_model=agent
    )
