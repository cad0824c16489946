"""Real trees, really killed; judged by a scan of /proc and only then by our own reports."""

import itertools
import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from acpbridge.errors import BridgeError
from acpbridge.transport import child as child_module
from acpbridge.transport.child import Keeper, raise_descriptor_limit
from acpbridge.transport.helpers import kernel
from acpbridge.transport.program import resolve_program
from acpbridge.transport.tree import Child, ChildSpec, ExitStatus, ProcessId

if TYPE_CHECKING:
    from tests.integration.conftest import Observer

HANG = 60  # seconds; everything here takes milliseconds

# An agent with children of every kind. Each says its kind on stdout once it is in place.
AGENT = """
import os, signal, sys
marker, manner, *kinds = sys.argv[1:]
IDLE = "import os, signal\\nos.write(1, b'env\\\\n')\\nwhile True: signal.pause()"

def idle(kind):
    os.write(1, kind.encode() + b"\\n")
    while True:
        signal.pause()

def fork(work, *args):
    if os.fork() == 0:
        try:
            work(*args)
        finally:
            os._exit(0)

def plain():
    idle("plain")

def session():
    os.setsid()
    idle("session")

def double():
    os.setsid()
    fork(idle, "double")

def exec_bare():
    os.setsid()
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", IDLE, marker], {})

def env():
    fork(exec_bare)

def deaf():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    idle("deaf")

def stopped():
    os.write(1, b"stopped\\n")
    os.kill(os.getpid(), signal.SIGSTOP)
    idle("stopped")

def bomb():
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.write(write, b"." * 200)
    os.write(1, b"bomb\\n")
    while True:
        try:
            os.read(read, 1)
        except BlockingIOError:
            signal.pause()
        if os.fork() == 0:
            os.setsid()

if manner == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for kind in kinds:
    fork(globals()[kind])
os.write(1, b"agent\\n")
if manner == "polite":
    sys.stdin.read()
elif manner == "leaves":
    sys.stdin.readline()
    os._exit(3)
else:
    while True:
        signal.pause()
"""
KINDS = ("plain", "session", "double", "env", "deaf", "stopped")

# A process that runs a keeper as the daemon does, with one agent, until its input ends.
DAEMON = """
import json, os, sys
import anyio
from acpbridge.transport.child import Keeper
from acpbridge.transport.tree import ChildSpec
script, marker, python, *kinds = sys.argv[1:]

async def main():
    async with Keeper() as keeper:
        argv = (python, "-I", "-S", "-c", script, marker, "deaf", *kinds)
        child = await keeper.spawn(ChildSpec(argv, {"MARK": marker}, "/"))
        heard = b""
        while heard.count(b"\\n") < len(kinds) + 1:
            heard += await child.stdout.receive()
        pids = {"daemon": os.getpid(), "keeper": keeper.pid, "guard": keeper.guard.pid,
                "shim": child.shim.pid, "agent": child.agent.pid}
        print(json.dumps(pids), flush=True)
        await anyio.wait_readable(0)
        await child.aclose()

anyio.run(main)
"""


def evil(observer: "Observer", manner: str = "polite", kinds: Sequence[str] = ()) -> ChildSpec:
    argv = (sys.executable, "-I", "-S", "-c", AGENT, observer.marker, manner, *kinds)
    return ChildSpec(argv, {"MARK": observer.marker}, "/")


def script(code: str, *args: str, **env: str) -> ChildSpec:
    return ChildSpec((sys.executable, "-I", "-S", "-c", code, *args), env, "/")


async def heard_all(child: Child, lines: int) -> list[str]:
    """Read lines of stdout until everybody in the tree has said that it is in place."""
    heard = b""
    while heard.count(b"\n") < lines:
        heard += await child.stdout.receive()
    return heard.decode().split()


def open_files(pid: int) -> dict[str, str]:
    entries = list(Path(f"/proc/{pid}/fd").iterdir())
    return {entry.name: str(entry.readlink()) for entry in entries if entry.is_symlink()}


