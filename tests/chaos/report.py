"""The figures of one or more runs, as Markdown."""

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.chaos.session import Result
from tests.chaos.world import ROOT

# 0 failures in n trials: at most 3/n of them fail, with a confidence of 95 %.
RULE_OF_THREE = 3.0
SKIPPED = (
    ("tasks of the daemon at base line", "not visible from outside; its threads are"),
    ("a reused pid", "numbers do not come round within a minute; unit tests make them"),
    (
        "daemon, guard, keeper and shim at once",
        "a documented hole; the sweep's tests kill them all",
    ),
    ("jumps of the wall clock", "would need the machine's clock; unit tests inject one"),
)


def table(results: Sequence[Result]) -> str:
    """Return the table."""
    rows = [*_faults(results), *_processes(results), *_requests(results), *_cost(results)]
    seeds = ", ".join(str(result.seed) for result in results)
    lines = [
        f"Chaos: {len(results)} runs of {results[0].seconds:g} s, seeds {seeds}; {_machine()}.",
        "",
        "| figure | value | at most (95 %) |",
        "|---|---|---|",
        *(f"| {name} | {value} | {bound} |" for name, value, bound in rows),
        "",
        "| not shown here | why |",
        "|---|---|",
        *(f"| {name} | {why} |" for name, why in SKIPPED),
    ]
    return "\n".join(lines)


Line = tuple[str, str, str]


def _machine() -> str:
    git = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(
        git, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False
    )
    commit = done.stdout.strip() or "unknown"
    kernel = platform.release()
    python = platform.python_version()
    return f"commit {commit}, Python {python}, Linux {kernel}, {os.cpu_count()} cores"


def _zero(results: Sequence[Result], name: str, trials: int) -> Line:
    count = sum(len(result.faults.get(name, [])) for result in results)
    bound = f"{RULE_OF_THREE / trials:.2g} of {trials}" if trials and not count else ""
    return f"**{name}**", str(count), bound


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common()) or "none"


