"""Where a process says what it does: stderr or a file, an object a line, and never stdout.

stdout is data or a protocol, and the library's own default would write there. Every process of ours
calls one of these before anything else can log. What cannot be written is lost, and ends nobody.
"""

import itertools
import logging
import os
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol

import structlog

from acpbridge.model.faults import Faults, no_faults

# A daemon's log is one file of this size at most, and so many older ones. Bytes.
FILE_LIMIT: Final = 1024 * 1024
OLDER_FILES: Final = 4

Redact = Callable[[Any], Any]


class _Sink(Protocol):
    """What the library writes to."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


def to_stderr(redact: Redact = lambda event: event, *, quiet: bool = False) -> None:
    """Log to stderr, without the values of local variables, which may be secrets.

    Args:
        redact: takes the secrets out of an event.
        quiet: only errors, for a command whose stderr is for people.
    """
    _configure(_Stderr(), redact, logging.ERROR if quiet else logging.INFO)


def to_file(path: Path, redact: Redact, *, faults: Faults = no_faults) -> None:
    """Log to a file of bounded size, together with all else that this process writes to stderr."""
    _configure(LogFile(path, faults), redact, logging.INFO)
    sys.excepthook = _crashed


def older(path: Path) -> list[Path]:
    """Return the files that a log was moved to, the oldest first."""
    return [path.with_name(f"{path.name}.{number}") for number in range(OLDER_FILES, 0, -1)]


def _crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Tell of what nobody caught, redacted like everything else."""
    structlog.get_logger(__name__).critical("crashed", exc_info=(kind, error, trace))


class _Stderr:
    """stderr, whose reader may be gone."""

    def write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
        except (OSError, ValueError):
            return

    def flush(self) -> None:
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            return


class LogFile:
    """A log that descriptors 1 and 2 are part of, so that a crash is told in it too.

    When it is full it becomes the youngest of the older ones, and the oldest is dropped.

    Args:
        path: in a directory of ours alone.
        faults: points at which a test may fail.
    """

    def __init__(self, path: Path, faults: Faults = no_faults) -> None:
        self._path = path
        self._faults = faults
        self._open()

    def write(self, text: str) -> None:
        """Append a line; a full disk loses it."""
        try:
            if os.fstat(2).st_size >= FILE_LIMIT:
                self._turn_over()
            line = text.encode("utf-8", "backslashreplace")
            os.write(2, line[: self._faults("logfile.write")])
        except OSError:
            return

    def flush(self) -> None:
        """Nothing is held back."""

    def _turn_over(self) -> None:
        self._faults("logfile.turn")
        files = [*older(self._path), self._path]
        for target, source in itertools.pairwise(files):
            if source.exists():
                source.replace(target)
        self._open()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self._path, flags, 0o600)
        except OSError:
            return  # then it goes on where stderr was
        try:
            os.fchmod(fd, 0o600)
            for number in (1, 2):
                os.dup2(fd, number)
        finally:
            os.close(fd)


def news(record: logging.LogRecord) -> bool:
    """Tell whether a record of the event loop's is worth telling.

    Of a socket that becomes readable in the very moment in which the wait for it is cancelled, the
    loop says that the future has a state already. It is no fault, and nothing is lost by it.
    """
    raised = record.exc_info[0] if record.exc_info else None
    return raised is None or raised.__name__ != "InvalidStateError"


def _configure(sink: _Sink, redact: Redact, level: int) -> None:
    def redacted(
        _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        clean: MutableMapping[str, Any] = redact(dict(event))
        return clean

    logging.getLogger("asyncio").addFilter(news)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redacted,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sink),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )
