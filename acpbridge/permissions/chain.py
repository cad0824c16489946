"""Reading the audit: one chain of lines over several files, judged and looked through.

The file that is written to has the plain name; when it is full it is given a number and another one
begins. A record is bad if its bytes are not those that were hashed, or if it does not follow the
one before it, in whichever file that is. Above are the audit, which goes on where a chain ends, and
the command that shows it. Blocking.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Final

from acpbridge.model.faults import Faults
from acpbridge.model.permission import Decision
from acpbridge.permissions.record import decision_of

GENESIS: Final = "0" * 64

# The kind of the first record of every file but the first; its `after` names the file before.
CONTINUED: Final = "audit_continued"

_BLOCK: Final = 1 << 16
# Open questions are some hundred at most, and their records a few KB each. Bytes.
_LOOKED_AT: Final = 4 * 1024 * 1024

_END: Final = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_END_SIZE: Final = len(',"hash":""}') + 64


class Harm(StrEnum):
    """What is wrong with a chain at a place."""

    CHANGED = "changed"
    BROKEN = "lost_or_moved"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Damage:
    """The first bad place of a chain.

    Attributes:
        file: where it is.
        line: its number in that file, from 1.
        harm: what is wrong.
    """

    file: Path
    line: int
    harm: Harm


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found.

    Attributes:
        files: those that there are, the oldest first.
        records: good ones before the first bad place.
        damage: that place, None if all is good.
        torn_bytes: of an unfinished last line, as a crash or a write under way leaves it.
    """

    files: tuple[Path, ...]
    records: int
    damage: Damage | None = None
    torn_bytes: int = 0


def numbered(path: Path, number: int) -> Path:
    """Return the name that a full file is given."""
    return path.with_name(f"{path.stem}.{number:06d}{path.suffix}")


def number_of(path: Path, full: Path) -> int:
    """Return the number of a full file."""
    return int(full.name.removeprefix(f"{path.stem}.").removesuffix(path.suffix))


def full_files(path: Path) -> list[Path]:
    """Return the full files of an audit, the oldest first."""
    shape = re.compile(rf"{re.escape(path.stem)}\.(\d{{6,}}){re.escape(path.suffix)}")
    named = (entry for entry in path.parent.iterdir() if shape.fullmatch(entry.name))
    found = [entry for entry in named if entry.is_file() and not entry.is_symlink()]
    return sorted(found, key=lambda entry: (len(entry.name), entry.name))


def files(path: Path) -> list[Path]:
    """Return all files of an audit, the oldest first; one under two names once."""
    found: dict[tuple[int, int], Path] = {}
    for entry in [*full_files(path), path]:
        with suppress(FileNotFoundError):
            status = entry.stat()
            found[status.st_dev, status.st_ino] = entry  # the plain name is the last
    return list(found.values())


def check(path: Path) -> Verified:
    """Judge the whole chain, as far as it says itself: a tail that is gone whole does not show.

    Raises:
        OSError: a file cannot be read.
    """
    found = tuple(files(path))
    seq, previous, torn = 0, GENESIS, 0
    for file in found:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if file == found[-1] and not line.endswith(b"\n"):
                    torn = len(line)
                    break
                link = parse(line)
                if link is None or link[:2] != (seq + 1, previous):
                    harm = Harm.CHANGED if link is None else Harm.BROKEN
                    return Verified(found, seq, Damage(file, number, harm))
                seq, previous = seq + 1, link[2]
    # Since the first file was full there has always been one of the plain name.
    gone = Damage(path, 1, Harm.MISSING) if found and path not in found else None
    return Verified(found, seq, gone, torn)


def verify(path: Path) -> tuple[int, int | None]:
    """Return the number of good records, and of the first bad one, counted from 1 over all files.

    What has no end is bad here.
    """
    found = check(path)
    bad = found.damage is not None or found.torn_bytes > 0
    return found.records, found.records + 1 if bad else None


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records that are as they were written, the oldest first, over all files."""
    for file in files(path):
        with file.open("rb") as lines:
            yield from filter(None, map(record_of, lines))


def records_backwards(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records that are as they were written, the newest first, over all files."""
    for file in reversed(files(path)):
        with file.open("rb") as opened:
            yield from filter(None, map(record_of, lines_backwards(opened)))


def last_decisions(path: Path, requests: Collection[str]) -> dict[str, Decision]:
    """Return what each of some requests came to, as far as the audit says so.

    For the start: what was decided just before a daemon was killed is here, and may be nowhere
    else. Only the last few thousand records are looked at.

    Args:
        path: of the audit.
        requests: their ids.
    """
    found: dict[str, Decision] = {}
    looked_at = 0
    with suppress(OSError):
        for file in reversed(files(path)):
            with file.open("rb") as opened:
                for line in lines_backwards(opened):
                    looked_at += len(line)
                    if len(found) == len(requests) or looked_at > _LOOKED_AT:
                        return found
                    record = record_of(line) if b'"permission_decided"' in line else {}
                    name, decision = record.get("request_uid"), decision_of(record)
                    if name in requests and decision is not None:
                        found.setdefault(str(name), decision)  # the last word counts
    return found


def record_of(line: bytes) -> dict[str, Any]:
    """Return a record that is as it was written, else an empty one."""
    record = json.loads(line) if parse(line) is not None else {}
    return record if isinstance(record, dict) else {}


def parse(line: bytes) -> tuple[int, str, str] | None:
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


@dataclass(frozen=True, slots=True)
class Tail:
    """Where a chain goes on.

    Attributes:
        size: of the file up to the end of its last line, in bytes.
        torn_bytes: what was cut off behind it.
        seq: number of the last record.
        hash: what the next one names as the hash before.
    """

    size: int
    torn_bytes: int
    seq: int
    hash: str

    @classmethod
    def recover(cls, fd: int, faults: Faults, before: Path | None = None) -> "Tail":
        """Cut a torn tail off a file, and find the end of its chain.

        Args:
            fd: of the file.
            faults: points at which a test may fail.
            before: the file before it, whose chain goes on if this one has no line yet.
        """
        with open(fd, "rb", closefd=False) as file:
            torn, seq, last_hash, lines = _end_of(file)
        size = os.fstat(fd).st_size - len(torn)
        if torn:
            faults("audit.recover")
            os.ftruncate(fd, size)
            os.fsync(fd)
        if lines == 0 and before is not None:
            with before.open("rb") as file:
                _, seq, last_hash, _ = _end_of(file)
        return cls(size, len(torn), seq, last_hash)


def _end_of(file: BinaryIO) -> tuple[bytes, int, str, int]:
    """Return the torn tail, number and hash of the last line, and how many were looked at."""
    lines = lines_backwards(file)
    torn = next(lines)
    seq, last_hash, damaged, looked_at = 0, GENESIS, 0, 0
    for line in lines:
        looked_at += 1
        found = parse(line)
        if damaged == 0:
            # After a damaged line the chain goes on from its bytes as they are.
            last_hash = found[2] if found else hashlib.sha256(line).hexdigest()
        if found is not None:
            seq = found[0]
            break
        damaged += 1
    return torn, seq + damaged, last_hash, looked_at


def lines_backwards(file: BinaryIO) -> Iterator[bytes]:
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
