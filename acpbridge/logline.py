"""A logger that imports nothing until something is logged: what it writes goes to structlog.

For the modules that a served agent runs through: it should start in the time that Python takes, and
what it says is for the person who writes it, so `serving` has it said in plain text. Below every
other module; `logs` sets structlog up.
"""

import sys
import traceback
from collections.abc import Callable
from typing import Any

Sink = Callable[[str, str, str, dict[str, Any]], None]
"""Takes the logger's name, the level, the event and its values."""


def _structlog(name: str, level: str, event: str, values: dict[str, Any]) -> None:
    import structlog

    getattr(structlog.get_logger(name), level)(event, **values)


def plain(name: str, level: str, event: str, values: dict[str, Any]) -> None:
    """Write a line on stderr, with the traceback of the error that is being handled."""
    told = "".join(f" {key}={value!r}" for key, value in values.items())
    sys.stderr.write(f"{name}: {event}{told}\n")
    if level == "exception":
        traceback.print_exc()


_sink: list[Sink] = [_structlog]


def use(sink: Sink) -> None:
    """Have everything logged in this process go to a sink."""
    _sink[:] = [sink]


class Logger:
    """The words of structlog's logger that are in use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def warning(self, event: str, **values: Any) -> None:
        """Log what somebody should know."""
        _sink[0](self._name, "warning", event, values)

    def error(self, event: str, **values: Any) -> None:
        """Log what went wrong."""
        _sink[0](self._name, "error", event, values)

    def exception(self, event: str, **values: Any) -> None:
        """Log the error that is being handled, with its traceback."""
        _sink[0](self._name, "exception", event, values)
