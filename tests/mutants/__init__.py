"""Guards that are deleted on purpose, and the test that notices each.

Each file `AREA.toml` beside this one lists mutants of that area; `python -m tests.mutants` applies
them one by one to a copy of the project and demands that the named test fails.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent


@dataclass(frozen=True)
class Mutant:
    """One guard and its deletion.

    Attributes:
        area: the file that lists it, without the suffix.
        rule: id of the rule that the guard keeps, as in tests/requirements.py.
        guard: what the guard does, in words.
        file: where it is, from the project's root.
        old: its text, which occurs exactly once there.
        new: what replaces it.
        test: pytest's id of the test that fails then.
    """

    area: str
    rule: str
    guard: str
    file: str
    old: str
    new: str
    test: str

    def applied(self, text: str) -> str:
        """Return the file's text without the guard.

        Raises:
            ValueError: the guard is not there, or there more than once.
        """
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.rule}, {self.guard}: found {count} times in {self.file}")
        return text.replace(self.old, self.new)


def load() -> list[Mutant]:
    """Return all mutants, area by area, in the order of their files."""
    return [
        Mutant(area=path.stem, **row)
        for path in sorted(HERE.glob("*.toml"))
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    ]
