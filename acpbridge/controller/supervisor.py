"""Starts agents, watches them, ends them, and writes down what runs.

Above are the runtimes, which see only `Launcher` and `AgentProcess`. Below is `transport.child`,
the only code that starts processes. Of one process `supervised` takes care, of those that nobody
owns any more `strays`.
"""

import os
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import structlog

from acpbridge.config.environment import MARK
from acpbridge.controller import belonging, census, usage
from acpbridge.controller.belonging import pair
from acpbridge.controller.bounds import Bounds, Usage
from acpbridge.controller.containment import PIDNS, PLAIN, Containment, Hold
from acpbridge.controller.journal import Entry, Journal
from acpbridge.controller.process import AgentProcess, LaunchSpec
from acpbridge.controller.strays import Strays, Unowned
from acpbridge.controller.supervised import SupervisedProcess
from acpbridge.controller.sweep import Swept, sweep_after
from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults
from acpbridge.transport.child import Keeper
from acpbridge.transport.helpers import kernel
from acpbridge.transport.tasks import Owner, background
from acpbridge.transport.tree import NOBODY, Child, ChildSpec

log = structlog.get_logger(__name__)

# The journal follows the trees at this pace while agents run; a start writes it at once. Seconds.
CENSUS_PACE: Final = 1.0

# A shim exits after its last report; it is looked for so often and so long. Seconds.
SHIM_LOOK: Final = 0.01
SHIM_EXIT: Final = 1.0

NOTHING_LEFT: Final = Swept()


