"""Who looks at the wall clock, and why it may: a jump of that clock changes no deadline (G27)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import acpbridge

ROOT = Path(acpbridge.__file__).parent

# Whatever else measures time does it by `monotonic`, which no one can set.
WALL = frozenset({"time", "time_ns", "now", "utcnow", "today", "wall", "boot_time", "create_time"})

# Names that are common, and mean the wall clock only of these.
OF = {"time": {"time"}, "now": {"datetime"}, "utcnow": {"datetime"}, "today": {"date", "datetime"}}

ALLOWED = {
    "agents/spawning.py": "when a message was written, to be shown",
    "app/opening.py": "when the turns of an earlier daemon were ended, to be shown",
    "app/setup.py": "when the daemon was started, to be shown",
    "cli/moments.py": "an event that the daemon could not date, to be shown",
    "cli/spans.py": "a person says `2h ago`, and means the clock on the wall",
    "controller/census.py": "when a process was started, to be shown",
    "daemon/system.py": "the port itself",
    "permissions/audit.py": "when it was decided, to be shown",
    "permissions/broker.py": "when it was asked, and until when, to be shown",
    "permissions/grants.py": "when it was granted, and until when, to be shown",
    "router/announce.py": "ages of completions that nobody could be told, from record to record",
    "router/families.py": "runs of the last day, to be shown",
    "router/house_team.py": "how long work that was handed over takes, to be shown",
    "router/inbox.py": "when an item moved, to be shown",
    "router/keeping.py": "ages of days, less the jumps that the clock may have made",
    "router/listing.py": "sessions that were used lately, to be shown",
    "router/life.py": "an agent names its files by the minute; no wait is longer than one",
    "router/services.py": "when something happened, to be shown",
    "router/subagents.py": "tasks that ended lately, to be shown",
    "store/lines.py": "when an event happened, to be shown",
}


def looks(source: str) -> Iterator[str]:
    """Yield each call by which a module asks what time of day it is."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in WALL:
                whose = ast.unparse(value)
                if name not in OF or whose.rpartition(".")[2] in OF[name]:
                    yield f"{whose}.{name}"
            case ast.ImportFrom(module="time", names=names):
                yield from (f"time.{alias.name}" for alias in names if alias.name in WALL)
            case _:
                pass


def test_g27_only_those_ask_the_wall_clock_who_may() -> None:
    found = {
        str(path.relative_to(ROOT)): calls
        for path in sorted(ROOT.rglob("*.py"))
        if (calls := sorted(set(looks(path.read_text(encoding="utf-8")))))
    }
    assert {name: calls for name, calls in found.items() if name not in ALLOWED} == {}
    assert sorted(found) == sorted(ALLOWED)


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("import time\ntime.time()", ["time.time"]),
        ("from time import time\ntime()", ["time.time"]),
        ("datetime.now(UTC)", ["datetime.now"]),
        ("self._clock.wall()", ["self._clock.wall"]),
        ("psutil.boot_time()", ["psutil.boot_time"]),
        ("time.monotonic(); loop.time(); self.now; moments.now()", []),
    ],
)
def test_what_asks_it_is_found(source: str, calls: list[str]) -> None:
    assert list(looks(source)) == calls