async def read_all(child: Child) -> str:
    data = b""
    async for chunk in child.stdout:
        data += chunk
    return data.decode()


@asynccontextmanager
async def tree(
    observer: "Observer", manner: str = "polite", kinds: Sequence[str] = KINDS
) -> AsyncIterator[tuple[Keeper, Child]]:
    """A keeper with one agent whose children are all in place; cleaned up, whatever happens."""
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            child = await keeper.spawn(evil(observer, manner, kinds))
            await heard_all(child, len(kinds) + 1)
            yield keeper, child


# ---- A start ---------------------------------------------------------------------------------


async def test_an_agent_reads_writes_and_its_exit_code_is_told() -> None:
    """G8: and nothing is left of it, not even a zombie."""
    code = "import sys; print(sys.stdin.read()); print('bad', file=sys.stderr); sys.exit(3)"
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            child = await keeper.spawn(script(code))
            await child.stdin.send(b"hello")
            await child.stdin.aclose()
            assert await read_all(child) == "hello\n"
            assert await child.stderr.receive() == b"bad\n"
            assert await child.wait_exit() == ExitStatus(3, None)
            assert str(child.exit) == "exit code 3"
            assert (await child.wait_gone()).survivors == ()
            await child.aclose()


async def test_a_deadly_signal_of_the_agent_is_told() -> None:
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            child = await keeper.spawn(script("import os; os.kill(os.getpid(), 11)"))
            assert await child.wait_exit() == ExitStatus(None, signal.SIGSEGV)
            assert str(child.exit) == "SIGSEGV"


async def test_g24_an_agent_gets_three_descriptors_and_no_other() -> None:
    with anyio.fail_after(HANG):
        async with Keeper() as keeper, anyio.create_task_group() as tasks:
            children: list[Child] = []

            async def start() -> None:
                children.append(await keeper.spawn(ChildSpec(("/bin/cat",), {}, "/")))

            for _ in range(5):
                tasks.start_soon(start)
            while len(children) < 5:
                await anyio.lowlevel.checkpoint()
            for child in children:
                stdio = open_files(child.agent.pid)
                assert set(stdio) == {"0", "1", "2"}
                for holder in (child.shim, keeper.identity, keeper.guard):
                    held = open_files(holder.pid)
                    assert {held["0"], held["1"], held["2"]} == {"/dev/null"}
                    assert not set(stdio.values()) & set(held.values())


async def test_g24_the_environment_and_arguments_are_exactly_those_given() -> None:
    env = {"A": "1", "EMPTY": "", "EQUALS": "x=y=z", "UMLAUT": "ü", "LINES": "a\nb"}
    code = "import sys; sys.stdout.write(repr((sys.argv[1:], open('/proc/self/environ').read())))"
    args = ("", "a b", "ü", "-x", "new\nline")
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            child = await keeper.spawn(script(code, *args, **env))
            seen_args, seen_env = eval(await read_all(child))
            assert tuple(seen_args) == args
            assert seen_env == "".join(f"{name}={value}\0" for name, value in env.items())


async def test_arguments_of_a_megabyte_arrive() -> None:
    args = tuple(str(i) * 100_000 for i in range(10))
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            spec = script("import sys; print(sum(map(len, sys.argv[1:])))", *args)
            assert await read_all(await keeper.spawn(spec)) == "1000000\n"


