"""One rule, and whether it is about a request. Pure.

A fact that is not known cannot satisfy a rule that allows, and does satisfy one that denies or
asks. The same holds for case and form of letters: a rule that allows compares exactly.
"""

from dataclasses import dataclass, field
from functools import cached_property

from acpbridge.model.permission import ToolKind
from acpbridge.permissions.rules.facts import Facts, PathFact
from acpbridge.permissions.rules.globs import Glob, Parts, fold, split
from acpbridge.permissions.rules.wrappers import hides_program
from acpbridge.permissions.verdict import Ruling


@dataclass(frozen=True, slots=True)
class Argv:
    """The words that a command has, or begins with.

    Attributes:
        words: the first of them the program.
        more: whether others may follow.
    """

    words: tuple[str, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; a matcher that is None is about everything.

    Attributes:
        effect: what it wants.
        id: `policy:<n>` by its place, or the user's own name for it.
        agents: ids.
        labels: of sessions.
        kinds: of tool calls.
        tools: names of tools.
        servers: names of MCP servers.
        paths: patterns; each path of a request must fit one for an allow, any for a deny.
        argv: the command.
        hosts: names, `*.` in front for all below one.
        line: in its file, for people.
    """

    effect: Ruling
    id: str
    agents: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    kinds: tuple[ToolKind, ...] | None = None
    tools: tuple[str, ...] | None = None
    servers: tuple[str, ...] | None = None
    paths: tuple[Glob, ...] | None = None
    argv: Argv | None = None
    hosts: tuple[str, ...] | None = None
    line: int = field(default=0, compare=False)

    def holds(self, seen: "Seen") -> bool:
        """Tell whether the rule is about a request."""
        facts = seen.facts
        if self.agents is not None and facts.agent not in self.agents:
            return False
        return self._allows(seen) if self.effect is Ruling.ALLOW else self._restricts(seen)

    def _allows(self, seen: "Seen") -> bool:
        facts = seen.facts
        return (
            seen.allowable
            and (self.kinds is None or facts.kind in self.kinds)
            and (self.labels is None or facts.label in self.labels)
            and (self.tools is None or facts.tool in self.tools)
            and (self.servers is None or facts.server in self.servers)
            and (
                self.hosts is None or (facts.host is not None and _of_host(facts.host, self.hosts))
            )
            and (self.argv is None or (facts.argv is not None and begins(facts.argv, self.argv)))
            and (self.paths is None or seen.all_within(self.paths))
        )

    def _restricts(self, seen: "Seen") -> bool:
        facts = seen.facts
        kind = None if facts.kind is ToolKind.OTHER else facts.kind
        return (
            (self.kinds is None or kind is None or kind in self.kinds)
            and (self.labels is None or _among(facts.label, self.labels))
            and (self.tools is None or facts.tool is None or _among(facts.tool, self.tools))
            and (self.servers is None or facts.server is None or _among(facts.server, self.servers))
            and (self.hosts is None or facts.host is None or _of_host(facts.host, self.hosts))
            and (self.argv is None or seen.may_begin(self.argv))
            and (self.paths is None or seen.any_within(self.paths))
        )


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

    def may_begin(self, wanted: Argv) -> bool:
        """Tell whether the command may be one that a rule forbids."""
        if self.hidden:
            return True
        return begins(self._folded_argv, _folded(wanted)) or begins(
            self._named_argv, _folded(wanted)
        )

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

    def any_within(self, patterns: tuple[Glob, ...]) -> bool:
        """Tell whether some path may be meant, in any reading."""
        if self.unknown_paths:
            return True
        for pattern in patterns:
            if pattern.in_root and not self._folded_roots:
                return True
            if any(pattern.covers(path, self._folded_roots, folded=True) for path in self.readings):
                return True
        return False

    @cached_property
    def unknown_paths(self) -> bool:
        """Whether some path of the request is not known."""
        paths = self.facts.paths
        return not paths or self.facts.excess or any(path.resolved is None for path in paths)

    @cached_property
    def readings(self) -> tuple[Parts, ...]:
        """Everything that the paths may mean, folded."""
        found: dict[Parts, None] = {}
        for path in self.facts.paths or ():
            for text in (*_absolute(path, self._bases), path.resolved):
                if text is not None:
                    found[tuple(map(fold, split(text)))] = None
        return tuple(found)

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
    def _folded_roots(self) -> tuple[Parts, ...]:
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


def begins(argv: tuple[str, ...], wanted: Argv) -> bool:
    """Tell whether a command is the one that is wanted, or begins so where more may follow."""
    size = len(wanted.words)
    return argv[:size] == wanted.words and (wanted.more or len(argv) == size)


def _folded(wanted: Argv) -> Argv:
    return Argv(tuple(map(fold, wanted.words)), wanted.more)


def _absolute(path: PathFact, bases: tuple[str, ...]) -> tuple[str, ...]:
    """Return a path as it is written, absolute; also without a line number at its end."""
    whole = path.literal
    head = whole
    for _ in range(2):  # `file:line:column`
        front, colon, number = head.rpartition(":")
        head = front if colon and number.isdecimal() else head
    texts = dict.fromkeys((whole, head))
    if whole.startswith("/"):
        return tuple(texts)
    return tuple(f"{base}/{text}" for base in bases or ("",) for text in texts)


def _among(word: str, wanted: tuple[str, ...]) -> bool:
    return fold(word) in map(fold, wanted)


def _of_host(host: str, wanted: tuple[str, ...]) -> bool:
    return any(
        host.endswith(name[1:]) if name.startswith("*.") else host == name for name in wanted
    )
