"""The real agents in the middle of a running shell command, and who is left when parts are killed.

All of them are at work at once on one daemon, each with a command that has a child in its group,
one in a session of its own and one that hides altogether. Who is left is judged from /proc. The
figures of all events stand in docs/reliability.md; `python -m tests.real.figures` makes them.
"""

from collections.abc import Iterator

import pytest

from tests.real.agents import EVERY
from tests.real.bridge import Bridge, bridge
from tests.real.events import EVENTS, Event
from tests.real.killing import Outcome, measure
from tests.real.workload import ROLES

pytestmark = [pytest.mark.real, pytest.mark.timeout(150)]

# What the user's `run` says, by what happened; the exit status of docs/cli.md.
KILLED, DIED, NO_DAEMON = 130, 6, 8


@pytest.fixture(scope="module")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """Give all tests one state directory; where its daemon was killed the next run starts one."""
    with bridge(tmp_path_factory.mktemp("killed"), *EVERY) as it:
        yield it


def events(**wanted: bool) -> list[Event]:
    return [e for e in EVENTS if e.always and all(getattr(e, k) == v for k, v in wanted.items())]


def words(event: Event) -> str:
    return event.id


def show(event: Event, outcome: Outcome) -> None:
    for agent, figure in outcome.agents.items():
        print(f"{event.id}, {agent}: {figure}")


def code_of(event: Event) -> int:
    if "daemon" in event.parts:
        return NO_DAEMON
    return DIED if event.parts else KILLED


@pytest.mark.parametrize("event", events(whole=True), ids=words)
def test_nothing_of_any_agent_is_left_and_its_user_is_told_g1_g3_g4_g5(
    event: Event, it: Bridge
) -> None:
    """G1, G3, G4, G5: with the guard's last kill loop deleted `hidden` is left of every agent."""
    outcome = measure(it, event)
    show(event, outcome)
    assert {agent: f.left for agent, f in outcome.agents.items()} == dict.fromkeys(EVERY, ())
    assert outcome.others == ()
    # The shim, the agent, the command and its three children: all of them were seen.
    assert all(figure.before >= 2 + len(ROLES) for figure in outcome.agents.values())
    assert {figure.code for figure in outcome.agents.values()} == {code_of(event)}


@pytest.mark.parametrize("event", events(sweep=True), ids=words)
def test_with_daemon_and_all_helpers_killed_at_once_the_next_start_ends_the_rest_g5(
    event: Event, it: Bridge
) -> None:
    outcome = measure(it, event)
    show(event, outcome)
    left = {agent: figure for agent, figure in outcome.agents.items() if figure.left}
    # Were nothing ever left, the sweep would not have been seen at work.
    assert left
    assert all(figure.swept_ms is not None for figure in left.values())
    assert {figure.code for figure in outcome.agents.values()} == {NO_DAEMON}


@pytest.mark.parametrize("event", events(lives_on=True), ids=words)
def test_status_shows_whatever_outlives_its_turn_and_a_kill_ends_it_g1_g7(
    event: Event, it: Bridge
) -> None:
    outcome = measure(it, event)
    show(event, outcome)
    assert all(figure.shown for figure in outcome.agents.values() if figure.left)
    assert any(figure.left for figure in outcome.agents.values())
