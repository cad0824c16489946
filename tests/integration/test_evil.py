"""Children of every evil kind, under every containment: after a kill nobody lives, and it says so.

G1, G2, G6, G8: judged by what the children themselves said of their pids, and by /proc.
"""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from acpbridge.controller.cgroups import Cgroups
from acpbridge.controller.containment import CGROUP2, PIDNS, SHIM, Hold, ShimContainment
from acpbridge.errors import BridgeError
from acpbridge.transport.child import Keeper
from acpbridge.transport.helpers import kernel, killing
from acpbridge.transport.tree import Child, ChildSpec
from tests.integration import evil
from tests.integration.conftest import descendants

if TYPE_CHECKING:
    from tests.integration.conftest import Observer

HANG = 60  # seconds; everything here takes milliseconds

# Those that say so themselves: what a chain or a tracer has above it does not.
QUIET = {"vforked": evil.CHAIN - 1, "traced": 1, "terminal": 0, "respawner": 1}
KINDS = [kind for kind in evil.KINDS if kind not in {"bomb", "frozen"}]
HOLDS = [SHIM, CGROUP2, PIDNS]


@pytest.fixture(params=HOLDS)
def hold(request: pytest.FixtureRequest, tmp_path: Path) -> Hold:
    """Each way to hold a tree that this machine has."""
    return hold_of(request.param, tmp_path)


def hold_of(name: str, tmp_path: Path) -> Hold:
    groups = Cgroups.find(tmp_path)
    if name == CGROUP2 and groups is None:
        pytest.skip("no writable cgroup v2 hierarchy is mounted here")
    return ShimContainment(groups).hold(name)


def spec(observer: "Observer", hold: Hold, *kinds: str, linger: float = 5.0) -> ChildSpec:
    argv = (sys.executable, "-I", "-S", evil.__file__, observer.marker, *kinds)
    env = {"MARK": observer.marker}
    return ChildSpec(argv, env, "/", linger, cgroup=hold.folder, pidns=hold.name == PIDNS)


async def spawn(keeper: Keeper, wanted: ChildSpec) -> Child:
    try:
        return await keeper.spawn(wanted)
    except BridgeError as error:
        if error.data.get("step") == "pidns":
            pytest.skip(f"no pid namespaces: {error.message}")
        raise


async def said(child: Child, lines: int) -> dict[str, int]:
    """Return who said that it is in place, with its own word for its pid."""
    heard = b""
    while heard.count(b"\n") < lines:
        heard += await child.stdout.receive()
    words = [line.split() for line in heard.decode().splitlines()]
    return {kind: int(pid) for kind, pid in words}


@asynccontextmanager
async def evil_tree(
    observer: "Observer", hold: Hold, *kinds: str
) -> AsyncIterator[tuple[Keeper, Child, dict[int, int]]]:
    """A keeper with an evil tree all in place: also who is in it, pid and start ticks, by /proc."""
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            child = await spawn(keeper, spec(observer, hold, *kinds))
            await said(child, 1 + len(kinds) + ("terminal" in kinds))
            tree = started(child.shim.pid)
            try:
                yield keeper, child, tree
            finally:  # a test that fails leaves nobody either
                for pid, ticks in tree.items():
                    killing.send_signal(pid, ticks, signal.SIGKILL)
    if hold.cgroup is not None:
        hold.release()
        assert not Path(hold.folder).exists()


def started(top: int) -> dict[int, int]:
    rows = (kernel.read_process(pid) for pid in descendants(top))
    return {row.pid: row.start_ticks for row in rows if row is not None}


def left_of(tree: dict[int, int]) -> list[str]:
    """Return the rows of those that /proc still has, zombies included."""
    rows = (kernel.read_process(pid) for pid in tree)
    return [repr(row) for row in rows if row is not None and tree[row.pid] == row.start_ticks]


async def test_g1_a_kill_reaches_children_of_every_evil_kind(
    observer: "Observer", hold: Hold
) -> None:
    """G1, G2, G8: the receipt names all of them, and none is left, not even as a zombie."""
    async with evil_tree(observer, hold, *KINDS) as (_, child, tree):
        assert len(tree) >= len(KINDS) + 1
        lived = {row.pid for row in kernel.tree_of(child.shim.pid)}
        receipt = await child.stop(0)
        assert left_of(tree) == []
        assert receipt.survivors == ()
        assert lived <= set(receipt.killed)
        assert child.exit is not None
        assert observer.alive() == {}


