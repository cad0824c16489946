"""What the quick commands print: aligned, complete, and nothing that a terminal obeys."""

from typing import Any

import pytest

from acpbridge.cli import tables

AT = "2026-01-01T12:00:00.000Z"


def session(**fields: Any) -> dict[str, Any]:
    row = {
        "key": "agent:fake:acp:0",
        "agentId": "fake",
        "state": "running",
        "cwd": "/src",
        "createdAt": "2026-01-01T11:00:00.000Z",
        "turn": None,
        "queueDepth": 0,
        "pendingPermissions": 0,
        "mode": None,
        "asks": None,
        "bypass": False,
        "authSource": "unknown",
        "agentSessionId": "s",
        "lastError": None,
        "closeReason": None,
        "parentKey": None,
    }
    return {**row, **fields}


def process(pid: int, ppid: int, name: str = "agent", role: str = "child") -> dict[str, Any]:
    times = {"cpuSeconds": 1.25, "startedAt": "2026-01-01T11:59:00+00:00"}
    return {
        "pid": pid,
        "ppid": ppid,
        "name": name,
        "state": "sleeping",
        "role": role,
        **times,
        "rssBytes": 5 << 20,
    }


def status(**fields: Any) -> dict[str, Any]:
    daemon = {"pid": 1, "keeperPid": 2, "version": "0", "startedAt": AT, "home": "/h"}
    empty: dict[str, Any] = {"sessions": [], "unowned": [], "warnings": []}
    return {"daemon": daemon, **empty, "observedAt": AT, **fields}


def test_the_rules_in_force_are_shown_where_there_are_any_and_that_they_are_broken() -> None:
    policy = {"path": "/h/pol\x1bicy.yaml", "sha256": None, "rules": 0, "problem": None}

    def shown(**fields: Any) -> str:
        return tables.status_text(status(policy={**policy, **fields}))

    assert "policy" not in shown()
    assert "\npolicy /h/pol⟨U+001B⟩icy.yaml, 2 rules, sha256 abcdefabcdef\n" in shown(
        sha256="abcdef" * 10 + "abcd", rules=2
    )
    assert "1 rules, BROKEN, what denies is kept" in shown(rules=1, problem="no YAML")
    assert "policy" not in tables.status_text(status(daemon=None, policy=None))


def test_columns_are_aligned_and_the_last_is_not_padded() -> None:
    assert tables.columns([("a", "b"), ("long", "c")]) == ["a     b", "long  c"]
    assert tables.columns([]) == []


def test_sizes_are_short() -> None:
    sizes = (0, 1023, 1024, 5 << 20, 3 << 30, 2 << 40, 5 << 50)
    assert [tables.size(n) for n in sizes] == ["0B", "1023B", "1K", "5M", "3G", "2T", "5120T"]


def test_the_mode_says_whether_anybody_is_asked() -> None:
    assert tables.mode(session()) == "unknown (asking unknown)"
    assert tables.mode(session(mode="default", asks=True)) == "default (asks)"
    assert tables.mode(session(mode="auto", asks=False)) == "auto (does not ask)"
    assert "nobody is asked" in tables.mode(session(mode="yolo", asks=False, bypass=True))


def test_a_turn_says_what_it_waits_for_and_for_how_long() -> None:
    turn = {
        "state": "waiting",
        "waitsFor": "permission",
        "startedAt": "2026-01-01T11:59:00Z",
        "lastUpdateAt": "2026-01-01T11:59:50Z",
    }
    text = tables.turn(session(turn=turn), AT)
    assert text == "waiting 1m00s, waits for permission, last update 10s ago"
    quiet = {**turn, "lastUpdateAt": None}
    assert tables.turn(session(turn=quiet), AT) == "waiting 1m00s, waits for permission"
    assert tables.turn(session(), AT) == "-"


def test_a_tree_is_shown_child_below_parent_with_its_memory() -> None:
    rows = [
        process(10, 1, "shim", "shim"),
        process(11, 10, "agent", "agent"),
        process(12, 10, "lost"),
        process(13, 11, "tool"),
    ]
    lines = tables.tree_lines(rows, AT)
    assert [line.split()[0] for line in lines] == ["PID", "10", "11", "13", "12"]
    assert lines[3].startswith("13       tool (child)")
    assert "5M" in lines[1]
    assert tables.tree_lines([], AT) == ["no process"]


def test_a_tree_that_bites_its_tail_ends() -> None:
    rows = [process(10, 1), process(11, 12), process(12, 11)]
    assert len(tables.tree_lines(rows, AT)) >= 2


def test_status_shows_questions_errors_and_warnings() -> None:
    error = {"code": "agent_died", "message": "gone"}
    row = session(state="died", lastError=error, parentKey="agent:fake:acp:1", processes=[])
    asked = {"id": "q1", "sessionKey": row["key"], "kind": "execute", "title": "rm x"}
    other = {"id": "q2", "sessionKey": "another"}
    lost = [{"pid": pid, "name": "sleep", "reason": "marker", "next": "look"} for pid in (7, 8)]
    shown = status(sessions=[row], warnings=["beware"], unowned=lost)
    text = tables.status_text(shown, [asked, other])
    for part in ("died (agent_died)", "agent_died: gone", "agent:fake:acp:1", "warning: beware"):
        assert part in text
    assert "question q1" in text
    assert "execute: rm x" in text
    assert "q2" not in text
    assert "unowned  7  sleep  marker" in text
    assert text.count("  look") == 1


