"""The note that somebody leaves who kills past a frozen daemon."""

import os
from pathlib import Path

import pytest

from acpbridge.controller.journal import Entry, Tree
from acpbridge.daemon import frozen, killed
from acpbridge.errors import BridgeError
from acpbridge.model.sessions import CloseReason

ONE, TWO = "agent:a:acp:1", "agent:a:acp:2"


def test_what_was_noted_is_read_until_it_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "killed.jsonl"
    assert killed.noted(path) == {}
    killed.forget(path)
    killed.note(path, {ONE: CloseReason.KILLED})
    killed.note(path, {TWO: CloseReason.PARENT})
    assert killed.noted(path) == {ONE: CloseReason.KILLED, TWO: CloseReason.PARENT}
    assert path.stat().st_mode & 0o777 == 0o600
    killed.forget(path)
    assert killed.noted(path) == {}


def test_a_torn_or_foreign_line_is_passed_over_g18(tmp_path: Path) -> None:
    path = tmp_path / "killed.jsonl"
    killed.note(path, {ONE: CloseReason.KILLED})
    with path.open("ab") as file:
        file.write(b'[]\n"x"\n{"key": 1}\n\xff\n{"key": "k", "reason": "allowed"}\n' + b"[" * 9999)
    assert killed.noted(path) == {ONE: CloseReason.KILLED}


def test_a_file_that_others_may_write_or_that_is_none_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "killed.jsonl"
    killed.note(path, {ONE: CloseReason.KILLED})
    path.chmod(0o620)
    assert killed.noted(path) == {}
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    assert killed.noted(tmp_path / "link") == {}
    with pytest.raises(BridgeError):
        killed.note(tmp_path / "link", {TWO: CloseReason.KILLED})
    os.mkfifo(tmp_path / "fifo", 0o600)
    assert killed.noted(tmp_path / "fifo") == {}
    with pytest.raises(BridgeError) as caught:
        killed.note(tmp_path / "fifo", {TWO: CloseReason.KILLED})
    assert caught.value.code == "store_full"


def test_all_that_was_spawned_below_a_session_ends_with_it_g12() -> None:
    """Without `*tree.above` in the line, `idle` and what is below it are not found."""

    def tree(*above: str) -> Tree:
        return Tree(Entry(1, 1), Entry(2, 2), parent=above[0] if above else "", above=above)

    trees = {
        "a": tree(),
        "b": tree("a"),
        "c": tree("b"),  # as an older daemon wrote it: no more than the parent
        "d": tree("x"),
        "x": tree("x"),
        "deep": tree("idle", "b", "a"),  # `idle` has no process any more
    }
    found = frozen.with_descendants(["a"], trees)
    assert found == {
        "a": CloseReason.KILLED,
        **dict.fromkeys(("b", "c", "idle", "deep"), CloseReason.PARENT),
    }
    assert [name for name in found if name != "c"] == ["deep", "idle", "b", "a"]
    assert frozen.with_descendants(["c", "b"], trees) == {
        **dict.fromkeys(("c", "b"), CloseReason.KILLED),
        **dict.fromkeys(("idle", "deep"), CloseReason.PARENT),
    }
    assert list(frozen.with_descendants(["idle"], trees)) == ["deep", "idle"]
    assert set(frozen.known(trees)) == {*trees, "idle"}


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "killed"
    killed.note(path, {ONE: CloseReason.KILLED})
    with path.open("ab") as file:
        file.write(b'{"key": "agent:a:acp:9", "rea')
    killed.note(path, {TWO: CloseReason.KILLED})
    assert list(killed.noted(path)) == [ONE, TWO]


def test_g28_a_note_that_is_written_in_part_is_an_error_and_harms_no_later_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "killed.jsonl"

    def faults(point: str) -> int | None:
        return 7 if point == "killed.note" else None

    with pytest.raises(BridgeError) as caught:
        killed.note(path, {ONE: CloseReason.KILLED}, faults)
    assert caught.value.code == "store_full"
    killed.note(path, {TWO: CloseReason.KILLED})
    assert killed.noted(path) == {TWO: CloseReason.KILLED}


def test_no_flip_of_a_bit_closes_another_session_g18(tmp_path: Path) -> None:
    """Keys may be one bit apart.

    Without the sum in `killed.noted` a flip yields `agent:b:main`, which nobody killed.
    """
    path = tmp_path / "killed"
    killed.note(path, {"agent:a:main": CloseReason.KILLED})
    text = path.read_bytes()
    for at in range(len(text) * 8):
        flipped = bytearray(text)
        flipped[at // 8] ^= 1 << at % 8
        path.write_bytes(flipped)
        assert killed.noted(path) in ({}, {"agent:a:main": CloseReason.KILLED}), at
    path.write_text('{"key": "agent:a:main", "reason": "killed"}\n', encoding="utf-8")
    assert killed.noted(path) == {"agent:a:main": CloseReason.KILLED}  # of an older command


def test_every_prefix_of_the_note_is_a_part_of_it_g18(tmp_path: Path) -> None:
    path = tmp_path / "killed"
    whole = {ONE: CloseReason.KILLED, TWO: CloseReason.PARENT}
    killed.note(path, whole)
    text = path.read_bytes()
    for size in range(len(text)):
        path.write_bytes(text[:size])
        assert killed.noted(path).items() <= whole.items()
