"""What all rules come to: against a naive reading of the language, and by known ways around."""

from dataclasses import replace
from itertools import permutations
from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.model.permission import ToolKind
from acpbridge.permissions.rules.facts import Facts, PathFact
from acpbridge.permissions.rules.gather import facts_of
from acpbridge.permissions.rules.globs import glob
from acpbridge.permissions.rules.rule import Rule
from acpbridge.permissions.rules.rulebook import ASK_EVERYTHING, Rulebook
from acpbridge.permissions.rules.seen import Argv
from acpbridge.permissions.verdict import NO_MATCH, Ruling, Verdict
from tests.unit.permissions.rules import naive
from tests.unit.permissions.rules.asking import HOME, book, facts, request, verdict

# The words are few, so that rules and requests meet.
PATHS = [
    "/srv/app/a",
    "/srv/app/b/a",
    "/srv/App/A",
    "/srv/app",
    "/etc/a",
    "/srv/app/../app2/a",
    "a",
    "b/../../x",
    "/",
]
PATTERNS = [
    "{root}/**",
    "/srv/**",
    "**/a",
    "{root}/*",
    "/srv/app/b/a",
    "**",
    "/etc/*",
    "{root}",
    "**/b/**",
    "/srv/app*/**",
    "{root}/**/a",
    "/",
]
COMMANDS = [
    ("rm",),
    ("rm", "x"),
    ("/bin/rm", "x"),
    ("RM",),
    ("git", "push"),
    ("sh", "-c", "rm"),
    ("git",),
]
HOSTS = ["a.example", "b.a.example", "example"]
KINDS = [None, *ToolKind]


def some(values: list[str]) -> st.SearchStrategy[tuple[str, ...] | None]:
    return st.none() | st.lists(st.sampled_from(values), min_size=1, max_size=2).map(tuple)


def without(rule: Rule, names: list[str]) -> Rule:
    """Return a rule without some of its matchers."""
    nothing: dict[str, Any] = dict.fromkeys(names)
    return replace(rule, **nothing)


def unknowing(facts: Facts, name: str) -> Facts:
    """Return facts of which one is not known."""
    nothing: dict[str, Any] = {name: None}
    return replace(facts, **nothing)


RULES = st.builds(
    Rule,
    effect=st.sampled_from(list(Ruling)),
    id=st.just("r"),
    agents=some(["codex", "claude"]),
    labels=some(["", "x", "X"]),
    kinds=st.none() | st.lists(st.sampled_from(list(ToolKind)), min_size=1, max_size=3).map(tuple),
    tools=some(["Read", "read"]),
    servers=some(["docs"]),
    paths=st.none()
    | st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2).map(
        lambda texts: tuple(glob(text, HOME) for text in texts)
    ),
    argv=st.none() | st.builds(Argv, words=st.sampled_from(COMMANDS), more=st.booleans()),
    hosts=some([*HOSTS, "*.example", "*.a.example"]),
)
# Rules of one or two matchers match more often.
SMALL = RULES.flatmap(
    lambda rule: st.sets(
        st.sampled_from(
            ["agents", "labels", "kinds", "tools", "servers", "paths", "argv", "hosts"]
        ),
        min_size=5,
    ).map(lambda names: without(rule, sorted(names)))
)
FACTS = st.builds(
    Facts,
    agent=st.sampled_from(["codex", "claude"]),
    label=st.sampled_from(["", "x"]),
    kind=st.sampled_from(KINDS),
    tool=st.sampled_from([None, "Read"]),
    server=st.sampled_from([None, "docs", "other"]),
    argv=st.none() | st.sampled_from(COMMANDS),
    paths=st.none()
    | st.lists(
        st.builds(
            PathFact,
            literal=st.sampled_from(PATHS),
            resolved=st.none() | st.sampled_from([p for p in PATHS if p.startswith("/")]),
        ),
        max_size=2,
    ).map(tuple),
    host=st.none() | st.sampled_from(HOSTS),
    roots=st.sampled_from([(), ("/srv/app",), ("/srv/app", "/etc")]),
    spelled=st.sampled_from([(), ("/srv/app",)]),
)
BOOKS = st.lists(SMALL | RULES, max_size=5)


