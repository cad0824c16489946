"""A policy file: what loads, and what every bad one is told."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.errors import BridgeError
from acpbridge.model.permission import ToolKind
from acpbridge.permissions.rules.load import MOST_RULES, parse
from acpbridge.permissions.rules.rulebook import Rulebook
from acpbridge.permissions.rules.seen import Argv
from acpbridge.permissions.verdict import Ruling
from tests.unit.permissions.rules.asking import HOME, book


def refused(rule: str, *, line: int = 2) -> str:
    """Return the key and the problem of the error that a file of one rule comes to."""
    with pytest.raises(BridgeError) as caught:
        book(f"- {rule}")
    error = caught.value
    assert error.code == "config_error"
    assert error.data is not None
    assert (error.data["file"], error.data["line"]) == ("policy.yaml", line)
    return error.message.removeprefix(f"policy.yaml, line {line}: ")


def test_a_rule_has_all_that_was_written() -> None:
    (rule,) = book(
        "- {id: mine, effect: deny, agent: [codex, claude], session_label: x, tool_kind: [read],\n"
        "   tool_name: Bash, mcp_server: [docs], path: ['/a', '**/b'], argv: [a, b, ...],\n"
        "   host: '*.a.example'}"
    ).rules
    assert (rule.effect, rule.id, rule.line) == (Ruling.DENY, "mine", 2)
    assert rule.agents == ("codex", "claude")
    assert rule.labels == ("x",)
    assert rule.kinds == (ToolKind.READ,)
    assert (rule.tools, rule.servers) == (("Bash",), ("docs",))
    assert [pattern.text for pattern in rule.paths or ()] == ["/a", "**/b"]
    assert rule.argv == Argv(("a", "b"), more=True)
    assert rule.hosts == ("*.a.example",)


def test_both_spellings_of_a_key_are_one() -> None:
    snake = book("- {effect: ask, tool_kind: [read], session_label: x, tool_name: y}")
    camel = book("- {effect: ask, toolKind: [read], sessionLabel: x, toolName: y}")
    assert snake.rules == camel.rules


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "rules: []"])
def test_a_file_without_rules_loads(text: str) -> None:
    assert parse(text, "policy.yaml", HOME).rules == ()


def test_the_hash_is_that_of_the_text() -> None:
    text = "rules: [{effect: ask}]  # é\n"
    assert parse(text, "p", HOME).sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert Rulebook(()).sha256 == ""


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("{effect: maybe}", "rules.0.effect: "),
        ("{tool_kind: [read]}", "rules.0.effect: "),
        ("{effect: Deny}", "rules.0.effect: "),
        ("{effect: deny, pth: /a}", "rules.0.pth: this key is not known"),
        ("{effect: deny, tool_kind: [reed]}", "rules.0.toolKind.0: no kind of tool"),
        ("{effect: deny, tool_kind: read}", "rules.0.toolKind: a list belongs here"),
        ("{effect: deny, tool_kind: []}", "rules.0.toolKind: "),
        (
            "{effect: deny, tool_kind: [read], toolKind: [edit]}",
            "rules.0.toolKind: this key is given",
        ),
        ("{effect: deny, path: []}", "rules.0.path: "),
        ("{effect: deny, path: a/b}", "rules.0.path: begin it with"),
        ("{effect: deny, path: 7}", "rules.0.path: "),
        ("{effect: deny, argv: rm}", "rules.0.argv: a list belongs here"),
        ("{effect: deny, argv: [...]}", "rules.0.argv: name the program"),
        ("{effect: deny, argv: ['']}", "rules.0.argv: name the program"),
        ("{effect: deny, argv: [rm, ..., x]}", "rules.0.argv: `...` stands at the end"),
        ("{effect: deny, argv: [rm, 1]}", "rules.0.argv.1: text belongs here"),
        ('{effect: deny, argv: [rm, "a\\u202eb"]}', "rules.0.argv: it holds a character"),
        ("{effect: deny, host: 'https://a.example'}", "rules.0.host: write a host"),
        ("{effect: deny, host: A.example}", "rules.0.host: write a host"),
        ("{effect: deny, host: 'a.*'}", "rules.0.host: write a host"),
        ("{effect: deny, host: '*'}", "rules.0.host: write a host"),
        ("{effect: deny, agent: Codex}", "rules.0.agent: write the id as it is shown: codex"),
        ("{effect: deny, agent: primary}", "rules.0.agent: write the id as it is shown: main"),
        ('{effect: deny, tool_name: "a\\u200bb"}', "rules.0.toolName: it holds a character"),
        ("{effect: deny, id: 'builtin:git'}", "rules.0.id: use letters"),
        ("{effect: deny, id: ''}", "rules.0.id: it must not be empty"),
        ("{effect: allow}", "rules.0: an allow needs one of"),
        ("{effect: allow, agent: codex}", "rules.0: an allow needs one of"),
        ("deny", "rules.0: a mapping belongs here"),
    ],
)
def test_what_is_not_understood_is_an_error_with_its_place(rule: str, told: str) -> None:
    assert refused(rule).startswith(told)


@pytest.mark.parametrize("key", ["path", "tool_kind", "argv", "host", "agent", "id", "match"])
@pytest.mark.parametrize("nothing", ["~", "null", ""])
def test_a_key_without_a_value_does_not_make_a_rule_about_everything(
    key: str, nothing: str
) -> None:
    with pytest.raises(BridgeError, match="it has no value"):
        book(f"- effect: allow\n  tool_name: x\n  {key}: {nothing}\n")


@pytest.mark.parametrize(
    "text", ["rules: x", "rules: {a: 1}", "rule: []", "- effect: deny", "rules: [", "rules: ~", "7"]
)
def test_what_is_no_policy_does_not_load(text: str) -> None:
    with pytest.raises(BridgeError) as caught:
        parse(text, "policy.yaml", HOME)
    assert caught.value.code == "config_error"
    assert caught.value.data is not None
    assert caught.value.data["line"] == 1


def test_two_rules_have_two_ids() -> None:
    with pytest.raises(BridgeError, match=r"line 2: rules\.0\.id: a is given twice"):
        book("- {id: a, effect: ask}\n- {id: a, effect: deny}")


def test_more_rules_than_can_be_looked_at_are_an_error_and_not_fewer_checks() -> None:
    with pytest.raises(BridgeError, match="more than 10000 rules"):
        parse("rules: [" + "{effect: ask}," * (MOST_RULES + 1) + "]", "p", HOME)
    with pytest.raises(BridgeError, match="longer than"):
        book("# " + "x" * 300_000)


@pytest.mark.parametrize(
    "examples",
    [
        "argv: [pytest, ...], match: [[pytest, -q], 'pytest x'], not_match: [[sh, -c, pytest]]",
        "argv: [pytest, ...], not_match: ['pytest; x', 'X=1 pytest', [bash, -c, 'pytest|x']]",
        "argv: [pytest], match: [[bash, -lc, pytest]], not_match: [pytest -q]",
        "path: '{root}/**', match: ['{root}/a', '{root}'], not_match: [/a, '{root}/../a', '~/a']",
        "path: '~/a/**', match: ['~/a/b', /home/ann/a], not_match: ['~/A/b']",
        "host: a.example, match: [a.example, 'https://a.example/x'], not_match: ['https://a@b/']",
    ],
)
def test_examples_that_hold_load(examples: str) -> None:
    assert len(book(f"- {{effect: allow, {examples}}}").rules) == 1


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("effect: allow, argv: [pytest], match: [pytest -q]", "match.0: the rule does not match"),
        ("effect: allow, argv: [a, ...], match: [a, b]", "match.1: the rule does not match"),
        ("effect: allow, argv: [a, ...], not_match: [a b]", "notMatch.0: the rule matches"),
        ("effect: allow, argv: [sh, ...], match: [[sh, x]]", "match.0: the rule does not match"),
        ("effect: deny, argv: [a], not_match: ['b; c']", "notMatch.0: the rule matches"),
        ("effect: allow, path: '{root}/**', match: [/etc/x]", "match.0: the rule does not match"),
        ("effect: deny, path: '**/.env', not_match: ['/A/.ENV']", "notMatch.0: the rule matches"),
        ("effect: allow, path: '/a', match: [a]", "match.0: write a path"),
        ("effect: allow, path: '/a', match: [[a]]", "match.0: write a path"),
        ("effect: allow, argv: [a], match: [7]", "match.0: write a command"),
        ("effect: allow, host: a.example, match: [7]", "match.0: write a host"),
        ("effect: deny, agent: codex, match: [x]", "match.0: an example needs a rule with one of"),
        ("effect: deny, argv: [a], path: /a, match: [a]", "match.0: an example needs a rule"),
    ],
)
def test_examples_that_do_not_hold_are_errors(rule: str, told: str) -> None:
    assert refused(f"{{{rule}}}").startswith(f"rules.0.{told}")


@given(st.text("{}[]:,-' \n~*abr\u00e9\"#&!", max_size=40))
def test_any_text_loads_or_is_told_why_not(text: str) -> None:
    for whole in (text, f"rules:\n- effect: allow\n  tool_kind: [read]\n  path: {text}"):
        loaded, code = None, ""
        try:
            loaded = parse(whole, "p", HOME)
        except BridgeError as error:
            code = error.code
        assert code == "config_error" or (loaded and all(rule.says_what for rule in loaded.rules))
