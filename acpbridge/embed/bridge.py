"""`Bridge`: what a program asks of acpbridge, in its own process or in the daemon.

Thin: every method is a call of `RouterApi` with the requester that this program is.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, Unpack

import anyio

from acpbridge.embed.questions import Answer, Asked, OpenQuestion
from acpbridge.embed.run import Result, Run, answer_with
from acpbridge.embed.sent import Sent
from acpbridge.embed.spawned import Spawned
from acpbridge.errors import BridgeError
from acpbridge.model.permission import OnPermission
from acpbridge.model.requesters import Requester
from acpbridge.model.settings import Settings
from acpbridge.router.api import RouterApi, RunRequest
from acpbridge.router.receipts import CancelReceipt, KillReceipt
from acpbridge.router.send_requests import WAIT, SendMode, SendRequest
from acpbridge.router.spawn_requests import SpawnRequest
from acpbridge.transport.tasks import background

Visit = tuple[RouterApi, Requester]

Enter = Callable[[], AbstractAsyncContextManager[Visit]]
"""Comes to the router as somebody new; what they ran is cancelled when they leave."""

# Letting go of a cursor takes no time; the other side may be gone. Seconds.
LEAVE_LIMIT: Final = 5.0


class RunOptions(TypedDict, total=False):
    """What may be said of a run; all of it may be left out.

    Attributes:
        agent: id of the agent; else the configured default.
        session: key, or any unique part of one, of a session to go on with.
        fresh: go on in it without the earlier conversation, if the agent cannot take that up.
        model: of the session from this run on, by id or name.
        options: config options of the agent to set, by id.
        cwd: where the agent works; else its workspace, else this program's directory.
        keep: keep the agent's process for further prompts; else it ends with the turn.
        on_permission: `ask` (the default), `allow` (each plain question once) or `deny`.
        timeout: seconds for the turn.
        env: the environment that the agent's is built from; else this program's.
        on_question: decides the questions of this run, instead of the bridge's own.
    """

    agent: str
    session: str
    fresh: bool
    model: str
    options: Mapping[str, str | bool]
    cwd: str | os.PathLike[str]
    keep: bool
    on_permission: Literal["ask", "allow", "deny"]
    timeout: float
    env: Mapping[str, str]
    on_question: Asked


class SpawnOptions(TypedDict, total=False):
    """What may be said of a child; all of it may be left out.

    Attributes:
        agent: id of the agent; else `acp.defaultAgent`, else the agent `main`.
        label: a short title.
        task_name: a handle for it.
        model: by id or name; an agent that lets choose none fails.
        thinking: how much it thinks, in the words of `acpbridge spawn --help`.
        cwd: where it works; else its workspace, else this program's directory.
        keep: keep its process for further messages; else it ends with the task.
        timeout: seconds for the task, the wait for a place not counted; 0: as long as it likes.
        resume: the agent's own id of an earlier conversation to go on with.
        env: the environment that the agent's is built from; else this program's.
    """

    agent: str
    label: str
    task_name: str
    model: str
    thinking: str
    cwd: str | os.PathLike[str]
    keep: bool
    timeout: int
    resume: str
    env: Mapping[str, str]


class Bridge:
    """Runs agents and looks after them; `open_bridge` and `connect` make it.

    Args:
        visit: the router, and who this program is to it.
        enter: comes to it once more, for a run of its own.
        on_question: decides the questions of runs; None: they wait in the inbox until somebody
            answers, and are denied at their deadline.
    """

    def __init__(self, visit: Visit, enter: Enter, on_question: Asked | None = None) -> None:
        self._api, self._who = visit
        self._enter = enter
        self._on_question = on_question

    # ---- Runs ----

    async def run(
        self, prompt: str | Sequence[Mapping[str, Any]], **options: Unpack[RunOptions]
    ) -> Result:
        """Run one turn and return how it ended; see `RunOptions`. Cancelled, it cancels the turn.

        Raises:
            BridgeError: it could not be accepted: `no_such_agent`, `no_such_session`, `busy`, ...
        """
        async with self.start(prompt, **options) as run:
            return await run.result()

    @asynccontextmanager
    async def start(
        self, prompt: str | Sequence[Mapping[str, Any]], **options: Unpack[RunOptions]
    ) -> AsyncIterator[Run]:
        """Run one turn and see it happen: `async for event in run`, then `await run.result()`.

        Leaving the block cancels a turn that has not ended.

        Raises:
            BridgeError: as for `run`.
        """
        on_question = options.get("on_question", self._on_question)
        async with self._enter() as (api, requester):
            receipt = await api.run(_request(prompt, options), requester)
            following = await api.follow(str(receipt.key), receipt.after, requester)
            try:
                async with background() as tasks:
                    yield Run(receipt, following, api, requester, tasks, on_question)
            finally:
                with anyio.move_on_after(LEAVE_LIMIT, shield=True):
                    await following.aclose()

    async def spawn(self, task: str, **options: Unpack[SpawnOptions]) -> Spawned:
        """Start a child for a task and return its receipt; see `SpawnOptions`.

        It waits for nothing that the child does: `await spawned.result()` does.

        Raises:
            BridgeError: it was not accepted: `no_such_agent`, `capacity`, `invalid_params`, ...
        """
        request = SpawnRequest.read(_spawning(task, options))
        return Spawned.from_json(await self._api.tool(request, self._who), self._api, self._who)

    async def send(
        self,
        key: str,
        message: str,
        *,
        wait: int = WAIT,
        mode: Literal["notify", "steer", "followup", "resume"] | None = None,
    ) -> Sent:
        """Send a message to a session that exists, and return what came of it in time.

        Args:
            key: of the session, or any unique part of one.
            message: as it is to arrive.
            wait: seconds to wait for the reply; the turn goes on after them. 0: not at all.
            mode: how it reaches the session; see `acpbridge send --help`.

        Raises:
            BridgeError: it was not sent: `no_such_session`, `session_closed`, `busy`,
                `not_running`, `invalid_params`, ...
        """
        params = {
            "message": message,
            "sessionKey": key,
            "timeoutSeconds": wait,
            "env": _sendable(os.environ),
            "callerCwd": str(Path.cwd()),
            **({} if mode is None else {"mode": SendMode(mode)}),
        }
        return Sent.from_json(await self._api.tool(SendRequest.read(params), self._who))

    # ---- Looking ----

    async def status(self, key: str = "") -> Mapping[str, Any]:
        """Return daemon, sessions and processes, as `acpbridge status --json` prints them."""
        return await self._api.status(key, self._who)

    async def sessions(self, *, everything: bool = False) -> list[dict[str, Any]]:
        """Return the sessions that live, or all on record, the newest last."""
        return await self._api.sessions(self._who, everything=everything)

    # ---- Ending ----

    async def cancel(self, key: str, *, grace: float = 2.0) -> CancelReceipt:
        """End a session's running turn and those that wait behind it."""
        return await self._api.cancel(key, grace, self._who)

    async def close(self, key: str) -> str:
        """End a session politely, its children first; return its whole key."""
        return str(await self._api.close(key, self._who))

    async def kill(self, *keys: str, grace: float | None = None) -> list[KillReceipt]:
        """End sessions with all their processes; the receipts say what is proven dead.

        Args:
            keys: of the sessions, or unique parts of them.
            grace: seconds for a polite end, 0 for none; None: as the agent needs.
        """
        return await self._api.kill(list(keys), grace, self._who)

    # ---- Questions ----

    async def questions(self) -> list[OpenQuestion]:
        """Return the questions that are open, of all sessions, the oldest first."""
        return [OpenQuestion.from_json(value) for value in await self._api.questions(self._who)]

    async def answer(self, question: str, answer: Answer) -> Mapping[str, Any]:
        """Answer a question by its id; return the decision.

        Raises:
            BridgeError: `no_such_question`, `already_resolved`, `invalid_option`.
        """
        return await answer_with(self._api, self._who, question, answer, late=False)


