"""The command: `python -m tests.chaos [--seed N] [--seeds K] [--seconds S] [--plan]`."""

import argparse
import secrets
import sys
from pathlib import Path

from tests.chaos.plan import make_plan
from tests.chaos.session import merged, run


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
    results = []
    for number in range(seed, seed + options.seeds):
        print(f"seed {number}", file=sys.stderr, flush=True)
        if options.keep is not None:
            options.keep.mkdir(mode=0o700)
        results.append(run(number, options.seconds, options.keep))
        for name, found in results[-1].broken.items():
            print(f"  {name}: {len(found)}", *found[:4], sep="\n    ", file=sys.stderr, flush=True)
    from tests.chaos.report import table

    print(table(results))
    return 1 if merged(results) else 0


if __name__ == "__main__":
    sys.exit(main())
