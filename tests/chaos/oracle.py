"""The observer: what it says comes from /proc, the agents' own files and the clients' captures."""

import hashlib
import json
import os
import queue
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from tests.chaos import procs
from tests.chaos.book import Book, digest
from tests.chaos.load import LOST_SESSION
from tests.chaos.wire import CallError, Client
from tests.chaos.world import World

SCAN_PAUSE = 1.0  # between the two looks for orphans, in seconds
SETTLE_LIMIT = 30.0  # an agent that ended by itself leaves its tree five seconds


@dataclass
class Agents:
    """What the agents wrote of themselves.

    Attributes:
        started: their processes.
        children: that they left around.
        asked: how often each request was sent, by process and id.
        answered: how often each was answered.
        prompts: how often each prompt arrived, by its token.
        echoes: when an echo was sent, on the monotonic clock.
    """

    started: int = 0
    children: set[int] = field(default_factory=set)
    asked: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    prompts: Counter[str] = field(default_factory=Counter)
    echoes: dict[str, float] = field(default_factory=dict)

    def take(self, who: str, record: dict[str, Any]) -> None:
        if record["event"] == "line":
            message = _json(record["line"])
            if message is not None and "method" not in message and "id" in message:
                self.answered[f"{who} {json.dumps(message['id'])}"] += 1
            if message is not None and message.get("method") == "session/prompt":
                text = message["params"]["prompt"][0]["text"]
                self.prompts[text.partition("\n")[0].removeprefix("echo ")] += 1
        elif record["event"] == "sent" and len(record["bytes"]) < 1 << 16:
            for line in record["bytes"].split("\n"):
                self._sent(who, _json(line), record["t"])

    def _sent(self, who: str, message: dict[str, Any] | None, at: float) -> None:
        if message is None or "method" not in message:
            return
        if "id" in message:
            self.asked[f"{who} {json.dumps(message['id'])}"] += 1
            return
        update = (message.get("params") or {}).get("update") or {}
        content = update.get("content")
        text = content.get("text", "") if isinstance(content, dict) else ""
        if text.startswith("T-"):
            self.echoes.setdefault(text, at)
        elif text.startswith("pids: "):
            self.children.update(json.loads(text.removeprefix("pids: "))["children"])


def read_agents(world: World) -> Agents:
    """Read the logs of all agents."""
    found = Agents()
    for path in sorted(world.home.glob("a*.log")):
        lives: Counter[int] = Counter()
        for line in path.read_text(encoding="utf-8").splitlines():
            record = _json(line)
            if record is None:
                continue
            if record["event"] == "start":
                found.started += 1
                lives[record["pid"]] += 1
            found.take(f"{record['pid']}.{lives[record['pid']]}", record)
    return found


def lost_requests(world: World, agents: Agents) -> list[str]:
    """Return requests without an answer whose agent lives on; taken when no turn runs."""
    living = {str(one.pid) for one in world.ours()}
    return [
        name
        for name in agents.asked
        if name not in agents.answered and name.partition(".")[0] in living
    ]


def executed(world: World) -> Counter[str]:
    """Return what the agents say they executed, and how often."""
    path = world.home / "nonces"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return Counter(line.removeprefix("executed ") for line in lines)


def wrong_approvals(book: Book, done: Counter[str]) -> list[str]:
    """Return what was executed that nobody allowed, or that was not to be allowed."""
    return [
        nonce
        for nonce in done
        if (asked := book.asked.get(nonce)) is None or not asked.truth or not asked.allow_sent
    ]


def unaudited(world: World, done: Counter[str]) -> list[str]:
    """Return what was executed more often than the audit has it allowed."""
    allowed = Counter(record["title"] for _, record in _allows(audit_records(world)))
    ran = Counter(nonce.partition("#")[0] for nonce in done)
    return [title for title, count in ran.items() if count > allowed[title]]


def audit_records(world: World) -> list[dict[str, Any]]:
    """Return what the audit says, in order."""
    lines = (world.home / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(_json, lines) if record is not None]


