"""What is doubtful about rules that load: never about anything, said twice, wider than it looks."""

import pytest

from acpbridge.permissions.rules.check import MOST_COMPARED, findings
from tests.unit.permissions.rules.asking import book


def found(rules: str) -> list[tuple[str, str]]:
    return [(row.rule, row.kind) for row in findings(book(rules).rules)]


@pytest.mark.parametrize(
    "rule",
    [
        "argv: [npx, tsc]", "argv: [sudo, ...]", "argv: [python, -c, ...]", "tool_kind: [other]",
        "tool_kind: [switch_mode]", "tool_kind: [read], argv: [x]", "tool_kind: [read], host: a.b",
        "tool_kind: [execute], path: '/**'", "argv: [x], path: '/**'", "argv: [x], host: a.b",
        "host: a.b, path: '/**'", "tool_kind: [edit], path: '{root}/.claude/**'",
        "tool_kind: [edit, move], path: ['**/.git/hooks/x', '~/.ssh/*']",
    ],
)  # fmt: skip
def test_an_allow_that_can_never_match_is_told_of(rule: str) -> None:
    assert found(f"- {{effect: allow, {rule}}}") == [("policy:1", "never")]


@pytest.mark.parametrize("rule", ["tool_kind: [read], argv: [x]", "tool_kind: [read], host: a.b"])
def test_a_deny_that_can_never_match_is_told_of(rule: str) -> None:
    assert found(f"- {{effect: deny, {rule}}}") == [("policy:1", "never")]


@pytest.mark.parametrize(
    "rules",
    [
        "- {effect: allow, tool_kind: [read], path: '{root}/**'}",
        "- {effect: allow, argv: [pytest, ...]}",
        "- {effect: allow, tool_kind: [read, edit], path: '{root}/.claude/**'}",
        "- {effect: allow, tool_kind: [edit], path: ['{root}/.claude/**', '{root}/x']}",
        "- {effect: deny, tool_kind: [read], path: '**/.env'}",
        "- {effect: allow, argv: [a]}\n- {effect: allow, argv: [b]}",
        "- {effect: allow, argv: [a, x]}\n- {effect: allow, argv: [a]}",
        "- {effect: ask, agent: a, path: '/**', tool_kind: [read]}\n- {effect: ask, agent: b}",
        "- {effect: allow, path: '/a/**'}\n- {effect: allow, path: '/ab'}",
        "- {effect: deny, tool_kind: [read], path: /a/b}\n- {effect: allow, path: '/a/**'}",
    ],
)
def test_what_is_in_order_is_not_told_of(rules: str) -> None:
    assert found(rules) == []


@pytest.mark.parametrize(
    ("rules", "kind"),
    [
        ("- {effect: allow, argv: [a]}\n- {effect: deny, tool_kind: [execute]}", ""),
        ("- {effect: allow, tool_kind: [read]}\n- {effect: deny, tool_kind: [read]}", "shadowed"),
        ("- {effect: allow, tool_kind: [read], path: /a/b}\n- {effect: deny, tool_kind: [read]}",
         "shadowed"),
        ("- {effect: allow, tool_kind: [read], path: /a}\n- {effect: deny, tool_kind: [edit]}", ""),
        ("- {effect: deny, tool_kind: [read], path: /a/b}\n"  # noqa: ISC004 -- two rules
         "- {effect: deny, tool_kind: [read], path: '/a/**'}", "redundant"),
        ("- {effect: ask, tool_kind: [read]}\n- {effect: deny}", "shadowed"),
        ("- {effect: allow, tool_kind: [read], agent: codex}\n- {effect: ask, tool_kind: [read]}",
         "shadowed"),
        ("- {effect: allow, tool_kind: [read], agent: codex}\n- {effect: ask, agent: claude}", ""),
        ("- {effect: allow, argv: [a, b]}\n- {effect: allow, argv: [a, ...]}", "redundant"),
        ("- {effect: allow, host: a.b}\n- {effect: allow, host: [a.b, c.d]}", "redundant"),
    ],
)  # fmt: skip
def test_a_rule_that_another_one_makes_useless_is_told_of(rules: str, kind: str) -> None:
    assert found(rules) == ([("policy:1", kind)] if kind else [])


def test_of_two_rules_alike_the_second_is_told_of() -> None:
    rule = "- {effect: allow, tool_kind: [read]}\n"
    assert found(rule * 2) == [("policy:2", "redundant")]


@pytest.mark.parametrize(
    "rule",
    [
        "effect: deny, path: '**/.env'",
        "effect: ask, path: '**/.env'",
        "effect: deny, tool_kind: [read, execute], path: '**/.env'",
        "effect: deny, argv: [rm, ...]",
        "effect: deny, tool_name: x",
        "effect: ask, mcp_server: x",
        "effect: allow, tool_kind: [execute]",
    ],
)
def test_a_rule_that_reaches_further_than_it_seems_to_is_told_of(rule: str) -> None:
    assert found(f"- {{{rule}}}") == [("policy:1", "wide")]


def test_a_finding_says_where_and_why() -> None:
    (row,) = findings(book("\n\n- {effect: deny, path: '**/.env'}").rules)
    assert row.line == 4
    assert "path is not known" in row.message
    assert "tool_kind" in row.message


def test_a_file_of_many_rules_is_checked_in_a_bounded_time() -> None:
    rules = "".join(f"- {{effect: ask, agent: a{n}}}\n" for n in range(MOST_COMPARED + 50))
    assert found(rules + "- {effect: ask, agent: a0}\n") == [
        (f"policy:{MOST_COMPARED + 51}", "redundant")
    ]
    last = f"- {{effect: ask, agent: a{MOST_COMPARED + 10}}}\n"
    assert found(rules + last) == []