def _request(prompt: str | Sequence[Mapping[str, Any]], options: RunOptions) -> RunRequest:
    blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
    if not blocks or prompt == "":
        raise BridgeError("usage", "The prompt is empty.", hint="Give a text, or content blocks.")
    return RunRequest(
        content=tuple(blocks),
        agent=options.get("agent", ""),
        session=options.get("session", ""),
        cwd=_absolute(options["cwd"]) if "cwd" in options else "",
        caller_cwd=str(Path.cwd()),
        env=_sendable(options.get("env", os.environ)),
        one_shot=not options.get("keep", False),
        on_permission=OnPermission(options.get("on_permission", "ask")),
        timeout=options.get("timeout"),
        settings=Settings(options.get("model"), None, options.get("options", {})),
        fresh=options.get("fresh", False),
    )


# What an option is called in the request.
_PARAMS: Final = {
    "agent": "agentId",
    "label": "label",
    "task_name": "taskName",
    "model": "model",
    "thinking": "thinking",
    "timeout": "runTimeoutSeconds",
    "resume": "resumeSessionId",
}


def _spawning(task: str, options: SpawnOptions) -> dict[str, Any]:
    params: dict[str, Any] = {
        _PARAMS[name]: value for name, value in options.items() if name in _PARAMS
    }
    if "cwd" in options:
        params["cwd"] = _absolute(options["cwd"])
    return {
        **params,
        "task": task,
        "mode": "session" if options.get("keep") else "run",
        "callerCwd": str(Path.cwd()),
        "env": _sendable(options.get("env", os.environ)),
    }


def _absolute(given: str | os.PathLike[str]) -> str:
    return os.path.normpath(Path(given).expanduser().absolute())


def _sendable(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what cannot travel as JSON: bytes that are not UTF-8."""
    return {n: v for n, v in env.items() if (n + v).isascii() or _is_utf8(n + v)}


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
