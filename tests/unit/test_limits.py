"""docs/limits.md says what the program does: each number is a constant, each test is there."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(
    r"^\| [^|]+ \| (\d+) \| [^|]+ \| `([\w.]+):([\w.]+)` \| `([\w./]+)` \|$", re.MULTILINE
)
TEXT = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
ROWS = ROW.findall(TEXT)


def test_every_row_of_the_tables_is_read() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ")]
    assert len(ROWS) == len(rows) - TEXT.count("| what |")
    assert len(ROWS) > 25


@pytest.mark.parametrize(("number", "module", "name", "test"), ROWS)
def test_a_limit_is_what_the_page_says(number: str, module: str, name: str, test: str) -> None:
    value: Any = importlib.import_module(f"acpbridge.{module}")
    for part in name.split("."):
        fields = getattr(value, "model_fields", {})
        value = fields[part].default if part in fields else getattr(value, part)
    assert value == int(number)
    folder = "tests" if test.startswith("integration") else "tests/unit"
    assert (ROOT / folder / test).is_file()
