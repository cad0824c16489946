"""A turn's face in `status`, and the bounded inbox."""

import anyio
import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.messages import PromptRequest
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import TurnState, WaitsFor
from acpbridge.router import turns
from acpbridge.router.turns import INBOX_LIMIT, Inbox, Turn


def turn(run_id: str = "r1") -> Turn:
    request = PromptRequest(Requester(Role.OPERATOR), SessionKey.main(AgentId("a")), ())
    return Turn(run_id, request, "2026-01-02T03:04:05+00:00")


def put(inbox: Inbox, *turns: Turn) -> None:
    for one in turns:
        inbox.reserve()
        inbox.put(one)


def state_of(one: Turn) -> TurnState:
    return one.state


def test_a_turn_waits_for_nobody_then_the_model_a_tool_or_a_person() -> None:
    one = turn()
    assert one.waits_for(tool_running=True) is WaitsFor.NOBODY
    one.state = TurnState.RUNNING
    assert one.waits_for(tool_running=False) is WaitsFor.MODEL
    assert one.waits_for(tool_running=True) is WaitsFor.TOOL
    one.asked()
    assert state_of(one) is TurnState.WAITING
    assert one.waits_for(tool_running=True) is WaitsFor.PERMISSION
    one.asked()
    one.answered()
    assert state_of(one) is TurnState.WAITING
    one.answered()
    assert state_of(one) is TurnState.RUNNING
    assert set(one.to_json(tool_running=False)) == {
        "id",
        "state",
        "waitsFor",
        "startedAt",
        "lastUpdateAt",
    }


def test_an_answer_does_not_take_a_cancel_back() -> None:
    one = turn()
    one.state = TurnState.RUNNING
    one.asked()
    one.cancelling, one.state = True, TurnState.CANCELLING
    one.asked()
    one.answered()
    one.answered()
    assert one.state is TurnState.CANCELLING


async def test_a_turn_can_be_waited_for_until_all_is_answered() -> None:
    one = turn()
    one.asked()
    one.asked()
    over = anyio.Event()

    async def wait() -> None:
        await one.all_answered()
        over.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            one.answered()
            await anyio.wait_all_tasks_blocked()
            assert not over.is_set()
            one.answered()
        await one.all_answered()
    assert over.is_set()


def test_an_inbox_keeps_its_order_and_can_be_emptied() -> None:
    inbox, turns = Inbox(), [turn(str(n)) for n in range(4)]
    put(inbox, *turns)
    assert inbox.take() is turns[0]
    assert inbox.remove(turns[2])
    assert not inbox.remove(turns[2])
    assert inbox.take_all() == [turns[1], turns[3]]
    assert inbox.take() is None
    assert len(inbox) == inbox.expected == 0


def test_room_that_is_reserved_counts_until_it_is_used_or_released() -> None:
    inbox = Inbox()
    put(inbox, *(turn(str(n)) for n in range(INBOX_LIMIT - 1)))
    inbox.reserve()
    with pytest.raises(BridgeError) as caught:
        inbox.reserve()
    assert caught.value.code == "busy"
    assert caught.value.data == {"queueDepth": INBOX_LIMIT - 1}
    inbox.release()
    inbox.reserve()
    inbox.put(turn("last"))
    assert len(inbox) == inbox.expected == INBOX_LIMIT


async def test_news_comes_with_a_turn_and_not_before() -> None:
    inbox, heard = Inbox(), list[str]()

    async def listen() -> None:
        await inbox.news()
        heard.append("news")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            assert not heard
            put(inbox, turn())
        await inbox.news()
    assert heard == ["news"]


def prompting(text: str) -> Turn:
    content = ({"type": "text", "text": text}, {"type": "resource", "resource": {"text": text}})
    requester, key = Requester(Role.OPERATOR), SessionKey.main(AgentId("a"))
    return Turn("r", PromptRequest(requester, key, content), "2026-01-02T03:04:05+00:00")


def test_g13_prompts_that_wait_are_bounded_by_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """One alone may be of any length; what was reserved and released or put counts once.

    Without the comparison with INBOX_SIZE: DID NOT RAISE.
    """
    monkeypatch.setattr(turns, "INBOX_SIZE", 1000)
    inbox, long, short = Inbox(), prompting("x" * 1000), prompting("x" * 100)
    size = turns.weight(long.request.content)
    assert size == 2000 + len("texttextresource") - len("text")
    inbox.reserve(size)
    with pytest.raises(BridgeError, match="too many"):
        inbox.reserve(1)
    inbox.release(size)
    for _ in range(4):
        inbox.reserve(turns.weight(short.request.content))
        inbox.put(short)
    with pytest.raises(BridgeError, match="too many"):
        inbox.reserve(turns.weight(short.request.content))
    inbox.take()
    inbox.reserve(turns.weight(short.request.content))
