"""The facts of a request: what the agent said, distrusted, and what the disk says."""

from typing import Any

import pytest

from acpbridge.model.permission import Source, ToolKind
from acpbridge.permissions.rules import places
from acpbridge.permissions.rules.facts import PathFact
from acpbridge.permissions.rules.gather import facts_of
from tests.unit.permissions.rules.asking import HOME, ROOT, disk, facts, request


def literals(kind: str | None, raw: Any = None, **more: Any) -> set[str] | None:
    found = facts(kind, raw, **more).paths
    return None if found is None else {path.literal for path in found}


def test_row_08_the_kind_is_never_taken_from_the_title() -> None:
    assert facts(None, {"path": "/srv/app/x"}).kind is None
    assert facts("other").kind is ToolKind.OTHER
    assert facts("read").kind is ToolKind.READ


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("read", {"path": "/srv/app/x", "command": "rm -r x"}),
        ("search", {"cmd": ["rm"]}),
        ("edit", {"path": "/srv/app/x", "command": "rm"}),
        ("read", {"path": "/srv/app/x", "content": "new"}),
        ("think", {"new_string": "new"}),
        ("read", {"path": "/srv/app/x", "url": "https://evil.example/?x"}),
    ],
)
def test_a_kind_that_the_arguments_contradict_is_unknown(kind: str, raw: Any) -> None:
    assert facts(kind, raw).kind is None


def test_the_address_of_a_file_of_this_disk_contradicts_no_kind() -> None:
    found = facts("read", {"uri": "file:///srv/app/x"})
    assert found.kind is ToolKind.READ
    assert found.paths == (PathFact("/srv/app/x", "/srv/app/x"),)
    assert facts("read", {"uri": "file://host/srv/app/x"}).kind is None


def test_a_call_that_says_it_reads_and_shows_a_change_is_of_unknown_kind() -> None:
    diff = {"type": "diff", "path": "/srv/app/x", "newText": "y"}
    for kind in ("read", "search", "think", "fetch", "execute"):
        assert facts(kind, content=[diff]).kind is None
    assert facts("edit", content=[diff]).kind is ToolKind.EDIT


@pytest.mark.parametrize(
    "raw",
    [
        {"file_path": "/etc/passwd"},
        {"filePath": "/etc/passwd"},
        {"target_file": "/etc/passwd"},
        {"notebook-path": "/etc/passwd"},
        {"edits": [{"old": "a", "path": "/etc/passwd"}]},
        {"deep": {"deeper": [{"x": "/etc/passwd"}]}},
        {"whatever": "/etc/passwd"},
        {"changes": {"/etc/passwd": {"type": "update"}}},
        {"uri": "file:///etc/passwd"},
        {"input": "*** Begin Patch\n*** Update File: /etc/passwd\n@@\n-a\n+b\n*** End Patch"},
        {"input": "*** Begin Patch\n*** Update File: a\n*** Move to: /etc/passwd\n"},
        "/etc/passwd",
        ["/etc/passwd"],
    ],
)
def test_a_path_is_found_wherever_it_stands(raw: Any) -> None:
    found = literals("edit", raw, locations=["/srv/app/innocent"])
    assert found is not None
    assert {"/etc/passwd", "/srv/app/innocent"} <= found


@pytest.mark.parametrize(
    ("kind", "raw", "literal"),
    [
        ("read", {"target_file": ".env"}, ".env"),
        ("edit", {"name": ".env"}, ".env"),
        ("edit", {"x": "sub/secret"}, "sub/secret"),
        ("move", {"from": "a", "to": "b c"}, "b c"),
        ("delete", {"what": "README"}, "README"),
        ("search", {"pattern": "../../etc/*"}, "../../etc/*"),
        ("search", {"pattern": "/etc/*", "path": "."}, "/etc/*"),
    ],
)
def test_a_relative_path_is_one_of_the_session(kind: str, raw: Any, literal: str) -> None:
    found = facts(kind, raw).paths
    assert found is not None
    assert literal in {path.literal for path in found}


def test_what_is_searched_for_is_no_path() -> None:
    raw = {"pattern": "a/b", "path": "/srv/app", "glob": "**/*.py"}
    assert literals("search", raw) == {"/srv/app"}


def test_of_a_file_that_the_bridge_writes_only_its_path_counts() -> None:
    raw = {"path": "/srv/app/x", "content": "/etc/passwd"}
    assert literals("edit", raw, source=Source.FILES) == {"/srv/app/x"}
    found = facts("edit", {"content": "x"}, source=Source.FILES).paths
    assert found == (PathFact("", None),)