async def test_g1_term_and_grace_do_not_help_the_deaf_and_the_stopped(
    observer: "Observer", hold: Hold
) -> None:
    async with evil_tree(observer, hold, "deaf", "stopped", "traced") as (_, child, tree):
        receipt = await child.stop(0.05, term_wait=0.05)
        assert left_of(tree) == []
        assert receipt.survivors == ()


async def test_g1_a_fork_bomb_is_over_in_one_kill(observer: "Observer", hold: Hold) -> None:
    async with evil_tree(observer, hold, "bomb") as (_, child, _):
        receipt = await child.stop(0)
        assert observer.alive() == {}
        assert receipt.survivors == ()


@pytest.mark.parametrize("role", ["shim", "keeper", "guard"])
async def test_g4_an_agent_that_kills_who_holds_it_ends_with_all_its_children(
    observer: "Observer", role: str, tmp_path: Path
) -> None:
    """G1, G4: the one above it sweeps, and the next agent starts."""
    for name in (SHIM, CGROUP2):
        hold = hold_of(name, tmp_path)
        async with evil_tree(observer, hold, *KINDS) as (keeper, child, tree):
            await child.stdin.send(f"strike {role}\n".encode())
            receipt = await child.wait_gone()
            await observer.wait_gone()
            assert receipt.survivors == ()
            await all_gone(tree)
            again = await keeper.spawn(ChildSpec(("/bin/cat",), {}, "/"))
            assert (await again.stop(0)).survivors == ()


async def all_gone(tree: dict[int, int]) -> None:
    """Wait for the last look of whoever sweeps; the caller sets the limit."""
    while left_of(tree):  # noqa: ASYNC110 - the kernel tells of no such event
        await anyio.sleep(0.005)


async def test_g1_an_agent_in_a_pid_namespace_cannot_reach_who_holds_it(
    observer: "Observer", tmp_path: Path
) -> None:
    async with evil_tree(observer, hold_of(PIDNS, tmp_path), "double") as (_, child, tree):
        await child.stdin.send(b"strike shim\n")  # in there that is process 1, which is immune
        await child.stdin.send(b"exit 3\n")
        assert str(await child.wait_exit()) == "exit code 3"
        assert len(left_of(tree)) >= 2
        child.kill()
        await child.wait_gone()
        assert left_of(tree) == []


async def test_g1_all_helpers_killed_at_once_leave_nobody_in_a_control_group(
    observer: "Observer", tmp_path: Path
) -> None:
    """G5: who hid from tree and marker is still in the group.

    With no `cgroup` in `Child`: `observer.alive()` still has `double` and `bare`.
    """
    hold = hold_of(CGROUP2, tmp_path)
    assert hold.cgroup is not None
    try:
        async with evil_tree(observer, hold, *KINDS) as (keeper, child, tree):
            for helper in (keeper.guard, keeper.identity, child.shim):
                helper.signal(signal.SIGKILL)
            receipt = await child.wait_gone()
            assert observer.alive() == {}
            assert receipt.survivors == ()
            await all_gone(tree)
    finally:
        hold.cgroup.kill()


async def test_g1_a_frozen_control_group_is_killed_all_the_same(
    observer: "Observer", tmp_path: Path
) -> None:
    hold = hold_of(CGROUP2, tmp_path)
    async with evil_tree(observer, hold, "deaf", "frozen") as (_, child, tree):
        await child.stdin.send(b"now\n")
        assert hold.cgroup is not None
        events = f"{hold.folder}/cgroup.events"
        while b"frozen 1" not in kernel.read_file(events):  # noqa: ASYNC110 - no event to wait for
            await anyio.sleep(0.005)
        receipt = await child.stop(0.05, term_wait=0.05)
        assert left_of(tree) == []
        assert receipt.survivors == ()


