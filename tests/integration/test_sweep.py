"""Whom the next start ends of a daemon that was killed with all its helpers, and whom it spares."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from acpbridge.controller import census
from acpbridge.controller.evidence import judge
from acpbridge.controller.journal import Entry, Journal, Tree
from acpbridge.controller.sweep import Swept, sweep
from acpbridge.transport.helpers import kernel, killing
from tests.integration.daemon_home import daemon_home

if TYPE_CHECKING:
    from tests.integration.conftest import Observer

PATIENCE = 15  # seconds; everything here takes milliseconds

# Does not end with its input, nor by TERM; makes a child that hides, and one without environment.
AGENT = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for kind in sys.argv[2:]:
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        if kind == "bare":
            code = "import signal;signal.pause()"
            os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code, sys.argv[1]], {})
        while True:
            signal.pause()
while True:
    signal.pause()
"""

# A daemon as far as this goes: a supervisor with agents, until it is killed.
DAEMON = """
import json, os, sys
from contextlib import AsyncExitStack
from pathlib import Path
import anyio
from acpbridge.controller.containment import ShimContainment
from acpbridge.controller.process import LaunchSpec
from acpbridge.controller.supervisor import Supervisor
agent, home, marker, *names = sys.argv[1:]

async def main():
    journal = Path(home, "processes.json")
    async with Supervisor(journal, ShimContainment(), str) as mine, AsyncExitStack() as stack:
        shims = []
        for name in names:
            argv = (sys.executable, "-I", "-S", "-c", agent, marker, "deep", "bare")
            env = {"TEST": marker, "ACPBRIDGE_HOME": home, "ACPBRIDGE_MARK": name + "." + "0" * 32}
            process = await stack.enter_async_context(mine.launch(LaunchSpec(name, argv, env, "/")))
            shims.append(process.child.shim.pid)
        helpers = [*shims, mine.keeper_pid, mine._keeper.guard.pid, os.getpid()]
        print(json.dumps(helpers), flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""

# Leaves a process behind that is nobody's, in the end a child of init.
LAUNCHER = """
import os, signal, sys
os.setsid()
if os.fork() != 0:
    os._exit(0)
if sys.argv[2:]:
    child = os.fork()
    if child == 0:
        if sys.argv[2] == "bare":
            code = "import os,signal;os.write(1,b'%d\\\\n'%os.getpid());os.close(1);signal.pause()"
            os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code, sys.argv[1]], {})
        os.write(1, b"%d\\n" % os.getpid())
        os.close(1)
        while True:
            signal.pause()
os.write(1, b"%d\\n" % os.getpid())
os.close(1)
while True:
    signal.pause()
"""

# A person's shell: it leads a session, and starts a program with an environment that was copied.
SHELL = """
import os, signal, sys
marker, how, *pairs = sys.argv[1:]
if os.fork() != 0:
    os._exit(0)
os.setsid()
if os.fork() == 0:
    if how == "orphan" and os.fork() != 0:
        os._exit(0)
    code = "import os,signal;os.write(1,b'%d\\\\n'%os.getpid());os.close(1);signal.pause()"
    env = dict(pair.split("=", 1) for pair in pairs)
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code, marker], env)
os.close(1)
while True:
    signal.pause()
