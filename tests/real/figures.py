"""Measure what is left of the real agents, and write it down: `python -m tests.real.figures`.

`--rounds N` (3) measures every event so often; `--only ID` picks events; `--keep` adds to what was
measured before. It writes the tables of docs/reliability.md between their two marks, anew after
each event. A round takes three minutes on an idle machine of two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.real import install
from tests.real.agents import EVERY, OLDER_CLAUDE
from tests.real.bridge import bridge
from tests.real.events import EVENTS, Event
from tests.real.killing import Figure, measure

PAGE = Path(__file__).parent.parent.parent / "docs" / "reliability.md"
BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"

PACKAGES = {
    "claude": "@agentclientprotocol/claude-agent-acp",
    "codex": "@agentclientprotocol/codex-acp",
    "gemini": "@google/gemini-cli",
    OLDER_CLAUDE: "@agentclientprotocol/claude-agent-acp",
}

Figures = dict[tuple[str, str], list[Figure]]  # by event and agent

RAW = install.DEFAULT_FOLDER / "figures.json"

TABLES: tuple[tuple[str, Callable[[Event], bool]], ...] = (
    ("Nothing may be left", lambda event: event.whole),
    ("Everything killed at once: the next start of the daemon ends the rest", lambda e: e.sweep),
    ("The session lives on: what is left of the shell command", lambda event: event.lives_on),
)


def main() -> None:
    """Measure, and write the page."""
    arguments = _arguments()
    install.install()
    figures = _read() if arguments.keep else {}
    others = 0
    for number in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as scratch, bridge(Path(scratch), *EVERY) as it:
            for event in (e for e in EVENTS if not arguments.only or e.id in arguments.only):
                outcome = measure(it, event)
                others += len(outcome.others)
                for agent, figure in outcome.agents.items():
                    figures.setdefault((event.id, agent), []).append(figure)
                    print(f"round {number + 1}: {event.id}, {agent}: {figure}", flush=True)
                _keep(figures)
                _write(_text(figures, others))


def _read() -> Figures:
    rows = json.loads(RAW.read_text(encoding="utf-8")) if RAW.is_file() else []
    figures: Figures = {}
    for event, agent, fields in rows:
        figure = Figure(**{**fields, "left": tuple(fields["left"])})
        figures.setdefault((event, agent), []).append(figure)
    return figures


def _keep(figures: Figures) -> None:
    rows = [[*where, asdict(figure)] for where, found in figures.items() for figure in found]
    RAW.write_text(json.dumps(rows), encoding="utf-8")


def _write(text: str) -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}", encoding="utf-8")


def _text(figures: Figures, others: int) -> str:
    total = sum(len(found) for found in figures.values())
    head = (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}: {_machine()}; "
        f"{', '.join(f'{agent} {_version(agent)}' for agent in EVERY)}. "
        f"{total} trees; other processes left: {others}.\n"
    )
    tables = (_table(title, [e for e in EVENTS if fits(e)], figures) for title, fits in TABLES)
    return "\n".join(("", head, *tables))


def _table(title: str, events: Sequence[Event], figures: Figures) -> str:
    rows = [f"| {title} | {' | '.join(EVERY)} |", f"|---|{'---|' * len(EVERY)}"]
    for event in events:
        cells = [figures.get((event.id, agent), []) for agent in EVERY]
        if any(cells):
            rows.append(f"| {event.words} | {' | '.join(map(_cell, cells))} |")
    return "\n".join(rows) + "\n"


def _cell(found: Sequence[Figure]) -> str:
    """Return one agent's cell: processes before, left, and milliseconds until they were gone."""
    if not found:
        return "-"
    left = max(found, key=lambda figure: len(figure.left)).left
    text = f"{max(figure.before for figure in found)} → {len(left)}"
    if left:
        text += f" ({', '.join(left)})"
    swept = [figure.swept_ms for figure in found if figure.swept_ms is not None]
    gone = [figure.ms for figure in found if figure.ms is not None]
    if swept:
        return f"{text}, then 0 in {_milliseconds(swept)}"
    return f"{text} in {_milliseconds(gone)}" if gone and not left else text


def _milliseconds(values: Sequence[float]) -> str:
    middle, most = statistics.median(values), max(values)
    return f"{middle:.0f} ms" if len(values) == 1 else f"{middle:.0f} ms (at most {most:.0f})"


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[1]
    return (
        f"{platform.system()} {platform.release().partition('-')[0]}, {os.cpu_count()} cores, "
        f"{memory:.0f} GiB, load {load:.0f}, Python {platform.python_version()}"
    )


def _version(agent: str) -> str:
    folder = install.DEFAULT_FOLDER / (install.OLDER.below if agent == OLDER_CLAUDE else "")
    package = folder / "node_modules" / PACKAGES[agent] / "package.json"
    return str(json.loads(package.read_text(encoding="utf-8"))["version"])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.real.figures")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--only", action="append", choices=[event.id for event in EVENTS])
    return parser.parse_args()


if __name__ == "__main__":
    main()