def judged(rules: list[Rule], facts: Facts) -> Ruling:
    """Return what some rules come to; those that are built in may only make it stricter."""
    return Rulebook(tuple(rules)).judge(facts).effect


@given(BOOKS, FACTS)
def test_rules_come_to_what_a_naive_reading_says(rules: list[Rule], facts: Facts) -> None:
    found = Rulebook(tuple(rules)).judge(facts)
    if found.rule.startswith("builtin:"):
        assert found.effect is not Ruling.ALLOW
    else:
        assert found.effect == naive.effect_of(rules, facts)


@given(RULES | SMALL, FACTS)
def test_one_rule_is_about_what_a_naive_reading_says(rule: Rule, facts: Facts) -> None:
    about = Rulebook((rule,)).about(facts) == [rule]
    assert about is naive.about(rule, facts)


@given(BOOKS, FACTS, RULES | SMALL)
def test_a_deny_more_never_makes_an_allow(rules: list[Rule], facts: Facts, more: Rule) -> None:
    before = judged(rules, facts)
    for effect in (Ruling.DENY, Ruling.ASK):
        after = judged([*rules, replace(more, effect=effect)], facts)
        assert after is not Ruling.ALLOW or before is Ruling.ALLOW
    assert judged([*rules, replace(more, effect=Ruling.DENY)], facts) in (before, Ruling.DENY)


@given(BOOKS, FACTS)
def test_the_order_of_rules_changes_nothing(rules: list[Rule], facts: Facts) -> None:
    found = {judged(list(order), facts) for order in permutations(rules[:4])}
    assert len(found) == 1


@given(BOOKS, FACTS)
def test_what_is_left_of_a_broken_file_only_denies(rules: list[Rule], facts: Facts) -> None:
    whole = Rulebook(tuple(rules))
    left = whole.only_denials().judge(facts).effect
    assert left is not Ruling.ALLOW
    assert (left is Ruling.DENY) is (whole.judge(facts).effect is Ruling.DENY)


@given(BOOKS, FACTS)
def test_a_fact_less_never_makes_an_allow(rules: list[Rule], facts: Facts) -> None:
    before = judged(rules, facts)
    for name in ("kind", "tool", "server", "argv", "paths", "host"):
        # That a fetch names a file is what keeps it from being allowed.
        if (name, facts.kind) != ("paths", ToolKind.FETCH):
            after = judged(rules, unknowing(facts, name))
            assert after is not Ruling.ALLOW or before is Ruling.ALLOW


def test_deny_beats_ask_beats_allow() -> None:
    read = "- {effect: %s, tool_kind: [read], id: %s}\n"
    allow, ask, deny = (read % (effect, effect) for effect in ("allow", "ask", "deny"))
    raw = {"path": "/srv/app/x"}
    assert verdict(allow, "read", raw) == Verdict(Ruling.ALLOW, "allow")
    assert verdict(allow + ask, "read", raw) == Verdict(Ruling.ASK, "ask")
    assert verdict(allow + ask + deny, "read", raw) == Verdict(Ruling.DENY, "deny")


def test_without_a_rule_that_matches_a_person_is_asked() -> None:
    assert verdict("- {effect: allow, tool_kind: [edit]}", "read") == NO_MATCH
    assert ASK_EVERYTHING.judge(facts("read", {"path": "/srv/app/x"})) == NO_MATCH


def test_a_rule_is_named_by_its_place_or_by_its_id() -> None:
    rules = "- {effect: ask, agent: claude}\n- {effect: ask, tool_kind: [read]}"
    assert verdict(rules, "read").rule == "policy:2"
    assert verdict("- {effect: ask, id: mine}", "read").rule == "mine"


def test_row_08_no_rule_allows_a_call_of_no_known_kind() -> None:
    rules = "- {effect: allow, path: '**'}\n- {effect: allow, tool_kind: [other]}"
    raw = {"path": "/srv/app/x"}
    assert verdict(rules, "other", raw).effect is Ruling.ASK
    assert verdict(rules, None, raw).effect is Ruling.ASK
    assert verdict(rules, "read", raw).effect is Ruling.ALLOW


def test_row_27_no_rule_allows_a_change_of_mode() -> None:
    rules = "- {effect: allow, tool_kind: [switch_mode]}\n- {effect: allow, path: '**'}"
    assert verdict(rules, "switch_mode", {"path": "/srv/app/x"}).effect is Ruling.ASK
    deny = "- {effect: deny, tool_kind: [switch_mode]}"
    assert verdict(deny, "switch_mode").effect is Ruling.DENY


