"""Every path that a tool call names, as the agent wrote it. Pure.

An agent may put a path anywhere in a tool's arguments, so all of them are walked: what stands
under a key for paths, and every other string that looks like one.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from acpbridge.model.display import hides
from acpbridge.model.permission import Source, ToolKind, ToolSubject
from acpbridge.permissions.arguments import CWD_KEYS, PATH_KEYS, PATTERN_KEYS

# PATH_MAX of Linux. Bytes.
LONGEST_PATH: Final = 4096
# A request that names more is denied where it writes, and no rule allows it: each has to be
# resolved on the disk. A large refactoring names some dozens.
MOST_PATHS: Final = 64
# The same in characters of all together.
MOST_TEXT: Final = 64 * 1024
# Values in a tool's arguments that are looked at: some hundredths of a second.
MOST_VALUES: Final = 10_000

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# How other programs name what is no file of this disk, or one by an address.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/|file:", re.IGNORECASE)
_FILE_URL: Final = re.compile(r"file:///", re.IGNORECASE)
# The header lines of a patch as some models write it, a whole text with paths inside.
_PATCHED: Final = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)
_BEGINS: Final = ("/", "~", ".")
# The ends of the names of keys for paths, without `_` and `-`.
_PATH_ENDS: Final = ("path", "paths", "file", "files", "filename", "dir", "directory", "folder")
_PATH_KEYS: Final = frozenset((*PATH_KEYS, *CWD_KEYS))


_REMOVING: Final = (ToolKind.MOVE, ToolKind.DELETE)
_TALKING: Final = (ToolKind.FETCH, ToolKind.THINK)


def named(subject: ToolSubject, kind: ToolKind | None) -> tuple[str, ...] | None:
    """Return each path once, in the order in which they are named; None if there are too many."""
    found: dict[str, None] = {}
    for path in _all(subject, kind):
        found["" if too_long(path) else path] = None  # no path, whatever else it is
        if len(found) > MOST_PATHS or sum(map(len, found)) > MOST_TEXT:
            return None
    return tuple(found)


def doubtful(path: str, kind: ToolKind | None) -> bool:
    """Tell whether nobody can say which file a path as written means."""
    if not path or too_long(path) or "\\" in path or hides(path) or path != path.strip():
        return True
    # A tool may expand these itself: a variable, another user's home, a wildcard.
    reads = kind in (ToolKind.READ, ToolKind.SEARCH)
    wild = not frozenset("*?[{" if reads else "*?").isdisjoint(path)
    others_home = path[0] == "~" and path[1:2] not in ("", "/")
    return wild or others_home or path[0] == "$" or _SCHEME.match(path) is not None


def too_long(path: str) -> bool:
    """Tell whether no system would take a path."""
    return len(path) > LONGEST_PATH or len(path.encode("utf-8", "replace")) > LONGEST_PATH


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
    waiting: list[tuple[str, Any]] = [("", raw_input)]
    seen = 0
    while waiting:
        seen += 1
        if seen > MOST_VALUES:
            yield ""  # what was not looked at may be anything
            return
        key, value = waiting.pop()
        if isinstance(value, str):
            yield from _in_text(key, value, kind)
        elif isinstance(value, Mapping):
            # Some agents map paths to changes.
            yield from (_bare(name) for name in value if _like_path(name, kind))
            waiting.extend((str(name), item) for name, item in value.items())
        elif isinstance(value, list | tuple):
            waiting.extend((key, item) for item in value)


def _in_text(key: str, text: str, kind: ToolKind | None) -> Iterator[str]:
    if _names_path(key) or (kind in _REMOVING and "\n" not in text):
        yield _bare(text)
    elif key in PATTERN_KEYS:
        if text.startswith(_BEGINS) or ".." in text:
            yield _bare(text)
    elif _like_path(text, kind):
        yield _bare(text)
    elif "*** " in text:
        yield from (header[1] for header in _PATCHED.finditer(text))


def _names_path(key: str) -> bool:
    plain = key.replace("_", "").replace("-", "").lower()
    return key in _PATH_KEYS or plain.endswith(_PATH_ENDS)


def _bare(path: str) -> str:
    """Return the path of a `file:` URL; one that is encoded stays as it is, and so in doubt."""
    return path if "%" in path else _FILE_URL.sub("/", path, count=1)


def _like_path(text: str, kind: ToolKind | None) -> bool:
    if "\n" in text or (_URL.match(text) and not _FILE_URL.match(text)):
        return False
    if text.startswith(_BEGINS):
        return True
    # What is fetched or thought about is full of words like `text/html`.
    return kind not in _TALKING and "/" in text and text.split(None, 1) == [text]
