"""Which sessions are given up, decided from values alone."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.sessions import SessionState
from acpbridge.router.receipts import PruneRequest
from acpbridge.router.retention import DOUBTED, SETTLED, Candidate, believed, beyond, chosen

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = 86400.0


def candidate(days: float, state: SessionState = SessionState.IDLE, number: int = 0) -> Candidate:
    key = SessionKey.acp(AgentId("a"), UUID(int=(4 << 76) | (8 << 60) | number, version=4))
    return Candidate(key, state, NOW - timedelta(days=days))


def ages(found: list[Candidate]) -> list[float]:
    return [(NOW - candidate.last_used).total_seconds() / DAY for candidate in found]


def test_all_that_is_given_must_be_true() -> None:
    found = [candidate(days, number=days) for days in (1, 40, 20, 30)]
    found.append(candidate(50, SessionState.CLOSED, 50))
    assert ages(chosen(found, PruneRequest(), NOW)) == [50, 40, 30, 20, 1]
    assert ages(chosen(found, PruneRequest(older_than=25 * DAY), NOW)) == [50, 40, 30]
    assert ages(chosen(found, PruneRequest(keep=2), NOW)) == [50, 40, 30]
    assert ages(chosen(found, PruneRequest(keep=9), NOW)) == []
    only = PruneRequest(states=(SessionState.CLOSED,))
    assert ages(chosen(found, only, NOW)) == [50]
    both = PruneRequest(older_than=25 * DAY, keep=4, states=(SessionState.IDLE,))
    assert ages(chosen(found, both, NOW)) == []
    named = PruneRequest(keys=(str(found[0].key), "nobody"))
    assert ages(chosen(found, named, NOW)) == [1]


def test_what_was_used_exactly_so_long_ago_or_in_the_future_stays() -> None:
    found = [candidate(30), candidate(-400, number=1)]
    assert chosen(found, PruneRequest(older_than=30 * DAY), NOW) == []


@given(
    st.lists(st.tuples(st.floats(0, 1000), st.integers(0, 50)), max_size=20), st.integers(-5, 600)
)
def test_beyond_gives_up_no_more_than_it_must_and_the_oldest_first(
    rows: list[tuple[float, int]], surplus: int
) -> None:
    found = [candidate(days, number=n) for n, (days, _) in enumerate(rows)]
    sizes = {str(c.key): size for c, (_, size) in zip(found, rows, strict=True)}
    given_up = beyond(found, sizes, surplus)
    freed = [sizes[str(c.key)] for c in given_up]
    assert all(freed)
    assert sum(freed) >= surplus or len(given_up) == sum(size > 0 for _, size in rows)
    assert sum(freed[:-1]) < max(surplus, 1)
    kept = [c for c in found if c not in given_up and sizes[str(c.key)]]
    assert all(old.last_used <= young.last_used for old in given_up for young in kept)


def days(*ago: float) -> list[datetime]:
    return [NOW - timedelta(days=number) for number in ago]


def test_g27_a_stretch_without_any_use_is_doubted_until_there_was_a_week_of_use() -> None:
    year = timedelta(days=365)
    assert believed(NOW, []) == NOW
    assert believed(NOW, days(0, 3, 20, 200)) == NOW
    # The clock was put ten years ahead, just now or a few days ago.
    old = [moment - 10 * year for moment in days(0, 5, 9)]
    assert believed(NOW, old) == NOW - 10 * year
    assert believed(NOW, [*days(0, 2), *old]) == NOW - (10 * year - timedelta(days=2))
    # After a week of use it is believed, for it was a long pause.
    assert believed(NOW, [*days(0, 2, 7), *old]) == NOW
    # Two jumps are doubted both.
    older = [moment - 20 * year for moment in days(0, 5, 9)]
    far = [moment - 10 * year for moment in days(0, 1)]
    assert believed(NOW, [*days(0), *far, *older]) < NOW - 19 * year
    # Put back, it makes nothing old: what lies ahead is passed over.
    assert believed(NOW, [*days(-4000), *days(0, 10)]) == NOW


@given(st.lists(st.floats(-5000, 5000), max_size=20))
def test_g27_nothing_is_made_older_than_the_clock_says_and_a_jump_makes_nothing_old(
    used: list[float],
) -> None:
    times = days(*used)
    by = believed(NOW, times)
    assert by <= NOW
    past = [moment for moment in times if moment <= NOW]
    if past:
        ahead = believed(NOW + timedelta(days=9999), past)
        # Whatever was used last is, by the time that is believed, as fresh as before the jump.
        assert ahead - max(past) <= timedelta()
    assert SETTLED < DOUBTED
