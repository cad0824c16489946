"""One rule, and whether it is about a request. Pure.

A fact that is not known cannot satisfy a rule that allows, and does satisfy one that denies or
asks. The same holds for case and form of letters: a rule that allows compares exactly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from acpbridge.model.permission import ToolKind
from acpbridge.permissions.rules.globs import Glob
from acpbridge.permissions.rules.seen import Argv, Seen, among
from acpbridge.permissions.verdict import Ruling


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

    @property
    def says_what(self) -> bool:
        """Whether it says what is done, and not only by whom."""
        return any(
            matcher is not None
            for matcher in (self.kinds, self.tools, self.servers, self.paths, self.argv, self.hosts)
        )

    def holds(self, seen: Seen) -> bool:
        """Tell whether the rule is about a request."""
        if self.agents is not None and seen.facts.agent not in self.agents:
            return False
        if self.effect is Ruling.ALLOW:
            return seen.allowable and all(self._answers(seen, folded=False))
        return self._restricts(seen)

    def _restricts(self, seen: Seen) -> bool:
        """Tell whether a rule that denies or asks is about it: nothing speaks against that."""
        known = False
        for answer in self._answers(seen, folded=True):
            if answer is False:
                return False
            known = known or answer is True
        # A call of kind `other` is always asked. Some rule for another kind hits it all the same,
        # if it is known to touch what that rule is about.
        foreign = seen.facts.kind is ToolKind.OTHER and self.kinds is not None
        return not foreign or ToolKind.OTHER in (self.kinds or ()) or known

    def _answers(self, seen: Seen, *, folded: bool) -> Iterator[bool | None]:
        """Yield what each matcher says; None: a fact that it needs is not known."""
        facts = seen.facts
        if self.kinds is not None and facts.kind is not ToolKind.OTHER:
            yield None if facts.kind is None else facts.kind in self.kinds
        elif self.kinds is not None and not folded:
            yield False
        if self.labels is not None:
            yield among(facts.label, self.labels, folded=folded)
        if self.tools is not None:
            yield among(facts.tool, self.tools, folded=folded)
        if self.servers is not None:
            yield among(facts.server, self.servers, folded=folded)
        if self.hosts is not None:
            yield seen.of_host(self.hosts)
        if self.argv is not None:
            yield seen.may_begin(self.argv) if folded else seen.begins(self.argv)
        if self.paths is not None:
            yield seen.any_within(self.paths) if folded else seen.all_within(self.paths)
