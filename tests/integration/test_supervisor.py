"""Real agents under a real supervisor: what it writes down, whom it knows, how it ends them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from acpbridge.controller import belonging
from acpbridge.controller.containment import ShimContainment, containment_of
from acpbridge.controller.evidence import Doubt
from acpbridge.controller.journal import Entry, Journal
from acpbridge.controller.process import AgentProcess, LaunchSpec
from acpbridge.controller.supervised import MARGIN, STDERR_KEPT, SupervisedProcess
from acpbridge.controller.supervisor import Supervisor
from acpbridge.controller.sweep import Swept
from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults
from acpbridge.redact import Redactor
from acpbridge.transport.helpers import kernel
from acpbridge.transport.tree import Child, KillReceipt
from tests.integration.conftest import descendants

if TYPE_CHECKING:
    from tests.integration.conftest import Observer

HANG = 60  # seconds; everything here takes milliseconds
PAUSE = 0.005
KEY = "agent:x:main"

# Makes children of the kinds that it is told on stdin, and other things; each child says its pid.
AGENT = """
import os, signal, sys, time

def wait():
    while True:
        signal.pause()

def say(kind):
    os.write(1, b"%s %d\\n" % (kind.encode(), os.getpid()))

def fork(kind):
    if os.fork() == 0:
        if kind == "deep":
            os.setsid()
            if os.fork() != 0:
                os._exit(0)
            if os.fork() != 0:
                wait()
        if kind == "bare":
            code = "import os,signal;os.write(1,b'bare %d\\\\n'%os.getpid());signal.pause()"
            argv = [sys.executable, "-I", "-S", "-c", code, sys.argv[1]]
            os.execve(sys.executable, argv, {})
        say(kind)
        wait()

if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
say("agent")
for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    if word == "fork":
        fork(rest)
    elif word == "err":
        sys.stderr.write(rest.encode().decode("unicode_escape"))
        sys.stderr.flush()
        say("err")
    elif word == "fill":
        sys.stderr.buffer.write(b"x" * int(rest))
        sys.stderr.flush()
        say("fill")
    elif word == "exit":
        os._exit(int(rest))
if "deaf" in sys.argv:
    wait()
"""


def spec(observer: "Observer", name: str = KEY, *words: str, **env: str) -> LaunchSpec:
    argv = (sys.executable, "-I", "-S", "-c", AGENT, observer.marker, *words)
    return LaunchSpec(name, argv, {"TEST": observer.marker, **env}, "/", grace=0.05)


def supervisor(
    tmp_path: Path, redact: Callable[[str], str] = str, faults: Faults = no_faults
) -> Supervisor:
    journal = tmp_path / "processes.json"
    return Supervisor(journal, ShimContainment(), redact, faults)


async def heard(process: AgentProcess, *words: str) -> dict[str, int]:
    """Send words, and return who answers with which pid."""
    for word in words:
        await process.stdin.send(f"{word}\n".encode())
    data = b""
    while data.count(b"\n") < max(1, len(words)):
        data += await process.stdout.receive()
    return {k: int(pid) for k, pid in (line.split() for line in data.decode().splitlines())}


async def journal_when(tmp_path: Path, condition: Callable[[Journal], bool]) -> Journal:
    """Return the journal once it says so; the caller sets the limit."""
    while True:
        journal = Journal.read(tmp_path / "processes.json")
        if journal is not None and condition(journal):
            return journal
        await anyio.sleep(PAUSE)


async def until(condition: Callable[[], bool]) -> None:
    """Look at the kernel's tables until they say so; the caller sets the limit."""
    while not condition():  # noqa: ASYNC110 - the kernel tells of no such event
        await anyio.sleep(PAUSE)


def entry(pid: int) -> Entry:
    row = kernel.read_process(pid)
    assert row is not None
    return Entry(pid, row.start_ticks)


def state(pid: int) -> str:
    row = kernel.read_process(pid)
    return "" if row is None else row.state


async def test_the_journal_names_daemon_and_keeper_before_anything_runs(tmp_path: Path) -> None:
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine:
            journal = await journal_when(tmp_path, lambda _: True)
            assert journal.of_this_boot()
            assert journal.daemon == entry(os.getpid())
            assert journal.keeper == entry(mine.keeper_pid)
            assert journal.trees == {}
            assert mine.containment == "shim"


