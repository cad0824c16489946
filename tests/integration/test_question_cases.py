"""Faults that users met with questions, end to end: what was sent, and what really ran."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acpbridge.errors import BridgeError
from tests.integration.daemon_home import Home, daemon_home, until
from tests.integration.traffic import Client, Look, client, ended, log_option, start

CANCELLED = {"outcome": {"outcome": "cancelled"}}


def selected(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("cases")) as made:
        made.configure(fake=log_option(made))
        made.start()
        yield made


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Give a daemon in which a question has a second."""
    with daemon_home(tmp_path_factory.mktemp("hasty")) as made:
        made.configure({"permissionSeconds": 1}, fake=log_option(made))
        made.start()
        yield made


@pytest.fixture
def mine(home: Home) -> Iterator[Client]:
    with client(home) as made:
        yield made


def answers(look: Look) -> dict[str, Any]:
    """Return what each request of the agent was answered, by its id; none twice."""
    sent = [m for m in look.sent_to_agent if "method" not in m]
    by_id = {json.dumps(m["id"]): m.get("result", m.get("error")) for m in sent}
    assert len(by_id) == len(sent)
    return by_id


def questions(client: Client, count: int = 1) -> list[dict[str, Any]]:
    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = client.call("questions")["permissions"]
        return found

    until(lambda: len(listed()) == count)
    return listed()


def until_answered(client: Client, question: str) -> None:
    until(lambda: question not in json.dumps(client.call("questions")))


def over(client: Client, receipt: Any) -> Any:
    return client.call("wait", runId=receipt["runId"])


def decided(home: Home, receipt: Any) -> list[dict[str, Any]]:
    done = home.run("logs", receipt["key"], "--json")
    return [event for event in done.events if event["type"] == "permission_decided"]


