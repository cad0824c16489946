"""The list of deleted guards is true: each guard is there, each test exists, each G has one."""

import ast

import pytest

from tests.mutants import PROJECT, Mutant, load
from tests.requirements import REQUIREMENTS

MUTANTS = load()

SUPERVISION = [f"G{n}" for n in (*range(1, 19), 23, 24, 27, 28, 29)]
PERMISSIONS = [f"G{n}" for n in (19, 20, 21, 25, 26, 30)]
# Whose run is on record, in a table.
GATE = ("audit", "broker", "connection", "files", "judge", "rules", "see", "terminals")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.rule}-{m.guard}")
def test_a_guard_is_where_the_list_says_and_its_test_exists(mutant: Mutant) -> None:
    text = (PROJECT / mutant.file).read_text(encoding="utf-8")
    compile(mutant.applied(text), mutant.file, "exec")
    assert mutant.rule in REQUIREMENTS
    path, _, name = mutant.test.partition("::")
    functions = {
        node.name
        for node in ast.walk(ast.parse((PROJECT / path).read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert name.rpartition("::")[2].partition("[")[0] in functions


@pytest.mark.parametrize("rule", [*SUPERVISION, *PERMISSIONS])
def test_each_promise_has_a_guard_that_is_missed(rule: str) -> None:
    assert [mutant for mutant in MUTANTS if mutant.rule == rule]


def test_the_table_has_each_guard_of_the_gate_and_that_it_was_missed() -> None:
    table = (PROJECT / "tests" / "MUTANTS.md").read_text(encoding="utf-8")
    rows = {(m.rule, m.guard, m.file) for m in MUTANTS if m.area in GATE}
    listed = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert {(row[0].removeprefix("| "), row[1], row[2].strip("`")) for row in listed} == rows
    assert len(rows) > 20
    assert [row for row in listed if "**" in row[-1]] == []
