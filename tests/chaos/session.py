"""One run of chaos, from its seed to its verdict.

A storm, in which the daemon is killed too; a steady part, in which one daemon stands all the other
faults and is measured before and after; a rest; the checks.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from tests.chaos import oracle
from tests.chaos.book import Book
from tests.chaos.bystanders import Bystanders
from tests.chaos.faults import Injector
from tests.chaos.load import Lane, Slot, make_lanes
from tests.chaos.oracle import Agents, Measure, Records
from tests.chaos.plan import STORM, Fault, make_plan
from tests.chaos.world import World

REST_LIMIT = 90.0  # more than the limit of a turn, in seconds
THREADS = 8  # a pool lets its idle ones go after ten seconds, and we do not wait for that
DESCRIPTORS = 2  # more or fewer than at the base line
MEASURED = 15.0  # a shorter run says nothing of memory, in seconds
GROWTH = 1.10  # of the resident memory, after warm-up


@dataclass
class Result:
    """What one run came to; `faults` of the bridge are what must not be.

    Attributes:
        seed: that it was drawn from.
        plan: the schedule.
        faults: by the rule that was broken.
    """

    seed: int
    seconds: float
    plan: tuple[Fault, ...]
    book: Book
    injector: Injector | None = None
    agents: Agents = field(default_factory=Agents)
    records: Records = field(default_factory=Records)
    base: Measure | None = None
    end: Measure | None = None
    executed: int = 0
    granted: int = 0
    restarts: int = 0
    bystanders: int = 0
    stop_took: float = 0.0
    faults: dict[str, list[str]] = field(default_factory=dict)

    @property
    def broken(self) -> dict[str, list[str]]:
        return {name: found for name, found in self.faults.items() if found}


def run(seed: int, seconds: float, keep: Path | None = None) -> Result:
    """Run once, and return what was found.

    Args:
        seed: of schedule and load.
        seconds: of load.
        keep: a directory to work in that is left as it is; else one that is removed.
    """
    book = Book()
    result = Result(seed, seconds, make_plan(seed, seconds), book)
    with ExitStack() as stack:
        if keep is None:
            home = Path(stack.enter_context(TemporaryDirectory(prefix="chaos-")))
        else:
            home = keep
        world = World(home, book)
        stack.callback(world.close)
        lanes, slots = make_lanes(book, world.socket, home, seed)
        bystanders = stack.enter_context(Bystanders(world))
        world.start()
        result.injector = Injector(world, lanes, slots)
        with _working(lanes, slots):
            _storm(result, world, lanes)
            _rest(result, world, lanes)
        _check(result, world)
        result.restarts = world.restarts
        result.stop_took = world.stop()
        crashed = [code for code in world.exits[:-1] if code != -9] + [
            code for code in world.exits[-1:] if code != 0
        ]
        result.faults["daemon exits of its own (exit codes)"] = [str(code) for code in crashed]
        result.faults["left after a clean stop"] = oracle.orphans(world)
        result.bystanders = bystanders.started
    result.bystanders = bystanders.started
    result.faults["strangers signalled"] = bystanders.hit
    return result


@contextmanager
def _working(lanes: list[Lane], slots: list[Slot]) -> Iterator[None]:
    threads = [Thread(target=lane.work, daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        lanes[0].stop.set()
        for thread in threads:
            thread.join(REST_LIMIT)
        for slot in slots:
            slot.close()


def _storm(result: Result, world: World, lanes: list[Lane]) -> None:
    injector = result.injector
    assert injector is not None
    limit = result.seconds * STORM
    injector.run([fault for fault in result.plan if fault.at < limit])
    # From here on one daemon: warmed up, measured, then under all faults but its death.
    _quiet(lanes)
    injector.run([Fault(limit, "kill_daemon", 0, 0.0, 0)])
    injector.finish()  # what goes on beside opens sessions and holds connections
    _warm_up(world, lanes, fill=result.seconds >= MEASURED)
    oracle.orphans(world)  # waits: whoever ended by itself leaves its tree for some seconds
    result.base = oracle.measure(world)
    lanes[0].pause.clear()
    injector.run([fault for fault in result.plan if fault.at >= limit])


def _warm_up(world: World, lanes: list[Lane], *, fill: bool) -> None:
    """Have every agent do a few turns, and end them all.

    With `fill` they say so much that what the daemon keeps in memory is full.
    """

    def turns(lane: Lane) -> None:
        for kind in ("fill", "", "", "") if fill else ("asks", "children"):
            lane.one_turn(kind)

    threads = [Thread(target=turns, args=(lane,), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(REST_LIMIT)
    _end_all(world, lanes)


def _quiet(lanes: list[Lane]) -> None:
    """Let every lane come to the end of its turn."""
    for lane in lanes:
        lane.idle.clear()
    lanes[0].pause.set()
    for lane in lanes:
        lane.idle.wait(REST_LIMIT)


def _end_all(world: World, lanes: list[Lane]) -> None:
    client = world.client()
    rows = client.call("sessions")["sessions"]
    if rows:
        client.call("kill", keys=[row["key"] for row in rows], grace=0.0, limit=REST_LIMIT)
    client.close()
    for lane in lanes:
        lane.slot.close()
        lane.key = ""


def _rest(result: Result, world: World, lanes: list[Lane]) -> None:
    injector = result.injector
    assert injector is not None
    _quiet(lanes)
    injector.finish()
    book = result.book
    result.faults["turns stuck"] = [
        f"lane {lane.number} does not come to rest" for lane in lanes if not lane.idle.is_set()
    ]
    result.faults["agents' requests lost"] = oracle.lost_requests(world, oracle.read_agents(world))
    _end_all(world, lanes)
    result.faults["orphans"] = oracle.orphans(world)
    client = world.client()
    result.faults["work that goes on after the end"] = oracle.unrest(client)
    client.close()
    result.faults["runs without an outcome"] = oracle.unended(world)
    result.faults["zombies"] = oracle.zombies(world)
    end = result.end = oracle.measure(world)
    base = result.base
    assert base is not None
    drift = end.descriptors - base.descriptors
    result.faults["descriptors drifted"] = [f"{base} {end}"] if abs(drift) > DESCRIPTORS else []
    result.faults["threads left"] = (
        [f"{base} {end}"] if end.threads > base.threads + THREADS else []
    )
    grown = result.seconds >= MEASURED and end.rss > base.rss * GROWTH
    result.faults["memory grown"] = [f"{base} {end}"] if grown else []
    book.stuck += injector.failed


def _check(result: Result, world: World) -> None:
    book = result.book
    agents = result.agents = oracle.read_agents(world)
    done = oracle.executed(world)
    result.executed = len(done)
    audited = oracle.audit_records(world)
    result.granted = oracle.granted(audited)
    client = world.client()
    found = result.records = oracle.records(client, book)
    client.close()
    result.faults |= {
        "wrong approvals": oracle.wrong_approvals(book, done),
        "executed twice": [nonce for nonce, count in done.items() if count > 1],
        "executed without an audit": oracle.unaudited(world, done),
        "grants misused": oracle.misused_grants(audited),
        "audit broken": oracle.broken_audit(world),
        "second answers taken": book.second_answers,
        "agents' requests answered twice": [
            name for name, count in agents.answered.items() if count > agents.asked[name]
        ],
        "prompts replayed": [token for token, count in agents.prompts.items() if count > 1],
        "prompts nobody sent": [token for token in agents.prompts if token not in book.tokens],
        "clients' requests answered twice": [str(book.tally.doubled)] * bool(book.tally.doubled),
        "calls without an answer": book.tally.stuck,
        "internal errors": [
            f"{count} of {where}"
            for where, codes in (("turns", found.failures), ("calls", book.tally.errors))
            if (count := codes.get("internal", 0))
        ],
        "runs lost": found.lost,
        "runs ended twice": found.doubled,
        "runs without a last event in the log": found.endless,
        "outcomes changed": found.changed,
        "shown events missing": found.missing,
        "shown events changed": book.changed,
        "gaps in what was shown": book.gaps,
        "gaps in the log": found.gaps,
        "not dead in time": book.undead,
        "receipts of a kill that lied": book.lies,
        "exceptions in the daemon": oracle.complaints(world),
    }
    result.faults["turns stuck"] += book.stuck


def merged(results: list[Result]) -> dict[str, list[str]]:
    """Return all that was broken, by rule and seed."""
    return {
        f"{name} (seed {result.seed})": found
        for result in results
        for name, found in replace(result).broken.items()
    }
