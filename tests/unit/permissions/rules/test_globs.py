"""Patterns of paths: by component, against a matcher that tries everything."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.permissions.rules.globs import Shape, fold, glob, split

WORDS = st.sampled_from(["a", "b", "ab", "aba", ".x", "a.b"])
PARTS = st.sampled_from(["a", "b", "ab", "*", "**", "a*", "*b", "a*b*a", "*.*", "**"])


def naive(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Say whether a pattern covers a path, trying every length for every `**`."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(naive(pattern[1:], path[at:]) for at in range(len(path) + 1))
    if not path:
        return False
    word = re.compile(".*".join(map(re.escape, pattern[0].split("*"))), re.DOTALL)
    return word.fullmatch(path[0]) is not None and naive(pattern[1:], path[1:])


@given(st.lists(PARTS, max_size=6).map(tuple), st.lists(WORDS, max_size=7).map(tuple))
def test_a_pattern_covers_what_a_matcher_finds_that_tries_everything(
    pattern: tuple[str, ...], path: tuple[str, ...]
) -> None:
    assert Shape.of(pattern).covers(path) is naive(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path", "meant"),
    [
        ("/srv/app/**", "/srv/app/x/y", True),
        ("/srv/app/**", "/srv/app", True),
        ("/srv/app/**", "/srv/app_evil/x", False),
        ("/srv/*/x", "/srv/a/b/x", False),
        ("/srv/*", "/srv/.hidden", True),
        ("**/.env", "/.env", True),
        ("**/.env", "/a/b/.env", True),
        ("**/.env", "/a/.env/b", False),
        ("**", "/", True),
        ("/", "/", True),
        ("/", "/a", False),
        ("~/x", "/home/ann/x", True),
        ("~", "/home/ann", True),
        ("~/x", "/home/bob/x", False),
        ("{root}/x", "/srv/app/x", True),
        ("{root}/x", "/srv/x", False),
        ("{root}", "/srv/app", True),
        ("**/a/**/b/**", "/x/a/y/b", True),
    ],
)
def test_a_pattern_means_whole_components(pattern: str, path: str, *, meant: bool) -> None:
    found = glob(pattern, "/home/ann")
    assert found.covers(split(path), [("srv", "app")]) is meant
    folded = tuple(map(fold, split(path)))
    assert found.covers(folded, [("srv", "app")], folded=True) is meant


@pytest.mark.parametrize(
    "pattern",
    ["", "a", "./a", "a/**", "~ann/x", "/a//b", "/a/", "/a/../b", "/./a", "/a?", "/[ab]", "/{a,b}",
     "/a**", "/a/**b", "/x\\y", "!/a", "{root}x", "{home}/x", "/a\u200bb", "/a\u202eb", "{root}/"],
)  # fmt: skip
def test_what_is_no_pattern_here_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"begin|component|known|seen"):
        glob(pattern, "/home/ann")


@pytest.mark.parametrize("home", ["", "relative", "/home/a*"])
def test_a_home_that_would_widen_a_pattern_is_refused(home: str) -> None:
    with pytest.raises(ValueError, match="home"):
        glob("~/x", home)


def test_a_folded_word_has_no_case_no_form_and_no_invisible_marks() -> None:
    assert fold(".GIT") == fold(".git") == fold(".g\u200cit") == fold(".\u2066git")
    assert fold("\u00c9") == fold("e\u0301")
    assert fold("\u212a") == "k"


def test_a_pattern_of_many_stars_takes_no_longer_than_it_must() -> None:
    path = ("a" * 4000,) * 2
    assert not glob("/" + "*a" * 500 + "b/x", "/h").covers(path, ())
    deep = ("a",) * 2000
    assert not glob("/" + "**/a/" * 300 + "b", "/h").covers(deep, ())
    assert glob("/" + "**/a/" * 300 + "a", "/h").covers(deep, ())


@given(st.lists(PARTS.filter(lambda part: part != "***"), min_size=1, max_size=5))
def test_every_path_that_is_meant_has_the_landmark(parts: list[str]) -> None:
    pattern = glob("/" + "/".join(parts), "/h")
    mark = pattern.landmark
    for path in (("a",), ("ab", "b"), ("b", "a", "aba"), ("a", "a", "b", "ab")):
        if pattern.covers(path, (), folded=True):
            assert mark is None or mark in path
