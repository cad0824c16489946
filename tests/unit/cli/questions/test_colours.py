"""Colour changes no text, and tells apart what would come, go, or is doubtful."""

import re
import subprocess
import sys

import pytest

from acpbridge.cli.questions.colours import coloured

TEXT = """permission 1: edit
  title    a WARNING of its own
    | -old
    : er
    | +new [bold]x[/bold] :smile:
    1) Odd  [strange]  id odd  ! unknown kind"""


COLOUR = re.compile(r"\x1b\[([0-9;]*)m")


def test_the_text_stays_as_it_is_and_lines_have_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = coloured(TEXT)
    assert COLOUR.sub("", text) == TEXT + "\n"
    colours = [COLOUR.match(line) for line in text.splitlines()]
    assert [found and found[1] for found in colours] == ["1;33", "1;31", "31", "31", "32", "1;31"]


def test_without_colour_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured(TEXT) == TEXT + "\n"


def test_nothing_is_wrapped_or_cut() -> None:
    long = "x" * 5000 + "   "
    assert long in coloured(f"permission {long}")


def test_case_58_a_question_of_very_many_lines_is_painted_in_no_time() -> None:
    assert coloured(f"{TEXT}\n" * 50_000).count("| -old") == 50_000


def test_colours_are_imported_only_where_somebody_looks() -> None:
    code = "import acpbridge.cli.turn, sys; print(sorted({'markdown_it'} & {*sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8"
    )
    assert done.stdout == "[]\n"
