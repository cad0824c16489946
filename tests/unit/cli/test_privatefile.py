"""A file that is there whole or not at all."""

import stat
from pathlib import Path

import pytest

from acpbridge.cli.privatefile import private_file
from acpbridge.errors import BridgeError


def test_it_is_there_once_it_is_whole_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with private_file(target, force=False) as file:
        file.write(b"one")
        assert not target.exists()
    assert target.read_bytes() == b"one"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [target]


def test_what_exists_is_replaced_by_force_only_also_when_it_came_up_meanwhile(
    tmp_path: Path,
) -> None:
    target = tmp_path / "out"

    def write() -> None:
        with private_file(target, force=False) as file:
            file.write(b"new")
            target.write_bytes(b"theirs")

    with pytest.raises(BridgeError, match="exists"):
        write()
    assert target.read_bytes() == b"theirs"
    with pytest.raises(BridgeError, match="exists"), private_file(target, force=False):
        raise AssertionError
    with private_file(target, force=True) as file:
        file.write(b"new")
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_is_not_followed_and_a_directory_is_refused(tmp_path: Path) -> None:
    target, secret = tmp_path / "out", tmp_path / "secret"
    secret.write_bytes(b"theirs")
    target.symlink_to(secret)
    with pytest.raises(BridgeError, match="exists"), private_file(target, force=False):
        raise AssertionError
    with private_file(target, force=True) as file:
        file.write(b"new")
    assert secret.read_bytes() == b"theirs"
    assert not target.is_symlink()
    with pytest.raises(BridgeError, match="directory"), private_file(tmp_path, force=True):
        raise AssertionError


def test_nothing_is_left_of_what_failed(tmp_path: Path) -> None:
    def write() -> None:
        with private_file(tmp_path / "out", force=False) as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert list(tmp_path.iterdir()) == []
