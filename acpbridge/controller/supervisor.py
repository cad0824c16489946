"""Starts agents, watches them, ends them, and writes down what runs.

Above are the runtimes, which see only `Launcher` and `AgentProcess`. Below is `transport.child`,
the only code that starts processes. The life of each process is the table of `lifecycle`; this
module turns what happens into its inputs and carries out what the cells say.
"""

import hashlib
import os
import signal
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import structlog

from acpbridge.config.environment import MARK
from acpbridge.config.recognise import better_command
from acpbridge.controller import census, lifecycle
from acpbridge.controller.containment import Containment
from acpbridge.controller.journal import Entry, Journal, Tree
from acpbridge.controller.lifecycle import Action, Input, Life
from acpbridge.controller.process import AgentProcess, LaunchSpec
from acpbridge.errors import BridgeError
from acpbridge.model.ports import Faults, no_faults
from acpbridge.transport import keeper as kernel
from acpbridge.transport.child import Child, ChildSpec, Keeper, ProcessId
from acpbridge.transport.memory import ByteReceive, ByteSend
from acpbridge.transport.tasks import Owner, background
from acpbridge.transport.tree import NOBODY

log = structlog.get_logger(__name__)

# What stands in every error about an agent.
STDERR_KEPT: Final = 16 * 1024

# Before it so much more is kept, so that a secret which the cut would halve is found. Bytes, more
# than any token or key block has.
MARGIN: Final = 8 * 1024

# How a program that does not speak ACP shows it.
_NOT_ACP: Final = frozenset({"start_failed", "start_timeout"})

# The journal follows the trees at this pace while agents run; a start writes it at once. Seconds.
CENSUS_PACE: Final = 1.0

# A shim exits after its last report; it is looked for so often and so long. Seconds.
SHIM_LOOK: Final = 0.01
SHIM_EXIT: Final = 1.0

# What has lost its shim is looked at twice, so far apart: the keeper ends it meanwhile. Seconds.
STRAY_PAUSE: Final = 0.3

# As a shim calls itself.
SHIM: Final = "acpb-shim"

# After the agent's exit its last words on stderr are waited for this long. Seconds.
LAST_WORDS: Final = 0.2


class SupervisedProcess:
    """One agent behind its shim, as an `AgentProcess`."""

    def __init__(
        self, spec: LaunchSpec, child: Child, containment: Containment, redact: Callable[[str], str]
    ) -> None:
        self.spec = spec
        self.child = child
        self.life = Life.STARTING
        self._containment = containment
        self._redact = redact
        self._stderr: deque[bytes] = deque()
        self._stderr_size = 0
        self._stderr_cut = False
        self._stderr_done = anyio.Event()

    @property
    def pid(self) -> int:
        """Of the agent itself."""
        return self.child.agent.pid

    @property
    def stdin(self) -> ByteSend:
        """Where our bytes go."""
        return self.child.stdin

    @property
    def stdout(self) -> ByteReceive:
        """Where its bytes come from."""
        return self.child.stdout

    async def exited(self) -> str:
        """Wait for the agent's own exit and return how it ended, for people."""
        status = await self.child.wait_exit()
        with anyio.move_on_after(LAST_WORDS):
            await self._stderr_done.wait()
        return str(status)

    async def watch(self) -> None:
        """Follow the process to the proof that nothing of its tree is left."""
        status = await self.child.wait_exit()
        if self.happened(Input.EXITED) is Action.TELL:
            log.warning("agent died", name=self.spec.name, how=str(status))
        receipt = await self.child.wait_gone()
        if not receipt.survivors:
            self.happened(Input.TREE_GONE)

    def initialized(self) -> None:
        """Take note that it answered `initialize`."""
        self.happened(Input.INITIALIZED)

    def happened(self, what: Input) -> Action:
        """Move along the table and return what is to be done."""
        cell = lifecycle.step(self.life, what)
        self.life = cell.state
        return cell.action

    def post_mortem(self, code: str, message: str) -> BridgeError:
        """Return an error with the exit status and the end of its stderr, redacted."""
        data: dict[str, object] = {"stderr": self.stderr_tail()}
        if self.child.exit is not None:
            data |= {"exitCode": self.child.exit.code, "signal": self.child.exit.signal}
        hint = _better_command(self.spec) if code in _NOT_ACP else None
        return BridgeError(code, message, hint=hint, data=data)

    def stderr_tail(self) -> str:
        """Return the last of what it wrote on stderr, redacted."""
        text = self._redact(b"".join(self._stderr).decode("utf-8", "replace"))
        if self._stderr_cut:
            # Half a secret is not recognised: what stands where the cut was is not shown.
            text = text[MARGIN:]
        return text.encode("utf-8", "replace")[-STDERR_KEPT:].decode("utf-8", "ignore")

    async def drain_stderr(self) -> None:
        """Read stderr to its end, for a full pipe would block the agent; keep the last of it."""
        try:
            while True:
                chunk = await self.child.stderr.receive()
                self._stderr.append(chunk)
                self._stderr_size += len(chunk)
                while self._stderr_size - len(self._stderr[0]) >= STDERR_KEPT + MARGIN:
                    self._stderr_size -= len(self._stderr.popleft())
                    self._stderr_cut = True
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            self._stderr_done.set()

    async def stop(self, grace: float | None = None) -> tuple[int, ...]:
        """End the whole tree; return the pids that are left."""
        if self.happened(Input.STOP) is not Action.END_TREE:
            return ()  # proven gone
        asked = self.spec.stop_grace() if grace is None else grace
        wanted = self.spec.grace if asked is None else asked
        receipt = await self._containment.end(self.child, wanted)
        if not receipt.survivors:
            self.happened(Input.TREE_GONE)
        return receipt.survivors


