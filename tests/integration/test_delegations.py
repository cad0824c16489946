"""Work that one agent hands to another, with real processes: chats go on, and restarts lose none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.asking_agents import (
    delegation,
    events,
    hand_over,
    notices,
    prompts,
    stands,
)
from tests.integration.daemon_home import Home, daemon_home, until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as home:
        home.configure(main=("--resume", "--memory", str(tmp_path / "m")), researcher=())
        yield home


def chat(home: Home, *words: str) -> str:
    """Have a turn of the user's, and return the session's key."""
    done = home.run("run", "--format", "json", "--mode", "session", *words)
    assert done.code == 0, done
    return str(done.events[0]["key"])


def busy(home: Home, key: str) -> str:
    """Have a turn under way in a session that the test ends."""
    done = home.run("run", "--session", key, "--detach", "hang")
    assert done.code == 0, done
    return str(until(lambda: (home.row(key)["turn"] or {}).get("id")))


def gate(home: Home, name: str) -> tuple[str, Path]:
    """Return a prompt with which an agent waits for a file, and the file."""
    path = home.path.parent / name
    return f"hold-until {path}\nsay the mountain is high", path


def test_4_18_the_user_goes_on_chatting_while_another_agent_works_and_hears_of_it(
    home: Home,
) -> None:
    key = chat(home, "--agent", "main", "say hello")
    with home.running("attach", key, "--json"):
        turn = busy(home, key)
        job = hand_over(home, key, "researcher", "ask execute ls\nsay the mountain is high")
        question = home.wait_question()  # the researcher is held here
        row = stands(home, job, "running")
        assert row["targetSessionKey"] == question["sessionKey"]
        assert home.run("cancel", key, "--json").json["turnEnded"]
        # The user chats, twice, in the very session.
        assert home.run("run", "--session", key, "say one more").out.strip() == "one more"
        assert home.run("run", "--session", key, "say and more").out.strip() == "and more"
        assert delegation(home, job)["status"] == "running"
        assert notices(home, key) == []
        # Now a turn is under way when the answer comes: it waits.
        busy(home, key)
        words = ("permissions", "answer", question["id"], "--deny")
        assert home.run(*words).code == 0
        stands(home, job, "replying")
        assert home.row(key)["queueDepth"] == 1
        assert home.run("tool" if False else "status").code == 0
        end_turn(home, key)
        stands(home, job, "done")
        (notice,) = until(lambda: notices(home, key))
    assert (notice["delegationId"], notice["status"]) == (job, "done")
    assert "the mountain is high" in notice["text"]
    told = prompts(home, key)[-1]
    assert "the mountain is high" in told
    assert turn
    starts_and_ends = [
        event["type"]
        for event in events(home, key, lambda event: event["type"].startswith("turn_"))
        if event["type"] != "turn_queued"
    ]
    assert starts_and_ends == ["turn_started", "turn_ended"] * (len(starts_and_ends) // 2)