async def test_g6_a_stranger_that_was_moved_into_the_group_is_put_out_and_lives(
    observer: "Observer", tmp_path: Path
) -> None:
    """Without the comparison with the tree in `Shim._kill_at_once`: the stranger is dead."""
    hold = hold_of(CGROUP2, tmp_path)
    async with (
        evil_tree(observer, hold, "double", "deaf") as (_, child, tree),
        await anyio.open_process(["/bin/cat"]) as stranger,
    ):
        assert stranger.stdin
        assert stranger.stdout
        Path(hold.folder, "cgroup.procs").write_text(str(stranger.pid), encoding="utf-8")
        receipt = await child.stop(0)
        assert receipt.survivors == ()
        assert stranger.pid not in receipt.killed
        assert left_of(tree) == []
        await stranger.stdin.send(b"alive\n")
        assert await stranger.stdout.receive() == b"alive\n"
        assert not Path(hold.folder).exists()
        await stranger.stdin.aclose()
        await stranger.wait()


async def test_g5_a_sweep_ends_what_is_in_the_groups_of_its_own_state_directory(
    observer: "Observer", tmp_path: Path
) -> None:
    """And in nobody else's; who sweeps is spared, should an agent have moved it in."""
    homes = [tmp_path / name for name in ("mine", "yours")]
    for home in homes:
        home.mkdir()
    mine, yours = (Cgroups.find(home) for home in homes)
    if mine is None or yours is None:
        pytest.skip("no writable cgroup v2 hierarchy is mounted here")
    ours, other = mine.make(), yours.make()
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            children = []
            for group in (ours, other):
                hold = Hold(CGROUP2, group)
                children.append(await keeper.spawn(spec(observer, hold, "deaf")))
                await said(children[-1], 2)
            ours.enter()
            killed = await anyio.to_thread.run_sync(mine.sweep)
            assert set(killed) >= {children[0].agent.pid}
            assert not Path(os.fsdecode(ours.path)).exists()
            assert children[1].agent.alive()
            assert [len(groups.left()) for groups in (mine, yours)] == [0, 1]
    assert other.remove()


async def test_g8_the_first_process_of_a_namespace_reaps_what_falls_to_it(
    observer: "Observer", tmp_path: Path
) -> None:
    async with evil_tree(observer, hold_of(PIDNS, tmp_path), "double", "bare") as (_, child, tree):
        agent = kernel.read_process(child.agent.pid)
        assert agent is not None
        fallen = [row for row in kernel.tree_of(agent.ppid) if row.ppid == agent.ppid]
        fallen = [row for row in fallen if row.pid != agent.pid]
        assert len(fallen) == 2
        for row in fallen:
            assert killing.send_signal(row.pid, row.start_ticks, signal.SIGKILL)
        with anyio.fail_after(HANG / 6):
            await all_gone({row.pid: tree[row.pid] for row in fallen})
        assert child.exit is None


async def test_g24_helpers_hold_their_channels_and_nothing_else(
    observer: "Observer", hold: Hold
) -> None:
    """G24: guard, keeper, shim and the first process of a namespace; and no environment."""
    secret = "G24_SECRET"
    os.environ[secret] = "nobody but this process"
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        async with evil_tree(observer, hold, "double") as (keeper, child, _):
            mine = open_files(os.getpid())[f"{write}"]
            agent = kernel.read_process(child.agent.pid)
            assert agent is not None
            helpers = {keeper.guard.pid, keeper.pid, child.shim.pid, agent.ppid}
            for pid in (*helpers, child.agent.pid):
                held = open_files(pid)
                assert mine not in held.values()
                assert secret not in environment(pid)
                if pid in helpers:
                    kinds = sorted(link.partition(":")[0] for link in held.values())
                    assert kinds.count("/dev/null") == 3, held
                    # The wakeup pipe has two ends; a channel for each neighbour.
                    assert set(kinds) <= {"/dev/null", "pipe", "socket"}, held
                    assert kinds.count("pipe") <= 2, held
                    assert kinds.count("socket") <= 2, held
    finally:
        del os.environ[secret]
        os.close(read)
        os.close(write)


def open_files(pid: int) -> dict[str, str]:
    entries = list(Path(f"/proc/{pid}/fd").iterdir())
    return {entry.name: str(entry.readlink()) for entry in entries if entry.is_symlink()}


def environment(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_text(encoding="utf-8", errors="replace")
