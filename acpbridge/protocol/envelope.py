"""What is around the bulk of a line, without reading the bulk.

Above is `jsonrpc`. A line is read leniently where it is only passed on; of one that is no JSON, or
too long, as much as stands at its beginning; and of a long update all but the update itself.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json

from acpbridge.protocol import strict
from acpbridge.protocol.framing import BOM, HEAD

# Beyond this an update is read by nobody here, only checked. To decode one that is nothing but
# brackets takes 0.1 s for each MiB, and whoever else is served waits meanwhile. Bytes.
LONG: Final = 256 * 1024

# Updates that more is done with than to pass them on: never of those that nobody reads.
ACTED_ON: Final = frozenset({"current_mode_update", "config_option_update"})

# Ways in which the end of a line may be read; a sound one has one or two.
_MOST_ENDS: Final = 64

# The id of a line that is too long or no JSON, where it stands before everything that varies.
_EARLY_ID = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
    rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]+)\s*,\s*"(method|result|error)"\s*:'
)

_UPDATE = re.compile(rb'"update"[ \t\r\n]*:[ \t\r\n]*')


@dataclass(frozen=True, slots=True)
class Split:
    """A line around its `params.update`.

    Attributes:
        message: decoded, with None as the update.
        start: where the update begins in the line.
        end: where it ends, if it is one value of JSON.
    """

    message: dict[str, Any]
    start: int
    end: int


def splits(line: bytes) -> Iterator[Split]:
    """Yield the ways in which a long line may read whose bulk is all at `params.update`.

    What stands before and after it has at most `HEAD` bytes each. Where `line[start:end]` is proven
    to be JSON the whole line is, for any value may stand where a null may; that is so of one at
    most, for no object is the beginning of another.
    """
    for found in _UPDATE.finditer(line, 0, HEAD):
        head = line[: found.end()]
        for end in _ends(line, len(line) - HEAD):
            try:
                message = from_json(head + b"null" + line[end:])
            except ValueError:
                continue
            params = message.get("params") if isinstance(message, dict) else None
            if isinstance(params, dict) and params.get("update", 0) is None:
                yield Split(message, found.end(), end)


def _ends(line: bytes, after: int) -> Iterator[int]:
    """Yield where an object may end, the last places first."""
    at = len(line)
    for _ in range(_MOST_ENDS):
        at = line.rfind(b"}", max(0, after), at)
        if at < 0:
            return
        yield at + 1


def early(line: bytes) -> dict[str, Any]:
    """Return the id of a line that cannot be decoded, with a key that tells what kind it is."""
    found = _EARLY_ID.match(line.removeprefix(BOM)[:HEAD])
    if found is None:
        return {}
    try:
        return {"id": strict.loads(found.group(1)), found.group(2).decode(): None}
    except strict.StrictError:
        return {}


def lenient(line: bytes) -> Any:
    """Return the decoded text as a relay reads it.

    Raises:
        ValueError: it is no JSON, or nested too deep.
    """
    try:
        return from_json(line, allow_inf_nan=True)
    except ValueError:
        pass
    try:
        # Decoded here: given bytes, `json` would guess at UTF-16 and let surrogates through.
        return json.loads(line.decode("utf-8"), parse_int=_integer)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _integer(digits: str) -> int | float:
    # Python converts at most 4,300 digits; what is relayed keeps them as they are written.
    return int(digits) if len(digits) <= 4300 else math.inf
