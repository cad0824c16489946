"""The audit: a chain of JSON lines that says who allowed what, written before it happens.

Each record is one line and one write. It carries the hash of the line before it, and ends with its
own: sha256 of the line as it would be without that last field. So a changed, lost or moved line
shows; a tail cut off whole does not, nor a chain that was written anew.

A write that failed leaves nothing behind: the file is cut back to its last good line.
"""

import hashlib
import json
import os
import queue
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import anyio
import anyio.to_thread

from acpbridge.errors import BridgeError
from acpbridge.model.display import clip, escape
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.permission import Decision
from acpbridge.model.ports import Clock
from acpbridge.permissions.record import decision_of

GENESIS: Final = "0" * 64

# Longer strings are cut in a record, which is there to be read.
_LONGEST_TEXT: Final = 4096
_DEEPEST: Final = 16
# For how long a write waits for an earlier one whose caller gave up: the disk may be stuck.
_STUCK_SECONDS: Final = 2.0
_BLOCK: Final = 1 << 16
# Open questions are some hundred at most, and their records a few KB each. Bytes.
_LOOKED_AT: Final = 4 * 1024 * 1024

_END = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_END_SIZE: Final = len(',"hash":""}') + 64


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
        *,
        boot_id: str,
        clock: Clock,
        redact: Callable[[Any], Any] = _as_it_is,
        faults: Faults = no_faults,
    ) -> None:
        self._fd = fd
        self._boot_id = boot_id
        self._clock = clock
        self._redact = redact
        self._faults = faults
        tail = _Tail.recover(fd, faults)
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
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
        try:
            os.fchmod(fd, 0o600)  # one that was there may be open to others
            audit = cls(fd, boot_id=boot_id, clock=clock, redact=redact, faults=faults)
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
        line, digest = self._line(kind, fields)
        if self._dirty:
            self._cut_back()
        if os.fstat(self._fd).st_size != self._size:
            raise OSError("somebody else has changed it")
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


def verify(path: Path) -> tuple[int, int | None]:
    """Return the number of good lines at the head of the file, and the number of the first bad one.

    Lines count from 1. A line is bad if it was changed, if it does not follow the one before it,
    or if it has no end.
    """
    seq, previous = 0, GENESIS
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            found = _parse(line)
            if found is None or found[:2] != (seq + 1, previous):
                return number - 1, number
            seq, previous = seq + 1, found[2]
    return seq, None


def last_decisions(path: Path, requests: Collection[str]) -> dict[str, Decision]:
    """Return what each of some requests came to, as far as the file says so. Blocks.

    For the start: what was decided just before a daemon was killed is here, and may be nowhere
    else. Only the last few thousand records are looked at.

    Args:
        path: of the file.
        requests: their ids.
    """
    found: dict[str, Decision] = {}
    looked_at = 0
    with suppress(OSError), path.open("rb") as file:
        for line in _lines_backwards(file):
            looked_at += len(line)
            if len(found) == len(requests) or looked_at > _LOOKED_AT:
                break
            record = _record(line) if b'"permission_decided"' in line else {}
            name, decision = record.get("request_uid"), decision_of(record)
            if name in requests and decision is not None:
                found.setdefault(str(name), decision)  # the last word counts
    return found


def _record(line: bytes) -> dict[str, Any]:
    """Return a record that is as it was written, else an empty one."""
    record = json.loads(line) if _parse(line) is not None else {}
    return record if isinstance(record, dict) else {}


def _parse(line: bytes) -> tuple[int, str, str] | None:
    """Return number, hash before and own hash of a line; None if the line is not whole."""
    end = _END.fullmatch(line, max(0, len(line) - _END_SIZE - 1), len(line) - 1)
    if end is None or not line.endswith(b"\n"):
        return None
    body = line[: end.start()] + b"}"
    digest = hashlib.sha256(body).hexdigest()
    if digest.encode() != end.group(1):
        return None
    try:
        record = json.loads(body)
        return int(record["seq"]), str(record["prev_hash"]), digest
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


class _Tail:
    """Where a chain goes on."""

    def __init__(self, size: int, torn_bytes: int, seq: int, last_hash: str) -> None:
        self.size = size
        self.torn_bytes = torn_bytes
        self.seq = seq
        self.hash = last_hash

    @classmethod
    def recover(cls, fd: int, faults: Faults) -> "_Tail":
        """Cut a torn tail off the file, and find the end of its chain."""
        with open(fd, "rb", closefd=False) as file:
            lines = _lines_backwards(file)
            torn = next(lines)
            seq, last_hash, damaged = 0, GENESIS, 0
            for line in lines:
                found = _parse(line)
                if damaged == 0:
                    # After a damaged line the chain goes on from its bytes as they are.
                    last_hash = found[2] if found else hashlib.sha256(line).hexdigest()
                if found is not None:
                    seq = found[0]
                    break
                damaged += 1
        size = os.fstat(fd).st_size - len(torn)
        if torn:
            faults("audit.recover")
            os.ftruncate(fd, size)
            os.fsync(fd)
        return cls(size, len(torn), seq + damaged, last_hash)


def _lines_backwards(file: BinaryIO) -> Iterator[bytes]:
    """Yield what follows the last line end, then each line with its end, from last to first."""
    at = file.seek(0, os.SEEK_END)
    rest, ended = b"", b""
    while at > 0:
        start = max(0, at - _BLOCK)
        file.seek(start)
        rest = file.read(at - start) + rest
        at = start
        first, *lines = rest.split(b"\n")
        for line in reversed(lines):
            yield line + ended
            ended = b"\n"
        rest = first
    yield rest + ended


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
