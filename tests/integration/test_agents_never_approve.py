"""Row 24: nobody inside a supervised tree approves anything, whatever they run."""

import json
import sys
from pathlib import Path

from fixtures import shell_agent
from fixtures.fake_acp import fake_agent
from tests.integration.daemon_home import Home, daemon_home


def configure(home: Home) -> None:
    shell = [sys.executable, "-P", shell_agent.__file__]
    rows = [
        {"id": "fake", "runtime": {"command": list(fake_agent("--mark", home.mark))}},
        {"id": "shell", "runtime": {"command": shell}},
    ]
    (home.path / "config.yaml").write_text(json.dumps({"agents": {"list": rows}}), encoding="utf-8")


def shell(home: Home, command: str) -> str:
    """Run a command inside a supervised agent and return what it said."""
    done = home.run("run", f"sh {command}", "--agent", "shell", "--format", "quiet")
    assert done.code == 0, done
    return done.out


def bridge(home: Home, words: str) -> str:
    return f"{sys.executable} -m acpbridge --home {home.path} {words}"


def test_row_24_an_agents_own_shell_answers_no_question(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home)
        did = tmp_path / "did"
        home.run("run", f'ask execute "rm x" do {did}', "--agent", "fake", "--detach")
        question = home.wait_question()
        words = f"permissions answer {question['id']} --allow"
        ways = (
            bridge(home, words),
            f"env -u ACPBRIDGE_MARK {bridge(home, words)}",
            f"env -i PATH=$PATH {bridge(home, words)}",
            f"setsid {bridge(home, words)}",
            f"sh -c 'setsid {bridge(home, words)} & wait'",
        )
        for way in ways:
            said = shell(home, way)
            assert "permission_denied" in said, said
        assert not did.exists()
        assert home.wait_question()["id"] == question["id"]
        audit = (home.path / "audit.jsonl").read_text(encoding="utf-8")
        assert audit.count('"permission_refused"') == len(ways)


def test_row_24_an_agents_own_shell_allows_nothing_by_a_rule(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home)
        did = tmp_path / "did"
        prompt = f"'ask execute x do {did}'"
        said = shell(home, bridge(home, f"run {prompt} --agent fake --on-permission allow"))
        assert "permission_denied" in said
        assert "status 5" in said
        assert not did.exists()


def test_an_agents_run_is_its_child_and_it_sees_only_its_own_family(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home)
        stranger = home.run("run", "hang", "--agent", "fake", "--detach").out.strip()
        script = " ; ".join(
            (
                bridge(home, "run hang --agent fake --detach"),
                bridge(home, "status --json"),
                bridge(home, f"kill {stranger}"),
            )
        )
        started = home.run("run", f"sh {script}", "--agent", "shell", "--format", "quiet")
        child, _, rest = started.out.partition("\n")
        assert stranger not in started.out.partition("no_such_session")[0]
        status = json.JSONDecoder().raw_decode(rest)[0]
        keys = {row["key"]: row["parentKey"] for row in status["sessions"]}
        (shell_key,) = [key for key in keys if key.startswith("agent:shell:")]
        assert keys == {shell_key: None, child: shell_key}
        assert "no_such_session" in rest
        home.run("kill", "--all")


def test_a_daemon_is_never_started_from_inside_a_supervised_tree(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home)
        other = tmp_path / "other"
        said = shell(home, f"{sys.executable} -m acpbridge --home {other} run hi --agent demo")
        assert "daemon_unreachable" in said
        assert not (other / "daemon.lock").exists()
