"""What the run, the policy and the grants come to together, and what happens where they fail."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.model.keys import MAIN, AgentId, SessionKey
from acpbridge.model.permission import (
    OnPermission,
    Option,
    OptionKind,
    PermissionAsk,
    PermissionRequest,
    Reason,
    ToolKind,
    ToolSubject,
)
from acpbridge.permissions import judging
from acpbridge.permissions.judging import Book, Judging, Policy, combined
from acpbridge.permissions.rules.facts import Facts
from acpbridge.permissions.rules.load import parse
from acpbridge.permissions.rules.rulebook import ASK_EVERYTHING
from acpbridge.permissions.verdict import NO_MATCH, Ruling, Verdict

OPTIONS = (
    Option("allow", "Allow", OptionKind.ALLOW_ONCE),
    Option("reject", "Reject", OptionKind.REJECT_ONCE),
)
READ = ToolSubject(
    "call-1", "Read", ToolKind.READ, known_kind=True, raw_input={"path": "/shop/a.txt"}
)
ALLOWS = "rules: [{effect: allow, tool_kind: [read], path: '{root}/**'}]"
DENIES = "rules: [{effect: deny, tool_kind: [read], path: '**/.env'}]"
ASKS = "rules: [{id: no_match, effect: ask, tool_kind: [read]}]"
GRANT = Verdict(Ruling.ALLOW, "grant:1")

ASK, ALLOW, DENY = OnPermission.ASK, OnPermission.ALLOW, OnPermission.DENY


def request(
    subject: ToolSubject = READ,
    rule: OnPermission = ASK,
    *,
    turn: str | None = "turn-1",
    root: str = "/shop",
) -> PermissionRequest:
    ask = PermissionAsk(subject, OPTIONS)
    return PermissionRequest("q1", SessionKey.main(MAIN), turn, rule, ask, roots=(root,))


def book(text: str) -> Any:
    return parse(text, "policy.yaml", "/home/me")


def judge_of(
    text: str = "",
    granted: Verdict | None = None,
    *,
    broken: bool = False,
    seconds: float = 60,
) -> Judging:
    """Return a judge with the rules of a text."""
    return judge_by(book(text) if text else ASK_EVERYTHING, granted, broken, seconds)


def judge_by(
    rules: Book, granted: Verdict | None = None, broken: bool = False, seconds: float = 60
) -> Judging:
    async def current() -> Policy:
        return Policy(rules, broken=broken)

    return Judging(current, lambda _request, _facts: granted, seconds=seconds)


async def ruled(judge: Judging, one: PermissionRequest | None = None) -> tuple[Ruling, str]:
    verdict = await judge.judge(one or request())
    return verdict.effect, verdict.rule


# ---- What is merged ----


async def test_row_29_without_a_policy_everything_is_asked() -> None:
    assert await judge_of().judge(request()) == NO_MATCH


async def test_row_01_a_rule_allows_and_the_verdict_names_rule_and_policy() -> None:
    verdict = await judge_of(ALLOWS).judge(request())
    assert verdict == Verdict(Ruling.ALLOW, "policy:1", policy_sha256=book(ALLOWS).sha256)
    assert len(verdict.policy_sha256) == 64


async def test_a_run_that_asks_leaves_it_to_the_policy_and_one_that_denies_does_not() -> None:
    assert await ruled(judge_of(ALLOWS), request(rule=ASK)) == (Ruling.ALLOW, "policy:1")
    assert await ruled(judge_of(ALLOWS), request(rule=DENY)) == (Ruling.DENY, "run:deny")


async def test_a_run_that_allows_is_bound_by_what_the_policy_asks_and_denies() -> None:
    env = request(replace(READ, raw_input={"path": "/shop/.env"}), ALLOW)
    assert await ruled(judge_of(), request(rule=ALLOW)) == (Ruling.ALLOW, "run:allow")
    assert await ruled(judge_of(DENIES), request(rule=ALLOW)) == (Ruling.ALLOW, "run:allow")
    assert await ruled(judge_of(DENIES), env) == (Ruling.DENY, "policy:1")
    # A rule may have any name, also that of no rule.
    assert await ruled(judge_of(ASKS), request(rule=ALLOW)) == (Ruling.ASK, "no_match")


async def test_a_grant_allows_and_never_beats_a_rule_that_denies_or_asks() -> None:
    env = request(replace(READ, raw_input={"path": "/shop/.env"}))
    assert await ruled(judge_of("", GRANT)) == (Ruling.ALLOW, "grant:1")
    assert await ruled(judge_of(ALLOWS, GRANT)) == (Ruling.ALLOW, "policy:1")
    assert await ruled(judge_of(DENIES, GRANT), env) == (Ruling.DENY, "policy:1")
    assert await ruled(judge_of(ASKS, GRANT)) == (Ruling.ASK, "no_match")
    assert await ruled(judge_of("", GRANT), request(rule=DENY)) == (Ruling.DENY, "run:deny")


async def test_row_30_while_the_policy_is_broken_nothing_allows_and_what_it_denied_stays() -> None:
    env = request(replace(READ, raw_input={"path": "/shop/.env"}), ALLOW)
    broken = judge_of(DENIES, GRANT, broken=True)
    assert await ruled(broken, env) == (Ruling.DENY, "policy:1")
    assert await ruled(broken, request(rule=ALLOW)) == (Ruling.ASK, "policy:broken")
    assert await ruled(broken, request(rule=DENY)) == (Ruling.DENY, "run:deny")


DOUBTS: dict[str, Callable[[], PermissionRequest]] = {
    "outside_turn": lambda: request(turn=None),  # row 14
    "unknown_kind": lambda: request(replace(READ, kind=ToolKind.OTHER)),  # row 8
    "switch_mode": lambda: request(replace(READ, kind=ToolKind.SWITCH_MODE)),  # row 27
    "changed_since_announced": lambda: request(replace(READ, changed=("rawInput",))),  # row 9
}


@pytest.mark.parametrize("doubt", DOUBTS)
@pytest.mark.parametrize("rule", OnPermission)
async def test_rows_08_09_14_27_in_doubt_neither_run_nor_rule_nor_grant_allows(
    doubt: str, rule: OnPermission
) -> None:
    one = replace(DOUBTS[doubt](), run_rule=rule)
    everything = "rules: [{effect: allow, path: '/**'}, {effect: allow, path: '{root}/**'}]"
    expected = (Ruling.DENY, "run:deny") if rule is DENY else (Ruling.ASK, doubt)
    for found in (ALLOWS, everything, ""):
        assert await ruled(judge_of(found, GRANT), one) == expected


@pytest.mark.parametrize("doubt", DOUBTS)
async def test_rows_08_09_14_27_in_doubt_a_rule_still_denies(doubt: str) -> None:
    everything = "rules: [{effect: deny}]"
    assert await ruled(judge_of(everything), DOUBTS[doubt]()) == (Ruling.DENY, "policy:1")


verdicts = st.builds(Verdict, st.sampled_from(list(Ruling)), st.sampled_from(["a", "b"])) | st.just(
    NO_MATCH
)


@given(st.lists(verdicts, max_size=4), st.sampled_from([None, *DOUBTS]))
def test_g19_nothing_is_allowed_but_by_a_verdict_that_allows_and_by_none_that_does_not(
    found: list[Verdict], doubt: str | None
) -> None:
    one = request() if doubt is None else DOUBTS[doubt]()
    assert combined(one, found, doubt or "") == combined(one, found)
    verdict = combined(one, found)
    effects = {v.effect for v in found if v is not NO_MATCH}
    assert (verdict.effect is Ruling.ALLOW) == (doubt is None and effects == {Ruling.ALLOW})
    assert (verdict.effect is Ruling.DENY) == (Ruling.DENY in effects)


# ---- What the disk says ----


async def test_a_link_that_is_swapped_between_two_questions_is_looked_at_anew(
    tmp_path: Path,
) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "plain").touch()
    (tmp_path / "secret").touch()
    link = tmp_path / "root" / "link"
    one = request(replace(READ, raw_input={"path": str(link)}), root=str(tmp_path / "root"))
    judge = judge_of(ALLOWS)
    for target, effect in (("plain", Ruling.ALLOW), ("../secret", Ruling.ASK)) * 2:
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        assert (await judge.judge(one)).effect is effect, target


async def test_a_path_below_the_home_is_read_as_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    one = request(replace(READ, raw_input={"path": "~/.netrc"}))
    denied = "rules: [{effect: deny, tool_kind: [read], path: '~/.netrc'}]"
    assert await ruled(judge_of(denied), one) == (Ruling.DENY, "policy:1")


async def test_g19_a_link_in_the_place_of_the_sessions_directory_opens_nothing(
    tmp_path: Path,
) -> None:
    work, secret = tmp_path / "work", tmp_path / "secret"
    for directory in (work, secret):
        directory.mkdir()
        (directory / "a").touch()
    one = request(replace(READ, raw_input={"path": f"{work}/a"}), root=str(work))
    judge = judge_of(ALLOWS)
    assert await ruled(judge, one) == (Ruling.ALLOW, "policy:1")
    work.rename(tmp_path / "aside")
    work.symlink_to("secret")
    for _ in range(2):
        assert await ruled(judge, one) == (Ruling.ASK, "directory_moved")
    # Another session is another matter: a person has it work there as it is.
    other = replace(one, session=SessionKey.main(AgentId("other")))
    assert await ruled(judge, other) == (Ruling.ALLOW, "policy:1")
    work.unlink()
    (tmp_path / "aside").rename(work)
    assert await ruled(judge, one) == (Ruling.ALLOW, "policy:1")


async def test_directories_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "PLACES", 2)
    judge = judge_of()
    for root in ("/a", "/b", "/c"):
        await judge.judge(request(root=root))
    assert [root for _, root in judge._places] == ["/b", "/c"]


@pytest.mark.parametrize(
    ("own", "chosen", "effect"),
    [
        ("shop", None, Ruling.ALLOW),
        ("shop", ("shop",), Ruling.ALLOW),
        ("shop/below", ("other", "shop"), Ruling.ALLOW),
        ("shop", ("shop/below",), Ruling.ASK),
        ("shop_evil", ("shop",), Ruling.ASK),
        ("shop/away", ("shop",), Ruling.ASK),  # a link that leads out of it
        ("shop/none/..", ("shop",), Ruling.ASK),
        ("shop", (), Ruling.ASK),
    ],
)
async def test_g19_no_directory_that_an_agent_chose_for_its_child_has_anything_allowed(
    tmp_path: Path, own: str, chosen: tuple[str, ...] | None, effect: Ruling
) -> None:
    for name in ("shop/below", "shop_evil", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "shop" / "away").symlink_to("/")
    root = f"{tmp_path}/{own}"
    one = request(replace(READ, raw_input={"path": f"{tmp_path}/shop/a"}), ALLOW, root=root)
    rules = book("rules: [{effect: allow, tool_kind: [read], path: '/**'}]")

    async def current() -> Policy:
        return Policy(rules)

    def roots(_: SessionKey) -> tuple[str, ...] | None:
        return None if chosen is None else tuple(f"{tmp_path}/{name}" for name in chosen)

    verdict = await Judging(current, lambda *_: GRANT, roots).judge(one)
    assert verdict.effect is effect
    if effect is Ruling.ASK:
        assert verdict.rule == "directory_of_an_agents_choice"


# ---- What fails ----


@dataclass
class Scripted:
    """Rules that do something else first: a second implementation of `Book`."""

    does: Callable[[], None]
    calls: list[Facts] = field(default_factory=list)
    sha256: str = "ab" * 32

    def judge(self, facts: Facts) -> Verdict:
        self.calls.append(facts)
        self.does()
        return Verdict(Ruling.ALLOW, "policy:1")


def failed(rule: str) -> Verdict:
    return Verdict(Ruling.DENY, rule, Reason.JUDGE_FAILED)


def spend(seconds: float) -> None:
    """Use up processor time of this thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_row_31_a_rule_that_raises_denies_whatever_else_allows() -> None:
    def breaks() -> None:
        raise LookupError("a secret of the agent's")

    verdict = await judge_by(Scripted(breaks), GRANT).judge(request(rule=ALLOW))
    assert verdict == failed("error:rules")