def test_cases_38_51_52_with_nobody_there_a_question_is_denied_by_the_offered_reject(
    hasty: Home, tmp_path: Path
) -> None:
    """And the turn goes on, a late answer sends nothing, and it is never called a person's no."""
    look, ran = Look(hasty), tmp_path / "ran"
    with client(hasty) as mine:
        words = f"ask execute x reject_once allow_once do {ran}\nask execute y allow_once do {ran}"
        receipt = start(mine, f"{words}\nsay on", agent="fake", mode="session")
        (question,) = questions(mine)
        assert over(mine, receipt)["outcome"] == "completed"
        with pytest.raises(BridgeError) as caught:
            mine.call("answer", id=question["id"], effect="allow")
        assert caught.value.code == "already_resolved"
        assert "timed_out" in caught.value.message
        assert mine.call("questions")["permissions"] == []
    assert answers(look) == {"0": selected("reject_once"), "1": CANCELLED}
    events = decided(hasty, receipt)
    assert [(e["effect"], e["reason"]) for e in events] == [("deny", "timed_out")] * 2
    lines = (hasty.path / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    records = [r for r in map(json.loads, lines) if r["kind"] == "permission_decided"]
    assert [(r["decision"], r["reason"]) for r in records] == [("deny", "timed_out")] * 2
    assert not ran.exists()


def test_case_39_the_answer_has_its_exact_shape_and_the_id_that_was_offered(
    home: Home, mine: Client, tmp_path: Path
) -> None:
    look, ran = Look(home), tmp_path / "ran"
    receipt = start(mine, f"ask execute x opt-7f:allow_once opt-91:reject_once do {ran} 1")
    (question,) = questions(mine)
    mine.call("answer", id=question["id"], effect="allow")
    assert over(mine, receipt)["outcome"] == "completed"
    sent = [record["line"] for record in look.agent("line") if "outcome" in record["line"]]
    assert len(sent) == 1
    told = '"result":{"outcome":{"outcome":"selected","optionId":"opt-7f"}}'
    assert told in sent[0].replace(" ", "")
    assert ran.read_text(encoding="utf-8") == "executed 1\n"


FOUR = " ".join(f"{name.lower()}:allow_once" for name in ("Alpha", "Beta", "Gamma", "Delta"))


def test_case_40_a_choice_of_four_stays_one_of_four_and_no_rule_makes_it(
    home: Home, mine: Client
) -> None:
    look = Look(home)
    receipt = start(mine, f"ask execute which {FOUR}", onPermission="allow")
    (question,) = questions(mine)
    offered = [option["optionId"] for option in question["options"]]
    assert offered == ["alpha", "beta", "gamma", "delta"]
    with pytest.raises(BridgeError) as caught:
        mine.call("answer", id=question["id"], effect="allow")
    assert caught.value.code == "invalid_option"
    mine.call("answer", id=question["id"], optionId="gamma")
    assert over(mine, receipt)["outcome"] == "completed"
    assert answers(look) == {"0": selected("gamma")}


def test_case_41_an_unknown_kind_is_shown_and_never_chosen_by_a_rule(
    home: Home, mine: Client, tmp_path: Path
) -> None:
    """And with unknown kinds alone nothing is allowed, nobody is left waiting."""
    look, ran = Look(home), tmp_path / "ran"
    mixed = "yes:allow_once ever:allow_persistent no:reject_once"
    alone = "a:allow_persistent b:deny"
    words = f"ask execute x {mixed}\nask execute y {alone} do {ran}"
    done = ended(mine, words, onPermission="allow")
    assert done["outcome"] == "completed"
    assert answers(look) == {"0": selected("yes"), "1": CANCELLED}
    look = Look(home)
    receipt = start(mine, f"ask execute x {mixed}", onPermission="ask")
    (question,) = questions(mine)
    assert [option["kind"] for option in question["options"]][1] == "allow_persistent"
    mine.call("answer", id=question["id"], effect="deny")
    assert over(mine, receipt)["outcome"] == "completed"
    assert answers(look) == {"0": selected("no")}
    assert not ran.exists()


def test_case_44_the_same_tool_call_twice_is_two_questions_each_with_its_answer(
    home: Home, mine: Client
) -> None:
    look = Look(home)
    options = [{"optionId": k, "name": k, "kind": k} for k in ("allow_once", "reject_once")]
    asked = {"toolCall": {"toolCallId": "same", "kind": "execute"}, "options": options}
    one = f"bg ask-json {json.dumps(asked)}"
    receipt = start(mine, f"next-id 11\n{one}\nsleep 50\nnext-id 12\n{one}")
    first, second = questions(mine, 2)
    assert first["subject"]["toolCallId"] == second["subject"]["toolCallId"] == "same"
    mine.call("answer", id=second["id"], effect="allow")
    (left,) = questions(mine)
    assert left["id"] == first["id"]
    mine.call("answer", id=first["id"], effect="deny")
    assert over(mine, receipt)["outcome"] == "completed"
    assert answers(look) == {"11": selected("reject_once"), "12": selected("allow_once")}


def test_case_45_many_questions_are_answered_in_any_order_each_with_its_own(
    home: Home, mine: Client, tmp_path: Path
) -> None:
    look, ran = Look(home), tmp_path / "ran"
    asks = [f"next-id {n}\nbg ask execute q{n} do {ran} {n}\nsleep 20" for n in range(1, 6)]
    receipt = start(mine, "\n".join(asks))
    names = {q["title"]: q["id"] for q in questions(mine, 5)}
    effects = {3: "allow", 1: "deny", 5: "allow", 2: "deny", 4: "allow"}
    for number, effect in effects.items():
        mine.call("answer", id=names[f"q{number}"], effect=effect)
    assert over(mine, receipt)["outcome"] == "completed"
    chosen = {"allow": selected("allow_once"), "deny": selected("reject_once")}
    assert answers(look) == {str(n): chosen[effect] for n, effect in effects.items()}
    lines = ran.read_text(encoding="utf-8").splitlines()
    assert sorted(lines) == [f"executed {n}" for n in (3, 4, 5)]


def test_case_47_updates_of_a_tool_call_hide_no_question(home: Home, mine: Client) -> None:
    look = Look(home)
    updates = [
        {"sessionUpdate": "tool_call_update", "toolCallId": "tool-1", "status": status}
        for status in ("in_progress", "completed")
    ]
    lines = [f"update {json.dumps(update)}" for update in updates]
    receipt = start(mine, "\n".join(["bg ask execute x", "sleep 50", *lines, "say shown"]))
    (question,) = questions(mine)

    def told() -> bool:
        return "shown" in home.run("logs", receipt["key"]).out

    until(told)
    assert [q["id"] for q in mine.call("questions")["permissions"]] == [question["id"]]
    mine.call("answer", id=question["id"], effect="allow")
    assert over(mine, receipt)["outcome"] == "completed"
    assert answers(look) == {"0": selected("allow_once")}


@pytest.mark.parametrize("who", ["a person", "the run's rule"])
def test_case_52_a_denial_refuses_one_step_and_the_turn_goes_on(
    who: str, home: Home, mine: Client, tmp_path: Path
) -> None:
    """With no reject that counts once it is `cancelled`; `reject_always` is nobody's choice."""
    look, ran = Look(home), tmp_path / "ran"
    words = [
        f"ask execute a allow_once reject_always reject_once do {ran}",
        f"ask execute b allow_once reject_always do {ran}",
        f"ask execute c allow_once do {ran}",
        "say on",
    ]
    rule = "ask" if who == "a person" else "deny"
    receipt = start(mine, "\n".join(words), onPermission=rule, mode="session")
    if who == "a person":
        for _ in range(3):
            (question,) = questions(mine)
            mine.call("answer", id=question["id"], effect="deny")
            until_answered(mine, question["id"])
    assert over(mine, receipt)["outcome"] == "completed"
    assert answers(look) == {"0": selected("reject_once"), "1": CANCELLED, "2": CANCELLED}
    assert {event["effect"] for event in decided(home, receipt)} == {"deny"}
    assert not ran.exists()
    mine.call("close", key=receipt["key"])
