"""What is kept of a terminal's output (C20, case 83)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.runtimes.terminal_output import MOST_KEPT, SLACK, TerminalOutput

PIECES = st.lists(st.binary(max_size=40) | st.text(max_size=20).map(str.encode), max_size=12)


def fed(limit: int, pieces: list[bytes]) -> TerminalOutput:
    output = TerminalOutput(limit)
    for piece in pieces:
        output.feed(piece)
    output.feed(b"", final=True)
    return output


@given(PIECES, st.integers(0, 60), st.data())
def test_c20_the_same_bytes_come_to_the_same_text_however_they_were_cut(
    pieces: list[bytes], limit: int, data: st.DataObject
) -> None:
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    edges = [0, *cuts, len(whole)]
    others = [whole[a:b] for a, b in itertools.pairwise(edges)]
    one, other = fed(limit, pieces), fed(limit, others)
    assert (one.text(), one.truncated) == (other.text(), other.truncated)


@given(PIECES, st.integers(0, 60))
def test_c20_what_is_kept_is_the_newest_whole_characters_within_the_limit(
    pieces: list[bytes], limit: int
) -> None:
    said = b"".join(pieces).decode("utf-8", "replace")
    output = fed(limit, pieces)
    kept = output.text()
    assert said.endswith(kept)
    assert len(kept.encode()) <= limit
    assert output.truncated == (len(said.encode()) > limit)
    if output.truncated and len(kept) < len(said):
        # One character more would not have been within the limit.
        assert len(said[-len(kept) - 1 :].encode()) > limit
    else:
        assert kept == said


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 1001, 10**12])
def test_case_83_a_flood_of_two_byte_characters_is_cut_between_them(limit: int) -> None:
    output = TerminalOutput(limit)
    for _ in range(MOST_KEPT // SLACK + 2):
        output.feed("é\n".encode() * (SLACK // 3))
        assert len(output.text().encode()) <= min(limit, MOST_KEPT)
    kept = output.text().encode()
    assert min(limit, MOST_KEPT) - len(kept) in {0, 1}
    assert "�" not in output.text()
    assert output.truncated


def test_half_a_character_waits_for_its_other_half_and_not_for_ever() -> None:
    output = TerminalOutput()
    output.feed(b"one \xc3")
    assert output.text() == "one "
    output.feed(b"\xa9 \xf0\x9f")
    assert output.text() == "one é "
    output.feed(b"", final=True)
    assert output.text() == "one é �"
    assert not output.truncated


def test_what_is_held_in_memory_is_bounded_whatever_was_written() -> None:
    output = TerminalOutput(1000)
    for _ in range(200):
        output.feed(b"\xff" * 10_000)  # each byte comes to three
        assert len(output._kept) <= 1000 + SLACK + 30_000
    assert len(output.text().encode()) == 999
