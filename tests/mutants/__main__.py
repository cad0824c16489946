"""`python -m tests.mutants [--report FILE] [WORD ...]`: delete each guard, and see a test fail.

A word chooses an area or a rule; with none, all run, for half an hour. The exit status is 1 when a
mutant survives, or when a test fails without one. The report is a table in Markdown.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.mutants import PROJECT, Mutant, load

COPIED = (
    "acpbridge",
    "fixtures",
    "tests",
    "typings",
    "examples",
    "docs",
    "pyproject.toml",
    "README.md",
)

# One test, started anew; it hangs when its mutant does. Seconds.
LIMIT = 120.0

PASSED, FAILED = 0, 1

# Where pytest has its scratch directories says nothing.
SCRATCH = re.compile(r"/\S*?/pytest-of-\w+/pytest-\d+")


@dataclass(frozen=True)
class Seen:
    """How a test ended: pytest's exit status, its words for the failure, and how long it took."""

    code: int
    words: str
    seconds: float


def run(test: str, copy: Path) -> Seen:
    """Run one test in the copy, and what it started ends with it."""
    # The copy comes before the checkout that is installed, in the tests and in what they start.
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    # What waits for a deleted guard need not wait long.
    env["TEST_LIMIT"] = "15"
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-x", "-p", "no:cacheprovider"]
    argv += ["-o", "timeout=60", test]
    began = time.monotonic()
    process = subprocess.Popen(
        argv,
        cwd=copy,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Seen(-1, f"it hung for {LIMIT:g} s", LIMIT)
    return Seen(process.returncode, failure(said), time.monotonic() - began)


def failure(said: str) -> str:
    """Return the line in which pytest says what failed."""
    lines = [line[1:].strip() for line in said.splitlines() if line.startswith("E  ")]
    first = next(iter(lines), "") or next(reversed(said.splitlines()), "")
    return SCRATCH.sub("...", first.replace(str(Path.cwd()), "."))[:160]


def judge(mutant: Mutant, copy: Path, whole: dict[str, Seen]) -> tuple[bool, str]:
    """Apply a mutant, run its test, and undo it; tell whether it was caught, and by what words."""
    if mutant.test not in whole:
        whole[mutant.test] = run(mutant.test, copy)
    if whole[mutant.test].code != PASSED:
        return False, f"fails without the mutant: {whole[mutant.test].words}"
    target = copy / mutant.file
    text = target.read_text(encoding="utf-8")
    target.write_text(mutant.applied(text), encoding="utf-8")
    try:
        seen = run(mutant.test, copy)
    finally:
        target.write_text(text, encoding="utf-8")
    if seen.code == FAILED:
        return True, seen.words
    return (
        False,
        "SURVIVED" if seen.code == PASSED else f"pytest ended with {seen.code}: {seen.words}",
    )


def main() -> int:
    """Judge the mutants that were asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("words", nargs="*", metavar="WORD", help="an area or a rule")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a table to it")
    chosen = parser.parse_args()
    mutants = [m for m in load() if not chosen.words or {m.area, m.rule} & {*chosen.words}]
    rows = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copy = Path(directory)
        copy_project(copy)
        whole: dict[str, Seen] = {}
        for mutant in mutants:
            caught, said = judge(mutant, copy, whole)
            verdict = "caught" if caught else "NOT CAUGHT"
            print(f"{verdict}  {mutant.rule}: {mutant.guard}: {said}", flush=True)
            rows.append((mutant, caught, said))
    count = sum(caught for _, caught, _ in rows)
    print(f"{count} of {len(rows)} caught")
    if chosen.report is not None:
        chosen.report.write_text(report(rows), encoding="utf-8")
    return 1 if count < len(rows) or not rows else 0


def copy_project(copy: Path) -> None:
    """Copy what the tests need of the project."""
    for name in COPIED:
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)


def report(rows: list[tuple[Mutant, bool, str]]) -> str:
    """Return the table of a run."""
    count = sum(caught for _, caught, _ in rows)
    words = " ".join(dict.fromkeys(mutant.area for mutant, _, _ in rows))
    lines = [
        "# Guards that were deleted, and what noticed",
        "",
        f"{count} of {len(rows)} caught. Made by `python -m tests.mutants --report FILE {words}`.",
        "",
        "| rule | deleted guard | in | noticed by | with |",
        "|---|---|---|---|---|",
    ]
    for mutant, caught, said in rows:
        test = mutant.test.rpartition("/")[2].replace("::", " ")
        plain = said.replace("`", "'").replace("|", "/")
        words = f"`{plain}`" if caught else f"**{plain}**"
        cells = (mutant.rule, mutant.guard, f"`{mutant.file}`", f"`{test}`", words)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
