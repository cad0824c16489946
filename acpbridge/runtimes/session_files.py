"""Keeps an agent's stored sessions from being destroyed by the agent itself, where it would.

Some programs put a second, empty file beside a session's own when they load it, and at their next
start take the session for empty and remove both. The empty one is removed here as soon as it is
not needed; and a file that would be written over, because its name holds the minute of now, gets
an earlier one. Where these files are and what they look like are facts of the catalogue.
"""

import json
import os
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

import anyio.to_thread
import structlog

from acpbridge.model.agents import SessionFiles

log = structlog.get_logger(__name__)

# The id comes from an agent: nothing else may become part of a path.
_ID: Final = re.compile(r"[A-Za-z0-9-]{8,64}")

# A first line is a few hundred bytes.
_FIRST: Final = 64 * 1024

# Of a file so much is looked through: its first message stands near its beginning. Bytes.
_LOOKED: Final = 16 * 1024**2

# Any minute that is over for the agent's clock as well.
_EARLIER: Final = timedelta(minutes=2)


async def settle(
    files: SessionFiles | None,
    env: Mapping[str, str],
    session_id: str | None,
    now: datetime,
    *,
    running: bool = False,
) -> bool:
    """Put the stored files of a session in order; tell whether it may be loaded at once.

    Args:
        files: what is known of them; None: nothing, and nothing is done.
        env: of the agent.
        session_id: the agent's own; None: there is none yet.
        now: the wall-clock time, UTC.
        running: whether the agent has the session open, so that its file must keep its name.
    """
    home = env.get("HOME", "")
    if files is None or session_id is None or not _ID.fullmatch(session_id) or home[:1] != "/":
        return False

    def work() -> bool:
        try:
            return _settle(files, Path(home), session_id, now, running=running)
        except OSError as error:
            log.warning("an agent's session files are as they were", error=str(error))
            return False

    return await anyio.to_thread.run_sync(work)


def _settle(
    files: SessionFiles, home: Path, session_id: str, now: datetime, *, running: bool
) -> bool:
    short = session_id[: files.id_length]
    found = home.glob(files.pattern.format(minute="*", id=short))
    mine = [path for path in found if _session_of(path) == session_id]
    told = [path for path in mine if _has_messages(path, files.message)]
    if len(told) != 1:
        return False  # nothing to keep, or more than we understand
    for path in mine:
        if path not in told:
            path.unlink()
    (path,) = told
    if path.match(files.pattern.format(minute=now.strftime(files.minute), id=short)):
        if running:
            return False
        earlier = (now - _EARLIER).strftime(files.minute)
        target = path.with_name(Path(files.pattern.format(minute=earlier, id=short)).name)
        os.link(path, target)  # never over another file
        path.unlink()
    return True


def _session_of(path: Path) -> str | None:
    """Return the session that a file says it belongs to; None for what is no such file."""
    if path.is_symlink() or not path.is_file():
        return None
    with _open(path) as stream:
        line = stream.readline(_FIRST)
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name = value.get("sessionId") if isinstance(value, dict) else None
    return name if isinstance(name, str) else None


def _has_messages(path: Path, start: str) -> bool:
    """Tell whether something is said in a file; one too long to look through is taken to be so."""
    head, begins, left = start.encode(), True, _LOOKED
    with _open(path) as stream:
        while left > 0 and (piece := stream.readline(_FIRST)):
            if begins and piece.startswith(head):
                return True
            begins = piece.endswith(b"\n")
            left -= len(piece)
    return left <= 0


def _open(path: Path) -> BinaryIO:
    """Open a file that may have become anything else meanwhile, and must hold nobody up."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)

    # Not `os.fdopen`: given a directory it raises, and closes nothing.
    return open(path, "rb", opener=opener)
