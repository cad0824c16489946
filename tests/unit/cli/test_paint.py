"""Colour changes no text, and tells apart what would come, go, or is doubtful."""

import subprocess
import sys

import pytest

from acpbridge.cli.paint import painted, show

TEXT = """permission 1: edit
  title    a WARNING of its own
    | -old
    | +new [bold]x[/bold] :smile:
    1) Odd  [strange]  id odd  ! unknown kind"""


def test_the_text_stays_as_it_is_and_lines_have_colours() -> None:
    text = painted(TEXT)
    assert text.plain == TEXT
    styles = [str(span.style) for span in text.spans]
    assert styles == ["bold yellow", "bold red", "red", "green", "bold red"]


def test_nothing_is_wrapped_or_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 5000
    show(f"permission {long}")
    assert long in capsys.readouterr().err


def test_colours_are_imported_only_where_somebody_looks() -> None:
    code = "import acpbridge.cli.turn, sys; print(sorted({'markdown_it'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"
