"""What an agent lets its client choose: config options, and the models of older agents. Pure.

Categories and types that are not known are left alone (C14): an option of another type cannot be
set, and is not offered. Above is the runtime, which sets what was found here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.model.display import clip
from acpbridge.model.settings import Value

# How people write the two values of a switch, also where an agent has a list of two words for it.
_YES: Final = frozenset({"true", "on", "yes"})
_NO: Final = frozenset({"false", "off", "no"})

# So many of a list are named in an error, and so many are in its data: an agent may offer a
# megabyte of them, and an error is stored and shown again and again.
LISTED: Final = 60
IN_DATA: Final = 500

# Characters of a name that are shown, and of one that is in the data.
SHOWN: Final = 80
LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a list."""

    value: str
    name: str

    def __str__(self) -> str:
        return self.value if self.name in ("", self.value) else f"{self.value} ({self.name})"


@dataclass(frozen=True, slots=True)
class Option:
    """One config option: a list of values, or a switch if `choices` is None."""

    id: str
    name: str
    category: str
    current: Value | None
    choices: tuple[Choice, ...] | None

    def value_for(self, given: Value) -> Value:
        """Return the value that somebody means.

        Raises:
            BridgeError: `invalid_params`, listing what is offered.
        """
        if self.choices is None:
            return _switch(self, given)
        return choose(self.choices, given, f"The option {self.id!r}")


def options_of(session: Mapping[str, Any]) -> tuple[Option, ...]:
    """Return the options of a session's answer, in the agent's order."""
    listed = session.get("configOptions")
    found = (_option(item) for item in (listed if isinstance(listed, list) else ()))
    return tuple(option for option in found if option is not None)


def _option(item: Any) -> Option | None:
    if not isinstance(item, dict) or not isinstance(item.get("id"), str) or not item["id"]:
        return None
    name, category, current = item.get("name"), item.get("category"), item.get("currentValue")
    switch = item.get("type") == "boolean"
    if not switch and item.get("type", "select") != "select":
        return None
    return Option(
        id=item["id"],
        name=name if isinstance(name, str) else "",
        category=category if isinstance(category, str) else "",
        current=current if isinstance(current, str | bool) else None,
        choices=None if switch else tuple(_choices(item.get("options"))),
    )


def _choices(options: Any, *, nested: bool = True) -> Iterable[Choice]:
    """Yield the values of a list, which may stand in groups."""
    for entry in options if isinstance(options, list) else ():
        if not isinstance(entry, dict):
            continue
        if isinstance(entry.get("value"), str):
            name = entry.get("name")
            yield Choice(entry["value"], name if isinstance(name, str) else "")
        elif nested:
            yield from _choices(entry.get("options"), nested=False)


def models_of(session: Mapping[str, Any]) -> tuple[str | None, tuple[Choice, ...]] | None:
    """Return the current model and those offered by a `models` answer, None if there is none."""
    models = session.get("models")
    if not isinstance(models, dict):
        return None
    listed, current = models.get("availableModels"), models.get("currentModelId")
    choices = [
        Choice(item["modelId"], item["name"] if isinstance(item.get("name"), str) else "")
        for item in (listed if isinstance(listed, list) else ())
        if isinstance(item, dict) and isinstance(item.get("modelId"), str)
    ]
    return current if isinstance(current, str) else None, tuple(choices)


def model_option(options: Iterable[Option]) -> Option | None:
    """Return the option that holds the model, None if there is none."""
    return next((o for o in options if o.category == "model" and o.choices is not None), None)


def find(options: tuple[Option, ...], name: str) -> Option | None:
    """Return the option with an id, or else the only one with a name."""
    named = [o for o in options if o.id == name] or [
        o for o in options if o.name.casefold() == name.casefold()
    ]
    return named[0] if len(named) == 1 else None


def unknown(options: tuple[Option, ...], name: str) -> BridgeError:
    """Return the error for an option that is not offered; it lists those that are."""
    ids = [option.id for option in options]
    listed = _listed(ids) if ids else "none at all"
    message = f"The agent has no option {name!r}; it offers {listed}."
    hint = "Use one of these ids." if ids else "Leave it out, or use an agent that has it."
    return BridgeError("unsupported_control", message, hint=hint, data={"offered": _short(ids)})


def choose(choices: tuple[Choice, ...], given: Value, what: str) -> str:
    """Return the value that somebody means: by itself, by its name, or by yes and no.

    Raises:
        BridgeError: `invalid_params`, listing what is offered.
    """
    values = [choice.value for choice in choices]
    if given in values:
        return str(given)
    words = _words(given)
    found = {c.value for c in choices if c.name.casefold() in words} or (
        {value for value in values if value.casefold() in words}
    )
    if len(found) == 1:
        return found.pop()
    shown = given if isinstance(given, str) else str(given).lower()
    listed = _listed(choices) if choices else "nothing"
    message = f"{what} cannot be {shown!r}; offered: {listed}."
    known = set(_short(values))
    offered = [{"value": c.value, "name": c.name[:LONGEST]} for c in choices if c.value in known]
    hint = "Give one of the offered values."
    raise BridgeError("invalid_params", message, hint=hint, data={"offered": offered})


def _words(given: Value) -> frozenset[str]:
    if isinstance(given, bool):
        return _YES if given else _NO
    return frozenset({given.casefold()})


def _switch(option: Option, given: Value) -> bool:
    if isinstance(given, bool):
        return given
    word = given.casefold()
    if word not in _YES | _NO:
        message = f"The option {option.id!r} cannot be {given!r}; offered: true, false."
        raise BridgeError("invalid_params", message, hint="Give true or false.")
    return word in _YES


def _short(ids: list[str]) -> list[str]:
    return [name for name in ids if len(name) <= LONGEST][:IN_DATA]


def _listed(items: Iterable[Any]) -> str:
    words = [clip(str(item), SHOWN) for item in items]
    more = len(words) - LISTED
    return ", ".join(words[:LISTED]) + (f" and {more} more" if more > 0 else "")