def test_an_interrupted_session_says_why_it_is() -> None:
    text = tables.status_text(status(sessions=[session(state="interrupted")]))
    assert "the daemon ended while a turn ran" in text


def test_without_a_daemon_or_a_session_it_is_said() -> None:
    assert tables.status_text(status(daemon=None)) == "no daemon runs"
    assert tables.status_text(status()).endswith("no live session")
    assert tables.sessions_text([], AT) == "no sessions"


def test_a_table_that_is_wider_than_the_terminal_becomes_paragraphs() -> None:
    rows = [session(key="agent:fake:acp:" + "0" * 36), session(cwd="/a/" + "b" * 60)]
    wide = tables.sessions_text(rows, AT).splitlines()
    assert wide[0].split() == ["KEY", "STATE", "AGE", "DIRECTORY"]
    assert tables.sessions_text(rows, AT, 200).splitlines() == wide
    for width in (40, 80):
        lines = tables.sessions_text(rows, AT, width).splitlines()
        assert lines[0] == rows[0]["key"]
        assert lines[1].startswith("  state running, age 1h00m, directory")
        assert all(len(line) <= max(width, len(rows[0]["key"])) for line in lines)
    assert tables.pruned_text([{"key": "k" * 50}], AT, 40).splitlines()[0] == "k" * 50


@pytest.mark.parametrize("width", [1, 5, 20, 80])
def test_a_text_of_any_length_hangs_at_any_width(width: int) -> None:
    text = "words and " + "x" * 90
    lines = tables.hanging(text, width, "    ")
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(len(line) <= max(width, 7) for line in lines)
    assert tables.hanging(text, 0, "    ") == ["    " + text]


def test_a_closed_session_says_why() -> None:
    assert tables.state(session(state="closed", closeReason="killed")) == "closed (killed)"


def test_case_98_a_start_shows_for_how_long_it_has_been_going_on() -> None:
    at = "2026-01-02T03:06:05+00:00"
    began = {"startedAt": "2026-01-02T03:04:35+00:00"}
    row = session(state="starting", createdAt="2026-01-01T00:00:00+00:00", turn=began)
    assert tables.state(row, at) == "starting (90 s)"
    first = session(state="starting", createdAt="2026-01-02T03:06:00+00:00", turn=None)
    assert tables.state(first, at) == "starting (5 s)"
    assert tables.state({"state": "starting"}, at) == "starting (-)"


def test_a_receipt_names_the_dead_and_the_living() -> None:
    dead = {"key": "k", "killed": [1, 2], "survivors": [], "tookMs": 9}
    left = {"key": "k", "killed": [], "survivors": [3], "tookMs": 9}
    text = tables.kill_text([dead, left])
    assert text == "k: killed 1, 2 in 9 ms; nothing is left\nk: killed no process in 9 ms; LEFT: 3"
    assert tables.kill_text([]) == "nothing runs"


def test_a_receipt_says_who_was_ended_with_another() -> None:
    rows = [{"key": key, "killed": [1], "survivors": [], "tookMs": 9} for key in ("top", "below")]
    text = tables.kill_text(rows, named=lambda key: key == "top")
    assert text.splitlines() == [
        "top: killed 1 in 9 ms; nothing is left",
        "below: killed 1 with the session that spawned it in 9 ms; nothing is left",
    ]


def test_what_is_longer_than_the_terminal_goes_on_at_a_word_and_indented() -> None:
    key = "agent:fake:acp:1deb563e-f13c-4127-a03e-bae67e9aec31"
    dead = {"key": key, "killed": list(range(100, 140)), "survivors": [], "tookMs": 9}
    warning = f"{key}: its processes hold 56 MiB of memory, and limits.maxRssMb is 60"
    error = {"code": "over_limit", "message": "It has 15 processes, which is too many, " * 3}
    shown = status(sessions=[session(lastError=error)], warnings=[warning])
    for text in (tables.kill_text([dead], 80), tables.status_text(shown, width=80)):
        lines = text.splitlines()
        assert max(map(len, lines)) <= 80
        assert any(line.startswith("  ") for line in lines)
    assert f"warning: {key}: its processes hold\n  56 MiB" in tables.status_text(shown, width=80)


def test_no_value_can_move_the_cursor() -> None:
    evil = "x\x1b[2J\r\n\u202e"
    row = session(
        **dict.fromkeys(("key", "state", "mode", "cwd", "agentSessionId", "closeReason"), evil),
        lastError={"code": evil, "message": evil},
        processes=[process(1, 0, evil, evil)],
    )
    shown = status(sessions=[row], warnings=[evil], unowned=[{"pid": 1, "name": evil}])
    text = tables.status_text(shown) + tables.sessions_text([row], AT)
    text += tables.kill_text([{"key": evil, "tookMs": 1}])
    assert text.replace("\n", "").isprintable()


def test_a_session_with_a_process_says_how_its_tree_is_held() -> None:
    """One that asked for a namespace is held otherwise than the daemon's line says."""
    text = tables.status_text(status(sessions=[session(processes=[], containment="pidns")]))
    assert "containment    pidns" in text
    text = tables.status_text(status(sessions=[session(processes=[], containment=None)]))
    assert "containment    " not in text
