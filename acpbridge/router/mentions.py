"""Finds who is spoken to by `@name` in a text. Pure.

It is a step of its own: whoever calls agents is given ids and parses nothing. Mail addresses,
paths, package names and code are no mentions.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.model.keys import agent_id

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_BACKTICKS: Final = re.compile("`+")

# Nothing of a word, a path or an address stands before it, and none goes on behind it.
_MENTION: Final = re.compile(
    r"(?<![\w@/\\.:+%-])@([A-Za-z0-9][A-Za-z0-9_-]{0,63})(?![\w@/\\-]|[.:]\w)"
)


@dataclass(frozen=True, slots=True)
class Mentions:
    """Who is spoken to in a text.

    Attributes:
        agents: ids of known agents, each once, in the order of the text.
        unknown: the other names, as they were written.
    """

    agents: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def find_mentions(text: str, known: Collection[str]) -> Mentions:
    """Return who is mentioned; a name that is not known is told, and never guessed.

    Args:
        text: as a person wrote it.
        known: canonical ids of the agents that there are.
    """
    prose = _without_spans(_without_blocks(text))
    agents: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for name in _MENTION.findall(prose):
        id = _canonical(name)
        if id in known:
            agents[id] = None
        else:
            unknown[name] = None
    return Mentions(tuple(agents), tuple(unknown))


def _canonical(name: str) -> str:
    try:
        return agent_id(name)
    except BridgeError:
        return name


def _without_blocks(text: str) -> str:
    """Return a text without its fenced code; a fence that is left open reaches to the end."""
    kept: list[str] = []
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        mark, rest = ("", "") if found is None else found.groups()
        if fence:
            if mark.startswith(fence) and not rest.strip():
                fence = ""
        elif mark and not (mark[0] == "`" and "`" in rest):  # that one is a span in one line
            fence = mark
        else:
            kept.append(line)
    return "\n".join(kept)


def _without_spans(text: str) -> str:
    """Return a text without its code in backticks, which ends with as many as it begins with."""
    runs = list(_BACKTICKS.finditer(text))
    ends: dict[int, int] = {}
    last: dict[int, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        size = len(runs[index].group())
        if size in last:
            ends[index] = last[size]
        last[size] = index
    kept, at, index = [], 0, 0
    while index < len(runs):
        end = ends.get(index)
        if end is None:
            index += 1
            continue
        kept += [text[at : runs[index].start()], " "]
        at, index = runs[end].end(), end + 1
    return "".join([*kept, text[at:]])
