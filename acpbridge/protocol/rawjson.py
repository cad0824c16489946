"""Parts of JSON text as they are written, for what is relayed and never re-encoded.

The text must have been accepted by a decoder before.
"""

import json
import re
from collections.abc import Iterator

_scan = json.JSONDecoder().raw_decode

_SPACE = re.compile(r"[ \t\r\n]*+")
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]|[^\s"\[\]{},:]++')


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
    end = _skip(text, 0)
    if text[end : end + 1] != "{":
        return
    end = _skip(text, end + 1)
    while text[end : end + 1] == '"':
        name, end = _scan(text, end)
        start = _skip(text, _skip(text, end) + 1)
        end = _value_end(text, start)
        yield name, text[start:end]
        end = _skip(text, end)
        if text[end : end + 1] != ",":
            return
        end = _skip(text, end + 1)


def items(text: str) -> Iterator[str]:
    """Yield the text of each item of a JSON array, exactly as it is written."""
    end = _skip(text, 0)
    if text[end : end + 1] != "[":
        return
    end = _skip(text, end + 1)
    while end < len(text) and text[end] != "]":
        start = end
        end = _value_end(text, start)
        yield text[start:end]
        end = _skip(text, end)
        if text[end : end + 1] == ",":
            end = _skip(text, end + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None  # it matches no space as well
    return found.end()


def _value_end(text: str, start: int) -> int:
    try:
        _, end = _scan(text, start)
    except (ValueError, RecursionError):
        # An integer too long to convert, or nested too deep for the stack we are on by now.
        return _bracket_end(text, start)
    return end


def _bracket_end(text: str, start: int) -> int:
    """Return where a value ends, by its brackets alone."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        first = text[token.start()]
        depth += (first in "[{") - (first in "]}")
        if depth <= 0:
            return token.end()
    return len(text)
