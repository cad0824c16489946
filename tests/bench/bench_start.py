"""What a command costs from its start to its end, against `python -c pass`, alternating in one run.

Run it by hand: `python tests/bench/bench_start.py [ROUNDS]`. It asserts nothing. It uses a state
directory of its own, and bytecode as an installed package has it.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROUNDS = 15
PASS = "python -c pass"

# Of a run: wall seconds, and CPU seconds of the process and of the children that it waited for.
Cost = tuple[float, float]


class Bench:
    """A state directory, and commands in it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("ACPBRIDGE")}
        self.env |= {"HOME": str(folder), "ACPBRIDGE_HOME": str(self.home)}
        # Where a checkout is not installed, its bytecode is written once, by the first round.
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "acpbridge", *words]

    def call(self, *words: str) -> str:
        done = subprocess.run(
            self.argv(*words),
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode().strip()

    def cost(self, argv: list[str]) -> Cost:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        subprocess.run(
            argv,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        took = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return took, used

    def plain(self) -> Cost:
        return self.cost([sys.executable, "-c", "pass"])

    def command(self, *words: str) -> Callable[[], Cost]:
        return lambda: self.cost(self.argv(*words))

    def start_of_the_daemon(self) -> Cost:
        """A start, and the stop before it, which is not counted. CPU is the command's alone."""
        self.call("daemon", "stop")
        return self.cost(self.argv("daemon", "start"))


def rounds(bench: Bench, runs: Mapping[str, Callable[[], Cost]], count: int) -> None:
    """Measure in turn, so that whatever else the machine does meets all of them alike."""
    everything = {PASS: bench.plain, **runs}
    figures: dict[str, list[Cost]] = {name: [] for name in everything}
    for run in everything.values():
        run()  # bytecode and page cache
    for _ in range(count):
        for name, run in everything.items():
            figures[name].append(run())
    for name, costs in figures.items():
        parts = [f"{name:28}"]
        for index, word in enumerate(("wall", "CPU")):
            mine = [cost[index] for cost in costs]
            ratios = [m / p[index] for m, p in zip(mine, figures[PASS], strict=True)]
            parts.append(
                f"{word} {1e3 * statistics.median(mine):7.1f} ms"
                f" ({1e3 * min(mine):.1f}-{1e3 * max(mine):.1f}),"
                f" {statistics.median(ratios):5.2f} ({min(ratios):.2f}-{max(ratios):.2f}) x"
            )
        print("   ".join(parts))


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    print(f"{count} rounds; medians (least-most), and the ratio to `{PASS}` of the same round")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        try:
            bench.call("daemon", "start")
            quick = {"status": bench.command("status"), "sessions": bench.command("sessions")}
            print("no session:")
            rounds(bench, quick, count)
            prompt = bench.command("run", "Say hello", "--agent", "demo", "--on-permission", "deny")
            rounds(bench, {"run, demo agent": prompt}, count)
            rounds(bench, {"daemon start": bench.start_of_the_daemon}, max(3, count // 3))
            bench.call("run", "Say hello", "--agent", "demo", "--mode", "session", "--detach")
            while not json.loads(bench.call("sessions", "--json"))["sessions"]:
                time.sleep(0.05)
            print("1 session:")
            rounds(bench, quick, count)
        finally:
            bench.call("daemon", "stop", "--force")


if __name__ == "__main__":
    main()
