"""What an agent gets that asks a person by a form or a page, which no face shows yet (row 40).

The capability is not advertised, and for a mode that is not the protocol wants "invalid params":
to decline would say that a person did. Nothing of the request is kept but which way it wanted.
"""

from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact

METHOD: Final = "elicitation/create"

# The ways of asking that the protocol knows.
_MODES: Final = ("form", "url")


def refusal(params: Any) -> tuple[BridgeError, Fact]:
    """Return what the agent is answered, and the notice that tells people of it.

    Neither has anything that the agent wrote: its words, its fields and its URL may hold secrets.
    """
    wanted = params.get("mode") if isinstance(params, dict) else None
    mode = wanted if wanted in _MODES else "unknown"
    told = f"The agent wanted an answer from you (elicitation, mode {mode}); it was told no."
    error = BridgeError("invalid_params", f"The elicitation mode {mode} was not advertised.")
    return error, Fact("notice", {"kind": "elicitation_refused", "mode": mode, "message": told})
