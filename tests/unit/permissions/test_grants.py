"""Row 26: what a person allows always is a grant of ours: narrow, short-lived, on record."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.permission import (
    Decision,
    Effect,
    Lasts,
    OnPermission,
    Option,
    OptionKind,
    PermissionRequest,
    Reason,
    Source,
    ToolKind,
    ToolSubject,
)
from acpbridge.permissions import grants as grants_module
from acpbridge.permissions import scope as scope_module
from acpbridge.permissions.grants import Grants
from acpbridge.permissions.rules.facts import Facts, PathFact
from acpbridge.permissions.scope import scope_of
from acpbridge.permissions.verdict import NO_MATCH, Ruling, Verdict
from tests.unit.permissions.test_broker import (
    ONE,
    OPERATOR,
    OPTIONS,
    OTHER,
    TWO,
    Desk,
    SteppedClock,
    desk,
    disk_full,
    request,
)

ROOT = "/src"
PYTEST = {"command": ["pytest", "-q"], "cwd": ROOT}
EDIT = {"file_path": "/src/a.py", "old_string": "1", "new_string": "2"}


def command(raw: Any = PYTEST, **changes: Any) -> PermissionRequest:
    """A request to run something."""
    return call(ToolKind.EXECUTE, raw, **changes)


def edit(raw: Any = EDIT, **changes: Any) -> PermissionRequest:
    """A request to change a file."""
    return call(ToolKind.EDIT, raw, **changes)


def call(
    kind: ToolKind,
    raw: Any,
    id: str = "q1",
    *,
    subject: dict[str, Any] | None = None,
    **changes: Any,
) -> PermissionRequest:
    about = ToolSubject("call", "T", kind, known_kind=True, raw_input=raw)
    return replace(request(id, subject=replace(about, **subject or {})), roots=(ROOT,), **changes)


class MovingClock(SteppedClock):
    passed = 10.0

    def monotonic(self) -> float:
        return self.passed


async def granted(at: Desk, one: PermissionRequest) -> Decision:
    """Have a request allowed always by a person."""
    await at.open(one)
    return await at.answer(one.id, option_id="always")


def kinds(at: Desk) -> list[str]:
    return [record["kind"] for record in at.records()]


async def test_row_26_always_is_told_beforehand_then_once_to_the_agent_and_a_grant_here(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as at:
        await at.open(command())
        shown = at.asked[0].to_json()
        assert shown["always"] == "session"
        scope = "exactly `pytest -q` in /src, in this session"
        assert shown["grant"] == {"scope": scope, "seconds": 3600.0}
        decision = await at.answer(option_id="always")
        by = "operator:terminal"
        expected = Decision(Effect.ALLOW, "allow", Reason.OPERATOR, by, lasts=Lasts.SESSION)
        assert decision == expected == at.returned["q1"]
        await at.ask(command(id="q2"))
        assert at.returned["q2"] == Decision(Effect.ALLOW, "allow", Reason.RULE, "grant:q1")
        assert len(at.asked) == 1
        assert [grant.to_json() for grant in at.broker.grants()] == [
            {
                "id": "q1",
                "scope": scope,
                "sessionKey": "agent:one:main",
                "kind": "execute",
                "tool": None,
                "server": None,
                "argv": ["pytest", "-q"],
                "paths": None,
                "by": by,
                "madeAt": "2026-01-02T03:04:05+00:00",
                "expiresAt": "2026-01-02T04:04:05+00:00",
                "uses": 1,
            }
        ]


async def test_g20_a_grant_is_on_record_when_it_is_made_used_and_revoked(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await granted(at, command())
        await at.ask(command(id="q2"))
        [grant] = await at.broker.revoke(["q1"], OTHER)
        assert grant.id == "q1"
        await at.open(command(id="q3"))
        assert at.open_ids() == ["q3"]
        records = at.records()
        assert kinds(at) == [
            "permission_decided",
            "grant_made",
            "grant_used",
            "permission_decided",
            "grant_revoked",
        ]
        assert (records[0]["lasts"], records[0]["option_id"]) == ("session", "allow")
        assert [record["picked"] for record in (records[0], records[3])] == ["always", None]
        assert records[1]["decided_by"]["client_id"] == "terminal"
        assert (records[1]["argv"], records[1]["seconds"]) == (["pytest", "-q"], 3600.0)
        assert (records[2]["grant"], records[2]["request_uid"]) == ("q1", "q2")
        assert records[3]["rule_id"] == "grant:q1"
        assert records[4]["decided_by"]["client_id"] == "inbox"


async def test_row_26_what_a_grant_allows_is_denied_if_it_is_revoked_before_that_is_on_record(
    tmp_path: Path,
) -> None:
    """Without a second look at the grant: `Effect.ALLOW` for q2."""
    async with desk(tmp_path) as at:
        await granted(at, command())

        def revoked(point: str) -> None:
            if point == "permission.recorded":
                at.broker._grants.revoke("q1")

        at.at_point = revoked
        await at.ask(command(id="q2"))
        assert at.returned["q2"] == Decision(Effect.DENY, "reject", Reason.GRANT_ENDED)
        said = [(r["decision"], r["reason"]) for r in at.records()[3:]]
        assert said == [("allow", "rule"), ("deny", "grant_ended")]


async def test_row_26_a_grant_covers_an_edit_of_the_same_file_whatever_is_written(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as at:
        await granted(at, edit())
        await at.ask(edit({**EDIT, "old_string": "2", "new_string": "3"}, id="q2"))
        assert at.returned["q2"].by == "grant:q1"
        assert at.broker.grants()[0].scope.words() == "edit of exactly /src/a.py, in this session"


@pytest.mark.parametrize(
    "other",
    [
        command({"command": ["pytest", "-q", "-x"], "cwd": ROOT}),
        command({"command": ["pytest"], "cwd": ROOT}),
        command({"command": ["pytest", "-q"], "cwd": "/src/below"}),
        command({"command": ["pytest", "-q"]}),
        command({**PYTEST, "dangerouslyDisableSandbox": True}),
        command({**PYTEST, "env": {"A": "1"}}),
        command({"command": "pytest -q; id", "cwd": ROOT}),
        command(session=TWO),
        command(turn=None),
        command(subject={"tool": "Bash"}),
        command(subject={"server": "docs"}),
        command(subject={"source": Source.TERMINAL}),
        command(subject={"changed": ("rawInput",)}),
        command(subject={"known_kind": False}),
        command(subject={"kind": ToolKind.OTHER}),
        command(subject={"kind": ToolKind.READ}),
        command(run_rule=OnPermission.DENY),
    ],
)
async def test_g19_a_grant_of_a_command_covers_nothing_but_that(
    tmp_path: Path, other: PermissionRequest
) -> None:
    async with desk(tmp_path) as at:
        await granted(at, command())
        await at.open(replace(other, id="q2"))
        if other.run_rule is OnPermission.DENY:
            assert at.returned["q2"].by == "run:deny"
        else:
            assert at.open_ids() == ["q2"]


@pytest.mark.parametrize(
    "other",
    [
        edit({**EDIT, "file_path": "/src/b.py"}),
        edit({**EDIT, "file_path": "/src/A.py"}),
        edit({**EDIT, "file_path": "/src/x/../a.py"}),
        edit({**EDIT, "path": "/src/b.py"}),
        edit({**EDIT, "replace_all": True}),
        edit({**EDIT, "new_string": "/etc/passwd"}),
        edit(subject={"locations": ("/src/b.py",)}),
        edit(subject={"content": ({"type": "diff", "path": "/src/b.py"},)}),
        edit(subject={"kind": ToolKind.DELETE}),
        edit(session=TWO),
    ],
)
async def test_g19_a_grant_of_a_path_covers_nothing_but_that(
    tmp_path: Path, other: PermissionRequest
) -> None:
    async with desk(tmp_path) as at:
        await granted(at, edit())
        await at.open(replace(other, id="q2"))
        assert at.open_ids() == ["q2"]


async def test_a_move_the_other_way_is_another_one(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        way = {"source": "/src/a", "destination": "/src/b"}
        await granted(at, call(ToolKind.MOVE, way))
        back = {"source": "/src/b", "destination": "/src/a"}
        await at.open(call(ToolKind.MOVE, back, "q2"))
        assert at.open_ids() == ["q2"]


@pytest.mark.parametrize(
    "words",
    [
        "sh -c id",
        "bash -lc id",
        "/bin/bash -c id",
        "env A=1 id",
        "xargs rm",
        "sudo id",
        "npx thing",
        "uv run thing",
        "python -c pass",
        "python3.12 -c pass",
        "node -e 1",
        "find /src -exec id {} ;",
    ],
)
@pytest.mark.parametrize("as_list", [True, False])
async def test_row_26_what_runs_something_else_is_never_granted(
    tmp_path: Path, words: str, *, as_list: bool
) -> None:
    async with desk(tmp_path) as at:
        raw = {"command": words.split() if as_list else words}
        assert (await granted(at, command(raw))).lasts is Lasts.ONCE
        assert at.asked[0].to_json()["grant"] is None
        assert at.broker.grants() == []
        await at.open(command(raw, id="q2"))
        assert at.open_ids() == ["q2"]


@pytest.mark.parametrize("text", ["a | b", "a; b", "a > b", "a $X", "a `b`", "a\nb", "a && b"])
def test_row_26_shell_text_is_never_granted(text: str) -> None:
    assert scope_of(command({"command": text})) is None
    assert scope_of(command({"command": ["a", text]})) is None


@pytest.mark.parametrize(
    "doubtful",
    [
        command(None),
        command({}),
        command({"command": "pytest", "cmd": "pytest"}),
        command({"command": ["pytest"], "cwd": "below"}),
        command({"command": ["pytest"], "cwd": "/elsewhere"}),
        edit({"content": "no path"}),
        edit({"file_path": "/src/a\u202e.py"}),
        edit(None, subject={"locations": ("/src/a.py",)}),
        edit({"file_path": "/src/*.py"}),
        call(ToolKind.READ, EDIT),
        call(ToolKind.FETCH, {"url": "https://example.org/"}),
        call(ToolKind.THINK, {"path": "/src/a.py"}),
        call(ToolKind.SWITCH_MODE, {"path": "/src/a.py"}),
        call(ToolKind.OTHER, {"path": "/src/a.py"}),
        edit(subject={"known_kind": False}),
        edit(subject={"changed": ("kind",)}),
        edit(turn=None),
        edit({**EDIT, "file_path": "/src/" + "a" * 4000}),
    ],
)
async def test_row_26_what_is_not_certain_is_allowed_this_once_and_said_so(
    tmp_path: Path, doubtful: PermissionRequest
) -> None:
    async with desk(tmp_path) as at:
        await at.open(doubtful)
        assert (at.asked[0].grant, at.asked[0].always) == (None, Lasts.ONCE)
        confirm = "always" if doubtful.ask.subject.kind is ToolKind.SWITCH_MODE else None
        decision = await at.answer(option_id="always", confirm=confirm)
        assert (decision.option_id, decision.lasts) == ("allow", Lasts.ONCE)
        assert at.broker.grants() == []
        assert kinds(at) == ["permission_decided"]


async def test_row_26_what_a_rule_wants_asked_is_not_granted(tmp_path: Path) -> None:
    async def judge(request: PermissionRequest) -> Verdict:
        return Verdict(Ruling.ASK, "policy:3")

    async with desk(tmp_path, judge=judge) as at:
        assert (await granted(at, command())).lasts is Lasts.ONCE
        assert at.broker.grants() == []


async def test_row_26_an_option_that_names_a_mode_grants_nothing(tmp_path: Path) -> None:
    auto = Option("auto", "Auto", OptionKind.ALLOW_ALWAYS)
    one = command()
    async with desk(tmp_path) as at:
        await at.open(replace(one, ask=replace(one.ask, options=(auto, *OPTIONS))))
        decision = await at.answer(option_id="auto", confirm="auto")
        assert (decision.option_id, decision.lasts) == ("allow", Lasts.ONCE)
        assert at.broker.grants() == []


@pytest.mark.parametrize("forward", [True, False])
async def test_row_26_an_option_that_is_sent_as_it_is_lasts_by_the_agents_will(
    tmp_path: Path, *, forward: bool
) -> None:
    """With `forward_always`, or without exactly one `allow_once` to stand in."""
    one = command(forward_always=forward)
    options = OPTIONS if forward else (OPTIONS[0], OPTIONS[2])
    async with desk(tmp_path) as at:
        await at.open(replace(one, ask=replace(one.ask, options=options)))
        assert (at.asked[0].grant, at.asked[0].always) == (None, Lasts.AGENT)
        decision = await at.answer(option_id="always")
        assert (decision.option_id, decision.lasts) == ("always", Lasts.AGENT)
        assert at.broker.grants() == []
        assert at.records()[0]["lasts"] == "agent"


async def test_a_rejection_that_lasts_is_told_as_one(tmp_path: Path) -> None:
    never = Option("never", "Never", OptionKind.REJECT_ALWAYS)
    async with desk(tmp_path) as at:
        await at.open(request(options=(*OPTIONS, never)))
        decision = await at.answer(option_id="never")
        assert (decision.effect, decision.lasts) == (Effect.DENY, Lasts.AGENT)


async def test_where_nothing_lasts_is_offered_nothing_is_said_of_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        one = command()
        await at.open(replace(one, ask=replace(one.ask, options=OPTIONS[1:])))
        assert (at.asked[0].grant, at.asked[0].always) == (None, None)
        assert (await at.answer(option_id="allow")).lasts is Lasts.ONCE
        assert at.broker.grants() == []


async def test_g27_a_grant_expires_by_the_clock_that_no_jump_moves(tmp_path: Path) -> None:
    clock = MovingClock()
    async with desk(tmp_path, grants=Grants(clock, lambda: 60.0)) as at:
        await granted(at, command())
        clock.now = clock.now.replace(year=2027)
        clock.passed += 59
        await at.ask(command(id="q2"))
        assert at.returned["q2"].by == "grant:q1"
        clock.passed += 1
        await at.open(command(id="q3"))
        assert at.open_ids() == ["q3"]
        await at.broker.tell()
        record = at.records()[-1]
        assert (record["kind"], record["grant"]) == ("grant_expired", "q1")
        assert record["reason"] == "expired"


@pytest.mark.parametrize(
    ("reason", "why"), [(Reason.CANCELLED, "session_ended"), (Reason.AGENT_DIED, "agent_died")]
)
async def test_row_26_a_grant_ends_with_its_session(
    tmp_path: Path, reason: Reason, why: str
) -> None:
    async with desk(tmp_path) as at:
        await granted(at, command())
        await granted(at, command(id="q2", session=TWO))
        at.broker.withdraw(ONE, Reason.CANCELLED, "turn-1")
        assert len(at.broker.grants()) == 2
        at.broker.withdraw(ONE, reason)
        assert [grant.id for grant in at.broker.grants()] == ["q2"]
        await at.broker.tell()
        assert at.records()[-1]["reason"] == why
        at.broker.stop()
        assert at.broker.grants() == []


async def test_g20_without_a_record_there_is_no_grant(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(command())
        seen: list[str] = []

        def fail_second(point: str) -> None:
            seen.append(point)
            if seen.count("audit.write") > 1:
                disk_full(point)

        at.at_point = fail_second
        decision = await at.answer(option_id="always")
        assert (decision.effect, decision.lasts) == (Effect.ALLOW, Lasts.ONCE)
        assert at.broker.grants() == []


async def test_g20_row_32_a_use_that_cannot_be_recorded_is_a_denial(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await granted(at, command())
        at.at_point = disk_full
        await at.ask(command(id="q2"))
        assert at.returned["q2"] == Decision(Effect.DENY, "reject", Reason.AUDIT_FAILED)


async def test_what_was_taken_back_while_it_was_granted_is_not_in_force(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(command())
        passed: list[str] = []

        def cancel(point: str) -> None:
            passed.append(point)
            if passed.count("permission.recorded") == 2 and point == "permission.recorded":
                at.broker.withdraw(ONE, Reason.CANCELLED, "turn-1")

        at.at_point = cancel
        decision = await at.answer(option_id="always")
        assert decision.effect is Effect.CANCEL
        assert at.broker.grants() == []
        assert kinds(at) == [
            "permission_decided",
            "grant_made",
            "permission_decided",
            "grant_expired",
        ]


async def test_g19_a_grant_that_ends_while_a_request_is_judged_allows_nothing(
    tmp_path: Path,
) -> None:
    go = anyio.Event()
    grants = Grants(SteppedClock())

    async def judge(request: PermissionRequest) -> Verdict:
        verdict = grants.verdict(request)
        if verdict is not None:
            await go.wait()
        return verdict or NO_MATCH

    async with desk(tmp_path, judge=judge, grants=grants) as at:
        await granted(at, command())
        await at.open(command(id="q2"))
        await at.broker.revoke(["q1"], OPERATOR)
        go.set()
        await anyio.wait_all_tasks_blocked()
        assert at.open_ids() == ["q2"]
        assert at.returned.keys() == {"q1"}


async def test_row_17_a_grant_answers_no_question_that_is_open(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(command(), command(id="q2"))
        await at.answer("q1", option_id="always")
        await anyio.wait_all_tasks_blocked()
        assert at.open_ids() == ["q2"]
        await at.answer("q2", option_id="always")
        assert [grant.id for grant in at.broker.grants()] == ["q2"]
        assert at.records()[-1]["reason"] == "replaced"


async def test_to_revoke_what_is_not_in_force_is_an_error_and_the_rest_is_revoked(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as at:
        await granted(at, command())
        with pytest.raises(BridgeError, match="No grant is in force as 'nothing'") as caught:
            await at.broker.revoke(["nothing", "q1", "q1"], OPERATOR)
        assert caught.value.code == "no_such_grant"
        assert caught.value.data == {"revoked": ["q1"], "unknown": ["nothing"]}
        assert at.broker.grants() == []


async def test_beyond_a_number_of_grants_always_is_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grants_module, "PER_SESSION", 1)
    monkeypatch.setattr(grants_module, "IN_ALL", 2)
    async with desk(tmp_path) as at:
        made = []
        for id, session in (("q1", ONE), ("q2", ONE), ("q3", TWO)):
            made.append((await granted(at, command({"command": id}, id=id, session=session))).lasts)
        last = command({"command": "q4"}, id="q4", session=SessionKey.main(AgentId("three")))
        made.append((await granted(at, last)).lasts)
        assert made == [Lasts.SESSION, Lasts.ONCE, Lasts.SESSION, Lasts.ONCE]


def test_a_scope_that_nobody_would_read_cannot_be_granted() -> None:
    fits = "a" * (scope_module.LONGEST // 2)
    assert scope_of(command({"command": ["echo", fits]})) is not None
    assert scope_of(command({"command": ["echo", fits * 2]})) is None


def test_a_link_that_leads_elsewhere_by_now_is_another_path() -> None:
    """What the judge found on the disk is compared too."""
    grants = Grants(SteppedClock())
    before, after = (
        Facts("one", kind=ToolKind.EDIT, paths=(PathFact("/src/a", to),))
        for to in ("/src/a", "/etc/passwd")
    )
    scope = scope_of(edit({"path": "/src/a"}), before)
    assert scope is not None
    grants.put(grants.make("q1", scope, "x", 60.0))
    assert grants.verdict(edit({"path": "/src/a"}), before) == Verdict(Ruling.ALLOW, "grant:q1")
    assert grants.verdict(edit({"path": "/src/a"}), after) is None


def test_a_path_that_leads_nobody_knows_where_cannot_be_granted() -> None:
    paths = (PathFact("/src/a", "/src/a"), PathFact("/src/b", None))
    assert scope_of(edit({"path": "/src/a"}), Facts("one", kind=ToolKind.EDIT, paths=paths)) is None


async def test_what_ended_is_told_once_and_with_a_full_disk_later(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        for id, text in (("q1", "ls"), ("q2", "make")):
            await granted(at, command({"command": text}, id=id))
        at.broker.withdraw(ONE, Reason.CANCELLED)
        at.at_point = disk_full
        at.log.clear()
        await at.broker.tell()
        assert at.log.count("audit.write") == 1  # it is not tried for each of them
        at.at_point = None
        for _ in range(2):
            await at.broker.tell()
        told = [record["grant"] for record in at.records() if record["kind"] == "grant_expired"]
        assert told == ["q1", "q2"]


async def test_what_ended_is_told_once_by_however_many(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await granted(at, command())
        at.broker.withdraw(ONE, Reason.CANCELLED)
        async with anyio.create_task_group() as both:
            both.start_soon(at.broker.tell)
            both.start_soon(at.broker.tell)
        assert kinds(at).count("grant_expired") == 1
