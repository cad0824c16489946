"""Cases 84 to 88, 90 and 91: what an agent is given, and where a secret may be seen and by whom.

The environment is that of whoever asked for the run, in small part; nothing of it is on a command
line, nor readable by others, and no word of a configuration passes through a shell.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import descendants
from tests.integration.daemon_home import Home, daemon_home, until
from tests.integration.faultsweep import loose

SECRET = "S3NT1NEL-9f"
ODD = ["A B (C)", "it's", "", "é", "x; touch PWNED", "$(touch PWNED)", "`touch PWNED`"]
ODD += ["a\ntouch PWNED", "--", '"', "${HOME}", "*"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Give a daemon that was started from within an agent's session, by somebody with secrets."""
    with daemon_home(tmp_path_factory.mktemp("environment")) as made:
        rows = [
            row(made, "one", {"ONE_API_KEY": f"{SECRET}-one"}),
            row(made, "two", {"TWO_API_KEY": f"{SECRET}-two"}),
            {"id": "odd", "runtime": {"kind": "acp", "command": odd_command(made)}},
        ]
        config = made.path / "config.yaml"
        config.write_text(json.dumps({"agents": {"list": rows}}), encoding="utf-8")
        mine, made.env = (
            made.env,
            made.env
            | {
                "DB_PASSWORD": f"{SECRET}-db",
                "GITHUB_TOKEN": f"{SECRET}-hub",
                "AWS_SECRET_ACCESS_KEY": f"{SECRET}-aws",
                "CLAUDECODE": "1",
                "CLAUDE_CODE_ENTRYPOINT": "cli",
                "CODEX_SANDBOX": "seatbelt",
                "GEMINI_CLI": "1",
                "TZ": "Daemon/Land",
                "LANG": "of.the.daemon",
            },
        )
        before = os.umask(0)
        try:
            made.start()
        finally:
            os.umask(before)
        made.env = mine
        yield made


def row(home: Home, name: str, env: dict[str, str]) -> dict[str, Any]:
    runtime = {"kind": "acp", "command": home.agent()}
    return {"id": name, "runtime": runtime, "env": {"set": env}}


def odd_command(home: Home) -> list[str]:
    marks = [word for odd in ODD for word in (f"--mark={odd}",)]
    return [*home.agent(), *marks, "--mark", home.mark]


def environment(home: Home, agent: str, *args: str, **more: str) -> dict[str, str]:
    """Return what an agent has, as it tells."""
    before = home.env
    home.env = before | more
    try:
        done = home.run("run", "--agent", agent, *args, "env")
    finally:
        home.env = before
    assert done.code == 0, done
    found: dict[str, str] = json.loads(done.out.strip().removeprefix("env: "))
    return found


def test_case_84_and_85_nothing_of_the_daemon_or_of_another_agent_arrives(home: Home) -> None:
    markers = {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "CODEX_SANDBOX": "x"}
    got = environment(home, "one", TZ="Caller/Land", DB_PASSWORD=f"{SECRET}-mine", **markers)
    assert got["ONE_API_KEY"] == f"{SECRET}-one"
    assert got["TZ"] == "Caller/Land"
    assert "of.the.daemon" not in got.values()
    allowed = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TZ", "TMPDIR"}
    allowed |= {"ONE_API_KEY", "ACPBRIDGE_HOME", "ACPBRIDGE_MARK", "NODE_EXTRA_CA_CERTS"}
    open_ended = ("LC_", "XDG_", "SSL_CERT_")
    others = {
        name
        for name in got.keys() - allowed
        if not name.startswith(open_ended) and not name.lower().endswith("_proxy")
    }
    assert others == set()
    assert "TWO_API_KEY" not in got
    assert "ONE_API_KEY" not in environment(home, "two")


def test_a_file_of_the_workspace_sets_nothing(home: Home, tmp_path: Path) -> None:
    """CVE-2025-61260: a repository's `.env` chose the agent's configuration."""
    lines = "CODEX_HOME=/evil\nANTHROPIC_BASE_URL=http://evil\nTZ=Evil/Land\nPATH=/evil\n"
    for name in (".env", ".env.local", ".envrc"):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    got = environment(home, "one", "--cwd", str(tmp_path))
    assert not any("evil" in value.lower() for value in got.values())


