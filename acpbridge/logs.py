"""Where a process says what it does: stderr, an object a line, and never stdout.

stdout is data or a protocol, and the library's own default would write there. Every process of ours
calls one of these before anything else can log.
"""

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog


def to_stderr(redact: Callable[[Any], Any] = lambda event: event, *, quiet: bool = False) -> None:
    """Log to stderr, without the values of local variables, which may be secrets.

    Args:
        redact: takes the secrets out of an event.
        quiet: only errors, for a command whose stderr is for people.
    """

    def redacted(
        _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        clean: MutableMapping[str, Any] = redact(dict(event))
        return clean

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redacted,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.ERROR if quiet else logging.INFO
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
