"""YAML text to plain data, strictly, remembering on which line every key stands.

Safe types only; a key given twice is an error, also in the two spellings `camelCase` and
`snake_case`, which both come out as camelCase.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from acpbridge.errors import BridgeError

# Real files nest five deep; an alias that holds itself would never end.
MAX_DEPTH: Final = 32

Path = tuple[str | int, ...]

# Under these keys the keys are names that people chose, not words of ours.
FREE_KEYS: Final = frozenset({"set", "entries", "env", "headers"})


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
        key = ".".join(map(str, path)) or "(top)"
        line = self.lines.get(known, 1)
        data = {"file": self.name, "line": line, "key": key}
        return BridgeError("config_error", f"{self.name}, line {line}: {key}: {problem}", data=data)


def read(text: str, name: str) -> Text:
    """Decode a YAML document; an empty one reads as an empty mapping.

    Args:
        text: the document.
        name: of the file, for errors.

    Raises:
        BridgeError: `config_error`, with file, line and key.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = 1 if mark is None else mark.line + 1
        out = Text(name, None, {(): line})
        raise out.error((), f"not YAML: {error.problem}") from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise Text(name, None).error((), f"not YAML: {error}") from None
    if root is None:
        return Text(name, {})
    reader = _Reader(name)
    return Text(name, reader.value(root, ()), reader.lines)


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self.lines: dict[Path, int] = {}

    def value(self, node: yaml.Node, path: Path) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if len(path) > MAX_DEPTH:
            raise self._error(path, "nested too deep")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        try:
            loader = yaml.SafeLoader("")
            return loader.construct_object(node)
        except yaml.YAMLError as error:
            raise self._error(path, f"not a plain value: {error}") from None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        free = bool(path) and path[-1] in FREE_KEYS
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != "tag:yaml.org,2002:str":
                self.lines.setdefault((*path, "?"), key_node.start_mark.line + 1)
                raise self._error((*path, "?"), "a key must be a plain word")
            key = str(key_node.value) if free else _camel(str(key_node.value))
            here = (*path, key)
            self.lines[here] = key_node.start_mark.line + 1
            if key in out:
                raise self._error(here, "this key is given twice")
            out[key] = self.value(value_node, here)
        return out

    def _error(self, path: Path, problem: str) -> BridgeError:
        return Text(self._name, None, self.lines).error(path, problem)


def _camel(key: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found.group(1).upper(), key)
