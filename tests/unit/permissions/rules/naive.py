"""The policy language once more, written from its description and not from the program.

For each rule and each fact it says `yes`, `no` or `unknown`, in words, with nothing prepared.
"""

import re
import unicodedata
from typing import Any

from acpbridge.permissions.rules.facts import Facts
from acpbridge.permissions.rules.rule import Rule
from acpbridge.permissions.rules.wrappers import hides_program

WRITE = ("edit", "delete", "move", "other", None)


def effect_of(rules: list[Rule], facts: Facts) -> str:
    """Return what the user's rules want: `deny`, `ask` or `allow`; built-in ones are left out."""
    wanted = {str(rule.effect) for rule in rules if about(rule, facts)}
    for effect in ("deny", "ask"):
        if effect in wanted:
            return effect
    return "allow" if "allow" in wanted else "ask"


def about(rule: Rule, facts: Facts) -> bool:
    """Tell whether a rule is about a request."""
    answers = {
        "agent": among(rule.agents, facts.agent, exact=True),
        "label": among(rule.labels, facts.label, exact=rule.effect == "allow"),
        "tool": among(rule.tools, facts.tool, exact=rule.effect == "allow"),
        "server": among(rule.servers, facts.server, exact=rule.effect == "allow"),
        "kind": kind(rule, facts),
        "host": host(rule, facts),
        "argv": argv(rule, facts),
        "path": path(rule, facts),
    }
    if rule.effect == "allow":
        if facts.kind in (None, "other", "switch_mode"):
            return False
        if facts.kind == "execute" and (facts.argv is None or hides_program(facts.argv)):
            return False
        return all(answer == "yes" for answer in answers.values())
    if "no" in answers.values():
        return False
    if facts.kind == "other" and rule.kinds and "other" not in rule.kinds:
        matchers = {"label": rule.labels, "tool": rule.tools, "server": rule.servers,
                    "host": rule.hosts, "argv": rule.argv, "path": rule.paths}  # fmt: skip
        return any(answers[name] == "yes" for name, value in matchers.items() if value is not None)
    return True


def among(wanted: Any, found: str | None, *, exact: bool) -> str:
    if wanted is None:
        return "yes"
    if found is None:
        return "unknown"
    if exact:
        return "yes" if found in wanted else "no"
    return "yes" if any(word.lower() == found.lower() for word in wanted) else "no"


def kind(rule: Rule, facts: Facts) -> str:
    if rule.kinds is None:
        return "yes"
    if facts.kind is None or (facts.kind == "other" and rule.effect != "allow"):
        return "unknown"
    return "yes" if facts.kind in rule.kinds else "no"


def host(rule: Rule, facts: Facts) -> str:
    if rule.hosts is None:
        return "yes"
    if facts.kind not in ("fetch", "other", None):
        return "no"
    if facts.host is None:
        return "unknown"
    labels = facts.host.split(".")
    for name in rule.hosts:
        first, *rest = name.split(".")
        if first == "*" and labels[-len(rest) :] == rest and len(labels) > len(rest):
            return "yes"
        if name == facts.host:
            return "yes"
    return "no"


def argv(rule: Rule, facts: Facts) -> str:
    if rule.argv is None:
        return "yes"
    found = facts.argv
    wanted = list(rule.argv.words)
    if rule.effect == "allow":
        if found is None:
            return "unknown"
        readings = [list(found)]
    else:
        if facts.kind not in ("execute", "other", None):
            return "no"
        if found is None or hides_program(found):
            return "unknown"
        low = [word.lower() for word in found]
        readings = [low, [low[0].split("/")[-1], *low[1:]]]
        wanted = [word.lower() for word in wanted]
    for reading in readings:
        if rule.argv.more and reading[: len(wanted)] == wanted:
            return "yes"
        if reading == wanted:
            return "yes"
    return "no"


def path(rule: Rule, facts: Facts) -> str:
    if rule.paths is None:
        return "yes"
    texts = [pattern.text for pattern in rule.paths]
    if rule.effect == "allow":
        if not facts.paths or facts.kind == "execute":
            return "unknown"
        fits = all(
            found.resolved is not None
            and any(covers(text, found.resolved, facts.roots) for text in texts)
            and any(
                covers(text, absolute(found.literal, facts), (*facts.roots, *facts.spelled))
                for text in texts
            )
            for found in facts.paths
        )
        return "yes" if fits else "no"
    for found in facts.paths or ():
        for reading in (absolute(found.literal, facts), found.resolved):
            if reading is not None:
                roots = tuple(map(plain, (*facts.roots, *facts.spelled)))
                if any(covers(plain(text), plain(reading), roots) for text in texts):
                    return "yes"
    if not facts.paths or any(found.resolved is None for found in facts.paths):
        return "unknown"
    rooted = any(text.startswith("{root}") for text in texts)
    return "unknown" if rooted and not facts.roots and not facts.spelled else "no"


def absolute(literal: str, facts: Facts) -> str:
    base = (*facts.spelled, *facts.roots, "")[0]
    return literal if literal.startswith("/") else f"{base}/{literal}"


def plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower()


def covers(pattern: str, path: str, roots: tuple[str, ...]) -> bool:
    """Tell whether a pattern covers a path, by one regular expression over the whole text."""
    clean = "/" + "/".join(normal(path))
    if pattern.startswith("{root}"):
        rest = pattern.removeprefix("{root}")
        starts = ["/" + "/".join(normal(root)) if normal(root) else "" for root in roots]
        return any(covers(escape(start) + rest, path, ()) for start in starts)
    expression = ""
    for part in pattern.strip("/").split("/") if pattern.strip("/") else []:
        if part == "**":
            expression += "(?:/[^/]+)*"
        else:
            expression += "/" + re.escape(part).replace("\\*", "[^/]*")
    return re.fullmatch(expression or "/", clean) is not None or (
        clean == "/" and re.fullmatch(expression, "") is not None
    )


def escape(text: str) -> str:
    assert "*" not in text
    return text


def normal(path: str) -> list[str]:
    out: list[str] = []
    for word in path.split("/"):
        if word == "..":
            out = out[:-1]
        elif word not in ("", "."):
            out.append(word)
    return out
