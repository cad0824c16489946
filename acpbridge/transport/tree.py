"""The daemon's end of one shim: a child, its stdio, its exit, and the proof that its tree is gone.

Above are the supervisor and whoever reads and writes the streams; `acpbridge.transport.child`
makes the children. Below is the shim's channel, whose words `acpbridge.transport.helpers` defines.
"""

import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import anyio

from acpbridge.transport.helpers import kernel, killing, wire
from acpbridge.transport.helpers.cgroup import Cgroup
from acpbridge.transport.pipes import PipeReader, PipeWriter

# A healthy shim answers a kill within a millisecond; one that was stopped never does.
ANSWER_LIMIT = 1.0
# The tree gets this long after TERM. codex kills its own child 2 s after its input ends.
TERM_WAIT = 3.0
# The last step gives up by itself after 5 s; before it a silent shim may cost a second.
LAST_STEP_LIMIT = killing.KILL_LIMIT + ANSWER_LIMIT + 1.0
# A tool that the agent leaves running may still be wanted by it: codex needed 5.0 s, claude 2.2.
LINGER = 5.0


@dataclass(frozen=True, slots=True)
class ProcessId:
    """Who a process is within one boot: numbers are reused, the pair is not."""

    pid: int
    start_ticks: int

    def signal(self, number: int) -> bool:
        """Signal this process and nobody else; False if it is gone or could not be reached."""
        try:
            return killing.send_signal(self.pid, self.start_ticks, number)
        except OSError:
            return False  # out of descriptors

    def alive(self) -> bool:
        """Ask the kernel whether it can still run code."""
        row = kernel.read_process(self.pid)
        return row is not None and row.start_ticks == self.start_ticks and row.alive


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to start, as exec takes it: nothing is added to the environment.

    Attributes:
        argv: program and arguments.
        env: the whole environment.
        cwd: an absolute directory.
        linger: seconds that what the agent leaves behind may outlive it.
        cgroup: directory of the control group that it is born in, "" for none.
        pidns: whether it gets a pid namespace of its own.
        merged: whether what it writes on stderr comes with its stdout, in the order of writing.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    linger: float = LINGER
    cgroup: str = ""
    pidns: bool = False
    merged: bool = False


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How an agent ended; one of the two is set."""

    code: int | None
    signal: int | None

    def __str__(self) -> str:
        if self.signal is None:
            return f"exit code {self.code}"
        try:
            return signal.Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"

    @classmethod
    def of(cls, code: int) -> "ExitStatus":
        """Read a code in which a signal is negative, as the standard library writes it."""
        return cls(None, -code) if code < 0 else cls(code, None)


@dataclass(frozen=True, slots=True)
class KillReceipt:
    """Who of a tree was there when its end began and is proven dead, and who is left.

    Where several shims were lost in the same moment, each receipt names what all of them left.
    """

    killed: tuple[int, ...]
    survivors: tuple[int, ...]


# The sweep after a lost shim kills the agent with SIGKILL, and nobody is left to say so.
LOST = ExitStatus(None, signal.SIGKILL)
NOBODY = ProcessId(0, 0)


async def hear(channel: socket.socket) -> bytes:
    """Return the next message of a helper; b"" when it is gone and everything was heard."""
    while True:
        try:
            return channel.recv(wire.MESSAGE_LIMIT)
        except BlockingIOError:
            await anyio.wait_readable(channel)
        except ConnectionResetError:
            continue  # it did not read our last word; what it said before is still there
        except OSError:
            return b""


class Child:
    """One agent with everything below it, behind its shim.

    Made by `Keeper.spawn`. The streams stay open after the end, so that what is still in the pipes
    can be read; `aclose` closes them.

    Attributes:
        stdin: to the agent; closing it is the polite way to end.
        stdout: from the agent, and from whoever inherited it.
        stderr: likewise.
        exit: how the agent itself ended, or None.
        receipt: the proof that the tree is gone, or None.
        failure: the step of the start that failed and its errno, or None.
        closed: whether our ends of the streams are closed.
        cgroup: the control group that it was born in, or None.
    """

    def __init__(
        self,
        channel: socket.socket,
        pipes: tuple[PipeWriter, PipeReader, PipeReader],
        *,
        on_kill: Callable[["Child"], None],
        cgroup: str = "",
    ) -> None:
        self.stdin, self.stdout, self.stderr = pipes
        self.shim = NOBODY
        self.agent = NOBODY
        self.exit: ExitStatus | None = None
        self.receipt: KillReceipt | None = None
        self.failure: tuple[str, int] | None = None
        self.closed = False
        self.cgroup = Cgroup(os.fsencode(cgroup)) if cgroup else None
        self._channel = channel
        self._on_kill = on_kill
        self._started = anyio.Event()
        self._answered = anyio.Event()
        self._exited = anyio.Event()
        self._gone = anyio.Event()

    def __repr__(self) -> str:
        state = "gone" if self.receipt else str(self.exit or "running")
        return f"Child(agent {self.agent.pid}, shim {self.shim.pid}, {state})"

    # ---- for its owner ----

    async def wait_exit(self) -> ExitStatus:
        """Wait for the agent's own exit; its tree, and its stdout, may live on for a while."""
        await self._exited.wait()
        return self.exit or LOST

    async def wait_gone(self) -> KillReceipt:
        """Wait until nothing of the tree is left, or what is left has been named."""
        await self._gone.wait()
        return self.receipt or KillReceipt((), ())

    def terminate(self) -> None:
        """Send TERM, then CONT, to the whole tree."""
        self._command(b"term")

    def kill(self) -> None:
        """Begin the last step at once: everything is stopped, killed and looked for again."""
        if self.receipt is None:
            self._command(b"kill")
            self._on_kill(self)

    async def stop(self, grace: float, term_wait: float = TERM_WAIT) -> KillReceipt:
        """End the tree: close stdin, wait, TERM, wait, kill; never raises, never hangs.

        It cannot be cancelled: it takes `grace + term_wait` and the last step at most.

        Args:
            grace: seconds from the end of its input to TERM; 0 goes straight to the last step.
            term_wait: seconds from TERM to the last step.
        """
        with anyio.CancelScope(shield=True):
            self._command(b"mark")
            self.stdin.close()
            if grace > 0 and not await self._gone_within(grace):
                self.terminate()
                await self._gone_within(term_wait)
            if self.receipt is None:
                await self._last_step()
        return self.receipt or self.unproven()

    async def aclose(self) -> None:
        """End what still lives, without grace, and close all streams."""
        if self.receipt is None:
            await self.stop(0)
        self.closed = True
        for end in (self.stdin, self.stdout, self.stderr):
            end.close()

    def unproven(self) -> KillReceipt:
        """Look who of the tree is alive now: the receipt for one that nobody else could prove."""
        try:
            alive = {row.pid for row in self._look()} - {self.shim.pid}
        except OSError:
            alive = {self.agent.pid}  # out of descriptors: nobody can tell, so it is not dead
        return KillReceipt((), tuple(sorted(alive)))

    async def sweep(self) -> KillReceipt:
        """Kill what is known of the tree, where shim, keeper and guard are all gone.

        Who has left the agent's own tree by then is found only where it has a control group; the
        supervisor looks for others by what is on record.
        """
        loop = killing.KillLoop(self._look, at_once=self._kill_at_once)
        try:
            while not loop.round():  # noqa: ASYNC110 - the kernel tells of no such event
                await anyio.sleep(killing.ROUND_PAUSE)
        except OSError:
            return self.unproven()
        return KillReceipt(tuple(sorted(loop.killed)), tuple(loop.survivors))

    def _look(self) -> list[kernel.Process]:
        found = {}
        for top in (self.shim, self.agent):
            row = kernel.read_process(top.pid)
            if row is not None and row.start_ticks == top.start_ticks and row.pid not in found:
                found.update({row.pid: row for row in (row, *kernel.tree_of(row.pid)) if row.alive})
        if self.cgroup is not None:
            found.update({row.pid: row for row in self.cgroup.agents()})
        return list(found.values())

    def _kill_at_once(self, _: list[kernel.Process]) -> None:
        if self.cgroup is not None:
            self.cgroup.kill_agents()

    async def _gone_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self._gone.wait()
        return self._gone.is_set()

    async def _last_step(self) -> None:
        with anyio.move_on_after(LAST_STEP_LIMIT):
            self.kill()
            await self._gone.wait()

    # ---- for the keeper ----

    async def wait_started(self) -> None:
        """Wait until the shim said that the agent runs, or why it does not."""
        await self._started.wait()

    async def see_kill_through(self) -> None:
        """Kill the shim itself if it does not take up a kill, or does not finish one.

        Its tree then falls to the keeper, which sweeps it.
        """
        with anyio.move_on_after(ANSWER_LIMIT):
            await self._answered.wait()
        if self._answered.is_set() and await self._gone_within(killing.KILL_LIMIT + ANSWER_LIMIT):
            return
        self.shim.signal(signal.SIGKILL)

    def close_channel(self) -> None:
        """End the channel in our direction: the shim kills its tree, and can still report."""
        try:
            self._channel.shutdown(socket.SHUT_WR)
        except OSError:
            return  # its other end is gone already

    async def follow(self) -> None:
        """Take in the shim's reports until its end of the channel closes."""
        try:
            while data := await hear(self._channel):
                word, *rest = data.split(b" ")
                self._report(word.decode(), rest)
        finally:
            self._channel.close()
            self._started.set()
            self._answered.set()

    def settle(self, receipt: KillReceipt) -> None:
        """Record that the tree is gone; the first proof stands."""
        if self.receipt is not None:
            return
        self.receipt = receipt
        if self.exit is None:
            self.exit = LOST
        for event in (self._started, self._answered, self._exited, self._gone):
            event.set()

    def _report(self, word: str, rest: list[bytes]) -> None:
        match word:
            case "started":
                shim_pid, shim_ticks, agent_pid, agent_ticks = map(int, rest)
                self.shim = ProcessId(shim_pid, shim_ticks)
                self.agent = ProcessId(agent_pid, agent_ticks)
                self._started.set()
            case "failed":
                self.failure = rest[0].decode(), int(rest[1])
                self._started.set()
            case "exit":
                self.exit = ExitStatus.of(int(rest[0]))
                self._exited.set()
            case "killing":
                self._answered.set()
            case "gone":
                killed, survivors = map(wire.decode_pids, rest)
                self.settle(KillReceipt(killed, survivors))
            case _:
                raise AssertionError(f"a shim of another version said {word!r}")

    def _command(self, word: bytes) -> None:
        try:
            self._channel.send(word)
        except OSError:
            return  # the shim is gone, or stopped and its channel full: a kill is watched


