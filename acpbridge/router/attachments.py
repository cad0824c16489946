"""Files that are given to a child with its task: checked, sent along or staged, and removed.

An external agent gets pictures within its prompt. For a Python agent files are put into a private
directory of the state directory, outside of any workspace, and named in its prompt. Above is
`spawn`; `archiving` has them removed.
"""

import base64
import binascii
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import anyio.to_thread

from acpbridge.errors import BridgeError
from acpbridge.router.spawn_requests import Attachment

# Of one spawn; in bytes once decoded.
MOST_FILES: Final = 50
MOST_BYTES: Final = 1024 * 1024
MOST_IN_ALL: Final = 5 * 1024 * 1024

MANIFEST: Final = ".manifest.json"
FOLDER: Final = "attachments"

_NO_NAMES: Final = frozenset({"", ".", "..", MANIFEST})
_NO_LETTERS: Final = frozenset("/\\<>")


@dataclass(frozen=True, slots=True)
class File:
    """One file, decoded."""

    name: str
    data: bytes = field(repr=False)
    mime_type: str = ""


def decoded(attachments: Sequence[Attachment], *, images_only: bool) -> tuple[File, ...]:
    """Return the files of a request.

    Args:
        attachments: as they came.
        images_only: whether the agent takes nothing but pictures.

    Raises:
        BridgeError: a code of `attachments_...`, naming the file.
    """
    if len(attachments) > MOST_FILES:
        message = f"{len(attachments)} files are attached; {MOST_FILES} is the most."
        raise BridgeError("attachments_file_count_exceeded", message)
    files: dict[str, File] = {}
    for one in attachments:
        _check_name(one.name)
        if one.name in files:
            raise BridgeError("attachments_duplicate_name", f"{one.name!r} is attached twice.")
        if images_only and not one.mime_type.startswith("image/"):
            message = f"{one.name!r} is no image (mimeType image/...): ACP agents take only those."
            raise BridgeError("attachments_unsupported_for_acp", message)
        files[one.name] = File(one.name, _bytes(one), one.mime_type)
    total = sum(len(file.data) for file in files.values())
    if total > MOST_IN_ALL:
        message = f"The files have {total} bytes together; {MOST_IN_ALL} is the most."
        raise BridgeError("attachments_total_bytes_exceeded", message)
    return tuple(files.values())


def inline(files: Sequence[File]) -> tuple[dict[str, Any], ...]:
    """Return pictures as blocks of a prompt."""
    return tuple(
        {
            "type": "image",
            "mimeType": file.mime_type,
            "data": base64.b64encode(file.data).decode("ascii"),
        }
        for file in files
    )


def listed(files: Sequence[File]) -> list[dict[str, Any]]:
    """Return what the receipt says of files."""
    return [{"name": file.name, "bytes": len(file.data)} for file in files]


class Staging:
    """The directories in which files wait for Python agents.

    Args:
        home: the state directory.

    Attributes:
        held: those of sessions that were accepted, by the session's part of its key.
    """

    def __init__(self, home: str) -> None:
        self._root = Path(home, FOLDER)
        self.held: set[str] = set()

    def of(self, unique: UUID | str) -> Path:
        """Return the directory of one session, by its part of the key."""
        return self._root / str(unique)

    async def find(self) -> None:
        """Take up what an earlier daemon has left."""
        self.held |= set(await anyio.to_thread.run_sync(_names, self._root))

    async def put(self, unique: UUID, files: Sequence[File], hint: str) -> tuple[Any, ...]:
        """Write files, readable by nobody else; return the blocks of a prompt that name them.

        Raises:
            BridgeError: `attachments_materialization_failed`; nothing is left then.
        """
        place = self.of(unique)
        try:
            await anyio.to_thread.run_sync(_write, place, files, hint)
        except OSError as error:
            await self.remove(unique)
            message = f"The files could not be written: {error.strerror}."
            raise BridgeError("attachments_materialization_failed", message) from None
        return tuple(
            {
                "type": "resource_link",
                "uri": (place / file.name).as_uri(),
                "name": file.name,
                **({"mimeType": file.mime_type} if file.mime_type else {}),
            }
            for file in files
        )

    async def remove(self, unique: UUID | str) -> None:
        """Remove the files of one session, if there are any."""
        self.held.discard(str(unique))
        await anyio.to_thread.run_sync(_remove, self.of(unique))


def _check_name(name: str) -> None:
    bad = name in _NO_NAMES or any(c in _NO_LETTERS or not c.isprintable() for c in name)
    if bad or len(name.encode("utf-8", "surrogatepass")) > 255:
        message = f"{name!r} cannot name a file: no /, \\, <, > and no control characters."
        raise BridgeError("attachments_invalid_name", message)


def _bytes(one: Attachment) -> bytes:
    """Return what a file holds; one that is too long is not decoded first."""
    if len(one.content) > MOST_BYTES * 2:
        raise _too_long(one)
    try:
        if one.encoding == "base64":
            data = base64.b64decode(one.content, validate=True)
        else:
            data = one.content.encode("utf-8")
    except (binascii.Error, ValueError):
        message = f"The content of {one.name!r} is not {one.encoding}."
        raise BridgeError("attachments_invalid_base64_or_too_large", message) from None
    if len(data) > MOST_BYTES:
        raise _too_long(one)
    return data


def _too_long(one: Attachment) -> BridgeError:
    message = f"{one.name!r} is longer than {MOST_BYTES} bytes."
    return BridgeError("attachments_file_bytes_exceeded", message)


def _write(place: Path, files: Sequence[File], hint: str) -> None:
    place.parent.mkdir(mode=0o700, exist_ok=True)
    place.mkdir(mode=0o700)
    told = {"files": listed(files), "mountPath": hint or None}
    manifest = File(MANIFEST, json.dumps(told).encode("ascii"))
    for file in (*files, manifest):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(place / file.name, flags, 0o600), "wb") as out:  # noqa: PTH123 - by its descriptor
            out.write(file.data)


def _names(root: Path) -> list[str]:
    try:
        return [entry.name for entry in root.iterdir()]
    except OSError:
        return []


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
