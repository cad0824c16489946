"""Words between the daemon and its helpers arrive as they were said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.transport.helpers import wire
from acpbridge.transport.helpers.wire import Order

WORDS = st.binary(max_size=20).filter(lambda word: b"\0" not in word)
NAMES = WORDS.filter(lambda word: word != b"" and b"=" not in word)


@given(
    program=WORDS,
    argv=st.lists(WORDS),
    env=st.dictionaries(NAMES, WORDS),
    cwd=WORDS,
    linger=st.integers(0, 10**6),
)
def test_an_order_arrives_as_it_was_given(
    program: bytes, argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, linger: int
) -> None:
    order = Order(program, argv, env, cwd, linger / 1000)
    again = Order.decode(order.encode())
    assert (again.program, again.argv, again.env, again.cwd) == (program, argv, env, cwd)
    assert again.linger == linger / 1000


@pytest.mark.parametrize(
    ("argv", "env", "words"),
    [
        ([b"a\0b"], {}, "NUL"),
        ([], {b"A": b"\0"}, "NUL"),
        ([], {b"": b"x"}, "name"),
        ([], {b"A=B": b"x"}, "name"),
    ],
)
def test_an_order_that_exec_would_change_is_refused(
    argv: list[bytes], env: dict[bytes, bytes], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Order(b"/bin/x", argv, env, b"/", 1).encode()


@given(st.sets(st.integers(1, 2**22), max_size=100))
def test_pids_are_one_word_both_ways(pids: set[int]) -> None:
    word = wire.encode_pids(pids)
    assert b" " not in word
    assert wire.decode_pids(word) == tuple(sorted(pids))


def test_a_receipt_always_fits_into_one_message() -> None:
    assert len(wire.encode_pids(range(4_000_000, 4_100_000))) * 2 < wire.MESSAGE_LIMIT
