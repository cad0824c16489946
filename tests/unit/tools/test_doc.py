"""docs/mcp.md names every tool and every parameter that there is, and no other."""

import re
from pathlib import Path

import pytest

from acpbridge.tools.registry import Tool
from acpbridge.tools.sessions import TOOLS

TEXT = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text(encoding="utf-8")
SECTIONS: dict[str, str] = dict(re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", TEXT, re.M | re.S))


def test_the_document_has_a_section_for_each_tool_and_for_nothing_else() -> None:
    assert set(SECTIONS) == {tool.name for tool in TOOLS}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_section_names_the_parameters_that_there_are(tool: Tool) -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", SECTIONS[tool.name], re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == set(tool.words)
