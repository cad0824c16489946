"""Within the command line the terminal knows no question, a question no view, a view no command."""

import ast
from pathlib import Path

import acpbridge.cli
from tests.unit.test_layers import imports

ROOT = Path(acpbridge.cli.__file__).parent
ORDER = ("terminal", "questions", "views", "commands")


def test_a_package_of_the_command_line_imports_only_those_below_it() -> None:
    seen = 0
    for level, package in enumerate(ORDER):
        above = tuple(f"acpbridge.cli.{name}." for name in ORDER[level + 1 :])
        for path in (ROOT / package).rglob("*.py"):
            names = list(imports(ast.parse(path.read_text(encoding="utf-8"))))
            assert [name for name in names if name.startswith(above)] == [], path
            seen += 1
    assert seen > 20


def test_every_package_of_the_command_line_has_its_place() -> None:
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == set(ORDER)
