"""The agent's Markdown as rows for a terminal. Imports rich, so only where somebody looks.

Every row is indented: what stands at the left edge is ours alone, whatever an agent writes.
"""

from typing import Final

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, TableElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from acpbridge.cli.terminal.paint import rows
from acpbridge.cli.views.blocks import Block, parser
from acpbridge.model.display import visible

INDENT: Final = "  "

# Longer lines than this are hard to read; only code and tables may be wider. Columns.
WIDEST_PROSE: Final = 100

# Colours of the terminal itself, so that it suits a light one as well as a dark one.
THEME: Final = "ansi_dark"


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        self.text.justify = "left"
        self.text.stylize("bold underline" if self.tag in ("h1", "h2") else "bold")
        yield self.text


class _CodeBlock(CodeBlock):
    """Highlighted, without a background: what is copied from it has no blanks that nobody wrote."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        code = str(self.text).rstrip().expandtabs(4)
        found = Syntax(code, self.lexer_name, theme=THEME, word_wrap=True)
        yield Padding(found.highlight(code), (0, 0, 0, 2))


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                part.box = box.SIMPLE_HEAD
            yield part


class _Markdown(Markdown):
    elements = {  # noqa: RUF012 - as in the class it comes from
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "table_open": _Table,
    }

    def __init__(self, source: str) -> None:
        super().__init__("", hyperlinks=False, code_theme=THEME)
        made = parser()
        self.markup = source
        self.parsed = made.parse(source)
        # The parser passes over what is nested deeper, and so would hide it.
        self.whole = all(token.level + 2 < made.options.maxNesting for token in self.parsed)


def prose(block: Block, width: int) -> list[str]:
    """Return a block of Markdown as rows of at most `width` columns, indented."""
    source = visible(block.source)
    room = width - len(INDENT)
    wide = _is_wide(source)
    made = _Markdown(source)
    if not made.whole:
        return plain(block.source, width)
    return _indented(rows(made, max(room if wide else min(room, WIDEST_PROSE), 1)))


def plain(text: str, width: int) -> list[str]:
    """Return text as it is, in rows of at most `width` columns, indented."""
    room = max(width - len(INDENT), 1)
    return _indented(rows(Text(visible(text).expandtabs(4), overflow="fold"), room))


def _is_wide(source: str) -> bool:
    head = source.lstrip()[:3]
    return head in ("```", "~~~") or head.startswith("|")


def _indented(lines: list[str]) -> list[str]:
    while lines and not lines[0]:
        lines = lines[1:]
    while lines and not lines[-1]:
        lines = lines[:-1]
    return [INDENT + line if line else "" for line in lines]
