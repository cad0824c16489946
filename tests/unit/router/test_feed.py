"""The feed of questions: what is open, then each change, and nothing that one may not see."""

import json
from typing import Any

import anyio
import pytest

from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.permission import (
    Decision,
    Effect,
    OnPermission,
    Option,
    OptionKind,
    PermissionAsk,
    PermissionRequest,
    Question,
    Reason,
    ToolSubject,
)
from acpbridge.model.requesters import Requester, Role
from acpbridge.router.feed import PIECE, REMEMBERED, QuestionFeed, QuestionWatcher

OPERATOR = Requester(Role.OPERATOR)
MINE, OTHER = SessionKey.main(AgentId("mine")), SessionKey.main(AgentId("other"))
DENIED = Decision(Effect.DENY, "no", Reason.OPERATOR, "operator:c1", "not now")


class Asked:
    """A feed, with the questions that its broker would have."""

    def __init__(self) -> None:
        self.open: dict[str, Question] = {}
        self.feed = QuestionFeed(lambda: list(self.open.values()), self._may_see, lambda: "now")

    def _may_see(self, who: Requester, key: SessionKey) -> bool:
        return who.role is Role.OPERATOR or who.session == key

    def ask(self, name: str, key: SessionKey = MINE, title: str = "t") -> None:
        options = (Option("no", "No", OptionKind.REJECT_ONCE),)
        ask = PermissionAsk(ToolSubject("call", title=title), options)
        request = PermissionRequest(name, key, "turn", OnPermission.ASK, ask)
        self.open[name] = Question(request, "then", "later")
        self.feed.asked(self.open[name])

    def decide(self, name: str) -> None:
        self.feed.decided(self.open.pop(name).request, DENIED)

    def watch(self, who: Requester = OPERATOR) -> QuestionWatcher:
        return QuestionWatcher(self.feed, who)


async def test_a_watcher_of_some_sessions_is_told_of_no_other() -> None:
    asked = Asked()
    watcher = QuestionWatcher(asked.feed, OPERATOR, lambda key: key == MINE)
    asked.ask("one")
    asked.ask("other", OTHER)
    assert told(await read(watcher)) == [("open_questions", ["one"]), ("permission_asked", "one")]
    asked.decide("other")
    asked.ask("another", OTHER)
    asked.decide("one")
    assert told(await read(watcher)) == [("permission_decided", "one")]
    # Nor does wanting one let anybody see it.
    stranger = QuestionWatcher(asked.feed, Requester(Role.AGENT, MINE), lambda _key: True)
    assert told(await read(stranger)) == [("open_questions", [])]


async def read(watcher: QuestionWatcher) -> list[dict[str, Any]]:
    with anyio.fail_after(30):
        return [json.loads(line) for line in await watcher.read()]


def told(lines: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(line["type"], line.get("id", line.get("ids"))) for line in lines]


async def test_a_watcher_is_told_what_is_open_and_then_what_comes_and_goes() -> None:
    asked = Asked()
    asked.ask("one")
    watcher = asked.watch()
    first = await read(watcher)
    assert told(first) == [("open_questions", ["one"]), ("permission_asked", "one")]
    assert (first[1]["title"], first[1]["key"], first[1]["turn"]) == ("t", str(MINE), "turn")
    asked.ask("two")
    asked.decide("one")
    changes = await read(watcher)
    assert told(changes) == [("permission_asked", "two"), ("permission_decided", "one")]
    assert (changes[1]["effect"], changes[1]["note"]) == ("deny", "not now")
    assert [line["revision"] for line in changes] == [2, 3]


async def test_a_watcher_waits_for_a_change() -> None:
    asked = Asked()
    watcher = asked.watch()
    assert told(await read(watcher)) == [("open_questions", [])]
    async with anyio.create_task_group() as tasks:

        async def later() -> None:
            asked.ask("one")

        tasks.start_soon(later)
        assert told(await read(watcher)) == [("permission_asked", "one")]


async def test_what_is_decided_before_it_was_told_is_told_by_its_decision_alone() -> None:
    asked = Asked()
    watcher = asked.watch()
    await read(watcher)
    asked.ask("one")
    asked.decide("one")
    assert told(await read(watcher)) == [("permission_decided", "one")]


async def test_case_139_nobody_is_told_of_what_they_may_not_see() -> None:
    asked = Asked()
    agent = asked.watch(Requester(Role.AGENT, MINE))
    asked.ask("hidden", OTHER)
    assert told(await read(agent)) == [("open_questions", [])]
    asked.decide("hidden")
    asked.ask("seen", MINE)
    assert told(await read(agent)) == [("permission_asked", "seen")]


async def test_one_who_is_too_far_behind_is_told_again_what_is_open() -> None:
    asked = Asked()
    watcher = asked.watch()
    await read(watcher)
    asked.ask("stays")
    for number in range(REMEMBERED):
        asked.ask(f"q{number}")
        asked.decide(f"q{number}")
    again = await read(watcher)
    assert told(again) == [("open_questions", ["stays"]), ("permission_asked", "stays")]
    assert again[0]["revision"] == 2 * REMEMBERED + 1


@pytest.mark.parametrize("count", [1, 5])
async def test_long_questions_come_in_pieces(count: int) -> None:
    asked = Asked()
    for number in range(count):
        asked.ask(f"q{number}", title="x" * PIECE)
    watcher = asked.watch()
    pieces = [await read(watcher) for _ in range(count + 1)]
    assert [len(piece) for piece in pieces] == [1] * (count + 1)