def spread(values: Iterable[float], unit: str = "ms") -> str:
    """Return median, 99th percentile and maximum of seconds, in milliseconds."""
    found = sorted(values)
    if not found:
        return "none"
    picked = (found[len(found) // 2], found[min(len(found) - 1, len(found) * 99 // 100)], found[-1])
    p50, p99, worst = (f"{value * 1000:.1f}" for value in picked)
    return f"{p50} / {p99} / {worst} {unit} (n = {len(found)})"


def _faults(results: Sequence[Result]) -> list[Line]:
    done: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for result in results:
        assert result.injector is not None
        done.update(result.injector.done)
        missed.update(result.injector.missed)
    ways = Counter({name: count for name, count in done.items() if name.startswith("kill_daemon ")})
    kinds = done - ways
    serves = [seconds for result in results for seconds in result.book.serves]
    within = sum(1 for seconds in serves if seconds <= 2.0)
    restarts = sum(result.restarts for result in results)
    return [
        ("faults injected", str(sum(kinds.values())), ""),
        ("of each kind", _counted(kinds), ""),
        ("that found nothing to hit", _counted(missed), ""),
        ("restarts of the daemon after SIGKILL", f"{restarts}: {_counted(ways)}", ""),
        ("start of a daemon to its first answer, p50 / p99 / max", spread(serves), ""),
        ("of them within 2 s", f"{within} of {len(serves)}", ""),
        _zero(results, "daemon exits of its own (exit codes)", len(serves)),
        _zero(results, "exceptions in the daemon", sum(kinds.values())),
        ("clean stop at the end, max", f"{max(result.stop_took for result in results):.2f} s", ""),
    ]


def _processes(results: Sequence[Result]) -> list[Line]:
    agents = sum(result.agents.started for result in results)
    children = sum(len(result.agents.children) for result in results)
    strangers = sum(result.bystanders for result in results)
    kills = [kill for result in results for kill in result.book.kills]
    sizes = sorted(size for _, size in kills) or [0]
    deaths: dict[str, list[float]] = {}
    for result in results:
        for kind, values in result.book.deaths.items():
            deaths.setdefault(kind, []).extend(values)
    started = agents + children
    return [
        ("agents started / children they left around", f"{agents} / {children}", ""),
        _zero(results, "orphans", started),
        _zero(results, "left after a clean stop", started),
        _zero(results, "zombies", started),
        ("bystanders (twins of agents and helpers; a crowd)", str(strangers), ""),
        _zero(results, "strangers signalled", strangers),
        ("`kill`, less its grace, p50 / p99 / max", spread(took for took, _ in kills), ""),
        ("sizes of the trees, median / max", f"{sizes[len(sizes) // 2]} / {sizes[-1]}", ""),
        _zero(results, "receipts of a kill that lied", len(kills)),
        *(
            (f"{kind.replace('kill_', '')} SIGKILLed, until its tree is dead", spread(values), "")
            for kind, values in sorted(deaths.items())
        ),
        _zero(results, "not dead in time", len(kills) + sum(map(len, deaths.values()))),
    ]


def _requests(results: Sequence[Result]) -> list[Line]:
    tallies = [result.book.tally for result in results]
    sent = sum(tally.sent for tally in tallies)
    answered = sum(tally.answered for tally in tallies)
    cut = sum(tally.cut for tally in tallies)
    asked = sum(sum(result.agents.asked.values()) for result in results)
    replied = sum(sum(result.agents.answered.values()) for result in results)
    runs = sum(len(result.book.runs) for result in results)
    shown = sum(len(rows) for result in results for rows in result.book.shown.values())
    kept = sum(result.records.events for result in results)
    outcomes: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    decided: Counter[str] = Counter()
    for result in results:
        outcomes.update(result.records.outcomes)
        failures.update(result.records.failures)
        refused.update(result.book.tally.errors)
        decided.update(a.decided or "not shown" for a in result.book.asked.values())
    executed = sum(result.executed for result in results)
    calls = f"{sent} / {answered} / {cut}"
    return [
        ("clients' requests sent / answered / cut off with their connection", calls, ""),
        _zero(results, "clients' requests answered twice", sent),
        _zero(results, "calls without an answer", sent),
        (
            "agents' requests sent / answered (the rest died with their agent)",
            f"{asked} / {replied}",
            "",
        ),
        ("clients' requests refused, by code", _counted(refused), ""),
        _zero(results, "internal errors", sent + runs),
        _zero(results, "agents' requests lost", asked),
        _zero(results, "agents' requests answered twice", asked),
        ("runs accepted, by outcome", f"{runs}: {_counted(outcomes)}", ""),
        _zero(results, "runs without a last event in the log", runs),
        ("turns that failed, by code", _counted(failures), ""),
        _zero(results, "runs lost", runs),
        _zero(results, "runs without an outcome", runs),
        _zero(results, "work that goes on after the end", runs),
        _zero(results, "runs ended twice", runs),
        _zero(results, "outcomes changed", runs),
        _zero(results, "prompts replayed", runs),
        _zero(results, "turns stuck", runs),
        ("events shown / in the log", f"{shown} / {kept}", ""),
        _zero(results, "shown events missing", shown),
        _zero(results, "shown events changed", shown),
        _zero(results, "gaps in what was shown", shown),
        _zero(results, "gaps in the log", kept),
        ("questions, by decision as shown", _counted(decided), ""),
        ("nonces executed", str(executed), ""),
        ("of them by a grant", str(sum(result.granted for result in results)), ""),
        _zero(results, "wrong approvals", sum(decided.values())),
        _zero(results, "executed twice", executed),
        _zero(results, "executed without an audit", executed),
        _zero(results, "grants misused", sum(result.granted for result in results)),
        _zero(results, "second answers taken", sum(decided.values())),
        _zero(results, "audit broken", executed),
    ]


def _cost(results: Sequence[Result]) -> list[Line]:
    added = [
        at - result.agents.echoes[text]
        for result in results
        for text, at in result.book.echoes.items()
        if text in result.agents.echoes
    ]
    looks = [seconds for result in results for seconds in result.book.looks]
    drifts = []
    for result in results:
        assert result.base is not None
        assert result.end is not None
        drifts.append(
            f"{result.end.descriptors - result.base.descriptors:+d} fds, "
            f"{result.end.threads - result.base.threads:+d} threads, "
            f"{(result.end.rss / result.base.rss - 1) * 100:+.1f} % RSS"
        )
    return [
        ("agent to client, per message under all this, p50 / p99 / max", spread(added), ""),
        ("`status` under all this, p50 / p99 / max", spread(looks), ""),
        ("drift in the steady part, by run", "; ".join(drifts), ""),
        _zero(results, "descriptors drifted", len(results)),
        _zero(results, "threads left", len(results)),
        _zero(results, "memory grown", len(results)),
    ]
