"""A short form of the seeded chaos: a daemon killed under load, and an observer that trusts nobody.

`python -m tests.chaos --seed N --seconds 4` replays one of them; without arguments it runs longer.
"""

import hashlib
import json
import os
import secrets
import signal
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.chaos import oracle, procs
from tests.chaos.book import Asked, Book
from tests.chaos.plan import make_plan
from tests.chaos.session import run
from tests.chaos.world import World

SECONDS = 4.0


def test_a_seed_gives_the_same_schedule_and_another_one_another() -> None:
    plan = make_plan(7, 45)
    assert plan == make_plan(7, 45)
    assert plan != make_plan(8, 45)
    kinds = [fault.kind for fault in plan]
    assert kinds.count("kill_daemon") >= 2
    assert kinds.count("stop_daemon") == 1
    assert [fault.at for fault in plan] == sorted(fault.at for fault in plan)


def test_the_observer_sees_what_was_executed_and_should_not_have_been() -> None:
    book = Book(
        asked={
            "allowed": Asked(truth=True, how="yes", allow_sent=True),
            "unasked": Asked(truth=True, how="yes"),
            "denied": Asked(truth=False, how="no", allow_sent=True),
        }
    )
    done = Counter(["allowed", "unasked", "denied", "unknown"])
    assert oracle.wrong_approvals(book, done) == ["unasked", "denied", "unknown"]


def test_the_observer_sees_a_grant_that_was_used_for_more_or_for_longer() -> None:
    def allowed(number: int, title: str, session: str = "s") -> dict[str, Any]:
        record = {"kind": "permission_decided", "decision": "allow", "rule_id": "grant:q"}
        return {**record, "request_uid": f"r{number}", "title": title, "session": session}

    made = {"kind": "grant_made", "grant": "q", "session": "s", "argv": ["G"]}
    over = {"kind": "grant_revoked", "grant": "q"}
    denied = {**allowed(4, "G"), "decision": "deny", "rule_id": "no_match"}
    good = [made, allowed(1, "G"), over, allowed(4, "G"), denied]
    assert oracle.misused_grants(good) == []
    assert oracle.granted(good) == 1
    for bad in ([allowed(1, "G")], [made, allowed(1, "H")], [made, allowed(1, "G", "t")]):
        assert len(oracle.misused_grants(bad)) == 1
    assert oracle.misused_grants([made, over, allowed(1, "G")]) == ["G by grant q"]


def test_the_observer_counts_requests_by_process_and_answers_by_request() -> None:
    agents = oracle.Agents()
    ask = {"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {}}
    agents.take("7.1", {"event": "sent", "bytes": json.dumps(ask) + "\n", "t": 0.0})
    for _ in range(2):
        agents.take("7.1", {"event": "line", "line": '{"jsonrpc":"2.0","id":1,"result":{}}'})
    assert agents.asked == {"7.1 1": 1}
    assert agents.answered == {"7.1 1": 2}


def test_the_observer_sees_an_audit_whose_line_was_changed(tmp_path: Path) -> None:
    with closing(World(tmp_path, Book())) as world:
        lines = []
        before = "0" * 64
        for number in (1, 2, 3):
            bare = f'{{"seq":{number},"prev_hash":"{before}"}}'
            before = hashlib.sha256(bare.encode()).hexdigest()
            lines.append(f'{bare[:-1]},"hash":"{before}"}}\n')
        path = tmp_path / "audit.jsonl"
        path.write_text("".join(lines), encoding="utf-8")
        assert oracle.broken_audit(world) == []
        path.write_text("".join([lines[0], lines[2]]), encoding="utf-8")
        assert len(oracle.broken_audit(world)) == 1
        path.write_text("".join(lines).replace('"seq":2', '"seq": 2'), encoding="utf-8")
        assert len(oracle.broken_audit(world)) == 1


def test_the_observer_finds_a_process_by_its_arguments_or_its_environment(tmp_path: Path) -> None:
    with closing(World(tmp_path, Book())) as world:
        commands = [(["sleep", "60"], {"X": world.mark}), ([world.mark, "60"], {})]
        started = [
            subprocess.Popen(argv, executable="/bin/sleep", env={"PATH": os.defpath} | env)
            for argv, env in commands
        ]
        found = {one.pid for one in world.ours()}
        for process in started:
            row = procs.row(process.pid)
            assert row is not None
            assert procs.send(row, signal.SIGKILL)
            process.wait()
        assert found == {process.pid for process in started}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("fresh", [False, True], ids=["a_known_seed", "a_fresh_seed"])
def test_nothing_is_left_lost_doubled_or_wrongly_allowed_under_chaos_g3_g4_g5_g15_g17_g19(
    fresh: bool,
) -> None:
    seed = secrets.randbelow(1_000_000) if fresh else 20
    print(f"replay: python -m tests.chaos --seed {seed} --seconds {SECONDS:g}")
    result = run(seed, SECONDS)
    assert result.broken == {}
    assert len(result.book.runs) > 8
    assert result.restarts >= 2
