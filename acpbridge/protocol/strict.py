"""JSON read without mercy, for everything that the bridge acts on.

A lenient decoder lets the last of two equal keys win, accepts NaN, and decodes a lone surrogate
that fails when it is written: each is a way to show a person one thing and run another.
"""

import json
from typing import Any, Final

# pydantic's decoder stops at 200 levels as well; nothing in ACP nests a tenth as deep.
MAX_DEPTH: Final = 200


class StrictError(ValueError):
    """The text is not JSON that may be acted on."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise StrictError("an object has the same key twice")
    return out


def _constant(word: str) -> Any:
    raise StrictError(f"{word} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise StrictError("a number is too large")
    return value


def _depth(value: Any) -> int:
    deepest, level = 0, [value]
    while level:
        deepest += 1
        nested = (item for item in level if isinstance(item, dict | list))
        level = [
            inner
            for item in nested
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return deepest


def loads(line: bytes) -> Any:
    """Return the decoded text.

    Raises:
        StrictError: not UTF-8, not JSON, equal keys, NaN, lone surrogates, or nested too deep.
    """
    try:
        text = line.decode("utf-8", "strict")
        value = json.loads(
            text, object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float
        )
        if b"\\u" in line:  # only an escape can smuggle a lone surrogate in
            json.dumps(value, ensure_ascii=False).encode("utf-8", "strict")
    except RecursionError:
        raise StrictError("nested too deep") from None
    except UnicodeError:
        raise StrictError("not well-formed text in UTF-8") from None
    except StrictError:
        raise
    except ValueError as error:
        raise StrictError(f"not JSON: {error}") from None
    if _depth(value) > MAX_DEPTH:
        raise StrictError("nested too deep")
    return value


def dumps(value: Any) -> bytes:
    """Return JSON on one line, with ASCII escapes and without spaces."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
