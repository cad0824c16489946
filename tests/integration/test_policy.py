"""The policy in a real daemon: what it allows runs unasked and is audited, what it denies does not.

What really ran is told by the fake agent's files.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import acpbridge
from acpbridge import BridgeError
from acpbridge.permissions.audit import verify
from fixtures import shell_agent
from tests.integration.daemon_home import Home, daemon_home, failed, until
from tests.integration.traffic import Client, client, ended, start

READS = "rules:\n  - effect: allow\n    tool_kind: [read]\n    path: '{root}/**'\n"
DENIES = "  - effect: deny\n    tool_kind: [read]\n    path: '**/.env'\n"
BROKEN = "rules:\n  - effect: allow\n    tool_kinds: [read]\n"
OPTIONS = [
    {"optionId": kind, "name": kind.replace("_", " "), "kind": kind}
    for kind in ("allow_always", "allow_once", "reject_once")
]
HANG = 60  # seconds; a guard


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("policy")) as made:
        write(made, READS + DENIES)
        shell = [sys.executable, "-P", shell_agent.__file__]
        rows = [("fake", made.agent()), ("shell", shell)]
        agents = [{"id": name, "runtime": {"command": command}} for name, command in rows]
        value = {"agents": {"list": agents}}
        (made.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")
        made.start()
        yield made


@pytest.fixture
def mine(home: Home) -> Iterator[Client]:
    """Give a connection, and afterwards the policy as it was."""
    write(home, READS + DENIES)
    with client(home) as caller:
        yield caller


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Give a directory for the agent to work in, which lies in nobody's state directory."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def write(home: Home, text: str) -> None:
    """Write as an editor does: a new file in the place of the old one."""
    part = home.path / "policy.part"
    part.write_text(text, encoding="utf-8")
    part.chmod(0o600)
    part.replace(home.path / "policy.yaml")


def reads(path: Path, done: Path, options: Any = OPTIONS, **more: Any) -> str:
    """Return the directive that asks to read a file, and leaves a trace if it may."""
    call = {"toolCallId": f"call-{path.name}", "title": "Read", "kind": "read"}
    params = {"toolCall": {**call, "rawInput": {"path": str(path)}, **more}, "options": options}
    return f"ask-json {json.dumps(params)} do {done}"


def records(home: Home) -> list[dict[str, Any]]:
    path = home.path / "audit.jsonl"
    assert verify(path)[1] is None
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def last_decision(home: Home) -> dict[str, Any]:
    return [record for record in records(home) if record["kind"] == "permission_decided"][-1]


def asked(caller: Client) -> list[Any]:
    found: list[Any] = caller.call("questions")["permissions"]
    return found


def test_row_01_what_a_rule_allows_runs_unasked_and_is_in_the_audit(
    home: Home, mine: Client, work: Path
) -> None:
    run = ended(mine, reads(work / "a", work / "done"), agent="fake", cwd=str(work))
    assert run["outcome"] == "completed", run
    assert (work / "done").exists()
    decision = last_decision(home)
    assert (decision["decision"], decision["option_id"]) == ("allow", "allow_once")
    assert (decision["rule_id"], decision["reason"]) == ("policy:1", "rule")
    loaded = [r for r in records(home) if r["kind"] == "policy_loaded"][-1]
    assert loaded["policy_sha256"] == decision["policy_sha256"]
    assert (loaded["rules"], loaded["seq"] < decision["seq"]) == (2, True)
    assert mine.call("status", key="")["policy"] == {
        "path": str(home.path / "policy.yaml"),
        "sha256": decision["policy_sha256"],
        "rules": 2,
        "problem": None,
    }


@pytest.mark.parametrize("rule", ["ask", "allow"])
def test_what_a_rule_denies_never_runs_whatever_the_run_says(
    home: Home, mine: Client, work: Path, rule: str
) -> None:
    words = reads(work / ".env", work / "done")
    run = ended(mine, words, agent="fake", cwd=str(work), onPermission=rule)
    assert run["outcome"] == "completed", run
    assert not (work / "done").exists()
    decision = last_decision(home)
    assert (decision["decision"], decision["option_id"]) == ("deny", "reject_once")
    assert decision["rule_id"] == "policy:2"


def announced(path: Path) -> str:
    """Return the directive that tells of the call that `reads` asks about, with another file."""
    call = {"toolCallId": f"call-{path.name}", "title": "Read", "kind": "read"}
    update = {"sessionUpdate": "tool_call", **call, "rawInput": {"path": "/elsewhere"}}
    return f"update {json.dumps(update)}"


ONCE = {"optionId": "again", "name": "Allow", "kind": "allow_once"}
DOUBTFUL = {
    "row_02_only_always": lambda a, done: reads(a, done, [OPTIONS[0], OPTIONS[2]]),
    "row_03_several_once": lambda a, done: reads(a, done, [*OPTIONS, ONCE]),
    "row_08_unknown_kind": lambda a, done: reads(a, done, kind="peruse"),
    "row_09_changed_since": lambda a, done: f"{announced(a)}\n{reads(a, done)}",
    "row_27_switch_mode": lambda a, done: reads(a, done, kind="switch_mode"),
}


@pytest.mark.parametrize("doubt", DOUBTFUL)
def test_rows_02_03_08_09_27_what_is_doubtful_is_asked_though_a_rule_and_the_run_allow_it(
    home: Home, mine: Client, work: Path, doubt: str
) -> None:
    write(home, "rules: [{effect: allow, path: '{root}/**'}]")
    plain = ended(mine, reads(work / "b", work / "plain"), agent="fake", cwd=str(work))
    assert (plain["outcome"], (work / "plain").exists()) == ("completed", True)
    words = DOUBTFUL[doubt](work / "a", work / "done")
    start(mine, words, agent="fake", cwd=str(work), onPermission="allow")
    (question,) = until(lambda: asked(mine))
    assert not (work / "done").exists()
    mine.call("kill", keys=[question["sessionKey"]], grace=0.0)
    assert not (work / "done").exists()


def test_no_rule_is_ever_read_from_a_workspace(mine: Client, work: Path) -> None:
    everything = "rules: [{effect: allow, path: '/**'}, {effect: allow, tool_kind: [execute]}]"
    for name in ("policy.yaml", ".acpbridge/policy.yaml", ".config/acpbridge/policy.yaml"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(everything, encoding="utf-8")
        (work / name).chmod(0o600)
    start(mine, f"ask execute x do {work / 'done'}", agent="fake", cwd=str(work))
    (question,) = until(lambda: asked(mine))
    mine.call("cancel", key=question["sessionKey"], grace=2.0)
    assert not (work / "done").exists()


def test_g19_an_agent_gets_nothing_allowed_by_choosing_where_its_child_works(
    home: Home, mine: Client, work: Path
) -> None:
    """What a rule says of the session's directory is about one that a person chose."""
    secret = work.parent / "secret"
    secret.touch()
    inside, outside = work / "inside", work / "outside"
    bridge = f"{sys.executable} -m acpbridge --home {home.path} run --agent fake - "
    (work / "1").write_text(reads(work / "a", inside), encoding="utf-8")
    (work / "2").write_text(reads(secret, outside), encoding="utf-8")
    words = f"sh {bridge} --cwd {work} < {work / '1'}"
    assert ended(mine, words, agent="shell", cwd=str(work))["outcome"] == "completed"
    assert inside.exists()
    start(mine, f"sh {bridge} --cwd / < {work / '2'}", agent="shell", cwd=str(work))
    (question,) = until(lambda: asked(mine))
    assert str(secret) in json.dumps(question)
    mine.call("answer", id=question["id"], effect="deny")
    until(lambda: last_decision(home)["rule_id"] == "directory_of_an_agents_choice")
    assert not outside.exists()


