"""Markdown in pieces: where it is cut on its way makes no difference, and no word is lost."""

from hypothesis import given
from hypothesis import strategies as st

from acpbridge.cli.views.blocks import Block, Blocks, Limits

LINES = st.sampled_from(
    [
        "", "text", "more text", "# head", "---", "===", "- item", "  - nested", "    code",
        "1. one", "```py", "```", "~~~", "> quote", "| a | b |", "|---|---|", "a | b", "* * *",
        "<div>", "</div>", "[x]: http://y", "<!-- c", "-->", "\t", "&#27;", "x" * 40, "日本",
    ]
)  # fmt: skip
TEXTS = st.lists(LINES, max_size=30).map("\n".join)
LIMITS = st.builds(
    Limits,
    lines=st.integers(1, 12),
    code=st.integers(2, 6),
    size=st.sampled_from([1, 30, 10_000]),
    line=st.sampled_from([3, 10, 1_000]),
)


def cut(text: str, limits: Limits, *cuts: int) -> list[Block]:
    blocks = Blocks(limits)
    out: list[Block] = []
    start = 0
    for end in (*sorted(cuts), len(text)):
        blocks.feed(text[start:end])
        out += blocks.take()
        start = end
    return out + blocks.take(last=True)


@given(TEXTS, LIMITS, st.data())
def test_any_cutting_gives_the_same_blocks(text: str, limits: Limits, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    assert cut(text, limits, *cuts) == cut(text, limits)


@given(TEXTS)
def test_character_by_character_is_a_cutting_too(text: str) -> None:
    assert cut(text, Limits(), *range(len(text))) == cut(text, Limits())


@given(TEXTS, LIMITS)
def test_no_word_is_lost_or_moved(text: str, limits: Limits) -> None:
    out = "".join(block.source for block in cut(text, limits))
    words = "".join(out.split())
    rest = iter(words)
    # Only the fences of code that was cut in parts are repeated.
    assert all(char in rest for char in "".join(text.split()))


@given(TEXTS, LIMITS)
def test_what_is_not_finished_stays_small(text: str, limits: Limits) -> None:
    blocks = Blocks(limits)
    for char in text:
        blocks.feed(char)
        blocks.take()
        most = max(limits.lines, limits.code) + 1
        assert len(blocks.rest.strip("\n").split("\n")) <= most + 1


def test_a_block_is_finished_when_another_one_begins() -> None:
    blocks = Blocks()
    blocks.feed("one\n\n")
    assert blocks.take() == []
    blocks.feed("```\na\n\nb\n``")
    assert [block.source for block in blocks.take()] == ["one\n\n"]
    blocks.feed("`\n- x\n- y\n\n")
    assert [block.source for block in blocks.take()] == ["```\na\n\nb\n```\n"]
    assert blocks.preview() == [Block("- x\n- y\n\n")]
    assert blocks.take(last=True) == [Block("- x\n- y\n\n")]
    assert (blocks.rest, blocks.take(last=True)) == ("", [])


def test_code_goes_on_in_parts_that_are_code() -> None:
    text = "```py\n" + "x\n" * 7 + "```\nend"
    parts = cut(text, Limits(code=4))
    assert [(part.source, part.joined) for part in parts] == [
        ("```py\nx\nx\nx\n", False),
        ("```py\nx\nx\nx\n", True),
        ("```py\nx\n```\n", True),
        ("end", False),
    ]


def test_a_text_that_comes_in_one_piece_takes_no_longer_than_in_many() -> None:
    text = "a\n" * 50_000
    parts = cut(text, Limits())
    assert "".join(part.source for part in parts) == text
