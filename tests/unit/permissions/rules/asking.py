"""Requests and facts for the tests of rules."""

from collections.abc import Mapping, Sequence
from typing import Any

from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.permission import (
    OnPermission,
    PermissionAsk,
    PermissionRequest,
    Source,
    ToolKind,
    ToolSubject,
)
from acpbridge.permissions.rules.facts import Facts
from acpbridge.permissions.rules.gather import facts_of
from acpbridge.permissions.rules.load import parse
from acpbridge.permissions.rules.rulebook import Rulebook
from acpbridge.permissions.verdict import Verdict

HOME = "/home/ann"
ROOT = "/srv/app"


def book(rules: str) -> Rulebook:
    """Load rules, written as the lines of a flow or block sequence."""
    return parse(f"rules:\n{rules}", "policy.yaml", HOME)


def request(
    kind: str | None,
    raw: Any = None,
    *,
    locations: Sequence[str] = (),
    content: Sequence[Mapping[str, Any]] = (),
    source: Source = Source.AGENT,
    roots: Sequence[str] = (ROOT,),
) -> PermissionRequest:
    """Return a request; a kind of None is one that the agent did not give."""
    subject = ToolSubject(
        "call-1",
        "cat x",
        ToolKind(kind or "other"),
        known_kind=kind is not None,
        raw_input=raw,
        locations=tuple(locations),
        content=tuple(content),
        source=source,
    )
    ask = PermissionAsk(subject, ())
    session = SessionKey.main(AgentId("codex"))
    return PermissionRequest("q1", session, "turn-1", OnPermission.ASK, ask, roots=tuple(roots))


def disk(links: Mapping[str, str] | None = None) -> "Disk":
    """Return a disk with some symlinks."""
    return Disk(links or {})


class Disk:
    """Resolves paths as a kernel would, on a disk that is a table of links."""

    def __init__(self, links: Mapping[str, str]) -> None:
        self._links = links

    def __call__(self, path: str) -> str:
        """Return the path with links followed, `..` after them."""
        done: list[str] = []
        waiting = path.split("/")
        while waiting:
            word = waiting.pop(0)
            if word == "..":
                del done[-1:]
            elif word not in ("", "."):
                link = self._links.get("/" + "/".join([*done, word]))
                if link is None:
                    done.append(word)
                else:
                    done = [] if link.startswith("/") else done
                    waiting = [*link.split("/"), *waiting]
        return "/" + "/".join(done)


def facts(kind: str | None, raw: Any = None, **more: Any) -> Facts:
    """Return the facts of a request on a disk without links."""
    return facts_of(request(kind, raw, **more), disk(), HOME)


def verdict(rules: str, kind: str | None, raw: Any = None, **more: Any) -> Verdict:
    """Return what some rules make of a request."""
    links = more.pop("links", None)
    return book(rules).judge(facts_of(request(kind, raw, **more), disk(links), HOME))
