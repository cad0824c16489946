"""`agents`, `doctor`, `login` and `config check`: the truth about a machine, without a daemon."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_home import LIMIT, Home, daemon_home, wait_gone
from tests.integration.machine import MODES, Machine


def write_config(home: Home, value: Any) -> None:
    (home.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")


def received(log: Path) -> list[str]:
    """Return the methods that a fake agent was called."""
    records = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    lines = [json.loads(record["line"]) for record in records if record["event"] == "line"]
    return [line["method"] for line in lines if "method" in line]


def rows(done: Any, key: str) -> dict[str, Any]:
    return {row["id"]: row for row in done.json[key]}


def left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


# agents


def test_agents_shows_what_would_run_for_each_without_a_daemon(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        codex, npx = machine.install("codex-acp"), machine.install("npx")
        write_config(home, {"agents": {"list": [{"id": "mine", "runtime": {"command": ["gone"]}}]}})
        home.env["OPENAI_API_KEY"] = "sk-secret-secret-secret"
        done = home.run("agents", "--json")
        assert done.code == 0, done
        found = rows(done, "agents")
        order = list(found)
        assert (order[0], order[-1]) == ("mine", "demo")
        assert found["mine"]["default"]
        assert found["mine"]["configured"]
        assert (found["mine"]["launch"], found["mine"]["command"]) == ("missing", None)
        assert "gone" in found["mine"]["missing"]["message"]
        assert found["codex"]["command"] == [str(codex)]
        assert (found["codex"]["launch"], found["codex"]["cold"]) == ("installed", False)
        assert (found["codex"]["mode"], found["codex"]["asks"]) == ("read-only", True)
        assert found["codex"]["login"] == "env:OPENAI_API_KEY"
        assert "codex-acp" in found["codex"]["aliases"]
        assert found["claude"]["command"][:2] == [str(npx), "-y"]
        assert (found["claude"]["launch"], found["claude"]["cold"]) == ("npx", True)
        assert (found["claude"]["login"], found["copilot"]["mode"]) == ("unknown", None)
        assert found["copilot"]["launch"] == "missing"
        assert found["fast-agent"]["launch"] == "missing"
        assert found["kiro"]["launch"] == "unknown"
        assert "runtime: {command" in found["kiro"]["missing"]["hint"]
        assert found["demo"]["login"] == "not needed"
        text = home.run("agents").out
        assert max(map(len, text.splitlines())) <= 100
        assert "sk-secret" not in text + done.out
        assert "*  mine" in text
        assert "kiro" in text.partition("without a known command")[2]
        assert not (home.path / "daemon.lock").exists()


def test_agents_marks_what_run_would_take_where_nothing_is_configured(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        write_config(home, {})
        default = [a["id"] for a in home.run("agents", "--json").json["agents"] if a["default"]]
        assert default == ["demo"]
        machine.install("codex-acp")
        (home.path / ".codex").mkdir()
        (home.path / ".codex" / "auth.json").touch()
        (row,) = [a for a in home.run("agents", "--json").json["agents"] if a["default"]]
        assert row["id"] == "codex"
        assert row["login"] == f"file:{home.path / '.codex' / 'auth.json'}"


def test_a_name_without_a_checked_command_is_refused_with_the_way_to_give_one(
    tmp_path: Path,
) -> None:
    with daemon_home(tmp_path) as home:
        Machine(home, tmp_path)
        done = home.run("run", "hi", "--agent", "kiro")
        assert done.code == 6, done
        assert "error (agent_not_found): There is no known program for the agent kiro" in done.err
        assert "runtime: {command: [PROGRAM" in done.err


def test_an_alias_means_the_configured_agent(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        mine = machine.install("mine", *MODES)
        write_config(
            home, {"agents": {"list": [{"id": "codex", "runtime": {"command": [str(mine)]}}]}}
        )
        assert home.run("doctor", "codex-acp", "--json").json["checks"][-1]["command"] == [
            str(mine)
        ]


# doctor


def test_doctor_shows_version_handshake_login_and_mode_and_leaves_nothing(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        log, scratch = tmp_path / "log", tmp_path / "tmp"
        scratch.mkdir()
        home.env |= {"TMPDIR": str(scratch), "OPENAI_API_KEY": "sk-secret-secret-secret"}
        machine.install("codex-acp", *MODES, "--log", str(log), "--close")
        done = home.run("doctor", "codex", "--json")
        assert done.code == 0, done
        row = rows(done, "checks")["codex"]
        assert (row["status"], row["error"]) == ("ok", None)
        assert (row["agent"], row["version"], row["protocolVersion"]) == ("fake-acp", "1.0.0", 1)
        assert row["handshakeMs"] > 0
        assert (row["mode"], row["asks"]) == ("read-only", True)
        assert (row["login"], row["loginState"]) == ("env:OPENAI_API_KEY", "present")
        methods = received(log)
        assert methods[:2] == ["initialize", "session/new"]
        assert methods[-1] == "session/close"
        assert "session/prompt" not in methods
        assert left_in(scratch) == []
        assert not (home.path / "daemon.lock").exists()
        assert home.marked() == {}
        text = home.run("doctor", "codex").out
        assert "1.0.0" in text
        assert "asks" in text
        assert "sk-secret" not in text + done.out


def test_doctor_checks_the_configured_and_the_installed_side_by_side(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        machine.install("codex-acp", *MODES)
        machine.script("npx", f"touch {tmp_path}/downloaded")
        agents = [
            {"id": "good", "runtime": {"command": home.agent()}},
            {"id": "dead", "runtime": {"command": home.agent("--die-at-start", "3")}},
            {"id": "claude"},
        ]
        write_config(home, {"agents": {"list": agents}})
        done = home.run("doctor", "--json")
        assert done.code == 6, done
        found = rows(done, "checks")
        assert [i for i in found if found[i]["kind"] == "agent"] == [
            *("good", "dead", "claude", "codex"),
        ]
        states = {name: found[name]["status"] for name in ("good", "dead", "claude", "codex")}
        assert states == {"good": "ok", "dead": "failed", "claude": "skipped", "codex": "ok"}
        # A mode of which nothing is known, and a login that only a prompt would tell of.
        assert (found["good"]["asks"], found["good"]["loginState"]) == (None, "unknown")
        assert "Only a prompt" in found["good"]["next"]
        assert found["dead"]["error"]["code"] == "start_failed"
        assert "exit code 3" in found["dead"]["message"]
        assert "npx" in found["claude"]["message"]
        assert "acpbridge doctor claude" in found["claude"]["next"]
        assert not (tmp_path / "downloaded").exists()
        assert home.marked() == {}


def test_doctor_with_nothing_at_all_checks_the_demo(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        Machine(home, tmp_path)
        write_config(home, {})
        done = home.run("doctor", "--json")
        assert (done.code, rows(done, "checks")["demo"]["status"]) == (0, "ok"), done


@pytest.mark.parametrize(
    ("options", "code", "status"),
    [
        (("--auth-required", "new"), "auth_required", 7),
        (("--silent-start", "--stderr", "waiting for godot"), "start_timeout", 6),
        (("--silent", "session/new"), "start_timeout", 6),
        (("--protocol-version", "2"), "protocol_version", 6),
        (("--modes", "agent,other"), "mode_not_set", 6),
    ],
)
def test_doctor_says_what_is_wrong_with_an_agent_and_what_to_do(
    options: tuple[str, ...], code: str, status: int, tmp_path: Path
) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        machine.install("codex-acp", *options)
        write_config(home, {"limits": {"startSeconds": 2}})
        done = home.run("doctor", "codex", "--json")
        assert done.code == status, done
        row = rows(done, "checks")["codex"]
        assert (row["status"], row["error"]["code"]) == ("failed", code)
        assert row["next"]
        assert (row["loginState"] == "missing") == (code == "auth_required")
        if code == "auth_required":
            assert "acpbridge login codex" in row["next"]
            assert row["version"] == "1.0.0"
        assert home.marked() == {}
        text = home.run("doctor", "codex").out
        assert "failed  codex: " in text
        assert ("waiting for godot" in text) == ("--stderr" in options)


def test_doctor_names_a_missing_agent_and_a_wrong_name(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        Machine(home, tmp_path)
        write_config(home, {})
        done = home.run("doctor", "codex", "--json")
        row = rows(done, "checks")["codex"]
        assert (done.code, row["error"]["code"]) == (6, "agent_not_found")
        assert "npm install" in row["next"]
        assert home.run("doctor", "nobody").code == 4


def test_doctor_reports_a_bad_configuration_with_file_line_and_key(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        text = "agents:\n  list:\n    - id: a\n      commandd: x\n"
        (home.path / "config.yaml").write_text(text, encoding="utf-8")
        done = home.run("doctor", "--json")
        row = rows(done, "checks")["config"]
        assert (done.code, row["status"], row["error"]["code"]) == (2, "failed", "config_error")
        assert row["error"]["data"]["line"] == 4
        assert "commandd" in row["message"]
        write_config(home, {})


def test_doctor_reports_an_open_state_directory_and_a_running_daemon(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        write_config(home, {})
        assert home.run("daemon", "start").code == 0
        found = rows(home.run("doctor", "demo", "--json"), "checks")
        assert found["daemon"]["pid"] == home.daemon_pid()
        assert found["daemon"]["version"] == found["acpbridge"]["version"]
        home.path.chmod(0o755)
        done = home.run("doctor", "demo", "--json")
        home.path.chmod(0o700)
        row = rows(done, "checks")["home"]
        assert (done.code, row["status"], row["error"]["code"]) == (8, "failed", "not_our_socket")
        assert "chmod 700" in row["next"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_doctor_that_is_ended_leaves_no_process(number: signal.Signals, tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        log, scratch = tmp_path / "log", tmp_path / "tmp"
        scratch.mkdir()
        home.env["TMPDIR"] = str(scratch)
        children = ("--mark", home.mark, "--children", "setsid", "env-i")
        machine.install("codex-acp", "--silent-start", "--log", str(log), *children)
        with home.running("doctor", "codex") as process:
            deadline = time.monotonic() + 20
            while not (log.exists() and "initialize" in log.read_text(encoding="utf-8")):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            running = [*home.marked()]
            assert len(running) >= 3
            os.kill(process.pid, number)
            code = process.wait(LIMIT)
        assert code == (-number if number == signal.SIGKILL else 130)
        assert wait_gone(running) == []
        if number != signal.SIGKILL:
            assert left_in(scratch) == []


def test_what_an_agent_says_cannot_steer_the_terminal_nor_show_a_secret(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        home.env["OPENAI_API_KEY"] = secret = "sk-secret-secret-secret"
        info = {"name": "\x1b[2Jevil", "version": f"{secret}\u202e"}
        answer = {"result": {"protocolVersion": 1, "agentInfo": info}}
        machine.install("codex-acp", *MODES, "--answer", "initialize", json.dumps(answer))
        for words in (("doctor", "codex"), ("doctor", "codex", "--json")):
            done = home.run(*words)
            assert "evil" in done.out, done
            assert secret not in done.out
            assert "\x1b[2J" not in done.out
            assert "\u202e" not in done.out


def test_the_secrets_of_a_definition_are_not_shown_either(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        secrets = {"MY_TOKEN": "one-long-secret", "DOCS_KEY": "another-long-secret"}
        said = ("--die-at-start", "1", "--stderr", " ".join(secrets.values()))
        row = {
            "id": "a",
            "runtime": {"command": home.agent(*said)},
            "env": {"set": {"MY_TOKEN": secrets["MY_TOKEN"]}},
            "mcpServers": [
                {"name": "d", "command": "/d", "env": {"DOCS_KEY": secrets["DOCS_KEY"]}}
            ],
        }
        write_config(home, {"agents": {"list": [row]}})
        for words in (
            ("doctor", "a"),
            ("doctor", "a", "--json"),
            ("agents",),
            ("agents", "--json"),
        ):
            shown = home.run(*words).out
            # A person's table cuts a command long before its last word.
            assert words == ("agents",) or "[redacted:env:" in shown
            assert not any(secret in shown for secret in secrets.values())


# login


LOGIN = 'if [ "$1" = login ]; then read word; echo "in as $word"; exit $LOGIN_STATUS; fi'


@pytest.mark.parametrize(("status", "code"), [("0", 0), ("3", 7)])
def test_login_runs_the_agents_own_on_our_streams(status: str, code: int, tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        machine.install("codex-acp", first=[LOGIN])
        home.env["LOGIN_STATUS"] = status
        done = home.run("login", "codex", stdin="ann\n")
        assert (done.code, done.out) == (code, "in as ann\n"), done
        assert "running: codex-acp login" in done.err
        assert ("did not succeed (exit status 3).\nnext: " in done.err) == (code == 7)


def test_login_of_a_configured_command_runs_that_very_program(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        path = machine.script("codex-acp", 'echo "$@" "$CODEX_HOME"')
        row = {
            "id": "work",
            "runtime": {"command": [str(path), "--fast"]},
            "env": {"set": {"CODEX_HOME": "/elsewhere"}},
        }
        write_config(home, {"agents": {"list": [row]}})
        home.env["PATH"] = "/nowhere"
        assert home.run("login", "work").out == "login /elsewhere\n"


def test_login_with_several_ways_wants_one_named(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        machine.script("claude-agent-acp", 'echo "$@"')
        for words in ((), ("--method", "nope")):
            done = home.run("login", "claude", *words)
            assert done.code == 2, done
            assert "--method claudeai or --method console" in done.err
        done = home.run("login", "claude", "--method", "console")
        assert (done.code, done.out) == (0, "--cli auth login --console\n")


def test_login_is_fetched_where_it_is_not_installed_and_from_no_workspace(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        machine.script("npx", 'echo "$PWD" "$@"')
        done = home.run("login", "codex")
        assert done.out.startswith(f"{home.env['HOME']} -y @agentclientprotocol/codex-acp@")
        assert done.out.endswith(" login\n")


def test_login_prints_the_hint_where_no_command_is_known(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        Machine(home, tmp_path)
        done = home.run("login", "gemini")
        assert done.code == 7
        assert "run gemini once" in done.err
        assert home.run("login", "demo").code == 0
        assert home.run("login", "nobody").code == 4
        assert home.run("login", "codex").code == 6


def test_no_login_is_made_from_inside_a_supervised_agent(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        machine.script("codex-acp", f"touch {tmp_path}/ran")
        home.env["ACPBRIDGE_MARK"] = "agent:x:main.1"
        done = home.run("login", "codex")
        del home.env["ACPBRIDGE_MARK"]
        assert done.code == 5
        assert "error (permission_denied)" in done.err
        assert not (tmp_path / "ran").exists()


# config check


def test_config_check_prints_what_the_file_comes_to(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        path = home.path / "config.yaml"
        two = [
            {"id": name, "default": True, "runtime": {"command": ["x", "y"]}} for name in ("b", "c")
        ]
        write_config(home, {"agents": {"list": [{"id": "codex"}, *two]}})
        done = home.run("config", "check")
        assert done.code == 0, done
        assert str(path) in done.out
        assert "b (default): x y" in done.out
        assert "warning: several agents are marked default" in done.err
        (row, rules) = home.run("config", "check", "--json").json["checks"]
        assert (rules["id"], rules["status"], rules["rules"]) == ("policy", "ok", 0)
        assert (row["status"], row["path"], row["agents"]) == ("ok", str(path), ["codex", "b", "c"])
        assert len(row["revision"]) == 12
        assert len(row["warnings"]) == 1
        write_config(home, {})


def test_config_check_names_file_line_and_key(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        other = tmp_path / "other.yaml"
        other.write_text("agents:\n  list:\n    - id: kiro\n", encoding="utf-8")
        done = home.run("config", "check", str(other))
        assert done.code == 2
        assert f"{other}, line 3" in done.err
        assert "give runtime.command" in done.err
        done = home.run("config", "check", str(other), "--json")
        row = done.json["checks"][0]
        assert (done.code, row["status"], row["error"]["data"]["line"]) == (2, "failed", 3)
        assert home.run("config", "check", str(tmp_path / "gone")).code == 2
        assert home.run("config", "check").code == 0
