"""A file that is read and written for an agent: what is refused, and what is left after a crash."""

import errno
import os
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.faults import POINTS, Faults, no_faults
from acpbridge.permissions import textfiles
from acpbridge.permissions.beneath import Opener
from acpbridge.permissions.confine import Roots
from acpbridge.permissions.textfiles import LARGEST, look, look_to_write
from acpbridge.transport.helpers.libc import prctl
from tests.unit.killing import killed_at
from tests.unit.permissions.linkrace import OPENERS, Race

NOBODY = 65534
PR_SET_DUMPABLE = 4  # linux/prctl.h


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[Roots]:
    found = Roots.of([str(tmp_path)])
    yield found
    found.close()


def read(roots: Roots, path: Path | str) -> str:
    place = roots.place(str(path))
    return textfiles.read(roots, place, look(roots, place))


def write(roots: Roots, path: Path | str, content: str, faults: Faults = no_faults) -> None:
    place = roots.place(str(path))
    textfiles.write(roots, place, look_to_write(roots, place), content, faults=faults)


def refusal(caught: pytest.ExceptionInfo[BridgeError]) -> str:
    return f"{caught.value.code}: {caught.value.message}"


def reading(roots: Roots, path: Path | str) -> str:
    """Return with what a read is refused."""
    with pytest.raises(BridgeError) as caught:
        read(roots, path)
    return refusal(caught)


def writing(roots: Roots, path: Path | str, content: str = "new") -> str:
    """Return with what a write is refused."""
    with pytest.raises(BridgeError) as caught:
        write(roots, path, content)
    return refusal(caught)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# ---- Text ----


@pytest.mark.parametrize("text", ["", "one\r\ntwo\rthree\n", "\ufeffBOM", "ä\u2028\0 €𝄞", "\n" * 9])
def test_text_comes_back_as_it_was_to_the_byte(tmp_path: Path, roots: Roots, text: str) -> None:
    write(roots, tmp_path / "x", text)
    assert (tmp_path / "x").read_bytes() == text.encode()
    assert read(roots, tmp_path / "x") == text


def test_what_is_no_utf8_is_refused_and_never_mended(tmp_path: Path, roots: Roots) -> None:
    (tmp_path / "x").write_bytes(b"gr\xfc\xdfe")
    assert "file_failed" in reading(roots, tmp_path / "x")
    assert "no UTF-8 text: byte 2" in reading(roots, tmp_path / "x")
    assert "no UTF-8 text" in writing(roots, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"gr\xfc\xdfe"


def test_a_file_may_have_ten_megabytes_and_not_a_byte_more(tmp_path: Path, roots: Roots) -> None:
    (tmp_path / "x").write_bytes(b"x" * LARGEST)
    assert len(read(roots, tmp_path / "x")) == LARGEST
    with (tmp_path / "x").open("ab") as file:
        file.write(b"x")
    assert "message_too_large" in reading(roots, tmp_path / "x")
    assert "message_too_large" in writing(roots, tmp_path / "x")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    assert "message_too_large" in reading(roots, tmp_path / "sparse")


def test_a_file_that_grows_while_it_is_read_ends_at_the_limit(
    tmp_path: Path, roots: Roots, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(b"x" * 2000)
    fd = os.open(tmp_path / "x", os.O_RDONLY)
    try:
        monkeypatch.setattr(textfiles, "LARGEST", 1999)
        with pytest.raises(BridgeError) as caught:
            textfiles._bytes(roots.place(str(tmp_path / "x")), fd)
    finally:
        os.close(fd)
    assert caught.value.code == "message_too_large"


# ---- What is no file, or not there ----


def test_g25_only_regular_files_are_touched_and_nothing_hangs(tmp_path: Path, roots: Roots) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "sock"))
        for name in ("fifo", "folder", "sock"):
            assert "no regular file" in reading(roots, tmp_path / name), name
            assert "no regular file" in writing(roots, tmp_path / name), name
    assert names(tmp_path) == ["fifo", "folder", "sock"]
    devices = Roots.of(["/dev"])
    for name in ("/dev/null", "/dev/zero"):
        assert "no regular file" in reading(devices, name), name
        assert "no regular file" in writing(devices, name), name
    devices.close()