"""

KEY = "agent:x:main"


def entry(pid: int) -> Entry:
    row = kernel.read_process(pid)
    assert row is not None
    return Entry(pid, row.start_ticks)


def alive(*pids: int) -> list[bool]:
    rows = [kernel.read_process(pid) for pid in pids]
    return [row is not None and row.alive for row in rows]


def wait_for(condition: Callable[[], bool]) -> None:
    """Look at the kernel's tables until they say so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Left:
    """Starts processes that nobody owns, and ends those that a test leaves alive."""

    def __init__(self, observer: "Observer", stack: ExitStack) -> None:
        self._observer = observer
        self._stack = stack

    def start(self, *kinds: str, **env: str) -> tuple[Entry, ...]:
        """Leave one behind; return it last, and before it its child, if it has one."""
        found = self._run(LAUNCHER, kinds, env | {"TEST": self._observer.marker})
        if not kinds:
            return tuple(found)
        row = kernel.read_process(found[0].pid)
        assert row is not None
        return tuple(found) if row.ppid == found[1].pid else tuple(reversed(found))

    def dress(self, how: str, env: dict[str, str]) -> Entry:
        """Have a person's shell start a `child` or an `orphan` with a copied environment."""
        pairs = [f"{name}={value}" for name, value in env.items()]
        (dressed,) = self._run(SHELL, (how, *pairs), {"TEST": self._observer.marker})
        for pid in self._observer.alive():
            self._end_after(entry(pid))
        return dressed

    def _run(self, code: str, words: Sequence[str], env: dict[str, str]) -> list[Entry]:
        argv = [sys.executable, "-I", "-S", "-c", code, self._observer.marker, *words]
        done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, check=True)
        found = [entry(int(pid)) for pid in done.stdout.split()]
        for left in found:
            self._end_after(left)
        return found

    def _end_after(self, left: Entry) -> None:
        self._stack.callback(killing.send_signal, left.pid, left.start_ticks, signal.SIGKILL)


@pytest.fixture
def left(observer: "Observer") -> Iterator[Left]:
    """Give the test a way to leave processes behind, and end them after it."""
    with ExitStack() as stack:
        yield Left(observer, stack)
    wait_for(lambda: observer.alive() == {})


def marked(home: Path, key: str = KEY) -> dict[str, str]:
    return {"ACPBRIDGE_HOME": str(home), "ACPBRIDGE_MARK": f"{key}.{uuid4().hex}"}


@contextmanager
def finished() -> Iterator[Entry]:
    """Give an entry of a process that has just been there."""
    with subprocess.Popen(["true"]) as process:
        found = entry(process.pid)
    yield found


def write(where: Path, daemon: Entry, *trees: Tree, **changes: object) -> Path:
    journal = Journal(
        kernel.boot_id(),
        os.getuid(),
        daemon,
        Entry(daemon.pid, daemon.start_ticks),
        {f"agent:x{number}:main": tree for number, tree in enumerate(trees)},
        home=str(where),
        above=tuple(Entry(*pair) for pair in census.ancestors(os.getppid())),
    )
    path = where / "processes.json"
    replace(journal, **changes).write(path)  # type: ignore[arg-type]
    return path


def dead_daemon() -> Entry:
    """Return a daemon that was there a moment ago: whatever is started now is younger."""
    with finished() as found:
        return found


def test_what_is_left_when_all_are_killed_at_once_is_ended_by_the_next_start_g5(
    tmp_path: Path, observer: "Observer"
) -> None:
    names = ["agent:x:main", "agent:y:main"]
    argv = [sys.executable, "-c", DAEMON, AGENT, str(tmp_path), observer.marker, *names]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout
        helpers = json.loads(daemon.stdout.readline())
        path = tmp_path / "processes.json"

        def recorded() -> bool:
            journal = Journal.read(path)
            trees = journal.trees.values() if journal is not None else ()
            return [len(tree.members) for tree in trees] == [3, 3]

        wait_for(recorded)
        for pid in helpers:
            os.kill(pid, signal.SIGSTOP)
        for pid in helpers:
            os.kill(pid, signal.SIGKILL)
    survivors = set(observer.alive())
    assert len(survivors) == 6
    journal = Journal.read(path)
    assert journal is not None
    # One that was just ending is seen by the journal's numbers alone.
    recorded_pids = {pid for pid, _ in journal.entries()}
    assert survivors <= set(sweep(path, str(tmp_path)).killed) <= recorded_pids | survivors
    wait_for(lambda: observer.alive() == {})
    assert sweep(path, str(tmp_path)) == Swept()


