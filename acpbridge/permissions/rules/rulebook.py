"""All rules in force, and what they come to. Pure.

Deny beats ask beats allow, whatever the order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from acpbridge.model.permission import ToolKind
from acpbridge.permissions.rules import builtin
from acpbridge.permissions.rules.facts import Facts
from acpbridge.permissions.rules.globs import Parts, fold, split
from acpbridge.permissions.rules.index import Index
from acpbridge.permissions.rules.rule import Rule
from acpbridge.permissions.rules.seen import Seen
from acpbridge.permissions.verdict import NO_MATCH, Ruling, Verdict

TOO_MANY_PATHS: Final = "builtin:too_many_paths"
SESSION_ROOT: Final = "builtin:session_root"
UNKNOWN_PATH: Final = "builtin:unknown_path"
FETCHED_TO: Final = "builtin:fetch_names_path"
# Behind the id of the built-in rule that an argument of a command touches.
_ARGUMENT: Final = "_argument"


@dataclass(frozen=True)
class Rulebook:
    """The user's rules and the built-in ones.

    Attributes:
        rules: the user's.
        sha256: of the text that they come from, "" for none.
        own: directories of this acpbridge, which nobody writes; absolute.
    """

    rules: tuple[Rule, ...]
    sha256: str = ""
    own: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Prepare for questions: none of them should have to wait for it."""
        assert self._indexes

    def judge(self, facts: Facts) -> Verdict:
        """Return what the rules come to, and the id of the first that decides."""
        seen = Seen(facts)
        denied = self._protects(seen)
        if denied:
            return Verdict(Ruling.DENY, denied)
        for effect in (Ruling.DENY, Ruling.ASK):
            rule = self._first(effect, seen)
            if rule is not None:
                return Verdict(effect, rule.id)
        rule = self._first(Ruling.ALLOW, seen)
        if rule is None:
            return NO_MATCH
        doubt = self._keeps_from_allowing(seen)
        return Verdict(Ruling.ASK, doubt) if doubt else Verdict(Ruling.ALLOW, rule.id)

    def about(self, facts: Facts) -> list[Rule]:
        """Return the user's rules that are about a request, the strictest first."""
        seen = Seen(facts)
        found = [rule for rule in self.rules if rule.holds(seen)]
        return [rule for effect in Ruling for rule in found if rule.effect is effect]

    def guarding(self, *own: str) -> "Rulebook":
        """Return the same rules with directories of this acpbridge that nobody writes."""
        return replace(self, own=tuple(dict.fromkeys((*self.own, *own))))

    def only_denials(self) -> "Rulebook":
        """Return the rules that deny alone: what is left of a file that is broken now."""
        rules = tuple(rule for rule in self.rules if rule.effect is Ruling.DENY)
        return replace(self, rules=rules)

    def _first(self, effect: Ruling, seen: Seen) -> Rule | None:
        return self._indexes[effect].first(seen)

    @cached_property
    def _indexes(self) -> dict[Ruling, Index]:
        return {effect: Index(effect, self.rules) for effect in Ruling}

    @cached_property
    def _own(self) -> tuple[Parts, ...]:
        return builtin.folded_all(self.own)

    def _protects(self, seen: Seen) -> str:
        """Return the built-in rule that denies a write, "" for none."""
        facts = seen.facts
        if facts.kind not in builtin.WRITING:
            return ""
        if facts.excess:
            return TOO_MANY_PATHS
        removes = builtin.removes(facts.kind)
        if removes and any(
            root[: len(path)] == path for path in seen.readings for root in seen.folded_roots
        ):
            return SESSION_ROOT
        found = (
            builtin.protected_parts(path, self._own, removes=removes) for path in seen.readings
        )
        return next(filter(None, found), "")

    def _keeps_from_allowing(self, seen: Seen) -> str:
        """Return the built-in rule by which a person is asked although a rule allows."""
        facts = seen.facts
        if facts.kind in builtin.WRITING:
            return UNKNOWN_PATH if seen.unknown_paths else ""
        if facts.kind is ToolKind.FETCH and facts.paths is not None:
            return FETCHED_TO  # a fetch may write what it got
        for word in _arguments(facts):
            path = tuple(map(fold, split(word)))
            found = builtin.protected_parts(path, self._own, removes=True)
            if found:
                return found + _ARGUMENT
        return ""


def _arguments(facts: Facts) -> Iterator[str]:
    """Yield what may be a path among the words of a command, in `--option=path` too."""
    for word in facts.argv or ():
        yield word
        if "=" in word:
            yield word.partition("=")[2]


ASK_EVERYTHING: Final = Rulebook(())
"""No rules but the built-in ones: every question goes to a person, or is denied."""
