"""Calls a person back to the terminal when a question opens: by its bell, or by a notification.

How is the configuration's to say (`notify`); the daemon tells it with its hello.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from acpbridge.model.display import clip, escape

BELL: Final = "\a"

# A notification shows about so much. Characters.
LONGEST: Final = 120

# So much is looked at for it: a title may have a megabyte. Characters.
READ: Final = 1_000

# Terminals that know the notification of rxvt only; the others know the shorter one.
_RXVT: Final = ("rxvt", "foot")


def sequence(how: str, question: Mapping[str, Any], term: str) -> str:
    """Return what to send to a terminal; "" if nobody is to be called.

    Args:
        how: `bell`, `osc` or `off`.
        question: that has opened.
        term: the terminal's name, `$TERM`.
    """
    if how == "bell":
        return BELL
    if how != "osc":
        return ""
    # Escaped, so nothing of the agent's can end the sequence; a semicolon would begin a field.
    what = f"{question.get('agentId')} asks ({question.get('kind')}): {question.get('title')}"
    words = escape(what[:READ]).replace(";", ",")
    if term.startswith(_RXVT):
        return f"\x1b]777;notify;acpbridge;{clip(words, LONGEST)}\a"
    return f"\x1b]9;acpbridge: {clip(words, LONGEST)}\a"


def alert(how: str, question: Mapping[str, Any]) -> None:
    """Call whoever sits at the terminal on stderr; without one nobody is called."""
    text = sequence(how, question, os.environ.get("TERM", ""))
    if not text or not sys.stderr.isatty():
        return
    # It moves no cursor, so it may come between any two frames; whole, as it is so short.
    os.write(sys.stderr.fileno(), text.encode("utf-8", "replace"))
