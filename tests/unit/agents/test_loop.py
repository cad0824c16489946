"""The loop: which branch an answer of a model takes, and what a missing ability leaves out."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart

from acpbridge.agents.client import LLMGenerateError, system, text_of, user
from acpbridge.agents.compression import CompressConfig
from acpbridge.agents.loop import CANCELLED_TEXT, LIMIT_TEXT, Stop, context_of, run
from acpbridge.agents.registry import ToolRegistry, ToolResult
from acpbridge.errors import BridgeError
from tests.unit.agents.scripted import Scripted, calls, config, result, returns, says, tool


async def test_0_5_an_answer_without_tool_calls_ends_the_run() -> None:
    model = Scripted(says("Hello."))
    out = await result(model)
    assert (out.content, out.tools_used, out.error) == ("Hello.", (), None)
    assert (out.waiting_user, out.waiting_for_input) == (False, False)
    assert len(model.asked) == 1


async def test_0_5_a_tool_is_called_and_the_model_hears_what_it_said() -> None:
    model = Scripted(calls("look"), says("I looked."))
    out = await result(model, tool("look"))
    assert (out.content, out.tools_used) == ("I looked.", ("look",))
    assert returns(model.asked[1]) == ["look done"]


async def test_0_5_a_model_that_fails_is_an_error_whose_cause_is_reachable() -> None:
    cause = ConnectionError("no route")
    model = Scripted(calls("look"), cause)
    out = await result(model, tool("look"))
    assert isinstance(out.error, LLMGenerateError)
    assert out.error.__cause__ is cause
    assert "no route" in out.error.message
    assert (out.content, out.tools_used) == ("", ("look",))


async def test_0_5_a_stopped_run_says_so_with_an_error_and_the_tools_that_were_used() -> None:
    stop = Stop()

    async def ask_to_stop(_context: object, _arguments: object) -> str:
        stop.request()
        await anyio.sleep_forever()
        return "never"

    model = Scripted(calls("look", "hang"))
    with anyio.fail_after(20):
        out = await result(model, tool("look"), tool("hang", ask_to_stop), stop=stop)
    assert out.content == CANCELLED_TEXT == "Agent was cancelled."
    assert isinstance(out.error, BridgeError)
    assert out.error.code == "request_cancelled"
    assert out.tools_used == ("look", "hang")


async def test_0_5_a_run_stopped_while_the_model_thinks_returns_the_same() -> None:
    stop = Stop()

    async def hang() -> ModelResponse:
        stop.request()
        await anyio.sleep_forever()
        return says("never")

    with anyio.fail_after(20):
        out = await result(Scripted(calls("look"), hang), tool("look"), stop=stop)
    assert (out.content, out.tools_used) == (CANCELLED_TEXT, ("look",))


async def test_a_run_that_is_stopped_before_it_begins_asks_no_model() -> None:
    stop = Stop()
    stop.request()
    model = Scripted()
    out = await result(model, tool("look"), stop=stop)
    assert (out.content, model.asked) == (CANCELLED_TEXT, [])


async def test_a_model_that_turns_its_cancellation_into_an_error_has_not_failed() -> None:
    stop = Stop()

    async def hang() -> ModelResponse:
        stop.request()
        try:
            await anyio.sleep_forever()
        finally:
            raise ConnectionError("aborted")

    with anyio.fail_after(20):
        out = await result(Scripted(hang), stop=stop)
    assert (out.content, str(out.error)) == (CANCELLED_TEXT, CANCELLED_TEXT)


async def test_a_cancellation_of_the_task_itself_goes_through() -> None:
    returned: list[Any] = []

    async def hang() -> ModelResponse:
        scope.cancel()
        await anyio.sleep_forever()
        return says("never")

    with anyio.fail_after(20), anyio.CancelScope() as scope:
        returned.append(await result(Scripted(hang), stop=Stop()))
    assert scope.cancelled_caught
    assert returned == []


@pytest.mark.parametrize("limit", [1, 3])
async def test_0_5_the_limit_of_iterations_ends_with_a_fixed_text_and_the_tools(limit: int) -> None:
    model = Scripted(forever=calls("look"))
    out = await result(model, tool("look"), max_iterations=limit)
    assert (out.content, out.error) == (LIMIT_TEXT, None)
    assert out.tools_used == ("look",) * limit
    assert len(model.asked) == limit


async def test_0_4_no_limit_given_is_a_hundred_iterations() -> None:
    model = Scripted(forever=calls("look"))
    out = await result(model, tool("look"), max_iterations=0)
    assert (len(model.asked), out.content) == (100, LIMIT_TEXT)


async def test_a_negative_limit_is_a_mistake() -> None:
    with pytest.raises(BridgeError, match="negative"):
        await result(Scripted(), max_iterations=-1)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>hm</think>Yes.", "Yes."),
        ("<thinking>a\nb</thinking>\n\nYes.", "Yes."),
        ("Before. <think>x</think>After.", "Before. After."),
        ("Yes.<think>never closed", "Yes."),
        ("a < b and <thin air>", "a < b and <thin air>"),
    ],
)
async def test_0_5_think_blocks_are_stripped(text: str, rest: str) -> None:
    assert (await result(Scripted(says(text)))).content == rest


async def test_0_5_progress_is_shown_from_the_second_iteration_on() -> None:
    shown: list[tuple[int, list[str]]] = []
    model = Scripted(calls(("look", {"at": "a"})), calls("look"), says("Done."))

    async def progress(lines: Sequence[str]) -> None:
        shown.append((len(model.asked), list(lines)))

    await result(model, tool("look"), progress=progress)
    assert [asked for asked, _ in shown] == [1, 2, 2]
    first = '> look {"at":"a"}'
    assert shown[0][1] == [first, "> thinking..."]
    assert shown[1][1] == [first, "> look {}"]


async def test_one_iteration_shows_no_progress() -> None:
    shown = []

    async def progress(lines: Sequence[str]) -> None:
        shown.append(lines)

    await result(Scripted(says("Done.")), progress=progress)
    assert shown == []


async def test_progress_that_cannot_be_shown_ends_nothing() -> None:
    async def progress(_lines: Sequence[str]) -> None:
        raise RuntimeError("the channel is down")

    out = await result(Scripted(calls("look"), says("Done.")), tool("look"), progress=progress)
    assert (out.content, out.error) == ("Done.", None)


async def test_0_5_a_conversation_of_three_messages_is_never_compressed() -> None:
    seen: list[int] = []

    async def compress(messages: list[ModelMessage], _model: str) -> list[ModelMessage]:
        seen.append(len(messages))
        return messages[:1]

    always = CompressConfig(compress, max_context_tokens=1)
    three = [system("You help."), user("one"), user("two")]
    await result(Scripted(says("ok")), messages=three, auto_compress=always)
    assert seen == []
    model = Scripted(says("ok"))
    await result(model, messages=[*three, user("three")], auto_compress=always)
    assert seen == [4]
    assert len(model.asked[0]) == 1


async def test_0_4_what_is_none_is_off_and_no_error() -> None:
    model = Scripted(calls("look"), says("Done."))
    out = await result(model, tool("look"))
    assert (out.content, out.error) == ("Done.", None)
    context = context_of(config(model))
    assert (context.send, context.manager, context.inject_inbound) == (None, None, None)


async def test_0_4_a_session_keeps_each_message_once_and_in_order() -> None:
    kept: list[ModelMessage] = []

    async def keep(messages: Sequence[ModelMessage]) -> None:
        kept.extend(messages)

    model = Scripted(calls("look"), says("<think>x</think>Done."))
    out = await result(model, tool("look"), session=keep)
    assert kept[:2] == list(out.messages[2:])
    assert isinstance(kept[2], ModelResponse)
    assert text_of(kept[2]) == "Done."
    assert len(kept) == 3


async def test_0_4_memory_is_read_once_and_only_the_model_sees_it() -> None:
    async def recall(messages: Sequence[ModelMessage]) -> str:
        return f"They like tea. ({len(messages)})"

    model = Scripted(calls("look"), says("Tea."))
    out = await result(model, tool("look"), memory=recall)
    for asked in model.asked:
        assert asked[0].parts[0].content == "They like tea. (2)"  # type: ignore[union-attr]
    assert len(out.messages) == 4
    assert "tea" not in str(out.messages)


async def test_0_4_the_key_of_activation_is_made_of_channel_and_chat_unless_one_is_given() -> None:
    model = Scripted()
    assert config(model).activation_key == ""
    assert config(model, channel="cli", chat_id="7").activation_key == "cli:7"
    given = config(model, channel="cli", chat_id="7", tool_activation_key="agent:main:main")
    assert given.activation_key == "agent:main:main"


async def test_1_3_an_interactive_run_waits_for_input_with_its_answer_in_the_messages_once() -> (
    None
):
    model = Scripted(says("<think>x</think>Hello."), says("You said one."))
    first = await result(model, interactive=True)
    assert (first.waiting_for_input, first.waiting_user) == (True, False)
    said = [m for m in first.messages if isinstance(m, ModelResponse)]
    assert [text_of(m) for m in said] == ["Hello."]
    second = await result(model, interactive=True, messages=[*first.messages, user("two")])
    assert [type(m).__name__ for m in model.asked[1]] == [
        *("ModelRequest", "ModelRequest", "ModelResponse", "ModelRequest")
    ]
    assert len(second.messages) == 5


async def test_the_messages_that_a_run_is_given_are_left_as_they_are() -> None:
    given = [system("You help."), user("Do it.")]
    await result(Scripted(calls("look"), says("ok")), tool("look"), messages=given)
    assert len(given) == 2


async def test_a_tool_that_waits_for_a_person_is_told_by_the_result() -> None:
    async def login(_context: object, _arguments: object) -> ToolResult:
        return ToolResult("A link was sent.", waiting_user=True, media=("qr.png",))

    out = await result(Scripted(calls("login"), says("Please log in.")), tool("login", login))
    assert (out.content, out.waiting_user, out.media) == ("Please log in.", True, ("qr.png",))
    assert out.waiting_for_input is False


async def test_the_counts_of_all_answers_are_added_up() -> None:
    first = calls("look")
    first.usage.input_tokens, first.usage.output_tokens = 10, 2
    out = await result(Scripted(first, says("ok", tokens=20)), tool("look"))
    assert (out.usage.input, out.usage.output) == (30, 2)


async def test_0_18_a_run_of_many_iterations_ticks_once() -> None:
    ticks: list[str] = []

    class Counting(ToolRegistry):
        def tick(self, key: str) -> None:
            ticks.append(key)
            super().tick(key)

    registry = Counting([tool("look")])
    model = Scripted(*[calls("look")] * 9, says("ok"))
    await result(model, registry=registry, channel="cli", chat_id="7")
    assert ticks == ["cli:7"]
    await run(config(Scripted(says("ok")), registry=registry))
    assert ticks == ["cli:7"], "without a session there is nothing to tick"


async def test_parts_of_text_around_a_call_are_no_answer_yet() -> None:
    out = await result(Scripted(calls("look", text="Let me see."), says("Seen.")), tool("look"))
    assert out.content == "Seen."
    assert isinstance(out.messages[2].parts[0], TextPart)
