"""When a conversation is made shorter: each trigger by itself, and below both never."""

from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage

from acpbridge.agents.client import assistant, system, user
from acpbridge.agents.compression import CompressConfig, Compressor, tokens_of
from tests.unit.agents.scripted import Scripted, calls, result, returns, says, tool

# 3500 characters in the last two: about a thousand tokens.
TALK = [system("You help."), user("a" * 7), assistant("b" * 1700), user("c" * 1800)]


class Compress:
    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []

    async def __call__(self, messages: list[ModelMessage], model: str) -> list[ModelMessage]:
        self.seen.append((len(messages), model))
        return [messages[0], messages[-1]]


@pytest.mark.parametrize(
    ("limits", "due"),
    [
        ({"max_context_tokens": 1100, "threshold": 0.9}, True),
        ({"max_context_tokens": 1100, "threshold": 0.99}, False),
        ({"max_context_tokens": 900, "threshold": 1.0}, True),
        ({"model_tokens": 1200}, True),  # a quarter is left for the answer
        ({"model_tokens": 1500}, False),
        ({"model_tokens": 1200, "max_context_tokens": 9000}, True),
        ({"model_tokens": 9000, "max_context_tokens": 1000}, True),
        ({"model_tokens": 9000, "max_context_tokens": 9000}, False),
        ({}, False),
    ],
)
async def test_0_22_each_trigger_alone_and_below_both_nothing(
    limits: dict[str, Any], due: bool
) -> None:
    assert 990 < tokens_of(TALK) < 1020
    compress = Compress()
    model = Scripted(says("ok"))
    out = await result(model, messages=TALK, auto_compress=CompressConfig(compress, **limits))
    assert compress.seen == ([(4, "scripted")] if due else [])
    assert len(model.asked[0]) == (2 if due else 4)
    assert len(out.messages) == len(model.asked[0])


async def test_0_22_what_the_model_counts_itself_triggers_it_too() -> None:
    compress = Compress()
    answer = calls("look")
    answer.usage.input_tokens = 5000  # tools and pictures, of which the text knows nothing
    model = Scripted(answer, says("ok"))
    limits = CompressConfig(compress, model_tokens=6000)
    await result(model, tool("look"), messages=TALK[:2], auto_compress=limits)
    assert [count for count, _ in compress.seen] == [4]


async def test_counts_of_before_a_compression_do_not_trigger_the_next() -> None:
    compress = Compress()
    compressor = Compressor(CompressConfig(compress, model_tokens=6000), "m")
    compressor.answered(says("long", tokens=5000), 3)
    short = [user("a")] * 4
    assert len(await compressor(list(short))) == 2
    assert len(await compressor(list(short))) == 4
    assert len(compress.seen) == 1


async def test_a_compression_that_fails_leaves_the_conversation_as_it_is() -> None:
    async def broken(_messages: list[ModelMessage], _model: str) -> list[ModelMessage]:
        raise RuntimeError("no")

    async def empty(_messages: list[ModelMessage], _model: str) -> list[ModelMessage]:
        return []

    for code in (broken, empty):
        kept = await Compressor(CompressConfig(code, max_context_tokens=1), "m")(list(TALK))
        assert kept == TALK


async def test_tool_calls_and_their_answers_count() -> None:
    async def long(_context: object, _arguments: object) -> str:
        return "x" * 35_000

    compress = Compress()
    model = Scripted(calls("look"), says("ok"))
    limits = CompressConfig(compress, max_context_tokens=5000, threshold=1.0)
    out = await result(model, tool("look", long), auto_compress=limits)
    assert len(compress.seen) == 1
    assert returns(out.messages) == ["x" * 35_000]