def test_a_link_that_is_swapped_between_two_questions_opens_nothing(
    home: Home, mine: Client, work: Path
) -> None:
    (work / "plain").touch()
    (work / "link").symlink_to("plain")
    (work.parent / "secret").touch()
    one, two = work / "one", work / "two"
    first = ended(mine, reads(work / "link", one), agent="fake", cwd=str(work), mode="session")
    assert one.exists()
    (work / "link").unlink()
    (work / "link").symlink_to("../secret")
    start(mine, reads(work / "link", two), session=first["key"])
    (question,) = until(lambda: asked(mine))
    assert last_decision(home)["rule_id"] == "policy:1"
    assert not two.exists()
    mine.call("kill", keys=[question["sessionKey"]], grace=0.0)


def test_row_30_a_reload_in_mid_session_counts_for_the_next_question(
    home: Home, mine: Client, work: Path
) -> None:
    """Good, broken, good again, in one session and one process of the agent."""
    run = ended(mine, reads(work / "a", work / "0"), agent="fake", cwd=str(work), mode="session")
    key = run["key"]

    def goes_on(words: str) -> Any:
        return ended(mine, words, session=key)

    def status() -> Any:
        return mine.call("status", key="")

    write(home, BROKEN)
    (warning,) = [w for w in status()["warnings"] if "policy" in w]
    assert "everything is asked" in warning
    assert f"{home.path / 'policy.yaml'}, line 3: rules.0.toolKinds" in warning
    assert "warning: the policy cannot be used" in home.run("status").out
    assert '"the policy cannot be used"' in (home.path / "daemon.log").read_text(encoding="utf-8")
    # What was allowed is asked, whatever the run allows; what was denied is denied.
    start(mine, reads(work / "a", work / "1"), session=key, onPermission="allow")
    (question,) = until(lambda: asked(mine))
    mine.call("answer", id=question["id"], effect="deny")
    goes_on(reads(work / ".env", work / "2"))
    assert last_decision(home)["rule_id"] == "policy:2"
    # Whoever removes it is not rid of it either.
    (home.path / "policy.yaml").unlink()
    goes_on(reads(work / ".env", work / "3"))
    assert last_decision(home)["rule_id"] == "policy:2"
    assert "is gone" in status()["policy"]["problem"]
    write(home, READS)
    goes_on(reads(work / ".env", work / "4"))
    assert (last_decision(home)["decision"], status()["policy"]["problem"]) == ("allow", None)
    assert [w for w in status()["warnings"] if "policy" in w] == []
    assert sorted(path.name for path in work.iterdir()) == ["0", "4"]
    kinds = [record["kind"] for record in records(home) if record["kind"].startswith("policy_")]
    assert kinds[-4:] == ["policy_loaded", "policy_broken", "policy_broken", "policy_loaded"]
    mine.call("kill", keys=[key], grace=0.0)