async def test_the_journal_names_each_tree_and_follows_its_children(
    tmp_path: Path, observer: "Observer"
) -> None:
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine, mine.launch(spec(observer)) as process:
            await heard(process)
            journal = await journal_when(tmp_path, lambda found: KEY in found.trees)
            tree = journal.trees[KEY]
            assert tree.agent == entry(process.pid)
            row = kernel.read_process(process.pid)
            assert row is not None
            assert tree.shim == entry(row.ppid)
            born = await heard(process, "fork plain", "fork deep")
            wanted = {entry(pid) for pid in (process.pid, *born.values())}
            await journal_when(tmp_path, lambda found: wanted <= set(found.trees[KEY].members))
            shown = await mine.processes(KEY)
            assert {info.pid for info in shown} >= {process.pid, tree.shim.pid, *born.values()}
            assert [info.role for info in shown].count("agent") == 1
            assert mine.live() == 1
            os.kill(born["plain"], signal.SIGKILL)
            gone = entry_of(wanted, born["plain"])
            await journal_when(tmp_path, lambda found: gone not in found.trees[KEY].members)
        assert observer.alive() == {}


def entry_of(entries: set[Entry], pid: int) -> Entry:
    return next(found for found in entries if found.pid == pid)


async def test_who_is_deep_in_a_tree_is_its_owners(tmp_path: Path, observer: "Observer") -> None:
    with anyio.fail_after(HANG):
        async with (
            supervisor(tmp_path) as mine,
            mine.launch(spec(observer)) as first,
            mine.launch(spec(observer, "agent:y:main")) as second,
        ):
            await heard(first)
            await heard(second)
            born = await heard(first, "fork plain", "fork deep", "fork bare")
            for pid in (first.pid, *born.values()):
                assert mine.owner_of(pid) == KEY
            assert mine.owner_of(second.pid) == "agent:y:main"
            assert mine.owner_of(os.getpid()) is None
            assert mine.owner_of(mine.keeper_pid) == ""  # whoever passes for it is no person
            os.kill(born["plain"], signal.SIGSTOP)
            assert mine.owner_of(born["plain"]) == KEY


async def test_who_has_left_the_tree_is_known_by_its_marker_or_that_of_its_parent(
    tmp_path: Path, observer: "Observer"
) -> None:
    argv = [sys.executable, "-I", "-S", "-c", AGENT, observer.marker]
    env = {"ACPBRIDGE_MARK": f"{KEY}.0123abcd"}
    with anyio.fail_after(HANG):
        async with (
            supervisor(tmp_path) as mine,
            await anyio.open_process(argv, env=env, stderr=None) as stray,
        ):
            assert stray.stdin
            assert stray.stdout
            await stray.stdin.send(b"fork bare\n")
            said = b""
            while said.count(b"\n") < 2:
                said += await stray.stdout.receive()
            bare = int(said.split()[-1])
            assert mine.owner_of(stray.pid) == KEY
            assert mine.owner_of(bare) == KEY
            os.kill(bare, signal.SIGKILL)
            stray.kill()
        assert await stray.wait()


async def test_who_hid_from_tree_and_marker_is_known_by_its_control_group(
    tmp_path: Path, observer: "Observer"
) -> None:
    """Without `hold.holds` in `owner_of`: None, and so an operator.

    While the shim lives it is no part of the tree, which would be below it; after that it is.
    """
    containment = containment_of(tmp_path)
    if containment.name != "cgroup2":
        pytest.skip("no writable cgroup v2 hierarchy is mounted here")
    with anyio.fail_after(HANG):
        async with (
            Supervisor(tmp_path / "processes.json", containment, str) as mine,
            mine.launch(spec(observer)) as process,
            await anyio.open_process(["/bin/cat"]) as hidden,
        ):
            await heard(process)
            assert mine.held(KEY) == "cgroup2"
            assert mine.held("agent:nobody:main") is None
            assert mine.owner_of(hidden.pid) is None
            group = mine._running[KEY].hold.folder
            await anyio.Path(group, "cgroup.procs").write_text(f"{hidden.pid}", encoding="utf-8")
            assert mine.owner_of(hidden.pid) == KEY
            before = await mine.processes(KEY)
            assert hidden.pid not in {info.pid for info in before}
            without_its_shim = belonging.shown(mine._running[KEY], [])
            assert {info.pid for info in without_its_shim} == {hidden.pid, process.pid}
            assert await process.stop(0) == ()
            assert await mine.alive(before) == []
            assert hidden.returncode is None
            assert hidden.stdin
            await hidden.stdin.aclose()
            await hidden.wait()
        assert not await anyio.Path(group).exists()


