"""G25, case 55: which paths are truly below a directory of the session, and none else."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from acpbridge.errors import BridgeError
from acpbridge.permissions.beneath import by_kernel, by_walking, opener
from acpbridge.permissions.confine import LONGEST_PATH, Roots, path_of

OPENERS = [by_walking, by_kernel] if opener() is by_kernel else [by_walking]


@pytest.fixture(params=OPENERS, ids=lambda one: one.__name__)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Roots]:
    """Return the roots of a session that works in `app`, next to `app-evil`."""
    for name in ("app", "app-evil"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "x").write_text(name, encoding="utf-8")
    roots = Roots.of([str(tmp_path / "app")], request.param)
    yield roots
    roots.close()


def read(roots: Roots, path: str | Path) -> str:
    fd = roots.open(roots.place(str(path)), os.O_RDONLY)
    with os.fdopen(fd, encoding="utf-8") as file:
        return file.read()


def why_not(roots: Roots, path: str | Path) -> str:
    """Return the words with which a path is refused."""
    with pytest.raises(BridgeError) as caught:
        os.close(roots.open(roots.place(str(path)), os.O_RDONLY))
    assert caught.value.code == "invalid_params"
    return caught.value.message


def test_case_55_what_is_below_the_root_passes(tmp_path: Path, app: Roots) -> None:
    assert read(app, tmp_path / "app" / "x") == "app"
    assert read(app, f"/{tmp_path}//app/.//x") == "app"


def test_case_55_a_sibling_with_the_same_prefix_is_not_below(tmp_path: Path, app: Roots) -> None:
    assert "not below a directory" in why_not(app, tmp_path / "app-evil" / "x")
    assert "not below a directory" in why_not(app, f"{tmp_path}/ap")
    assert "not below a directory" in why_not(app, "/etc/passwd")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("{app}/../app-evil/x", "`..`"),
        ("{app}/sub/../x", "`..`"),  # by its text it stays inside; by links it need not
        ("{app}/sub/..", "`..`"),
        ("x", "absolute"),
        ("", "absolute"),
        (".", "absolute"),
        ("~/x", "absolute"),
        ("~root/x", "absolute"),
        ("file://{app}/x", "absolute"),
        ("{app}/\0x", "NUL"),
        ("{app}/x\0", "NUL"),
    ],
)
def test_case_55_every_other_way_to_write_it_is_refused(
    tmp_path: Path, app: Roots, path: str, words: str
) -> None:
    assert words in why_not(app, path.format(app=tmp_path / "app"))


def test_case_55_without_a_root_nothing_passes(tmp_path: Path) -> None:
    """An empty root must not come to mean the directory of this process."""
    (tmp_path / "x").write_text("x", encoding="utf-8")
    for paths in ([], [""], ["."], ["relative"], [str(tmp_path / "none")], [f"{tmp_path}\0"]):
        roots = Roots.of(paths)
        assert "not below a directory" in why_not(roots, tmp_path / "x")
        assert "not below a directory" in why_not(roots, Path.cwd() / "README.md")
        roots.close()


def test_g25_links_lead_on_inside_and_never_out(tmp_path: Path, app: Roots) -> None:
    inside = tmp_path / "app"
    (inside / "in").symlink_to("sub/../x")
    (inside / "out").symlink_to("../app-evil")
    (inside / "all").symlink_to("/")
    (inside / "round").symlink_to("../app/x")
    (inside / "magic").symlink_to("/proc/self/root")
    assert read(app, inside / "in") == "app"
    for path in ("out/x", "all/etc/passwd", "round", "magic/etc/passwd", "out"):
        assert "leads out" in why_not(app, inside / path), path


def test_a_path_has_so_many_bytes_at_most(tmp_path: Path, app: Roots) -> None:
    head = f"{tmp_path}/app"
    fits = head + "/" * (LONGEST_PATH - len(head) - 1) + "x"
    assert len(fits) == LONGEST_PATH
    assert read(app, fits) == "app"
    assert "4096 bytes" in why_not(app, f"/{fits}")
    umlauts = f"{head}/{'ä' * 2048}"
    assert "4096 bytes" in why_not(app, umlauts)


def test_the_deepest_root_counts_and_a_root_may_be_named_by_either_name(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / "deep" / "x").write_text("deep", encoding="utf-8")
    (tmp_path / "real" / "deep" / "up").symlink_to("../y")
    (tmp_path / "real" / "y").write_text("y", encoding="utf-8")
    (tmp_path / "alias").symlink_to("real")
    roots = Roots.of([str(tmp_path / "alias"), str(tmp_path / "real" / "deep")])
    for name in ("alias", "real"):
        assert read(roots, tmp_path / name / "deep" / "x") == "deep"
    assert "leads out" in why_not(roots, tmp_path / "real" / "deep" / "up")
    assert read(roots, tmp_path / "alias" / "deep" / "up") == "y"  # as it is named, below the other
    roots.close()


def test_g25_a_root_stays_what_it_was_when_it_was_opened(tmp_path: Path, app: Roots) -> None:
    """Put another directory or a link in its place: the session's own is still the one."""
    (tmp_path / "app").rename(tmp_path / "moved")
    (tmp_path / "app").symlink_to("app-evil")
    assert read(app, tmp_path / "app" / "x") == "app"


def test_g25_what_the_kernel_makes_up_is_not_below_a_root_of_everything() -> None:
    """The daemon's environment, secrets and all, is a regular file of procfs."""
    for top in ("/", "/proc"):
        roots = Roots.of([top])
        for path in ("/proc/self/environ", "/proc/version", f"/proc/{os.getpid()}/environ"):
            assert "not below a directory" in why_not(roots, path)
        roots.close()


def test_a_name_that_is_no_text_is_refused(tmp_path: Path, app: Roots) -> None:
    folder = tmp_path / "app" / "\udcff"
    folder.mkdir()
    (folder / "x").touch()
    (tmp_path / "app" / "link").symlink_to(folder.name)
    assert "not below a directory" in why_not(app, tmp_path / "app" / "link" / "x")


def test_a_directory_is_a_root_or_below_one(tmp_path: Path, app: Roots) -> None:
    assert app.folder(str(tmp_path / "app")) == str(tmp_path / "app")
    assert app.folder(f"{tmp_path}/app/sub/") == str(tmp_path / "app" / "sub")
    (tmp_path / "app" / "out").symlink_to("../app-evil")
    for path in (tmp_path, tmp_path / "app-evil", tmp_path / "app" / "out"):
        with pytest.raises(BridgeError):
            app.folder(str(path))
    with pytest.raises(NotADirectoryError):
        app.folder(str(tmp_path / "app" / "x"))


def test_roots_that_are_in_use_are_closed_when_the_last_is_done(tmp_path: Path) -> None:
    """The number of a closed descriptor becomes another session's: a late thread may not use it."""
    roots = Roots.of([str(tmp_path)])
    fd = roots.place(str(tmp_path / "x")).root.fd
    with roots.in_use():
        with roots.in_use():
            roots.close()
        assert path_of(fd) == str(tmp_path)
        with pytest.raises(BridgeError) as caught, roots.in_use():
            raise AssertionError
        assert caught.value.code == "request_cancelled"
        assert path_of(fd) == str(tmp_path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    roots.close()
