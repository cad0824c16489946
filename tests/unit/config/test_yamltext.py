"""YAML as we take it: strict, with a line for every key, and never an exception of the library."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.config import yamltext
from acpbridge.errors import BridgeError


def problem(text: str) -> BridgeError:
    with pytest.raises(BridgeError) as caught:
        yamltext.read(text, "c.yaml")
    assert caught.value.code == "config_error"
    assert caught.value.data["file"] == "c.yaml"
    assert caught.value.message.startswith(f"c.yaml, line {caught.value.data['line']}: ")
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "\ufeff"])
def test_an_empty_document_reads_as_an_empty_mapping(text: str) -> None:
    assert yamltext.read(text, "c.yaml").value in ({}, None)


def test_both_spellings_come_out_as_camel_case_and_every_key_has_its_line() -> None:
    found = yamltext.read("limits:\n  max_processes: 1\n  maxDepth: 2\nx:\n- a: 1\n", "c.yaml")
    assert found.value == {"limits": {"maxProcesses": 1, "maxDepth": 2}, "x": [{"a": 1}]}
    assert found.lines["limits", "maxProcesses"] == 2
    assert found.lines["x", 0, "a"] == 5


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a: 1\nb: 2\na: 3\n", "a"),
        ("max_processes: 1\n\nmaxProcesses: 2\n", "maxProcesses"),
        ("maxProcesses: 1\n\nmax_processes: 2\n", "maxProcesses"),
    ],
)
def test_a_key_given_twice_is_an_error_in_either_spelling(text: str, key: str) -> None:
    error = problem(text)
    assert (error.data["line"], error.data["key"]) == (3, key)
    assert "twice" in error.message


def test_the_two_spellings_are_both_named() -> None:
    message = problem("max_processes: 1\nmaxProcesses: 2\n").message
    assert "max_processes" in message
    assert "maxProcesses" in message


def test_names_that_people_chose_keep_their_spelling() -> None:
    text = (
        "agents:\n"
        "  entries:\n"
        "    my_agent: {env: {set: {A_b: '1', a_b: '2'}}}\n"
        "    env:\n"
        "      allow_bypass: true\n"
        "      mcp_servers: [{name: x, env: {c_d: e}, headers: {f_g: h}}]\n"
    )
    entries = yamltext.read(text, "c.yaml").value["agents"]["entries"]
    assert entries["my_agent"]["env"]["set"] == {"A_b": "1", "a_b": "2"}
    server = {"name": "x", "env": {"c_d": "e"}, "headers": {"f_g": "h"}}
    assert entries["env"] == {"allowBypass": True, "mcpServers": [server]}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1\n", 2),
        ("a:\n\tb: 1\n", 2),
        ("a: 1\n b: 2\n", 2),
        ("a: 'x\n", 2),
        ("a: b: c\n", 1),
        ("--- 1\n--- 2\n", 2),
        ("a: 1\nb: \0\n", 2),
        ("a: 1\nb: \ud800\n", 2),
        ('a: "\\UFFFFFFFF"\n', 1),
        ("a: *b\n", 1),
        ("a: @x\n", 1),
    ],
)
def test_what_is_not_yaml_is_named_by_its_line(text: str, line: int) -> None:
    assert problem(text).data["line"] == line


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: 2026-13-45\n",
        "a: 1\nb: !!int x\n",
        "a: 1\nb: !!float x\n",
        "a: 1\nb: !!timestamp x\n",
        "a: 1\nb: !!python/name:os.system ''\n",
        "a: 1\nb: !!python/object/apply:os.system [id]\n",
        "a: 1\nb: !!set {x}\n",
        "a: 1\nb: !mine {x: 1}\n",
        "a: 1\nb: " + "9" * 5000 + "\n",
        'a: 1\nb: "x\\0y"\n',
        'a: 1\nb: "\\ud800"\n',
    ],
)
def test_a_value_that_is_not_plain_is_an_error_at_its_key(text: str) -> None:
    error = problem(text)
    assert (error.data["line"], error.data["key"]) == (2, "b")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a:\n  1: x\n", "a.1"),
        ("a:\n  no: x\n", "a.no"),
        ("a:\n  ~: x\n", "a.~"),
        ("a:\n  [x]: y\n", "a.?"),
        ("b: &x {c: 1}\na: {<<: *x}\n", "a.<<"),
        ('a:\n  "x\\0": y\n', "a.x\0"),
        ('a:\n  "\\ud800": y\n', "a.?"),
    ],
)
def test_a_key_that_is_not_a_word_is_an_error_that_says_to_quote_it(text: str, key: str) -> None:
    error = problem(text)
    assert (error.data["line"], error.data["key"]) == (2, key)
    assert "quotes" in error.message


def test_an_alias_is_read_where_it_stands() -> None:
    found = yamltext.read("a: &x [1]\nb: *x\n", "c.yaml")
    assert found.value == {"a": [1], "b": [1]}


@pytest.mark.parametrize(
    "text",
    [
        "a: &x\n  b: *x\n",
        "a: &x [*x, *x]\n",
        "a: &x [1, *x]\n",
        "[" * 40 + "]" * 40,
        "[" * 20_000,
        "{a: " * 2_000,
    ],
)
def test_nesting_without_end_is_an_error_and_no_recursion(text: str) -> None:
    error = problem(text)
    assert any(word in error.message for word in ("alias", "deep", "levels")), error.message


def test_aliases_of_aliases_do_not_fill_the_memory() -> None:
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    error = problem("\n".join(["a0: &a0 [x]", *levels]))
    assert "alias" in error.message, error.message


def test_a_huge_file_is_refused_before_it_is_parsed() -> None:
    assert "shorter" in problem("# " + "x" * yamltext.MAX_SIZE).message


@pytest.mark.parametrize(
    "text", ["a: *S3NT1NEL", "a: !S3NT1NEL", "a: !S3NT!INEL x", "a: !!int S3NT1NEL"]
)
def test_no_error_repeats_a_value_case_86(text: str) -> None:
    assert "S3NT" not in problem(text).message


@given(st.text() | st.text("ab:-[]{}&*!%|>'\"?# \t\n\\0xU,~<", max_size=60))
def test_any_text_reads_or_is_a_config_error(text: str) -> None:
    error = None
    try:
        yamltext.read(text, "c.yaml")
    except BridgeError as caught:
        error = caught
    assert error is None or (error.code, error.data["line"] >= 1) == ("config_error", True)
