"""What an ACP agent may call on us: its updates, its questions, and everything else it asks.

Updates are relayed as they came. A question is read strictly, joined with what was announced, and
decided by the session's host; the answer is looked at once more just before it is written. Nothing
that was not advertised is served.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact, Update
from acpbridge.model.permission import Decision, PermissionAsk
from acpbridge.permissions import policy
from acpbridge.protocol import acp
from acpbridge.protocol.jsonrpc import RELAYED, Call, Noise, Notification
from acpbridge.protocol.toolcalls import ToolCalls
from acpbridge.runtimes import elicitation
from acpbridge.runtimes.aftermath import OF_NO_TURN, Aftermath
from acpbridge.runtimes.base import SessionHost
from acpbridge.runtimes.malformed import Malformed

PERMISSION: Final = "session/request_permission"

# A person cannot approve what cannot be shown (row 12).
MAX_PERMISSION_BYTES: Final = 1024 * 1024

# Real agents offer three to five; nobody chooses among more than fit on a screen.
MAX_OPTIONS: Final = 64

# A replay of a very long conversation is over by then. Seconds.
REPLAY_LIMIT: Final = 30.0


@dataclass(slots=True)
class _Open:
    """A question under way, with its decision once there is one."""

    ask: PermissionAsk
    decision: Decision | None = None


class AcpClient:
    """The client side of one agent connection: a `Handler` for `Connection`.

    Args:
        host: the session that the agent runs for.
        pid: of the agent, for the audit.
        on_mode: told of every mode that the agent announces.
        tools: keeps the calls that it tells of.
        start_ticks: when the agent started, for the audit as well.

    Attributes:
        session_id: the agent's own; None until it is known.
        replaying: whether updates are history, which is not announced again.
        replayed: how many were.
        tools: the calls that it told of.
        aftermath: of a turn that was cancelled.
        on_options: told of every list of config options that the agent announces.
        heard: whether the agent said or asked anything in this turn.
        lost: the error for something of this turn that was too long to be taken.
        malformed: counts the requests that cannot be read.
        prompted: whether the agent has a prompt that it has not answered.
        closed: whether it was told to free its session: there is none any more.
        served: what else is served to this agent, by method: only what was advertised.
    """

    def __init__(
        self,
        host: SessionHost,
        pid: int,
        on_mode: Callable[[str], None],
        tools: ToolCalls | None = None,
        *,
        start_ticks: int = 0,
    ) -> None:
        self._host = host
        self._pid = pid
        self._start_ticks = start_ticks
        self._on_mode = on_mode
        self.on_options: Callable[[list[Any]], None] = lambda _options: None
        self._open: dict[Call, _Open] = {}
        self._cancelled = False
        self.session_id: str | None = None
        self.replaying = False
        self.replayed = 0
        self.tools = ToolCalls() if tools is None else tools
        self.aftermath = Aftermath()
        self.heard = False
        self.lost: BridgeError | None = None
        self.malformed = Malformed(host)
        self.prompted = False
        self.closed = False
        self.served: Mapping[str, Callable[[Call], Awaitable[Any]]] = {}
        self._cancels = 0

    async def room(self) -> None:
        """Wait until the log can take more of what the agent says."""
        await self._host.room()

    async def replay_over(self, quiet: float) -> None:
        """Wait until nothing was replayed for some seconds, but not for ever."""
        with anyio.move_on_after(REPLAY_LIMIT):
            while True:
                before = self.replayed
                await anyio.sleep(quiet)
                if self.replayed == before:
                    return

    # Turns.

    def begin_turn(self) -> None:
        """Take questions again."""
        self.aftermath.begin_turn()
        self._cancelled = False
        self.heard = False
        self.lost = None

    def answered(self) -> None:
        """Take the prompt as answered: what arrives from now on is of no turn (row 14)."""
        self.prompted = False

    def end_turn(self) -> None:
        """No tool call outlives its turn."""
        self.prompted = False
        self.tools.end_turn()
        self.aftermath.end_turn(cancelled=self._cancelled)
        self._cancelled = False

    def cancel_turn(self) -> list[Call]:
        """From now on every question of this turn is answered `cancelled`; return the open ones."""
        self._cancelled = True
        self._cancels += 1
        return list(self._open)

    def wanted(self) -> Callable[[], bool]:
        """Return what tells whether that which is asked now is still wanted: no cancel since."""
        before, too_late = self._cancels, self._cancelled
        return lambda: not too_late and self._cancels == before

    # What the agent says.

    def on_noise(self, noise: Noise) -> None:
        """Take note of what was said and cannot be shown: the turn must not pass for complete."""
        if noise.too_long:
            message = f"The agent sent {noise.reason}; it is lost."
            self.lost = BridgeError("message_too_large", message)
            self._host.emit(Fact("notice", {"kind": "message_too_large", "message": message}))
        if noise.malformed_request:
            self.malformed.take(noise.reason)

    def on_notification(self, notification: Notification) -> None:
        """Record an update, or any other notification as a notice."""
        if notification.method != RELAYED:
            values = {"method": notification.method, "params": notification.params}
            self._host.emit(Fact("notice", {"kind": "agent_notification", **values}))
            return
        params = notification.params
        kind = acp.update_kind(params)
        if kind is None or not self._is_ours(params):
            return
        options = acp.options_of_update(params)
        if options is not None:
            self.on_options(options)
        mode = acp.mode_of_update(params)
        if mode is not None:
            self._on_mode(mode)
        if self.replaying:
            self.replayed += 1
            return
        late = self.aftermath.is_late(params)
        self.heard = self.heard or kind not in OF_NO_TURN
        self.tools.update(params, len(notification.line) + len(notification.update or b""))
        raw = notification.update
        if raw is None:
            raw = acp.raw_update(notification.line)
        self._host.emit(Update(raw, kind, late))

    def _is_ours(self, params: Mapping[str, Any]) -> bool:
        """Updates may come before the answer that names the session, for another never."""
        return self.session_id is None or params.get("sessionId") == self.session_id

    # What the agent asks.

    def arrived(self, call: Call) -> None:
        """Take note of whether a request is of a turn: by its place on the wire, not by its task.

        The agent that answers its prompt and asks right behind that must not find the turn's rule.
        """
        call.outside_turn = not self.prompted

    async def on_call(self, call: Call) -> Any:
        """Serve a request of the agent.

        Raises:
            BridgeError: the answer.
        """
        self.heard = True
        self.malformed.check()
        if call.method == PERMISSION:
            return await self._permission(call)
        if call.method == elicitation.METHOD:
            error, notice = elicitation.refusal(call.params)
            self._host.emit(notice)
            raise error
        serve = self.served.get(call.method)
        if serve is not None:
            return await serve(call)
        return await self._host.call(call.method, call.params)

    async def _permission(self, call: Call) -> dict[str, Any]:
        params = self._read(call)
        if self.closed or params.sessionId != self.session_id:
            raise BridgeError("invalid_params", "The session of the request is not open here.")
        if len(params.options) > MAX_OPTIONS:
            message = f"A permission request may offer {MAX_OPTIONS} options at most."
            raise BridgeError("invalid_params", message)
        if self._cancelled or self.aftermath.is_late_question(params.toolCall.toolCallId):
            # Of a turn that a person has cancelled: nobody is asked, and nothing allowed (row 15).
            return acp.selected(None)
        sha256 = hashlib.sha256(call.line).hexdigest()
        ask = self.tools.ask(params, call.wire_id, sha256, self._pid)
        entry = _Open(replace(ask, outside_turn=call.outside_turn, agent_start=self._start_ticks))
        self._open[call] = entry
        try:
            entry.decision = await self._host.ask(entry.ask)
        except BaseException:
            del self._open[call]
            raise
        return acp.selected(entry.decision.option_id)

    def _read(self, call: Call) -> acp.PermissionParams:
        if len(call.line) > MAX_PERMISSION_BYTES:
            message = f"A permission request may have {MAX_PERMISSION_BYTES} bytes at most."
            raise BridgeError("message_too_large", message)
        try:
            return acp.read(acp.PermissionParams, call.params, PERMISSION)
        except BridgeError as error:
            self.malformed.take(error.message.rstrip("."))
            raise

    def answering(self, call: Call, result: Any) -> Any:
        """Return what is really written: a turn cancelled meanwhile gets no allow any more."""
        entry = self._open.pop(call, None)
        if entry is None:
            return result
        valid = entry.decision is not None and policy.still_valid(entry.ask, entry.decision)
        return result if valid and not self._cancelled else acp.selected(None)
