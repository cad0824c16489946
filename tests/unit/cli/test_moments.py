"""Moments and lengths of time are told shortly, and nonsense is told as nothing."""

import time
from typing import Any

import pytest

from acpbridge.cli import moments

AT = "2026-01-01T12:00:00.000Z"


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        ("2026-01-01T11:59:58Z", "2s"),
        ("2026-01-01T11:58:55Z", "1m05s"),
        ("2026-01-01T09:58:55Z", "2h01m"),
        ("2025-12-30T09:00:00Z", "2d03h"),
        ("2026-01-01T12:00:05Z", "0s"),
        (None, "-"),
        ("nonsense", "-"),
        ("2026-01-01T11:59:58", "-"),
    ],
)
def test_an_age_is_short(since: Any, expected: str) -> None:
    assert moments.age(since, AT) == expected


def test_a_moment_is_the_local_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Vienna")
    time.tzset()
    try:
        assert moments.clock("2026-07-01T10:00:05.123+00:00") == "12:00:05"
        assert moments.clock("2026-07-01T10:00:05Z") == "12:00:05"
        for odd in (None, "", "yesterday", 5, "0001-01-01T00:00:00+14:00"):
            assert moments.clock(odd) == moments.NOTHING
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0.0s"), (9.94, "9.9s"), (10, "10s"), (61, "1m01s"), (3600, "1h00m"), (90_061, "1d01h")],
)
def test_durations_are_short(count: float, words: str) -> None:
    assert moments.seconds(count) == words


@pytest.mark.parametrize(
    ("now", "left"),
    [
        ("2026-01-01T00:04:58.6+00:00", "1 s"),
        ("2026-01-01T00:09:00+00:00", "0 s"),
        ("2025-12-30T23:00:00+00:00", "1 d 1 h"),
        ("whenever", ""),
    ],
)
def test_the_time_that_is_left_is_told_as_people_say_it(now: str, left: str) -> None:
    assert moments.time_left("2026-01-01T00:05:00+00:00", now) == left