ROOT_RULE = "- {effect: allow, tool_kind: [read, edit, search], path: '{root}/**'}\n"
LINKS = {"/srv/app/out": "/etc", "/srv/app/up": "..", "/srv/app/in": "/srv/app/src"}
OUTSIDE = [
    "/srv/app_evil/x",
    "/srv/app/../app_evil/x",
    "../app_evil/x",
    "/etc/passwd",
    "~/x",
    "out/passwd",
    "/srv/app/out/passwd",
    "up/x",
    "/srv/app/out/../x",
    "/SRV/app/x",
    "/srv/app/\0x",
    "/srv",
    "x*",
    "/srv/app/../../etc/passwd",
    "file:///etc/passwd",
    "file:/etc/passwd",
]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("kind", ["read", "edit", "search"])
def test_case_55_and_cve_2025_54794_what_is_not_below_a_root_is_not_allowed(
    path: str, kind: str
) -> None:
    found = verdict(ROOT_RULE, kind, {"path": path}, links=LINKS)
    assert found.effect is Ruling.ASK
    both = {"path": "/srv/app/x", "paths": [path]}
    assert verdict(ROOT_RULE, kind, both, links=LINKS).effect is Ruling.ASK


@pytest.mark.parametrize("path", ["/srv/app/x", "x", "src/../x", "in/x", "/srv/app", "./x", "a//b"])
def test_what_is_below_a_root_is_allowed(path: str) -> None:
    found = verdict(ROOT_RULE, "read", {"path": path}, links=LINKS)
    assert found == Verdict(Ruling.ALLOW, "policy:1")


def test_a_root_that_is_a_link_is_allowed_by_both_of_its_names() -> None:
    for path in ("/shop/x", "/data/w/x", "x"):
        found = verdict(
            ROOT_RULE, "read", {"path": path}, roots=["/shop"], links={"/shop": "/data/w"}
        )
        assert found.effect is Ruling.ALLOW
    found = verdict(
        ROOT_RULE, "read", {"path": "/data/x"}, roots=["/shop"], links={"/shop": "/data/w"}
    )
    assert found.effect is Ruling.ASK


ENV_RULE = "- {effect: deny, tool_kind: [read, edit], path: '**/.env'}\n" + ROOT_RULE


@pytest.mark.parametrize(
    "path",
    [
        "/srv/app/.env",
        ".env",
        ".ENV",
        "link",
        "/srv/app/a/../.env",
        ".env:3",
        "$HOME/x",
        "~x/y",
        ".e\u200bnv",
        "sub/.env/",
        "/srv/app/\u202e.env",
        "*",
        "a/.en?",
    ],
)
def test_cve_2026_25724_a_deny_is_not_missed_by_another_name(path: str) -> None:
    links = {"/srv/app/link": "/srv/app/.env"}
    for kind in ("read", "edit", "other", None):
        found = verdict(ENV_RULE, kind, {"path": path}, links=links)
        assert found.effect is Ruling.DENY or kind == "other"
    assert verdict(ENV_RULE, "other", {"path": "/srv/app/.env"}).effect is Ruling.DENY


PYTEST = "- {effect: allow, tool_kind: [execute], argv: [pytest, '...']}\n"
RUNS_MORE = [
    "pytest; rm -r x",
    "pytest && x",
    "pytest | tee x",
    "pytest $(x)",
    "pytest `x`",
    "pytest\nrm x",
    "pytest & x",
    "pytest > ~/.bashrc",
    "X=1 pytest",
    "env pytest",
    "sudo pytest",
    "sh -c pytest",
    ["sh", "-c", "pytest"],
    ["env", "pytest"],
    ["bash", "-c", "pytest; x"],
    "xargs pytest",
    "pytests",
    "./pytest",
    "/tmp/pytest",
    "PYTEST",
    "pytest" + " " * 400 + "; rm x",
    "pytest ${x@P}",
    "uv run pytest",
    "pytest \u202ex",
    ["/tmp/bash", "-c", "pytest"],
    " && ".join(["pytest"] * 60),
    "npx pytest",
    ["bash", "-lc", "pytest -q | sh"],
    "python -c pytest",
    "time pytest",
    "pytest #x",
    "pytest {a,b}",
]


