"""No run is accepted that an agent would wait for while all places are held by who waits so."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from acpbridge.config.snapshot import Limits
from acpbridge.errors import BridgeError
from acpbridge.model.sessions import Outcome
from acpbridge.router.standstill import stands_still
from tests.unit.router.test_router import family
from tests.unit.router.world import World, agent_in, refused, world


@pytest.mark.parametrize(
    ("holders", "waits", "placeless", "still"),
    [
        ("", {}, "n", False),
        ("a", {"a": "n"}, "n", True),
        ("a", {}, "n", False),
        ("ab", {"a": "x", "b": "n"}, "xn", True),
        ("ab", {"a": "n"}, "n", False),
        ("ab", {"a": "b", "b": "n"}, "n", True),
        ("abc", {"a": "b", "b": "c", "c": "n"}, "n", True),
        ("abc", {"a": "b", "b": "n"}, "n", False),
        # A place is held by who is waited for, so it comes to its end.
        ("ab", {"a": "bn"}, "bn", False),
        # Who waits for itself does so for ever, but not for a place.
        ("a", {"a": "a"}, "", False),
    ],
)
def test_it_stands_still_where_every_holder_waits_for_one_without_a_place(
    holders: str, waits: Mapping[str, str], placeless: str, *, still: bool
) -> None:
    assert stands_still(holders, waits, placeless) is still


async def at_work(w: World, prompts: int) -> None:
    """Wait until agents have got so many prompts."""
    await w.diary.has("prompt wait", prompts)


async def test_a_chain_that_holds_every_place_gets_no_further_child(tmp_path: Path) -> None:
    """Without `_check_place` in `Accepting._new`: DID NOT RAISE, and all wait for ever."""
    async with world(tmp_path, limits=Limits(max_processes=2)) as w:
        top, child = await family(w, 1)
        before = len(w.made())
        await refused("capacity", w.run("say a", by=agent_in(child)))
        assert len(w.made()) == before
        # What nobody waits for begins once there is a place.
        later = await w.run("say b", by=agent_in(child), detached=True)
        w.agent(child).answer("end_turn")
        assert (await w.wait(later)).outcome is Outcome.COMPLETED
        assert not w.session(top).closed


async def test_the_last_of_two_parents_is_refused_and_by_that_the_first_goes_on(
    tmp_path: Path,
) -> None:
    """The first may hope for the place of the second, until that would wait as well."""
    async with world(tmp_path, limits=Limits(max_processes=2)) as w:
        one = (await w.run("wait", one_shot=True)).key
        two = (await w.run("wait", one_shot=True)).key
        await at_work(w, 2)
        first = await w.run("say a", by=agent_in(one))
        with pytest.raises(BridgeError, match=r"limits\.maxProcesses") as caught:
            await w.run("say b", by=agent_in(two))
        assert caught.value.code == "capacity"
        w.agent(two).answer("end_turn")
        assert (await w.wait(first)).outcome is Outcome.COMPLETED


async def test_a_session_without_a_process_is_not_taken_up_for_who_would_wait_for_ever(
    tmp_path: Path,
) -> None:
    """Without `_check_place` in `Accepting._known`: DID NOT RAISE."""
    async with world(tmp_path, limits=Limits(max_processes=1)) as w:
        (top,) = await family(w, 0)
        later = await w.run("say a", by=agent_in(top), detached=True)
        w.agent(top).answer("end_turn")
        await w.wait(later)
        await w.run("wait", key=top)
        await at_work(w, 2)
        await refused("capacity", w.run("say b", by=agent_in(top), key=later.key))
        assert w.session(later.key).turn is None


async def test_a_person_waits_for_a_place_whoever_holds_them(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_processes=1)) as w:
        (top,) = await family(w, 0)
        await refused("capacity", w.run("say a", by=agent_in(top)))
        mine = await w.run("say b")
        w.agent(top).answer("end_turn")
        assert (await w.wait(mine)).outcome is Outcome.COMPLETED