async def test_a_process_that_is_gone_passes_for_nobodys_and_not_for_a_stranger(
    tmp_path: Path, observer: "Observer"
) -> None:
    # It may have connected from inside a tree, asked for something, and ended at once.
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine, mine.launch(spec(observer)) as process:
            await heard(process)
            born = await heard(process, "fork deep")
            os.kill(born["deep"], signal.SIGKILL)
            await until(lambda: state(born["deep"]) in {"", "Z"})
            assert mine.owner_of(born["deep"]) in {"", KEY}
            for pid in (0, -1, 2**22 + 1):
                assert mine.owner_of(pid) == ""


async def test_a_stop_ends_the_tree_and_says_that_nothing_is_left(
    tmp_path: Path, observer: "Observer"
) -> None:
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine, mine.launch(spec(observer)) as process:
            await heard(process)
            await heard(process, "fork plain", "fork deep", "fork bare")
            before = await mine.processes(KEY)
            assert len(before) >= 5
            assert await process.stop(0) == ()
            assert observer.alive() == {}
            assert await mine.alive(before) == []
            assert await process.stop(5) == ()
            assert await mine.processes(KEY) == []


async def test_who_has_ended_leaves_the_journal(tmp_path: Path, observer: "Observer") -> None:
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine:
            async with mine.launch(spec(observer)) as process:
                await heard(process)
                journal = await journal_when(tmp_path, lambda found: KEY in found.trees)
                assert journal.trees[KEY].agent == entry(process.pid)
            journal = await journal_when(tmp_path, lambda found: found.trees == {})
            assert journal.daemon == entry(os.getpid())


async def test_leaving_the_context_ends_the_tree_also_when_cancelled(
    tmp_path: Path, observer: "Observer"
) -> None:
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine:
            with anyio.CancelScope() as scope:
                async with mine.launch(spec(observer)) as process:
                    await heard(process)
                    await heard(process, "fork deep")
                    scope.cancel()
                    await anyio.sleep_forever()
            assert scope.cancelled_caught
            assert observer.alive() == {}
            assert mine.live() == 0


async def test_a_fault_right_after_the_start_leaves_nothing(
    tmp_path: Path, observer: "Observer"
) -> None:
    def fault(point: str) -> None:
        if point == "supervisor.spawned":
            raise OSError("a fault")

    with anyio.fail_after(HANG):
        async with supervisor(tmp_path, faults=fault) as mine:
            with pytest.raises(OSError, match="a fault"):
                async with mine.launch(spec(observer)):
                    pass
            assert mine.live() == 0
            await until(lambda: observer.alive() == {})


