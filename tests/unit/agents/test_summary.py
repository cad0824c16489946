"""A conversation summed up by its model: what stays, what goes, and when nothing does."""

from pydantic_ai.messages import ModelMessage, ModelRequest, ToolCallPart, ToolReturnPart

from acpbridge.agents.client import assistant, system, user
from acpbridge.agents.compression import CompressConfig
from acpbridge.agents.summary import BEFORE, KEPT, MOST_OF_ONE, Summary
from tests.unit.agents.scripted import Scripted, calls, result, says, tool


def called(number: int) -> list[ModelMessage]:
    part = ToolReturnPart("look", f"seen {number}", "call-0")
    return [calls(("look", {"at": number})), ModelRequest([part])]


def talk(turns: int) -> list[ModelMessage]:
    told: list[ModelMessage] = [system("You help.")]
    for number in range(turns):
        told += [user(f"task {number}"), *called(number), assistant(f"done {number}")]
    return told


def whole(messages: list[ModelMessage]) -> bool:
    """Tell whether each answer of a tool stands right behind its call."""
    before: ModelMessage | None = None
    for message in messages:
        answers = any(isinstance(part, ToolReturnPart) for part in message.parts)
        asked = before is not None and any(isinstance(p, ToolCallPart) for p in before.parts)
        if answers != asked:
            return False
        before = message
    return True


async def test_the_oldest_is_summed_up_and_the_rest_stays_whole() -> None:
    for turns in range(3, 6):
        for cut in range(4):  # wherever the conversation has got to
            messages = talk(turns)[: None if cut == 0 else -cut]
            model = Scripted(says("<think>hm</think>They looked around."))
            shorter = await Summary(model.client)(messages, "m")
            assert shorter[0] is messages[0]
            assert shorter[1].parts[0].content == f"{BEFORE}\n\nThey looked around."  # type: ignore[union-attr]
            kept = shorter[2:]
            assert kept == messages[-len(kept) :]
            assert KEPT <= len(kept) <= KEPT + 1
            assert whole(shorter)


async def test_the_model_is_told_all_that_goes_as_text() -> None:
    model = Scripted(says("s"))
    messages = talk(3)
    messages[1] = user("x" * 9000)
    await Summary(model.client)(messages, "m")
    (asked,) = model.asked
    told = str(asked[1].parts[0].content)  # type: ignore[union-attr]
    assert f"user: {'x' * MOST_OF_ONE}\n\n" in told
    assert 'assistant calls look: {"at":0}' in told
    assert "look answers: seen 0" in told
    assert "assistant: done 0" in told
    assert "task 2" not in told
    assert model.offered == [[]]


async def test_what_is_short_or_not_summed_up_is_left_alone() -> None:
    assert await Summary(Scripted().client)(talk(1), "m") == []
    assert await Summary(Scripted(says("<think>only</think>")).client)(talk(3), "m") == []


async def test_0_22_a_run_goes_on_behind_a_summary() -> None:
    summing, model = Scripted(says("Long ago.")), Scripted(calls("look"), says("Done."))
    limits = CompressConfig(Summary(summing.client), max_context_tokens=10)
    messages = [*talk(3), user("now")]
    out = await result(model, tool("look"), messages=messages, auto_compress=limits)
    assert out.content == "Done."
    assert "Long ago." in str(model.asked[0][1])