@pytest.mark.parametrize("command", RUNS_MORE, ids=range(len(RUNS_MORE)))
def test_cve_2025_54795_a_command_that_may_run_more_is_not_allowed(command: object) -> None:
    assert verdict(PYTEST, "execute", {"command": command}).effect is Ruling.ASK
    any_command = "- {effect: allow, tool_kind: [execute]}\n"
    plain = command in ("pytests", "./pytest", "/tmp/pytest", "PYTEST")
    assert (verdict(any_command, "execute", {"command": command}).effect is Ruling.ALLOW) is plain


def test_a_command_is_allowed_as_it_was_written() -> None:
    for command in (
        "pytest",
        "pytest -q tests/unit",
        ["pytest", "-k", "a b"],
        ["bash", "-lc", "pytest"],
    ):
        found = verdict(PYTEST, "execute", {"command": command})
        assert found == Verdict(Ruling.ALLOW, "policy:1")
    exact = "- {effect: allow, argv: [git, status]}"
    assert verdict(exact, "execute", {"command": "git status"}).effect is Ruling.ALLOW
    assert verdict(exact, "execute", {"command": "git status -s"}).effect is Ruling.ASK
    assert verdict(exact, "execute", {"command": "git"}).effect is Ruling.ASK


def test_cve_2026_42074_no_field_of_the_agents_makes_a_check_smaller() -> None:
    raw = {"command": "pytest", "dangerouslyDisableSandbox": True}
    assert verdict(PYTEST, "execute", raw).effect is Ruling.ASK


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "/bin/rm x",
        "RM x",
        "rm",
        "sudo rm x",
        "env rm",
        "cd x && rm y",
        "echo `rm x`",
        "$X",
        ["bash", "-c", "rm x"],
        ["sh", "-c", "rm x"],
        "npx anything",
    ],
)
def test_a_command_that_is_denied_is_not_hidden(command: object) -> None:
    rules = "- {effect: deny, argv: [rm, '...']}\n- {effect: allow, tool_kind: [execute]}"
    assert verdict(rules, "execute", {"command": command}).effect is Ruling.DENY
    assert verdict(rules, "execute", {"command": "ls x"}).effect is Ruling.ALLOW
    assert verdict(rules, "read", {"path": "/srv/app/rm"}).effect is Ruling.ASK


@pytest.mark.parametrize(
    "command",
    [
        "cp x .git/hooks/pre-commit",
        "tee /home/ann/.bashrc",
        "cp x --target=.claude/x",
        "rm -r .git",
        "cat .SSH/id",
        ["install", "x", "/srv/app/.vscode/tasks.json"],
    ],
)
def test_a_command_with_a_protected_path_is_asked_for(command: object) -> None:
    found = verdict("- {effect: allow, tool_kind: [execute]}", "execute", {"command": command})
    assert found.effect is Ruling.ASK
    assert found.rule.endswith("_argument")


def test_no_rule_allows_a_write_to_nobody_knows_where() -> None:
    for kind in ("edit", "delete", "move"):
        rule = f"- {{effect: allow, tool_kind: [{kind}]}}"
        assert verdict(rule, kind) == Verdict(Ruling.ASK, "builtin:unknown_path")
        assert verdict(rule, kind, {"path": "$X/y"}) == Verdict(Ruling.ASK, "builtin:unknown_path")
        assert verdict(rule, kind, {"path": "/srv/app/x"}).effect is Ruling.ALLOW


def test_a_limit_denies_and_never_checks_less() -> None:
    paths = [f"/srv/app/{n}" for n in range(100)]
    assert verdict(ROOT_RULE, "edit", {"paths": paths}).rule == "builtin:too_many_paths"
    assert verdict(ROOT_RULE, "read", {"paths": paths}).effect is Ruling.ASK
    assert verdict(ENV_RULE, "read", {"paths": paths}).effect is Ruling.DENY


