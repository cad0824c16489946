"""Stored sessions of an agent that would destroy them: put in order, and nothing else touched."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from acpbridge.config.catalogue import GEMINI
from acpbridge.runtimes import session_files
from acpbridge.runtimes.session_files import settle

ID = "ab12cd34-0000-4000-8000-000000000000"
NOW = datetime(2026, 1, 2, 3, 4, 59, tzinfo=UTC)
HEADER = json.dumps({"sessionId": ID, "kind": "main"}, separators=(",", ":"))
SET = '{"$set":{"messages":[{"id":"x","type":"user"}]}}'
SAID = '{"id":"m1","type":"user","content":[{"text":"hello"}]}'


def put(home: Path, minute: str, *lines: str, id: str = ID) -> Path:
    folder = home / ".gemini/tmp/project/chats"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"session-2026-01-02T{minute}-{id[:8]}.jsonl"
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def names(home: Path) -> list[str]:
    return sorted(path.name[19:24] for path in home.rglob("session-*"))


async def ordered(home: Path, session_id: str | None = ID, *, running: bool = False) -> bool:
    env = {"HOME": str(home)}
    return await settle(GEMINI.session_files, env, session_id, NOW, running=running)


async def test_the_empty_file_of_a_load_is_removed_and_the_conversation_kept(
    tmp_path: Path,
) -> None:
    put(tmp_path, "01-00", HEADER, SET, SAID)
    put(tmp_path, "02-00", HEADER, SET)
    put(tmp_path, "03-04", HEADER)
    assert await ordered(tmp_path, running=True)
    assert names(tmp_path) == ["01-00"]


async def test_a_file_of_this_minute_gets_an_earlier_one_unless_it_is_in_use(
    tmp_path: Path,
) -> None:
    path = put(tmp_path, "03-04", HEADER, SAID)
    assert not await ordered(tmp_path, running=True)
    assert names(tmp_path) == ["03-04"]
    text = path.read_bytes()
    assert await ordered(tmp_path)
    assert names(tmp_path) == ["03-02"]
    assert (path.with_name(path.name.replace("03-04", "03-02"))).read_bytes() == text


async def test_no_file_is_ever_written_over(tmp_path: Path) -> None:
    put(tmp_path, "03-04", HEADER, SAID)
    put(tmp_path, "03-02", "something else")
    assert not await ordered(tmp_path)
    assert names(tmp_path) == ["03-02", "03-04"]


@pytest.mark.parametrize("lines", [(HEADER, SAID), ("{}",), ("no JSON",), ("[1]",), ("",)])
async def test_what_is_not_understood_is_left_alone(tmp_path: Path, lines: tuple[str, ...]) -> None:
    # Two conversations; or a file that names no session, beside one that is in order.
    put(tmp_path, "01-00", HEADER, SAID)
    other = put(tmp_path, "02-00", *lines)
    assert await ordered(tmp_path) is (lines != (HEADER, SAID))
    assert other.exists()
    assert names(tmp_path) == ["01-00", "02-00"]


async def test_another_session_with_a_like_name_and_links_are_left_alone(tmp_path: Path) -> None:
    put(tmp_path, "01-00", HEADER, SAID)
    theirs = json.dumps({"sessionId": ID[:-1] + "1"})
    put(tmp_path, "02-00", theirs)
    target = tmp_path / "target"
    target.write_text(HEADER, encoding="utf-8")
    link = put(tmp_path, "02-30")
    link.unlink()
    link.symlink_to(target)
    assert await ordered(tmp_path)
    assert target.exists()
    assert names(tmp_path) == ["01-00", "02-00", "02-30"]


@pytest.mark.parametrize("session_id", [None, "", "*", "../../etc/passwd", "[a-z]" * 4, "a" * 65])
async def test_no_id_of_an_agent_becomes_a_pattern_or_a_path(
    tmp_path: Path, session_id: str | None
) -> None:
    put(tmp_path, "01-00", HEADER, SAID)
    put(tmp_path, "02-00", HEADER)
    assert not await ordered(tmp_path, session_id)
    assert names(tmp_path) == ["01-00", "02-00"]


async def test_nothing_is_done_where_nothing_is_known(tmp_path: Path) -> None:
    put(tmp_path, "01-00", HEADER, SAID)
    put(tmp_path, "02-00", HEADER)
    assert not await settle(None, {"HOME": str(tmp_path)}, ID, NOW)
    assert not await settle(GEMINI.session_files, {}, ID, NOW)
    assert names(tmp_path) == ["01-00", "02-00"]


async def test_a_file_without_an_end_holds_nobody_up_and_is_kept(tmp_path: Path) -> None:
    path = put(tmp_path, "03-04", HEADER)
    with path.open("ab") as file:
        file.truncate(1 << 36)  # of nothing but zeros: no line, and more than any memory
    assert await ordered(tmp_path)
    assert names(tmp_path) == ["03-02"]


def test_what_has_become_a_directory_meanwhile_costs_no_descriptor(tmp_path: Path) -> None:
    """With `os.fdopen` in `_open` one is left behind by each look."""
    before = set(Path("/proc/self/fd").iterdir())
    for _ in range(5):
        with pytest.raises(IsADirectoryError):
            session_files._open(tmp_path)
    assert len(set(Path("/proc/self/fd").iterdir())) == len(before)
