"""Every package that acpbridge requires is really used by it (C-1)."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import acpbridge

ROOT = Path(acpbridge.__file__).parent
PROJECT = Path(__file__).parents[2] / "pyproject.toml"

# What a package is called where it is installed, and where it is imported.
PACKAGES = {
    "anyio": "anyio",
    "pydantic": "pydantic",
    "jsonrpc-base": "jsonrpc_base",
    "psutil": "psutil",
    "structlog": "structlog",
    "pyyaml": "yaml",
    "click": "click",
    "rich": "rich",
    "markdown-it-py": "markdown_it",
    "mcp": "mcp",
}


def bound(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield the names that a module binds by importing from a package."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name.split(".")[0] == package:
                        yield alias.asname or package
            case ast.ImportFrom(module=str(module), names=names, level=0):
                if module.split(".")[0] == package:
                    yield from (alias.asname or alias.name for alias in names)
            case _:
                pass


def uses(source: str, package: str) -> bool:
    """Tell whether a module imports a package and refers to what it has imported."""
    tree = ast.parse(source)
    read = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    return any(name in read for name in bound(tree, package))


@pytest.mark.parametrize("package", PACKAGES.values())
def test_a_required_package_is_used(package: str) -> None:
    sources = [path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")]
    assert any(uses(source, package) for source in sources)


def test_the_list_is_that_of_the_project() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    required = {re.split(r"[<>=!~\[ ;]", text)[0].lower() for text in project["dependencies"]}
    assert required == set(PACKAGES)


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("import rich\nrich.print()", True),
        ("import rich.table\nrich.table.Table()", True),
        ("import rich.table as t\nt.Table()", True),
        ("from rich.table import Table\nTable()", True),
        ("def f():\n    from rich.table import Table as T\n    return T", True),
        ("class A(rich.B): ...", False),
        ("import rich", False),
        ("import rich.table as t\nrich = 1", False),
        ("from rich.table import Table\n'Table'", False),
        ("import richer\nricher.x", False),
        ("from .rich import x\nx", False),
        ("'import rich'", False),
    ],
)
def test_the_check_tells_use_from_mention(source: str, used: bool) -> None:
    assert uses(source, "rich") is used
