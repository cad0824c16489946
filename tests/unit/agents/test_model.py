"""An agent that is a model: what it says, keeps, and how its turns end."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import BinaryContent, ModelResponse

from acpbridge.agents.loop import LIMIT_TEXT
from acpbridge.agents.model import NOT_ANSWERED, ModelDriven
from acpbridge.agents.registry import Tool
from acpbridge.errors import BridgeError
from acpbridge.model.modelagent import ModelAgent
from acpbridge.runtimes.turn import Turn
from acpbridge.serving.modelled import agent_by_model
from tests.unit.agents.modelled import talking
from tests.unit.agents.scripted import Scripted, calls, says, tool
from tests.unit.runtimes.scenarios import Recorder, allow, deny


async def test_it_is_told_its_instructions_and_where_it_works(tmp_path: Path) -> None:
    async with talking(tmp_path, says("Hello."), instructions="Be short.") as talk:
        result = await talk.turn("hi")
    assert (result.stop_reason, talk.host.said) == ("end_turn", "Hello.")
    begin, asked = talk.model.asked[0]
    assert begin.parts[0].content == (  # type: ignore[union-attr]
        f"Be short.\n\nWorking directory: {tmp_path}"
    )
    assert asked.parts[0].content == "hi"  # type: ignore[union-attr]


async def test_only_the_tools_that_are_named_are_offered(tmp_path: Path) -> None:
    async with talking(tmp_path, says("a"), tools=("list_files",)) as talk:
        await talk.turn()
    async with talking(tmp_path, says("a"), tools=()) as none:
        await none.turn()
    assert talk.model.offered == [["list_files"]]
    assert none.model.offered == [[]]


async def test_thoughts_are_told_as_thoughts_however_they_come(tmp_path: Path) -> None:
    steps = (calls("list_files", text="<think>a</think>First."), says("Then <think>b</think>this."))
    async with talking(tmp_path, *steps) as talk:
        await talk.turn()
    thoughts = [u for u in talk.host.updates if u["sessionUpdate"] == "agent_thought_chunk"]
    assert "".join(t["content"]["text"] for t in thoughts) == "ab"
    assert talk.host.said == "First.\n\nThen this."


async def test_the_next_turn_sees_all_of_the_one_before(tmp_path: Path) -> None:
    steps = (calls("list_files"), says("<think>x</think>Empty."), says("I said it."))
    async with talking(tmp_path, *steps) as talk:
        await talk.turn("look")
        await talk.turn("again")
    kinds = [part.part_kind for m in talk.model.asked[-1] for part in m.parts]
    assert kinds == [
        *("system-prompt", "user-prompt", "tool-call", "tool-return", "text", "user-prompt")
    ]
    assert talk.model.asked[-1][4].parts[0].content == "Empty."  # type: ignore[union-attr]


async def test_two_sessions_of_one_agent_do_not_see_one_another(tmp_path: Path) -> None:
    model = Scripted(says("one"), says("two"))
    code = ModelDriven(ModelAgent("anthropic:x"), None, lambda _: model.model)
    for words in ("first", "second"):
        prompt = ({"type": "text", "text": words},)
        await code(Turn(prompt, str(tmp_path), (), Recorder()))
    assert "first" not in str(model.asked[1])


async def test_a_cancelled_turn_is_part_of_the_conversation_and_leaves_no_open_call(
    tmp_path: Path,
) -> None:
    begun = anyio.Event()

    async def hang() -> ModelResponse:
        begun.set()
        await anyio.sleep_forever()
        return says("never")

    async with talking(tmp_path, calls("list_files"), hang, says("Hello.")) as talk:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(talk.turn, "first")
            with anyio.fail_after(20):
                await begun.wait()
            talk.session.cancel()
        assert (await talk.turn("second")).stop_reason == "end_turn"
    said = [str(part.content) for m in talk.model.asked[-1][1:] for part in m.parts]  # type: ignore[union-attr]
    assert said == ["first", NOT_ANSWERED, "second"]


async def test_a_turn_without_end_ends_with_its_own_stop_reason(tmp_path: Path) -> None:
    steps = [calls("list_files")] * 2
    async with talking(tmp_path, *steps, max_iterations=2) as talk:
        result = await talk.turn()
    assert (result.stop_reason, talk.host.said) == ("max_turn_requests", LIMIT_TEXT)


async def test_a_model_that_fails_fails_the_turn_and_the_session_goes_on(tmp_path: Path) -> None:
    broken = ModelHTTPError(500, "scripted", {"error": "overloaded"})
    async with talking(tmp_path, broken, says("ok")) as talk:
        with pytest.raises(BridgeError) as caught:
            await talk.turn()
        assert caught.value.code == "turn_failed"
        assert "500" in caught.value.message
        assert (await talk.turn()).stop_reason == "end_turn"


async def test_without_a_key_it_is_said_which_variable_to_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for vendor, name in (("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")):
        code = ModelDriven(ModelAgent(f"{vendor}:x"))
        with pytest.raises(BridgeError) as caught:
            await code(Turn(({"type": "text", "text": "hi"},), str(tmp_path), (), Recorder()))
        assert caught.value.code == "auth_required"
        assert f"env: {{pass: [{name}]}}" in caught.value.message


async def test_pictures_and_files_of_the_prompt_reach_the_model(tmp_path: Path) -> None:
    prompt = (
        {"type": "text", "text": "see"},
        {"type": "image", "mimeType": "image/png", "data": "aGk="},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "body"}},
    )
    async with talking(tmp_path, says("ok")) as talk:
        await talk.session.prompt(prompt)
    text, image = talk.model.asked[0][1].parts[0].content  # type: ignore[union-attr, misc]
    assert text == "see\n\n<resource uri='file:///a.txt'>\nbody\n</resource>"
    assert isinstance(image, BinaryContent)
    assert (image.data, image.media_type) == (b"hi", "image/png")


async def test_what_it_has_taken_of_the_model_is_told(tmp_path: Path) -> None:
    async with talking(tmp_path, says("ok"), model="anthropic:claude-sonnet-4-5") as talk:
        result = await talk.turn()
    assert result.raw["usage"]["outputTokens"] > 0
    (usage,) = [u for u in talk.host.updates if u["sessionUpdate"] == "usage_update"]
    assert usage["size"] == 200_000


ASKED: list[str] = []


async def session_tools(names: Sequence[str]) -> list[Tool]:
    async def run(_context: object, arguments: object) -> str:
        ASKED.append(str(arguments))
        return '{"status": "accepted"}'

    return [tool(name, run, reads=name == "agents_list") for name in names]


@pytest.mark.parametrize(("decide", "ran"), [(allow, 1), (deny, 0)])
async def test_a_session_tool_that_does_something_is_asked_about(
    tmp_path: Path, decide: object, ran: int
) -> None:
    ASKED.clear()
    steps = (calls(("sessions_spawn", {"task": "t"})), says("ok"))
    host = Recorder(decide)  # type: ignore[arg-type]
    tools = ("sessions_spawn",)
    async with talking(
        tmp_path, *steps, host=host, tools=tools, session_tools=session_tools
    ) as talk:
        await talk.turn()
    assert (len(host.asks), len(ASKED)) == (1, ran)
    assert host.asks[0].subject.raw_input == {"task": "t"}


async def test_a_session_tool_that_only_looks_is_shown_and_not_asked_about(tmp_path: Path) -> None:
    ASKED.clear()
    steps = (calls("agents_list"), says("ok"))
    async with talking(
        tmp_path, *steps, tools=("agents_list",), session_tools=session_tools
    ) as talk:
        await talk.turn()
    assert (talk.host.asks, ASKED) == ([], ["{}"])
    told = [u for u in talk.host.updates if u["sessionUpdate"] == "tool_call"]
    assert [u["title"] for u in told] == ["agents_list"]


async def test_where_there_is_no_daemon_there_are_no_session_tools(tmp_path: Path) -> None:
    async with talking(tmp_path, says("ok"), tools=("sessions_spawn",)) as talk:
        with pytest.raises(BridgeError, match="no daemon") as caught:
            await talk.turn()
    assert caught.value.code == "usage"


def test_a_process_that_is_told_nothing_says_what_to_write() -> None:
    for environ in ({}, {"ACPBRIDGE_MODEL_AGENT": "{"}, {"ACPBRIDGE_MODEL_AGENT": '{"a": 1}'}):
        with pytest.raises(BridgeError) as caught:
            agent_by_model(environ)
        assert "runtime: {kind: python, model:" in caught.value.hint
