"""The environments of callers, kept by every session that may be taken up again. No I/O.

A person calls again and again with the same one, and a daemon has thousands of sessions: equal ones
are one, and so are equal values of others.
"""

import sys
from collections import deque
from collections.abc import Mapping
from typing import Final

# A person has some terminals and editors; each has an environment of its own.
REMEMBERED: Final = 8


class Environments:
    """The latest environments."""

    def __init__(self) -> None:
        self._latest: deque[Mapping[str, str]] = deque(maxlen=REMEMBERED)

    def shared(self, env: Mapping[str, str]) -> Mapping[str, str]:
        """Return an environment: the very one that was given before, if it is equal."""
        for known in self._latest:
            if known == env:
                return known
        kept = {sys.intern(str(name)): sys.intern(str(value)) for name, value in env.items()}
        self._latest.append(kept)
        return kept