def test_a_fetch_is_allowed_from_one_host_and_into_no_file() -> None:
    rule = "- {effect: allow, tool_kind: [fetch], host: ['a.example', '*.b.example']}"
    for url in ("https://a.example/x", "https://x.b.example"):
        assert verdict(rule, "fetch", {"url": url}).effect is Ruling.ALLOW
    for url in (
        "https://b.example",
        "https://a.example@evil.example",
        "https://a.example:1",
        "https://xb.example",
        "https://a.example.evil.example",
        "file:///etc/passwd",
    ):
        assert verdict(rule, "fetch", {"url": url}).effect is Ruling.ASK
    into = {"url": "https://a.example/x", "output": "/srv/app/x"}
    assert verdict(rule, "fetch", into) == Verdict(Ruling.ASK, "builtin:fetch_names_path")


def test_a_deny_of_a_host_hits_what_is_in_doubt() -> None:
    deny = "- {effect: deny, tool_kind: [fetch], host: evil.example}\n"
    rule = deny + "- {effect: allow, tool_kind: [fetch]}"
    for url in (
        "https://evil.example/",
        "https://EVIL.example",
        "https://evil.example.",
        "//evil.example",
        "https://x@evil.example",
    ):
        assert verdict(rule, "fetch", {"url": url}).effect is Ruling.DENY
    assert verdict(rule, "fetch", {"url": "https://good.example/"}).effect is Ruling.ALLOW


def test_an_unknown_kind_is_denied_by_whatever_denies_some_kind() -> None:
    rule = "- {effect: deny, tool_kind: [delete]}"
    assert verdict(rule, None).effect is Ruling.DENY
    assert verdict(rule, "other").effect is Ruling.ASK
    assert verdict(rule, "edit", {"path": "/srv/app/x", "command": "x"}).effect is Ruling.DENY


def test_a_name_is_denied_in_any_case_and_allowed_in_one() -> None:
    found = Facts("codex", "Nightly", ToolKind.READ, "Fetch", "docs", None, None)
    for rule in ("tool_name: fetch", "session_label: nightly", "mcp_server: DOCS"):
        assert book(f"- {{effect: deny, {rule}}}").judge(found).effect is Ruling.DENY
        allow = book(f"- {{effect: allow, tool_kind: [read], {rule}}}")
        assert allow.judge(found).effect is Ruling.ASK
    exact = "- {effect: allow, tool_name: Fetch, session_label: Nightly, mcp_server: docs}"
    assert book(exact).judge(found).effect is Ruling.ALLOW


# Ten times what it takes on an idle machine; JUDGE gives a request 50 ms of a processor.
GUARD = 0.5


def big() -> Rulebook:
    """Ten thousand rules of the dearest kinds."""
    rules = [
        *(Rule(Ruling.DENY, "d", paths=(glob(f"**/d{n}/**/*x", HOME),)) for n in range(2500)),
        *(Rule(Ruling.ALLOW, "a", paths=(glob(f"/a{n}/**/x*y", HOME),)) for n in range(2500)),
        *(Rule(Ruling.ASK, "p", argv=Argv((f"p{n}", "x"), more=True)) for n in range(2500)),
        *(Rule(Ruling.ALLOW, "h", hosts=(f"h{n}.example",)) for n in range(2500)),
    ]
    return Rulebook(tuple(rules))


def test_ten_thousand_rules_and_a_hostile_megabyte_take_no_time_to_speak_of() -> None:
    rules = big()
    assert len(rules.rules) == 10_000
    hostile = {
        "64 paths": ("edit", {"paths": [f"/srv/app/{n}/" + "x/" * 400 for n in range(64)]}),
        "deep": ("edit", {"path": "/srv/app/" + "d1/" * 1300}),
        "blob": ("other", {"x": "/" + "é" * 500_000}),
        "patch": ("edit", {"x": "*** Update File: a\n" * 50_000}),
        "values": ("other", {"x": ["a"] * 250_000}),
        "urls": ("fetch", {"x": ["https://a.example/"] * 50_000}),
        "quotes": ("execute", {"command": "'" * 1_000_000}),
        "blanks": ("execute", {"command": "a" + " " * 1_000_000}),
        "words": ("execute", {"command": "a " * 15_000}),
        "slashes": ("edit", {"path": "/" * 1_000_000}),
        "keys": ("edit", {f"/srv/{n}": 1 for n in range(100_000)}),
    }
    for name, (kind, raw) in hostile.items():
        before = thread_time()
        rules.judge(facts_of(request(kind, raw), str, HOME))
        assert thread_time() - before < GUARD, name
