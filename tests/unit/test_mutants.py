"""The list of deleted guards is true: each guard is there, each test exists, each G has one."""

import ast

import pytest

from tests.mutants import PROJECT, Mutant, load
from tests.requirements import REQUIREMENTS

MUTANTS = load()

# Promises about supervision; those about permissions have their guards tested elsewhere.
SUPERVISION = [f"G{n}" for n in (*range(1, 19), 23, 24, 27, 28, 29)]


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


@pytest.mark.parametrize("rule", SUPERVISION)
def test_each_promise_of_supervision_has_a_guard_that_is_missed(rule: str) -> None:
    assert [mutant for mutant in MUTANTS if mutant.rule == rule]
