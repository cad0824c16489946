"""Fault points are armed by the environment of the daemon alone, and do what was asked once."""

import errno
import os
import signal

import pytest

from acpbridge.daemon.arming import SHORT, faults_from
from acpbridge.errors import BridgeError
from acpbridge.model.faults import POINTS, Kind, no_faults


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    done: list[tuple[int, int]] = []
    monkeypatch.setattr("acpbridge.daemon.arming.os.kill", lambda *args: done.append(args))
    return done


def test_without_an_armed_point_no_fault_ever_happens() -> None:
    assert faults_from({}) == (no_faults, [])
    assert faults_from({"ACPBRIDGE_FAULT": ""}) == (no_faults, [])


def test_the_nth_pass_of_an_armed_point_is_fatal(killed: list[tuple[int, int]]) -> None:
    passed, notices = faults_from({"ACPBRIDGE_FAULT": "audit.write:2"})
    assert ["for tests" in notice for notice in notices] == [True]
    passed("audit.write")
    passed("audit.sync")
    assert killed == []
    passed("audit.write")
    assert killed == [(os.getpid(), signal.SIGKILL)]
    passed("audit.write")
    assert len(killed) == 1
    faults_from({"ACPBRIDGE_FAULT": "audit.write"})[0]("audit.write")
    assert len(killed) == 2


def test_a_span_of_passings_meets_an_error_and_the_next_one_none() -> None:
    passed, _ = faults_from({"ACPBRIDGE_FAULT": "log.before_commit:2-3:enospc,audit.sync:1-:eio"})
    seen = list[int | None]()
    for _ in range(4):
        try:
            passed("log.before_commit")
            seen.append(0)
        except OSError as error:
            seen.append(error.errno)
    assert seen == [0, errno.ENOSPC, errno.ENOSPC, 0]
    for _ in range(3):
        with pytest.raises(OSError, match="armed at"):
            passed("audit.sync")


def test_a_write_is_cut_short_or_torn_which_kills_at_the_next_point(
    killed: list[tuple[int, int]],
) -> None:
    passed, _ = faults_from({"ACPBRIDGE_FAULT": "audit.write:1:short,journal.write:1:torn"})
    assert [passed("audit.write"), passed("audit.write")] == [SHORT, None]
    assert passed("journal.write") == SHORT
    assert killed == []
    passed("log.forget")
    assert killed == [(os.getpid(), signal.SIGKILL)]


@pytest.mark.parametrize(
    "armed", ["nowhere:1", "audit.write:1:explode", "audit.written:1:eio", "audit.sync:1:short"]
)
def test_what_does_not_exist_arms_nothing_and_is_said(
    armed: str, killed: list[tuple[int, int]]
) -> None:
    faults, notices = faults_from({"ACPBRIDGE_FAULT": armed})
    assert faults is no_faults
    assert [armed in notice for notice in notices] == [True]
    assert killed == []


@pytest.mark.parametrize("armed", ["audit.write:x", "audit.write:-1", "a:b:1", "a:1:kill:2"])
def test_a_point_that_is_armed_wrongly_is_an_error(armed: str) -> None:
    with pytest.raises(BridgeError, match="POINT:N"):
        faults_from({"ACPBRIDGE_FAULT": armed})


def test_every_point_can_be_armed_with_all_that_makes_sense_there() -> None:
    for point, kind in POINTS.items():
        actions = {
            Kind.AFTER: ["kill"],
            Kind.BEFORE: ["kill", "enospc", "eio", "emfile", "enomem"],
            Kind.WRITE: ["kill", "enospc", "eio", "emfile", "enomem", "short", "torn"],
        }[kind]
        for action in actions:
            faults, notices = faults_from({"ACPBRIDGE_FAULT": f"{point}:1:{action}"})
            assert (faults is not no_faults, len(notices)) == (True, 1), point
