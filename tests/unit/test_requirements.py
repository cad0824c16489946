"""The table of rules and the tests agree: what is not `later` is cited, what is cited is known.

A test cites a rule in its name or its docstring, a module in its docstring. Comments and other
strings count for nothing. When the two differ, the message says which marks to change.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests import requirements
from tests.requirements import REQUIREMENTS, State, later, now, part

TESTS = Path(requirements.__file__).parent
NO_CITATIONS = {Path(requirements.__file__), Path(__file__)}  # they only speak of ids

# ---- Reading names ---------------------------------------------------------------------------

# At the head of a name each kind of id counts, at its tail all but pairs of numbers (`4_1`), for
# they may be a version or a section. In between, only those that nothing else looks like: `p99`
# and `c1` are also words.
NAME_LETTER = r"(?P<letter>[gpac])(?P<number>\d+)"
NAME_DASHED = r"c_(?P<dashed>\d+)"
NAME_WORD = r"(?P<word>row|case)(?:_(?P<one>\d+)|s_(?P<many>\d+(?:_(?:(?:and|to)_)?\d+)*))"
NAME_DOTTED = r"(?P<dotted>3(?:_\d+){2,}[a-z]?|3_acc\d+)"
NAME_PAIR = r"(?P<pair>[014]_\d+b?)"
NAME_ID = rf"(?:{NAME_WORD}|{NAME_DASHED}|{NAME_LETTER}|{NAME_DOTTED})"
NAME_HEAD = re.compile(rf"(?:{NAME_ID}|{NAME_PAIR})(?:_|$)")
NAME_TAIL = re.compile(rf"(?:_{NAME_ID})+$")
NAME_INSIDE = re.compile(rf"(?<![a-z\d])(?:{NAME_WORD}|g(?P<g>\d+))(?![a-z\d])")


def in_name(name: str) -> set[str]:
    """The ids in the name of a test."""
    text = name.removeprefix("test_")
    found, rest = opening(text)
    if tail := NAME_TAIL.search(rest):
        found |= opening(tail[0].removeprefix("_"))[0]
    for match in NAME_INSIDE.finditer(rest):
        found |= named(match.groupdict())
    return found


def opening(text: str) -> tuple[set[str], str]:
    """The ids that a name begins with, and the rest of it."""
    found: set[str] = set()
    while match := NAME_HEAD.match(text):
        found |= named(match.groupdict())
        text = text[match.end() :]
    return found, text


def named(parts: Mapping[str, str | None]) -> set[str]:
    """The ids of one match in a name."""
    if word := parts["word"]:
        numbers = parts["one"] or parts["many"] or ""
        return {f"{word} {n}" for n in counted(numbers.replace("_", " "))}
    if letter := parts.get("letter"):
        return {f"{letter.upper()}{parts['number']}"}
    if dashed := parts.get("dashed"):
        return {f"C-{dashed}"}
    if dotted := parts.get("dotted") or parts.get("pair"):
        family, _, rest = dotted.partition("_")
        return {f"{family}-{rest.replace('_', '.').replace('acc', 'ACC')}"}
    return {f"G{parts['g']}"}


# ---- Reading docstrings ----------------------------------------------------------------------

RANGE = r"(?:\.\.|-| to )"
ALONE = r"(?<![\w.+\\#-])"  # no part of a word, a number, a path's end or a code point
END = r"(?![\w-])"
# "C0 and C1 controls" are characters.
LETTER = re.compile(
    rf"{ALONE}(?!C[01]\b[^.:;]{{0,20}}\bcontrol)"
    rf"(?P<letter>[GPAC])(?P<numbers>\d+(?:{RANGE}(?P=letter)\d+)?){END}"
)
MANY = rf"\d+(?:(?:,| and|, and|{RANGE}) ?\d+)*"
WORD = re.compile(
    rf"{ALONE}(?P<word>row|case)(?: (?P<one>\d+)|s (?P<many>{MANY})){END}", re.IGNORECASE
)
PLAIN = re.compile(rf"{ALONE}(?:C-\d+|3-ACC\d+|3-\d+(?:\.\d+)+[a-z]?){END}")
# "1-5" may be a count of seconds: it is an id only in a list of ids that opens a line.
SHORT = r"[014]-\d+b?|3-\d+(?:\.\d+)*[a-z]?"
ANY = rf"(?:{SHORT}|3-ACC\d+|C-\d+|[GPAC]\d+|(?:[Rr]ow|[Cc]ase)s? \d+)"
LISTED = re.compile(rf"^\s*({ANY}(?:(?:, | and ){ANY})*)(?=[:.,]|$)", re.MULTILINE)


def in_docstring(text: str) -> set[str]:
    """The ids in a docstring."""
    flat = " ".join(text.split())
    found = set(PLAIN.findall(flat))
    for match in LETTER.finditer(flat):
        letter = match["letter"]
        found |= {f"{letter}{n}" for n in counted(match["numbers"].replace(letter, ""))}
    for match in WORD.finditer(flat):
        numbers = match["one"] or match["many"]
        found |= {f"{match['word'].lower()} {n}" for n in counted(numbers)}
    for ids in LISTED.findall(text):
        found |= set(re.findall(rf"{ALONE}(?:{SHORT}){END}", ids))
    return found


def counted(text: str) -> list[int]:
    """The numbers of "4, 5 and 7", and those of "4-7" or "4 to 7", ends included."""
    numbers: list[int] = []
    for between, digits in re.findall(r"(\D*)(\d+)", text):
        through = numbers and re.fullmatch(rf"{RANGE} ?", between)
        numbers += range(numbers[-1] + 1, int(digits) + 1) if through else [int(digits)]
    return numbers


# ---- Reading the tests -----------------------------------------------------------------------


def citations(source: str) -> Iterator[tuple[str, int]]:
    """Each id that a module cites, with the line of the test or of the module."""
    tree = ast.parse(source)
    for id in in_docstring(ast.get_docstring(tree) or ""):
        yield id, 1
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("test_"):
            for id in in_name(node.name) | in_docstring(ast.get_docstring(node) or ""):
                yield id, node.lineno


def all_citations() -> dict[str, str]:
    """Each id that any test cites, with one place where it does."""
    cited: dict[str, str] = {}
    for path in sorted(TESTS.rglob("*.py")):
        if path not in NO_CITATIONS:
            for id, line in citations(path.read_text(encoding="utf-8")):
                cited.setdefault(id, f"{path.relative_to(TESTS.parent)}:{line}")
    return cited


def disagreements(
    table: Mapping[str, requirements.Requirement], cited: Mapping[str, str]
) -> list[str]:
    """What to change in the table or in the tests, a line each, in the order of the table."""
    lines = [f"cited but not in the table: {id} ({cited[id]})" for id in cited if id not in table]
    for id, requirement in table.items():
        if requirement.state is State.LATER and id in cited:
            lines.append(f"cited but marked later: {id} ({cited[id]})")
        elif requirement.state is not State.LATER and id not in cited:
            lines.append(f"marked {requirement.state.value} but not cited: {id}")
    return lines


# ---- The tests -------------------------------------------------------------------------------


def test_every_rule_that_is_not_for_later_is_cited_and_every_citation_is_of_a_rule() -> None:
    lines = disagreements(REQUIREMENTS, all_citations())
    assert not lines, "\n".join(["the table of rules and the tests differ:", *lines])


def test_each_rule_is_one_short_line_of_its_own() -> None:
    lines = [requirement.line for requirement in REQUIREMENTS.values()]
    assert len(set(lines)) == len(lines)
    assert [line for line in lines if not 20 <= len(line) <= 95 or line.endswith(".")] == []


def test_each_id_of_the_table_can_be_cited() -> None:
    for id in REQUIREMENTS:
        assert in_docstring(f"{id}: a rule.") == {id}
        spelled = re.sub(r"[-. ]", "_", id).lower()
        assert in_name(f"test_{spelled}_is_kept") == {id}
        at_the_tail = set() if re.fullmatch(r"[014]-\d+b?", id) else {id}
        assert in_name(f"test_it_is_kept_{spelled}") == at_the_tail


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("test_g7_status_is_read_from_the_kernel", {"G7"}),
        ("test_g3_g4_g5_nothing_is_left", {"G3", "G4", "G5"}),
        ("test_g22_row_18_without_anybody", {"G22", "row 18"}),
        ("test_rows_04_05_06_of_options", {"row 4", "row 5", "row 6"}),
        ("test_rows_4_to_6_and_8_of_options", {"row 4", "row 5", "row 6", "row 8"}),
        ("test_row_05_without_options", {"row 5"}),
        ("test_row_5_2_options", {"row 5"}),
        ("test_an_answer_as_in_case_26", {"case 26"}),
        ("test_cases_25_and_26_a10_c10_p3", {"case 25", "case 26", "A10", "C10", "P3"}),
        ("test_a_kill_as_g1_asks", {"G1"}),
        ("test_c_1_the_libraries_are_used", {"C-1"}),
        ("test_3_1_2_1a_commands_parse", {"3-1.2.1a"}),
        ("test_3_acc1_4_7b_side_by_side", {"3-ACC1", "4-7b"}),
        ("test_g77_is_read_too", {"G77"}),
        ("test_a_cancel_answers_all_c10_a14", {"C10", "A14"}),
        ("test_noise_gets_no_byte_cases_16_18_24", {"case 16", "case 18", "case 24"}),
        ("test_a_key_is_read_back_row_3_3_1_1c", {"row 3", "3-1.1c"}),
        ("test_two_ids_are_alike_1_1", set()),
        ("test_the_p99_of_a1_in_c1_and_4_1_more", set()),
        ("test_a_big1_arrow_1_in_showcase_2_and_mug7_rows", set()),
        ("test_1_agent", set()),
        ("test_cases_of_rows", set()),
    ],
)
def test_names_are_read(name: str, ids: set[str]) -> None:
    assert in_name(name) == ids


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("G1, G2: the receipt names all.", {"G1", "G2"}),
        ("As G7 and (C10) ask; A5/A6.", {"G7", "C10", "A5", "A6"}),
        ("G3-G5, P1..P3, A1 to A2.", {"G3", "G4", "G5", "P1", "P2", "P3", "A1", "A2"}),
        ("Case 3: two events.", {"case 3"}),
        ("What cases 25, 26 and\n    30 say.", {"case 25", "case 26", "case 30"}),
        ("Rows 4-6 and 9; row 14, 15 times.", {"row 4", "row 5", "row 6", "row 9", "row 14"}),
        ("Stands on C-1 and 3-1.1a, 3-ACC6.", {"C-1", "3-1.1a", "3-ACC6"}),
        ("0-1, 4-7b and 3-3.1.18a: fields.", {"0-1", "4-7b", "3-3.1.18a"}),
        ("A rule.\n\n4-9. One explanation.", {"4-9"}),
        ("G99 is read too.", {"G99"}),
        ("Waits 1-5 seconds, 0-9 digits.", set()),
        ("C0 and C1 controls, a C1 control.", set()),
        ("0xA1, ABC1, A1B2, c1, g7, x.C1, U+A1, utf-C1, G7-like, \\C1", set()),
        ("A row of 3, a staircase 3, the showcases 3 and rows.", set()),
    ],
)
def test_docstrings_are_read(text: str, ids: set[str]) -> None:
    assert in_docstring(text) == ids


def test_only_tests_and_modules_cite() -> None:
    source = '''"""A module of G1."""
# G2 in a comment
TEXT = "G3"

def helper_g4():
    """G5 in a helper."""

class Some:
    """G6 of a class."""

    async def test_g7_in_a_class(self):
        """And row 8."""

def test_something():
    "Case 9."
    assert "G10", "G11"
'''
    assert sorted(citations(source)) == [("G1", 1), ("G7", 11), ("case 9", 14), ("row 8", 11)]


def test_each_kind_of_disagreement_is_told() -> None:
    table = {"G1": now("a"), "G2": part("b"), "G3": later("c"), "G4": now("d"), "G5": later("e")}
    cited = {"G9": "x.py:9", "G3": "x.py:3", "G4": "x.py:4"}
    assert disagreements(table, cited) == [
        "cited but not in the table: G9 (x.py:9)",
        "marked now but not cited: G1",
        "marked part but not cited: G2",
        "cited but marked later: G3 (x.py:3)",
    ]
