"""Commands that the bridge runs for an agent: what they say, how they end, and whose they are."""

import json
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import pytest

from acpbridge.model.events import Event, Fact
from acpbridge.model.permission import Decision, PermissionAsk
from acpbridge.runtimes.terminal_output import MOST_KEPT
from acpbridge.runtimes.terminals import MOST_HELD, MOST_LIVE
from tests.integration import evil
from tests.integration.conftest import Observer
from tests.integration.terminal_talk import PYTHON, Talk, calls, creates, error_of, talking
from tests.unit.runtimes.scenarios import allow, deny

# ---- What it says, and how it ends ----


async def test_c20_c21_what_it_wrote_is_there_in_order_also_after_its_end(
    tmp_path: Path, observer: Observer
) -> None:
    code = "import os\nfor i in range(200): os.write(1 + i % 2, b'%d\\n' % i)\nraise SystemExit(7)"
    async with talking(tmp_path, observer) as talk:
        await talk.create(*PYTHON, "-c", code)
        (ended,) = await talk.says(calls("wait_for_exit"))
        found = await talk.output()
        assert ended == {"exitCode": 7, "signal": None}
        assert found["output"] == "".join(f"{i}\n" for i in range(200))
        assert found["truncated"] is False
        assert found["exitStatus"] == ended
        (notice,) = talk.notices("terminal_ended")
        assert (notice["exitCode"], notice["signal"]) == (7, None)
        assert not any("199" in str(event) for event in talk.notices("terminal_ended"))


@pytest.mark.parametrize("limit", [0, 1001, None])
async def test_case_83_the_newest_output_is_kept_within_the_agents_limit_and_ours(
    tmp_path: Path, observer: Observer, limit: int | None
) -> None:
    code = "import os\nfor i in range(64): os.write(1, 'é\\n'.encode() * 20000)\nprint('end')"
    async with talking(tmp_path, observer) as talk:
        await talk.create(*PYTHON, "-c", code, outputByteLimit=limit)
        await talk.says(calls("wait_for_exit"))
        found = await talk.output()
    whole = "é\n" * 20000 * 64 + "end\n"
    bound = min(MOST_KEPT, MOST_KEPT if limit is None else limit)
    kept = found["output"].encode()
    assert whole.encode().endswith(kept)
    assert bound - len(kept) in {0, 1}
    assert found["truncated"] is True


