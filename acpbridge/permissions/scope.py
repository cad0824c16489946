"""What a grant covers: one exact command, or one tool on exactly these paths. Pure.

A person who says "always" has seen one request. What is granted is that request again and nothing
beside it: the same session, tool, words or paths, and the same arguments but for the contents.
Whatever is not known for certain cannot be granted at all.
"""

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import PermissionRequest, Source, ToolKind
from acpbridge.permissions import policy
from acpbridge.permissions.arguments import ARGV_KEYS, CWD_KEYS, WRITING_KEYS, under
from acpbridge.permissions.rules.facts import Facts
from acpbridge.permissions.rules.gather import facts_of
from acpbridge.permissions.rules.words import of_text
from acpbridge.permissions.rules.wrappers import hides_program

# A scope that is longer is not read before it is granted. Characters.
LONGEST: Final = 1024

# Kinds of tools whose reach is their paths.
_ON_PATHS: Final = frozenset(
    {ToolKind.READ, ToolKind.SEARCH, ToolKind.EDIT, ToolKind.DELETE, ToolKind.MOVE}
)

# Arguments that may differ from one call to the next: what is written, which part is read, and
# what the agent says of it. All others must be the same, for nobody knows what they do.
_CONTENTS: Final = frozenset(
    {
        *WRITING_KEYS,
        "edits",
        "offset",
        "limit",
        "line",
        "lines",
        "start_line",
        "startLine",
        "end_line",
        "endLine",
        "view_range",
        "pages",
        "description",
    }
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What is covered; two requests with the same scope are covered by the same grant.

    Attributes:
        session: it ends with it.
        kind: of the tool call.
        tool: its own name, "" where nobody said it.
        server: the MCP server that it is of, "" where nobody said it.
        source: who acts.
        argv: the exact words that run, for a command.
        cwd: where they run, as the agent wrote it; empty for the session's directory.
        paths: each as it is written and as it resolves, for everything else.
        arguments: SHA-256 of the tool's arguments but for the contents.
    """

    session: SessionKey
    kind: ToolKind
    tool: str
    server: str
    source: Source
    argv: tuple[str, ...] = ()
    cwd: tuple[str, ...] = ()
    paths: tuple[tuple[str, str], ...] = ()
    arguments: str = ""

    def words(self) -> str:
        """Return what is covered, for a person; as the agent wrote it, so escape it."""
        if self.argv:
            where = f" in {shlex.join(self.cwd)}" if self.cwd else ""
            what = f"exactly `{shlex.join(self.argv)}`{where}"
        else:
            names = dict.fromkeys(literal for literal, _ in self.paths)
            what = f"{self.kind} of exactly {', '.join(map(shlex.quote, names))}"
        of = f" of {shlex.quote(self.server)}" if self.server else ""
        by = f", by the tool {shlex.quote(self.tool)}{of}" if self.tool or self.server else ""
        return f"{what}{by}, in this session"

    def to_json(self) -> dict[str, Any]:
        """Return the fields of lists and of the audit."""
        return {
            "sessionKey": str(self.session),
            "kind": self.kind,
            "tool": self.tool or None,
            "server": self.server or None,
            "argv": list(self.argv) or None,
            "paths": list(dict.fromkeys(literal for literal, _ in self.paths)) or None,
        }


def scope_of(request: PermissionRequest, facts: Facts | None = None) -> Scope | None:
    """Return what a grant for a request would cover, None if nothing of it can be granted.

    Args:
        request: what is asked.
        facts: what the judge knows of it, the disk included; None: what it says itself.
    """
    if policy.doubt(request) or not isinstance(request.ask.subject.raw_input, Mapping):
        return None
    facts = facts_of(request, lambda path: path) if facts is None else facts
    try:
        scope = _of_command(request, facts) or _of_paths(request, facts)
    except RecursionError:  # arguments that are nested too deep to be compared
        return None
    return None if scope is None or len(scope.words()) > LONGEST else scope


def _of_command(request: PermissionRequest, facts: Facts) -> Scope | None:
    subject, raw = request.ask.subject, request.ask.subject.raw_input
    if facts.kind is not ToolKind.EXECUTE or not facts.argv:
        return None
    spoken = tuple(under(raw, ARGV_KEYS))
    if len(spoken) == 1 and subject.source is not Source.TERMINAL:
        spoken = of_text(spoken[0]) or ()
    if not spoken or hides_program(spoken) or hides_program(facts.argv):
        return None
    return Scope(
        request.session,
        ToolKind.EXECUTE,
        subject.tool,
        subject.server,
        subject.source,
        argv=facts.argv,
        cwd=tuple(under(raw, CWD_KEYS)),
    )


def _of_paths(request: PermissionRequest, facts: Facts) -> Scope | None:
    subject = request.ask.subject
    if facts.kind not in _ON_PATHS or not facts.paths or facts.excess:
        return None
    paths = [(fact.literal, fact.resolved) for fact in facts.paths]
    known = tuple((literal, resolved) for literal, resolved in paths if resolved is not None)
    if len(known) != len(paths):
        return None
    bound = {key: value for key, value in subject.raw_input.items() if key not in _CONTENTS}
    return Scope(
        request.session,
        facts.kind,
        subject.tool,
        subject.server,
        subject.source,
        paths=known,
        arguments=_sha256(bound),
    )


def _sha256(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
