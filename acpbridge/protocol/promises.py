"""What was first said of a tool call, and whether what is asked now is the same (row 9). Pure.

A rule and a person decide by it, so it must not change unseen. A file that was first named from the
session's directory on and then by its whole path has not changed; a warning of that would teach
people to read past warnings.
"""

import json
import posixpath
from collections.abc import Mapping
from typing import Any, Final

# What a rule or a person decides by: it must not change after it was first said.
PROMISED: Final = ("kind", "rawInput", "locations", "content", "tool", "server")

# Under these names an agent gives the path of a file; any other text is what it is to the letter.
_PATHS: Final = frozenset(
    {"path", "paths", "file_path", "filePath", "abs_path", "absolute_path", "notebook_path"}
    | {"old_path", "new_path", "cwd"}
)

# Of what was announced otherwise so much is shown, beside what is asked now. Bytes of JSON.
MOST_SHOWN: Final = 64 * 1024

# Stands for what was announced and is longer.
TOO_LONG: Final = "(too long to be shown here; the session's log has it)"


def promised(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return of what a sight of a call says that which must stay; what is empty says nothing."""
    return {name: told[name] for name in PROMISED if told.get(name) not in (None, {}, [])}


def broken(first: Mapping[str, Any], now: Mapping[str, Any], cwd: str) -> dict[str, Any]:
    """Return what was first said otherwise than it is now, by name, as it was first said.

    Args:
        first: what was promised.
        now: what is asked.
        cwd: the session's directory, "" if it is not known.
    """
    return {name: first[name] for name in first if not _same(name, first[name], now.get(name), cwd)}


def shown(was: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was announced, cut to what may be kept with a question."""
    room, out = MOST_SHOWN, {}
    for name, value in was.items():
        size = len(json.dumps(value))
        out[name] = value if size <= room else TOO_LONG
        room -= min(size, room)
    return out


def _same(name: str, one: Any, other: Any, cwd: str) -> bool:
    if name == "locations":
        # Where in a file it is says nothing of what may be done to it.
        one, other = _files(one), _files(other)
    # As JSON: for Python 1, 1.0 and True are equal.
    if json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True):
        return True
    try:
        return _alike("", one, other, cwd)
    except RecursionError:
        return False


def _files(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [{"path": item.get("path")} if isinstance(item, dict) else item for item in value]


def _alike(key: str, one: Any, other: Any, cwd: str) -> bool:
    """Compare two values, names of files by the file that they mean."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _alike(name, one[name], other[name], cwd) for name in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            _alike(key, a, b, cwd) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, str) and isinstance(other, str) and key in _PATHS:
        return one == other or _one_file(one, other, cwd)
    return type(one) is type(other) and bool(one == other)


def _one_file(was: str, now: str, cwd: str) -> bool:
    """Tell whether a path that was relative is now the absolute one of the same file.

    A path that goes up is none: where it leads depends on links, which nobody looks at here.
    """
    if not cwd or posixpath.isabs(was) or not posixpath.isabs(now):
        return False
    if ".." in was.split("/") or ".." in now.split("/"):
        return False
    return posixpath.normpath(posixpath.join(cwd, was)) == posixpath.normpath(now)