async def test_a_flood_of_100_mb_holds_up_nobody_and_fills_no_memory(
    tmp_path: Path, observer: Observer
) -> None:
    code = "import os\nfor i in range(100): os.write(1, b'x' * (1 << 20))"
    lags = []

    async def beat() -> None:
        while True:
            before = anyio.current_time()
            await anyio.sleep(0.005)
            lags.append(anyio.current_time() - before)

    async with talking(tmp_path, observer) as talk, anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        before = resident()
        await talk.create(*PYTHON, "-c", code)
        (ended,) = await talk.says(calls("wait_for_exit"))
        assert ended["exitCode"] == 0
        assert resident() - before < 40 << 20
        assert sorted(lags)[len(lags) // 2] < 0.1  # of the median: the machine may be busy
        assert len((await talk.output())["output"]) == MOST_KEPT
        tasks.cancel_scope.cancel()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


async def test_c21_a_killed_terminal_stays_and_everybody_who_waits_is_told(
    tmp_path: Path, observer: Observer
) -> None:
    async with talking(tmp_path, observer) as talk:
        await talk.create("sh", "-c", "echo up; exec sleep 3600")
        await talk.until(lambda found: found["output"] == "up\n")
        waits = [f"bg {calls('wait_for_exit')}"] * 5
        *ends, last = await talk.says(*waits, calls("kill"), "join", calls("kill"))
        assert sorted(map(str, ends)) == sorted(
            [*[str({"exitCode": None, "signal": "SIGTERM"})] * 5, "{}"]
        )
        assert last == {}
        found = await talk.output()
        assert found["output"] == "up\n"
        assert found["exitStatus"] == {"exitCode": None, "signal": "SIGTERM"}
        assert await talk.roles() == ["agent", "shim"]


async def test_a_kill_in_the_moment_of_the_end_is_no_error(
    tmp_path: Path, observer: Observer
) -> None:
    async with talking(tmp_path, observer) as talk:
        for _ in range(10):
            created, *rest = await talk.says(
                creates("true"),
                f"bg {calls('wait_for_exit')}",
                f"bg {calls('kill')}",
                "join",
                calls("output"),
                calls("release"),
            )
            assert "terminalId" in created
            assert not any("error" in answer for answer in rest)


async def test_a16_c21_a_released_terminal_is_over_and_its_id_is_nobodys(
    tmp_path: Path, observer: Observer
) -> None:
    async with talking(tmp_path, observer) as talk:
        await talk.create("sleep", "3600")
        assert await talk.roles() == ["agent", "shim", "shim", "terminal"]
        assert await talk.says(calls("release")) == [{}]
        assert await talk.roles() == ["agent", "shim"]
        for method in ("output", "wait_for_exit", "kill", "release"):
            (answer,) = await talk.says(calls(method))
            assert error_of(answer) == (-32002, "no_such_terminal")


async def test_row_13_a_terminal_is_its_own_sessions(tmp_path: Path, observer: Observer) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    async with talking(one, observer) as mine, talking(other, observer) as theirs:
        created = await mine.create("sleep", "3600")
        for method in ("output", "wait_for_exit", "kill", "release"):
            (answer,) = await theirs.says(calls(method, created["terminalId"]))
            assert error_of(answer) == (-32002, "no_such_terminal")
            wrong = json.dumps({"terminalId": created["terminalId"], "sessionId": "another"})
            (answer,) = await mine.says(f"call terminal/{method} {wrong}")
            assert error_of(answer) == (-32602, "invalid_params")
        assert "exitStatus" not in await mine.output()


async def test_the_ninth_at_once_is_refused_and_nobody_is_asked(
    tmp_path: Path, observer: Observer
) -> None:
    async with talking(tmp_path, observer) as talk:
        sleep = creates("sleep", "3600")
        await talk.says(*[sleep] * MOST_LIVE)
        assert len(talk.host.asks) == MOST_LIVE
        (answer,) = await talk.says(sleep)
        assert error_of(answer) == (-32003, "capacity")
        assert len(talk.host.asks) == MOST_LIVE
        assert (await talk.roles()).count("terminal") == MOST_LIVE
        await talk.says(calls("kill", "@TID3@"))
        assert "terminalId" in await talk.create("sleep", "3600")


async def test_those_that_are_asked_about_count_as_well(tmp_path: Path, observer: Observer) -> None:
    more = anyio.Event()

    async def wait(ask: PermissionAsk) -> Decision:
        await more.wait()
        return await deny(ask)

    async with talking(tmp_path, observer, wait) as talk, anyio.create_task_group() as tasks:
        lines = [f"bg {creates('true')}"] * MOST_LIVE
        tasks.start_soon(partial(talk.says, *lines, f"bg {creates('true')}"))
        await talk.host.until(lambda: "capacity" in talk.host.said)
        await talk.host.until(lambda: len(talk.host.asks) == MOST_LIVE)
        more.set()
        await talk.host.until(lambda: talk.host.said.count("permission_denied") == MOST_LIVE)
        assert talk.host.said.count("capacity") == 1


async def test_those_that_are_not_released_are_bounded(tmp_path: Path, observer: Observer) -> None:
    async with talking(tmp_path, observer) as talk:
        pair = creates("true"), calls("wait_for_exit")
        await talk.says(*pair * MOST_HELD)
        while (answer := await talk.create("true")) and "capacity" in str(answer):
            if "not released" in answer["error"]["message"]:
                break
        assert error_of(answer) == (-32003, "capacity")
        await talk.says(calls("release", "@TID0@"))
        assert "terminalId" in await talk.create("true")


# ---- Whose it is, and when it is over ----

EVIL = ("double", "bare", "deaf", "stopped", "renamed")

# Hides from its parent, its session and its environment, but ends when it is told to.
SHY = "setsid sh -c 'sleep 3600 & sleep 3600' & env -i sleep 3600 & echo up; wait"


async def evil_terminal(talk: Talk, observer: Observer) -> None:
    """Have a command run whose children hide and refuse, and wait until all are in place."""
    await talk.create(sys.executable, evil.__file__, observer.marker, *EVIL)
    await talk.until(lambda found: found["output"].count("\n") == len(EVIL) + 1)


async def shy_terminal(talk: Talk, _observer: Observer) -> None:
    """Have a command run whose children only hide."""
    await talk.create("sh", "-c", SHY)
    await talk.until(lambda found: found["output"] == "up\n")
    while [p.name for p in await talk.parent.processes(talk.key)].count("sleep") < 3:  # noqa: ASYNC110 - the kernel tells of nothing
        await anyio.sleep(0.02)


async def test_a_terminal_is_shown_counted_and_owned_with_its_session(
    tmp_path: Path, observer: Observer
) -> None:
    from acpbridge.controller.bounds import NO_BOUNDS

    async with talking(tmp_path, observer) as talk:
        alone = await talk.parent.usage(talk.key, NO_BOUNDS)
        await talk.create("sh", "-c", "sleep 3600 & setsid sleep 3600 & echo up; wait")
        await talk.until(lambda found: found["output"] == "up\n")
        both = await talk.parent.usage(talk.key, NO_BOUNDS)
        assert alone
        assert both
        assert both.processes == alone.processes + 3
        processes = await talk.parent.processes(talk.key)
        below = [p.pid for p in processes if p.role in {"terminal", "child"}]
        assert len(below) == 3
        for pid in below:
            assert await anyio.to_thread.run_sync(talk.parent.owner_of, pid) == talk.key


async def ends_by_release(talk: Talk) -> None:
    await talk.says(calls("release"))


async def ends_by_kill(talk: Talk) -> None:
    await talk.says(calls("kill"))


async def ends_at_once(talk: Talk) -> None:
    assert await talk.session.stop(0) == ()


async def ends_politely(talk: Talk) -> None:
    assert await talk.session.stop(0.05) == ()


async def ends_by_being_left(talk: Talk) -> None:
    assert talk.session.pid > 0  # and that is all


async def ends_by_the_agents_death(talk: Talk) -> None:
    os.kill(talk.session.pid, 9)
    await talk.session.died()


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (evil_terminal, ends_by_kill),
        (evil_terminal, ends_at_once),
        (shy_terminal, ends_by_release),
        (shy_terminal, ends_politely),
        (shy_terminal, ends_by_being_left),
        (shy_terminal, ends_by_the_agents_death),
    ],
)
async def test_g1_nothing_of_a_terminal_is_left_however_it_hid(
    tmp_path: Path,
    observer: Observer,
    start: Callable[[Talk, Observer], Awaitable[None]],
    end: Callable[[Talk], Awaitable[None]],
) -> None:
    async with talking(tmp_path, observer) as talk:
        await start(talk, observer)
        before = await talk.parent.processes(talk.key)
        assert len(before) > 6
        await end(talk)
        if end in {ends_by_release, ends_by_kill}:
            assert await talk.roles() == ["agent", "shim"]
            assert len(await talk.parent.alive(before)) == 2
        elif end in {ends_at_once, ends_politely}:
            assert await talk.parent.alive(before) == []
    assert observer.alive() == {}


