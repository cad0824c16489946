"""Files for an agent, before a whole daemon: its rules, its questions, its audit, its deadline."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acpbridge.permissions.audit import verify
from tests.integration.daemon_home import Home, daemon_home, until

POLICY = """\
rules:
  - {id: look, effect: allow, tool_kind: [read], path: "{root}/open/**"}
  - {id: put, effect: allow, tool_kind: [edit], path: "{root}/open/**"}
  - {id: secret, effect: deny, tool_kind: [read, edit], path: "**/.env"}
"""
FILES = {"readTextFile": True, "writeTextFile": True}


def configured(home: Home, **limits: Any) -> None:
    runtime = {"kind": "acp", "command": home.agent("--log", str(home.path / "log.jsonl"))}
    row = {"id": "fake", "runtime": runtime, "clientCapabilities": {"fs": FILES}}
    value = {"agents": {"list": [row]}, "limits": limits}
    (home.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("files")) as made:
        configured(made)
        policy = made.path / "policy.yaml"
        policy.write_text(POLICY, encoding="utf-8")
        policy.chmod(0o600)
        yield made


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name in ("work", "work/open", "work/.git", "work/.git/hooks", "out"):
        (tmp_path / name).mkdir()
    return tmp_path / "work"


def call(kind: str, path: Path | str, **params: Any) -> str:
    return f"call fs/{kind}_text_file {json.dumps({'path': str(path), **params})}"


def run(home: Home, work: Path, *script: str, rule: str = "ask") -> list[Any]:
    """Run a turn in a directory; return what the agent was answered."""
    options = ("--cwd", str(work), "--on-permission", rule, "--format", "json")
    done = home.run("run", *options, "\n".join(script))
    assert done.code == 0, done
    said = [e["update"]["content"]["text"] for e in done.events if said_by(e)]
    return [json.loads(word.removeprefix("answer: ")) for word in said]


def said_by(event: dict[str, Any]) -> bool:
    update = event.get("update", {})
    return str(update.get("content", {}).get("text", "")).startswith("answer: ")


def decisions(home: Home) -> list[dict[str, Any]]:
    lines = (home.path / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry for entry in map(json.loads, lines) if entry["kind"] == "permission_decided"]


def test_case_60_a_person_decides_and_the_audit_has_which_file_and_never_what_is_in_it(
    home: Home, work: Path
) -> None:
    (work / "sub").mkdir()
    (work / "link").symlink_to("sub")
    (work / "sub" / "x").write_text("canary-of-old-text", encoding="utf-8")
    path, content = work / "link" / "x", "canary-of-new-text"
    started = home.run("run", "--detach", "--cwd", str(work), call("write", path, content=content))
    assert started.code == 0, started
    question = home.wait_question()
    real = str(work / "sub" / "x")
    assert question["title"] == f"Write {real}"
    assert question["kind"] == "edit"
    (diff,) = question["subject"]["content"]
    assert (diff["oldText"], diff["newText"]) == ("canary-of-old-text", content)
    shown = home.run("permissions")
    assert real in shown.out
    assert (work / "sub" / "x").read_text(encoding="utf-8") == "canary-of-old-text"
    assert home.run("permissions", "answer", question["id"], "--allow").code == 0
    until(lambda: (work / "sub" / "x").read_text(encoding="utf-8") == content)
    decision = decisions(home)[-1]
    assert decision["decision"] == "allow"
    assert decision["paths"] == [real, str(path)]
    assert decision["content_sha256"] == hashlib.sha256(content.encode()).hexdigest()
    assert decision["tool_kind"] == "edit"
    audit = home.path / "audit.jsonl"
    assert "canary-of" not in audit.read_text(encoding="utf-8")
    assert verify(audit)[1] is None


def test_g19_rules_decide_by_where_a_path_really_leads(home: Home, work: Path) -> None:
    (work / "open" / "x").write_text("open", encoding="utf-8")
    (work / "open" / ".env").write_text("KEY=1", encoding="utf-8")
    (work / "open" / "alias").symlink_to(".env")
    (work / "closed").write_text("closed", encoding="utf-8")
    (work / "open" / "up").symlink_to("../closed")
    before = len(decisions(home))
    got = run(
        home,
        work,
        call("read", work / "open" / "x"),
        call("write", work / "open" / "new", content="new"),
        call("read", work / "open" / ".env"),
        call("read", work / "open" / "alias"),
        call("write", work / "open" / ".env", content="KEY=2"),
    )
    assert got[:2] == [{"content": "open"}, {}]
    assert [answer["error"]["data"]["code"] for answer in got[2:]] == ["permission_denied"] * 3
    assert all("a rule denies it" in answer["error"]["message"] for answer in got[2:])
    assert (work / "open" / "new").read_text(encoding="utf-8") == "new"
    assert (work / "open" / ".env").read_text(encoding="utf-8") == "KEY=1"
    made = decisions(home)[before:]
    assert [one["rule_id"] for one in made] == ["look", "put", "secret", "secret", "secret"]
    # A link out of what is allowed is not allowed by it.
    started = home.run("run", "--detach", "--cwd", str(work), call("read", work / "open" / "up"))
    assert started.code == 0, started
    question = home.wait_question()
    assert question["title"] == f"Read {work / 'closed'}"
    assert home.run("permissions", "answer", question["id"], "--deny").code == 0


@pytest.mark.parametrize(
    "name",
    [".git/hooks/pre-commit", ".Git/HOOKS/pre-commit", ".mcp.json", ".MCP.json", ".claude/x"],
)
def test_no_rule_and_no_run_lets_a_protected_path_be_written(
    home: Home, work: Path, name: str
) -> None:
    """CVE-2025-54135, CVE-2025-59944: what an agent is configured by, in whatever case."""
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    (got,) = run(home, work, call("write", work / name, content="pwned"), rule="allow")
    assert got["error"]["data"]["code"] == "permission_denied"
    assert not (work / name).exists()
    assert decisions(home)[-1]["rule_id"].startswith("builtin:")


def test_a_run_that_allows_is_not_asked_and_one_that_denies_gets_nothing(
    home: Home, work: Path
) -> None:
    (work / "x").write_text("x", encoding="utf-8")
    assert run(home, work, call("read", work / "x"), rule="allow") == [{"content": "x"}]
    (got,) = run(home, work, call("read", work / "x"), rule="deny")
    assert got["error"]["data"]["code"] == "permission_denied"
    (work / "y").hardlink_to(work / "x")
    started = home.run(
        *("run", "--detach", "--on-permission", "allow"),
        *("--cwd", str(work), call("read", work / "x")),
    )
    assert started.code == 0, started
    question = home.wait_question()
    assert question["subject"]["cautions"] == ["the file has 2 names"]
    assert "WARNING  the file has 2 names" in home.run("permissions").out
    assert home.run("permissions", "answer", question["id"], "--deny").code == 0


def test_row_14_a_call_outside_a_turn_is_asked_about_whatever_the_rules_say(
    home: Home, work: Path
) -> None:
    params = {"path": str(work / "open" / "late"), "content": "late"}
    # A turn ends within milliseconds; the update holds back what comes behind it.
    script = f"late-update 1500 later\nlate-call fs/write_text_file {json.dumps(params)}"
    options = ("--detach", "--mode", "session", "--on-permission", "allow", "--cwd", str(work))
    started = home.run("run", *options, script)
    assert started.code == 0, started
    question = home.wait_question()
    assert question["subject"]["runId"] is None
    assert not (work / "open" / "late").exists()
    assert home.run("permissions", "answer", question["id"], "--allow").code == 0
    until((work / "open" / "late").exists)


def test_case_55_roots_are_the_users_and_so_is_the_policy(home: Home, work: Path) -> None:
    """A policy in the workspace is a file like any other; outside of the roots nothing is."""
    (work / "policy.yaml").write_text("rules: [{effect: allow}]", encoding="utf-8")
    outside = work.parent / "out" / "x"
    outside.write_text("secret", encoding="utf-8")
    before = len(decisions(home))
    got = run(home, work, call("read", outside), call("write", outside, content="y"), rule="allow")
    assert [answer["error"]["code"] for answer in got] == [-32602] * 2
    assert len(decisions(home)) == before


def test_row_20_nobody_answers_and_the_call_ends_with_an_error(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configured(home, permissionSeconds=1)
        (got,) = run(home, tmp_path, call("write", tmp_path / "x", content="y"))
        assert got["error"]["data"]["code"] == "permission_denied"
        assert "nobody answered in time" in got["error"]["message"]
        assert not (tmp_path / "x").exists()
