"""docs/config.md names every key of the configuration that there is, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import acpbridge
from acpbridge.config.load import load, schema

DOC = (Path(__file__).parents[3] / "docs" / "config.md").read_text(encoding="utf-8")

ROWS = {
    found[1]: found[2].strip() for found in re.finditer(r"^\| `([^`]+)` \|([^|]*)\|", DOC, re.M)
}
SCHEMA = schema()

# The same entries in another form; that they are the same is tested.
OTHER_FORM = "agents.entries"


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without its reference, or the choice that is not null."""
    chosen = [one for one in node.get("anyOf", ()) if one.get("type") != "null"]
    if chosen:
        return resolved(chosen[0])
    if "$ref" in node:
        found: dict[str, Any] = SCHEMA["$defs"][node["$ref"].rpartition("/")[2]]
        return found
    return node


def leaves(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the path of each key without keys of its own, and of each list, with its schema."""
    for name, raw in node.get("properties", {}).items():
        here, inner = f"{path}.{name}".lstrip("."), resolved(raw)
        if inner.get("properties"):
            yield from leaves(inner, here)
            continue
        yield here, raw
        if "items" in inner:
            yield from leaves(resolved(inner["items"]), f"{here}[]")


LEAVES = dict(leaves(SCHEMA))


def test_the_document_names_each_key_that_there_is_and_no_other() -> None:
    assert set(ROWS) == set(LEAVES)


def test_the_two_forms_of_agents_hold_the_same_entries() -> None:
    of_list = resolved(LEAVES["agents.list"])["items"]
    of_mapping = resolved(LEAVES[OTHER_FORM])["additionalProperties"]
    assert of_list == of_mapping


@pytest.mark.parametrize("path", [p for p in LEAVES if not p.startswith("agents.")])
def test_the_document_says_the_default_that_holds(path: str) -> None:
    default = LEAVES[path].get("default")
    if isinstance(default, bool):
        default = str(default).lower()
    if isinstance(default, float):
        default = int(default)
    if isinstance(default, bool):
        default = str(default).lower()
    assert ROWS[path] == ("none" if default in (None, []) else f"`{default}`")


def test_what_the_program_tells_a_person_to_set_can_be_set() -> None:
    named = re.compile(r"\b(?:limits|daemon|notify)\.[a-z]+[A-Z]\w*")
    for path in Path(acpbridge.__file__).parent.rglob("*.py"):
        assert set(named.findall(path.read_text(encoding="utf-8"))) <= set(LEAVES), path


def test_the_examples_load() -> None:
    example, of_model = re.findall(r"^```yaml\n(.*?)^```", DOC, re.M | re.S)
    (scribe,) = load(of_model, "config.yaml", "/home/ann").agents.values()
    assert scribe.by_model is not None
    config = load(example, "config.yaml", "/home/ann")
    assert [str(name) for name in config.agents] == ["codex", "reviewer", "summariser"]
    assert config.warnings == ()
