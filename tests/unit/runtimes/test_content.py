"""Views of a prompt's blocks, and what is told of a file that a call changes."""

import json
from typing import Any

import pytest

from acpbridge.model.events import Update
from acpbridge.runtimes.content import (
    Resource,
    images_of,
    instructions_of,
    resources_of,
    text_of,
)
from acpbridge.runtimes.turn import Turn
from tests.unit.runtimes.scenarios import Recorder, allow, deny


def test_what_is_not_what_it_says_is_left_out() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "image", "data": "not base64!"},
        {"type": "image", "data": 7},
        {"type": "image", "data": "AAAA", "mimeType": 1},
        {"type": "text", "text": None},
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": "resource", "resource": "no object"},
        {"type": "resource", "resource": {"text": "without an address"}},
        {"type": "resource", "resource": {"uri": "x:y", "blob": "AAAA", "text": 1}},
        {"type": "resource_link", "uri": None},
        {},
    ]
    (image,) = images_of(blocks)
    assert (image.mime_type, image.data) == ("", b"\0\0\0")
    assert text_of(blocks) == "a\nb"
    assert resources_of(blocks) == (Resource("x:y", data=b"\0\0\0"),)


def test_what_an_agent_goes_by_is_no_part_of_what_it_is_asked() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "be brief", "_meta": {"acpbridge": {"instructions": True}}},
        {"type": "text", "text": "say x", "_meta": {"acpbridge": {"instructions": "yes"}}},
        {"type": "text", "text": "and y", "_meta": {"acpbridge": []}},
        {"type": "text", "text": "and z", "_meta": None},
    ]
    assert instructions_of(blocks) == "be brief"
    assert text_of(blocks) == "say x\nand y\nand z"


@pytest.mark.parametrize(
    ("uri", "path"),
    [("file:///a%20b", "/a b"), ("https://a/b", ""), ("//[", ""), ("", "")],
)
def test_only_a_file_has_a_path(uri: str, path: str) -> None:
    assert Resource(uri).path == path


def turn(host: Recorder) -> Turn:
    return Turn((), "/src", (), host)


async def test_a_diff_names_its_file_to_whoever_is_asked() -> None:
    host = Recorder(allow)
    async with turn(host).tool("Change it", kind="edit", locations=["b"]) as call:
        call.diff("a", "old", "new")
        call.diff("b", None, "new")
        assert await call.ask()
    _, first, second, _ = host.updates
    assert [place["path"] for place in first["locations"]] == ["/src/b", "/src/a"]
    assert "locations" not in second
    assert host.asks[0].subject.locations == ("/src/b", "/src/a")
    assert [item["path"] for item in host.asks[0].subject.content] == ["/src/a", "/src/b"]


async def test_a_question_alone_shows_absolute_paths_too() -> None:
    host = Recorder(deny)
    diff = {"type": "diff", "path": "sub/../a", "oldText": None, "newText": "x"}
    assert not await turn(host).ask("Write it", kind="edit", content=[diff])
    assert host.asks[0].subject.locations == ("/src/sub/../a",)


@pytest.mark.parametrize("options", [[], {}, ["a", "a"], ["reject_once"], {"reject_once": "No"}])
async def test_options_that_cannot_be_told_apart_are_an_error_of_the_code(options: Any) -> None:
    host = Recorder(allow)
    with pytest.raises(ValueError, match="options must be named"):
        await turn(host).choose("Which?", options)
    assert host.asks == []
    assert host.events == []


def test_unknown_counts_and_what_is_no_json_are_errors_of_the_code() -> None:
    host = Recorder()
    with pytest.raises(ValueError, match="unknown counts: dreams"):
        turn(host).tokens(dreams=1)
    with pytest.raises((TypeError, ValueError)):
        turn(host).update("x", value=float("nan"))
    assert host.events == []


async def test_an_update_is_one_event_with_the_word_of_its_kind() -> None:
    host = Recorder()
    turn(host).update("something_new", value=[1])
    (event,) = host.events
    assert isinstance(event, Update)
    assert event.kind == "something_new"
    assert json.loads(event.raw) == {"sessionUpdate": "something_new", "value": [1]}
