"""`policy check` and `policy explain`: on files, without a daemon."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from acpbridge.cli.root import commands
from acpbridge.errors import BridgeError
from tests import cli_doc

GOOD = """\
rules:
  - effect: allow
    tool_kind: [read]
    path: "{root}/**"
  - effect: deny
    id: secrets
    tool_kind: [read]
    path: "**/.env"
"""


def question(kind: str, raw: Any, name: str = "1a") -> dict[str, Any]:
    subject = {"type": "tool_call", "runId": "run-1", "toolCallId": "c", "rawInput": raw}
    return {"id": name, "sessionKey": "agent:codex:main", "kind": kind, "subject": subject}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a state directory with a policy that only its user can write."""
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    write(path / "policy.yaml", GOOD)
    return path


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def run(home: Path, *words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(
        commands, ["--home", str(home), "policy", *words], input=stdin, standalone_mode=False
    )


def told(home: Path, *words: str, stdin: str = "") -> Any:
    """Return the JSON of a command, once its keys are known to be documented."""
    found = run(home, *words, "--json", stdin=stdin)
    assert found.exception is None
    value = json.loads(found.stdout)
    keys = cli_doc.tables()[f"policy {words[0]} --json"]
    seen = set(cli_doc.key_paths(value))
    assert keys.unknown(seen) == set()
    return value


def test_the_policy_in_use_is_checked(home: Path) -> None:
    value = told(home, "check")
    assert value["path"] == str(home / "policy.yaml")
    assert (value["rules"], value["findings"]) == (2, [])
    shown = run(home, "check")
    assert shown.return_value == 0
    assert shown.stdout == f"{home / 'policy.yaml'}: 2 rules, revision {value['sha256'][:12]}\n"


def test_what_is_doubtful_is_listed_with_its_line(home: Path) -> None:
    bad = write(home / "other.yaml", "rules:\n  - {effect: allow, argv: [npx, x]}\n")
    (row,) = told(home, "check", str(bad))["findings"]
    assert (row["rule"], row["line"], row["kind"]) == ("policy:1", 2, "never")
    shown = run(home, "check", str(bad))
    assert shown.return_value == 0
    assert "line 2, policy:1 can never match" in shown.stdout


def test_no_policy_is_in_order(home: Path) -> None:
    (home / "policy.yaml").unlink()
    assert told(home, "check")["sha256"] is None
    assert "everything is asked" in run(home, "check").stdout


def test_row_30_a_broken_policy_is_an_error_with_file_line_and_key(home: Path) -> None:
    write(home / "policy.yaml", GOOD + "  - {effect: deny, pth: x}\n")
    for words in (("check",), ("explain", "-")):
        found = run(home, *words, stdin=json.dumps(question("read", None)))
        assert isinstance(found.exception, BridgeError)
        assert found.exception.code == "config_error"
        assert found.exception.kind.exit == 2
        assert found.exception.data is not None
        assert found.exception.data["line"] == 9
        assert found.exception.data["key"] == "rules.2.pth"


def test_a_file_that_is_not_there_is_a_wrong_use(home: Path) -> None:
    for words in (("check", "nowhere.yaml"), ("explain", "-", "--policy", "nowhere.yaml")):
        assert isinstance(run(home, *words, stdin="{}").exception, click.UsageError)


def test_the_rule_that_decides_is_named_for_each_question(home: Path, tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "link").symlink_to("/etc/passwd")
    asked = [
        question("read", {"path": str(root / "x")}, "1a"),
        question("read", {"path": str(root / "link")}, "1b"),
        question("read", {"path": str(root / ".ENV")}, "1c"),
        question("edit", {"path": str(root / ".git/hooks/x")}, "1d"),
        question("read", {"path": str(home / "x")}, "1e"),
        question("edit", {"path": str(home / "policy.yaml")}, "1f"),
    ]
    text = json.dumps({"permissions": asked})
    rows = told(home, "explain", "-", "--root", str(root), stdin=text)["requests"]
    assert [(row["id"], row["effect"], row["rule"]) for row in rows] == [
        ("1a", "allow", "policy:1"),
        ("1b", "ask", "no_match"),
        ("1c", "deny", "secrets"),
        ("1d", "deny", "builtin:git"),
        ("1e", "ask", "no_match"),
        ("1f", "deny", "builtin:acpbridge"),
    ]
    assert [rule["rule"] for rule in rows[2]["matches"]] == ["secrets", "policy:1"]
    assert rows[1]["facts"]["paths"][0]["resolved"] == "/etc/passwd"
    shown = run(home, "explain", "-", "--root", str(root), stdin=text).stdout
    assert "1c: deny, by secrets\n  line 5, secrets: deny\n  line 2, policy:1: allow\n" in shown
    assert f"path: {root / 'link'} (/etc/passwd)" in shown


def test_a_doubt_keeps_a_rule_from_allowing_here_as_in_the_daemon(home: Path) -> None:
    asked = question("read", {"path": "x"})
    assert told(home, "explain", "-", stdin=json.dumps(asked))["requests"][0]["effect"] == "allow"
    asked["subject"]["changed"] = ["rawInput"]
    (row,) = told(home, "explain", "-", stdin=json.dumps(asked))["requests"]
    assert (row["effect"], row["rule"]) == ("ask", "changed_since_announced")
    del asked["subject"]["changed"], asked["subject"]["runId"]
    (row,) = told(home, "explain", "-", stdin=json.dumps(asked))["requests"]
    assert (row["effect"], row["rule"]) == ("ask", "outside_turn")


def test_other_rules_than_those_in_use_can_be_tried(home: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.yaml", "rules: [{effect: deny, id: never, tool_kind: [read]}]")
    file = write(tmp_path / "q.json", json.dumps(question("read", {"path": "x"})))
    (row,) = told(home, "explain", str(file), "--policy", str(other))["requests"]
    assert row["rule"] == "never"


def test_case_58_nothing_that_an_agent_wrote_reaches_the_terminal(home: Path) -> None:
    asked = question("execute", {"command": ["a\x1b[2J", "\u202eb"]}, "1\x1b[2K")
    asked["subject"]["locations"] = ["/x\r\x1b]52;c;x\x07"]
    asked["kind"] = "edit"
    asked["subject"]["rawInput"] = None
    found = run(home, "explain", "-", stdin=json.dumps(asked))
    assert found.exception is None
    for text in (found.stdout, found.stderr):
        assert not any(char in text for char in "\x1b\r\x07\u202e")
    assert "U+001B" in found.stdout


def test_what_is_no_question_is_a_wrong_use(home: Path) -> None:
    found = run(home, "explain", "-", stdin="not JSON")
    assert isinstance(found.exception, BridgeError)
    assert found.exception.code == "usage"
    assert run(home, "explain", "-", stdin='{"permissions": []}').stdout == "no question\n"
