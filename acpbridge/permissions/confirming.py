"""Which choices must be said twice, and why (rows 4 and 27). Pure.

The one place that knows it: the broker demands it of every answer, and faces say beforehand what it
will demand.
"""

from typing import Final

from acpbridge.model.permission import OptionKind
from acpbridge.permissions.policy import names_mode

KNOWN_KINDS: Final[frozenset[str]] = frozenset(OptionKind) - {OptionKind.UNKNOWN}

_REJECTS: Final = (OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS)

OF_UNKNOWN_KIND: Final = "its kind is unknown, so it may do anything"
OF_A_MODE: Final = "it would change the agent's mode"


def doubt(option_id: str, kind: str, *, switches: bool) -> str:
    """Return why a choice must be said twice, "" if once will do.

    An option that names a mode is doubtful whatever its kind: the kind is a hint of the agent's,
    the id is what it acts on.

    Args:
        option_id: the id that was chosen.
        kind: of that option, in the agent's own word if it is none that is known.
        switches: whether the request itself is to change the agent's mode.
    """
    if kind not in KNOWN_KINDS:
        return OF_UNKNOWN_KIND
    if names_mode(option_id) or (switches and kind not in _REJECTS):
        return OF_A_MODE
    return ""
