"""docs/policy.md says what the language is: each example loads, each key and name is there."""

import re
from pathlib import Path

import pytest

from acpbridge.permissions.rules import load, rulebook
from acpbridge.permissions.rules.load import parse
from tests.unit.permissions.rules.asking import HOME
from tests.unit.permissions.rules.test_builtin import PATHS

TEXT = (Path(__file__).parents[4] / "docs" / "policy.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
ROWS = re.findall(r"^\| `([^`]+)` \|", TEXT, re.MULTILINE)


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_each_example_loads(text: str) -> None:
    assert parse(text, "docs/policy.md", HOME).rules


def test_each_key_has_its_row() -> None:
    keys = set(load._Rule.model_fields)
    assert keys == {row for row in ROWS if not row.startswith("builtin:")}
    used = set(re.findall(r"^ +-? ?([a-z_]+):", "\n".join(EXAMPLES), re.MULTILINE))
    assert keys - {"tool_name", "mcp_server"} <= used | {"match"}


def test_each_built_in_rule_has_its_row() -> None:
    names = {
        *PATHS,
        rulebook.SESSION_ROOT,
        rulebook.TOO_MANY_PATHS,
        rulebook.UNKNOWN_PATH,
        rulebook.FETCHED_TO,
        "builtin:..._argument",
    }
    assert names == {row for row in ROWS if row.startswith("builtin:")}


def test_what_the_page_says_that_the_first_example_does_is_what_it_does() -> None:
    found = parse(EXAMPLES[0], "docs/policy.md", HOME)
    assert [rule.effect for rule in found.rules] == ["allow", "allow", "deny"]
