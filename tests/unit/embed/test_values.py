"""What a program is handed: events, results, questions and answers, and what it may ask for."""

import os
from pathlib import Path
from typing import Any

import pytest

from acpbridge.embed.bridge import RunOptions, _request
from acpbridge.embed.questions import Answer, OpenQuestion
from acpbridge.embed.run import Result, RunEvent
from acpbridge.errors import BridgeError
from acpbridge.model.permission import Effect, OnPermission
from acpbridge.model.sessions import Outcome


def update(**fields: Any) -> RunEvent:
    return RunEvent("update", {"type": "update", "update": fields})


def test_only_a_chunk_of_the_message_has_text() -> None:
    said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
    assert (update(**said).kind, update(**said).text) == ("agent_message_chunk", "hi")
    assert update(**said, content_=None).text == "hi"
    for other in (
        update(**{**said, "sessionUpdate": "agent_thought_chunk"}),
        update(**{**said, "content": None}),
        update(**{**said, "content": {"type": "image"}}),
        RunEvent("update", {"update": "no object"}),
        RunEvent("turn_ended", {"update": said}),
    ):
        assert other.text == ""
    assert RunEvent("turn_ended", {}).kind == ""


def test_a_result_that_is_no_success_raises_why() -> None:
    good = Result("k", "r", Outcome.COMPLETED, "text", "end_turn")
    assert good.ok
    assert good.check() is good
    refused = Result("k", "r", Outcome.FAILED, "", "refusal")
    with pytest.raises(BridgeError, match="The turn ended: refusal") as caught:
        refused.check()
    assert caught.value.code == "turn_failed"
    died = Result("k", "r", Outcome.FAILED, "", error=BridgeError("agent_died", "gone"))
    with pytest.raises(BridgeError, match="gone"):
        died.check()


def test_an_answer_is_an_effect_or_an_exact_option() -> None:
    assert Answer.allow("why") == Answer(Effect.ALLOW, None, "why")
    assert Answer.deny() == Answer(Effect.DENY)
    assert Answer.choose("id") == Answer(None, "id")


def test_a_question_reads_from_the_shape_on_the_wire() -> None:
    value = {
        "id": "q1",
        "sessionKey": "agent:a:main",
        "agentId": "a",
        "title": "Do it",
        "kind": "execute",
        "subject": {"rawInput": {"command": "do"}},
        "options": [{"optionId": "o", "name": "Yes", "kind": "allow_once"}],
        "askedAt": "then",
        "expiresAt": "later",
    }
    question = OpenQuestion.from_json(value)
    assert question.subject["rawInput"] == {"command": "do"}
    assert [(c.id, c.name, c.kind) for c in question.choices] == [("o", "Yes", "allow_once")]


def test_a_request_has_the_programs_place_and_environment_unless_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORD", "für")
    os.environb[b"NOT_UTF8"] = b"\xff"
    try:
        plain = _request("hi", {})
    finally:
        del os.environb[b"NOT_UTF8"]
    assert plain.content == ({"type": "text", "text": "hi"},)
    assert (plain.cwd, plain.caller_cwd) == ("", str(tmp_path))
    assert plain.env["WORD"] == "für"
    assert "NOT_UTF8" not in plain.env
    assert (plain.one_shot, plain.on_permission) == (True, OnPermission.ASK)
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "data": ""}]
    options = RunOptions(
        agent="a", cwd="sub/..", keep=True, on_permission="deny", timeout=3.0, env={"A": "b"}
    )
    told = _request(blocks, options)
    assert told.content == tuple(blocks)
    assert (told.agent, told.cwd, told.env) == ("a", str(tmp_path), {"A": "b"})
    assert (told.one_shot, told.on_permission, told.timeout) == (False, OnPermission.DENY, 3.0)


@pytest.mark.parametrize("prompt", ["", []])
def test_an_empty_prompt_is_refused(prompt: Any) -> None:
    with pytest.raises(BridgeError, match="The prompt is empty"):
        _request(prompt, {})
