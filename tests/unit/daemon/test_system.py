"""Fault points are armed by the environment alone, and each is fatal once."""

import os
import signal

import pytest

from acpbridge.daemon.system import faults_from
from acpbridge.errors import BridgeError
from acpbridge.model.ports import no_faults


def test_without_an_armed_point_no_fault_ever_happens() -> None:
    assert faults_from({}) is no_faults
    assert faults_from({"ACPBRIDGE_FAULT": ""}) is no_faults


def test_the_nth_pass_of_an_armed_point_is_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr("acpbridge.daemon.system.os.kill", lambda *args: killed.append(args))
    passed = faults_from({"ACPBRIDGE_FAULT": "here:2"})
    passed("here")
    passed("there")
    assert killed == []
    passed("here")
    assert killed == [(os.getpid(), signal.SIGKILL)]
    passed("here")
    assert len(killed) == 1
    faults_from({"ACPBRIDGE_FAULT": "here"})("here")
    assert len(killed) == 2


@pytest.mark.parametrize("armed", ["here:x", "here:-1", "a:b:1"])
def test_a_point_that_is_armed_wrongly_is_an_error(armed: str) -> None:
    with pytest.raises(BridgeError, match="POINT:N"):
        faults_from({"ACPBRIDGE_FAULT": armed})
