"""`open_bridge` and `connect`: a bridge in this process, and one over the daemon.

A bridge in this process does what the daemon does: it holds the same lock, keeps its records in the
same state directory, starts ACP agents behind the same keeper and shims, and serves the same
socket, so that a person can look, answer and kill from a terminal. But it is never a subreaper,
handles no signal, changes no limit and cannot be stopped from outside: the process is somebody
else's.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import count
from typing import Any

import anyio
import structlog

from acpbridge import logs
from acpbridge.app.clients import serve_clients
from acpbridge.app.opening import open_router
from acpbridge.app.setup import STOP_LIMIT, Setup, daemon_info
from acpbridge.config.environment import MARK
from acpbridge.controller import census
from acpbridge.daemon import client as daemon
from acpbridge.daemon.configfile import ConfigFile
from acpbridge.daemon.frozen import not_a_daemon
from acpbridge.daemon.lock import DaemonLock
from acpbridge.daemon.obstacles import close_to_others, put_aside
from acpbridge.daemon.paths import Paths, find, make_private
from acpbridge.daemon.policyfile import PolicyFile
from acpbridge.daemon.remote import RemoteRouter
from acpbridge.edge.load import check_agent
from acpbridge.embed.bridge import Bridge, Enter, Visit
from acpbridge.embed.questions import Asked
from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentId, agent_id
from acpbridge.model.requesters import Requester, Role
from acpbridge.router.router import Router
from acpbridge.runtimes.python import Agent
from acpbridge.transport import unix


@asynccontextmanager
async def open_bridge(
    home: str | os.PathLike[str] | None = None,
    agents: Mapping[str, Agent] | None = None,
    *,
    on_question: Asked | None = None,
) -> AsyncIterator[Bridge]:
    """Open a bridge in this process; leaving the block ends every agent that it started.

    Agents given as code run in this process: they can block it, cannot be killed, and nothing keeps
    them from its memory or from this bridge. Give only code that is trusted as the program itself.
    All others are processes, as with the daemon.

    Args:
        home: the state directory; else `$ACPBRIDGE_HOME`, else as XDG says.
        agents: async functions of a turn, by id; they come before those of the configuration.
        on_question: decides the questions of runs.

    Raises:
        BridgeError: `daemon_running`, `config_error`, `not_our_socket`; `usage` for what is no
            agent; inside a supervised agent `permission_denied`.
    """
    if _supervised():
        message = "No bridge is opened from inside a supervised agent."
        raise BridgeError("permission_denied", message)
    own = _checked(agents or {})
    paths = _paths(home)
    make_private(paths.home)
    make_private(paths.socket.parent)
    with _locked(paths) as lock, _logging() as log_to:
        configuration = ConfigFile(paths.config)
        configuration.first()
        policy = PolicyFile.first(paths)
        notices = [*put_aside(paths), *close_to_others(paths)]
        info = daemon_info(paths)
        setup = Setup(paths, configuration, policy, info, agents=own, notices=notices)
        async with open_router(setup, log_to) as opened:
            enter = _entering(opened.router)
            try:
                serving = serve_clients(setup, opened, _no_stop, mine=lock.in_place)
                async with serving, enter() as visit:
                    yield Bridge(visit, enter, on_question)
            finally:
                with anyio.move_on_after(STOP_LIMIT, shield=True):
                    await opened.router.stop()


@asynccontextmanager
async def connect(
    home: str | os.PathLike[str] | None = None,
    *,
    start: bool = True,
    on_question: Asked | None = None,
) -> AsyncIterator[Bridge]:
    """Connect to the daemon; leaving the block cancels what was started through it and not ended.

    Args:
        home: the state directory; else `$ACPBRIDGE_HOME`, else as XDG says.
        start: whether to start a daemon where none runs; never done inside a supervised agent.
        on_question: decides the questions of runs.

    Raises:
        BridgeError: `daemon_unreachable`, `daemon_frozen`, `daemon_version`, `not_our_socket`.
    """
    paths = _paths(home)

    @asynccontextmanager
    async def enter(*, first: bool = False) -> AsyncIterator[Visit]:
        async with daemon.connect(paths, start=first and start and not _supervised()) as client:
            # Who we are is found by the daemon, whatever is said here.
            yield RemoteRouter(client), Requester(Role.OPERATOR, pid=os.getpid(), uid=os.getuid())

    async with enter(first=True) as visit:
        yield Bridge(visit, enter, on_question)


def _checked(agents: Mapping[str, Agent]) -> dict[AgentId, Agent]:
    out: dict[AgentId, Agent] = {}
    for name, agent in agents.items():
        key = agent_id(name)
        if key in out:
            raise BridgeError("usage", f"Two agents have the id {key}.", hint="Rename one of them.")
        out[key] = check_agent(name, agent)
    return out


def _paths(home: str | os.PathLike[str] | None) -> Paths:
    return find(None if home is None else os.fspath(home), os.environ)


def _supervised() -> bool:
    """Tell whether this process is inside a supervised tree, by its marker or an ancestor's."""
    line = census.ancestors(os.getpid())
    return bool(os.environ.get(MARK)) or any(census.marker(pid, MARK) for pid, _ in line)


@contextmanager
def _locked(paths: Paths) -> Iterator[DaemonLock]:
    lock = DaemonLock(paths.lock, program=True)
    try:
        lock.acquire()
    except BridgeError as error:
        if error.code != "daemon_running":
            raise
        hint = "Work through it by acpbridge.connect(), or end it."
        raise BridgeError(error.code, error.message, hint=hint, data=error.data) from None
    try:
        yield lock
    finally:
        # The socket goes before the lock: whoever has the lock next has it for their own.
        if lock.in_place():  # else the socket is another's
            unix.remove(paths.socket)
        lock.release()


def _no_stop(force: bool) -> None:  # noqa: FBT001 - one of two words on the wire
    """Refuse to end somebody's program by `acpbridge daemon stop`."""
    del force
    raise not_a_daemon(os.getpid())


def _entering(router: Router) -> Enter:
    numbers = count(1)

    @asynccontextmanager
    async def enter() -> AsyncIterator[Visit]:
        name = f"program-{next(numbers)}"
        requester = Requester(Role.OPERATOR, pid=os.getpid(), uid=os.getuid(), client_id=name)
        try:
            yield router, requester
        finally:
            with anyio.CancelScope(shield=True):
                await router.vanished(name)

    return enter


@contextmanager
def _logging() -> Iterator[Callable[[Callable[[Any], Any]], None]]:
    """Where the program has not said where logs go: errors only, to stderr, and only meanwhile."""
    if structlog.is_configured():
        yield lambda _redact: None
        return
    try:
        yield partial(logs.to_stderr, quiet=True)
    finally:
        structlog.reset_defaults()