async def test_an_agent_starts_with_default_signals_in_a_session_and_directory_of_its_own(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            spec = ChildSpec(("/bin/sh", "-c", "pwd; read line"), {}, str(tmp_path))
            child = await keeper.spawn(spec)
            status = kernel.read_file(f"/proc/{child.agent.pid}/status").decode().splitlines()
            masks = dict(line.split(":\t") for line in status if line.startswith("Sig"))
            internal = 3 << 31  # glibc's own 32 and 33: posix_spawn has them ignored
            assert int(masks["SigIgn"], 16) & ~internal == int(masks["SigBlk"], 16) == 0
            assert os.getsid(child.agent.pid) == child.agent.pid
            assert await heard_all(child, 1) == [str(tmp_path)]
            assert child.agent.alive()


async def test_children_get_the_old_limit_of_open_files_back() -> None:
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with anyio.fail_after(HANG):
        try:
            assert raise_descriptor_limit() == limits[0]
            async with Keeper(nofile=333) as keeper:
                assert await read_all(await keeper.spawn(script(code))) == "333\n"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_a_missing_directory_and_a_missing_program_are_told_apart(tmp_path: Path) -> None:
    orphan, plain, noise = (tmp_path / name for name in ("orphan", "plain", "noise"))
    orphan.write_text("#!/no/such/interpreter\n", encoding="utf-8")
    noise.write_bytes(b"\0\1\2\3")
    plain.write_text("text", encoding="utf-8")
    for path in (orphan, noise):
        path.chmod(0o755)
    refusals = [
        (("/bin/cat",), str(tmp_path / "none"), "start_failed", "working directory"),
        (("/bin/cat",), str(plain), "start_failed", "working directory"),
        ((str(tmp_path / "none"),), "/", "agent_not_found", "no program"),
        (("no-such-program",), "/", "agent_not_found", "/some/where:/bin"),
        ((str(plain),), "/", "agent_not_found", "not executable"),
        ((str(orphan),), "/", "start_failed", "interpreter"),
        ((str(noise),), "/", "start_failed", "Exec format error"),
        (("/bin/cat", "x" * 3_000_000), "/", "start_failed", "too long"),
        (("/bin/cat", "a\0b"), "/", "start_failed", "NUL"),
    ]
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            for argv, cwd, code, words in refusals:
                with pytest.raises(BridgeError, match=words) as caught:
                    await keeper.spawn(ChildSpec(argv, {"PATH": "/some/where:/bin"}, cwd))
                assert caught.value.code == code
            assert keeper.children == ()


def test_a_program_is_looked_for_on_the_agents_own_path(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n", encoding="utf-8")
    tool.chmod(0o755)
    cwd = str(tmp_path)
    assert resolve_program("tool", {"PATH": f"/none:{tool.parent}"}, "/") == str(tool)
    for place in ("bin", "", ".", f"{cwd}/bin/../none:bin"):
        # What lies in the directory that the agent works in is not found by its mere name.
        with pytest.raises(BridgeError, match="no program"):
            resolve_program("tool", {"PATH": place}, cwd)
    assert resolve_program("bin/tool", {}, cwd) == str(tool)
    for nothing in ("tool", "bin", ""):
        with pytest.raises(BridgeError, match="no program"):
            resolve_program(nothing, {"PATH": "/none"}, cwd)


async def test_fifty_agents_start_at_once_and_all_end(observer: "Observer") -> None:
    with anyio.fail_after(4 * HANG):
        async with Keeper() as keeper:
            spec = ChildSpec(("/bin/cat",), {"MARK": observer.marker}, "/")
            children: list[Child] = []

            async def start() -> None:
                children.append(await keeper.spawn(spec))

            async with anyio.create_task_group() as tasks:
                for _ in range(50):
                    tasks.start_soon(start)
            assert set(observer.alive()) == {child.agent.pid for child in children}
            async with anyio.create_task_group() as tasks:
                for child in children:
                    tasks.start_soon(child.stop, 0)
            assert observer.alive() == {}
            assert all(child.receipt and not child.receipt.survivors for child in children)


async def test_a_cancelled_spawn_leaves_nothing(observer: "Observer") -> None:
    spec = ChildSpec(("/bin/cat",), {"MARK": observer.marker}, "/")
    finished = 0
    with anyio.fail_after(2 * HANG):
        async with Keeper() as keeper:
            for step in range(40):
                with anyio.move_on_after(step * 0.0002):
                    child = await keeper.spawn(spec)
                    finished += 1
                    await child.aclose()
                assert observer.alive() == {}
                assert keeper.children == ()
    assert finished < 40


async def test_a_keeper_whose_block_is_cancelled_ends_its_children(observer: "Observer") -> None:
    with anyio.fail_after(HANG), anyio.CancelScope() as scope:
        async with Keeper() as keeper:
            child = await keeper.spawn(evil(observer, "deaf", KINDS))
            await heard_all(child, len(KINDS) + 1)
            scope.cancel()
            await anyio.sleep_forever()
    assert observer.alive() == {}


# ---- An end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("manner", ["polite", "deaf"])
async def test_g1_a_kill_reaches_every_kind_of_child(observer: "Observer", manner: str) -> None:
    """G1, G2: the receipt names all that were there, the agent included, and they are dead."""
    async with tree(observer, manner) as (_, child):
        before = set(observer.alive())
        assert len(before) == len(KINDS) + 1
        receipt = await child.stop(0)
        assert observer.alive() == {}
        assert before <= set(receipt.killed)
        assert receipt.survivors == ()
        assert child.agent.pid in before


async def test_g1_a_tree_that_ignores_everything_is_killed_after_grace_and_term(
    observer: "Observer",
) -> None:
    async with tree(observer, "deaf") as (_, child):
        receipt = await child.stop(0.05, term_wait=0.05)
        assert observer.alive() == {}
        assert receipt.survivors == ()
        assert child.exit == ExitStatus(None, signal.SIGKILL)


async def test_g1_a_fork_bomb_is_killed_while_it_forks(observer: "Observer") -> None:
    with anyio.fail_after(2 * HANG):
        async with Keeper() as keeper:
            child = await keeper.spawn(evil(observer, "deaf", ["bomb"]))
            await heard_all(child, 2)
            receipt = await child.stop(0)
            assert observer.alive() == {}
            assert receipt.survivors == ()


async def test_an_agent_that_leaves_when_its_input_ends_is_not_killed(observer: "Observer") -> None:
    async with tree(observer, "polite", ()) as (_, child):
        receipt = await child.stop(HANG)
        assert child.exit == ExitStatus(0, None)
        assert receipt.killed == (child.agent.pid,)


async def test_a_stopped_agent_gets_term_because_it_is_continued(observer: "Observer") -> None:
    async with tree(observer, "stays", ("stopped",)) as (_, child):
        child.agent.signal(signal.SIGSTOP)
        child.terminate()
        assert await child.wait_exit() == ExitStatus(None, signal.SIGTERM)
        assert (await child.wait_gone()).survivors == ()
        assert observer.alive() == {}


async def test_a_stop_cannot_be_cancelled_half_way(observer: "Observer") -> None:
    async with tree(observer, "deaf") as (_, child):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await child.stop(0.05, term_wait=0.05)
        assert child.receipt is not None
        assert observer.alive() == {}


async def test_case_3_an_exit_is_seen_although_a_grandchild_holds_the_pipe(
    observer: "Observer",
) -> None:
    """Case 3: the exit of the agent and the end of its stdout are two events."""
    spec = evil(observer, "leaves", ["session"])
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            child = await keeper.spawn(ChildSpec(spec.argv, spec.env, spec.cwd, linger=1000))
            await heard_all(child, 2)
            await child.stdin.send(b"leave\n")
            assert await child.wait_exit() == ExitStatus(3, None)
            assert len(observer.alive()) == 1
            with pytest.raises(BlockingIOError):
                os.read(child.stdout._end.fd, 1)
            child.kill()
            with pytest.raises(anyio.EndOfStream):
                await child.stdout.receive()
            assert (await child.wait_gone()).survivors == ()


async def test_what_an_agent_leaves_behind_is_killed_after_the_linger(observer: "Observer") -> None:
    spec = evil(observer, "leaves", KINDS)
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            child = await keeper.spawn(ChildSpec(spec.argv, spec.env, spec.cwd, linger=0.05))
            await heard_all(child, len(KINDS) + 1)
            left = set(observer.alive())
            await child.stdin.send(b"leave\n")
            receipt = await child.wait_gone()
            assert observer.alive() == {}
            assert left <= set(receipt.killed)
            assert child.exit == ExitStatus(3, None)


async def test_g8_orphans_that_exit_do_not_stay_as_zombies() -> None:
    code = """
import os, sys
read, write = os.pipe()
for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0:
            os.close(write)
            os.read(read, 1)
        os._exit(0)
    os.wait()
print("ready", flush=True)
sys.stdin.readline()
os.close(write)
sys.stdin.read()
"""
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            child = await keeper.spawn(script(code))
            await heard_all(child, 1)
            assert len(kernel.tree_of(child.shim.pid)) == 21
            await child.stdin.send(b"let them go\n")
            while children_of(child.shim.pid) != [child.agent.pid]:
                await anyio.lowlevel.checkpoint()
            assert child.exit is None


def children_of(pid: int) -> list[int]:
    return [row.pid for row in kernel.process_table().values() if row.ppid == pid]


async def test_writing_to_an_agent_that_is_gone_is_a_broken_resource(observer: "Observer") -> None:
    async with tree(observer, "deaf", ()) as (_, child):
        child.kill()
        await child.wait_gone()
        with pytest.raises(anyio.BrokenResourceError):
            await child.stdin.send(b"x")
        await child.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await child.stdin.send(b"x")
        with pytest.raises(anyio.ClosedResourceError):
            await child.stdout.receive()


async def test_a_large_message_is_written_through_a_full_pipe() -> None:
    code = "import sys; print(len(sys.stdin.buffer.read()))"
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            child = await keeper.spawn(script(code))
            await child.stdin.send(b"x" * 3_000_000)
            await child.stdin.aclose()
            assert await read_all(child) == "3000000\n"


# ---- Helpers that are killed or stopped ------------------------------------------------------


async def test_g4_a_killed_shim_is_swept_up_after(observer: "Observer") -> None:
    async with tree(observer, "deaf") as (keeper, child):
        left = set(observer.alive())
        child.shim.signal(signal.SIGKILL)
        receipt = await child.wait_gone()
        assert observer.alive() == {}
        assert left <= set(receipt.killed)
        assert receipt.survivors == ()
        assert child.exit == ExitStatus(None, signal.SIGKILL)
        assert keeper.children == () or child.receipt is receipt


async def test_g4_a_sweep_spares_the_trees_of_other_shims(observer: "Observer") -> None:
    async with tree(observer, "deaf") as (keeper, victim):
        other = await keeper.spawn(ChildSpec(("/bin/cat",), {"MARK": observer.marker}, "/"))
        victim.shim.signal(signal.SIGKILL)
        await victim.wait_gone()
        assert set(observer.alive()) == {other.agent.pid}
        await other.stdin.send(b"still here\n")
        assert await other.stdout.receive() == b"still here\n"


async def test_g4_all_shims_killed_at_once_are_swept_up_after(observer: "Observer") -> None:
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            children = [await keeper.spawn(evil(observer, "deaf", KINDS)) for _ in range(4)]
            for child in children:
                await heard_all(child, len(KINDS) + 1)
            for child in children:
                child.shim.signal(signal.SIGKILL)
            for child in children:
                assert (await child.wait_gone()).survivors == ()
            assert observer.alive() == {}


async def test_g4_a_shim_that_does_not_answer_a_kill_is_killed(observer: "Observer") -> None:
    async with tree(observer, "deaf") as (_, child):
        child.shim.signal(signal.SIGSTOP)
        receipt = await child.stop(0)
        assert observer.alive() == {}
        assert receipt.survivors == ()
        assert child.agent.pid in receipt.killed


async def test_a_shim_takes_term_as_the_order_to_kill(observer: "Observer") -> None:
    """The way to end a tree when the daemon itself is frozen."""
    async with tree(observer, "deaf") as (_, child):
        child.shim.signal(signal.SIGTERM)
        receipt = await child.wait_gone()
        assert observer.alive() == {}
        assert child.agent.pid in receipt.killed


@pytest.mark.parametrize("role", ["keeper", "guard"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_g4_a_lost_keeper_takes_its_trees_along_and_is_replaced(
    observer: "Observer", role: str, number: int
) -> None:
    lost = anyio.Event()
    with anyio.fail_after(HANG):
        async with Keeper(on_lost=lost.set) as keeper:
            children = [await keeper.spawn(evil(observer, "deaf", KINDS)) for _ in range(2)]
            for child in children:
                await heard_all(child, len(KINDS) + 1)
            first = keeper.identity
            victim = keeper.identity if role == "keeper" else keeper.guard
            assert victim.signal(number)
            await lost.wait()
            for child in children:
                assert (await child.wait_gone()).survivors == ()
            await observer.wait_gone()
            again = await keeper.spawn(script("print('again')"))
            assert await read_all(again) == "again\n"
            assert keeper.identity != first


async def test_g4_a_stopped_keeper_is_woken_for_a_sweep(observer: "Observer") -> None:
    async with tree(observer, "deaf") as (keeper, child):
        keeper.identity.signal(signal.SIGSTOP)
        child.shim.signal(signal.SIGKILL)
        assert (await child.wait_gone()).survivors == ()
        assert observer.alive() == {}


async def test_g4_a_stopped_keeper_is_woken_for_a_spawn() -> None:
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            keeper.identity.signal(signal.SIGSTOP)
            assert await read_all(await keeper.spawn(script("print('awake')"))) == "awake\n"


async def test_g4_a_sweep_of_a_large_tree_lets_others_start(observer: "Observer") -> None:
    with anyio.fail_after(2 * HANG):
        async with Keeper() as keeper:
            bomb = await keeper.spawn(evil(observer, "deaf", ["bomb"]))
            await heard_all(bomb, 2)
            bomb.shim.signal(signal.SIGKILL)
            assert await read_all(await keeper.spawn(script("print('in between')"))) != ""
            assert (await bomb.wait_gone()).survivors == ()
            assert observer.alive() == {}


async def test_g5_with_all_helpers_killed_the_daemon_still_ends_the_tree_it_knows(
    observer: "Observer",
) -> None:
    async with tree(observer, "deaf", ("plain", "session", "deaf")) as (keeper, child):
        for helper in (keeper.guard, keeper.identity, child.shim):
            helper.signal(signal.SIGKILL)
        receipt = await child.wait_gone()
        await observer.wait_gone()
        assert receipt.survivors == ()


async def test_helpers_killed_at_any_moment_of_a_start_leave_nothing(observer: "Observer") -> None:
    started = 0
    with anyio.fail_after(4 * HANG):
        for step in range(24):
            async with Keeper() as keeper, anyio.create_task_group() as tasks:

                async def kill_one(
                    keeper: Keeper = keeper, number: int = step % 3, delay: float = step * 0.0003
                ) -> None:
                    await anyio.sleep(delay)
                    shims = kernel.tree_of(keeper.pid)[:1]
                    helpers = [keeper.identity, keeper.guard]
                    helpers += [ProcessId(shim.pid, shim.start_ticks) for shim in shims]
                    helpers[min(number, len(helpers) - 1)].signal(signal.SIGKILL)

                tasks.start_soon(kill_one)
                try:
                    child = await keeper.spawn(evil(observer, "deaf", ["env"]))
                except BridgeError:
                    pass  # that helper was needed for the start
                else:
                    started += 1
                    assert (await child.stop(0)).survivors == ()
            await observer.wait_gone()
    assert started > 0


async def test_g28_without_free_descriptors_a_spawn_is_refused_and_the_next_one_works() -> None:
    """With `capacity` and its hint: the agent is well, and is no failed open."""
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            for spare in range(9):
                with (
                    few_descriptors(spare),
                    pytest.raises(BridgeError, match="Too many open") as caught,
                ):
                    await keeper.spawn(ChildSpec(("/bin/cat",), {}, "/"))
                assert (caught.value.code, "ulimit -n" in caught.value.hint) == ("capacity", True)
            assert await read_all(await keeper.spawn(script("print('room')"))) == "room\n"


@contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """Fill the table of open files but for a few."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    taken = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for fd in taken[:spare]:
            os.close(fd)
        yield
    finally:
        for fd in taken[spare:]:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_a_keeper_that_does_not_come_up_is_given_up_and_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            keeper.guard.signal(signal.SIGKILL)
            while keeper._lines[-1].lost is False:
                await anyio.lowlevel.checkpoint()
            monkeypatch.setattr(child_module, "START_LIMIT", 0)
            with pytest.raises(BridgeError, match="did not come up"):
                await keeper.spawn(script(""))
            monkeypatch.undo()
            assert await read_all(await keeper.spawn(script("print('up')"))) == "up\n"


async def test_a_spawn_finds_the_keeper_killed_a_moment_ago_and_starts_another() -> None:
    with anyio.fail_after(HANG):
        async with Keeper() as keeper:
            for _ in range(5):
                fd = os.pidfd_open(keeper.pid)
                keeper.identity.signal(signal.SIGKILL)
                select.select([fd], [], [])
                os.close(fd)
                child = await keeper.spawn(script("print('ok')"))
                assert await read_all(child) == "ok\n"


HELPERS = ("daemon", "keeper", "guard", "shim")
VICTIMS = [
    *itertools.combinations(HELPERS, 1),
    *itertools.combinations(HELPERS, 2),
    # As long as guard, keeper or shim is left, even three are not too many.
    ("daemon", "keeper", "shim"),
    ("daemon", "guard", "shim"),
    ("daemon", "guard", "keeper"),
]


@pytest.mark.parametrize("stop_shim", [False, True], ids=["shim-runs", "shim-stopped"])
@pytest.mark.parametrize("victims", VICTIMS, ids="-".join)
async def test_g3_g4_g5_helpers_may_be_killed_and_nothing_is_left(
    observer: "Observer", victims: tuple[str, ...], stop_shim: bool
) -> None:
    """G3, G4, G5: in every order, with the shim running or stopped."""
    with (
        anyio.fail_after(HANG),
        start_daemon(observer, KINDS) as daemon,
    ):
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        try:
            await anyio.wait_readable(daemon.stdout)
            pids = json.loads(daemon.stdout.readline())
            helpers = [process_id(pids[name]) for name in HELPERS if name != "daemon"]
            tree = set(observer.alive()) - {pids[name] for name in HELPERS}
            left = [process_id(pid) for pid in tree]
            assert len(left) == len(KINDS) + 1
            if stop_shim:
                os.kill(pids["shim"], signal.SIGSTOP)
            for name in victims:
                with suppress(ProcessLookupError):  # it may be quick to follow the one before
                    os.kill(pids[name], signal.SIGKILL)
            if "daemon" in victims:
                await observer.wait_gone()
                # The guard looks once more after everything else is gone, and then goes itself.
                await wait_dead(helpers)
            else:
                await wait_dead(left)
        finally:
            daemon.stdin.close()
            code = await anyio.to_thread.run_sync(daemon.wait)
        assert code == (-signal.SIGKILL if "daemon" in victims else 0)
        await observer.wait_gone()


def start_daemon(observer: "Observer", kinds: Sequence[str]) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", DAEMON, AGENT, observer.marker, sys.executable, *kinds]
    env = {**os.environ, "MARK": observer.marker}  # the helpers are looked for as well
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)


def process_id(pid: int) -> ProcessId:
    row = kernel.read_process(pid)
    assert row is not None
    return ProcessId(pid, row.start_ticks)


async def wait_dead(processes: Sequence[ProcessId]) -> None:
    for process in processes:
        if process.alive():
            try:
                fd = os.pidfd_open(process.pid)
            except ProcessLookupError:
                continue  # it has gone since
            try:
                await anyio.wait_readable(fd)
            finally:
                os.close(fd)
