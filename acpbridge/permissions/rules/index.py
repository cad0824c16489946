"""The rules of one effect, found by what a request names: ten thousand of them cost little. Pure.

A rule is left out only if it cannot be about the request: each pattern of its paths has a component
that no path of the request has, or its program is another one.
"""

from collections.abc import Iterable, Iterator, Sequence

from acpbridge.permissions.rules.globs import fold
from acpbridge.permissions.rules.rule import Rule
from acpbridge.permissions.rules.seen import Seen
from acpbridge.permissions.verdict import Ruling


class Index:
    """Some rules of one effect, in the order of their file."""

    def __init__(self, effect: Ruling, rules: Iterable[Rule]) -> None:
        self._effect = effect
        self._rules = tuple(rule for rule in rules if rule.effect is effect)
        self._always: list[int] = []
        self._by_path: dict[str, list[int]] = {}
        self._by_program: dict[str, list[int]] = {}
        for number, rule in enumerate(self._rules):
            self._place(number, rule)

    def first(self, seen: Seen) -> Rule | None:
        """Return the first rule that is about a request."""
        return next((rule for rule in self._near(seen) if rule.holds(seen)), None)

    def _place(self, number: int, rule: Rule) -> None:
        marks = {pattern.landmark for pattern in rule.paths or ()}
        if marks and None not in marks:
            for mark in marks:
                self._by_path.setdefault(str(mark), []).append(number)
        elif rule.argv is not None:
            self._by_program.setdefault(_program(rule.argv.words), []).append(number)
        else:
            self._always.append(number)

    def _near(self, seen: Seen) -> Iterator[Rule]:
        found = set(self._always)
        # What is not known may be what a rule denies; it is never what a rule allows.
        restricts = self._effect is not Ruling.ALLOW
        if restricts and (seen.unknown_paths or not seen.folded_roots):
            found.update(number for numbers in self._by_path.values() for number in numbers)
        else:
            for word in seen.components & self._by_path.keys():
                found.update(self._by_path[word])
        if restricts and seen.hidden:
            found.update(number for numbers in self._by_program.values() for number in numbers)
        elif seen.facts.argv:
            found.update(self._by_program.get(_program(seen.facts.argv), ()))
        return (self._rules[number] for number in sorted(found))


def _program(argv: Sequence[str]) -> str:
    return fold(argv[0]).rpartition("/")[2]
