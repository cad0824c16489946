"""Work that one agent hands to another, with real processes: chats go on, restarts lose nothing."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from acpbridge.errors import BridgeError
from tests.integration.asking_agents import (
    delegation,
    ends,
    hand_over,
    history,
    inside,
    notices,
    prompts,
    stands,
    told,
)
from tests.integration.daemon_home import Home, daemon_home, failed, until

# An agent is held where it asks a person, for as long as nobody answers.
WORK = "ask execute ls\nsay the mountain is high"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as home:
        memory = str(home.path / "memory")
        home.configure(main=("--resume", "--memory", memory), researcher=())
        yield home


def chat(home: Home, *words: str) -> str:
    """Have a turn of the user's, and return the session's key."""
    done = home.run("run", "--format", "json", "--mode", "session", *words)
    assert done.code == 0, done
    return str(done.events[0]["key"])


def question(home: Home, key: str) -> str:
    """Return the question that a session asks, once it does."""

    def open_ones() -> list[str]:
        found = (home.ask("questions") or {"permissions": []})["permissions"]
        return [one["id"] for one in found if one["sessionKey"] == key]

    return until(open_ones)[0]


def deny(home: Home, key: str) -> None:
    done = home.run("permissions", "answer", question(home, key), "--deny")
    assert done.code == 0, done


def working(home: Home, job: str) -> str:
    """Return in which session a piece of work is done, once it is."""
    return str(until(lambda: delegation(home, job).get("targetSessionKey")))


def killed(home: Home) -> None:
    """Have the daemon die at once, and another one start."""
    os.kill(home.daemon_pid(), signal.SIGKILL)
    until(lambda: not home.serves())
    home.start()


def test_4_18_the_user_goes_on_chatting_while_another_agent_works_and_hears_of_it(
    home: Home,
) -> None:
    key = chat(home, "--agent", "main", "say hello")
    with home.running("attach", key, "--json") as follower:
        job = hand_over(home, key, "researcher", WORK)
        child = working(home, job)
        question(home, child)
        # It is held there; the user chats, twice, in the very session.
        assert home.run("run", "--session", key, "say one more").out.strip() == "one more"
        assert home.run("run", "--session", key, "say and more").out.strip() == "and more"
        assert delegation(home, job)["status"] == "running"
        # A turn is under way when the answer comes: that waits, and is told behind it (4-17).
        home.run("run", "--session", key, "--detach", "ask execute pwd\nsay done")
        question(home, key)
        deny(home, child)
        stands(home, job, "replying")
        until(lambda: home.row(key)["queueDepth"] == 1)
        deny(home, key)
        log = told(home, key, job)
        follower.kill()
        assert follower.stdout is not None
        pushed = follower.stdout.read().decode().count('"kind":"delegation"')
    assert pushed == 1
    (notice,) = notices(log)
    assert (notice["delegationId"], notice["status"]) == (job, "done")
    begun = prompts(log)
    last = begun[-1]
    assert begun[:-1] == ["say hello", "say one more", "say and more", "ask execute pwd\nsay done"]
    assert "| the mountain is high" in last
    assert "| the mountain is high" in notice["text"]  # it says back what it was told
    assert ends(log) == ["turn_started", "turn_ended"] * 5
    assert home.row(child)["parentKey"] == key


def test_4_22_an_operator_sees_and_ends_what_was_handed_over(home: Home) -> None:
    key = chat(home, "--agent", "main", "say hello")
    assert home.run("delegations").out == "no delegated work\n"
    first = hand_over(home, key, "researcher", WORK)
    second = hand_over(home, key, "researcher", "say \x1b[31mred")
    child = working(home, first)
    question(home, child)
    rows = home.run("delegations", "--json").json["delegations"]
    assert [(row["id"], row["status"]) for row in rows] == [(first, "running"), (second, "queued")]
    shown = home.run("delegations")
    assert shown.code == 0
    assert "\x1b" not in shown.out
    for said in (first, second, child, "for " + key, "running", "queued"):
        assert said in shown.out
    # One that waits is never begun (4-6); of one that runs the turn ends (4-19).
    for job in (second, first):
        done = home.run("delegations", "cancel", job, "--json")
        assert (done.code, done.json["cancelled"]) == (0, True)
    log = told(home, key, first, second)
    assert {(one["delegationId"], one["status"]) for one in notices(log)} == {
        (first, "cancelled"),
        (second, "cancelled"),
    }
    assert ends(history(home, child)) == ["turn_started", "turn_ended"]
    assert home.ask("questions")["permissions"] == []
    assert home.run("delegations", "cancel", first).code == 1
    failed(home.run("delegations", "cancel", "nobody"), "no_such_delegation", 4)
    assert home.run("delegations").out == "no delegated work\n"
    assert home.run("delegations", "--all", "--json").json["delegations"][0]["id"] == first
    assert len(prompts(log)) == 1


def test_4_7b_a_daemon_that_is_killed_loses_nothing_and_tells_each_end_once(home: Home) -> None:
    key = chat(home, "--agent", "main", "say hello")
    first = hand_over(home, key, "researcher", WORK)
    second = hand_over(home, key, "researcher", WORK)
    child = working(home, first)
    question(home, child)
    killed(home)
    # The first was under way: it has failed, and that is explained. The second is begun.
    (notice,) = notices(told(home, key, first))
    assert (notice["delegationId"], notice["status"]) == (first, "failed")
    assert notice["text"]
    child = working(home, second)
    question(home, child)
    # Its answer waits behind a turn of the user's when the daemon dies once more.
    home.run("run", "--session", key, "--detach", "ask execute pwd")
    question(home, key)
    deny(home, child)
    stands(home, second, "replying")
    until(lambda: home.row(key)["queueDepth"] == 1)
    killed(home)
    log = told(home, key, first, second)
    _, notice = notices(log)
    assert (notice["delegationId"], notice["status"]) == (second, "done")
    assert "| the mountain is high" in notice["text"]
    assert sum(second in prompt for prompt in prompts(log)) == 1
    assert home.run("delegations").out == "no delegated work\n"


def test_4_13_an_agent_asks_another_one_and_waits_and_is_no_operator(home: Home) -> None:
    key = chat(home, "--agent", "main", "say hello")
    answer = inside(home, key, "tool/ask", agentId="researcher", message="say forty-two")
    assert answer["response"] == "forty-two"
    assert home.row(answer["sessionKey"])["parentKey"] == key
    for params in ({}, {"cancel": "any"}):
        with pytest.raises(BridgeError) as caught:
            inside(home, key, "tool/delegations", **params)
        assert caught.value.code == "permission_denied"
