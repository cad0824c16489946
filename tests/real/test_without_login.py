"""The real agents as somebody has them who never logged in: what is said, how soon, and what next.

No key, no endpoint, no file of a login; nothing is asked of any vendor, for none gets that far.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from acpbridge.config import catalogue
from tests.real.agents import AGENTS, RealAgent, prepare
from tests.real.bridge import PASSED, PATIENCE, bridge, processes_of, until

pytestmark = [pytest.mark.real, pytest.mark.timeout(150)]

each_agent = pytest.mark.parametrize("agent", AGENTS)

# An agent that refuses does so within seconds; a busy machine may take a few times as long.
SOON = 30.0


def command(home: Path, agent: RealAgent, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "acpbridge", "--home", str(home), *words],
        cwd=agent.home,
        env=agent.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )


def somebody(folder: Path, name: str) -> tuple[Path, RealAgent]:
    """Return a state directory, and an agent that finds no login."""
    home, scratch = folder / "state", folder / "scratch"
    home.mkdir(mode=0o700)
    scratch.mkdir()
    return home, prepare(name, home=scratch, port=None)


def row_of(done: "subprocess.CompletedProcess[str]", agent: str) -> dict[str, Any]:
    (row,) = [row for row in json.loads(done.stdout)["checks"] if row["id"] == agent]
    return dict(row)


@each_agent
def test_doctor_shows_version_and_handshake_and_whether_a_login_is_missing(
    agent: str, tmp_path: Path
) -> None:
    home, real = somebody(tmp_path, agent)
    done = command(home, real, "doctor", agent, "--json")
    row = row_of(done, agent)
    assert row["version"] == catalogue.CATALOGUE[agent].npx_version
    assert 0 < row["handshakeMs"] < PATIENCE * 1000
    assert row["launch"] == "installed"
    assert row["login"] == "unknown"
    if catalogue.CATALOGUE[agent].session_needs_login:
        assert (done.returncode, row["loginState"]) == (7, "missing"), row
        assert row["error"]["code"] == "auth_required"
    else:
        # It opens a session all the same: only a prompt would tell.
        assert (done.returncode, row["loginState"]) == (0, "unknown"), row
        assert (row["mode"], row["asks"]) == (catalogue.CATALOGUE[agent].asking_mode, True)
    assert row["next"]
    assert processes_of(home) == {}
    assert list(real.home.glob("tmp/acpbridge-*")) == []


@each_agent
def test_a_run_without_a_login_ends_with_7_within_seconds(agent: str, tmp_path: Path) -> None:
    home, real = somebody(tmp_path, agent)
    began = time.monotonic()
    done = command(home, real, "run", "say hello", "--agent", agent)
    took = time.monotonic() - began
    command(home, real, "daemon", "stop")
    assert done.returncode == 7, done
    assert "error (auth_required): The agent needs a login: " in done.stderr
    assert catalogue.CATALOGUE[agent].login_hint in done.stderr
    assert took < SOON
    until(lambda: not processes_of(home), f"an end of {processes_of(home)}", 10)


def test_doctor_finds_the_three_agents_ready_side_by_side(tmp_path: Path) -> None:
    with bridge(tmp_path, *AGENTS) as it:
        env: dict[str, str] = {}
        for real in it.agents.values():
            env |= {name: v for name, v in real.env.items() if name not in ("HOME", "TMPDIR")}
        # Each finds its own files: only one of them looks for them below the home directory.
        env |= {"HOME": str(it.agents["gemini"].home)}
        assert set(PASSED) & set(env)
        done = subprocess.run(
            it.argv("doctor", "--json"),
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done
        for agent in AGENTS:
            row = row_of(done, agent)
            facts = catalogue.CATALOGUE[agent]
            assert (row["status"], row["mode"], row["asks"]) == ("ok", facts.asking_mode, True)
            assert row["login"].startswith("env:")
            state = "present" if facts.session_needs_login else "unknown"
            assert row["loginState"] == state
        # Nothing was asked of a model.
        assert [e for e in it.model.events if e.kind == "request"] == []
        assert processes_of(it.home) == {}
