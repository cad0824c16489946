"""docs/cli.md as a test reads it: sections by command, the options named in them, tables of keys.

A section is `## acpbridge COMMAND`. Below a line `JSON of NAME:` stands a table whose first column
holds key paths in backticks: `sessions[].turn.state`. A row with the word *sometimes* is a key that
need not be there; a path that ends in `.*` holds whatever somebody else put there.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DOC = Path(__file__).parents[1] / "docs" / "cli.md"

_SECTION = re.compile(r"^## acpbridge ?(.*)$")
_JSON = re.compile(r"^JSON of `(.+)`:$")
_KEY = re.compile(r"^\| `([^`]+)` \|")
_OPTION = re.compile(r"`(--?[a-z][a-z-]*)")


@dataclass
class Keys:
    """The keys that one JSON document may have."""

    always: set[str] = field(default_factory=set)
    sometimes: set[str] = field(default_factory=set)

    def unknown(self, seen: set[str]) -> set[str]:
        """Return what was seen and is not in the table."""
        known = self.always | self.sometimes
        free = tuple(path[:-1] for path in known if path.endswith(".*"))
        return {path for path in seen - known if not path.startswith(free)}

    def missing(self, seen: set[str]) -> set[str]:
        """Return what the table says is always there and was not seen."""
        return {path for path in self.always - seen if not path.endswith(".*")}


@dataclass
class Section:
    """What is said of one command."""

    text: str = ""
    options: set[str] = field(default_factory=set)


def sections() -> dict[str, Section]:
    """Return the sections by command, "" for what holds for all of them."""
    out: dict[str, Section] = {}
    here = Section()
    for line in DOC.read_text(encoding="utf-8").splitlines():
        if found := _SECTION.match(line):
            here = out[found[1]] = Section()
        here.text += line + "\n"
        here.options.update(_OPTION.findall(line))
    return out


def tables() -> dict[str, Keys]:
    """Return the tables of keys by the name of the document."""
    out: dict[str, Keys] = {}
    here: Keys | None = None
    for line in DOC.read_text(encoding="utf-8").splitlines():
        if found := _JSON.match(line):
            here = out[found[1]] = Keys()
        elif line.startswith("#"):
            here = None
        elif here is not None and (row := _KEY.match(line)):
            (here.sometimes if "*sometimes*" in line else here.always).add(row[1])
    return out


def key_paths(value: Any, prefix: str = "") -> Iterator[str]:
    """Return the path of every key in a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            path = f"{prefix}.{key}" if prefix else key
            yield path
            yield from key_paths(inner, path)
    elif isinstance(value, list):
        for item in value:
            yield from key_paths(item, prefix + "[]")
