"""What the protocol asks of a client, by the log of an agent: what it was sent, and when."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from acpbridge import __version__
from acpbridge.errors import BridgeError
from acpbridge.runtimes.base import Load, New, Resume, RuntimeSession
from tests.check_frames import Checker
from tests.integration.agents import fake_session, received
from tests.unit.fixtures.raw_client import log_of, schema
from tests.unit.runtimes.scenarios import HANG, Recorder, allow, text

ROOT_FIELDS = {"jsonrpc", "id", "method", "params", "result", "error"}


async def turn(folder: Path, words: str, *options: str, host: Recorder | None = None) -> Recorder:
    """Run one turn that must end well, on an agent that logs it."""
    host = Recorder(allow) if host is None else host
    with anyio.fail_after(HANG):
        async with fake_session(folder, host, *options) as session:
            await session.open(New())
            assert (await session.prompt(text(words))).stop_reason == "end_turn"
    return host


def frames(folder: Path) -> list[tuple[str, Any]]:
    """Return the messages of both directions, in the order in which the agent saw them."""
    out = []
    for record in log_of(folder / "log.jsonl"):
        if record["event"] == "line":
            out.append(("c2a", json.loads(record["line"])))
        elif record["event"] == "sent":
            out.append(("a2c", json.loads(record["bytes"].encode("latin-1"))))
    return out


async def test_c1_c2_c27_initialize_goes_alone_and_says_what_we_are(tmp_path: Path) -> None:
    await turn(tmp_path, "say on", "--delay", "initialize", "200")
    talk = frames(tmp_path)
    assert [side for side, _ in talk[:3]] == ["c2a", "a2c", "c2a"]  # nothing before its answer
    first = talk[0][1]
    assert first["method"] == "initialize"
    assert first["params"]["protocolVersion"] == 1
    told = first["params"]["clientCapabilities"]
    assert told["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert not told.get("terminal")
    assert first["params"]["clientInfo"] == {"name": "acpbridge", "version": __version__}


@pytest.mark.parametrize(
    "capabilities",
    [
        None,
        {},
        {"loadSession": False},
        {"loadSession": None, "sessionCapabilities": {"resume": None}},
    ],
)
async def test_c4_c5_what_is_not_advertised_is_not_used(tmp_path: Path, capabilities: Any) -> None:
    answer = {"protocolVersion": 1, "agentCapabilities": capabilities}
    if capabilities is None:
        del answer["agentCapabilities"]
    canned = ("--answer", "initialize", json.dumps({"result": answer}))
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder(), *canned) as session:
            for how in (Load("x"), Resume("x")):
                with pytest.raises(BridgeError) as caught:
                    await session.open(how)
                assert caught.value.code == "unsupported_control"
            await session.open(New())
            await session.close()
    assert [m["method"] for m in received(tmp_path)] == ["initialize", "session/new"]


WORDS = """early
say é
ask execute "rm x"
bg ask edit b
ask
call _vendor/x {"a":[]}
call fs/read_text_file {"path":"/etc/passwd"}
plan
tool read a
say two
stop end_turn"""


async def test_c23_c24_each_line_is_one_message_that_fits_the_schema(tmp_path: Path) -> None:
    await turn(tmp_path, WORDS, "--modes", "default,auto", "--update-after-new")
    checker = Checker(schema())
    talk = frames(tmp_path)
    problems = [problem for side, frame in talk for problem in checker.frame(side, frame)]
    assert [p for p in problems if "_vendor" not in p and "fs/read" not in p] == []
    ours = [frame for side, frame in talk if side == "c2a"]
    assert len(ours) == 8
    assert all(set(frame) <= ROOT_FIELDS and frame["jsonrpc"] == "2.0" for frame in ours)
    read = "".join(r["bytes"] for r in log_of(tmp_path / "log.jsonl") if r["event"] == "read")
    assert read.isascii()
    assert read.endswith("\n")
    assert len(read.splitlines()) == len(ours)


async def prompt(session: RuntimeSession, words: str, reasons: list[str]) -> None:
    reasons.append((await session.prompt(text(words))).stop_reason)


async def test_c12_updates_after_a_cancel_are_taken(tmp_path: Path) -> None:
    host, reasons = Recorder(), list[str]()
    words = "say up;\non-cancel never\nsleep 100\nsay late;\nstop cancelled"
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host) as session:
            await session.open(New())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(prompt, session, words, reasons)
                await host.until(lambda: host.said == "up;")
                session.cancel()
    assert (host.said, reasons) == ("up;late;", ["cancelled"])


async def test_c26_a_request_that_is_taken_back_is_answered_once(tmp_path: Path) -> None:
    async def never(_: object) -> Any:
        await anyio.sleep_forever()

    await turn(tmp_path, "bg ask\nsleep 50\nwithdraw\njoin\nsay on", host=Recorder(never))
    answers = [m for m in received(tmp_path) if "method" not in m]
    assert [(m["id"], m["error"]["code"]) for m in answers] == [(0, -32800)]


async def test_c29_null_results_unknown_updates_and_early_words_are_borne(tmp_path: Path) -> None:
    quiet = ("--answer", "session/load", '{"result":null}', "--early-update")
    host = Recorder()
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host, "--memory", str(tmp_path / "m"), *quiet) as session:
            await session.open(New())
            await session.prompt(
                text('update {"sessionUpdate":"novel"}\ngarbage\nnotify a/b\nsay on')
            )
            kinds = [update["sessionUpdate"] for update in host.updates]
        assert kinds[0] == "available_commands_update"
        assert "novel" in kinds
        assert host.said.endswith("on")
        async with fake_session(tmp_path, host, *quiet) as session:
            assert (await session.open(Load("anything")))["sessionId"] == "anything"


async def test_c30_stderr_is_read_before_and_after_initialize(tmp_path: Path) -> None:
    loud = ("--stderr", "x" * 120_000)  # more than a pipe holds, less than an argument may have
    host = await turn(tmp_path, "stderr-flood 300000\nstderr-flood 300000 raw\nsay on", *loud)
    assert host.said == "on"