class Supervisor(Owner):
    """All agents of one daemon; use it as an async context manager.

    Args:
        journal: the file that says what runs.
        containment: how trees are held.
        redact: for what agents say on stderr.
        faults: named points for tests.
        nofile: the agents' soft limit of open files, where the daemon raised its own.
        swept: what was left of an earlier daemon when this one started.
    """

    def __init__(
        self,
        journal: Path,
        containment: Containment,
        redact: Callable[[str], str],
        faults: Faults = no_faults,
        *,
        nofile: int | None = None,
        swept: Swept = NOTHING_LEFT,
    ) -> None:
        self._path = journal
        self._home = str(journal.parent)
        self._swept = swept
        self._trouble = ""
        self._containment = containment
        self._redact = redact
        self._faults = faults
        self._running: dict[str, SupervisedProcess] = {}
        self._changed = anyio.Event()
        self._written: Journal | None = None
        self._nofile = nofile

    async def _enter(self, stack: AsyncExitStack) -> None:
        self._keeper = Keeper(on_lost=self._look_again, nofile=self._nofile)
        self._strays = Strays(self._keeper, self._shims, self._swept)
        # Whom orphans of ours would fall to, should all helpers die with us.
        self._above = tuple(Entry(*pair) for pair in census.ancestors(os.getppid()))
        # The journal stays in this very directory, whatever becomes of its path.
        self._folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, self._folder)
        await stack.enter_async_context(self._keeper)
        # From the first moment the journal says since when this daemon runs.
        self._look_again()
        await stack.enter_async_context(background(self._keep_journal))

    @property
    def containment(self) -> str:
        """How trees are held, as status shows it."""
        return self._containment.name

    @property
    def keeper_pid(self) -> int:
        """Of the keeper; 0 while there is none."""
        return self._keeper.pid

    @property
    def guard_pid(self) -> int:
        """Of the keeper's guard; 0 while there is none."""
        return self._keeper.guard.pid

    @asynccontextmanager
    async def launch(self, spec: LaunchSpec) -> AsyncIterator[AgentProcess]:
        """Start an agent; leaving the context ends its whole tree.

        Raises:
            BridgeError: `agent_not_found`, `start_failed`.
        """
        if not Path(spec.cwd).is_absolute():
            # The shim would take it from its own directory, which is not the caller's.
            message = f"The working directory {spec.cwd!r} is not an absolute path."
            raise BridgeError("start_failed", message)
        hold, child = await self._start(spec)
        guard = self._keeper.guard
        process = SupervisedProcess(
            spec, child, self._containment, self._redact, self._faults, hold=hold
        )
        self._running[spec.name] = process
        self._look_again()
        try:
            self._faults("supervisor.spawned")
            async with background(process.drain_stderr, process.watch):
                try:
                    yield process
                finally:
                    # Bounded by its own limits: stdin closed, grace, TERM, last step.
                    with anyio.CancelScope(shield=True):
                        await process.stop()
                        if not guard.alive():
                            await self._sweep_after_helpers(spec.whose)
        finally:
            if self._running.get(spec.name) is process:
                del self._running[spec.name]
            self._look_again()
            with anyio.CancelScope(shield=True):
                await child.aclose()
                await _release(hold, child)

    async def _start(self, spec: LaunchSpec) -> tuple[Hold, Child]:
        """Start an agent in what holds it; in a weaker one only where none was asked for."""
        hold = self._containment.hold(spec.containment)
        try:
            return hold, await self._keeper.spawn(_child_spec(spec, hold))
        except BridgeError as error:
            hold.release()
            if not (hold.weaker and error.data.get("step") == "cgroup"):
                raise
            log.warning("no control group, a shim only", name=spec.name, error=error.message)
        except BaseException:
            hold.release()
            raise
        return PLAIN, await self._keeper.spawn(_child_spec(spec, PLAIN))

    # What runs.

    def live(self) -> int:
        """Return how many agents run."""
        return len(self._running)

    def owner_of(self, pid: int) -> str | None:
        """Return whose tree a process is in, by its ancestors or its marker; None for nobody's.

        Of a process that is gone, or that the kernel hides, nobody can say that it is a stranger:
        it is somebody's, whose name is "". Blocks for a few reads of /proc.
        """
        running = list(self._running.values())
        shims = {pair(process.child.shim): process.spec.whose for process in running}
        line = census.ancestors(pid)
        for entry in line:
            if entry in shims:
                return shims[entry]
        for process in running:
            if process.hold.holds(pid):
                return (
                    process.spec.whose
                )  # its line was cut, but nobody leaves a control group by that
        if self._strays.helpers().intersection(line):
            return ""  # below a keeper and below no shim: it has lost its shim, or is starting
        for above, _ in line:
            value = census.marker(above, MARK)
            if value:
                return value.rpartition(".")[0]
        return None if line and line == census.ancestors(pid) else ""

    async def processes(self, name: str) -> list[census.ProcessInfo]:
        """Return the whole tree of one owner, from the kernel, now."""
        return (await self.trees([name]))[name]

    async def trees(self, names: list[str]) -> dict[str, list[census.ProcessInfo]]:
        """Return the whole trees of several owners, all from one look at the kernel's table."""
        found = [p for p in self._running.values() if p.spec.whose in names]
        return {
            **{name: [] for name in names},
            **await anyio.to_thread.run_sync(belonging.trees, found),
        }

    async def usage(self, name: str, limits: Bounds) -> Usage | None:
        """Return what the whole tree of one owner takes, from the kernel, now; None if it has none.

        Raises:
            OSError: the kernel could not be asked.
        """
        process = self._running.get(name)
        if process is None:
            return None
        own, *beside = belonging.by_owner(self._running.values())[name]
        work = partial(
            usage.measure,
            pair(own.child.shim),
            limits,
            tuple(pair(process.child.shim) for process in beside),
        )
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    def held(self, name: str) -> str | None:
        """Return how the tree of one owner is held, None if it has none."""
        process = self._running.get(name)
        return None if process is None else process.hold.name

    async def unowned(self) -> list[Unowned]:
        """Return what nobody owns: without a shim, or left by an earlier daemon."""
        return await anyio.to_thread.run_sync(self._strays.unowned)

    async def end_unowned(self) -> tuple[list[int], list[int]]:
        """End what is proven ours and nobody owns; return the pids of the dead and of the left."""
        return await anyio.to_thread.run_sync(self._strays.end_proven)

    async def _sweep_after_helpers(self, name: str) -> None:
        """End who left its tree, where guard, keeper and shim died together: nobody else can.

        What the journal has seen of it, and who bears our marker, is found as by the next daemon.
        """
        if self._written is None:
            return
        # Of others only what is below us is known to live, and a look at that may have gaps.
        trees = {n: tree for n, tree in self._written.trees.items() if n == name}
        seen = replace(self._written, keeper=self._written.daemon, guard=None, trees=trees)
        try:
            swept = await anyio.to_thread.run_sync(sweep_after, seen, self._home)
        except OSError as error:
            log.warning("nobody could look for what the helpers left", error=str(error))
            return
        self._strays.add(swept)
        if swept.killed:
            log.warning("ended what dead helpers left", pids=swept.killed)

    def _shims(self) -> set[int]:
        return {process.child.shim.pid for process in list(self._running.values())}

    async def alive(
        self, processes: list[census.ProcessInfo], named: Collection[int] = ()
    ) -> list[int]:
        """Return the pids of those that still live, and of all that have lost their shim; now.

        A shim that has just reported that its tree is gone takes a moment to be gone itself.

        Args:
            processes: who is looked for.
            named: pids that a shim could not end in its whole time: they do not get another one.
        """
        left = await self._alive_after_a_moment(processes, named)
        return left + await anyio.to_thread.run_sync(self._strays.end, named)

    async def _alive_after_a_moment(
        self, processes: list[census.ProcessInfo], named: Collection[int]
    ) -> list[int]:
        entries = [Entry(process.pid, process.start_ticks) for process in processes]
        left = await anyio.to_thread.run_sync(_alive, entries)
        with anyio.move_on_after(SHIM_EXIT):
            while not set(left) <= set(named):
                await anyio.sleep(SHIM_LOOK)
                left = await anyio.to_thread.run_sync(_alive, entries)
        return left

    # The journal.

    def _look_again(self) -> None:
        self._strays.helpers()
        self._changed.set()

    @property
    def notices(self) -> list[str]:
        """What an operator should know of the journal."""
        return [self._trouble] if self._trouble else []

    async def _keep_journal(self) -> None:
        while True:
            with anyio.move_on_after(CENSUS_PACE if self._running else None):
                await self._changed.wait()
            self._changed = anyio.Event()
            try:
                await anyio.to_thread.run_sync(self._write_journal)
                self._trouble = ""
            except OSError as error:
                trouble = f"the process journal {self._path} cannot be written: {error.strerror}"
                if trouble != self._trouble:
                    log.warning(trouble)
                self._trouble = trouble

    def _write_journal(self) -> None:
        before = self._written.trees if self._written is not None else {}
        trees = belonging.recorded(list(self._running.values()), before)
        me = kernel.read_process(os.getpid())
        assert me is not None
        keeper, guard = self._keeper.identity, self._keeper.guard
        daemon = Entry(me.pid, me.start_ticks)
        now = Journal(
            boot_id=kernel.boot_id(),
            uid=os.getuid(),
            daemon=daemon,
            # One that is just being started has not said who it is.
            keeper=Entry(*pair(keeper)) if keeper != NOBODY else daemon,
            trees=trees,
            guard=Entry(*pair(guard)) if guard != NOBODY else None,
            home=self._home,
            above=self._above,
            left=self._strays.left(),
            group=census.group(me.pid),
        )
        if now != self._written:
            now.write(self._path, self._faults, self._folder)
            self._written = now


def _alive(entries: list[Entry]) -> list[int]:
    return [entry.pid for entry in entries if entry.alive()]


def _child_spec(spec: LaunchSpec, hold: Hold) -> ChildSpec:
    pidns = hold.name == PIDNS
    folder, merged = hold.folder, spec.merged
    return ChildSpec(spec.argv, spec.env, spec.cwd, cgroup=folder, pidns=pidns, merged=merged)


async def _release(hold: Hold, child: Child) -> None:
    # What could not be killed keeps its control group, for the sweep of the next start.
    if hold.cgroup is not None and child.receipt is not None and not child.receipt.survivors:
        # The agent may have made very many groups below it; nobody else waits for their end.
        await anyio.to_thread.run_sync(hold.release)
