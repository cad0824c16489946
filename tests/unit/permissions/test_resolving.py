"""Where a path leads: every link followed, nothing guessed."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.permissions.resolving import LONGEST, MOST_LINKS, resolve, resolver


def test_links_are_followed_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "away").symlink_to("/etc")
    (tmp_path / "real" / "up").symlink_to("..")
    base = os.path.realpath(tmp_path)
    assert resolve(f"{tmp_path}/link/below") == f"{base}/real/below"
    assert resolve(f"{tmp_path}/link/away/passwd") == "/etc/passwd"
    assert resolve(f"{tmp_path}/link/up/link/./below//") == f"{base}/real/below"
    # The parent of where a link leads, not of where it stands.
    assert resolve(f"{tmp_path}/link/below/..") == f"{base}/real"
    assert resolve("/") == "/"
    assert resolve("/../..") == "/"


def test_what_does_not_exist_stays_below_where_it_would_be(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("real/none")
    (tmp_path / "file").touch()
    base = os.path.realpath(tmp_path)
    assert resolve(f"{tmp_path}/link/none/x") == f"{base}/real/none/x"
    assert resolve(f"{tmp_path}/dangling") == f"{base}/real/none"
    assert resolve(f"{tmp_path}/dangling/x") == f"{base}/real/none/x"
    assert resolve(f"{tmp_path}/file/x") == f"{base}/file/x"


def test_where_nobody_can_tell_nothing_is_guessed(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    for path in (
        "",
        "relative",
        "/x\0y",
        "/" + "x/" * LONGEST,
        "/" + "x" * 300,  # longer than a name can be
        "/\ud800",
        f"{tmp_path}/one",
        # Whoever makes what is missing chooses what is above it.
        f"{tmp_path}/none/../etc",
    ):
        assert resolve(path) is None, path[:50]


@pytest.mark.parametrize(
    "path", ["/proc/self/root/etc/passwd", "/proc/self", "/proc/1/cwd/x", "/dev/fd/0", "/dev/stdin"]
)
def test_a_magic_link_leads_to_another_place_for_whoever_follows_it(path: str) -> None:
    assert resolve(path) is None


def test_a_plain_file_of_proc_is_one() -> None:
    assert resolve("/proc/cpuinfo") == "/proc/cpuinfo"


def test_no_more_links_are_followed_than_the_kernel_does(tmp_path: Path) -> None:
    (tmp_path / "0").touch()
    for number in range(1, MOST_LINKS + 2):
        (tmp_path / str(number)).symlink_to(str(number - 1))
    assert resolve(f"{tmp_path}/{MOST_LINKS}") == f"{os.path.realpath(tmp_path)}/0"
    assert resolve(f"{tmp_path}/{MOST_LINKS + 1}") is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_directory_that_may_not_be_searched_is_a_doubt() -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)  # to be passed through, which those of pytest are not
        Path(folder, "closed").mkdir(mode=0o700)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setuid(65534)
                assert resolve(f"{folder}/none") == f"{os.path.realpath(folder)}/none"
                assert resolve(f"{folder}/closed/x") is None
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_time_of_all_looks_together_is_bounded() -> None:
    assert resolver(60)("/etc") == "/etc"
    late = resolver(-1)
    with pytest.raises(TimeoutError):
        late("/etc")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("tree")
    (base / "a" / "b").mkdir(parents=True)
    (base / "a" / "l").symlink_to("../a/b")
    (base / "m").symlink_to(base / "a")
    (base / "b").symlink_to("m/l/..")
    return base


@given(st.lists(st.sampled_from(["a", "b", "l", "m", "..", ".", ""]), max_size=8))
def test_what_exists_is_found_where_the_kernel_finds_it(tree: Path, parts: list[str]) -> None:
    path = "/".join([str(tree), *parts])
    try:
        expected = os.path.realpath(path, strict=True)
    except OSError:
        return  # it does not exist
    assert resolve(path) == expected
