"""What lets an agent act without asking: a mode, or an option of its session (G30, row 28). Pure.

By what the catalogue knows of the program, and by the names that such modes bear with any program.
Above is `modes`, which keeps a session out of what is found here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.permissions import policy
from acpbridge.protocol import acp, options

# Requests by which a client may change a session's mode.
SETTERS: Final = frozenset({"session/set_mode", "session/set_config_option"})

# Values by which a switch says that it is off.
_OFF: Final = frozenset({"", "false", "off", "no", "none", "never", "disabled", "0"})


@dataclass(frozen=True, slots=True)
class Bypass:
    """What one agent may not enter, unless its definition allows it."""

    definition: AgentDefinition

    def check(self, word: str) -> None:
        """Refuse the id or the name of a mode, an option or a value.

        Raises:
            BridgeError: `bypass_refused`.
        """
        if self.named(word) and not self.definition.allow_bypass:
            raise self.refusal(f"Mode {word!r}")

    def check_request(self, params: Mapping[str, Any], session: Mapping[str, Any]) -> None:
        """Refuse the params of one of `SETTERS`, by what they name and by what that is called.

        Raises:
            BridgeError: `bypass_refused`.
        """
        value = params.get("value")
        words = [params.get("modeId"), value]
        option = options.find(options.options_of(session), str(params.get("configId")))
        if value is True:
            words += [params.get("configId"), option and option.name]
        if option is not None:
            words += [choice.name for choice in option.choices or () if choice.value == value]
        words += _mode_names(session, params.get("modeId"))
        for word in words:
            if isinstance(word, str):
                self.check(word)

    def refusal(self, what: str) -> BridgeError:
        """Return the error for something that would end all questions."""
        message = f"{what} of {self.definition.id} asks nobody; it is refused."
        return BridgeError("bypass_refused", message)

    def named(self, word: str) -> bool:
        """Tell whether a word names a mode in which nobody is asked."""
        return word in self.definition.facts.bypass_modes or policy.names_bypass(word)

    def found(self, session: Mapping[str, Any], mode: str | None) -> str:
        """Return what lets a session go unasked as it stands, "" if nothing does."""
        if mode is not None and any(map(self.named, (mode, *_mode_names(session, mode)))):
            return f"Mode {mode!r}"
        for option in options.options_of(session):
            # A model may be called anything, and the mode was looked at.
            if option.category not in ("model", "mode") and any(map(self.named, _said(option))):
                return f"Option {option.id!r}"
        return ""


def _mode_names(session: Mapping[str, Any], mode: Any) -> Iterator[str]:
    """Yield what a mode is called: some agents have numbers for ids."""
    modes = session.get("modes")
    listed = modes.get("availableModes") if isinstance(modes, dict) else None
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict) and item.get("id") == mode and isinstance(item.get("name"), str):
            yield item["name"]
    held = acp.mode_option_id(session)
    for option in options.options_of(session):
        if option.id == held:
            yield from (choice.name for choice in option.choices or () if choice.value == mode)


def _said(option: options.Option) -> Iterator[str]:
    """Yield the words by which an option says what is in force."""
    if option.current is None or option.current is False:
        return
    if option.current is not True:
        yield option.current
        yield from (c.name for c in option.choices or () if c.value == option.current)
    if option.current is True or option.current.casefold() not in _OFF:
        yield option.id
        yield option.name