def test_case_87_no_secret_is_on_a_command_line(home: Home, tmp_path: Path) -> None:
    mcp = tmp_path / "mcp.json"
    server = {"command": "/bin/cat", "env": {"SHOP_KEY": f"{SECRET}-mcp"}}
    mcp.write_text(json.dumps({"mcpServers": {"shop": server}}), encoding="utf-8")
    argv = ("run", "--agent", "one", "--detach", "--mcp-config", str(mcp), "-")
    key = home.run(*argv, stdin=f"say {SECRET}-prompt\nchildren plain\nhang").out.strip()
    until(lambda: any(p["role"] == "child" for p in home.row(key)["processes"]))
    daemon = home.daemon_pid()
    pids = {daemon, *descendants(daemon), *home.marked()}
    shown = {pid: command_line(pid) for pid in pids}
    assert any(home.mark in line for line in shown.values())
    assert [line for line in shown.values() if SECRET in line] == []
    assert home.run("kill", key).code == 0


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_case_90_and_91_arguments_arrive_as_they_were_listed_and_no_shell_reads_them(
    home: Home, tmp_path: Path
) -> None:
    place = tmp_path / "$(touch PWNED); `touch PWNED`"
    place.mkdir()
    done = home.run("run", "--agent", "odd", "--cwd", str(place), "--format", "json", "pids\ncwd")
    assert done.code == 0, done
    key = home.run("run", "--agent", "odd", "--cwd", str(place), "--detach", "hang").out.strip()
    until(lambda: any(p["role"] == "agent" for p in home.row(key)["processes"]))
    (pid,) = [p["pid"] for p in home.row(key)["processes"] if p["role"] == "agent"]
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    assert words == odd_command(home)
    assert Path(f"/proc/{pid}/cwd").readlink() == place
    assert home.run("kill", key).code == 0
    for chosen in (("--model", "$(touch PWNED)"), ("--set", "x=`touch PWNED`")):
        home.run("run", "--agent", "odd", "--cwd", str(place), *chosen, "say x")
    found = [path for root in (place, home.path, tmp_path) for path in root.rglob("PWNED")]
    assert found == []


def test_case_86_an_agent_that_tells_its_secrets_gets_them_into_nothing(home: Home) -> None:
    """With its last breath, in an error, and in what it says."""
    for prompt in (f"stderr {SECRET}-one\ncrash 3", f'error -32603 "bad {SECRET}-one"', "env"):
        done = home.run("run", "--agent", "one", prompt)
        assert f"{SECRET}-one" not in done.err, done  # stdout is the agent's own words
    commands = [["status", "--json"], ["sessions", "--all", "--json"], ["daemon", "logs"]]
    commands += [["agents", "--json"], ["config", "check", "--json"], ["config", "check"]]
    shown = {" ".join(argv): str(home.run(*argv)) for argv in commands}
    kept = {p: data for p, data in home.files().items() if p.name != "config.yaml"}
    shown |= {str(path): data.decode("latin-1") for path, data in kept.items()}
    assert [where for where, text in shown.items() if f"{SECRET}-one" in text] == []
    bad = home.path / "bad.yaml"
    value = [{"id": "one", "env": {"set": {"ONE_API_KEY": [f"{SECRET}-bad"]}}}]
    bad.write_text(json.dumps({"agents": {"list": value}}), encoding="utf-8")
    told = home.run("config", "check", str(bad))
    assert told.code == 2
    assert SECRET not in told.out + told.err
    bad.unlink()


def test_case_88_under_any_umask_everything_is_its_owners_alone(home: Home) -> None:
    home.run("run", "--agent", "one", "say hello")
    before = os.umask(0)
    try:
        export = home.path / "export.jsonl"
        assert home.run("sessions", "export", "--last", "--output", str(export)).code == 0
    finally:
        os.umask(before)
    assert export.exists()
    assert loose(home) == []
