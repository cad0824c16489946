"""A bridge in a program: opened in its process, or connected to the daemon; the same object."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import structlog

import acpbridge
from acpbridge import Answer, Bridge, BridgeError, OpenQuestion, Turn
from acpbridge.config.environment import MARK
from acpbridge.permissions.audit import verify
from fixtures.fake_acp import fake_agent
from tests.integration.daemon_home import Done, Home, daemon_home, used, wait_gone

HANG = 60  # seconds; a guard


async def helper(turn: Turn) -> str:
    """Do what the prompt says."""
    match turn.text:
        case "ask":
            return f"allowed: {await turn.ask('Do it', kind='execute')}"
        case "choose":
            return f"chosen: {await turn.choose('Which?', ['a', 'b'])}"
        case "break":
            raise ValueError("no such luck")
        case "wait":
            turn.say("waiting")
            await anyio.sleep_forever()
        case "history":
            return "|".join(past.text for past in turn.history)
        case "count":
            turn.tokens(input=1)
        case _:
            pass
    return f"heard {turn.text}"


async def yes(question: OpenQuestion) -> Answer:
    return Answer.allow(f"for {question.agent}")


def configure(path: Path) -> None:
    rows = [{"id": "fake", "runtime": {"command": list(fake_agent())}}]
    # The daemon has them as a process, the program as code: the same name, the same code.
    entry = f"{__file__}:helper"
    rows.append({"id": "helper", "runtime": {"kind": "python", "entry": entry}})
    (path / "config.yaml").write_text(json.dumps({"agents": {"list": rows}}), encoding="utf-8")


@asynccontextmanager
async def in_process(path: Path) -> AsyncIterator[Bridge]:
    home = path / "home"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    configure(home)
    async with acpbridge.open_bridge(home, {"helper": helper}, on_question=yes) as bridge:
        yield bridge


@asynccontextmanager
async def by_the_daemon(path: Path) -> AsyncIterator[Bridge]:
    with daemon_home(path) as home:
        configure(home.path)
        async with acpbridge.connect(home.path, on_question=yes) as bridge:
            yield bridge


@pytest.fixture(params=[in_process, by_the_daemon])
def opened(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AbstractAsyncContextManager[Bridge]:
    monkeypatch.chdir(tmp_path)
    made: AbstractAsyncContextManager[Bridge] = request.param(tmp_path)
    return made


async def test_a_run_has_a_text_an_outcome_and_a_key_to_go_on_with(
    opened: AbstractAsyncContextManager[Bridge],
) -> None:
    with anyio.fail_after(HANG):
        async with opened as bridge:
            first = await bridge.run("count", agent="helper", keep=True)
            assert (first.ok, first.text, first.stop_reason) == (True, "heard count", "end_turn")
            assert first.usage == {"inputTokens": 1, "outputTokens": 0, "totalTokens": 1}
            assert first.check() is first
            again = await bridge.run("history", session=first.key)
            assert (again.text, again.key) == ("count", first.key)
            broken = await bridge.run("break", session=first.key)
            assert (broken.ok, broken.outcome) == (False, "failed")
            with pytest.raises(BridgeError, match="ValueError: no such luck"):
                broken.check()
            (row,) = await bridge.sessions()
            assert (row["key"], row["state"]) == (first.key, "ready")
            assert await bridge.close(first.key) == first.key
            assert await bridge.sessions() == []
            (old,) = used(await bridge.sessions(everything=True))
            assert old["closeReason"] == "closed"


async def test_an_agent_that_speaks_acp_runs_behind_its_shim_and_is_killed_whole(
    opened: AbstractAsyncContextManager[Bridge],
) -> None:
    with anyio.fail_after(HANG):
        async with opened as bridge:
            async with bridge.start("hang", agent="fake") as run:
                while (event := await run.next_event()) is not None:
                    if event.type == "process_started":
                        break
                (row,) = (await bridge.status(run.key))["sessions"]
                assert [p["role"] for p in row["processes"]][:2] == ["shim", "agent"]
                (receipt,) = await bridge.kill(run.key, grace=0)
                assert set(receipt.killed) >= {p["pid"] for p in row["processes"]}
                assert receipt.survivors == ()
                assert (await run.result()).outcome == "cancelled"
            with pytest.raises(BridgeError) as caught:
                await bridge.run("hi", agent="nobody")
            assert caught.value.code == "no_such_agent"


async def test_questions_go_to_the_handler_and_without_one_to_the_inbox(
    opened: AbstractAsyncContextManager[Bridge],
) -> None:
    async def no(question: OpenQuestion) -> Answer:
        return Answer.deny()

    async def second(question: OpenQuestion) -> Answer:
        assert [choice.id for choice in question.choices] == ["a", "b", "reject_once"]
        return Answer.choose("b")

    async def leave(question: OpenQuestion) -> None:
        left.set()

    left = anyio.Event()
    with anyio.fail_after(HANG):
        async with opened as bridge:
            assert (await bridge.run("ask", agent="helper")).text == "allowed: True"
            done = await bridge.run("ask", agent="helper", on_question=no)
            assert (done.text, done.ok) == ("allowed: False", True)
            done = await bridge.run("choose", agent="helper", on_question=second)
            assert done.text == "chosen: b"
            done = await bridge.run("ask", agent="helper", on_permission="deny")
            assert done.text == "allowed: False"
            async with bridge.start("ask", agent="helper", on_question=leave) as run:
                async for _ in run:
                    if left.is_set() or await bridge.questions():
                        break
                (question,) = await bridge.questions()
                assert (question.session, question.title) == (run.key, "Do it")
                decision = await bridge.answer(question.id, Answer.allow("by hand"))
                assert (decision["effect"], decision["note"]) == ("allow", "by hand")
                assert (await run.result()).text == "allowed: True"
                with pytest.raises(BridgeError) as caught:
                    await bridge.answer(question.id, Answer.allow())
                assert caught.value.code == "already_resolved"


async def test_a_handler_that_breaks_denies_and_is_heard_of(
    opened: AbstractAsyncContextManager[Bridge],
) -> None:
    async def broken(question: OpenQuestion) -> Answer:
        raise ZeroDivisionError

    with anyio.fail_after(HANG):
        async with opened as bridge:
            with pytest.raises(BaseExceptionGroup) as caught:
                await bridge.run("ask", agent="helper", on_question=broken)
            assert caught.group_contains(ZeroDivisionError)
            assert await bridge.questions() == []


async def test_a_run_that_is_left_is_cancelled_and_no_other(
    opened: AbstractAsyncContextManager[Bridge],
) -> None:
    with anyio.fail_after(HANG):
        async with opened as bridge, bridge.start("wait", agent="helper") as other:
            await until_said(other)
            async with bridge.start("wait", agent="helper", keep=True) as run:
                await until_said(run)
            assert (await bridge.run("after", session=run.key)).text == "heard after"
            row = (await bridge.status(other.key))["sessions"][0]
            assert row["turn"]["state"] == "running"
            receipt = await bridge.cancel(other.key)
            assert (receipt.rung, receipt.turn_ended) == ("cancel", True)
            assert (await other.result()).outcome == "cancelled"


async def until_said(run: acpbridge.Run) -> None:
    async for event in run:
        if event.text:
            return
    raise AssertionError("nothing was said")


async def test_a_limit_and_an_empty_prompt_and_a_wrong_place_are_told(
    opened: AbstractAsyncContextManager[Bridge], tmp_path: Path
) -> None:
    with anyio.fail_after(HANG):
        async with opened as bridge:
            done = await bridge.run("wait", agent="helper", timeout=0.2)
            assert (done.outcome, done.text) == ("timed_out", "waiting")
            with pytest.raises(BridgeError, match="The prompt is empty"):
                await bridge.run("", agent="helper")
            with pytest.raises(BridgeError, match="is not a directory"):
                await bridge.run("hi", agent="helper", cwd=tmp_path / "nowhere")


# ---- In the process only ----


async def test_the_lock_is_the_daemons_and_says_how_to_go_on(tmp_path: Path) -> None:
    with anyio.fail_after(HANG):
        with daemon_home(tmp_path) as home:
            assert home.run("daemon", "start").code == 0
            with pytest.raises(BridgeError, match="A daemon runs already") as caught:
                async with acpbridge.open_bridge(home.path):
                    raise AssertionError
            assert caught.value.code == "daemon_running"
            assert "acpbridge.connect()" in caught.value.hint
            assert caught.value.data == {"pid": home.daemon_pid()}
        async with in_process(tmp_path / "other"):
            with pytest.raises(
                BridgeError, match=f"A program has opened its bridge already .pid {os.getpid()}"
            ):
                async with acpbridge.open_bridge(tmp_path / "other" / "home"):
                    raise AssertionError


async def test_g9_a_programs_socket_is_made_way_for_bound_again_and_only_its_own_removed(
    tmp_path: Path,
) -> None:
    """Without `put_aside` it does not open; without `mine` the socket stays gone."""
    home = tmp_path / "home"
    path = home / "daemon.sock"
    path.mkdir(parents=True)
    home.chmod(0o700)
    with anyio.fail_after(HANG):
        async with in_process(tmp_path):
            path.unlink()
            while not path.is_socket():  # noqa: ASYNC110 - the kernel tells of no such event
                await anyio.sleep(0.02)
            # Another one has the directory by now, and its socket.
            (home / "daemon.lock").unlink()
            path.unlink()
            path.touch()
    assert path.is_file()
    assert (home / "daemon.sock.aside-1").is_dir()


async def test_logs_are_the_programs_own_business(tmp_path: Path) -> None:
    structlog.reset_defaults()
    async with in_process(tmp_path):
        assert structlog.is_configured()
    assert not structlog.is_configured()
    structlog.configure(processors=[])
    try:
        async with acpbridge.open_bridge(tmp_path / "home"):
            assert structlog.get_config()["processors"] == []
        assert structlog.is_configured()
    finally:
        structlog.reset_defaults()


async def test_a_person_at_a_terminal_can_look_answer_and_kill_and_not_stop_the_program(
    tmp_path: Path,
) -> None:
    async def command(*args: str) -> Done:
        return await anyio.to_thread.run_sync(home.run, *args)

    with anyio.fail_after(HANG):
        async with in_process(tmp_path) as bridge:
            home = Home(tmp_path / "home")
            async with bridge.start("ask", agent="helper", on_question=leave) as run:
                while (await run.next_event()) is not None and not await bridge.questions():
                    pass
                (question,) = (await command("permissions", "--json")).json["permissions"]
                assert question["sessionKey"] == run.key
                answered = await command("permissions", "answer", question["id"], "--allow")
                assert answered.code == 0
                assert (await run.result()).text == "allowed: True"
            async with bridge.start("hang", agent="fake") as run:
                async for event in run:
                    if event.type == "process_started":
                        break
                status = (await command("status", "--json")).json
                assert status["daemon"]["pid"] == os.getpid()
                assert (await command("kill", run.key, "--now")).code == 0
                assert (await run.result()).outcome == "cancelled"
            for words in (["stop"], ["stop", "--force"]):
                done = await command("daemon", *words)
                assert done.code == 1
                assert f"The process {os.getpid()} is a program" in done.err
            assert (await bridge.run("still here", agent="helper")).ok
    assert not (tmp_path / "home" / "daemon.sock").exists()
    assert (await command("daemon", "stop")).out == "no daemon runs\n"


async def leave(question: OpenQuestion) -> None:
    """Leave it to the inbox."""


async def test_an_error_of_the_program_comes_out_as_it_is_and_leaves_nothing(
    opened: AbstractAsyncContextManager[Bridge],
) -> None:
    async def program() -> None:
        async with opened as bridge, bridge.start("hang", agent="fake") as run:
            await run.next_event()
            raise LookupError

    with anyio.fail_after(HANG), pytest.raises(LookupError):
        await program()


@pytest.mark.parametrize(
    ("agents", "says"),
    [
        ({"x": "not callable"}, "x is not callable"),
        ({"x": Home}, "x is a class"),
        ({"x y": helper, "x-y": helper}, "Two agents have the id x-y"),
    ],
)
async def test_what_is_no_agent_is_told_before_anything_is_opened(
    agents: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(BridgeError, match=says):
        async with acpbridge.open_bridge(tmp_path / "home", agents):
            raise AssertionError
    assert not (tmp_path / "home").exists()


async def test_what_was_decided_is_in_the_audit_and_the_bridge_can_be_opened_again(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(HANG):
        async with in_process(tmp_path) as bridge:
            key = (await bridge.run("ask", agent="helper")).key
        home = tmp_path / "home"
        count, broken = verify(home / "audit.jsonl")
        assert (count >= 1, broken) == (True, None)
        text = (home / "audit.jsonl").read_text(encoding="utf-8")
        assert "program-" in text
        assert "for helper" in text
        async with acpbridge.open_bridge(home, {"helper": helper}) as bridge:
            (row,) = used(await bridge.sessions(everything=True))
            assert (row["key"], row["state"]) == (key, "idle")
            lost = await bridge.run("history", session=key)
            assert lost.error is not None
            assert lost.error.code == "resume_not_found"
            async with bridge.start("history", session=key, fresh=True) as run:
                kinds = [e.value.get("kind") async for e in run if e.type == "notice"]
                assert kinds == ["context_lost"]


def run_program(code: str, home: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, home],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=30,
        check=False,
        cwd=home.parent,
        env={**os.environ, **env},
    )


def test_the_process_is_left_as_it_was(tmp_path: Path) -> None:
    code = (
        "import anyio, ctypes, resource, signal, sys, acpbridge\n"
        "def state():\n"
        "    subreaper = ctypes.c_int()\n"
        "    assert ctypes.CDLL(None).prctl(37, ctypes.byref(subreaper)) == 0\n"
        "    handlers = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]\n"
        "    return subreaper.value, resource.getrlimit(resource.RLIMIT_NOFILE), handlers[0]\n"
        "async def main():\n"
        "    before = state()\n"
        "    async with acpbridge.open_bridge(sys.argv[1]) as bridge:\n"
        "        print((await bridge.run('hi', agent='demo')).outcome)\n"
        "        assert state() == before, (before, state())\n"
        "        assert state()[0] == 0\n"
        "anyio.run(main)\n"
    )
    done = run_program(code, tmp_path / "home")
    assert (done.returncode, done.stdout, done.stderr) == (0, "completed\n", "")


def test_g3_a_program_that_is_killed_leaves_no_agent_and_its_session_is_interrupted(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    configure(home)
    code = (
        "import anyio, json, sys, acpbridge\n"
        "async def main():\n"
        "    async with acpbridge.open_bridge(sys.argv[1]) as bridge:\n"
        "        async with bridge.start('hang', agent='fake') as run:\n"
        "            async for event in run:\n"
        "                if event.type == 'process_started':\n"
        "                    status = await bridge.status()\n"
        "                    print(json.dumps(status), flush=True)\n"
        "anyio.run(main)\n"
    )
    argv = [sys.executable, "-c", code, str(home)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=tmp_path) as program:
        assert program.stdout is not None
        status = json.loads(program.stdout.readline())
        pids = [p["pid"] for p in status["sessions"][0]["processes"]]
        assert len(pids) >= 2
        program.kill()
    helpers = [status["daemon"]["keeperPid"], status["daemon"]["guardPid"]]
    assert wait_gone([*pids, *helpers]) == []

    async def again() -> str:
        async with acpbridge.open_bridge(home) as bridge:
            (row,) = used(await bridge.sessions(everything=True))
            return str(row["state"])

    assert anyio.run(again) == "interrupted"


@pytest.mark.parametrize("where", ["itself", "above"])
def test_row_24_inside_a_supervised_tree_no_bridge_is_opened_and_no_daemon_started(
    where: str, tmp_path: Path
) -> None:
    code = (
        "import anyio, os, subprocess, sys, acpbridge\n"
        "async def main():\n"
        "    for open in (acpbridge.open_bridge, acpbridge.connect):\n"
        "        try:\n"
        "            async with open(sys.argv[1]):\n"
        "                pass\n"
        "        except acpbridge.BridgeError as error:\n"
        "            print(error.code)\n"
        "if sys.argv[2:] == ['above']:\n"
        f"    del os.environ[{MARK!r}]\n"
        "    sys.exit(subprocess.run([sys.executable, '-c', sys.orig_argv[2], sys.argv[1]],"
        " env=os.environ).returncode)\n"
        "anyio.run(main)\n"
    )
    words = [] if where == "itself" else ["above"]
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "home", *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=30,
        check=False,
        env={**os.environ, MARK: "agent:x:main.1"},
    )
    assert done.stdout.split() == ["permission_denied", "daemon_unreachable"], done.stderr
    assert not (tmp_path / "home").exists()
