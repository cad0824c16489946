"""The user's own command is started when nobody is there to be asked: bounded, and never a person.

Real processes under a real supervisor, and once with all of the daemon.
"""

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from acpbridge.controller.containment import ShimContainment
from acpbridge.controller.errands import MOST, TITLE, Errands
from acpbridge.controller.supervisor import Supervisor
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.permission import (
    OnPermission,
    PermissionAsk,
    PermissionRequest,
    Question,
    ToolKind,
    ToolSubject,
)
from tests.integration.conftest import descendants
from tests.integration.daemon_home import LIMIT, PAUSE, Home, daemon_home

KEY = SessionKey.main(AgentId("mine"))

# Says what it was told in a file that its first argument names.
SHOW = """
import json, os, sys
told = {n: v for n, v in os.environ.items() if n.startswith("ACPBRIDGE_QUESTION_")}
with open(sys.argv[1] + ".tmp", "w") as file:
    json.dump([told, sys.stdin.read()], file)
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
"""


def question(name: str = "q1", title: str = "rm x") -> Question:
    ask = PermissionAsk(ToolSubject("call", title=title, kind=ToolKind.EXECUTE), ())
    return Question(PermissionRequest(name, KEY, "turn", OnPermission.ASK, ask), "now", "later")


class Told:
    """What was said of errands, in order."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._news = anyio.Event()

    def __call__(self, word: str) -> None:
        self.words.append(word)
        self._news.set()
        self._news = anyio.Event()

    async def count(self, number: int) -> list[str]:
        with anyio.fail_after(LIMIT):
            while len(self.words) < number:
                await self._news.wait()
        return self.words


@asynccontextmanager
async def errands(
    tmp_path: Path, *command: str, limit: float = LIMIT
) -> AsyncIterator[tuple[Errands, Told]]:
    told = Told()
    journal = tmp_path / "processes.json"
    async with (
        Supervisor(journal, ShimContainment(), lambda text: text) as supervisor,
        Errands(
            supervisor,
            command=lambda: command,
            env=os.environ,
            home=str(tmp_path),
            redact=lambda text: text.replace("secret", "[redacted]"),
            told=told,
            limit=limit,
        ) as made,
    ):
        yield made, told


async def test_the_command_is_told_of_the_question_in_its_environment(tmp_path: Path) -> None:
    out = tmp_path / "out"
    title = "rm \x1b[2J secret " + "x" * 1000
    async with errands(tmp_path, sys.executable, "-c", SHOW, str(out)) as (made, told):
        made.call(question(title=title))
        assert await told.count(1) == [""]
    env, stdin = json.loads(out.read_text(encoding="utf-8"))
    shown = env.pop("ACPBRIDGE_QUESTION_TITLE")
    assert env == {
        "ACPBRIDGE_QUESTION_ID": "q1",
        "ACPBRIDGE_QUESTION_AGENT": "mine",
        "ACPBRIDGE_QUESTION_SESSION": str(KEY),
        "ACPBRIDGE_QUESTION_KIND": "execute",
    }
    assert shown.startswith("rm ⟨U+001B⟩[2J [redacted] xxx")
    assert len(shown) < TITLE + 40
    assert stdin == ""


async def test_without_a_command_nothing_is_started(tmp_path: Path) -> None:
    async with errands(tmp_path) as (made, told):
        made.call(question())
        await anyio.lowlevel.checkpoint()
        assert told.words == []


async def test_a_command_that_fails_or_is_missing_is_told_of(tmp_path: Path) -> None:
    async with errands(tmp_path, sys.executable, "-c", "raise SystemExit(3)") as (made, told):
        made.call(question())
        assert await told.count(1) == ["notify.command ended with exit code 3"]
    async with errands(tmp_path, "/nowhere/at/all") as (made, told):
        made.call(question())
        (problem,) = await told.count(1)
        assert "/nowhere/at/all" in problem


async def test_a_command_that_does_not_end_is_ended_with_all_it_started(tmp_path: Path) -> None:
    code = (
        "import os,sys,signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0: os.setsid()\n"
        "sys.stdout.write('x' * 1000000)\n"
        "signal.pause()"
    )
    async with errands(tmp_path, sys.executable, "-c", code, limit=0.5) as (made, told):
        made.call(question())
        (problem,) = await told.count(1)
        assert "did not end in 0.5 s" in problem
        left = [line for line in descendants(os.getpid()).values() if "python" in line]
        assert left == []


async def test_a_flood_of_questions_is_no_flood_of_processes(tmp_path: Path) -> None:
    code = "import signal; signal.pause()"
    async with errands(tmp_path, sys.executable, "-c", code) as (made, told):
        for number in range(MOST + 2):
            made.call(question(f"q{number}"))
        assert [word.partition(";")[0] for word in told.words] == [
            f"notify.command: {MOST} run already"
        ] * 2


# ---- With the daemon ----


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        yield made


def text_of(path: Path) -> str:
    """Return what a file holds, once it is there."""
    deadline = time.monotonic() + LIMIT
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} was not written"
        time.sleep(PAUSE)
    return path.read_text(encoding="utf-8")


def configure(home: Home, *command: str) -> None:
    path = home.path / "config.yaml"
    value = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**value, "notify": {"command": command}}), encoding="utf-8")


def test_nobody_is_called_while_a_person_is_asked_and_somebody_is_when_not(
    home: Home, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    configure(home, sys.executable, "-c", SHOW, str(out))
    with home.terminal("run", 'ask execute "at the terminal"') as terminal:
        terminal.expect("? = help]: ")
        terminal.type("d\r")
        assert terminal.wait() == 0
    with home.terminal("permissions", "--watch") as watch:
        watch.expect("waiting for questions")
        home.run("run", "--detach", 'ask execute "watched"')
        watch.expect("? = help]: ")
        watch.type("d\r")
        watch.expect("denied by")
        watch.type("\x03")
        assert watch.wait() == 0
    with home.running("run", 'ask execute "nobody there"') as run:
        name = home.wait_question()["id"]
        told, _ = json.loads(text_of(out))
        assert told["ACPBRIDGE_QUESTION_ID"] == name
        assert told["ACPBRIDGE_QUESTION_TITLE"] == "nobody there"
        assert home.run("permissions", "answer", name, "--deny").code == 0
        assert run.wait(LIMIT) == 0


def test_agents_never_approve_agents_not_by_way_of_the_command_either(
    home: Home, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    answer = " ".join(map(str, home.argv("permissions", "answer")))
    script = f'{answer} "$ACPBRIDGE_QUESTION_ID" --allow 2> {out}.tmp; mv {out}.tmp {out}; exit 1'
    configure(home, "/bin/sh", "-c", script)
    trace = tmp_path / "trace"
    with home.running("run", f'ask execute "rm x" do {trace}') as run:
        name = home.wait_question()["id"]
        assert "error (permission_denied)" in text_of(out)
        assert home.run("permissions", "answer", name, "--deny").code == 0
        assert run.wait(LIMIT) == 0
    assert not trace.exists()
