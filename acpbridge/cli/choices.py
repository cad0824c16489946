"""What `run` may choose besides its prompt: options of the session, images, MCP servers.

Files are read here, as the person who types the command, and are never looked for.
"""

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.model.settings import Settings, Value
from acpbridge.transport.program import resolve_program

# What the vendors' models take of one image, and what one line to the agent can well hold of them
# together. Bytes.
MAX_IMAGE: Final = 5 * 1024 * 1024
MAX_IMAGES: Final = 20 * 1024 * 1024

# How the files begin that every agent with eyes can read; the name of a file proves nothing.
_KINDS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def settings_of(model: str | None, pairs: tuple[str, ...]) -> Settings:
    """Return the choices of `--model` and `--set K=V`.

    Raises:
        BridgeError: `usage`.
    """
    if model is not None and not model:
        raise BridgeError("usage", "--model: the name is empty.")
    options: dict[str, Value] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise BridgeError("usage", f"--set: {pair!r} is not of the form ID=VALUE.")
        if name in options:
            raise BridgeError("usage", f"--set: {name!r} is given twice.")
        options[name] = value
    return Settings(model, None, options)


def images_of(files: tuple[str, ...]) -> tuple[Mapping[str, Any], ...]:
    """Return a content block for each image file.

    Raises:
        BridgeError: `usage`, naming the file.
    """
    blocks, total = [], 0
    for file in files:
        data = _read(file, MAX_IMAGE, "--image")
        total += len(data)
        if total > MAX_IMAGES:
            message = f"--image: together the images have more than {_mib(MAX_IMAGES)}."
            raise BridgeError("usage", message, hint="Give fewer or smaller ones.")
        encoded = base64.b64encode(data).decode("ascii")
        blocks.append({"type": "image", "mimeType": _kind(file, data), "data": encoded})
    return tuple(blocks)


def servers_of(file: str | None, cwd: str) -> tuple[Mapping[str, Any], ...]:
    """Return the MCP servers of a file, none without one.

    Raises:
        BridgeError: `usage` or `config_error`, naming file, line and key.
    """
    if file is None:
        return ()
    # They are slow, and few runs need them.
    from acpbridge.config import servers
    from acpbridge.config.yamltext import MAX_SIZE

    data = _read(file, MAX_SIZE * 4, "--mcp-config")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise BridgeError("usage", f"--mcp-config: {file} is not UTF-8.") from None

    def resolve(program: str) -> str:
        if "/" in program and not program.startswith("/"):
            message = "give a bare name or an absolute path"
            raise BridgeError("config_error", message)
        return resolve_program(program, os.environ, cwd)

    return servers.read_file(text, file, resolve)


def _read(file: str, limit: int, option: str) -> bytes:
    path = Path(file).expanduser()
    try:
        if not path.is_file():
            # A pipe could make us wait for ever.
            raise BridgeError("usage", f"{option}: there is no file {file!r}.")
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BridgeError("usage", f"{option}: {file!r} cannot be read: {why}.") from None
    if len(data) > limit:
        message = f"{option}: {file!r} is larger than {_mib(limit)}."
        raise BridgeError("usage", message, hint="Give a smaller one.")
    return data


def _kind(file: str, data: bytes) -> str:
    for head, kind in _KINDS:
        if data.startswith(head):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    message = f"--image: {file!r} is no PNG, JPEG, GIF or WebP image."
    raise BridgeError("usage", message, hint="Convert it first.")


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:g} MiB"
