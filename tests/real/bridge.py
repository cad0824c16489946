"""acpbridge as its user has it, with a real agent installed and a scripted model behind it.

Every command is a process of its own; the state directory, the agent's home and the work directory
are scratch. Leaving the context stops the daemon and holds it to leaving nothing behind.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fixtures.fake_model import FakeModel
from tests.real.agents import AGENTS, RealAgent, prepare

T = TypeVar("T")

# What an agent needs beyond the allow-list, to talk to loopback in place of its vendor.
PASSED = ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "IS_SANDBOX", "NO_BROWSER")

# Against hanging only: a busy machine took 8 s to start one agent.
PATIENCE = 60.0


def until(look: Callable[[], T | None], what: str, patience: float = PATIENCE) -> T:
    """Look until there is something to see."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"never saw {what}")


def processes_with(marker: str) -> dict[int, str]:
    """Return pid and command line of every process that carries a text in its arguments."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8")
            except OSError:
                continue
            if marker in command:
                found[int(entry.name)] = command
    return found


def processes_of(home: Path) -> dict[int, str]:
    """Return every process that was started under a state directory."""
    needle = f"ACPBRIDGE_HOME={home}\0".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if needle in (entry / "environ").read_bytes() + b"\0":
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().decode()
            except OSError:
                continue
    return found


@dataclass
class Bridge:
    """One state directory with agents configured, and the command line to it."""

    home: Path
    work: Path
    model: FakeModel
    agents: dict[str, RealAgent]

    def argv(self, *words: str) -> list[str]:
        """Return the command line."""
        return [sys.executable, "-m", "acpbridge", "--home", str(self.home), *words]

    def start(self, agent: str, *words: str) -> "subprocess.Popen[str]":
        """Start `run` for an agent, in the work directory, with the agent's own environment."""
        return self.begin(agent, "run", *words)

    def begin(self, agent: str, *words: str) -> "subprocess.Popen[str]":
        """Start any command as `start` starts `run`."""
        return subprocess.Popen(
            self.argv(*words),
            cwd=self.work,
            env=self.agents[agent].env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def run(self, agent: str, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run one turn to its end."""
        with self.start(agent, *words) as process:
            out, err = process.communicate(timeout=PATIENCE)
            return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def call(self, *words: str) -> tuple[int, Any]:
        """Run a command with --json; return its status and what it printed, decoded."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        done = subprocess.run(
            self.argv(*words, "--json"),
            env=env,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def stop(self) -> None:
        """Stop the daemon; the next command starts another one."""
        subprocess.run(self.argv("daemon", "stop"), check=True, timeout=PATIENCE)

    def end_all(self) -> None:
        """Kill every session, if there is a daemon."""
        subprocess.run(
            self.argv("kill", "--all", "--now"),
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )

    def session(self, agent: str) -> dict[str, Any]:
        """Return the row of the one live session of an agent in `status`."""
        _, status = self.call("status")
        (row,) = [r for r in status["sessions"] if r["agentId"] == agent]
        return dict(row)

    def question(self) -> dict[str, Any]:
        """Wait for a question and return it."""

        def look() -> Any:
            return self.call("permissions")[1]["permissions"]

        return dict(until(look, "a question")[0])


@contextmanager
def bridge(folder: Path, *names: str, capture: Path | None = None) -> Iterator[Bridge]:
    """Bring up a scripted model and a state directory that knows the agents.

    Args:
        folder: empty, for everything.
        names: of the agents.
        capture: where to write the frames that cross, for one agent.
    """
    home, work = folder / "state", folder / "work"
    home.mkdir(mode=0o700)
    work.mkdir()
    with FakeModel() as model:
        agents = {}
        for name in names:
            scratch = folder / name
            scratch.mkdir()
            agents[name] = prepare(name, home=scratch, port=model.port)
            if capture is not None:
                _put_between(agents[name], folder / "bin", capture)
        rows = {"agents": {"list": [_row(agent) for agent in agents.values()]}}
        (home / "config.yaml").write_text(json.dumps(rows), encoding="utf-8")  # JSON is YAML
        it = Bridge(home, work, model, agents)
        try:
            yield it
        finally:
            subprocess.run(it.argv("daemon", "stop"), check=False, timeout=PATIENCE)
            until(lambda: not processes_of(home), f"an end of {processes_of(home)}", 10)


def _row(agent: RealAgent) -> dict[str, Any]:
    """Return an agent's entry of the configuration; one that is not known needs a command."""
    row: dict[str, Any] = {"id": agent.id, "env": {"pass": list(PASSED)}}
    if agent.id not in AGENTS:
        command = [Path(agent.argv[0]).name, *agent.argv[1:]]
        row["runtime"] = {"kind": "acp", "command": command}
    return row


def _put_between(agent: RealAgent, folder: Path, capture: Path) -> None:
    """Put a program of the agent's name first on its PATH that writes down every frame."""
    folder.mkdir()
    real = Path(agent.argv[0])
    wrapper = folder / real.name
    tee = Path(__file__).with_name("tee.py")
    text = f'#!/bin/sh\nexec {sys.executable} {tee} {capture} {real} "$@"\n'
    wrapper.write_text(text, encoding="utf-8")
    wrapper.chmod(0o755)
    agent.env["PATH"] = f"{folder}:{agent.env['PATH']}"
