"""The audit: a chain of JSON lines that says who allowed what, written before it happens.

Each record is one line and one write. It carries the hash of the line before it, and ends with its
own: sha256 of the line as it would be without that last field. So a changed, lost or moved line
shows; a tail cut off whole does not, nor a chain that was written anew.

A write that failed leaves nothing behind: the file is cut back to its last good line. A full file
gets a number and is kept; the chain goes on in the next one. None is ever deleted here.
"""

import hashlib
import json
import os
import queue
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from acpbridge.errors import BridgeError
from acpbridge.model.display import clip, escape
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.ports import Clock
from acpbridge.permissions.chain import CONTINUED, Tail, full_files, number_of, numbered
from acpbridge.permissions.chain import last_decisions as last_decisions
from acpbridge.permissions.chain import verify as verify

# A file that has come to this size is full: some ten thousand decisions. Bytes.
FILE_LIMIT: Final = 16 * 1024 * 1024

# Longer strings are cut in a record, which is there to be read.
_LONGEST_TEXT: Final = 4096
_DEEPEST: Final = 16
# For how long a write waits for an earlier one whose caller gave up: the disk may be stuck.
_STUCK_SECONDS: Final = 2.0

_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def _as_it_is(value: Any) -> Any:
    return value


class Audit:
    """An open audit file; made by `open`, ended by `close`.

    Attributes:
        torn_bytes: size of the torn tail that was dropped when the file was opened.
    """

    def __init__(
        self,
        fd: int,
        path: Path,
        *,
        boot_id: str,
        clock: Clock,
        redact: Callable[[Any], Any] = _as_it_is,
        faults: Faults = no_faults,
    ) -> None:
        self._fd = fd
        self._path = path
        self._boot_id = boot_id
        self._clock = clock
        self._redact = redact
        self._faults = faults
        full = full_files(path)
        self._before = full[-1] if full else None
        tail = Tail.recover(fd, faults, self._before)
        self._seq, self._hash, self._size = tail.seq, tail.hash, tail.size
        self.torn_bytes = tail.torn_bytes
        self._dirty = False  # whether a failed write has left something behind the last line
        # One writer at a time, first come first served: the chain is one line after another.
        self._limiter = anyio.CapacityLimiter(1)
        # Held by the thread that writes. The limiter alone would not do: it lets the next one in
        # as soon as a caller gives up, while that caller's thread is still within its write.
        self._token: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._token.put(None)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        boot_id: str,
        clock: Clock,
        redact: Callable[[Any], Any] = _as_it_is,
        faults: Faults = no_faults,
    ) -> "Audit":
        """Open or create the file, dropping a torn tail. Blocks; meant for the start.

        A damaged line before the tail stays for `verify` to find, and prevents nothing.

        Args:
            path: of the file; its directory exists.
            boot_id: of the kernel, for every record.
            clock: for the times of records.
            redact: takes the secrets out of a record's fields, a JSON tree.
            faults: points at which a test may fail.

        Raises:
            OSError: the file cannot be opened.
        """
        fd = os.open(path, _FLAGS, 0o600)
        try:
            os.fchmod(fd, 0o600)  # one that was there may be open to others
            _finish_turn(fd, path)
            audit = cls(fd, path, boot_id=boot_id, clock=clock, redact=redact, faults=faults)
            _sync_directory(path.parent)
        except BaseException:
            os.close(fd)
            raise
        return audit

    async def record(self, kind: str, fields: Mapping[str, Any], *, durable: bool) -> None:
        """Append a record; on return it is in the file, and on disk if `durable`.

        A cancelled call may still have its record written; the chain stays whole all the same.

        Raises:
            BridgeError: `store_full` or `internal`; the record is not in the file.
        """
        try:
            # Abandoned on cancel, so that a bound around this call holds with a disk that hangs.
            await anyio.to_thread.run_sync(
                self._write_alone,
                kind,
                dict(fields),
                durable,
                abandon_on_cancel=True,
                limiter=self._limiter,
            )
        except OSError as error:
            raise BridgeError("store_full", f"The audit cannot be written: {error}.") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise BridgeError("internal", f"A record of the audit is not JSON: {kind}.") from error

    async def note(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Append a record of something that is no decision: a mode change, a kill, a refusal."""
        await self.record(kind, fields, durable=False)

    def close(self) -> None:
        """Close the file; further records fail. A second call does nothing."""
        try:
            self._token.get(timeout=_STUCK_SECONDS)
        except queue.Empty:
            return  # within a stuck write: its descriptor must not be given to another file
        try:
            if self._fd >= 0:
                os.close(self._fd)
        finally:
            self._fd = -1
            self._token.put(None)

    def _write_alone(self, kind: str, fields: dict[str, Any], durable: bool) -> None:  # noqa: FBT001 -- run_sync passes by position
        try:
            self._token.get(timeout=_STUCK_SECONDS)
        except queue.Empty as error:
            raise OSError("an earlier write has not ended") from error
        try:
            self._write(kind, fields, durable=durable)
        finally:
            self._token.put(None)

    def _write(self, kind: str, fields: dict[str, Any], *, durable: bool) -> None:
        if self._fd < 0:
            raise OSError("it is closed")
        if self._dirty:
            self._cut_back()
        if os.fstat(self._fd).st_size != self._size:
            raise OSError("somebody else has changed it")
        if self._size >= FILE_LIMIT:
            self._turn_over()
        if self._size == 0 and self._before is not None:
            self._append(CONTINUED, {"after": self._before.name}, durable=durable)
        self._append(kind, fields, durable=durable)

    def _append(self, kind: str, fields: dict[str, Any], *, durable: bool) -> None:
        line, digest = self._line(kind, fields)
        try:
            _write_whole(self._fd, line, self._faults("audit.write"))
            self._faults("audit.written")
            if durable:
                self._faults("audit.sync")
                os.fsync(self._fd)
                self._faults("audit.synced")
        except BaseException:
            self._dirty = True
            self._cut_back()
            raise
        self._seq += 1
        self._hash = digest
        self._size += len(line)

    def _turn_over(self) -> None:
        """Give the full file a number, and go on in another; where that fails, in the full one.

        The plain name is there at every moment: it is linked to the number first, then replaced.
        """
        last = 0 if self._before is None else number_of(self._path, self._before)
        names = (numbered(self._path, number) for number in count(last + 1))
        full = next(name for name in names if not os.path.lexists(name))
        empty = self._path.with_name(f"{self._path.name}.new")
        fd = -1
        try:
            os.fsync(self._fd)
            fd = os.open(empty, _FLAGS | os.O_TRUNC, 0o600)
            os.fchmod(fd, 0o600)
            self._faults("audit.link")
            os.link(self._path, full)
            self._faults("audit.replace")
            empty.replace(self._path)
        except OSError:
            if fd >= 0:
                os.close(fd)
            _finish_turn(self._fd, self._path)
            if not _same(self._fd, self._path):
                raise
            return
        os.close(self._fd)
        self._fd, self._size, self._before = fd, 0, full
        _sync_directory(self._path.parent)

    def _cut_back(self) -> None:
        self._faults("audit.cut")
        os.ftruncate(self._fd, self._size)
        self._dirty = False

    def _line(self, kind: str, fields: dict[str, Any]) -> tuple[bytes, str]:
        head = {
            "seq": self._seq + 1,
            "kind": kind,
            "ts_wall": self._clock.wall().isoformat(),
            "ts_mono": self._clock.monotonic(),
            "boot_id": self._boot_id,
            "prev_hash": self._hash,
        }
        # The names of the fields are ours: only what they hold may be blacked out.
        clean = {name: self._redact(value) for name, value in fields.items()}
        record = {**head, **_shown(clean, _DEEPEST), **head}
        # ASCII, so that no surrogate of an agent's text can make it fail.
        body = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()
        digest = hashlib.sha256(body).hexdigest()
        return body[:-1] + b',"hash":"%s"}\n' % digest.encode(), digest


def _write_whole(fd: int, line: bytes, part: int | None) -> None:
    written = os.write(fd, line[:part])
    if written != len(line):
        raise OSError(f"{written} of {len(line)} bytes were written")


def _shown(value: Any, depth: int) -> Any:
    """Return a JSON tree fit to be read: strings escaped and cut, depth bounded."""
    if isinstance(value, str):
        return clip(escape(value), _LONGEST_TEXT)
    if not isinstance(value, dict | list | tuple):
        return value
    if depth == 0:
        return "⟨deeper⟩"
    if isinstance(value, dict):
        return {_shown(str(key), depth): _shown(item, depth - 1) for key, item in value.items()}
    return [_shown(item, depth - 1) for item in value]


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _finish_turn(fd: int, path: Path) -> None:
    """Undo the half of a turn: a file that has the plain name still has no number."""
    with suppress(OSError):
        path.with_name(f"{path.name}.new").unlink()
    for full in full_files(path)[-1:]:
        if _same(fd, full) and _same(fd, path):
            full.unlink()


def _same(fd: int, path: Path) -> bool:
    return os.path.samestat(os.fstat(fd), path.stat())
