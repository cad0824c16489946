"""From what a person types to a session key, and from a request to an agent. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from acpbridge.config import catalogue, recognise
from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import AgentId, SessionKey, agent_id

# Of the sessions that a part of a key fits.
NAMED: Final = 10


def find_session(text: str, keys: Iterable[SessionKey]) -> SessionKey:
    """Return the one session whose key is the text, or holds it.

    Raises:
        BridgeError: `no_such_session`, or `ambiguous_key` with the candidates named.
    """
    known = list(keys)
    for key in known:
        if str(key) == text:
            return key
    found = [key for key in known if text and text in str(key)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise BridgeError("no_such_session", f"No session's key is or holds {text!r}.")
    names = ", ".join(map(str, sorted(found)[:NAMED]))
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    raise BridgeError("ambiguous_key", f"{text!r} fits {len(found)} sessions: {names}{more}.")


def find_agent(name: str, config: Config) -> AgentDefinition:
    """Return the definition of a configured agent, of a catalogue entry, or of the demo.

    Raises:
        BridgeError: `no_such_agent`, naming the ids that there are.
    """
    key = agent_id(name)
    # Whoever has configured an agent means it by all its names.
    canonical = AgentId(catalogue.ALIASES.get(key, key))
    found = config.agents.get(key) or config.agents.get(canonical) or recognise.entry(key)
    if found is None:
        ids = [*config.agents, *catalogue.CATALOGUE, catalogue.DEMO.id]
        listed = ", ".join(dict.fromkeys(map(str, ids)))
        raise BridgeError("no_such_agent", f"There is no agent {key!r}; there are {listed}.")
    return found


def ancestors(
    key: SessionKey, parents: Mapping[SessionKey, SessionKey | None]
) -> tuple[SessionKey, ...]:
    """Return who spawned a session, and who spawned that one, nearest first."""
    out: list[SessionKey] = []
    above = parents.get(key)
    while above is not None and above not in out:
        out.append(above)
        above = parents.get(above)
    return tuple(out)


def descendants(
    key: SessionKey, parents: Mapping[SessionKey, SessionKey | None]
) -> list[SessionKey]:
    """Return everything that was spawned below a session, children before grandchildren."""
    out = [key]
    for above in out:
        out += [child for child, parent in parents.items() if parent == above and child not in out]
    return out[1:]
