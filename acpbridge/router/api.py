"""What a face may ask: `RouterApi`, with the values that go in and come out.

The same in process and through the daemon's client; the JSON shapes are those that `status --json`
and its siblings print.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Effect, OnPermission
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import Birth, Outcome
from acpbridge.model.settings import Settings
from acpbridge.router.receipts import (
    CancelReceipt,
    KillReceipt,
    Pruned,
    PruneRequest,
    RestartReceipt,
    RestartRequest,
)

if TYPE_CHECKING:  # no `run` is to wait for pydantic
    from acpbridge.router.toolcall import ToolRequest


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One turn that somebody wants.

    Attributes:
        content: ACP content blocks of the prompt.
        agent: id of the agent; "" for the default one. Ignored with `session`.
        session: key, or any unique part of one, of a session to go on with; "" for a new one.
        continue_last: go on with the last session in `cwd`.
        cwd: absolute directory; "" for the definition's workspace.
        caller_cwd: absolute directory of the caller, where neither of them is given.
        env: the caller's environment, from which the child's is built. Never stored.
        one_shot: the process ends with the turn.
        on_permission: rule of this run.
        timeout: seconds, None for no limit.
        detached: goes on when the caller's connection ends.
        correlation_id: joins the records of one piece of work.
        idempotency_key: a second request with the same key is the same run.
        settings: model, mode and options, for the session from this run on.
        wishes: what is chosen as well if the agent offers it; never read from the wire.
        mcp_servers: more of them for the agent, as `session/new` has them; taken when its process
            starts. In memory only: never stored, and gone with the daemon.
        fresh: go on without the earlier conversation, if the agent cannot take it up.
        birth: what else is said of the session that a spawn makes; None: this is no spawn. Never
            read from the wire.
        deliver_to: session that hears of the end of the run; None: nobody does. Never on a wire.
        provenance: what kind of message it is, with its fields; empty for an operator's. Never on
            a wire.
        task: what is asked, in short; "" for the beginning of `content`.
        announces: id of the completion that this run tells its session of; the bridge's own.
        independent: whether it is no part of the turn of who asks for it, and does not end with
            that; the bridge's own.
        going_out: awaited just before the words go out; the bridge's own.
    """

    content: tuple[Mapping[str, Any], ...]
    agent: str = ""
    session: str = ""
    continue_last: bool = False
    cwd: str = ""
    caller_cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    one_shot: bool = True
    on_permission: OnPermission = OnPermission.ASK
    timeout: float | None = None
    detached: bool = False
    correlation_id: str = ""
    idempotency_key: str = ""
    settings: Settings = field(default_factory=Settings)
    wishes: Settings = field(default_factory=Settings)
    mcp_servers: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    fresh: bool = False
    birth: Birth | None = None
    deliver_to: SessionKey | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""
    announces: str = ""
    independent: bool = False
    going_out: Callable[[], Awaitable[None]] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RunReceipt:
    """An accepted run: follow `key` after `after` to see all of it.

    Attributes:
        key: of its session.
        run_id: of it.
        after: number of the session's last event before it.
        agent: whose session it is.
        warnings: what is worth saying at its start.
        repeated: whether it was accepted before, by an idempotency key; only in process.
    """

    key: SessionKey
    run_id: str
    after: int
    agent: str
    warnings: tuple[str, ...] = ()
    repeated: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        return {
            "key": str(self.key),
            "runId": self.run_id,
            "after": self.after,
            "agentId": self.agent,
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended, from its record and never from what the model said."""

    run_id: str
    outcome: Outcome
    stop_reason: str | None
    error: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Span:
    """Which part of a session's log is wanted, and of which copy.

    Attributes:
        since: moment of the first one that is, ISO 8601, UTC; "" for any.
        live: whether what comes is waited for; else it ends with what is there now.
        stored: whether the redacted copy is read, however new an event is.
    """

    since: str = ""
    live: bool = True
    stored: bool = False


class Following(Protocol):
    """A cursor over one session's numbered events."""

    async def read(self) -> list[bytes]:
        """Return the next lines, at least one; waits for it. Empty at its end, if it has one."""
        ...

    async def aclose(self) -> None:
        """Let go of it."""
        ...


class SessionFollowing(Following, Protocol):
    """A cursor that knows how far the session has come."""

    @property
    def newest(self) -> int:
        """Number of the newest event that can be read."""
        ...


class RouterApi(Protocol):
    """The service. Every call carries its requester and may raise `permission_denied`."""

    async def run(self, request: RunRequest, requester: Requester) -> RunReceipt:
        """Accept one turn; it is on record when this returns.

        Raises:
            BridgeError: `no_such_agent`, `no_such_session`, `session_closed`, `busy`,
                `subagent_policy`, `reopen_refused`, `store_full`.
        """
        ...

    async def follow(
        self, key: str, after: int, requester: Requester, span: Span | None = None
    ) -> SessionFollowing:
        """Return a cursor over a session's log, or over a part of it.

        Args:
            key: of the session.
            after: number of the last event that is not wanted; -N: all but the last N.
            requester: who asks.
            span: which part.
        """
        ...

    async def wait(self, run_id: str, requester: Requester) -> RunResult:
        """Wait for the end of a run."""
        ...

    async def status(self, key: str, requester: Requester) -> dict[str, Any]:
        """Return daemon, sessions and processes, from the kernel at call time; "" for all."""
        ...

    async def sessions(
        self, requester: Requester, *, everything: bool, agent: str = "", cwd: str = ""
    ) -> list[dict[str, Any]]:
        """Return rows of live sessions, or of all on record; of one agent or in one directory."""
        ...

    async def restart(self, request: RestartRequest, requester: Requester) -> RestartReceipt:
        """End the process of a session if it has one, and start another; open the session in it.

        Raises:
            BridgeError: `busy` while a turn runs, `session_closed`, `survivors`, or why the agent
                did not start or its session did not open.
        """
        ...

    async def prune(self, request: PruneRequest, requester: Requester) -> list[Pruned]:
        """Delete sessions without a process, with their runs, questions and events."""
        ...

    async def cancel(self, key: str, grace: float, requester: Requester) -> CancelReceipt:
        """End the running turn, down the ladder as far as needed."""
        ...

    async def close(self, key: str, requester: Requester) -> SessionKey:
        """End a session politely, its children first."""
        ...

    async def kill(
        self, keys: list[str], grace: float | None, requester: Requester
    ) -> list[KillReceipt]:
        """End sessions with their descendants, whole trees side by side; prove it.

        Raises:
            BridgeError: what was wrong with a key, once all the others are ended: its data has
                their receipts as `results`, and `unknown` with each wrong key and its error.
        """
        ...

    async def end_unowned(self, requester: Requester) -> list[KillReceipt]:
        """End what nobody owns and is proven ours; a receipt if there was any. No agent may."""
        ...

    async def matching(self, agent: str, requester: Requester) -> list[str]:
        """Return the keys of the live sessions of an agent; "" for all agents."""
        ...

    async def questions(self, requester: Requester) -> list[dict[str, Any]]:
        """Return the open questions that the requester may see."""
        ...

    async def watch(self, requester: Requester, key: str = "") -> Following:
        """Return a cursor over the open questions, and over what comes up and is decided.

        Args:
            requester: who asks.
            key: of a session: only what it asks, and all that was started below it; "" for all.

        Raises:
            BridgeError: `no_such_session`, `ambiguous_key`.
        """
        ...

    def attend(self, key: str, requester: Requester) -> None:
        """Take note that a person is asked here what a session asks; "" for all sessions."""
        ...

    async def answer(
        self,
        question: str,
        requester: Requester,
        *,
        option_id: str | None,
        effect: Effect | None,
        note: str,
        confirm: str | None = None,
    ) -> dict[str, Any]:
        """Answer a question; return the decision.

        Raises:
            BridgeError: `invalid_option`, `confirmation_needed` unless `confirm` names a doubtful
                option once more, `already_resolved`, `no_such_question`.
        """
        ...

    async def tool(self, request: "ToolRequest", requester: Requester) -> dict[str, Any]:
        """Serve one call of a session tool; return its result.

        Raises:
            BridgeError: what the handler of the tool names; `permission_denied`.
        """
        ...

    async def grants(self, requester: Requester) -> list[dict[str, Any]]:
        """Return what people allowed for longer than once, the oldest first. No agent may."""
        ...

    async def revoke(self, grants: list[str], requester: Requester) -> list[dict[str, Any]]:
        """End grants by their ids; return them. No agent may.

        Raises:
            BridgeError: `no_such_grant`, once all the others are revoked.
        """
        ...
