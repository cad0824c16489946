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

# Answers to session/load and session/resume that mean: no such session. The last is a server error
# of one's own that agents in use choose for it.
_NO_SESSION: Final = frozenset({RESOURCE_NOT_FOUND, INVALID_PARAMS, METHOD_NOT_FOUND, -32001})


def needs_login(error: BridgeError) -> bool:
    """Tell whether an agent asks for a login."""
    return error.rpc_code == AUTH_REQUIRED


def login_error(
    error: BridgeError, facts: AgentFacts, capabilities: Mapping[str, Any]
) -> BridgeError:
    """Return the error for an agent that asks for a login, with its methods named."""
    methods = capabilities.get("authMethods")
    listed = methods if isinstance(methods, list) else []
    ids = [m["id"] for m in listed if isinstance(m, dict) and isinstance(m.get("id"), str)]
    data = {**error.data, "authMethods": ids}
    message = f"The agent needs a login: {error.message}"
    return BridgeError("auth_required", message, hint=facts.login_hint or None, data=data)


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
