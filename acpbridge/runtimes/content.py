"""Content blocks as an agent's code meets them: read from a prompt, written for a tool call. Pure.

A prompt keeps its blocks as they came; these are views of the ones that most agents want. A block
that is not what it says (data that is not base64, an address that is no text) is left out.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

Block = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Image:
    """A picture of the prompt."""

    mime_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that the prompt refers to: by its address only, or with what it holds.

    Attributes:
        uri: its address.
        name: for people, "" if none was given.
        mime_type: "" if none was given.
        text: what it holds; None for a mere link, and for what is not text.
        data: the same of what is not text.
    """

    uri: str
    name: str = ""
    mime_type: str = ""
    text: str | None = field(default=None, repr=False)
    data: bytes | None = field(default=None, repr=False)

    @property
    def path(self) -> str:
        """The path of a `file:` address, "" for any other."""
        try:
            parts = urlsplit(self.uri)
        except ValueError:
            return ""
        return unquote(parts.path) if parts.scheme == "file" else ""


def text_of(blocks: Iterable[Block]) -> str:
    """Return the text blocks of a prompt, joined by line ends; without those of `instructions_of`.

    What an agent is to go by is no part of what it is asked.
    """
    return _joined(block for block in blocks if not _instructs(block))


def instructions_of(blocks: Iterable[Block]) -> str:
    """Return the text blocks that are marked as instructions, joined by line ends."""
    return _joined(block for block in blocks if _instructs(block))


def _joined(blocks: Iterable[Block]) -> str:
    texts = (block.get("text") for block in blocks if block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def _instructs(block: Block) -> bool:
    meta = block.get("_meta")
    ours = meta.get("acpbridge") if isinstance(meta, Mapping) else None
    return isinstance(ours, Mapping) and ours.get("instructions") is True


def images_of(blocks: Iterable[Block]) -> tuple[Image, ...]:
    """Return the pictures of a prompt, in order."""
    pairs = ((b, _bytes(b.get("data"))) for b in blocks if b.get("type") == "image")
    return tuple(Image(_word(b, "mimeType"), data) for b, data in pairs if data is not None)


def resources_of(blocks: Iterable[Block]) -> tuple[Resource, ...]:
    """Return what a prompt refers to, linked or embedded, in order."""
    found = (_resource(block) for block in blocks)
    return tuple(resource for resource in found if resource is not None and resource.uri)


def text_content(text: str) -> dict[str, Any]:
    """Return text as an item of a tool call's content."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def diff_content(path: str, old: str | None, new: str) -> dict[str, Any]:
    """Return a diff as an item of a tool call's content; `old` is None for a new file."""
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def _resource(block: Block) -> Resource | None:
    if block.get("type") == "resource_link":
        return Resource(_word(block, "uri"), _word(block, "name"), _word(block, "mimeType"))
    inner = block.get("resource") if block.get("type") == "resource" else None
    if not isinstance(inner, Mapping):
        return None
    text = inner.get("text")
    return Resource(
        _word(inner, "uri"),
        mime_type=_word(inner, "mimeType"),
        text=text if isinstance(text, str) else None,
        data=_bytes(inner.get("blob")),
    )


def _word(block: Block, name: str) -> str:
    value = block.get(name)
    return value if isinstance(value, str) else ""


def _bytes(value: Any) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None