def _better_command(spec: LaunchSpec) -> str | None:
    right = better_command(spec.argv, spec.better)
    return None if right is None else f"The command that speaks ACP is: {right}"


class Supervisor(Owner):
    """All agents of one daemon; use it as an async context manager.

    Args:
        journal: the file that says what runs.
        containment: how trees are held.
        redact: for what agents say on stderr.
        faults: named points for tests.
        nofile: the agents' soft limit of open files, where the daemon raised its own.
    """

    def __init__(
        self,
        journal: Path,
        containment: Containment,
        redact: Callable[[str], str],
        faults: Faults = no_faults,
        *,
        nofile: int | None = None,
    ) -> None:
        self._path = journal
        self._containment = containment
        self._redact = redact
        self._faults = faults
        self._running: dict[str, SupervisedProcess] = {}
        self._changed = anyio.Event()
        self._written: Journal | None = None
        self._nofile = nofile
        # Every guard and keeper that ever was: what is below one is an agent's, whoever it says.
        self._helpers: set[tuple[int, int]] = set()

    async def _enter(self, stack: AsyncExitStack) -> None:
        keeper = Keeper(on_lost=self._look_again, nofile=self._nofile)
        self._keeper = await stack.enter_async_context(keeper)
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
        child = await self._keeper.spawn(ChildSpec(spec.argv, spec.env, spec.cwd))
        process = SupervisedProcess(spec, child, self._containment, self._redact)
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
        finally:
            if self._running.get(spec.name) is process:
                del self._running[spec.name]
            self._look_again()
            with anyio.CancelScope(shield=True):
                await child.aclose()

    # What runs.

    def live(self) -> int:
        """Return how many agents run."""
        return len(self._running)

    def owner_of(self, pid: int) -> str | None:
        """Return whose tree a process is in, by its ancestors or its marker; None for nobody's.

        Of a process that is gone, or that the kernel hides, nobody can say that it is a stranger:
        it is somebody's, whose name is "". Blocks for a few reads of /proc.
        """
        shims = {_pair(p.child.shim): name for name, p in list(self._running.items())}
        line = census.ancestors(pid)
        for entry in line:
            if entry in shims:
                return shims[entry]
        if self._helpers_known().intersection(line):
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
        found = [(name, self._running.get(name)) for name in names]
        children = {name: process.child for name, process in found if process is not None}
        tops = {name: (_pair(child.shim), _pair(child.agent)) for name, child in children.items()}
        return {
            **{name: [] for name in names},
            **await anyio.to_thread.run_sync(census.trees, tops),
        }

    async def unowned(self) -> list[census.ProcessInfo]:
        """Return what lives below guard or keeper and below no shim of ours.

        The keeper ends such processes within milliseconds; those that stay are what it could not.
        """
        return await anyio.to_thread.run_sync(self._strays)

    def _strays(self) -> list[census.ProcessInfo]:
        before = {(row.pid, row.start_ticks) for row in self._stray_rows()}
        if before:
            time.sleep(STRAY_PAUSE)
        rows = [r for r in self._stray_rows() if (r.pid, r.start_ticks) in before]
        infos = (census.look(row.pid, row.start_ticks, "child") for row in rows)
        return [info for info in infos if info is not None]

    def _stray_rows(self) -> list[kernel.Process]:
        """Look at everything below guard and keeper, without the trees of known shims."""
        helpers = self._helpers_known()
        children = self._keeper.children
        known = {child.shim.pid for child in children}
        known |= {process.child.shim.pid for process in list(self._running.values())}
        known |= {pid for pid, _ in helpers}
        # A shim that was forked just now has not told who it is.
        starting = any(child.shim == NOBODY for child in children)
        table = kernel.process_table()
        found: dict[int, kernel.Process] = {}
        for pid, start_ticks in helpers:
            row = table.get(pid)
            if row is None or row.start_ticks != start_ticks:
                continue
            new = {r.pid for r in table.values() if starting and r.ppid == pid and r.name == SHIM}
            below = kernel.tree_of(pid, table, skip=known | new)
            found |= {member.pid: member for member in below}
        return list(found.values())

    def _end_strays(self) -> list[int]:
        """End what has lost its shim and what the keeper does not end; return who is left."""
        if not self._strays():
            return []
        for pid, start_ticks in self._helpers_known():
            kernel.send_signal(pid, start_ticks, signal.SIGCONT)
        loop = kernel.KillLoop(self._stray_rows)
        loop.run()
        return loop.survivors

    async def alive(self, processes: list[census.ProcessInfo]) -> list[int]:
        """Return the pids of those that still live, and of all that have lost their shim; now.

        A shim that has just reported that its tree is gone takes a moment to be gone itself.
        """
        left = await self._alive_after_a_moment(processes)
        return left + await anyio.to_thread.run_sync(self._end_strays)

    async def _alive_after_a_moment(self, processes: list[census.ProcessInfo]) -> list[int]:
        entries = [Entry(process.pid, process.start_ticks) for process in processes]
        left = await anyio.to_thread.run_sync(_alive, entries)
        with anyio.move_on_after(SHIM_EXIT):
            while left:
                await anyio.sleep(SHIM_LOOK)
                left = await anyio.to_thread.run_sync(_alive, entries)
        return left

    async def keeper_info(self) -> census.ProcessInfo | None:
        """Return the keeper as the kernel sees it."""
        identity = self._keeper.identity
        return await anyio.to_thread.run_sync(census.look, *_pair(identity), "keeper")

    # The journal.

    def _look_again(self) -> None:
        self._helpers_known()
        self._changed.set()

    def _helpers_known(self) -> set[tuple[int, int]]:
        now = {self._keeper.identity, self._keeper.guard} - {NOBODY}
        self._helpers |= {_pair(helper) for helper in now}
        return self._helpers

    async def _keep_journal(self) -> None:
        trouble = ""
        while True:
            with anyio.move_on_after(CENSUS_PACE if self._running else None):
                await self._changed.wait()
            self._changed = anyio.Event()
            try:
                await anyio.to_thread.run_sync(self._write_journal)
                trouble = ""
            except OSError as error:
                if str(error) != trouble:
                    log.warning("the process journal cannot be written", error=str(error))
                trouble = str(error)

    def _write_journal(self) -> None:
        before = self._written.trees if self._written is not None else {}
        trees = {
            name: _tree(process, before.get(name)) for name, process in list(self._running.items())
        }
        me = kernel.read_process(os.getpid())
        assert me is not None
        now = Journal(
            boot_id=kernel.boot_id(),
            uid=os.getuid(),
            daemon=Entry(me.pid, me.start_ticks),
            keeper=Entry(*_pair(self._keeper.identity)),
            trees=trees,
            guard=Entry(*_pair(guard)) if (guard := self._keeper.guard) != NOBODY else None,
        )
        if now != self._written:
            now.write(self._path)
            self._written = now


def _alive(entries: list[Entry]) -> list[int]:
    return [entry.pid for entry in entries if entry.alive()]


def _pair(identity: ProcessId) -> tuple[int, int]:
    return identity.pid, identity.start_ticks


def _tree(process: SupervisedProcess, before: Tree | None) -> Tree:
    """Return what lives of a tree; who was seen in it stays, though its shim be gone by now."""
    child = process.child
    shim, agent = Entry(*_pair(child.shim)), Entry(*_pair(child.agent))
    argv = hashlib.sha256("\0".join(process.spec.argv).encode("utf-8", "surrogateescape"))
    known = before.members if before is not None and before.shim == shim else ()
    members = {member: None for member in known if member.alive()}
    rows = kernel.tree_of(shim.pid)
    if shim.alive():  # asked after the look: until then nobody else had its number
        members |= {Entry(row.pid, row.start_ticks): None for row in rows}
    return Tree(shim, agent, tuple(members), argv.hexdigest(), process.spec.parent)