def misused_grants(records: list[dict[str, Any]]) -> list[str]:
    """Return what a grant allowed that was for something else, or was over by then."""
    made = {record["grant"]: record for record in records if record.get("kind") == "grant_made"}
    ends = ("grant_revoked", "grant_expired")
    over = {r["grant"]: number for number, r in enumerate(records) if r.get("kind") in ends}
    found = []
    for number, record in _allows(records):
        rule, _, grant = record["rule_id"].partition(":")
        late = number > over.get(grant, number)
        if rule == "grant" and (late or not _covers(made.get(grant), record)):
            found.append(f"{record['title']} by grant {grant}")
    return found


def granted(records: list[dict[str, Any]]) -> int:
    """Return how often a grant allowed something."""
    return sum(record["rule_id"].startswith("grant:") for _, record in _allows(records))


def _covers(made: dict[str, Any] | None, record: dict[str, Any]) -> bool:
    if made is None:
        return False
    return (made["session"], made["argv"]) == (record["session"], [record["title"]])


def _allows(records: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return the decisions that allow, each with its number; of one request the last counts."""
    final = {
        record["request_uid"]: (number, record)
        for number, record in enumerate(records)
        if record.get("kind") == "permission_decided"
    }
    return [(number, record) for number, record in final.values() if record["decision"] == "allow"]


def broken_audit(world: World) -> list[str]:
    """Return the lines of the audit that do not follow from the one before them."""
    broken = []
    before = "0" * 64
    for number, line in enumerate((world.home / "audit.jsonl").read_bytes().splitlines(), 1):
        record = _json(line.decode(errors="replace")) or {}
        own = str(record.get("hash"))
        bare = line.replace(f',"hash":"{own}"'.encode(), b"")
        whole = record.get("prev_hash") == before and record.get("seq") == number
        if not whole or hashlib.sha256(bare).hexdigest() != own:
            broken.append(f"{number}: {line[:200]!r}")
        before = own
    return broken


def orphans(world: World) -> list[str]:
    """Return who is there in two looks but has no business to be, no session being alive."""

    def look() -> dict[procs.Who, str]:
        rows = procs.table()
        daemon = world.daemon
        helpers = {one.who for one in world.helpers("guard") + world.helpers("keeper")}
        helpers |= set() if daemon is None else {daemon.who}
        return {
            one.who: f"{one.pid} {one.state} {one.argv[:200]!r} below {rows.get(one.ppid)}"
            for one in world.ours(rows)
            if one.who not in helpers
        }

    deadline = time.monotonic() + SETTLE_LIMIT
    while look() and time.monotonic() < deadline:
        time.sleep(0.1)
    first = look()
    time.sleep(SCAN_PAUSE)
    second = look()
    return [text for who, text in second.items() if who in first]


def unrest(client: Client) -> list[str]:
    """Return what the daemon says goes on, though every session was ended."""
    status = client.call("status")
    rows = [
        f"{row['key']} is {row['state']}: {row['turn']}, {row['processes']}"
        for row in status["sessions"]
        if row["processes"] or row["turn"] or row["state"] in ("starting", "running", "stopping")
    ]
    rows += [f"unowned: {row}" for row in status["unowned"]]
    return rows + [f"open: {row}" for row in client.call("questions")["permissions"]]


def unended(world: World) -> list[str]:
    """Return the runs of which the ledger's own table knows no outcome."""
    with closing(sqlite3.connect(f"file:{world.home / 'state.db'}?mode=ro", uri=True)) as ledger:
        return [row[0] for row in ledger.execute("SELECT run_id FROM runs WHERE outcome IS NULL")]


def zombies(world: World) -> list[str]:
    """Return the dead whom the daemon or a helper has not buried."""
    daemon = world.daemon
    if daemon is None:
        return []
    rows = procs.table()
    return [f"{one}" for one in procs.below(daemon.pid, rows) if one.state == "Z"]


@dataclass(frozen=True, slots=True)
class Measure:
    """What the daemon holds at one moment."""

    descriptors: int
    threads: int
    rss: int
    kinds: dict[str, int]


def measure(world: World) -> Measure:
    """Look at the daemon from outside, once it lets go of nothing more."""
    deadline = time.monotonic() + SETTLE_LIMIT
    found = _measure(world)
    while time.monotonic() < deadline:
        time.sleep(SCAN_PAUSE)
        before, found = found, _measure(world)
        if found.descriptors == before.descriptors:
            break
    return found


def _measure(world: World) -> Measure:
    daemon = world.daemon
    assert daemon is not None
    lines = (world_line.split() for world_line in _proc(daemon.pid, "status").splitlines())
    values = {line[0]: line[1] for line in lines if len(line) > 1}
    kinds = Counter(_kind(f"/proc/{daemon.pid}/fd/{fd}") for fd in _fds(daemon.pid))
    rss = int(values["VmRSS:"]) * 1024
    return Measure(kinds.total(), int(values["Threads:"]), rss, dict(kinds))


def _kind(fd: str) -> str:
    """Return what a descriptor is, for whoever looks for one too many."""
    try:
        return os.readlink(fd).partition(":")[0].rpartition("/")[2]  # noqa: PTH115
    except OSError:
        return "gone"


@dataclass
class Records:
    """What the log and the ledger keep, held against what was shown.

    Attributes:
        missing: shown events that are not in the log, or are others there.
        gaps: numbers that the log passes over.
        lost: accepted runs without an end.
        doubled: runs with more than one end.
        events: in the log.
        outcomes: of the runs.
        changed: runs whose outcome is another than a client was told.
        endless: runs with an outcome whose log has no last event.
        failures: codes of the turns that failed.
    """

    missing: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    events: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    changed: list[str] = field(default_factory=list)
    endless: list[str] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)


