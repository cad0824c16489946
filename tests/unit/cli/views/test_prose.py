"""The agent's Markdown as rows: they fit, hide nothing, and never begin where ours do."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.cli.terminal.cells import cut, width_of, wrap
from acpbridge.cli.views.blocks import Block, Blocks
from acpbridge.cli.views.prose import INDENT, plain, prose

DOCUMENT = """# A heading that is rather long for a narrow terminal

Some *soft* and **strong** words with `code` and a [link](https://example.com/a?b=c).
&#27;[31m ![picture](http://x/y.png) <!-- hidden --> <b>markup</b> \x1b[2J\u202e

- one
  - nested with words that go on for long enough to be wrapped somewhere
1. first

> quoted words

```python
def f(x: int) -> str:
\treturn f"{x} and a line that is much too long for any narrow terminal to be shown whole"
```

| a | b |
|---|---|
| 1 | a cell with rather many words in it |

[x]: http://hidden.example
end 日本語のテキスト
"""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def shown(text: str, width: int) -> list[str]:
    blocks = Blocks()
    blocks.feed(text)
    return [row for block in blocks.take(last=True) for row in prose(block, width)]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_rows_fit_and_leave_the_left_edge_to_us(width: int) -> None:
    for row in [*shown(DOCUMENT, width), *plain(DOCUMENT, width)]:
        assert width_of(row) <= width
        assert row == "" or row.startswith(INDENT)


def test_nothing_is_hidden_and_nothing_steers_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = "\n".join(shown(DOCUMENT, 200))
    assert "\x1b[" in text
    words = " ".join(COLOUR.sub("", text).split())
    assert words.isprintable()
    for part in (
        "link (https://example.com/a?b=c)",
        "&#27;[31m",
        "picture (http://x/y.png)",
        "<!-- hidden -->",
        "<b>markup</b>",
        "⟨U+001B⟩[2J⟨U+202E⟩",
        "[x]: http://hidden.example",
    ):
        assert part in words


@pytest.mark.parametrize("depth", [1, 5, 8, 9, 10, 11, 19, 20, 21, 300])
@pytest.mark.parametrize("mark", ["> ", "- "])
def test_deep_nesting_hides_nothing(mark: str, depth: int) -> None:
    assert "words" in "\n".join(shown(mark * depth + "words", 2000))


def test_no_color_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in "\n".join(shown(DOCUMENT, 80))


@given(st.text(max_size=200), st.sampled_from([1, 2, 7, 20, 80]))
def test_any_text_is_harmless_at_any_width(text: str, width: int) -> None:
    for row in [*shown(text, width), *plain(text, width), *prose(Block(text), width)]:
        assert "\x1b" not in COLOUR.sub("", row)
        assert "\n" not in row


@given(st.text("ab 日é", max_size=60), st.integers(2, 30))
def test_wrapped_rows_fit_hang_and_lose_no_word(text: str, width: int) -> None:
    first, *more = wrap(text, width, "  " if width > 4 else "")
    assert all(width_of(row) <= max(width, 2) for row in (first, *more))
    assert all(row.startswith("  ") for row in more if width > 4)
    assert "".join("".join((first, *more)).split()) == "".join(text.split())


@given(st.text("ab 日é", max_size=60), st.integers(0, 30))
def test_what_is_cut_fits(text: str, width: int) -> None:
    row = cut(text, width)
    assert width_of(row) <= width
    assert row == text or row.endswith("…") or width == 0
