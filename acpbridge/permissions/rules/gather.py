"""The facts of a request, from what the agent said and what the disk says.

Pure: the disk is asked by a function that is handed in.

An agent's kind is its word; where its arguments say otherwise, the kind is unknown. No field of an
agent's makes a check smaller.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from acpbridge.model.permission import PermissionRequest, Source, ToolKind, ToolSubject
from acpbridge.permissions.arguments import COMMAND_KEYS, CWD_KEYS, URL_KEYS, WRITING_KEYS, under
from acpbridge.permissions.rules import hosts, places, words
from acpbridge.permissions.rules.facts import Facts, PathFact
from acpbridge.permissions.rules.globs import split

Resolve = Callable[[str], str | None]
"""Returns a path, absolute, with all symlinks of the part that exists followed; None if it
cannot."""

# Of an unknown kind it is read too: a rule that denies may know it.
_RUNNING: Final = frozenset({ToolKind.EXECUTE, ToolKind.OTHER, None})
_FETCHING: Final = frozenset({ToolKind.FETCH, ToolKind.OTHER, None})
# Those by whose name nothing is changed.
_LOOKING: Final = frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK})


def facts_of(request: PermissionRequest, resolve: Resolve, home: str = "") -> Facts:
    """Return what is known of a request.

    Args:
        request: what is asked.
        resolve: asks the disk for an absolute path; it may block, so call this in a thread.
        home: the user's, for paths that begin with `~/`; "": such paths are in doubt.

    Raises:
        Exception: whatever `resolve` raises.
    """
    subject = request.ask.subject
    kind = kind_of(subject)
    spelled = tuple(root for root in request.roots if root.startswith("/"))
    resolved = [resolve(root) for root in spelled]
    roots = tuple(root for root in resolved if root is not None)
    paths, excess = None, False
    if kind is not ToolKind.EXECUTE:  # what a program touches nobody knows
        literals = places.named(subject, kind)
        excess = literals is None
        looked_at = _Looked(subject, kind, spelled, home, resolve)
        paths = tuple(fact for path in literals or () for fact in looked_at.at(path)) or None
    return Facts(
        agent=str(request.session.agent),
        label=request.label,
        kind=kind,
        tool=subject.tool or None,
        server=subject.server or None,
        argv=_argv(subject, roots, resolve) if kind in _RUNNING else None,
        paths=paths,
        host=hosts.the_host(subject.raw_input) if kind in _FETCHING else None,
        roots=roots,
        spelled=spelled,
        excess=excess,
    )


def kind_of(subject: ToolSubject) -> ToolKind | None:
    """Return what a call does; None where nobody said, or where its arguments say otherwise."""
    if not subject.known_kind:
        return None
    kind, raw = subject.kind, subject.raw_input
    if kind not in (ToolKind.EXECUTE, ToolKind.OTHER) and _has(raw, COMMAND_KEYS):
        return None
    elsewhere = any(not url.startswith("file:///") for url in under(raw, URL_KEYS))
    if elsewhere and kind not in (ToolKind.FETCH, ToolKind.EXECUTE, ToolKind.OTHER):
        return None
    diff = any(block.get("type") == "diff" for block in subject.content)
    writes = diff or (subject.source is Source.AGENT and _has(raw, WRITING_KEYS))
    if (kind in _LOOKING and writes) or (kind in (ToolKind.FETCH, ToolKind.EXECUTE) and diff):
        return None
    return kind


def _has(raw_input: Any, keys: tuple[str, ...]) -> bool:
    return isinstance(raw_input, Mapping) and any(raw_input.get(key) for key in keys)


def _argv(subject: ToolSubject, roots: tuple[str, ...], resolve: Resolve) -> tuple[str, ...] | None:
    argv = words.argv_of(subject)
    # What a name means depends on the directory: one outside the session's is the agent's choice,
    # and so is a program that is named by its place below another.
    by_place = argv is not None and "/" in argv[0] and not argv[0].startswith("/")
    for cwd in set(under(subject.raw_input, CWD_KEYS)):
        if argv is None or not cwd.startswith("/") or places.doubtful(cwd, subject.kind):
            return None
        found = resolve(cwd)
        within = roots[:1] == (found,) if by_place else _within_any(found, roots)
        if not within:
            return None
    return argv


def _within_any(path: str | None, roots: tuple[str, ...]) -> bool:
    if path is None:
        return False
    parts = split(path)
    return any(parts[: len(root)] == root for root in map(split, roots))


class _Looked:
    """Paths as they are found on the disk."""

    def __init__(
        self,
        subject: ToolSubject,
        kind: ToolKind | None,
        roots: tuple[str, ...],
        home: str,
        resolve: Resolve,
    ) -> None:
        self._kind = kind
        self._home = home.rstrip("/")
        self._resolve = resolve
        # A relative path is one of the session's directory, unless the call names another.
        elsewhere = set(under(subject.raw_input, CWD_KEYS)) - set(roots[:1])
        self._base = roots[0].rstrip("/") if roots and not elsewhere else None

    def at(self, path: str) -> list[PathFact]:
        """Return what a path may mean: `~/x` is below the home, or below a directory `~`."""
        if places.doubtful(path, self._kind):
            return [PathFact(path, None)]
        if path.startswith("/"):
            return [PathFact(path, self._resolve(path))]
        below = None if self._base is None else self._resolve(f"{self._base}/{path}")
        found = [PathFact(path, below)]
        if path == "~" or path.startswith("~/"):
            found.append(
                PathFact(path, self._resolve(self._home + path[1:]) if self._home else None)
            )
        return found