def test_who_was_not_written_down_yet_is_found_by_the_marker_with_all_below_g5(
    tmp_path: Path, left: Left
) -> None:
    path = write(tmp_path, dead_daemon())
    bare, top = left.start("bare", **marked(tmp_path))
    acp = f"agent:x:acp:{uuid4()}"
    (second,) = left.start(**marked(tmp_path, acp))
    assert sweep(path, str(tmp_path)).killed == tuple(sorted([bare.pid, top.pid, second.pid]))
    assert not any(alive(bare.pid, top.pid, second.pid))


def doubts(swept: Swept) -> dict[int, str]:
    return {doubt.entry.pid: doubt.reason for doubt in swept.doubts}


@pytest.mark.parametrize(("how", "why"), [("child", "has started it"), ("orphan", "session of")])
def test_a_copied_marker_in_a_persons_session_is_no_proof_g6(
    tmp_path: Path, left: Left, how: str, why: str
) -> None:
    """A person who copies an agent's environment keeps the program, and it is named.

    Without the look at the parent, or at the session, in `evidence._against` it is killed.
    """
    path = write(tmp_path, dead_daemon())
    dressed = left.dress(how, marked(tmp_path))
    swept = sweep(path, str(tmp_path))
    assert swept.killed == ()
    assert alive(dressed.pid) == [True]
    assert list(doubts(swept)) == [dressed.pid]
    assert why in doubts(swept)[dressed.pid]


def test_what_a_service_manager_started_with_an_agents_environment_lives_g6(
    tmp_path: Path, left: Left
) -> None:
    """`systemctl --user import-environment`, run by an agent, gives its marker to every service.

    Such a one leads its session and is a child of the manager, as an orphan of ours may be.
    Without the look at control groups in `evidence._against` it is killed.
    """
    mine = census.group(os.getpid())
    if not mine:
        pytest.skip("this kernel has no control groups")
    path = write(tmp_path, dead_daemon(), group=f"{mine.rstrip('/')}/acpbridge.service")
    (service,) = left.start(**marked(tmp_path))
    swept = sweep(path, str(tmp_path))
    assert swept.killed == ()
    assert "another control group" in doubts(swept)[service.pid]
    assert alive(service.pid) == [True]
    for same in (mine, "/", ""):  # in it, below it, not known
        write(tmp_path, dead_daemon(), group=same)
        (orphan,) = left.start(**marked(tmp_path))
        assert sweep(path, str(tmp_path)).killed == (orphan.pid,)


def test_whose_parent_died_during_the_look_is_taken_for_no_orphan_g6(
    tmp_path: Path, left: Left
) -> None:
    """A gap in the table hides that it is below somebody who lives: it may be a tree at work."""
    path = write(tmp_path, dead_daemon())
    child, top = left.start("plain", **marked(tmp_path))
    table = {pid: row for pid, row in kernel.process_table().items() if pid != top.pid}
    found = judge(table, Journal.read(path), str(tmp_path))
    assert (found.ours, [doubt.entry for doubt in found.doubts]) == ((), [child])
    assert set(sweep(path, str(tmp_path)).killed) == {child.pid, top.pid}


def test_without_a_journal_of_this_boot_a_marker_is_named_and_not_signalled_case_65(
    tmp_path: Path, left: Left
) -> None:
    (stray,) = left.start(**marked(tmp_path))
    path = tmp_path / "processes.json"
    for text in ("", "garbage", '{"pid": 1}'):
        path.write_text(text, encoding="utf-8")
        swept = sweep(path, str(tmp_path))
        assert (swept.killed, list(doubts(swept))) == ((), [stray.pid])
    path.unlink()
    path.mkdir()
    assert list(doubts(sweep(path, str(tmp_path)))) == [stray.pid]
    assert sweep(path, str(tmp_path / "other")) == Swept()  # a second bridge of the same user
    assert alive(stray.pid) == [True]


