"""Examples that stand with a rule in its file, and are tried when it is read. Pure.

A list is the words of a command; a text is a command, a path or a host, by what the rule has. They
are read as an agent's would be.
"""

from dataclasses import replace
from typing import Any, Final

from acpbridge.model.permission import ToolKind
from acpbridge.permissions.rules import hosts, words
from acpbridge.permissions.rules.facts import Facts, PathFact
from acpbridge.permissions.rules.globs import ROOT
from acpbridge.permissions.rules.rule import Rule
from acpbridge.permissions.rules.seen import Seen

# Stands for a directory of the session; no real one is named so.
_ROOT: Final = f"/{ROOT}"


def problem(rule: Rule, example: Any, home: str, *, meant: bool) -> str:
    """Return what is wrong with an example, "" if the rule does with it what it should.

    Args:
        rule: tried with that one of its matchers which the example is for.
        example: as it stands in the file.
        home: the user's, for `~`.
        meant: whether the rule should be about it.
    """
    matchers = [name for name in ("argv", "paths", "hosts") if getattr(rule, name) is not None]
    if len(matchers) != 1:
        return "an example needs a rule with one of argv, path and host"
    facts = _facts(matchers[0], example, home)
    if facts is None:
        return {
            "argv": "write a command, as a list of words or as text",
            "paths": "write a path that begins with /, ~/ or {root}",
            "hosts": "write a host, or an address that begins with https://",
        }[matchers[0]]
    alone = replace(rule, agents=None, labels=None, kinds=None, tools=None, servers=None)
    about = alone.holds(Seen(facts))
    if about is meant:
        return ""
    return "the rule does not match this" if meant else "the rule matches this"


def _facts(matcher: str, example: Any, home: str) -> Facts | None:
    if matcher == "argv":
        argv = words.read(example)
        return (
            None
            if not isinstance(example, str | list)
            else Facts("example", kind=ToolKind.EXECUTE, argv=argv)
        )
    if not isinstance(example, str):
        return None
    if matcher == "hosts":
        host = example if hosts.is_host(example) else hosts.host_of(example)
        return Facts("example", kind=ToolKind.FETCH, host=host)
    path = _ROOT + example[len(ROOT) :] if example.startswith(ROOT) else example
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    if not path.startswith("/"):
        return None
    paths = (PathFact(path, path),)
    return Facts("example", kind=ToolKind.READ, paths=paths, roots=(_ROOT,))