def test_the_root_itself_and_what_names_a_directory_are_refused(
    tmp_path: Path, roots: Roots
) -> None:
    (tmp_path / "x").write_text("x", encoding="utf-8")
    for path in (str(tmp_path), f"{tmp_path}/"):
        assert "directory of the session itself" in reading(roots, path)
        assert "directory of the session itself" in writing(roots, path)
    for path in (f"{tmp_path}/x/", f"{tmp_path}/x/."):
        assert "names a directory" in reading(roots, path)
        assert "names a directory" in writing(roots, path)


def test_a_missing_file_or_directory_is_told_as_such(tmp_path: Path, roots: Roots) -> None:
    (tmp_path / "dangling").symlink_to("none")
    for name in ("none", "dangling", "no/x"):
        assert reading(roots, tmp_path / name).startswith("no_such_file: Resource not found: ")
    assert writing(roots, tmp_path / "no" / "x").startswith("no_such_file: The directory of")
    (tmp_path / "x").touch()
    assert writing(roots, tmp_path / "x" / "y").startswith("file_failed")
    assert writing(roots, tmp_path / ("n" * 256)).startswith("file_failed")
    assert names(tmp_path) == ["dangling", "x"]


# ---- What a write may replace ----


def test_g25_a_write_follows_no_link_at_the_end(tmp_path: Path, roots: Roots) -> None:
    (tmp_path / "real").write_text("real", encoding="utf-8")
    for name, target in (("to", "real"), ("dangling", "none"), ("out", "/etc/passwd")):
        (tmp_path / name).symlink_to(target)
        assert "is a symbolic link" in writing(roots, tmp_path / name)
        assert (tmp_path / name).is_symlink()
    assert (tmp_path / "real").read_text(encoding="utf-8") == "real"
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("bit", [stat.S_ISUID, stat.S_ISGID])
def test_g25_what_runs_with_rights_of_its_own_is_not_written(
    tmp_path: Path, roots: Roots, bit: int
) -> None:
    (tmp_path / "x").write_text("x", encoding="utf-8")
    (tmp_path / "x").chmod(0o755 | bit)
    assert "rights of its own" in writing(roots, tmp_path / "x")
    assert (tmp_path / "x").read_text(encoding="utf-8") == "x"
    assert read(roots, tmp_path / "x") == "x"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o664, 0o444])
def test_a_write_keeps_the_mode(tmp_path: Path, roots: Roots, mode: int) -> None:
    (tmp_path / "x").write_text("x", encoding="utf-8")
    (tmp_path / "x").chmod(mode)
    write(roots, tmp_path / "x", "new")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == mode
    assert read(roots, tmp_path / "x") == "new"


