"""What is doubtful about the rules of a file although it loads: for the person who wrote it. Pure.

A rule that can never decide, one that says what another one says, one that is about far more than
its author may think.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from acpbridge.model.permission import ToolKind
from acpbridge.permissions.rules import builtin
from acpbridge.permissions.rules.globs import Glob
from acpbridge.permissions.rules.rule import Rule
from acpbridge.permissions.rules.seen import Argv
from acpbridge.permissions.rules.wrappers import hides_program
from acpbridge.permissions.verdict import Ruling

# Each is compared with these; so many take about a second.
MOST_COMPARED: Final = 500

_STRICTNESS: Final = {Ruling.ALLOW: 0, Ruling.ASK: 1, Ruling.DENY: 2}
_NEVER_ALLOWED: Final = frozenset({ToolKind.OTHER, ToolKind.SWITCH_MODE})
_ALL: Final = frozenset(ToolKind)
# What may follow a word of a path so that all below it is meant.
_BELOW: Final = "**"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is doubtful.

    Attributes:
        rule: its id.
        line: in the file.
        kind: `never`, `shadowed`, `redundant` or `wide`.
        message: a sentence.
    """

    rule: str
    line: int
    kind: str
    message: str


def findings(rules: Sequence[Rule]) -> list[Finding]:
    """Return everything doubtful about some rules, in their order."""
    out: list[Finding] = []
    others = [
        (place, rule)
        for place, rule in enumerate(rules[:MOST_COMPARED])
        if not _never(replace(rule, paths=None))
    ]
    for number, rule in enumerate(rules):
        never = _never(rule)
        if never:
            out.append(Finding(rule.id, rule.line, "never", f"can never match: {never}"))
            continue
        wide = (Finding(rule.id, rule.line, "wide", message) for message in _wide(rule))
        out += [*wide, *_covered(rule, number, others)]
    return out


def _never(rule: Rule) -> str:
    """Return why a rule is about nothing at all, "" if it may be about something."""
    if rule.effect is Ruling.ALLOW:
        return _never_allows(rule)
    if rule.argv is not None and _only(rule, _ALL - {ToolKind.EXECUTE, ToolKind.OTHER}):
        return "only calls of kind execute have an argv"
    if rule.hosts is not None and _only(rule, _ALL - {ToolKind.FETCH, ToolKind.OTHER}):
        return "only calls of kind fetch have a host"
    return ""


def _never_allows(rule: Rule) -> str:
    if rule.argv is not None and hides_program(rule.argv.words):
        return "its argv begins with a wrapper, which runs whatever it is given"
    kinds = (_ALL if rule.kinds is None else frozenset(rule.kinds)) - _NEVER_ALLOWED
    if not kinds:
        return "no rule allows calls of kind other or switch_mode"
    for matcher, having in (
        (rule.argv, frozenset({ToolKind.EXECUTE})),
        (rule.hosts, frozenset({ToolKind.FETCH})),
        (rule.paths, _ALL - {ToolKind.EXECUTE, ToolKind.FETCH}),
    ):
        kinds = kinds if matcher is None else kinds & having
    if not kinds:
        return "no kind of call has all that it asks for (execute: argv; fetch: host; others: path)"
    if rule.paths and kinds <= builtin.WRITING:
        names = {builtin.protected("/" + "/".join(_literal(pattern))) for pattern in rule.paths}
        return "" if "" in names else f"{', '.join(sorted(names))} denies it"
    return ""


def _only(rule: Rule, kinds: frozenset[ToolKind]) -> bool:
    return rule.kinds is not None and kinds.issuperset(rule.kinds)


def _literal(pattern: Glob) -> Iterator[str]:
    """Yield the components that every path has which is meant, behind a leading `**`."""
    parts = pattern.parts[1:] if pattern.parts[:1] == (_BELOW,) else pattern.parts
    for part in parts:
        if "*" in part:
            return
        yield part


def _wide(rule: Rule) -> Iterator[str]:
    if rule.effect is Ruling.ALLOW:
        if rule.kinds is not None and ToolKind.EXECUTE in rule.kinds and rule.argv is None:
            yield "allows every command that can be read; add argv to say which"
        return
    does = "denies" if rule.effect is Ruling.DENY else "asks for"
    if rule.paths is not None and rule.kinds is None:
        yield f"also {does} every call whose path is not known, each command; add tool_kind"
    elif rule.paths is not None and ToolKind.EXECUTE in (rule.kinds or ()):
        yield f"also {does} every command, for nobody knows the paths that it touches"
    if rule.argv is not None:
        yield f"also {does} every command that a shell would have to make sense of"
    if rule.tools is not None or rule.servers is not None:
        yield f"also {does} every call whose tool or server nobody named"


def _covered(rule: Rule, number: int, others: Sequence[tuple[int, Rule]]) -> Iterator[Finding]:
    """Yield the first other rule that decides wherever this one would."""
    for place, other in others:
        stricter = _STRICTNESS[other.effect] - _STRICTNESS[rule.effect]
        if stricter < 0 or place == number or not _covers(other, rule):
            continue
        if stricter > 0:
            verb = "denies" if other.effect is Ruling.DENY else "asks for"
            message = f"never decides: {other.id} {verb} all that it is about"
            yield Finding(rule.id, rule.line, "shadowed", message)
            return
        if place < number or not _covers(rule, other):
            message = f"adds nothing to {other.id}"
            yield Finding(rule.id, rule.line, "redundant", message)
            return


def _covers(wide: Rule, narrow: Rule) -> bool:
    """Tell whether a rule is surely about all that another one is about."""
    return (
        _all_in(narrow.agents, wide.agents)
        and _all_in(narrow.labels, wide.labels)
        and _all_in(narrow.kinds, wide.kinds)
        and _all_in(narrow.tools, wide.tools)
        and _all_in(narrow.servers, wide.servers)
        and _all_in(narrow.hosts, wide.hosts)
        and _argv_in(narrow.argv, wide.argv)
        and _paths_in(narrow.paths, wide.paths)
    )


def _all_in(narrow: Sequence[str] | None, wide: Sequence[str] | None) -> bool:
    return wide is None or (narrow is not None and all(word in wide for word in narrow))


def _argv_in(narrow: Argv | None, wide: Argv | None) -> bool:
    if wide is None or narrow is None:
        return wide is None
    begins = narrow.words[: len(wide.words)] == wide.words
    return begins and (wide.more or (narrow.words == wide.words and not narrow.more))


def _paths_in(narrow: tuple[Glob, ...] | None, wide: tuple[Glob, ...] | None) -> bool:
    if wide is None or narrow is None:
        return wide is None
    return all(any(_path_in(one, other) for other in wide) for one in narrow)


def _path_in(narrow: Glob, wide: Glob) -> bool:
    if narrow.text == wide.text or (wide.parts == (_BELOW,) and not wide.in_root):
        return True
    *front, last = wide.parts or ("",)
    plain = not any("*" in part for part in front)
    same = narrow.in_root is wide.in_root and narrow.parts[: len(front)] == tuple(front)
    return last == _BELOW and plain and same