def test_row_30_nothing_starts_with_a_policy_that_is_broken_and_it_names_the_key(
    tmp_path: Path,
) -> None:
    with daemon_home(tmp_path) as home:
        write(home, BROKEN)
        named = f"{home.path / 'policy.yaml'}, line 3: rules.0.toolKinds"
        for words in (("daemon", "run"), ("run", "x")):
            assert named in failed(home.run(*words), "config_error", 2), words
        checks = {row["id"]: row for row in home.run("config", "check", "--json").json["checks"]}
        assert (checks["config"]["status"], checks["policy"]["status"]) == ("ok", "failed")
        assert checks["policy"]["error"]["data"]["key"] == "rules.0.toolKinds"
        # Whoever wants to know what is wrong with the bridge is told.
        done = home.run("doctor", "fake", "--json")
        rows = {row["id"]: row for row in done.json["checks"]}
        assert (done.code, rows["policy"]["status"], rows["fake"]["status"]) == (2, "failed", "ok")
        assert home.run("status", "--json").json["policy"] is None

        async def opens() -> None:
            async with acpbridge.open_bridge(home.path):
                raise AssertionError("it is open")

        with pytest.raises(BridgeError, match=r"rules\.0\.toolKinds") as caught:
            anyio.run(opens)
        assert caught.value.code == "config_error"
        assert not (home.path / "audit.jsonl").exists()


def test_row_30_a_daemon_that_works_is_not_ended_for_one_that_would_not_start(
    tmp_path: Path,
) -> None:
    with daemon_home(tmp_path) as home:
        home.start()
        pid = home.daemon_pid()
        (home.path / "policy.yaml").write_text(READS, encoding="utf-8")
        (home.path / "policy.yaml").chmod(0o664)
        said = failed(home.run("daemon", "restart"), "config_error", 2)
        assert "can be written by other users" in said
        assert f"next: Close it: chmod 600 {home.path / 'policy.yaml'}" in said
        assert home.status()["daemon"]["pid"] == pid
        (home.path / "policy.yaml").chmod(0o600)
        assert home.run("daemon", "restart").code == 0


def test_the_policy_of_another_configuration_lies_beside_that(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        other = tmp_path / "other"
        other.mkdir(mode=0o700)
        (other / "mine.yaml").write_text("{}", encoding="utf-8")
        (other / "policy.yaml").write_text(READS, encoding="utf-8")
        (other / "policy.yaml").chmod(0o600)
        write(home, BROKEN)  # which is nobody's now
        with home.running("daemon", "run", "--config", str(other / "mine.yaml")):
            shown = until(lambda: home.ask("status", key=""))["policy"]
            assert (shown["path"], shown["rules"]) == (str(other / "policy.yaml"), 1)
            assert home.run("daemon", "stop").code == 0
