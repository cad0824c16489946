"""What runs, written down: whole or not there, and evidence only with start ticks and boot."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.controller.journal import Entry, Journal, Tree
from acpbridge.transport.helpers import kernel

ENTRIES = st.builds(Entry, st.integers(1, 2**22), st.integers(0, 2**60))
MEMBERS = st.lists(ENTRIES, max_size=3).map(tuple)
TREES = st.builds(
    Tree,
    ENTRIES,
    ENTRIES,
    MEMBERS,
    st.text(),
    parent=st.text(),
    above=st.lists(st.text(), max_size=3).map(tuple),
    beside=MEMBERS,
)
JOURNALS = st.builds(
    Journal,
    boot_id=st.text(),
    uid=st.integers(0, 2**32 - 1),
    daemon=ENTRIES,
    keeper=ENTRIES,
    trees=st.dictionaries(st.text(), TREES, max_size=3),
    guard=st.none() | ENTRIES,
    home=st.text(),
    above=MEMBERS,
    left=MEMBERS,
)
SAMPLE = Journal(
    boot_id="boot",
    uid=1000,
    daemon=Entry(10, 100),
    keeper=Entry(11, 101),
    trees={"agent:x:main": Tree(Entry(12, 102), Entry(13, 103), (Entry(14, 104),), "ab")},
)


def written(path: Path) -> dict[str, Any]:
    """Write the sample; return what the file holds, without the sum that would betray a change."""
    SAMPLE.write(path)
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    del value["crc"]
    return value


@given(JOURNALS)
def test_what_is_read_is_what_was_written(journal: Journal) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "processes.json")
        journal.write(path)
        assert Journal.read(path) == journal


def test_the_journal_of_a_daemon_before_an_upgrade_is_read(tmp_path: Path) -> None:
    path = tmp_path / "processes.json"
    value = written(path)
    for key in ("guard", "home", "above", "left"):
        del value[key]
    for tree in value["sessions"].values():
        del tree["parent"], tree["above"]
    path.write_text(json.dumps(value), encoding="utf-8")
    assert Journal.read(path) == SAMPLE


def test_the_file_is_ours_alone_and_no_part_of_it_is_left(tmp_path: Path) -> None:
    path = tmp_path / "processes.json"
    before = os.umask(0)
    try:
        SAMPLE.write(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["processes.json"]


def test_every_prefix_reads_as_nothing_or_as_the_whole_g18(tmp_path: Path) -> None:
    path = tmp_path / "processes.json"
    SAMPLE.write(path)
    text = path.read_bytes()
    for size in range(len(text)):
        path.write_bytes(text[:size])
        assert Journal.read(path) is None
    path.write_bytes(text + b"\n")
    assert Journal.read(path) == SAMPLE


def test_every_flip_of_a_bit_reads_as_nothing_or_as_what_was_written_g18_g6(tmp_path: Path) -> None:
    """One bit makes one pid another one, and two processes may have started in the same tick.

    Without the sum in `Journal.read` the first flip of a digit reads as another journal.
    """
    path = tmp_path / "processes.json"
    SAMPLE.write(path)
    text = path.read_bytes()
    read = 0
    for at in range(len(text) * 8):
        flipped = bytearray(text)
        flipped[at // 8] ^= 1 << at % 8
        path.write_bytes(flipped)
        found = Journal.read(path)
        assert found in (None, SAMPLE), at
        read += found is not None
    assert read < 8 * len('"crc"')  # in the name of the sum alone


def test_what_stands_in_its_place_holds_nobody_up_case_65(tmp_path: Path) -> None:
    path = tmp_path / "processes.json"
    os.mkfifo(path, 0o600)
    assert Journal.read(path) is None
    SAMPLE.write(path)
    assert Journal.read(path) == SAMPLE
    path.chmod(0o620)
    assert Journal.read(path) is None
    (tmp_path / "link").symlink_to(path)
    path.chmod(0o600)
    assert Journal.read(tmp_path / "link") is None
    os.mkfifo(tmp_path / "processes.json.part")
    replace(SAMPLE, uid=7).write(path)
    assert Journal.read(path) == replace(SAMPLE, uid=7)


def test_whoever_is_the_daemons_is_named_by_its_entries() -> None:
    found = replace(SAMPLE, guard=Entry(20, 200), left=(Entry(21, 201),)).entries()
    assert found == {(11, 101), (12, 102), (13, 103), (14, 104), (20, 200), (21, 201)}


WRONG: dict[str, list[object]] = {
    "version": [0, 2, None, "1.0"],
    "uid": [None, "x", [], {}],
    "daemon": [None, 5, [], {}, {"pid": 1}],
    "keeper": [{"pid": pid, "startTicks": 1} for pid in (-1, 0, "x", None, 1e999)],
    "sessions": [None, [], "x", {"a": None}, {"a": {}}],
}


@pytest.mark.parametrize(("key", "value"), [(key, v) for key in WRONG for v in WRONG[key]])
def test_a_file_of_another_shape_reads_as_nothing(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "processes.json"
    path.write_text(json.dumps(written(path) | {key: value}), encoding="utf-8")
    assert Journal.read(path) is None


@pytest.mark.parametrize("pid", [0, -1, -12345])
@pytest.mark.parametrize("where", ["shim", "agent", "members"])
def test_a_pid_that_names_a_group_is_refused_g6(tmp_path: Path, where: str, pid: int) -> None:
    path = tmp_path / "processes.json"
    value = written(path)
    bad = {"pid": pid, "startTicks": 1}
    value["sessions"]["agent:x:main"][where] = [bad] if where == "members" else bad
    path.write_text(json.dumps(value), encoding="utf-8")
    assert Journal.read(path) is None


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"\xff\xfe", b"[" * 100_000, b"1" * 5000])
def test_garbage_reads_as_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "processes.json"
    path.write_bytes(data)
    assert Journal.read(path) is None


def test_no_file_and_a_directory_read_as_nothing(tmp_path: Path) -> None:
    assert Journal.read(tmp_path / "processes.json") is None
    assert Journal.read(tmp_path) is None


@given(st.binary() | st.text().map(lambda text: json.dumps(text).encode()))
def test_any_bytes_read_as_nothing(data: bytes) -> None:
    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        assert Journal.read(Path(file.name)) is None


def test_only_a_journal_of_this_boot_and_this_user_means_anything() -> None:
    def journal(boot: str, uid: int) -> Journal:
        return Journal(boot, uid, Entry(1, 1), Entry(1, 1))

    assert journal(kernel.boot_id(), os.getuid()).of_this_boot()
    assert not journal("other", os.getuid()).of_this_boot()
    assert not journal("", os.getuid()).of_this_boot()
    assert not journal(kernel.boot_id(), os.getuid() + 1).of_this_boot()


def test_an_entry_lives_only_with_its_start_ticks() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        row = kernel.read_process(process.pid)
        assert row is not None
        assert Entry(process.pid, row.start_ticks).alive()
        assert not Entry(process.pid, row.start_ticks + 1).alive()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not Entry(process.pid, row.start_ticks).alive()  # a zombie
    assert not Entry(process.pid, row.start_ticks).alive()
