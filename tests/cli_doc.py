"""docs/cli.md as a test reads it: sections by command, the options named in them, tables of keys.

A section is `## acpbridge COMMAND`; its first line begins with the usage. Options stand there, and
in backticks anywhere below. Below a line `JSON of NAME:` stands a table whose first column
holds key paths in backticks: `sessions[].turn.state`. A row with the word *sometimes* is a key that
need not be there; a path that ends in `.*` holds whatever somebody else put there. A row whose
meaning begins with "as `NAME`" has all keys of that table below its own; the key `*` stands for no
key of its own, alone for any further ones.

Below `Events by type:` stands a table of the types of events: type, when it comes, its own keys. In
the last column, what stands behind *sometimes* need not be there. A row that begins with a word and
a number is an error's code and its exit status.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DOC = Path(__file__).parents[1] / "docs" / "cli.md"

ANY = "*"

# Of an event of any type.
EVENT = "event"

_SECTION = re.compile(r"^## acpbridge ?(.*)$")
_JSON = re.compile(r"^JSON of `(.+)`:$")
_EVENTS = "Events by type:"
_KEY = re.compile(r"^\| `([^`]+)` \|(?: as `([^`]+)`)?")
_EVENT = re.compile(r"^\| `([a-z_]+)` \|[^|]*\|([^|]*)\|$")
_USAGE = re.compile(r"^`acpbridge ([^`]*)`")
_IN_USAGE = re.compile(r"(?:^| )\[?(--?[a-z][a-z-]*)")
_CODE = re.compile(r"^\| `([a-z0-9_]+)` \| (\d+) \|")
_OPTION = re.compile(r"`(--?[a-z][a-z-]*)")


@dataclass
class Keys:
    """The keys that one JSON document may have."""

    always: set[str] = field(default_factory=set)
    sometimes: set[str] = field(default_factory=set)

    def unknown(self, seen: set[str]) -> set[str]:
        """Return what was seen and is not in the table."""
        known = self.always | self.sometimes
        if ANY in known:
            return set()
        free = tuple(path[:-1] for path in known if path.endswith(".*"))
        return {path for path in seen - known if not path.startswith(free)}

    def missing(self, seen: set[str]) -> set[str]:
        """Return what the table says is always there and was not seen."""
        return {path for path in self.always - seen if not path.endswith(ANY)}

    def add(self, path: str, *, sometimes: bool) -> None:
        """Put a row in."""
        (self.sometimes if sometimes else self.always).add(path)

    def add_all(self, other: "Keys", below: str, *, sometimes: bool) -> None:
        """Put in what another table has, below a path; "" for no path."""
        start = f"{below}." if below else ""
        self.sometimes |= {start + path for path in other.sometimes}
        more = {start + path for path in other.always}
        if sometimes:
            self.sometimes |= more
        else:
            self.always |= more


@dataclass
class Section:
    """What is said of one command."""

    text: str = ""
    options: set[str] = field(default_factory=set)


def _lines() -> list[str]:
    return DOC.read_text(encoding="utf-8").splitlines()


def sections() -> dict[str, Section]:
    """Return the sections by command, "" for what holds for all of them."""
    out: dict[str, Section] = {}
    here = Section()
    for line in _lines():
        if found := _SECTION.match(line):
            here = out[found[1]] = Section()
        elif not here.options and (usage := _USAGE.match(line)):
            here.options.update(_IN_USAGE.findall(usage[1]))
        here.text += line + "\n"
        here.options.update(_OPTION.findall(line))
    return out


def tables() -> dict[str, Keys]:
    """Return the tables of keys by the name of the document; a name has to come before its use."""
    out: dict[str, Keys] = {}
    here: Keys | None = None
    for line in _lines():
        if found := _JSON.match(line):
            assert found[1] not in out, f"two tables of {found[1]}"
            here = out[found[1]] = Keys()
        elif not line and here is not None and (here.always or here.sometimes):
            here = None  # the table is over
        elif here is not None and (row := _KEY.match(line)):
            sometimes = "*sometimes*" in line
            if row[2]:
                below = "" if row[1] == ANY else row[1]
                here.add_all(out[row[2]], below, sometimes=sometimes)
            if not row[2] or row[1] != ANY:
                here.add(row[1].removesuffix("[]"), sometimes=sometimes)
    return out


def events() -> dict[str, Keys]:
    """Return the keys of each type of event, those of any event included."""
    lines, known = _lines(), tables()
    out: dict[str, Keys] = {}
    for line in lines[lines.index(_EVENTS) + 1 :]:
        if line.startswith("#"):
            break
        if row := _EVENT.match(line):
            keys = out[row[1]] = Keys()
            keys.add_all(known[EVENT], "", sometimes=False)
            always, _, sometimes = row[2].partition("*sometimes*")
            _add_words(keys, always, known, sometimes=False)
            _add_words(keys, sometimes, known, sometimes=True)
    return out


def _add_words(keys: Keys, text: str, known: dict[str, Keys], *, sometimes: bool) -> None:
    """Put in the keys that are named in a cell; `KEY` as `NAME` has those of a table below it."""
    for path, _, name in re.findall(r"(?:`([^`]+)`)?(,? ?as `([^`]+)`)?", text):
        if path:
            keys.add(path, sometimes=sometimes)
        if name:
            keys.add_all(known[name], path, sometimes=sometimes)


def codes() -> dict[str, int]:
    """Return the codes of errors with their exit statuses."""
    return {found[1]: int(found[2]) for line in _lines() if (found := _CODE.match(line))}


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
