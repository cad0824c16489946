"""Starts the user's own command when a question opens and nobody is there to be asked.

The command comes from the user's configuration and never from a workspace; it is held by a shim
like an agent, so its whole tree ends with it, with the daemon, or when its time is up. Whoever runs
below it is no person: it can answer nothing. Above is the composition root.
"""

import uuid
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup

from acpbridge.config.environment import HOME, MARK
from acpbridge.controller.process import AgentProcess, Launcher, LaunchSpec
from acpbridge.errors import BridgeError
from acpbridge.model.display import clip, escape
from acpbridge.model.permission import Question
from acpbridge.transport.memory import ByteReceive
from acpbridge.transport.tasks import Owner, background

log = structlog.get_logger(__name__)

# A notification is a moment's work. Seconds.
LIMIT: Final = 10.0

# At once; a flood of questions must not become a flood of processes.
MOST: Final = 4

# Between the end of its input and TERM, for one that has to be ended. Seconds.
GRACE: Final = 0.5

# Of a title so much is handed over. Characters.
TITLE: Final = 200

# Under this it is filed: no session's name, so that beneath it nobody is a session's agent.
NAME: Final = "notify"

_PREFIX: Final = "ACPBRIDGE_QUESTION_"


class Errands(Owner):
    """Calls a person; use it as an async context manager.

    Args:
        launcher: starts processes.
        command: what is started, from the configuration in force; empty for nothing.
        env: the daemon's own environment, which was the user's.
        home: the state directory.
        redact: takes secrets out of a text.
        told: is told how the last errand failed; "" when it went well.
        limit: seconds that one may take.
    """

    def __init__(  # noqa: PLR0913 - wired in one place, by name
        self,
        launcher: Launcher,
        *,
        command: Callable[[], tuple[str, ...]],
        env: Mapping[str, str],
        home: str,
        redact: Callable[[str], str],
        told: Callable[[str], None],
        limit: float = LIMIT,
    ) -> None:
        self._launcher = launcher
        self._command = command
        self._env = env
        self._home = home
        self._redact = redact
        self._told = told
        self._limit = limit
        self._running = 0
        self._tasks: TaskGroup

    async def _enter(self, stack: AsyncExitStack) -> None:
        self._tasks = await stack.enter_async_context(background())

    def call(self, question: Question) -> None:
        """Start the command for a question, if there is one. Cannot block and cannot fail."""
        command = self._command()
        if not command:
            return
        if self._running >= MOST:
            self._told(f"notify.command: {MOST} run already; question {question.request.id} waits")
            return
        self._running += 1
        self._tasks.start_soon(self._run, self._spec(command, question))

    def _spec(self, command: tuple[str, ...], question: Question) -> LaunchSpec:
        request = question.request
        words = {
            "ID": request.id,
            "AGENT": str(request.session.agent),
            "SESSION": str(request.session),
            "KIND": str(request.ask.subject.kind),
            "TITLE": clip(escape(self._redact(request.ask.subject.title)), TITLE),
        }
        # A sweep ends what is left of it as it ends what is left of the session.
        mark = f"{request.session}.{uuid.uuid4().hex}"
        env = {**self._env, **{_PREFIX + k: v for k, v in words.items()}}
        env |= {HOME: self._home, MARK: mark}
        return LaunchSpec(f"{NAME}.{request.id}", command, env, self._home, GRACE)

    async def _run(self, spec: LaunchSpec) -> None:
        try:
            self._told(await self._outcome(spec))
        except Exception:
            # The top of a task: a call that fails keeps no question from being answered.
            log.exception("notify.command failed")
            self._told("notify.command failed; see the daemon's log")
        finally:
            self._running -= 1

    async def _outcome(self, spec: LaunchSpec) -> str:
        try:
            with anyio.fail_after(self._limit):
                async with self._launcher.launch(spec) as process:
                    how = await _ended(process)
        except TimeoutError:
            return f"notify.command did not end in {self._limit:g} s and was ended"
        except BridgeError as error:
            return f"notify.command: {error.message}"
        return "" if how == "exit code 0" else f"notify.command ended with {how}"


async def _ended(process: AgentProcess) -> str:
    await process.stdin.aclose()
    async with background(partial(_discard, process.stdout)):
        return await process.exited()


async def _discard(stream: ByteReceive) -> None:
    """Read what nobody wants, for a full pipe would block it."""
    try:
        while True:
            await stream.receive()
    except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        return