async def test_g4_a_terminal_whose_shim_is_killed_is_over_and_its_session_goes_on(
    tmp_path: Path, observer: Observer
) -> None:
    async with talking(tmp_path, observer) as talk:
        await shy_terminal(talk, observer)
        processes = await talk.parent.processes(talk.key)
        (shim,) = [process.ppid for process in processes if process.role == "terminal"]
        os.kill(shim, 9)
        (ended,) = await talk.says(calls("wait_for_exit"))
        assert ended == {"exitCode": None, "signal": "SIGKILL"}
        await talk.settles("agent", "shim")
        assert (await talk.output())["output"] == "up\n"
        assert "terminalId" in await talk.create("true")


async def test_a_fault_of_ours_with_one_command_ends_no_session(
    tmp_path: Path, observer: Observer
) -> None:
    async with talking(tmp_path, observer) as talk:
        emit = talk.host.emit

        def fails(event: Event) -> None:
            if isinstance(event, Fact):
                raise RuntimeError("broken")
            emit(event)

        talk.host.emit = fails  # type: ignore[method-assign]
        await talk.create("sleep", "3600")
        talk.host.emit = emit  # type: ignore[method-assign]
        await talk.settles("agent", "shim")
        assert "terminalId" in await talk.create("true")


async def test_what_a_command_leaves_behind_is_ended_after_it(
    tmp_path: Path, observer: Observer
) -> None:
    async with talking(tmp_path, observer) as talk:
        await talk.create("sh", "-c", "setsid sleep 3600 & echo up")
        (ended,) = await talk.says(calls("wait_for_exit"))
        assert ended["exitCode"] == 0
        await talk.settles("agent", "shim")
        assert (await talk.output())["exitStatus"] == ended