def test_a_damaged_journal_is_told_and_who_bears_the_marker_is_shown_case_65(
    tmp_path: Path, left: Left
) -> None:
    """By `status` with and without a daemon; before, nobody said that the journal is damaged."""
    with daemon_home(tmp_path) as home:
        (stray,) = left.start(**marked(home.path))
        (home.path / "processes.json").write_text('{"pid": 1', encoding="utf-8")
        for command in (["status", "--json"], ["daemon", "start"], ["status", "--json"]):
            done = home.run(*command)
            if command[0] == "status":
                (row,) = done.json["unowned"]
                assert (row["pid"], "bears the marker" in row["reason"]) == (stray.pid, True)
                assert str(stray.pid) in row["next"]
                assert any("processes.json is damaged" in w for w in done.json["warnings"])
        assert alive(stray.pid) == [True]
        # Of a journal that is whole nothing is said.
        home.run("daemon", "restart", limit=30)
        assert home.run("status", "--json").json["warnings"] == []
        killing.send_signal(stray.pid, stray.start_ticks, signal.SIGKILL)


def test_the_journal_of_another_directory_ends_nobody_g6(tmp_path: Path, left: Left) -> None:
    """Without the comparison in `evidence._Look` both are killed: they are another bridge's."""
    child, top = left.start("plain")
    path = write(tmp_path, dead_daemon(), Tree(top, top, (child,)), home="/elsewhere")
    swept = sweep(path, str(tmp_path))
    assert (swept.killed, set(doubts(swept))) == ((), {child.pid, top.pid})
    assert alive(child.pid, top.pid) == [True, True]


def test_a_journal_that_names_the_first_process_or_the_sweeper_ends_neither_case_65(
    tmp_path: Path, left: Left
) -> None:
    """Without `_spared` the test itself is stopped."""
    ours = [entry(pid) for pid in (os.getpid(), os.getppid(), 1)]
    (stray,) = left.start()
    path = write(tmp_path, dead_daemon(), Tree(ours[0], ours[1], (ours[2], stray)), guard=ours[2])
    assert sweep(path, str(tmp_path)).killed == (stray.pid,)


def test_helpers_and_whoever_outlived_an_earlier_sweep_are_ended_g5(
    tmp_path: Path, left: Left
) -> None:
    """A keeper that somebody has stopped outlives its daemon; the journal names it too."""
    (keeper,), (guard,), (old,) = left.start(), left.start(), left.start()
    path = write(tmp_path, dead_daemon(), keeper=keeper, guard=guard, left=(old,))
    os.kill(keeper.pid, signal.SIGSTOP)
    assert set(sweep(path, str(tmp_path)).killed) == {keeper.pid, guard.pid, old.pid}


def test_a_stranger_who_has_the_number_of_a_dead_member_lives_g6(
    tmp_path: Path, left: Left
) -> None:
    (stranger,) = left.start()
    wrong = Entry(stranger.pid, stranger.start_ticks + 1)
    earlier = Entry(stranger.pid, stranger.start_ticks - 1)
    path = write(
        tmp_path, dead_daemon(), Tree(wrong, wrong, (wrong, earlier)), Tree(earlier, wrong)
    )
    assert sweep(path, str(tmp_path)).killed == ()
    assert alive(stranger.pid) == [True]


@pytest.mark.parametrize("changes", [{"boot_id": "another"}, {"uid": os.getuid() + 1}])
def test_a_journal_of_another_boot_or_user_touches_nobody_g6(
    tmp_path: Path, left: Left, changes: dict[str, object]
) -> None:
    daemon = dead_daemon()
    child, top = left.start("plain", **marked(tmp_path))
    path = write(tmp_path, daemon, Tree(top, top, (child,)), **changes)
    assert sweep(path, str(tmp_path)).killed == ()
    assert alive(child.pid, top.pid) == [True, True]
    (tmp_path / "processes.json").write_text("garbage", encoding="utf-8")
    assert sweep(path, str(tmp_path)).killed == ()
    (tmp_path / "processes.json").unlink()
    assert sweep(path, str(tmp_path)).killed == ()
    assert alive(child.pid, top.pid) == [True, True]


