"""The command: `python -m tests.chaos [--seed N] [--seeds K] [--seconds S] [--plan]`."""

import argparse
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from tests.chaos.plan import make_plan
from tests.chaos.report import table
from tests.chaos.session import Result, merged, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.chaos", description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, help="replays a schedule; else one is drawn and printed")
    add("--seeds", type=int, default=1, help="so many runs, each with the next seed")
    add("--seconds", type=float, default=45.0, help="of load in each")
    add("--plan", action="store_true", help="only print the schedule")
    add("--keep", type=Path, help="work in this new directory and leave it")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    if options.plan:
        for fault in make_plan(seed, options.seconds):
            print(fault)
        return 0
    if options.keep is not None:
        options.keep.mkdir(mode=0o700)
    results: list[Result] = []
    with suppress(KeyboardInterrupt):  # the figures of the runs that were finished are shown
        for number in range(seed, seed + options.seeds):
            print(f"seed {number}", file=sys.stderr, flush=True)
            results.append(run(number, options.seconds, options.keep))
            _complain(results[-1])
    if results:
        print(table(results))
    return 0 if len(results) == options.seeds and not merged(results) else 1


def _complain(result: Result) -> None:
    for name, found in result.broken.items():
        print(f"  {name}: {len(found)}", *found[:4], sep="\n    ", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
