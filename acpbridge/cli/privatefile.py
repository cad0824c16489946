"""A file that is there whole or not at all, and for its owner's eyes only."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from acpbridge.errors import BridgeError


@contextmanager
def private_file(target: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Give a file to write that becomes `target`, mode 0600, once the block has ended well.

    Raises:
        BridgeError: `usage`, when the target exists and is not to be replaced, or is a directory.
        OSError: it cannot be written.
    """
    _check_free(target, force=force)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        _put(draft, target, force=force)
    finally:
        draft.unlink(missing_ok=True)


def _put(draft: Path, target: Path, *, force: bool) -> None:
    if force:
        draft.replace(target)
        return
    # Unlike a rename, a link never replaces what has come up meanwhile.
    with suppress(PermissionError):
        try:
            target.hardlink_to(draft)
        except FileExistsError:
            _check_free(target, force=force)
            raise
        return
    _check_free(target, force=force)  # a file system without links
    draft.rename(target)


def _check_free(target: Path, *, force: bool) -> None:
    if target.is_dir():
        raise BridgeError("usage", f"{target} is a directory.", hint="Name a file in it.")
    if not force and os.path.lexists(target):
        raise BridgeError("usage", f"{target} exists.", hint="Replace it with --force.")
