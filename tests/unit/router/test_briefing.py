"""What a Python child is told of its place (3-1.6c, contract 7.1)."""

from dataclasses import replace

import pytest

from acpbridge.router.briefing import Brief, envelope, first_prompt, instructions

CHILD = Brief(
    depth=1,
    most=3,
    key="agent:house:subagent:1",
    label="tests",
    requester="agent:house:main",
)
SECTIONS = (
    "# Subagent Context",
    "## Your Role",
    "## Rules",
    "## Output Format",
    "## What You DON'T Do",
    "## Sub-Agent Spawning",
    "## Session Context",
)


def test_3_1_6c_the_sections_stand_in_their_order() -> None:
    text = instructions(CHILD)
    places = [text.index(f"{section}\n") for section in SECTIONS]
    assert places == sorted(places)
    assert "the main agent started you" in text


def test_3_1_6c_the_task_is_in_the_message_and_never_in_the_instructions() -> None:
    first, second = first_prompt(CHILD, "find the leak")
    assert "find the leak" not in first["text"]
    assert second["text"] == envelope(CHILD, "find the leak")
    assert "(depth 1/3)" in second["text"]
    assert "[Subagent Task]\nfind the leak\n\nBegin" in second["text"]
    assert "_meta" not in second


def test_3_1_6c_completion_is_pushed_and_nobody_polls_poses_or_stays() -> None:
    text = instructions(CHILD)
    assert "announced to whoever started you" in text
    assert "never wait by asking again and again" in text
    assert "do not pose as the session that started you" in text
    assert "set up no timers and leave nothing behind" in text
    assert "talk to no user" in text
    assert "do not make up for it with a shell" in text
    assert "evidence" in text
    assert "smaller pieces" in text


@pytest.mark.parametrize(
    ("brief", "there", "absent"),
    [
        (replace(CHILD, depth=2), "an orchestrating agent, your parent", "the main agent"),
        (replace(CHILD, depth=3), "You are a leaf", "You may start sub-agents"),
        (replace(CHILD, requester=""), "a person started you", "the main agent"),
        (replace(CHILD, private=True), "to your parent alone", "announced to whoever"),
        (replace(CHILD, announced=False), "You end in silence", "announced to whoever"),
        (replace(CHILD, persistent=True), "No heartbeats", "once you are done is as it"),
        (replace(CHILD, label=""), "- your own session: agent:house:subagent:1", "- label"),
    ],
)
def test_3_1_6c_what_depends_on_the_place_says_what_is_so(
    brief: Brief, there: str, absent: str
) -> None:
    text = instructions(brief)
    assert there in text
    assert absent not in text
