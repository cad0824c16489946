"""The mode, model and options of an open ACP session: set, verified, and taken in as it tells them.

What an agent says of itself is believed, never what was sent to it. Above is the runtime, which
decides what is wanted; below is the controller's way to send a request.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio

from acpbridge.controller import refusals
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentFacts
from acpbridge.protocol import acp

# A mode that was set is confirmed by the answer, or by an update within this. Seconds.
MODE_WAIT: Final = 2.0

Request = Callable[[str, Mapping[str, Any]], Awaitable[Any]]


class Chosen:
    """What one session is set to.

    Args:
        request: sends a request for the session and returns its result.
        facts: what is known of the program.

    Attributes:
        session: the last that the agent told of modes, models and options, as it told it.
        mode: it is in, None while it has told none.
        setting: the mode that is being set here, None while none is.
        on_change: called inline whenever the agent has told of its mode or its options.
    """

    def __init__(self, request: Request, facts: AgentFacts) -> None:
        self._request = request
        self._facts = facts
        self._mode_changed = anyio.Event()
        self._options_changed = anyio.Event()
        self.session: Mapping[str, Any] = {}
        self.mode: str | None = None
        self.setting: str | None = None
        self.on_change: Callable[[], None] = lambda: None

    def opened(self, result: Mapping[str, Any]) -> None:
        """Take in what the agent answered when the session was opened."""
        self.session = result
        told = acp.current_mode(result)
        if told is not None:
            self.mode = told
        self.on_change()

    async def set_mode(self, mode: str) -> None:
        """Put the session into a mode and verify it; nothing is sent when it is there already.

        Raises:
            BridgeError: `mode_not_set`, saying what the agent offered and answered.
        """
        if self.mode == mode:
            return
        offered = acp.offered_modes(self.session)
        if mode not in offered:
            listed = ", ".join(offered) or "no modes"
            raise refusals.mode_error(mode, f"it offers {listed}")
        self.setting = mode
        try:
            with anyio.move_on_after(MODE_WAIT) as limit:
                await self._send_mode(mode)
                await self._confirmed(mode)
        except BridgeError as error:
            raise refusals.mode_error(mode, error.message) from None
        finally:
            self.setting = None
        if limit.cancelled_caught:
            now = self.mode or "unknown"
            raise refusals.mode_error(mode, f"it did not confirm it; its mode is {now}")

    async def _send_mode(self, mode: str) -> None:
        modes = self.session.get("modes")
        if isinstance(modes, dict) and mode in acp.offered_modes({"modes": modes}):
            await self._request("session/set_mode", {"modeId": mode})
            if self._facts.mode_answer_suffices:
                self.mode_told(mode)
            return
        option = acp.mode_option_id(self.session)
        assert option is not None  # it was offered, and not by `modes`
        await self.set_config_option(option, mode)

    async def _confirmed(self, mode: str) -> None:
        while self.mode != mode:
            await self._mode_changed.wait()

    def mode_told(self, mode: str) -> None:
        """Take in a mode that the agent announced."""
        self.mode = mode
        self._mode_changed.set()
        self._mode_changed = anyio.Event()
        self.on_change()

    async def set_config_option(self, option: str, value: "str | bool") -> Any:
        """Set a config option; return the raw result, the complete list of options.

        Raises:
            BridgeError: what the agent answered.
        """
        params: dict[str, Any] = {"configId": option, "value": value}
        if isinstance(value, bool):
            params["type"] = "boolean"
        result = await self._request("session/set_config_option", params)
        self.answered(result)
        return result

    def answered(self, result: Any) -> None:
        """Take in what the agent answered to a config option that was set."""
        if isinstance(result, dict):
            self.options_told(result.get("configOptions"))
            told = acp.current_mode(result)
            if told is not None:
                self.mode_told(told)

    def options_told(self, told: Any) -> None:
        """Take in the list of config options that the agent sent; it is always whole."""
        if isinstance(told, list):
            self.session = {**self.session, "configOptions": told}
            self._options_changed.set()
            self._options_changed = anyio.Event()
            self.on_change()

    async def options_changed(self) -> None:
        """Wait until the agent has sent its config options again."""
        await self._options_changed.wait()

    async def set_model(self, model: str) -> None:
        """Set the model of an agent that offers `models`; its bare answer is all that it says.

        Raises:
            BridgeError: what the agent answered.
        """
        await self._request("session/set_model", {"modelId": model})
        models = {**self.session.get("models", {}), "currentModelId": model}
        self.session = {**self.session, "models": models}