def test_a_marker_that_is_not_one_of_ours_means_nothing(tmp_path: Path, left: Left) -> None:
    path = write(tmp_path, dead_daemon())
    ours = marked(tmp_path)
    others = [
        {},
        {"ACPBRIDGE_HOME": ours["ACPBRIDGE_HOME"]},
        {"ACPBRIDGE_MARK": ours["ACPBRIDGE_MARK"]},
        ours | {"ACPBRIDGE_HOME": str(tmp_path / "other")},
        ours | {"ACPBRIDGE_HOME": str(tmp_path) + "/"},
        ours | {"ACPBRIDGE_MARK": "x"},
        ours | {"ACPBRIDGE_MARK": KEY},
        ours | {"ACPBRIDGE_MARK": f"{KEY}.short"},
        ours | {"ACPBRIDGE_MARK": f"no key.{uuid4().hex}"},
        {"XACPBRIDGE_MARK": ours["ACPBRIDGE_MARK"], "XACPBRIDGE_HOME": str(tmp_path)},
    ]
    pids = [left.start(**env)[0].pid for env in others]
    assert sweep(path, str(tmp_path)).killed == ()
    assert all(alive(*pids))


def test_who_is_older_than_the_daemon_was_none_of_its_agents(tmp_path: Path, left: Left) -> None:
    (older,) = left.start(**marked(tmp_path))
    path = write(tmp_path, Entry(older.pid + 1, older.start_ticks + 1))
    swept = sweep(path, str(tmp_path))
    assert swept.killed == ()
    assert doubts(swept) == {
        older.pid: f"bears the marker of {KEY}, but is older than the daemon that was killed"
    }
    path = write(tmp_path, Entry(2**22 - 1, older.start_ticks))
    assert sweep(path, str(tmp_path)).killed == (older.pid,)


def test_who_lives_below_a_daemon_that_is_alive_is_not_touched(tmp_path: Path, left: Left) -> None:
    child, top = left.start("plain", **marked(tmp_path))
    path = write(tmp_path, top, Tree(child, child, (child,)))
    assert sweep(path, str(tmp_path)).killed == ()
    assert alive(child.pid, top.pid) == [True, True]


def test_the_sweeper_spares_itself_and_all_above_and_below(
    tmp_path: Path, left: Left, observer: "Observer"
) -> None:
    # A daemon that is started from within a tree that a dead one left behind.
    code = """
import json, subprocess, sys
from pathlib import Path
from acpbridge.controller.sweep import sweep
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()", sys.argv[2]],
                         stdin=subprocess.PIPE)
print(json.dumps([sweep(Path(sys.argv[1], "processes.json"), sys.argv[1]).killed, child.poll()]))
child.kill()
child.wait()
"""
    write(tmp_path, dead_daemon())
    (stray,) = left.start(**marked(tmp_path))
    # The shell above the sweeper bears the marker too.
    argv = ["/bin/sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", code]
    done = subprocess.run(
        [*argv, str(tmp_path), observer.marker],
        env=os.environ | marked(tmp_path),
        stdout=subprocess.PIPE,
        check=True,
    )
    assert json.loads(done.stdout) == [[stray.pid], None]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start another user's process")
def test_another_users_process_with_our_marker_is_not_touched_g6(
    tmp_path: Path, observer: "Observer"
) -> None:
    path = write(tmp_path, dead_daemon())
    code = "import os,signal;os.setuid(65534);os.write(1,b'!');os.close(1);signal.pause()"
    detach = "import os\nos.setsid()\nif os.fork() != 0:\n    os._exit(0)\n"
    argv = [sys.executable, "-I", "-S", "-c", detach + code, observer.marker]
    env = marked(tmp_path) | {"TEST": observer.marker}
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"!"
    (theirs,) = observer.alive()
    try:
        assert sweep(path, str(tmp_path)) == Swept()
        # Nor if it is proven to be an agent's, as one is that was started by sudo.
        recorded = entry(theirs)
        path = write(tmp_path, dead_daemon(), Tree(recorded, recorded))
        swept = sweep(path, str(tmp_path))
        assert (swept.killed, list(doubts(swept))) == ((), [theirs])
        assert alive(theirs) == [True]
    finally:
        os.kill(theirs, signal.SIGKILL)
        wait_for(lambda: observer.alive() == {})
