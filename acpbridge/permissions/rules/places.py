"""Every path that a tool call names, as the agent wrote it. Pure.

An agent may put a path anywhere in a tool's arguments, so all of them are walked: what stands
under a key for paths, and every other string that looks like one.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from acpbridge.model.display import hides
from acpbridge.model.permission import Source, ToolKind, ToolSubject
from acpbridge.permissions.arguments import MOVING_KEYS, PATH_KEYS, PATTERN_KEYS

# PATH_MAX of Linux. Bytes.
LONGEST_PATH: Final = 4096
# A request that names more is denied where it writes, and no rule allows it: each has to be
# resolved on the disk. A large refactoring names some dozens.
MOST_PATHS: Final = 64
# Values in a tool's arguments; a megabyte of JSON has at most half a million.
_MOST_VALUES: Final = 200_000

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FILE_URL: Final = re.compile(r"file://", re.IGNORECASE)
# The header lines of a patch as some models write it, a whole text with paths inside.
_PATCHED: Final = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)
_BEGINS: Final = ("/", "~", "./", "../")


def named(subject: ToolSubject, kind: ToolKind | None) -> tuple[str, ...] | None:
    """Return each path once, in the order in which they are named; None if there are too many."""
    found: dict[str, None] = {}
    for path in _all(subject, kind):
        found[path] = None
        if len(found) > MOST_PATHS:
            return None
    return tuple(found)


def doubtful(path: str, kind: ToolKind | None) -> bool:
    """Tell whether nobody can say which file a path as written means."""
    if not path or "\0" in path or hides(path) or path != path.strip():
        return True
    if len(path.encode("utf-8", "surrogatepass")) > LONGEST_PATH or _URL.match(path):
        return True
    # A tool may expand these itself: a variable, another user's home, a wildcard.
    reads = kind in (ToolKind.READ, ToolKind.SEARCH)
    wild = not frozenset("*?[{" if reads else "*?").isdisjoint(path)
    return path.startswith("$") or (path[0] == "~" and path[1:2] not in ("", "/")) or wild


def _all(subject: ToolSubject, kind: ToolKind | None) -> Iterator[str]:
    yield from subject.locations
    if subject.source is Source.FILES:
        # The bridge itself does this: there is one path, and the rest is a file's content.
        raw = subject.raw_input if isinstance(subject.raw_input, Mapping) else {}
        yield raw["path"] if isinstance(raw.get("path"), str) else ""
        return
    for block in subject.content:
        if block.get("type") == "diff":
            path = block.get("path")
            yield path if isinstance(path, str) else ""  # a diff of nobody knows what
    yield from _in_arguments(subject.raw_input, kind)


def _in_arguments(raw_input: Any, kind: ToolKind | None) -> Iterator[str]:
    keys = {*PATH_KEYS, *(MOVING_KEYS if kind is ToolKind.MOVE else ())}
    waiting: list[tuple[str, Any]] = [("", raw_input)]
    seen = 0
    while waiting:
        seen += 1
        if seen > _MOST_VALUES:
            yield ""  # what was not looked at may be anything
            return
        key, value = waiting.pop()
        if isinstance(value, str):
            yield from _in_text(key, value, keys)
        elif isinstance(value, Mapping):
            # Some agents map paths to changes.
            yield from (_bare(name) for name in value if _like_path(name))
            waiting.extend((str(name), item) for name, item in value.items())
        elif isinstance(value, list | tuple):
            waiting.extend((key, item) for item in value)


def _in_text(key: str, text: str, keys: set[str]) -> Iterator[str]:
    if key in keys:
        yield _bare(text)
    elif key in PATTERN_KEYS:
        if text.startswith(_BEGINS) or ".." in text:
            yield _bare(text)
    elif _like_path(text):
        yield _bare(text)
    elif "*** " in text:
        yield from _PATCHED.findall(text)


def _bare(path: str) -> str:
    """Return the path of a `file:` URL; one that is encoded stays as it is, and so in doubt."""
    return path if "%" in path else _FILE_URL.sub("", path, count=1)


def _like_path(text: str) -> bool:
    if "\n" in text or (_URL.match(text) and not _FILE_URL.match(text)):
        return False
    return text.startswith(_BEGINS) or ("/" in text and not any(map(str.isspace, text)))