@pytest.mark.parametrize(
    ("folder", "file"), [(0o755, 0o644), (0o700, 0o600), (0o775, 0o644), (0o750, 0o640)]
)
def test_a_new_file_is_as_open_as_its_directory_and_writable_by_its_owner_alone(
    tmp_path: Path, roots: Roots, folder: int, file: int
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in").chmod(folder)
    write(roots, tmp_path / "in" / "x", "new")
    assert stat.S_IMODE((tmp_path / "in" / "x").stat().st_mode) == file


def test_another_name_of_the_file_is_seen_and_keeps_what_it_has(
    tmp_path: Path, roots: Roots
) -> None:
    (tmp_path / "x").write_text("x", encoding="utf-8")
    (tmp_path / "y").hardlink_to(tmp_path / "x")
    place = roots.place(str(tmp_path / "x"))
    assert look(roots, place).links == look_to_write(roots, place).links == 2
    write(roots, tmp_path / "x", "new")
    assert (tmp_path / "y").read_text(encoding="utf-8") == "x"


def test_extended_attributes_stay(tmp_path: Path, roots: Roots) -> None:
    (tmp_path / "x").write_text("x", encoding="utf-8")
    try:
        os.setxattr(tmp_path / "x", "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    write(roots, tmp_path / "x", "new")
    assert os.getxattr(tmp_path / "x", "user.note") == b"kept"


ACL = "system.posix_acl_access"


def access_list(group: int, mask: int) -> bytes:
    """Return a list: all for the owner, reading for nobody, and so much for the group (acl(5))."""
    anyone = 0xFFFFFFFF
    rows = ((1, 7, anyone), (2, 4, NOBODY), (4, group, anyone), (16, mask, anyone), (32, 0, anyone))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


def test_the_access_list_stays_and_nobody_else_gets_in(tmp_path: Path, roots: Roots) -> None:
    """By its mode alone a file with a list would be open for its group."""
    plain, listed = tmp_path / "plain", tmp_path / "listed"
    for path in (plain, listed):
        path.write_text("x", encoding="utf-8")
        path.chmod(0o600)
    try:
        os.setxattr(listed, ACL, access_list(group=0, mask=4))
        os.setxattr(tmp_path, "system.posix_acl_default", access_list(group=7, mask=7))
    except OSError:
        pytest.skip("this file system has no access lists")
    before = os.getxattr(listed, ACL)
    for path in (plain, listed):
        write(roots, path, "new")
    assert os.getxattr(listed, ACL) == before
    assert ACL not in os.listxattr(plain), "that of the directory is for new files"
    assert stat.S_IMODE(plain.stat().st_mode) == 0o600


def test_the_draft_is_nobodys_before_it_has_the_access_list(tmp_path: Path, roots: Roots) -> None:
    (tmp_path / "x").write_text("x", encoding="utf-8")
    (tmp_path / "x").chmod(0o644)
    modes: list[int] = []

    def faults(point: str) -> int | None:
        if point == "file.write":
            (draft,) = (path for path in tmp_path.iterdir() if path.name != "x")
            modes.append(stat.S_IMODE(draft.stat().st_mode))
        return None

    write(roots, tmp_path / "x", "new", faults)
    assert modes == [0o600]


def as_nobody_does(work: Callable[[], object]) -> int:
    """Do something as nobody, for whom file modes mean something; return its exit status."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                prctl(PR_SET_DUMPABLE, 1)  # else its own /proc/self is root's
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(os.getuid() != 0, reason="needs two users")
def test_a_file_of_somebody_else_keeps_its_owner_or_is_not_written(
    tmp_path: Path, roots: Roots
) -> None:
    (tmp_path / "x").write_text("x", encoding="utf-8")
    os.chown(tmp_path / "x", NOBODY, NOBODY)
    write(roots, tmp_path / "x", "new")  # root may keep it
    status = (tmp_path / "x").stat()
    assert (status.st_uid, status.st_gid) == (NOBODY, NOBODY)
    tmp_path.chmod(0o755)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "of-root").write_text("of root", encoding="utf-8")
    (shared / "of-root").chmod(0o666)
    (shared / "secret").write_text("secret", encoding="utf-8")
    (shared / "secret").chmod(0o600)

    def as_nobody() -> None:
        assert "belongs to somebody else" in writing(roots, shared / "of-root")
        assert "permission denied" in reading(roots, shared / "secret")
        assert "permission denied" in writing(roots, shared / "secret")

    assert as_nobody_does(as_nobody) == 0
    assert names(shared) == ["of-root", "secret"]
    assert (shared / "of-root").read_text(encoding="utf-8") == "of root"


# ---- Between the question and the deed ----


def test_nothing_is_done_once_something_else_is_there(tmp_path: Path, roots: Roots) -> None:
    target = tmp_path / "x"
    place = roots.place(str(target))

    def writes(after: Callable[[], object], seen: textfiles.Seen) -> str:
        after()
        with pytest.raises(BridgeError) as caught:
            textfiles.write(roots, place, seen, "new")
        return refusal(caught)

    seen = look_to_write(roots, place)
    assert "changed since" in writes(lambda: target.write_text("a", encoding="utf-8"), seen)
    seen = look_to_write(roots, place)
    assert "changed since" in writes(lambda: target.write_text("b", encoding="utf-8"), seen)
    seen = look_to_write(roots, place)
    (tmp_path / "same").write_text("b", encoding="utf-8")
    assert "changed since" in writes(lambda: (tmp_path / "same").rename(target), seen)
    seen = look_to_write(roots, place)
    assert "changed since" in writes(target.unlink, seen)
    assert names(tmp_path) == []


def test_a_read_is_of_the_file_that_was_shown(tmp_path: Path, roots: Roots) -> None:
    (tmp_path / "shown").write_text("shown", encoding="utf-8")
    (tmp_path / "other").write_text("other", encoding="utf-8")
    place = roots.place(str(tmp_path / "shown"))
    seen = look(roots, place)
    (tmp_path / "other").rename(tmp_path / "shown")
    with pytest.raises(BridgeError, match="changed since"):
        textfiles.read(roots, place, seen)


def test_what_is_changed_while_it_is_written_stays(tmp_path: Path, roots: Roots) -> None:
    """The last look is right before the rename, when all else is done."""
    (tmp_path / "x").write_text("shown", encoding="utf-8")

    def faults(point: str) -> int | None:
        if point == "file.sync":
            (tmp_path / "x").write_text("edited", encoding="utf-8")
        return None

    with pytest.raises(BridgeError, match="changed since"):
        write(roots, tmp_path / "x", "new", faults)
    assert (tmp_path / "x").read_text(encoding="utf-8") == "edited"
    assert names(tmp_path) == ["x"]


def test_what_is_no_longer_wanted_is_not_written(tmp_path: Path, roots: Roots) -> None:
    place = roots.place(str(tmp_path / "x"))
    with pytest.raises(BridgeError) as caught:
        textfiles.write(roots, place, look_to_write(roots, place), "new", wanted=lambda: False)
    assert caught.value.code == "request_cancelled"
    assert names(tmp_path) == []


# ---- Cut off ----

FILE_POINTS = [point for point in POINTS if point.startswith("file.")]


def test_these_are_the_points_of_a_write() -> None:
    assert FILE_POINTS == ["file.write", "file.sync", "file.rename", "file.renamed"]


@pytest.mark.parametrize("where", FILE_POINTS)
def test_g17_a_kill_at_any_point_leaves_the_old_file_or_the_new_one_whole(
    tmp_path: Path, roots: Roots, where: str
) -> None:
    (tmp_path / "x").write_text("old" * 1000, encoding="utf-8")

    def work(kill: Faults) -> None:
        def faults(point: str) -> int | None:
            kill(point)
            return 7 if point == "file.write" else None

        write(roots, tmp_path / "x", "new" * 2000, faults)

    assert killed_at(where, 1, work)
    wanted = "new" * 2000 if where == "file.renamed" else "old" * 1000
    assert (tmp_path / "x").read_text(encoding="utf-8") == wanted
    drafts = [name for name in names(tmp_path) if name != "x"]
    assert all(name.startswith(".acpbridge-") and name.endswith(".tmp") for name in drafts)
    assert len(drafts) == (where != "file.renamed")


@pytest.mark.parametrize("where", ["file.write", "file.sync", "file.rename"])
def test_g28_a_failure_leaves_the_old_file_and_no_draft(
    tmp_path: Path, roots: Roots, where: str
) -> None:
    (tmp_path / "x").write_text("old", encoding="utf-8")

    def faults(point: str) -> int | None:
        if point == where:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return None

    with pytest.raises(BridgeError, match="no space left"):
        write(roots, tmp_path / "x", "new", faults)
    assert (tmp_path / "x").read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == ["x"]


def test_a_write_that_was_short_goes_on(tmp_path: Path, roots: Roots) -> None:
    write(roots, tmp_path / "x", "0123456789", lambda point: 3 if point == "file.write" else None)
    assert (tmp_path / "x").read_text(encoding="utf-8") == "0123456789"


# ---- Somebody swaps a directory for a link all the while ----


@pytest.mark.parametrize("way", OPENERS, ids=lambda one: one.__name__)
def test_g25_a_race_of_links_gets_nothing_out_and_nothing_in(tmp_path: Path, way: Opener) -> None:
    race = Race(tmp_path, way)
    with race.swapping():
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and not (race.tries >= 500 and race.seen_both_ways):
            race.attempt()
    assert race.escapes == 0
    assert race.seen_both_ways, race.got
