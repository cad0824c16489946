"""Keeps one ACP session out of what would have nobody asked: refuses, watches, and brings back.

An agent that enters such a mode by itself loses its turn, and is put back into the mode in which it
asks; if it does not stop, or does not come back, it is given up, and its process ends for that
(G30). Above is the session; below are `bypass`, which knows what is one, and the controller.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio

from acpbridge.controller.chosen import Chosen
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.events import Fact
from acpbridge.runtimes.base import SessionHost
from acpbridge.runtimes.bypass import Bypass

# An agent that has let itself go ends its turn within this, or is ended. Seconds.
STOP_WAIT: Final = 5.0


class ModeKeeper:
    """Holds one session to modes in which a person is asked.

    Args:
        definition: of the agent; it may allow everything.
        host: told of what changes and of what is refused.
        chosen: what the session is set to, as the agent tells it.
        cancel: ends the turn under way.
        give_up: ends the process, with a reason.

    Attributes:
        wanted: the mode that the session must be in; None: none is known.
        opened: whether the session is open: what came before is no change.
        entered: the error of a turn in which the agent has let itself go.
    """

    def __init__(
        self,
        definition: AgentDefinition,
        host: SessionHost,
        chosen: Chosen,
        *,
        cancel: Callable[[], None],
        give_up: Callable[[str], None],
    ) -> None:
        self._bypass = Bypass(definition)
        self._host = host
        self._chosen = chosen
        self._cancel = cancel
        self._give_up = give_up
        self._before: tuple[str | None, str] = (None, "")
        self._let_go = anyio.Event()
        self._quiet = anyio.Event()  # set while no turn is under way
        self._quiet.set()
        self._back = anyio.Event()  # set while nothing has to be brought back
        self._back.set()
        self.wanted = definition.wanted_mode
        self.opened = False
        self.entered: BridgeError | None = None
        chosen.on_change = self._look

    @property
    def unasked(self) -> str:
        """What lets the agent act unasked at present, "" if nothing does."""
        return self._bypass.found(self._chosen.session, self._chosen.mode)

    # What somebody wants.

    def check(self, word: str) -> None:
        """Refuse the name of a mode, an option or a value in which nobody is asked.

        Raises:
            BridgeError: `bypass_refused`.
        """
        try:
            self._bypass.check(word)
        except BridgeError as error:
            self._tell_refused(error, "client")
            raise

    def check_request(self, params: Mapping[str, Any]) -> None:
        """Refuse a request that would set such a mode.

        Raises:
            BridgeError: `bypass_refused`.
        """
        try:
            self._bypass.check_request(params, self._chosen.session)
        except BridgeError as error:
            self._tell_refused(error, "client")
            raise

    async def set(self, mode: str) -> None:
        """Put the session into a mode, and verify it.

        Raises:
            BridgeError: `bypass_refused`, `mode_not_set`.
        """
        self.check(mode)
        await self._chosen.set_mode(mode)

    async def ensure(self) -> None:
        """Have the session be where it must be before anything is prompted.

        Raises:
            BridgeError: `mode_not_set`, or `bypass_refused` if it lets the agent go unasked.
        """
        if not self._back.is_set():
            await self._back.wait()
        if self.wanted is not None:
            await self.set(self.wanted)
        if self.unasked and not self._bypass.definition.allow_bypass:
            error = self._bypass.refusal(self.unasked)
            self._tell_refused(error, "agent")
            raise error

    def begin_turn(self) -> None:
        """Take a prompt as under way."""
        self.entered = None
        self._quiet = anyio.Event()

    def end_turn(self) -> None:
        """Take the turn as over."""
        self._quiet.set()

    # What the agent does.

    def _look(self) -> None:
        """Take in that the agent has told of its mode or of its options."""
        mode, unasked = self._chosen.mode, self.unasked
        (before, was), self._before = self._before, (mode, unasked)
        if not self.opened:
            return
        ours = mode is not None and mode == self._chosen.setting
        if mode != before:
            by = "acpbridge" if ours else "agent"
            values = {"mode": mode, "before": before, "by": by, "bypass": bool(unasked)}
            self._host.emit(Fact("mode_changed", values))
        elif unasked and unasked != was:
            message = f"{unasked} lets the agent act without asking"
            values = {"kind": "bypass", "what": unasked, "message": message}
            self._host.emit(Fact("notice", values))
        if not unasked or unasked == was or self._bypass.definition.allow_bypass:
            return
        self.entered = self._bypass.refusal(unasked)
        self._tell_refused(self.entered, "agent")
        if self.wanted is None and not was:
            self.wanted = before  # of an agent that nobody knows: where it was before
        self._back = anyio.Event()
        self._cancel()
        self._let_go.set()

    def _tell_refused(self, error: BridgeError, by: str) -> None:
        values = {"kind": "mode_refused", "by": by, "message": error.message}
        self._host.emit(Fact("notice", values))

    async def watch(self) -> None:
        """Bring the session back, each time that the agent has let itself go: a task."""
        while True:
            await self._let_go.wait()
            self._let_go = anyio.Event()
            what = self.unasked
            if what and not await self._brought_back():
                why = f"nobody is asked any more ({what}), and it could not be brought back"
                self._give_up(why)
            self._back.set()

    async def _brought_back(self) -> bool:
        if self.wanted is None:
            return False
        try:
            # At once, and not only when the turn has ended: until then it acts unasked.
            await self._chosen.set_mode(self.wanted)
        except BridgeError:
            return False
        if self.unasked:
            return False  # by an option, which no mode undoes
        with anyio.move_on_after(STOP_WAIT):
            await self._quiet.wait()
            return not self.unasked
        return False
