"""Places: held, waited for in order, and given up by whoever was idle the longest."""

from dataclasses import dataclass, field

import anyio
import anyio.lowlevel

from acpbridge.router.places import Places


@dataclass(eq=False)
class Holder:
    since: float | None = None
    told: int = 0
    order: list[str] = field(default_factory=list)

    def idle_since(self) -> float | None:
        return self.since

    def give_way(self) -> None:
        self.told += 1


async def test_there_are_as_many_places_as_the_limit_says_now() -> None:
    limit = [2]
    places = Places(lambda: limit[0])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            holders = [Holder() for _ in range(5)]
            for holder in holders[:2]:
                await places.acquire(holder)
            for holder in holders[2:]:
                tasks.start_soon(places.acquire, holder)
            await anyio.wait_all_tasks_blocked()
            assert places.taken == 2
            limit[0] = 4
            places.check()
            assert places.taken == 4
            places.release(holders[0])
            assert places.taken == 4
            places.release(holders[1])
            assert places.taken == 3


async def test_those_who_wait_are_served_in_order_and_nobody_pushes_in() -> None:
    places = Places(lambda: 1)
    first, served = Holder(), list[int]()

    async def wait(n: int) -> None:
        holder = Holder()
        await places.acquire(holder)
        served.append(n)
        await anyio.lowlevel.checkpoint()
        places.release(holder)

    with anyio.fail_after(30):
        await places.acquire(first)
        async with anyio.create_task_group() as tasks:
            for n in range(5):
                tasks.start_soon(wait, n)
                await anyio.wait_all_tasks_blocked()
            places.release(first)
            await wait(5)
    assert served == [0, 1, 2, 3, 4, 5]
    assert places.taken == 0


async def test_the_longest_idle_gives_way_once_per_one_who_waits() -> None:
    places = Places(lambda: 3)
    busy, older, newer = Holder(), Holder(10.0), Holder(20.0)
    with anyio.fail_after(30):
        for holder in (busy, older, newer):
            await places.acquire(holder)
        async with anyio.create_task_group() as tasks:
            waiting = Holder()
            tasks.start_soon(places.acquire, waiting)
            await anyio.wait_all_tasks_blocked()
            places.check()  # somebody else becomes idle: one process on its way out is enough
            assert (older.told, newer.told, busy.told) == (1, 0, 0)
            tasks.start_soon(places.acquire, Holder())
            await anyio.wait_all_tasks_blocked()
            assert (older.told, newer.told, busy.told) == (1, 1, 0)
            places.release(older)
            places.release(newer)
        assert places.taken == 3


async def test_one_who_becomes_idle_later_gives_way_then() -> None:
    places, busy = Places(lambda: 1), Holder()
    with anyio.fail_after(30):
        await places.acquire(busy)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(places.acquire, Holder())
            await anyio.wait_all_tasks_blocked()
            assert busy.told == 0
            busy.since = 1.0
            places.check()
            assert busy.told == 1
            places.release(busy)


async def test_one_who_is_cancelled_holds_no_place_even_if_it_was_just_given() -> None:
    places, first = Places(lambda: 1), Holder()

    async def hold() -> None:
        holder = Holder()
        await places.acquire(holder)
        try:
            await anyio.sleep_forever()
        finally:
            places.release(holder)

    with anyio.fail_after(30):
        await places.acquire(first)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await anyio.wait_all_tasks_blocked()
            places.release(first)
            tasks.cancel_scope.cancel()
        assert places.taken == 0
        async with anyio.create_task_group() as tasks:
            await places.acquire(first)
            tasks.start_soon(places.acquire, Holder())
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        places.release(first)
        await places.acquire(Holder())
        assert places.taken == 1
