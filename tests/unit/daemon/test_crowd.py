"""What agents may take of the control socket."""

import os
import subprocess
from contextlib import AsyncExitStack, ExitStack

import anyio

from acpbridge.daemon.crowd import CALLS_AT_ONCE, FOLLOWED, SHARE, WAITS_AT_ONCE, Crowd
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.requesters import Requester, Role

ONE = Requester(Role.AGENT, SessionKey.main(AgentId("one")), 1, 1, "c1")
TWO = Requester(Role.AGENT, SessionKey.main(AgentId("two")), 2, 1, "c2")
PERSON = Requester(Role.OPERATOR, None, 3, 1, "c3")


async def test_agents_have_a_part_of_the_places_and_none_of_the_narrow_way() -> None:
    """Without the comparison with `_most`: the fifth agent may stay."""
    crowd = Crowd(4 * SHARE)
    with ExitStack() as inside:
        assert not inside.enter_context(crowd.counted(ONE, narrow=True))
        for _ in range(4):
            assert inside.enter_context(crowd.counted(ONE, narrow=False))
        assert not inside.enter_context(crowd.counted(TWO, narrow=False))
        assert inside.enter_context(crowd.counted(PERSON, narrow=False))
        assert inside.enter_context(crowd.counted(PERSON, narrow=True))
    with crowd.counted(TWO, narrow=False) as welcome:
        assert welcome


async def test_of_what_a_session_asks_few_are_served_at_once_and_nobody_else_waits() -> None:
    """Without the semaphore: all are served at once."""
    crowd = Crowd(100)
    # Two connections of one session, one of another, one of a person.
    clients = [crowd.turnstile(who) for who in (ONE, ONE, TWO, PERSON)]
    async with AsyncExitStack() as served:
        for _ in range(CALLS_AT_ONCE):
            await served.enter_async_context(clients[0].serving("status"))
        with anyio.move_on_after(0.01) as patience:
            await served.enter_async_context(clients[1].serving("kill"))
        assert patience.cancelled_caught
        with anyio.fail_after(5):
            await served.enter_async_context(clients[1].serving("wait"))
            await served.enter_async_context(clients[1].serving("tool/send"))
            await served.enter_async_context(clients[2].serving("status"))
            for _ in range(CALLS_AT_ONCE + 1):
                await served.enter_async_context(clients[3].serving("status"))
    with anyio.fail_after(5):
        async with clients[1].serving("status"):
            pass


async def test_a_session_that_waits_for_what_it_started_can_still_end_it() -> None:
    """Without the actions that wait: the kill waits behind both waits."""
    mine = Crowd(100).turnstile(ONE)
    async with AsyncExitStack() as served:
        for action in ("wait", "send"):
            for _ in range(CALLS_AT_ONCE):
                await served.enter_async_context(mine.serving("tool/subagents", action))
        for method in ("tool/send", "tool/yield"):
            await served.enter_async_context(mine.serving(method))
        with anyio.fail_after(5):
            await served.enter_async_context(mine.serving("tool/subagents", "kill"))
            await served.enter_async_context(mine.serving("tool/subagents", ["list"]))
        with anyio.move_on_after(0.01) as patience:
            await served.enter_async_context(mine.serving("tool/subagents"))
        assert patience.cancelled_caught


async def test_who_waits_for_others_keeps_its_own_session_from_nothing() -> None:
    """Without room of their own: the third send waits for the first two, and so does a look."""
    crowd = Crowd(100)
    clients = [crowd.turnstile(who) for who in (ONE, ONE)]
    async with AsyncExitStack() as served:
        with anyio.fail_after(5):
            for number in range(WAITS_AT_ONCE):
                method = "tool/send" if number % 2 else "tool/subagents"
                await served.enter_async_context(clients[number % 2].serving(method, "wait"))
            for _ in range(CALLS_AT_ONCE):
                await served.enter_async_context(clients[1].serving("tool/agents"))
        with anyio.move_on_after(0.01) as patience:
            await served.enter_async_context(clients[1].serving("tool/yield"))
        assert patience.cancelled_caught


def test_an_agents_process_is_known_again_and_nobody_with_its_number_is() -> None:
    crowd, me = Crowd(100), os.getpid()
    crowd.remember(me, "agent:one:main", lambda: False)  # it is gone: the number may be another's
    assert crowd.known(me) is None
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as other:
        crowd.remember(me, "agent:one:main", lambda: True)
        assert crowd.known(me) == "agent:one:main"
        assert crowd.known(other.pid) is None
        assert other.stdin is not None
        other.stdin.close()


def test_g13_all_clients_of_a_session_follow_a_few_logs_together() -> None:
    """12800 followers of one session held everybody up for seconds at each of its events."""
    crowd = Crowd(100)
    mine, others, persons = (crowd.turnstile(who) for who in (ONE, TWO, PERSON))
    assert crowd.turnstile(ONE) is mine
    first, second = set(range(FOLLOWED - 1)), set[int]()
    with mine.passing(first), persons.passing(range(FOLLOWED)):
        assert not mine.full()
        with mine.passing(second):
            second.add(1)
            assert mine.full()
            assert not others.full()
            assert not persons.full()
        assert not mine.full()
