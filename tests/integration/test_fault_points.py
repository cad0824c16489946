"""G15, G17, G18: a daemon that is SIGKILLed at any point loses nothing that it has said or shown.

One state directory, one start after the other, each armed with the next point; what the judge looks
at is all that was ever shown in it. `ACPBRIDGE_SWEEP=1` kills at the first passings of each point,
in place of one.
"""

import os
from pathlib import Path

import pytest

from acpbridge.model.faults import POINTS, Kind
from tests.integration.daemon_home import Home, daemon_home
from tests.integration.faultsweep import (
    Scenario,
    judge,
    judge_ends,
    killed,
    last_session,
    loose,
    nobody_left,
    nursery,
    sessions,
)
from tests.integration.traffic import log_option

pytestmark = pytest.mark.timeout(900 if os.environ.get("ACPBRIDGE_SWEEP") else 120)

# Points that no ordinary life passes; each has a test of its own, named here.
ELSEWHERE = {
    "killed.note": "tests/unit/daemon/test_killed.py",
    "store.rescued": "tests/unit/store/test_rebuilding.py",
    "store.aside": "tests/unit/store/test_rebuilding.py",
    "store.replace": "tests/unit/store/test_rebuilding.py",
    "log.forget": "tests/unit/store/test_rebuilding.py",
    "log.reclaim": "tests/unit/store/test_rebuilding.py",
    "audit.recover": "tests/unit/permissions/test_audit_points.py",
    "audit.cut": "tests/unit/permissions/test_audit_points.py",
    "audit.link": "tests/unit/permissions/test_audit_files.py",
    "audit.replace": "tests/unit/permissions/test_audit_files.py",
    "logfile.turn": "tests/unit/test_logs.py",
    "file.write": "tests/unit/permissions/test_textfiles.py",
    "store.upgrade": "tests/unit/store/test_ledger.py",
    "file.sync": "tests/unit/permissions/test_textfiles.py",
    "file.rename": "tests/unit/permissions/test_textfiles.py",
    "file.renamed": "tests/unit/permissions/test_textfiles.py",
}

# The passing at which the scenario is under way: the first ones belong to the start.
UNDER_WAY = {
    "ledger.before_commit": 3,
    "ledger.after_commit": 4,
    "log.before_commit": 3,
    "log.after_commit": 3,
    "journal.write": 2,
    "journal.rename": 2,
    "journal.renamed": 2,
    "logfile.write": 2,
    "socket.send": 5,
    "socket.sent": 6,
    "agent.send": 4,
    "agent.sent": 4,
}
SWEEP = 12 if os.environ.get("ACPBRIDGE_SWEEP") else 0


def armings() -> list[str]:
    points = [point for point in POINTS if point not in ELSEWHERE]
    if SWEEP:
        whole = [f"{point}:{n}" for point in points for n in range(1, SWEEP + 1)]
        return whole + [f"{point}:{n}:torn" for point in TORN for n in range(1, SWEEP + 1)]
    torn = [f"{point}:{UNDER_WAY.get(point, 1)}:torn" for point in TORN]
    return [f"{point}:{UNDER_WAY.get(point, 1)}" for point in points] + torn


TORN = [point for point, kind in POINTS.items() if kind is Kind.WRITE and point not in ELSEWHERE]


def test_g17_a_kill_at_any_point_loses_nothing_that_was_shown(tmp_path: Path) -> None:
    """Shown before the commit in `Writer._store`: `AssertionError: {'seq': 6, ...}`, not stored."""
    with daemon_home(tmp_path) as home:
        home.configure(fake=(*log_option(home), "--memory", str(home.path / "memory")))
        survived = _sweep(home)
    if SWEEP:
        print("never reached:", survived)
    else:
        assert survived == [], "these points were not reached"


def _sweep(home: Home) -> list[str]:
    """Kill a daemon at each point and judge what is left; return the points it did not pass."""
    shown: list[dict[str, object]] = []
    accepted: list[str] = []
    survived = []
    with nursery(home) as daemons:
        for number, arming in enumerate(armings()):
            session = last_session(home)
            status = daemons.start(arming)
            if status is None:
                judge(home, shown, accepted)
                over = Scenario(home, shown, accepted).play(f"nonce-{number}", session)
                if over:
                    survived.append(arming)
                    assert home.run("daemon", "stop").code == 0
                status = daemons.ended()
            assert killed(status) or status == 0, (arming, status)
            assert loose(home) == [], (arming, "case 88: under a umask of 000, at any moment")
            nobody_left(home)
        assert daemons.start() is None
        for key in sessions(home):
            Scenario(home, shown, accepted).open_log(key)
        judge(home, shown, accepted)
        judge_ends(home, accepted)
        assert home.run("daemon", "stop").code == 0
        assert daemons.ended() == 0
    assert len(shown) > len(armings()), "the scenario shows something each time"
    return survived
