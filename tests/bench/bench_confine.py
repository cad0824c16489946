"""How often a race of links gets out of a session's directory, by each way to open what is below.

Run it by hand: `python -m tests.bench.bench_confine [SECONDS]`. It asserts nothing. Another process
swaps a directory for a link that leads out, all the while. `by_name` is what not to do, for a
comparison: a check by `realpath`, then an open by name. 0 of n says: at most 3/n, with 95 %.
"""

import errno
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from acpbridge.permissions import confine
from acpbridge.permissions.beneath import Opener
from acpbridge.permissions.confine import path_of
from tests.unit.permissions.linkrace import OPENERS, Race

SECONDS = 10.0


def by_name(top: int, names: Sequence[str], flags: int) -> int:
    """Check a path by its text, then open it: in between it may be another one."""
    root = Path(path_of(top))
    named = root.joinpath(*names)
    if not named.resolve().is_relative_to(root):
        raise OSError(errno.EXDEV, "out")
    return os.open(named, flags)


def figures(way: Opener, seconds: float) -> str:
    """Return one line about one way."""
    with tempfile.TemporaryDirectory() as folder:
        race = Race(Path(folder), way)
        began = time.monotonic()
        with race.swapping():
            while time.monotonic() - began < seconds:
                race.attempt()
        took = (time.monotonic() - began) / race.tries
        ends = ", ".join(f"{count} {word}" for word, count in sorted(race.got.items()))
        return (
            f"{way.__name__:<11} {race.tries:>7} attempts  {race.escapes:>5} escapes  "
            f"at most {3 / race.tries:.0e}  {took * 1e6:.0f} us each  ({ends})"
        )


def main() -> None:
    """Print the figures."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    for way in OPENERS:
        print(figures(way, seconds))
    # Nor is it looked at again where that led.
    confine._check_below = lambda place, real: None
    print(figures(by_name, seconds))


if __name__ == "__main__":
    main()
