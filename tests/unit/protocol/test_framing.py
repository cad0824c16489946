"""Bytes to lines: cuts do not matter, memory is bounded, what stands around a long line is kept."""

import sys
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.protocol.framing import BOM, HEAD, LineSplitter, TooLong

Lines = list[bytes | TooLong]

# Bytes at which a splitter can go wrong, and enough others.
PIECES = st.sampled_from([b"\n", b"\r", b"\r\n", BOM, b" ", b"a", b"{}", "é".encode(), b"\xff"])
STREAMS = st.lists(PIECES | st.binary(max_size=8), max_size=30).map(b"".join)


def split(chunks: list[bytes], limit: int = 64) -> Lines:
    splitter = LineSplitter(limit)
    out: Lines = []
    for chunk in chunks:
        out += splitter.feed(chunk)
    return out + splitter.finish()


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@given(STREAMS, st.lists(st.integers(0, 1000), max_size=10), st.integers(1, 20))
def test_any_cut_into_chunks_gives_the_same_lines_case_15(
    stream: bytes, places: list[int], limit: int
) -> None:
    whole = split([stream], limit)
    assert split(cut(stream, places), limit) == whole
    assert split([stream[i : i + 1] for i in range(len(stream))], limit) == whole


@given(STREAMS)
def test_lines_are_those_of_a_plain_split(stream: bytes) -> None:
    expected = []
    for line in stream.split(b"\n"):
        bare = line.removeprefix(BOM).removesuffix(b"\r")
        if bare.strip():
            expected.append(bare)
    assert split([stream], limit=len(stream) + 1) == expected


def test_crlf_blank_lines_and_a_byte_order_mark_case_19() -> None:
    stream = BOM + b"one\r\n\r\n   \n\ntwo\r\n" + BOM + b"\n" + BOM + b"three\n"
    assert split([stream]) == [b"one", b"two", b"three"]


def test_the_last_line_needs_no_newline_case_23() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntwo") == [b"one"]
    assert splitter.finish() == [b"two"]
    assert splitter.finish() == []


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1 << 20, 8 << 20])
def test_long_lines_arrive_whole_case_13(size: int) -> None:
    line = b"a" * size
    stream = line + b"\nnext\n"
    chunks = [stream[i : i + 65_536] for i in range(0, len(stream), 65_536)]
    assert split(chunks, limit=8 << 20) == [line, b"next"]


@given(st.integers(0, 40), st.lists(st.integers(0, 1000), max_size=5))
def test_a_line_over_the_limit_is_one_report_and_its_neighbours_are_kept(
    over: int, places: list[int]
) -> None:
    limit = 20
    long = b"x" * (limit + 1 + over)
    got = split(cut(b"before\n" + long + b"\nafter\n" + long, places), limit)
    too_long = TooLong(long[:limit], limit)
    assert got == [b"before", too_long, b"after", too_long]


def test_a_line_of_exactly_the_limit_is_no_fault() -> None:
    assert split([b"x" * 20 + b"\n" + b"y" * 20], limit=20) == [b"x" * 20, b"y" * 20]


def test_the_head_of_a_long_line_is_bounded() -> None:
    (line,) = split([b"x" * (3 * HEAD)], limit=2 * HEAD)
    assert isinstance(line, TooLong)
    assert len(line.head) == HEAD


def test_memory_is_bounded_by_the_limit_whatever_the_pieces() -> None:
    limit = 1 << 20
    splitter = LineSplitter(limit)
    pieces = [bytes([65 + i % 26]) * 2 for i in range(26)]
    tracemalloc.start()
    try:
        for i in range(limit):  # twice the limit, in pieces of two bytes
            splitter.feed(pieces[i % 26])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * limit


def test_ten_megabytes_in_small_pieces_are_not_quadratic() -> None:
    """An unfinished line is moved only when its buffer grows: count how often it does."""
    splitter = LineSplitter()
    size, moves, moved, before = 10 << 20, 0, 0, 0
    piece = b"x" * 64
    for _ in range(size // len(piece)):
        splitter.feed(piece)
        now = sys.getsizeof(splitter._begun)
        if now != before:
            moves, moved, before = moves + 1, moved + now, now
    assert splitter.feed(b"\n") == [b"x" * size]
    assert moves < 200
    assert moved < 20 * size