def channel_pair(near: ExitStack, far: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Return our end, which does not block, and theirs, each closed by its own stack."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    near.callback(ours.close)
    far.callback(theirs.close)
    ours.setblocking(False)  # noqa: FBT003 - the signature of the standard library
    return ours, theirs


def make_child(
    order: bytes, far: ExitStack, on_kill: Callable[[Child], None], spec: ChildSpec
) -> tuple[Child, list[int]]:
    """Make a child that is not started yet, and the descriptors that its shim needs.

    The far ends are closed by `far`, ours by the child; ours do not block, none is inherited.
    Where the two outputs are one, the pipe of the other comes to its end at once.

    Raises:
        OSError: out of descriptors or memory; everything made so far is closed.
    """
    with ExitStack() as near:
        stdin, to_agent = os.pipe2(os.O_CLOEXEC)
        near.callback(os.close, to_agent)
        far.callback(os.close, stdin)
        from_agent, stdout = os.pipe2(os.O_CLOEXEC)
        near.callback(os.close, from_agent)
        far.callback(os.close, stdout)
        errors, stderr = os.pipe2(os.O_CLOEXEC)
        near.callback(os.close, errors)
        far.callback(os.close, stderr)
        channel, theirs = channel_pair(near, far)
        blob = os.memfd_create("acpbridge-order", os.MFD_CLOEXEC)
        far.callback(os.close, blob)
        rest = memoryview(order)
        while rest:
            rest = rest[os.write(blob, rest) :]
        for fd in (to_agent, from_agent, errors):
            os.set_blocking(fd, False)
        pipes = PipeWriter(to_agent), PipeReader(from_agent), PipeReader(errors)
        child = Child(channel, pipes, on_kill=on_kill, cgroup=spec.cgroup)
        near.pop_all()
    errors_to = stdout if spec.merged else stderr
    return child, [stdin, stdout, errors_to, theirs.fileno(), blob]
