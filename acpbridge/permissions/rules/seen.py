"""One request as rules look at it: its facts, prepared once. Pure.

Whatever denies compares names without regard to case and form, in every reading that a lenient
tool may have; what allows compares exactly, both as written and as found on the disk.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from acpbridge.model.permission import ToolKind
from acpbridge.permissions.rules.facts import Facts, PathFact
from acpbridge.permissions.rules.globs import Glob, Parts, fold, split
from acpbridge.permissions.rules.places import too_long
from acpbridge.permissions.rules.wrappers import hides_program

# Of these nobody knows what they do; all others neither run a command nor fetch, by the agent's
# word and by their arguments.
_ANYTHING: Final = frozenset({None, ToolKind.OTHER})


@dataclass(frozen=True, slots=True)
class Argv:
    """The words that a command has, or begins with.

    Attributes:
        words: the first of them the program.
        more: whether others may follow.
    """

    words: tuple[str, ...]
    more: bool


class Seen:
    """The facts of one request, prepared once for all rules."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    @cached_property
    def hidden(self) -> bool:
        """Whether nobody knows what a command runs."""
        argv = self.facts.argv
        return argv is None or hides_program(argv)

    @cached_property
    def allowable(self) -> bool:
        """Whether any rule may allow it: its kind is known, and so is what would run."""
        kind = self.facts.kind
        if kind in (None, ToolKind.OTHER, ToolKind.SWITCH_MODE) or self.facts.excess:
            return False
        return kind is not ToolKind.EXECUTE or not self.hidden

    def begins(self, wanted: Argv) -> bool | None:
        """Tell whether the command is exactly what a rule allows."""
        argv = self.facts.argv
        return None if argv is None else _begins(argv, wanted)

    def may_begin(self, wanted: Argv) -> bool | None:
        """Tell whether the command may be one that a rule forbids, by its name or its place."""
        if self.facts.kind not in _ANYTHING and self.facts.kind is not ToolKind.EXECUTE:
            return False
        if self.hidden:
            return None
        folded = Argv(tuple(map(fold, wanted.words)), wanted.more)
        return _begins(self._folded_argv, folded) or _begins(self._named_argv, folded)

    def of_host(self, wanted: tuple[str, ...]) -> bool | None:
        """Tell whether what is fetched is from one of some hosts."""
        facts = self.facts
        if facts.kind not in _ANYTHING and facts.kind is not ToolKind.FETCH:
            return False
        return None if facts.host is None else _of_host(facts.host, wanted)

    def all_within(self, patterns: tuple[Glob, ...]) -> bool:
        """Tell whether every path is meant, both as it is written and as it is found."""
        facts = self.facts
        if not facts.paths or facts.excess or facts.kind is ToolKind.EXECUTE:
            return False
        return all(
            resolved is not None
            and any(pattern.covers(resolved, self._roots) for pattern in patterns)
            and any(pattern.covers(literal, self._all_roots) for pattern in patterns)
            for literal, resolved in self._exact
        )

    def any_within(self, patterns: tuple[Glob, ...]) -> bool | None:
        """Tell whether some path may be meant, in any reading."""
        roots = self.folded_roots
        for pattern in patterns:
            if any(pattern.covers(path, roots, folded=True) for path in self.readings):
                return True
        rootless = not roots and any(pattern.in_root for pattern in patterns)
        return None if self.unknown_paths or rootless else False

    @cached_property
    def unknown_paths(self) -> bool:
        """Whether some path of the request is not known."""
        paths = self.facts.paths
        return (
            not paths
            or self.facts.excess
            or any(path.resolved is None or too_long(path.resolved) for path in paths)
        )

    @cached_property
    def readings(self) -> tuple[Parts, ...]:
        """Everything that the paths may mean, folded."""
        found: dict[Parts, None] = {}
        for path in self.facts.paths or ():
            for text in (*_absolute(path, self._bases), path.resolved):
                if text is not None and not too_long(text):
                    found[tuple(map(fold, split(text)))] = None
        return tuple(found)

    @cached_property
    def components(self) -> frozenset[str]:
        """Every component of every reading."""
        return frozenset(word for path in self.readings for word in path)

    @cached_property
    def _bases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.facts.spelled[:1], *self.facts.roots[:1])))

    @cached_property
    def _roots(self) -> tuple[Parts, ...]:
        return tuple(map(split, self.facts.roots))

    @cached_property
    def _all_roots(self) -> tuple[Parts, ...]:
        return (*self._roots, *map(split, self.facts.spelled))

    @cached_property
    def folded_roots(self) -> tuple[Parts, ...]:
        """The directories of the session, in both spellings, folded."""
        return tuple(tuple(map(fold, root)) for root in self._all_roots)

    @cached_property
    def _exact(self) -> tuple[tuple[Parts, Parts | None], ...]:
        base = self._bases[0] if self._bases else ""
        return tuple(
            (
                split(path.literal if path.literal.startswith("/") else f"{base}/{path.literal}"),
                None if path.resolved is None else split(path.resolved),
            )
            for path in self.facts.paths or ()
        )

    @cached_property
    def _folded_argv(self) -> tuple[str, ...]:
        return tuple(map(fold, self.facts.argv or ()))

    @cached_property
    def _named_argv(self) -> tuple[str, ...]:
        argv = self._folded_argv
        return (argv[0].rpartition("/")[2], *argv[1:]) if argv else ()


def _begins(argv: tuple[str, ...], wanted: Argv) -> bool:
    """Tell whether a command is the one that is wanted, or begins so where more may follow."""
    size = len(wanted.words)
    return argv[:size] == wanted.words and (wanted.more or len(argv) == size)


def _absolute(path: PathFact, bases: tuple[str, ...]) -> tuple[str, ...]:
    """Return a path as it is written, absolute; also as lenient tools may read it.

    Some take a line number off its end, some take `\\` for `/`.
    """
    whole = path.literal
    head = whole
    for _ in range(2):  # `file:line:column`
        front, colon, number = head.rpartition(":")
        head = front if colon and number.isdecimal() else head
    texts = dict.fromkeys((whole, head, whole.replace("\\", "/")))
    if whole.startswith("/"):
        return tuple(texts)
    return tuple(f"{base}/{text}" for base in bases or ("",) for text in texts)


def _of_host(host: str, wanted: tuple[str, ...]) -> bool:
    return any(
        host.endswith(name[1:]) if name.startswith("*.") else host == name for name in wanted
    )


def among(word: str | None, wanted: tuple[str, ...], *, folded: bool) -> bool | None:
    """Tell whether a word is one of some; None for a word that nobody said."""
    if word is None:
        return None
    return fold(word) in map(fold, wanted) if folded else word in wanted
