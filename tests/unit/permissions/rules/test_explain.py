"""A question as it is printed, back to what rules may look at."""

import json
from typing import Any

import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.permission import Question, ToolKind
from acpbridge.permissions.rules.explain import facts_json, requests
from acpbridge.permissions.rules.gather import facts_of
from tests.unit.permissions.rules.asking import HOME, ROOT, disk, request


def printed(*args: Any, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        json.dumps(Question(request(*args, **more), "", "").to_json())
    )
    return found


@pytest.mark.parametrize(
    "asked",
    [
        ("read", {"path": "/srv/app/x"}),
        ("execute", {"command": "git status", "cwd": ROOT}),
        ("fetch", {"url": "https://a.example/"}),
        ("edit", None),
        ("read", {"path": "x", "command": "y"}),
    ],
)
def test_a_question_that_was_printed_has_the_facts_of_its_request(asked: tuple[str, Any]) -> None:
    (again,) = requests(json.dumps(printed(*asked)), [ROOT])
    assert facts_of(again, disk(), HOME) == facts_of(request(*asked), disk(), HOME)
    assert again.turn == "turn-1"


def test_locations_and_changes_are_read_back_too() -> None:
    diff = {"type": "diff", "path": "/srv/app/y", "newText": "z"}
    question = printed("edit", {"a": 1}, locations=["/srv/app/x"], content=[diff])
    question["subject"]["changed"] = ["kind"]
    (again,) = requests(json.dumps(question), [])
    assert again.ask.subject.locations == ("/srv/app/x",)
    assert again.ask.subject.content == (diff,)
    assert again.ask.subject.changed == ("kind",)


def test_a_list_as_the_command_prints_it_is_read() -> None:
    both = {"permissions": [printed("read"), printed("edit")]}
    kinds = [found.ask.subject.kind for found in requests(json.dumps(both), [])]
    assert kinds == [ToolKind.READ, ToolKind.EDIT]
    assert requests('{"permissions": []}', []) == []


def test_a_kind_that_may_have_been_unknown_is_taken_for_unknown() -> None:
    for kind in ("other", "strange", None):
        question = {**printed("read"), "kind": kind}
        (again,) = requests(json.dumps(question), [])
        assert not again.ask.subject.known_kind


@pytest.mark.parametrize(
    "text",
    ["", "{", "7", "null", "{}", '{"sessionKey": "agent:a:main"}', '{"subject": {}}', "[" * 100_000,
     '{"sessionKey": 7, "subject": {}}', '{"permissions": 7}'],
)  # fmt: skip
def test_what_is_no_question_is_told_how_to_get_one(text: str) -> None:
    with pytest.raises(BridgeError) as caught:
        requests(text, [])
    assert caught.value.code == "usage"
    assert "permissions --json" in (caught.value.hint or "")


def test_facts_are_printed_with_null_for_what_is_not_known() -> None:
    shown = facts_json(facts_of(request(None), disk(), HOME))
    assert json.loads(json.dumps(shown)) == {
        "agent": "codex", "label": "", "kind": None, "tool": None, "server": None, "argv": None,
        "paths": None, "host": None, "roots": [ROOT],
    }  # fmt: skip
    paths = facts_json(facts_of(request("read", {"path": "x"}), disk(), HOME))["paths"]
    assert paths == [{"literal": "x", "resolved": f"{ROOT}/x"}]