def test_a_command_has_no_paths_that_anybody_knows() -> None:
    raw = {"command": "cat /etc/passwd", "path": "/srv/app/x"}
    assert facts("execute", raw, locations=["/srv/app/x"]).paths is None


def test_a_call_that_names_no_path_has_none_that_is_known() -> None:
    for kind in ("read", "edit", "delete", "move", "search", "fetch", "think"):
        assert facts(kind, {"x": 1}).paths is None
    assert facts("edit", content=[{"type": "diff", "newText": "y"}]).paths == (PathFact("", None),)


DOUBTS = [
    "", "/srv/app/\0x", "/srv/app/" + "a" * 4096, "/srv/app/\u202ex", "/srv/app/x ", " /srv/app/x",
    "/srv/app/*", "/srv/app/a?", "$HOME/.ssh/x", "~root/x", "file:/etc/passwd", "\\srv\\x",
    "file://localhost/etc/passwd", "file:///srv/app/%2e%2e/x", "vscode:/x", "/srv/app/\udc80",
    "https://x.example/srv", "/srv/app/a\nb", "é" * 2049,
]  # fmt: skip


@pytest.mark.parametrize("path", DOUBTS, ids=range(len(DOUBTS)))
def test_a_path_in_doubt_is_found_nowhere(path: str) -> None:
    found = facts("edit", {"path": path}).paths
    assert found is not None
    assert [fact.resolved for fact in found] == [None]
    assert facts("edit", locations=[path]).paths == found


def test_a_relative_path_without_a_directory_is_found_nowhere() -> None:
    assert facts("edit", {"path": "x"}, roots=()).paths == (PathFact("x", None),)
    other = {"path": "x", "cwd": "/srv/app/sub"}
    found = facts("edit", other).paths
    assert found is not None
    assert PathFact("x", None) in found


def test_a_home_is_one_of_two_places() -> None:
    expected = {f"{ROOT}/~/x", f"{HOME}/x"}
    found = facts("read", {"path": "~/x"}).paths
    assert found is not None
    assert {path.resolved for path in found} == expected
    nobodys = facts_of(request("read", {"path": "~/x"}), disk()).paths
    assert nobodys is not None
    assert None in {path.resolved for path in nobodys}


def test_roots_are_followed_and_kept_as_they_are_spelled() -> None:
    found = facts_of(request("read", roots=["/shop", "rel"]), disk({"/shop": "/data/w"}))
    assert found.roots == ("/data/w",)
    assert found.spelled == ("/shop",)


def test_too_many_paths_are_an_excess_and_not_fewer_checks() -> None:
    most = [f"/srv/app/{n}" for n in range(places.MOST_PATHS)]
    found = facts("edit", {"paths": most})
    assert found.paths is not None
    assert len(found.paths) == places.MOST_PATHS
    assert not found.excess
    more = facts("edit", {"paths": [*most, "/srv/app/more"]})
    assert more.excess
    assert more.paths is None
    long = [f"/srv/app/{n}/" + "a" * 4000 for n in range(places.MOST_TEXT // 4000 + 1)]
    assert facts("edit", {"paths": long}).excess


def test_more_values_than_are_looked_at_leave_the_paths_in_doubt() -> None:
    found = facts("edit", {"path": "/srv/app/x", "more": ["a"] * places.MOST_VALUES}).paths
    assert found is not None
    assert PathFact("", None) in found


def test_a_long_text_that_begins_like_a_path_is_one_doubt_and_no_excess() -> None:
    found = facts("other", {"image": "/9j/" + "A" * 500_000, "more": "/" + "B" * 500_000})
    assert not found.excess
    assert found.paths == (PathFact("", None),)


def test_words_like_types_are_no_paths_of_a_fetch() -> None:
    raw = {"url": "https://a.example/x", "accept": "text/html"}
    found = facts("fetch", raw)
    assert (found.host, found.paths) == ("a.example", None)
    assert literals("fetch", {**raw, "output": "/srv/app/x"}) == {"/srv/app/x"}


def test_a_call_of_unknown_kind_is_read_for_whatever_a_rule_may_deny() -> None:
    found = facts(None, {"command": "rm x", "path": "/srv/app/x"})
    assert found.argv is None  # beside a path nobody knows what the command does
    assert facts("other", {"command": "rm x"}).argv == ("rm", "x")
    assert facts("other", {"url": "https://a.example/"}).host == "a.example"


def test_a_disk_that_fails_fails_the_judging() -> None:
    def broken(path: str) -> str | None:
        raise OSError(path)

    with pytest.raises(OSError, match="srv"):
        facts_of(request("read", {"path": "/srv/app/x"}), broken)
