"""YAML text to plain data, strictly, remembering on which line every key stands.

Safe types only; a key given twice is an error, also in the two spellings `camelCase` and
`snake_case`, which both come out as camelCase. No message repeats a value: it may be a secret.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.reader import ReaderError

from acpbridge.errors import BridgeError

# Real files nest five deep; an alias that holds itself would never end.
MAX_DEPTH: Final = 32
# A hundred agents have a few thousand; aliases of aliases make billions out of one screenful.
MAX_VALUES: Final = 50_000
# The same, in characters: the parser needs about a second for so much.
MAX_SIZE: Final = 256 * 1024

Path = tuple[str | int, ...]

# What the parser quotes after these words comes from the text.
_NAMED: Final = re.compile(r"(alias|anchor|tag|tag handle) '.*", re.DOTALL)

_PLAIN_TAGS: Final = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


@dataclass(frozen=True, slots=True)
class Text:
    """Decoded data with the line of each key and item."""

    name: str
    value: Any
    lines: Mapping[Path, int] = field(default_factory=dict)

    def error(self, path: Path, problem: str) -> BridgeError:
        """Return a configuration error at a key, with file, line and key named."""
        known = path
        while known and known not in self.lines:
            known = known[:-1]
        key = ".".join(map(str, path)).encode("utf-8", "replace").decode() or "(top)"
        line = self.lines.get(known, 1)
        data = {"file": self.name, "line": line, "key": key}
        message = f"{self.name}, line {line}: {key}: {problem.rstrip('.')}."
        return BridgeError("config_error", message, data=data)


def read(text: str, name: str) -> Text:
    """Decode a YAML document; an empty one reads as an empty mapping.

    Args:
        text: the document.
        name: of the file, for errors.

    Raises:
        BridgeError: `config_error`, with file, line and key.
    """
    if len(text) > MAX_SIZE:
        raise Text(name, None).error((), f"longer than {MAX_SIZE} characters; make it shorter")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = 1 if mark is None else mark.line + 1
        problem = _NAMED.sub(r"\1", error.problem or "it cannot be read")
        raise Text(name, None, {(): line}).error((), f"not YAML: {problem}") from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"a character that cannot be printed, number {error.character}; remove it"
        raise Text(name, None, {(): line}).error((), problem) from None
    except (ValueError, OverflowError):
        # What the library raises as it comes: an escape or a version with too large a number.
        raise Text(name, None).error((), "not YAML: a number in it is out of range") from None
    except RecursionError:
        raise Text(name, None).error((), "nested too deep") from None
    if root is None:
        return Text(name, {})
    reader = _Reader(name)
    return Text(name, reader.value(root, ()), reader.lines)


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._left = MAX_VALUES
        self._scalars = yaml.SafeLoader("")
        self.lines: dict[Path, int] = {}

    def value(self, node: yaml.Node, path: Path) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        self._left -= 1
        if len(path) > MAX_DEPTH or self._left < 0:
            raise self._error(path, "nested too deep, or an alias holds itself")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if node.tag not in _PLAIN_TAGS:
            raise self._error(path, "tags are not known here; remove it")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        try:
            value = self._scalars.construct_object(node)
            if isinstance(value, str):
                value.encode()
        except (yaml.YAMLError, ValueError, AttributeError, OverflowError):
            raise self._error(path, "not a plain value; put it in quotes if it is text") from None
        if isinstance(value, str) and "\0" in value:
            raise self._error(path, "no value can hold a NUL character; remove it")
        return value

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        written: dict[str, str] = {}
        for key_node, value_node in node.value:
            word = self._word(key_node, path)
            key = word if _people_name_these(path) else _camel(word)
            here = (*path, key)
            self.lines[here] = key_node.start_mark.line + 1
            if key in out:
                other = f", before as {written[key]}" if written[key] != word else ""
                raise self._error(here, f"this key is given twice{other}; keep one of them")
            out[key], written[key] = self.value(value_node, here), word
        return out

    def _word(self, node: yaml.Node, path: Path) -> str:
        plain = isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str"
        word = str(node.value) if isinstance(node, yaml.ScalarNode) else "?"
        if not plain or "\0" in word or not _encodable(word):
            self.lines[(*path, word)] = node.start_mark.line + 1
            raise self._error(
                (*path, word), "a key is a plain word; if it is one, put it in quotes"
            )
        return word

    def _error(self, path: Path, problem: str) -> BridgeError:
        return Text(self._name, None, self.lines).error(path, problem)


def _people_name_these(path: Path) -> bool:
    """Tell whether the keys of a mapping are names that people chose, not words of ours."""
    if path[-2:] == ("env", "set") or path in {("agents", "entries"), ("mcpServers",)}:
        return True
    if path[:1] == ("agents",) and len(path) == 4 and path[3] == "options":
        return True
    return path[-3:-2] == ("mcpServers",) and path[-1] in {"env", "headers"}


def _encodable(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _camel(key: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found.group(1).upper(), key)