class _Stubborn(ShimContainment):
    """A containment that cannot end a tree the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    async def end(self, child: Child, grace: float) -> KillReceipt:
        self.calls += 1
        if self.calls == 1:
            return KillReceipt((), (child.agent.pid,))
        return await child.stop(grace)


async def test_survivors_are_named_and_a_second_stop_tries_again_g2(
    tmp_path: Path, observer: "Observer"
) -> None:
    containment = _Stubborn()
    with anyio.fail_after(HANG):
        mine = Supervisor(tmp_path / "processes.json", containment, str)
        async with mine, mine.launch(spec(observer)) as process:
            await heard(process)
            assert await process.stop(0) == (process.pid,)
            assert await process.stop(0) == ()
            assert await process.stop(0) == ()
            assert containment.calls == 2
            assert observer.alive() == {}


def sleeper() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "1000"])


async def test_what_is_proven_ours_and_nobodys_is_ended_when_a_person_says_so(
    tmp_path: Path,
) -> None:
    """One whom a sweep knew for ours, and could not end: a doubt beside it is let live."""
    known, doubted = sleeper(), sleeper()
    doubts = (Doubt(entry(doubted.pid), "bears a marker"),)
    swept = Swept((), (entry(known.pid),), doubts)
    try:
        with anyio.fail_after(HANG):
            path = tmp_path / "processes.json"
            async with Supervisor(path, ShimContainment(), str, swept=swept) as mine:
                shown = {row.pid: row.next for row in await mine.unowned()}
                assert "kill --all" in shown[known.pid]
                assert "kill --all" not in shown[doubted.pid]
                assert await mine.end_unowned() == ([known.pid], [])
                assert known.wait() == -signal.SIGKILL
                assert doubted.poll() is None
                assert [row.pid for row in await mine.unowned()] == [doubted.pid]
                assert await mine.end_unowned() == ([], [])
    finally:
        for process in (known, doubted):
            process.kill()
            process.wait()


async def test_how_it_ended_stands_in_the_post_mortem(tmp_path: Path, observer: "Observer") -> None:
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine:
            async with mine.launch(spec(observer)) as process:
                await heard(process)
                await heard(process, r"err last words\n")
                await process.stdin.send(b"exit 3\n")
                assert await process.exited() == "exit code 3"
                error = process.post_mortem("agent_died", "It is gone.")
                assert error.data == {"stderr": "last words\n", "exitCode": 3, "signal": None}
            async with mine.launch(spec(observer)) as process:
                await heard(process)
                assert "exitCode" not in process.post_mortem("start_timeout", "Slow.").data
                os.kill(process.pid, signal.SIGKILL)
                assert await process.exited() == "SIGKILL"
                error = process.post_mortem("agent_died", "It is gone.")
                assert error.data == {"stderr": "", "exitCode": None, "signal": 9}


async def test_a_wrong_command_that_fails_names_the_one_that_works(
    tmp_path: Path, observer: "Observer"
) -> None:
    program = tmp_path / "right-looking"
    program.symlink_to(sys.executable)
    argv = (str(program), "-I", "-S", "-c", AGENT, observer.marker)
    wrong = LaunchSpec(KEY, argv, {}, "/", better={"right-looking -I": "right --acp"})
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine, mine.launch(wrong) as process:
            for code in ("start_failed", "start_timeout"):
                assert "right --acp" in process.post_mortem(code, "It did not speak.").hint
            assert "right --acp" not in process.post_mortem("agent_died", "Later.").hint


async def said(process: AgentProcess, size: int) -> str:
    """Return the tail of stderr once so many characters have come through."""
    assert isinstance(process, SupervisedProcess)
    tail = process.stderr_tail()
    while len(tail) < size:
        await anyio.sleep(PAUSE)
        tail = process.stderr_tail()
    return tail


async def test_of_a_flood_on_stderr_the_last_16_kib_are_kept(
    tmp_path: Path, observer: "Observer"
) -> None:
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine, mine.launch(spec(observer)) as process:
            await heard(process)
            await heard(process, f"fill {5 * 2**20}", r"err \u20ac", "err the end")
            await said(process, STDERR_KEPT - 200)
            await until(lambda: tail_of(process).endswith("the end"))
            tail = tail_of(process)
            assert len(tail.encode()) <= STDERR_KEPT
            assert set(tail.removesuffix("the end")) <= {"x", "\u20ac"}
            assert isinstance(process, SupervisedProcess)
            assert sum(map(len, process._stderr)) <= STDERR_KEPT + MARGIN + 2**16


def tail_of(process: AgentProcess) -> str:
    assert isinstance(process, SupervisedProcess)
    return process.stderr_tail()


async def test_a_secret_on_stderr_is_never_shown_wherever_the_cut_is_g26(
    tmp_path: Path, observer: "Observer"
) -> None:
    secret = "S3NT1NEL-" + "0123456789" * 20
    redactor = Redactor([("API_KEY", secret)])
    with anyio.fail_after(HANG):
        async with (
            supervisor(tmp_path, redactor.text) as mine,
            mine.launch(spec(observer)) as process,
        ):
            await heard(process)
            await heard(process, f"err {secret}")
            assert "[redacted:" in await said(process, 10)
            for size in (STDERR_KEPT, MARGIN, 60_000, *range(STDERR_KEPT - 150, STDERR_KEPT, 50)):
                await heard(process, f"err {secret}", f"fill {size}", "err .")
                await until(lambda: tail_of(process).endswith("x."))
                tail = tail_of(process)
                assert "S3NT1NEL" not in tail
                assert "0123456789" not in tail


async def test_a_keeper_that_is_killed_takes_all_with_it_and_the_next_start_has_another_g4(
    tmp_path: Path, observer: "Observer"
) -> None:
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine:  # noqa: SIM117 - one after the other
            async with (
                mine.launch(spec(observer, KEY, "deaf")) as first,
                mine.launch(spec(observer, "agent:y:main", "deaf")) as second,
            ):
                await heard(first)
                await heard(second)
                await heard(first, "fork deep", "fork bare")
                old = mine.keeper_pid
                os.kill(old, signal.SIGKILL)
                await first.exited()
                await second.exited()
                await observer.wait_gone()
                async with mine.launch(spec(observer, "agent:z:main")) as third:
                    await heard(third)
                    new = mine.keeper_pid
                    assert new != old
                    journal = await journal_when(
                        tmp_path,
                        lambda found: found.keeper.pid == new and "agent:z:main" in found.trees,
                    )
                    assert journal.keeper == entry(new)


async def test_a_shim_that_is_killed_leaves_its_members_in_the_journal_until_they_are_dead_g4(
    tmp_path: Path, observer: "Observer"
) -> None:
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine, mine.launch(spec(observer)) as process:
            await heard(process)
            born = await heard(process, "fork deep")
            deep = entry(born["deep"])
            journal = await journal_when(
                tmp_path, lambda found: KEY in found.trees and deep in found.trees[KEY].members
            )
            os.kill(mine.keeper_pid, signal.SIGSTOP)
            os.kill(journal.trees[KEY].shim.pid, signal.SIGKILL)
            await process.exited()
            assert deep in journal.trees[KEY].members
            await observer.wait_gone()
            journal = await journal_when(tmp_path, lambda found: found.trees[KEY].members == ())
            assert not deep.alive()


async def test_with_all_helpers_killed_who_had_left_the_tree_is_ended_by_the_record_g5(
    tmp_path: Path, observer: "Observer"
) -> None:
    """G5. Without `Supervisor._end_recorded`: `assert {27794: ...} == {}` fails, with two left."""
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine:
            async with mine.launch(spec(observer, KEY, "deaf")) as process:
                await heard(process)
                born = await heard(process, "fork deep", "fork bare")
                journal = await journal_when(
                    tmp_path,
                    lambda found: (
                        KEY in found.trees
                        and {entry(pid) for pid in born.values()} <= {*found.trees[KEY].members}
                    ),
                )
                for pid in (mine.guard_pid, mine.keeper_pid, journal.trees[KEY].shim.pid):
                    os.kill(pid, signal.SIGKILL)
                await process.exited()
            # Nobody waits for more: with the block it is over.
            left = observer.alive()
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            assert left == {}


async def test_a_program_or_directory_that_is_missing_takes_no_place_case_106(
    tmp_path: Path, observer: "Observer"
) -> None:
    (tmp_path / "file").touch()
    good = spec(observer)
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine:
            for cwd in (f"{tmp_path}/missing", f"{tmp_path}/file", "tmp", ""):
                wrong = LaunchSpec(KEY, good.argv, good.env, cwd)
                with pytest.raises(BridgeError, match=f"directory '?{cwd}'? ") as caught:
                    async with mine.launch(wrong):
                        pass
                assert caught.value.code == "start_failed"
            wrong = LaunchSpec(KEY, ("/nope/agent",), good.env, "/")
            with pytest.raises(BridgeError, match="/nope/agent") as caught:
                async with mine.launch(wrong):
                    pass
            assert caught.value.code == "agent_not_found"
            assert mine.live() == 0
            assert mine.keeper_pid
            # The guard and the keeper, and nobody else.
            await until(lambda: len(descendants(os.getpid())) == 2)


async def test_a_journal_that_cannot_be_written_stops_nobody_g28(
    tmp_path: Path, observer: "Observer"
) -> None:
    (tmp_path / "processes.json").mkdir()
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as mine, mine.launch(spec(observer)) as process:
            await heard(process)
            await heard(process, "fork plain")
            (notice,) = mine.notices
            assert "processes.json cannot be written" in notice
            (tmp_path / "processes.json").rmdir()
            journal = await journal_when(tmp_path, lambda found: KEY in found.trees)
            assert journal.trees[KEY].agent == entry(process.pid)


async def test_the_limit_of_open_files_is_that_of_before(
    tmp_path: Path, observer: "Observer"
) -> None:
    code = "import resource;print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    mine = Supervisor(tmp_path / "processes.json", ShimContainment(), str, nofile=777)
    shows = LaunchSpec(KEY, (sys.executable, "-c", code, observer.marker), {}, "/")
    with anyio.fail_after(HANG):
        async with mine, mine.launch(shows) as process:
            assert json.loads(await process.stdout.receive()) == 777
