"""The words that a command will run as, where they are beyond doubt. Pure.

A text that a shell reads is understood only if nothing in it means anything to a shell: what is
left is words and plain quotes. In doubt there are no words, so that no rule can allow them.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from acpbridge.model.display import LONGEST_BLANK, hides
from acpbridge.model.permission import Source, ToolSubject
from acpbridge.permissions.arguments import COMMAND_KEYS, CWD_KEYS, REST_KEYS

# What may make more of a command than its words, even within a list of words: whoever is given the
# list may still join it and hand it to a shell.
SHELL: Final = frozenset("$`\\()<>&|;\n\r")
# What a shell makes more of in a text: globs, homes, braces, comments, history.
_TEXT: Final = SHELL | frozenset("*?[]{}~#!^")
# `NAME=value` before a command; and a word that zsh takes for a program's path.
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=|=")
# The longest real command lines of agents have a few kilobytes. Characters, words.
LONGEST_COMMAND: Final = 32 * 1024
MOST_WORDS: Final = 1024

# How agents hand a command to the user's shell; the text is what they mean.
_SHELLS: Final = frozenset(
    f"{place}{name}"
    for place in ("", "/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/")
    for name in ("bash", "zsh")
)
_READ_TEXT: Final = frozenset({"-c", "-lc"})

# Arguments that stand beside a command and change nothing about what runs. Any other may: one that
# switches a sandbox off, names a shell, or sets variables.
_BESIDE: Final = frozenset(
    {
        "description",
        "timeout",
        "timeout_ms",
        "timeoutMs",
        "run_in_background",
        "runInBackground",
        "is_background",
        "isBackground",
        "reason",
        "call_id",
        "callId",
        "turn_id",
        "turnId",
        "thread_id",
        "threadId",
        "item_id",
        "itemId",
        "outputByteLimit",
    }
)


def argv_of(subject: ToolSubject) -> tuple[str, ...] | None:
    """Return the words of a call's command, None if it has none or they are in doubt."""
    found = _command(subject.raw_input)
    if found is None:
        return None
    command, rest = found
    if rest is None:
        # What the bridge itself starts is one program, never a text for a shell.
        return of_list([command]) if subject.source is Source.TERMINAL else read(command)
    if not isinstance(command, str) or not isinstance(rest, list):
        return None
    if subject.source is not Source.TERMINAL and of_text(command) != (command,):
        return None
    return of_list([command, *rest])


def _command(raw: Any) -> tuple[Any, Any] | None:
    """Return a command and what follows it, None if there is more that may change it."""
    if not isinstance(raw, Mapping):
        return None
    said = {key: value for key, value in raw.items() if value not in (None, "", [], {}, False)}
    commands = [key for key in COMMAND_KEYS if key in said]
    known = {*COMMAND_KEYS, *REST_KEYS, *CWD_KEYS, *_BESIDE}
    if len(commands) != 1 or not said.keys() <= known:
        return None
    if not all(isinstance(said[key], str) for key in CWD_KEYS if key in said):
        return None
    return said[commands[0]], said.get(REST_KEYS[0])


def read(command: Any) -> tuple[str, ...] | None:
    """Read a command as an agent gives it: a text, or a list of words."""
    words = of_text(command) if isinstance(command, str) else of_list(command)
    if words is None or len(words) != 3:
        return words
    if words[0] in _SHELLS and words[1] in _READ_TEXT:
        return of_text(words[2])
    return words


def of_list(command: Any) -> tuple[str, ...] | None:
    """Return a list of words as it is, None if it is none, or not plain."""
    if not isinstance(command, list | tuple) or not 0 < len(command) <= MOST_WORDS:
        return None
    if not all(isinstance(word, str) for word in command) or not command[0]:
        return None
    return tuple(command) if _plain(command, SHELL) else None


def of_text(command: str) -> tuple[str, ...] | None:
    """Split a text as every shell would, None if shells might do more than split it."""
    if len(command) > LONGEST_COMMAND or not _plain([command], _TEXT):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if not 0 < len(words) <= MOST_WORDS or any(map(_ASSIGNMENT.match, words[:1])):
        return None
    if not words[0] or any(word.startswith("=") for word in words):
        return None
    return tuple(words)


def _plain(words: Sequence[str], special: frozenset[str]) -> bool:
    """Tell whether words hide nothing from a person, and mean nothing to a shell."""
    if sum(map(len, words)) > LONGEST_COMMAND:
        return False
    return not any(
        special.intersection(word) or hides(word) or " " * LONGEST_BLANK in word for word in words
    )
