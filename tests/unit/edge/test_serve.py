"""A served agent as its client sees it, line by line."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from acpbridge.edge.serve import serve_streams
from acpbridge.runtimes.python import PythonRuntime
from acpbridge.transport.memory import MemoryEnd, memory_pair
from tests.unit.runtimes.scripted import scripted

HANG = 20  # seconds; everything here takes milliseconds
ALLOWED = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}


class Client:
    """Sends what it is told to, sensible or not, and reads messages."""

    def __init__(self, end: MemoryEnd) -> None:
        self._end = end
        self._rest = b""
        self.session = ""
        self.over = False  # the service has ended

    async def send(self, *messages: dict[str, Any]) -> None:
        """Send messages in one piece."""
        lines = [json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages]
        await self._end.send("".join(lines).encode())

    async def raw(self, line: bytes) -> None:
        await self._end.send(line)

    async def receive(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            self._rest += await self._end.receive()
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    async def answer_to(self, number: object) -> dict[str, Any]:
        """Return the answer to a request; what comes before it is dropped."""
        while True:
            message = await self.receive()
            if "method" not in message and message["id"] == number:
                return message

    async def asked(self) -> dict[str, Any]:
        """Return the next permission request."""
        while True:
            message = await self.receive()
            if message.get("method") == "session/request_permission":
                return message

    async def call(self, method: str, params: Any) -> dict[str, Any]:
        await self.send({"id": method, "method": method, "params": params})
        return await self.answer_to(method)

    def prompt(self, number: int, words: str) -> dict[str, Any]:
        block = {"type": "text", "text": words}
        params = {"sessionId": self.session, "prompt": [block]}
        return {"id": number, "method": "session/prompt", "params": params}

    def cancel(self) -> dict[str, Any]:
        return {"method": "session/cancel", "params": {"sessionId": self.session}}


@asynccontextmanager
async def client(*, opened: bool = True) -> AsyncIterator[Client]:
    """Serve the scripted agent in memory, to its end: leaving closes its input and waits."""
    ours, theirs = memory_pair()
    try:
        with anyio.fail_after(HANG):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve_streams, theirs, theirs, PythonRuntime(scripted))
                one = Client(ours)
                if opened:
                    await one.call("initialize", {"protocolVersion": 1})
                    result = await one.call("session/new", {"cwd": "/", "mcpServers": []})
                    one.session = result["result"]["sessionId"]
                yield one
                await ours.aclose()
            one.over = True
    finally:
        await theirs.aclose_both()
        await ours.aclose_both()


async def test_nothing_is_served_before_initialize_a1_a2_a24() -> None:
    async with client(opened=False) as one:
        answer = await one.call("session/new", {"cwd": "/", "mcpServers": []})
        assert answer["error"]["code"] == -32600
        assert (await one.call("initialize", {"protocolVersion": "1"}))["error"]["code"] == -32602
        for version in (1, 7):
            answer = await one.call("initialize", {"protocolVersion": version})
            assert answer["result"]["protocolVersion"] == 1
        assert answer["result"]["agentInfo"]["name"] == "agent"


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("authenticate", {"methodId": "any"}, -32602),
        ("session/new", {"cwd": "here", "mcpServers": []}, -32602),
        ("session/new", {"mcpServers": []}, -32602),
        ("session/new", {"cwd": "/", "mcpServers": {}}, -32602),
        ("session/new", [], -32602),
        ("session/load", {"sessionId": "x", "cwd": "/", "mcpServers": []}, -32601),
        ("session/prompt", {"sessionId": "gone", "prompt": []}, -32002),
        ("session/prompt", {"prompt": []}, -32602),
        ("session/close", {"sessionId": "gone"}, -32002),
        ("session/set_mode", {"sessionId": "gone", "modeId": "default"}, -32002),
        ("_vendor/thing", {}, -32601),
    ],
)
async def test_a_request_that_cannot_be_served_has_its_error_a26(
    method: str, params: Any, code: int
) -> None:
    async with client() as one:
        assert (await one.call(method, params))["error"]["code"] == code
        await one.send({"method": "_vendor/thing"}, {"method": "session/cancel"})
        await one.send(one.prompt(1, "return"))
        assert (await one.answer_to(1))["result"] == {"stopReason": "end_turn"}


async def test_a_mode_is_set_if_it_is_the_one() -> None:
    async with client() as one:
        for mode, answered in (("default", "result"), ("auto", "error"), (1, "error")):
            params = {"sessionId": one.session, "modeId": mode}
            assert answered in await one.call("session/set_mode", params)


async def test_a_prompt_that_is_no_list_of_blocks_is_refused() -> None:
    async with client() as one:
        for blocks in ("text", ["text"], None):
            params = {"sessionId": one.session, "prompt": blocks}
            assert (await one.call("session/prompt", params))["error"]["code"] == -32602


async def test_noise_is_answered_and_ends_nothing() -> None:
    async with client() as one:
        await one.raw(b"what?\n")
        assert (await one.receive())["error"]["code"] == -32700
        await one.send(one.prompt(1, "return"))
        assert "result" in await one.answer_to(1)


async def test_prompts_of_one_session_run_one_after_another_a4_a13() -> None:
    async with client() as one:
        await one.send(one.prompt(1, "say 2"), one.prompt(2, "say 1"))
        told = [await one.receive() for _ in range(5)]
    said = [m["params"]["update"]["content"]["text"] if "params" in m else m["id"] for m in told]
    assert said == ["0;", "1;", 1, "0;", 2]


async def test_a_cancel_right_behind_its_prompts_ends_them_all_a14() -> None:
    async with client() as one:
        await one.send(one.prompt(1, "hang"), one.prompt(2, "hang"), one.cancel())
        for number in (1, 2):
            assert (await one.answer_to(number))["result"] == {"stopReason": "cancelled"}
        await one.send(one.cancel(), one.prompt(3, "return"))
        assert (await one.answer_to(3))["result"] == {"stopReason": "end_turn"}


async def test_a_prompt_that_is_taken_back_is_answered_once_and_ended() -> None:
    async with client() as one:
        taken_back = {"method": "$/cancel_request", "params": {"requestId": 1}}
        await one.send(one.prompt(1, "hang"))
        await one.receive()
        await one.send(taken_back, one.prompt(2, "return"))
        assert (await one.answer_to(1))["error"]["code"] == -32800
        assert (await one.answer_to(2))["result"] == {"stopReason": "end_turn"}
        await one.send(one.prompt(1, "hang"), taken_back, one.prompt(3, "return"))
        assert (await one.answer_to(1))["error"]["code"] == -32800
        assert (await one.answer_to(3))["result"] == {"stopReason": "end_turn"}


async def test_a_closed_session_is_cancelled_and_gone_a10() -> None:
    async with client() as one:
        close = {"id": 9, "method": "session/close", "params": {"sessionId": one.session}}
        await one.send(one.prompt(1, "hang"))
        await one.receive()
        await one.send(close)
        assert (await one.answer_to(1))["result"] == {"stopReason": "cancelled"}
        assert (await one.answer_to(9))["result"] == {}
        await one.send(one.prompt(2, "return"))
        assert (await one.answer_to(2))["error"]["code"] == -32002


async def test_the_end_of_the_input_ends_a_turn_and_the_service_a25() -> None:
    async with client() as one:
        await one.send(one.prompt(1, "hang"))
        await one.receive()
        assert not one.over
    assert one.over


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"result": ALLOWED}, "allowed"),
        ({"result": {"outcome": {"outcome": "selected", "optionId": "reject_once"}}}, "denied"),
        ({"result": {"outcome": {"outcome": "selected", "optionId": "allow_always"}}}, "denied"),
        ({"result": {"outcome": {"outcome": "selected", "optionId": ["allow_once"]}}}, "denied"),
        ({"result": {"outcome": {"outcome": "selected"}}}, "denied"),
        ({"result": {"outcome": {"outcome": "allowed", "optionId": "allow_once"}}}, "denied"),
        ({"result": {"outcome": {"outcome": "cancelled", "optionId": "allow_once"}}}, "denied"),
        ({"result": {"outcome": "selected", "optionId": "allow_once"}}, "denied"),
        ({"result": {}}, "denied"),
        ({"result": None}, "denied"),
        ({"result": True}, "denied"),
        ({"error": {"code": -32603, "message": "no"}}, "denied"),
        ({}, "denied"),
    ],
)
async def test_only_an_offered_option_that_allows_counts_as_yes(
    answer: dict[str, Any], verdict: str
) -> None:
    async with client() as one:
        await one.send(one.prompt(1, "ask rm"))
        question = await one.asked()
        assert question["params"]["sessionId"] == one.session
        await one.send({"id": question["id"], **answer})
        said = [await one.receive() for _ in range(3)][1]
        assert said["params"]["update"]["content"]["text"] == verdict


async def test_an_answer_with_equal_keys_is_a_no() -> None:
    async with client() as one:
        await one.send(one.prompt(1, "ask rm"))
        number = (await one.asked())["id"]
        outcome = b'{"outcome":"cancelled","outcome":"selected","optionId":"allow_once"}'
        await one.raw(b'{"jsonrpc":"2.0","id":%d,"result":{"outcome":%s}}\n' % (number, outcome))
        said = [await one.receive() for _ in range(3)][1]
        assert said["params"]["update"]["content"]["text"] == "denied"


async def test_a_cancel_takes_an_open_question_back() -> None:
    async with client() as one:
        await one.send(one.prompt(1, "ask rm"))
        question = await one.asked()
        await one.send(one.cancel(), {"id": question["id"], "result": ALLOWED})
        told = []
        while (message := await one.receive()).get("id") != 1:
            told.append(message)
        assert message["result"] == {"stopReason": "cancelled"}
    assert {"requestId": question["id"]} in [message["params"] for message in told]
    assert "allowed" not in json.dumps(told)
