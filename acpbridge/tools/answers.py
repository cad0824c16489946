"""What a tool answers, fit for a model: bounded, and errors with what to do next. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

from acpbridge.errors import BridgeError

# Clients cut what is longer, in the middle of a row; and a model has other things to read. Bytes.
MOST: Final = 128 * 1024

# Refused by a rule, whatever is changed in the call.
FORBIDDEN: Final = frozenset(
    {"permission_denied", "subagent_policy", "agent_forbidden", "runtime_policy"}
    | {"acp_disabled", "resume_forbidden"}
)

# What the table of errors says to do next is for a person at a terminal; this is for a model.
_NEXT: Final[Mapping[str, str]] = {
    "no_such_agent": "Call agents_list for the ids that there are.",
    "no_such_session": "Call sessions_list for the keys that there are.",
    "ambiguous_key": "Give the whole key, as sessions_list has it.",
    "invalid_params": "Mend the named parameter and call again.",
    "method_not_found": "Call a tool that is listed.",
    "session_closed": "Start another one with sessions_spawn.",
    "busy": "Wait until a turn has ended, then call again.",
    "capacity": "Wait until one of your children has ended, then call again.",
    "permission_denied": "Do without it, or ask the person that you work for.",
    "connection_closed": "Call again; the daemon is reached anew.",
}


def failure(error: BridgeError) -> dict[str, Any]:
    """Return the result of a call that failed: `{status, error, errorCode, hint}` and more."""
    own = error.hint == error.kind.hint
    return {
        **error.data,
        "status": "forbidden" if error.code in FORBIDDEN else "error",
        "error": error.message,
        "errorCode": error.code,
        "hint": _NEXT.get(error.code, error.hint) if own else error.hint,
    }


def text_of(result: Mapping[str, Any], tool: str) -> tuple[dict[str, Any], str]:
    """Return a result, and as text; one that is too long gives way to what to ask instead."""
    said = json.dumps(result, ensure_ascii=False)
    size = len(said.encode("utf-8", "surrogatepass"))
    if size <= MOST:
        return dict(result), said
    message = f"The result of {tool} has {size} bytes; {MOST} is the most."
    hint = "Ask for less: a smaller limit, fewer messages, a narrower search."
    short = failure(BridgeError("message_too_large", message, hint=hint))
    return short, json.dumps(short)
