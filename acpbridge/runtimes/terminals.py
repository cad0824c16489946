"""The terminals of one agent session: commands that we run for an agent because a person allows it.

Each command is a permission of its own, whatever tool call it is for; what runs is what was shown,
by hash. It is a child like any agent: with a shim of its own, below its session in status, counted
with it, and ended with it, on release, and with a turn that is cancelled. Above is the runtime of
ACP agents; below are `terminal_order`, which says what would run, and `terminal`, which runs it.
"""

import hashlib
import shlex
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import anyio.lowlevel
import structlog
from anyio.abc import TaskGroup

from acpbridge.controller.process import Launcher, LaunchSpec
from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact
from acpbridge.model.permission import Effect, PermissionAsk, Source, ToolKind, ToolSubject
from acpbridge.permissions import policy
from acpbridge.protocol import acp
from acpbridge.protocol.jsonrpc import Call
from acpbridge.protocol.terminals import CreateTerminal, OfTerminal
from acpbridge.runtimes.base import SessionHost, SessionSpec
from acpbridge.runtimes.refusing import not_allowed
from acpbridge.runtimes.terminal import Terminal
from acpbridge.runtimes.terminal_order import TITLE, CommandOrder, Place, order_of, real_roots
from acpbridge.runtimes.terminal_output import MOST_KEPT
from acpbridge.runtimes.toolcall import OPTIONS
from acpbridge.transport.tasks import Owner, background
from acpbridge.transport.threads import Threads

log = structlog.get_logger(__name__)

# At once, those counted that are still asked about: enough for builds and servers side by side.
MOST_LIVE: Final = 8

# That are not released, ended ones included: each may keep its output.
MOST_HELD: Final = 32

# A disk takes milliseconds; a file system over a network that is gone never answers. Seconds.
LOOK_SECONDS: Final = 30.0

# Nothing waits for the end of a command's input, so it is told to end at once. Seconds.
GRACE: Final = 0.01

Serve = Callable[[Call], Awaitable[Any]]

T = TypeVar("T")


