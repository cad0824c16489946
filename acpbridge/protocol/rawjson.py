"""Parts of JSON text as they are written, for what is relayed and never re-encoded.

The text must have been accepted by a decoder before.
"""

import json
from collections.abc import Iterator


def member(text: str, *path: str) -> str | None:
    """Return the text of the value at a path of keys in a JSON object, exactly as it is written.

    Of equal keys the last one counts, as for the decoder that read the envelope.
    """
    for key in path:
        found = None
        for name, value in _members(text):
            if name == key:
                found = value
        if found is None:
            return None
        text = found
    return text


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield each key of an object with the text of its value."""
    scan = json.JSONDecoder().raw_decode
    end = _skip(text, 0)
    if text[end : end + 1] != "{":
        return
    end = _skip(text, end + 1)
    while text[end : end + 1] == '"':
        name, end = scan(text, end)
        start = _skip(text, _skip(text, end) + 1)
        _, end = scan(text, start)
        yield name, text[start:end]
        end = _skip(text, end)
        if text[end : end + 1] != ",":
            return
        end = _skip(text, end + 1)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def items(text: str) -> Iterator[str]:
    """Yield the text of each item of a JSON array, exactly as it is written."""
    scan = json.JSONDecoder().raw_decode
    end = _skip(text, 0)
    if text[end : end + 1] != "[":
        return
    end = _skip(text, end + 1)
    while end < len(text) and text[end] != "]":
        start = end
        _, end = scan(text, start)
        yield text[start:end]
        end = _skip(text, end)
        if text[end : end + 1] == ",":
            end = _skip(text, end + 1)