def records(client: Client, book: Book) -> Records:
    """Read every session's log to its end."""
    found = Records()
    ends: Counter[str] = Counter()
    for key in sorted({run.key for run in book.runs} | set(book.shown)):
        rows = _stored(client, key)
        found.events += len(rows)
        numbers = [row["seq"] for row in rows]
        if numbers != list(range(1, len(rows) + 1)):
            found.gaps.append(f"{key}: {numbers}"[:300])
        kept = {row["seq"]: digest(row) for row in rows}
        found.missing += [
            f"{key} {seq}: shown {seen}, kept {kept.get(seq)}"
            for seq, seen in book.shown.get(key, {}).items()
            if kept.get(seq) != seen
        ]
        found.failures.update(row["error"]["code"] for row in rows if row["type"] == "turn_failed")
        ends.update(row["turn"] for row in rows if row["type"] in ("turn_ended", "turn_failed"))
    for run in book.runs:
        try:
            outcome = client.call("wait", runId=run.run_id)["outcome"]
        except CallError as error:
            outcome = None
            found.lost.append(f"{run}: {error}")
        found.outcomes[str(outcome)] += 1
        if ends[run.run_id] > 1:
            found.doubled.append(f"{run}: {ends[run.run_id]} ends")
        if ends[run.run_id] == 0:
            found.endless.append(f"{run}: {outcome}")
        if not agree(run.outcome, outcome):
            found.changed.append(f"{run}: then {outcome}")
    return found


def agree(told: str, outcome: str | None) -> bool:
    """Tell whether what a client was shown or told of a run's end is what is on record."""
    if told == "turn_ended":
        return outcome in ("completed", "cancelled", "failed")
    if told == "turn_failed":
        return outcome in ("failed", "timed_out", "interrupted")
    return told in ("", outcome)


def _stored(client: Client, key: str) -> list[dict[str, Any]]:
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    try:
        client.follow(key, 0, lambda rows, end: events.put((rows, end)), live=False, stored=True)
    except CallError as error:
        if error.code in LOST_SESSION:
            return []
        raise
    rows: list[dict[str, Any]] = []
    end: Any = ...
    while end is ...:
        more, end = events.get(timeout=60)
        rows += more
    return rows


def complaints(world: World) -> list[str]:
    """Return what the daemons said on their stderr that no daemon should: exceptions."""
    said = world.said()
    at = [i for i in range(len(said)) if said.startswith("Traceback", i)]
    return [said[max(0, i - 300) : i + 3000] for i in at[:5]]


def _json(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _proc(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/{name}", encoding="utf-8") as file:  # noqa: PTH123
        return file.read()


def _fds(pid: int) -> list[str]:
    return os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
