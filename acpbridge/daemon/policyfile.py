"""The policy on disk: which rules are in force, read again when the file changes.

Above are the composition roots and the commands that look at it; what its text means is told by
`acpbridge.permissions.rules.load`. It lies beside the configuration, never in a workspace, and
only its user may be able to write it.
"""

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from acpbridge.daemon import textfile, trust
from acpbridge.daemon.paths import Paths
from acpbridge.errors import BridgeError
from acpbridge.permissions.judging import Policy
from acpbridge.permissions.rules.load import parse
from acpbridge.permissions.rules.rulebook import ASK_EVERYTHING, Rulebook

# Half a policy may read as a whole one with fewer rules. A file has settled when it did not change
# for longer than a tick of the kernel's clock, by which changes are told apart, and than it takes
# to write one. Seconds.
_SETTLES: Final = 0.05
# As often it is looked at before it counts as broken: together less than who asks waits.
_LOOKS: Final = 20

_STOP: Final = "Find out who writes it."
_GONE: Final = "Put it back, or restart the daemon to do without: acpbridge daemon restart"

Seen = tuple[textfile.Stamp, trust.Doubt | None]
"""The state in which a file was seen, and why it cannot be trusted."""


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """The rules in force, and the file that they are from. A value: `again` returns the next one.

    Attributes:
        paths: of this acpbridge, its policy among them.
        seen: the state in which the file was read.
        book: the rules in force; of a file that cannot be used, what the last good one denied.
        problem: why they are not those of the file, "" if they are.
    """

    paths: Paths
    seen: Seen
    book: Rulebook
    problem: str = ""

    @classmethod
    def first(cls, paths: Paths) -> "PolicyFile":
        """Read the file for the first time; where there is none everything is asked (row 29).

        Raises:
            BridgeError: `config_error`, with file, line and key where it is the text (row 30).
        """
        seen = _look(paths.policy)
        return cls(paths, seen, _read(paths, seen) or guarded(ASK_EVERYTHING, paths))

    def again(self) -> "PolicyFile":
        """Return what is in force now: itself, unless the file has changed. Blocks."""
        seen = _look(self.paths.policy)
        if seen == self.seen:
            return self
        for _ in range(_LOOKS):
            time.sleep(_SETTLES)
            before, seen = seen, _look(self.paths.policy)
            if seen == before:
                found = self._next(seen)
                if _look(self.paths.policy) == seen:
                    return found
        return self._without(seen, f"{self.paths.policy} is being written all the time. {_STOP}")

    def _next(self, seen: Seen) -> "PolicyFile":
        """Return what a changed file comes to."""
        try:
            book = _read(self.paths, seen)
        except BridgeError as error:
            return self._without(seen, f"{error.message} {error.hint}")
        if book is None:
            # Whoever could remove it must not get rid of what it denied.
            return self._without(seen, f"{self.paths.policy} is gone. {_GONE}")
        return PolicyFile(self.paths, seen, book)

    def _without(self, seen: Seen, problem: str) -> "PolicyFile":
        return replace(self, seen=seen, book=self.book.only_denials(), problem=problem)

    @property
    def in_force(self) -> Policy:
        """What requests are judged by."""
        return Policy(self.book, broken=bool(self.problem))

    @property
    def missing(self) -> bool:
        """Whether there was no file."""
        return self.seen[0] is None

    @property
    def rules(self) -> int:
        """How many rules are in force, beside those that are built in."""
        return len(self.book.rules)

    @property
    def warning(self) -> str:
        """What an operator must know, "" for nothing."""
        if not self.problem:
            return ""
        kept = f"but what rules of the last good one deny ({self.rules})"
        return f"the policy cannot be used, so everything is asked {kept}: {self.problem}"

    def to_json(self) -> dict[str, Any]:
        """Return what `status` shows."""
        return {
            "path": str(self.paths.policy),
            "sha256": self.book.sha256 or None,
            "rules": self.rules,
            "problem": self.problem or None,
        }


def _look(path: Path) -> Seen:
    try:
        doubt = trust.doubt(path)
    except OSError as error:
        doubt = trust.Doubt(f"{path} cannot be looked at: {error}.", f"See: ls -ld {path}")
    return textfile.stamp(path), doubt


def _read(paths: Paths, seen: Seen) -> Rulebook | None:
    """Return the rules of a file, None where there is none."""
    path = paths.policy
    _check(seen[1])
    text = textfile.read(path, lambda found: _check(trust.doubt_of_file(path, found)))
    if text is None:
        return None
    if not text.strip():
        hint = "Write `rules: []` for no rules, or remove it."
        raise BridgeError("config_error", f"{path} is empty.", hint=hint)
    return guarded(parse(text, str(path), str(Path.home())), paths)


def _check(doubt: trust.Doubt | None) -> None:
    if doubt is not None:
        raise BridgeError("config_error", doubt.problem, hint=doubt.hint)


def guarded(book: Rulebook, paths: Paths) -> Rulebook:
    """Return rules that keep agents from what decides about them, by whatever name it goes."""
    own = (paths.home, paths.config, paths.policy)
    return book.guarding(*map(str, own), *map(os.path.realpath, own))