async def test_row_31_rules_that_take_over_50_ms_of_the_processor_deny() -> None:
    slow = Scripted(lambda: spend(judging.RULE_SECONDS * 1.2))
    verdict = await judge_by(slow, GRANT).judge(request(rule=ALLOW))
    assert replace(verdict, policy_sha256="") == failed("error:slow_rules")
    assert verdict.policy_sha256 == slow.sha256
    assert len(slow.calls) == 2


async def test_row_31_what_was_slow_once_gets_a_second_look() -> None:
    waits = [judging.RULE_SECONDS * 1.2, 0.0]
    once = Scripted(lambda: spend(waits.pop(0)))
    assert (await judge_by(once).judge(request())).effect is Ruling.ALLOW
    assert waits == []


async def test_row_31_time_that_others_had_the_processor_does_not_count() -> None:
    patient = Scripted(lambda: time.sleep(judging.RULE_SECONDS * 3))
    assert (await judge_by(patient).judge(request())).effect is Ruling.ALLOW


async def test_row_31_a_disk_that_hangs_denies_and_holds_nobody_up() -> None:
    hangs: list[bool] = [True]

    def hang() -> None:
        while hangs:
            time.sleep(0.01)  # stands for a call into a disk that does not answer

    stuck = Scripted(hang)
    judge = judge_by(stuck, seconds=0.2)
    try:
        with anyio.fail_after(60):
            assert await judge.judge(request(rule=ALLOW)) == failed("error:timeout")
            async with anyio.create_task_group() as tasks:
                for _ in range(30):
                    tasks.start_soon(judge.judge, request(rule=ALLOW))
            # However many ask, no more threads are left behind than may be.
            assert len(stuck.calls) == 8
    finally:
        hangs.clear()


async def test_row_31_a_policy_that_cannot_be_looked_at_denies() -> None:
    async def current() -> Policy:
        raise OSError("no such device")

    verdict = await Judging(current).judge(request(rule=ALLOW))
    assert verdict == failed("error:rules")


async def test_row_31_a_grant_that_raises_denies() -> None:
    async def current() -> Policy:
        return Policy(ASK_EVERYTHING)

    def grants(_request: PermissionRequest, _facts: Facts) -> Verdict | None:
        raise KeyError("q1")

    assert await Judging(current, grants).judge(request()) == failed("error:rules")


async def test_a_judgement_that_is_cancelled_is_none() -> None:
    async def current() -> Policy:
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Judging(current, seconds=600).judge, request())
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert tasks.cancel_scope.cancelled_caught
