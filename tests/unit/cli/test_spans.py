"""How long and since when, as people write it."""

from datetime import UTC, datetime

import pytest

from acpbridge.cli.spans import Since, duration, since

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("30d", 2592000), ("4w", 2419200), ("1.5h", 5400)],
)
def test_a_length_of_time_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "10", "d", "-1d", "10y", "1e3s", "999999999w", "\uff11d", "1 d"]
)
def test_all_else_is_none(text: str) -> None:
    assert duration(text) is None


def test_a_log_begins_behind_a_number_or_so_long_ago_or_at_a_moment() -> None:
    assert since("12", NOW) == Since(after=12)
    assert since("10m", NOW) == Since(moment="2026-03-01T11:50:00.000+00:00")
    assert since("2026-01-31T12:00:00Z", NOW) == Since(moment="2026-01-31T12:00:00.000+00:00")
    assert since("2026-01-31T12:00:00+02:00", NOW) == Since(moment="2026-01-31T10:00:00.000+00:00")
    local = since("2026-01-31", NOW)
    assert local is not None
    assert datetime.fromisoformat(local.moment) == datetime(2026, 1, 31).astimezone()


@pytest.mark.parametrize("text", ["", "yesterday", "-3", "9" * 40, "0001-01-01T00:00+14:00"])
def test_what_nobody_can_read_is_no_moment(text: str) -> None:
    assert since(text, NOW) is None
