"""What an agent's refusals mean: its own error becomes one of ours, with what it said kept. Pure.

Agents say the same thing in many dialects. Where the code alone does not tell, the words that are
known for a program are facts of its catalogue entry.
"""

from collections.abc import Mapping
from typing import Any, Final

from acpbridge.errors import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    BridgeError,
)
from acpbridge.model.agents import AgentFacts
from acpbridge.protocol.errors import shorten

# Answers to session/load and session/resume that mean: no such session. The last is a server error
# of one's own that agents in use choose for it.
_NO_SESSION: Final = frozenset({RESOURCE_NOT_FOUND, INVALID_PARAMS, METHOD_NOT_FOUND, -32001})

# Characters of a line that is no message; of the 200 bytes that are kept so many are whole.
NOISE_SHOWN: Final = 50
# So many ways to log in are named to a person; real agents have four at most.
WAYS_SHOWN: Final = 8


def needs_login(error: BridgeError) -> bool:
    """Tell whether an agent asks for a login."""
    return error.rpc_code == AUTH_REQUIRED


def login_error(
    error: BridgeError, facts: AgentFacts, capabilities: Mapping[str, Any]
) -> BridgeError:
    """Return the error for an agent that asks for a login, with its ways named and what to do."""
    ids = [way["id"] for way in auth_methods(capabilities)]
    message = f"The agent needs a login: {error.message}"
    if ids:
        more = f" and {len(ids) - WAYS_SHOWN} more" if len(ids) > WAYS_SHOWN else ""
        message = f"{message.rstrip('.')}. Its ways: {', '.join(ids[:WAYS_SHOWN])}{more}."
    data = {**error.data, "authMethods": ids}
    hint = facts.login_hint
    if len(ids) > 1 and not hint:
        hint = (
            "Log in with the agent's own command, or name one of its ways: authMethod in its entry."
        )
    return BridgeError("auth_required", message, hint=hint or None, data=data)


def auth_methods(capabilities: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the ways to log in that an agent lists, those that have an id."""
    methods = capabilities.get("authMethods")
    listed = methods if isinstance(methods, list) else []
    return [m for m in listed if isinstance(m, dict) and isinstance(m.get("id"), str)]


def says_unknown_session(error: BridgeError, facts: AgentFacts) -> bool:
    """Tell whether a refused load or resume means that the agent does not know the session.

    An internal error means it only with words that are known to say so; any other cause is one
    that must be reported.
    """
    if error.rpc_code in _NO_SESSION:
        return True
    if error.rpc_code != INTERNAL_ERROR:
        return False
    said = f"{error.message} {error.data.get('details', '')}".casefold()
    return any(words.casefold() in said for words in facts.unknown_session_words)


def not_acp(count: int, first: bytes) -> str:
    """Return a sentence on what an agent that did not start wrote on stdout instead of ACP."""
    shown = shorten(first.decode("utf-8", "replace").strip(), NOISE_SHOWN)
    return (
        f"It wrote what is no message on stdout, {count} times, the first time {shown!r}; "
        "ACP wants each message whole on one line."
    )


def prompt_says_unknown_session(error: BridgeError, facts: AgentFacts) -> bool:
    """Tell whether a refused prompt means that the agent does not know the session after all.

    Some look for a conversation only when they need it. A prompt may be refused for its content
    too: codes that could mean that are not taken for it.
    """
    ambiguous = error.rpc_code in (INVALID_PARAMS, METHOD_NOT_FOUND)
    return not ambiguous and says_unknown_session(error, facts)


def mode_error(mode: str, why: str) -> BridgeError:
    """Return the error for a mode that could not be set."""
    message = f"The agent could not be put into mode {mode!r}: {why}."
    return BridgeError("mode_not_set", message, data={"mode": mode})
