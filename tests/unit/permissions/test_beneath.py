"""G25: what the kernel and the walk by hand open beneath a directory, against an oracle."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acpbridge.permissions import beneath
from acpbridge.permissions.beneath import Opener, by_kernel, by_walking

READ = os.O_RDONLY | os.O_NONBLOCK

OPENERS = [by_walking, by_kernel] if beneath.opener() is by_kernel else [by_walking]


@pytest.fixture(params=OPENERS, ids=lambda one: one.__name__)
def way(request: pytest.FixtureRequest) -> Opener:
    chosen: Opener = request.param
    return chosen


@pytest.fixture
def top(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "top").mkdir()
    fd = os.open(tmp_path / "top", os.O_RDONLY)
    yield fd
    os.close(fd)


def open_now() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def opened(way: Opener, top: int, path: str) -> tuple[int, int] | int:
    """Return the identity of what is opened, or the number of the error."""
    before = open_now()
    try:
        fd = way(top, path.split("/"), READ)
    except OSError as error:
        assert open_now() == before, "a descriptor is left"
        return error.errno or -1
    assert not os.get_inheritable(fd)
    status = os.fstat(fd)
    os.close(fd)
    assert open_now() == before, "a descriptor is left"
    return status.st_dev, status.st_ino


def identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def test_g25_what_is_inside_opens_and_inner_links_lead_on(
    tmp_path: Path, top: int, way: Opener
) -> None:
    inside = tmp_path / "top"
    (inside / "a" / "b").mkdir(parents=True)
    (inside / "a" / "b" / "file").write_text("x", encoding="utf-8")
    (inside / "link").symlink_to("a/b")
    (inside / "a" / "up").symlink_to("../a/b/file")
    wanted = identity(inside / "a" / "b" / "file")
    for path in ("a/b/file", "link/file", "a/up", "./a//b/file"):
        assert opened(way, top, path) == wanted, path
    assert opened(way, top, "") == identity(inside)
    assert opened(way, top, "link") == identity(inside / "a" / "b")


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/etc/passwd", "link"),
        ("../out/secret", "link"),
        ("../top/file", "link"),  # out and in again is out
        ("..", "link/out/secret"),
        ("a/../../out/secret", "link"),
        ("/proc/self/root", "link/etc/passwd"),
    ],
)
def test_g25_no_link_leads_out(
    tmp_path: Path, top: int, way: Opener, target: str, path: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret").write_text("secret", encoding="utf-8")
    (tmp_path / "top" / "file").write_text("file", encoding="utf-8")
    (tmp_path / "top" / "a").mkdir()
    (tmp_path / "top" / "link").symlink_to(target)
    assert opened(way, top, path) == errno.EXDEV
    assert opened(way, top, "../out/secret") == errno.EXDEV


def test_g25_a_magic_link_is_not_followed(way: Opener) -> None:
    """`/proc/self/fd/N` of a pipe, `/proc/self/root` and `cwd` lead anywhere, past any check."""
    with Path("/proc/version").open(encoding="utf-8") as held:
        top = os.open("/proc", os.O_RDONLY)
        try:
            for name in ("root", "cwd", "exe", f"fd/{held.fileno()}"):
                assert opened(way, top, f"self/{name}") in (errno.ELOOP, errno.EXDEV), name
        finally:
            os.close(top)


def test_g25_a_ring_of_links_and_too_deep_a_walk_end(tmp_path: Path, top: int, way: Opener) -> None:
    (tmp_path / "top" / "one").symlink_to("two")
    (tmp_path / "top" / "two").symlink_to("one")
    assert opened(way, top, "one") == errno.ELOOP
    deep = "/".join(["d"] * (beneath.DEEPEST + 5))
    (tmp_path / "top" / deep).mkdir(parents=True)
    if way is by_walking:
        assert opened(way, top, deep) == errno.ENAMETOOLONG


def test_a_link_with_a_slash_at_its_end_is_a_directory_or_nothing(
    tmp_path: Path, top: int, way: Opener
) -> None:
    (tmp_path / "top" / "file").write_text("x", encoding="utf-8")
    (tmp_path / "top" / "link").symlink_to("file/")
    assert opened(way, top, "link") == errno.ENOTDIR
    assert opened(way, top, "file/x") == errno.ENOTDIR
    assert opened(way, top, "missing/x") == errno.ENOENT


def test_without_openat2_the_path_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beneath, "_OPENAT2", 100_000)
    beneath.opener.cache_clear()
    try:
        assert beneath.opener() is by_walking
    finally:
        beneath.opener.cache_clear()


# ---- Generated trees, and an oracle that knows neither openat2 nor a file system ----

NAMES = ("a", "b", "c")
name = st.sampled_from(NAMES)
step = st.sampled_from((*NAMES, "..", "."))
target = st.builds(
    lambda steps, absolute: ("/" if absolute else "") + "/".join(steps),
    st.lists(step, min_size=1, max_size=4),
    st.integers(0, 7).map(lambda n: n == 0),
)
node = st.recursive(
    st.one_of(st.just("file"), target.map(lambda t: ("link", t))),
    lambda inner: st.dictionaries(name, inner, max_size=3),
    max_leaves=12,
)
tree = st.dictionaries(name, node, min_size=1, max_size=3)

Tree = dict[str, object]


def build(folder: Path, what: Tree) -> None:
    for one, value in what.items():
        here = folder / one
        if isinstance(value, dict):
            here.mkdir()
            build(here, value)
        elif isinstance(value, tuple):
            here.symlink_to(value[1])
        else:
            here.write_text(one, encoding="utf-8")


def entry(top: Tree, names: list[str]) -> object:
    found: object = top
    for one in names:
        found = found.get(one) if isinstance(found, dict) else None
    return found


def oracle(top: Tree, path: list[str]) -> tuple[str, ...] | None:
    """Return where a path ends, by the tree alone; None where it is refused or not there."""
    at: list[str] = []
    todo, links = list(path), 0
    while todo:
        one = todo.pop(0)
        if not isinstance(entry(top, at), dict) or (one == ".." and not at):
            return None
        if one == "..":
            at.pop()
        elif one != ".":
            found = entry(top, [*at, one])
            if found is None:
                return None
            if not isinstance(found, tuple):
                at.append(one)
                continue
            links += 1
            if links > beneath.MOST_LINKS or found[1].startswith("/"):
                return None
            todo = found[1].split("/") + todo
    return tuple(at)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(tree=tree, paths=st.lists(st.lists(step, min_size=1, max_size=5), min_size=4, max_size=8))
def test_g25_both_ways_agree_with_the_oracle_on_any_tree(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree, paths: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    build(folder, tree)
    top = os.open(folder, os.O_RDONLY)
    try:
        for path in paths:
            where = oracle(tree, path)
            for way in OPENERS:
                found = opened(way, top, "/".join(path))
                if where is None:
                    assert isinstance(found, int), (way, path)
                else:
                    assert found == identity(folder.joinpath(*where)), (way, path)
    finally:
        os.close(top)
        with suppress(OSError):
            _remove(folder)


def _remove(folder: Path) -> None:
    for one in folder.iterdir():
        if one.is_dir() and not one.is_symlink():
            _remove(one)
        else:
            one.unlink()
    folder.rmdir()