async def test_a_cancel_ends_what_its_turn_has_started_and_starts_nothing_more(
    tmp_path: Path, observer: Observer
) -> None:
    async with talking(tmp_path, observer) as talk, anyio.create_task_group() as tasks:
        await talk.create("sleep", "3600")
        slow = creates("sh", "-c", "echo up; exec sleep 3600")
        late = f"bg {creates('touch', str(tmp_path / 'ran'))}"
        lines = ["on-cancel never", slow, calls("wait_for_exit"), late, "say over", "join"]
        tasks.start_soon(partial(talk.says, *lines))
        await talk.host.until(lambda: len(talk.notices("terminal_started")) == 2)
        talk.session.cancel()
        await talk.host.until(lambda: "over" in talk.host.said)
        await talk.host.until(lambda: "request_cancelled" in talk.host.said)
        await talk.settles("agent", "shim", "shim", "terminal")  # of the turn before
        assert len(talk.host.asks) == 2
    assert not (tmp_path / "ran").exists()


async def test_row_15_a_cancel_while_a_command_is_asked_about_lets_it_not_run(
    tmp_path: Path, observer: Observer
) -> None:
    """Also if the person says yes in the same moment."""
    go = anyio.Event()

    async def slowly(ask: PermissionAsk) -> Decision:
        await go.wait()
        return await allow(ask)

    async with talking(tmp_path, observer, slowly) as talk, anyio.create_task_group() as tasks:
        create = creates("touch", str(tmp_path / "ran"))
        tasks.start_soon(partial(talk.says, "on-cancel never", create, "say over"))
        await talk.host.until(lambda: talk.host.asks)
        talk.session.cancel()
        go.set()
        await talk.host.until(lambda: "over" in talk.host.said)
        assert "request_cancelled" in talk.host.said
        assert await talk.roles() == ["agent", "shim"]
    assert not (tmp_path / "ran").exists()


async def test_row_38_a_command_that_is_taken_back_while_it_is_asked_about_does_not_run(
    tmp_path: Path, observer: Observer
) -> None:
    async def never(_ask: PermissionAsk) -> Decision:
        await anyio.sleep_forever()
        raise AssertionError

    async with talking(tmp_path, observer, never) as talk, anyio.create_task_group() as tasks:
        create = f"bg {creates('touch', str(tmp_path / 'ran'))}"
        tasks.start_soon(partial(talk.says, create, "sleep 300", "withdraw", "join"))
        await talk.host.until(lambda: "-32800" in talk.host.said)
    assert not (tmp_path / "ran").exists()