class Terminals(Owner):
    """Serves `terminal/*` for one agent session; use it as an async context manager.

    Args:
        spec: of the session.
        host: decides, and takes the notices.
        launcher: starts the commands.
        pid: of the agent, for the audit.
        learn: told of the variables that the agent sets, so that no secret of them is stored.
    """

    def __init__(
        self,
        spec: SessionSpec,
        host: SessionHost,
        launcher: Launcher,
        pid: int,
        learn: Callable[[Mapping[str, str]], None] = lambda _given: None,
    ) -> None:
        self._spec = spec
        self._learn = learn
        self._host = host
        self._launcher = launcher
        self._session_id: Callable[[], str | None] = lambda: None
        self._drained: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
        self._answering = anyio.Lock()
        self._threads = Threads(LOOK_SECONDS)
        self._pid = pid
        self._turn = 0
        self._cancelled = -1
        self._waiting = 0
        self._closed = False
        self._held: dict[str, Terminal] = {}
        self._live: set[Terminal] = set()
        self._orders: dict[Terminal, CommandOrder] = {}
        self._tasks: TaskGroup

    async def _enter(self, stack: AsyncExitStack) -> None:
        self._place = Place(self._spec.cwd, await self._roots(), self._spec.env)
        stack.callback(self._settle)
        self._tasks = await stack.enter_async_context(background())

    async def _roots(self) -> tuple[str, ...]:
        if not self._spec.definition.client_terminal:
            return ()
        folders = (self._spec.cwd, *self._spec.additional_directories)
        return await self._looked(partial(real_roots, folders))

    async def _looked(self, look: Callable[[], T]) -> T:
        """Return what a look at the disk finds; one that hangs is left behind."""
        try:
            return await self._threads.run(look)
        except TimeoutError:
            message = f"The file system did not answer in {LOOK_SECONDS:g} s."
            raise BridgeError("start_failed", message) from None

    def _settle(self) -> None:
        """Whoever still waits for a terminal whose task was never begun waits for nothing."""
        for terminal in self._live:
            terminal.settle()

    def methods(
        self, session_id: Callable[[], str | None], drained: Callable[[], Awaitable[None]]
    ) -> Mapping[str, Serve]:
        """Return what is served, by method: nothing where the definition says so (row 39).

        Args:
            session_id: returns the agent's own id of its session, once there is one.
            drained: waits until the agent has read enough for a long answer.
        """
        self._session_id, self._drained = session_id, drained
        if not self._spec.definition.client_terminal:
            return {}
        return {
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait_for_exit,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    @property
    def awaited(self) -> bool:
        """Whether the agent waits for the end of a command."""
        return self._waiting > 0

    # Turns, and the end.

    def begin_turn(self) -> None:
        """From now on what is created is of the next turn."""
        self._turn += 1

    def cancel_turn(self) -> None:
        """End what the turn under way has had started, and start nothing more that it asked for."""
        self._cancelled = self._turn
        for terminal in self._live:
            if terminal.turn == self._turn:
                terminal.end()

    def end_all(self) -> None:
        """End everything, and start nothing more. Cannot block."""
        self._closed = True
        for terminal in self._live:
            terminal.end()

    async def stop(self, grace: float | None = None) -> tuple[int, ...]:
        """End everything, and wait for that; return the pids that are left.

        Args:
            grace: 0 for at once, anything else for politely.
        """
        self.end_all()
        ending = list(self._live)
        async with anyio.create_task_group() as tasks:
            for terminal in ending:
                if grace == 0:
                    tasks.start_soon(terminal.end_now)
                tasks.start_soon(terminal.over.wait)
        return tuple(pid for terminal in ending for pid in terminal.left)

    # What the agent asks.

    async def _create(self, call: Call) -> dict[str, Any]:
        """Ask whether a command may run, and start it.

        Raises:
            BridgeError: `invalid_params`, `capacity`, `permission_denied`, `request_cancelled`,
                `start_failed`.
        """
        wanted = acp.read(CreateTerminal, call.params, call.method)
        self._check_session(wanted.sessionId)
        terminal = self._reserved(wanted)
        try:
            mark = f"{self._spec.key}.{uuid.uuid4().hex}"
            resolve = partial(order_of, wanted, self._place, mark)
            order = await self._looked(resolve)
            self._orders[terminal] = order
            await self._permitted(terminal, order, call)
            _check_same(order, await self._looked(resolve))
            self._check_wanted(terminal)
            await self._started(terminal, order)
        except BaseException:
            self._forget(terminal)
            raise
        return {"terminalId": terminal.id}

    def _reserved(self, wanted: CreateTerminal) -> Terminal:
        if self._closed or self._cancelled == self._turn:
            raise _cancelled()
        if len(self._live) >= MOST_LIVE:
            message = f"{MOST_LIVE} terminals of this session run, or are asked for, already."
            raise BridgeError("capacity", message, hint="End one of them: terminal/release.")
        if len(self._held) >= MOST_HELD:
            message = f"{MOST_HELD} terminals of this session are not released."
            raise BridgeError("capacity", message, hint="Release those that have ended.")
        limit = MOST_KEPT if wanted.outputByteLimit is None else wanted.outputByteLimit
        terminal = Terminal(f"terminal-{uuid.uuid4().hex}", self._turn, limit, self._tell)
        self._live.add(terminal)
        self._held[terminal.id] = terminal
        return terminal

    async def _permitted(self, terminal: Terminal, order: CommandOrder, call: Call) -> None:
        self._learn(dict(order.given))
        words = shlex.join(order.words)
        subject = ToolSubject(
            terminal.id,
            words if len(words) <= TITLE else f"{words[:TITLE]}...",
            ToolKind.EXECUTE,
            known_kind=True,
            raw_input=order.raw_input,
            locations=(order.program,),
            tool=call.method,
            source=Source.TERMINAL,
        )
        sha256 = hashlib.sha256(call.line).hexdigest()
        ask = PermissionAsk(
            subject, OPTIONS, call.wire_id, sha256, self._pid, outside_turn=call.outside_turn
        )
        decision = await self._host.ask(ask)
        self._check_wanted(terminal)
        if decision.effect is not Effect.ALLOW or not policy.still_valid(ask, decision):
            raise not_allowed(f"Run {subject.title}", decision, cancelled=False)

    def _check_wanted(self, terminal: Terminal) -> None:
        if self._closed or terminal.unwanted:
            raise _cancelled()

    async def _started(self, terminal: Terminal, order: CommandOrder) -> None:
        definition = self._spec.definition
        spec = LaunchSpec(
            name=terminal.id,
            argv=order.argv,
            env=dict(order.env),
            cwd=order.cwd,
            grace=GRACE,
            stop_grace=lambda: 0.0 if self._spec.stop_grace() == 0 else None,
            containment=definition.containment,
            owner=str(self._spec.key),
            merged=True,
        )
        terminal.begun = True
        self._tasks.start_soon(self._run, terminal, spec)
        await terminal.up.wait()
        if terminal.error is not None:
            raise terminal.error
        self._check_wanted(terminal)

    async def _run(self, terminal: Terminal, spec: LaunchSpec) -> None:
        try:
            await terminal.run(self._launcher, spec)
        except Exception:
            # The top of a task: a fault of ours with one command ends no session.
            log.exception("a terminal failed", session=str(self._spec.key))
            terminal.error = BridgeError("internal", "acpbridge failed to run the command.")
        finally:
            self._live.discard(terminal)
            self._orders.pop(terminal, None)

    def _tell(self, terminal: Terminal) -> None:
        """Say in the log what was started, and how that ended; never what it wrote."""
        order = self._orders[terminal]
        words = shlex.join(order.words)
        told: dict[str, Any] = {"terminalId": terminal.id}
        if terminal.ended.is_set():
            kind, message = "terminal_ended", f"a terminal ended with {terminal.status}: {words}"
            told |= _exit(terminal)
        else:
            without = f", without {', '.join(order.dropped)}" if order.dropped else ""
            kind, message = "terminal_started", f"a terminal runs {words} in {order.cwd}{without}"
            told |= {"argv": list(order.argv), "cwd": order.cwd}
        self._host.emit(Fact("notice", {"kind": kind, "message": message, **told}))

    def _forget(self, terminal: Terminal) -> None:
        """Take back what was reserved; if it runs already, its task sees to the rest."""
        self._held.pop(terminal.id, None)
        terminal.end()
        if not terminal.begun:
            self._live.discard(terminal)
            self._orders.pop(terminal, None)

    async def _output(self, call: Call) -> dict[str, Any]:
        terminal = self._found(call)
        # Several long answers at once to one that does not read would end its session.
        async with self._answering:
            await self._drained()
        output = {"output": terminal.output.text(), "truncated": terminal.output.truncated}
        status = {"exitStatus": _exit(terminal)} if terminal.status is not None else {}
        return {**output, **status}

    async def _wait_for_exit(self, call: Call) -> dict[str, Any]:
        terminal = self._found(call)
        self._waiting += 1
        try:
            await terminal.ended.wait()
        finally:
            self._waiting -= 1
        return _exit(terminal)

    async def _kill(self, call: Call) -> dict[str, Any]:
        terminal = self._found(call)
        terminal.end()
        await terminal.over.wait()
        return {}

    async def _release(self, call: Call) -> dict[str, Any]:
        terminal = self._found(call)
        del self._held[terminal.id]
        terminal.end()
        await terminal.over.wait()
        return {}

    def _found(self, call: Call) -> Terminal:
        params = acp.read(OfTerminal, call.params, call.method)
        self._check_session(params.sessionId)
        terminal = self._held.get(params.terminalId)
        if terminal is None or not terminal.up.is_set():
            raise BridgeError("no_such_terminal", "This session has no terminal of that id.")
        return terminal

    def _check_session(self, session_id: str) -> None:
        if session_id != self._session_id():
            raise BridgeError("invalid_params", "The session of the request is not open here.")


def _check_same(shown: CommandOrder, now: CommandOrder) -> None:
    if now.seal != shown.seal:
        message = f"{shown.program}, or its directory, was changed since it was asked about."
        raise BridgeError("permission_denied", message, hint="Ask for it again.")


def _cancelled() -> BridgeError:
    return BridgeError("request_cancelled", "The turn was cancelled, or the session is ending.")


def _exit(terminal: Terminal) -> dict[str, Any]:
    """Return how a command ended, as the protocol says it."""
    status = terminal.status
    if status is None:
        return {}
    if status.signal is None:
        return {"exitCode": status.code, "signal": None}
    return {"exitCode": None, "signal": str(status)}
