"""What somebody chose of an agent's session: its model, its mode, its other options."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# What an agent's option can be set to.
Value = str | bool


@dataclass(frozen=True, slots=True)
class Settings:
    """One layer of choices; what it does not name is left to the layer below.

    Attributes:
        model: id or name; "" takes an earlier choice back; None: nothing is said of it.
        mode: the session mode, likewise.
        options: values by the id or the name of an option, likewise.
        thinking: how much the model thinks, for the option that the agent has for it.
        lenient: whether what the agent does not offer is left out, and is no error.
    """

    model: str | None = None
    mode: str | None = None
    options: Mapping[str, Value] = field(default_factory=dict)
    thinking: str | None = None
    lenient: bool = False

    def __bool__(self) -> bool:
        """Tell whether anything is chosen."""
        chosen = (self.model, self.mode, self.thinking)
        return any(choice is not None for choice in chosen) or bool(self.options)

    def merged(self, over: "Settings") -> "Settings":
        """Return these with another layer over them; what that takes back is gone."""
        options = {**self.options, **over.options}
        return Settings(
            (self.model if over.model is None else over.model) or None,
            (self.mode if over.mode is None else over.mode) or None,
            {name: value for name, value in options.items() if value != ""},
        )

    def to_json(self) -> dict[str, Any]:
        """Return `{model, mode, options}`, as records and rows have it."""
        return {"model": self.model, "mode": self.mode, "options": dict(self.options)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Settings":
        """Rebuild what `to_json` wrote; an empty mapping is no choice at all.

        Raises:
            TypeError: it has another shape.
        """
        model, mode, options = value.get("model"), value.get("mode"), value.get("options", {})
        texts = all(text is None or isinstance(text, str) for text in (model, mode))
        if not texts or not is_options(options):
            raise TypeError("not settings")
        return cls(model, mode, dict(options))


def is_options(value: Any) -> bool:
    """Tell whether a decoded value maps names to texts and booleans."""
    return isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(item, str | bool) for name, item in value.items()
    )
