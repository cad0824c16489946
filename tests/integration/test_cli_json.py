"""What the commands really print as JSON has the keys that docs/cli.md says, and no others.

One daemon is brought into states that show them all; each table of the document is compared with
what was printed meanwhile. A table that nothing is compared with is a failure too.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests import cli_doc
from tests.integration.asking_agents import hand_over, told
from tests.integration.daemon_home import LIMIT, Home, alive, daemon_home, until

TABLES = sorted(cli_doc.tables())
EVENTS = sorted(cli_doc.events())

OPTIONS = [
    {
        "id": "effort",
        "name": "Effort",
        "type": "select",
        "category": "model_config",
        "currentValue": "low",
        "options": [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}],
    }
]

Paths = set[str]


class Seen:
    """The keys of what was printed, by the table that tells of it, and by the type of an event."""

    def __init__(self) -> None:
        self.tables: dict[str, Paths] = defaultdict(set)
        self.events: dict[str, list[Paths]] = defaultdict(list)

    def add(self, name: str, value: Any) -> Any:
        self.tables[name] |= set(cli_doc.key_paths(value))
        return value

    def add_events(self, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        events = list(events)
        for event in events:
            head = {key: event[key] for key in list(event)[:6]}
            self.tables[cli_doc.EVENT] |= set(cli_doc.key_paths(head))
            self.events[str(event["type"])].append(set(cli_doc.key_paths(event)))
        return events


class Scenario:
    """Brings a home into its states, and notes what the commands print of them."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.seen = Seen()

    def json(self, table: str, *words: str, code: int = 0) -> Any:
        """Run a command and note its document."""
        done = self.home.run(*words)
        assert done.code == code, done
        return self.seen.add(table, done.json)

    def prompt(self, *words: str, code: int = 0) -> str:
        """Run a turn to its end, note its events, and return the session's key."""
        done = self.home.run("run", "--format", "json", *words)
        assert done.code == code, done
        return str(self.seen.add_events(done.events)[0]["key"])

    def detached(self, *words: str) -> str:
        done = self.home.run("run", "--detach", *words)
        assert done.code == 0, done
        return done.out.strip()

    def until(self, true: Callable[[dict[str, Any]], bool], key: str) -> None:
        """Wait until a session's row is as it should be."""
        deadline = time.monotonic() + LIMIT
        while True:
            row = self.home.row(key)
            if true(row):
                return
            assert time.monotonic() < deadline, row
            time.sleep(0.05)


def play(home: Home) -> Seen:
    """Go through the states, one daemon for all of them."""
    it = Scenario(home)
    nothing_runs(it)
    turns(it)
    messages(it)
    handed_over(it)
    asking = a_question(it)
    both_are_shown(it, asking)
    started_below(it, asking)
    answered(it, asking)
    granted(it)
    audited(it)
    ended(it)
    machine(it)
    daemon_ends(it)
    return it.seen


def nothing_runs(it: Scenario) -> None:
    it.json("status --json", "status", "--json", code=8)
    it.json("daemon status --json", "daemon", "status", "--json", code=8)
    assert it.json("daemon start --json", "daemon", "start", "--json")["started"]


def turns(it: Scenario) -> None:
    """Turns that end well, fail, and lose their context; each kind of event comes up."""
    chosen = ("--agent", "fake", "--set", "effort=high")
    usage = json.dumps({"result": {"stopReason": "end_turn", "usage": {"totalTokens": 3}}})
    key = it.prompt(*chosen, f"say hello\nset-mode other\nanswer {usage}")
    it.prompt("--session", key, "--on-permission", "deny", "ask execute ls")
    it.prompt("--agent", "fake", "notify _x/y {}\nsay hello")
    outside = it.home.path.parent  # in the state directory nobody edits
    params = {"path": str(outside / "noted.txt"), "content": "noted"}
    both = [f"call fs/{kind}_text_file {json.dumps(params)}" for kind in ("write", "read")]
    working = ("--cwd", str(outside), "--on-permission", "allow")
    it.prompt("--agent", "fake", *working, "\n".join(both))
    (it.home.path / "memory").unlink()
    it.prompt("--session", key, "--fresh", "say anew")
    died = it.prompt("--agent", "fake", "crash 3", code=6)
    it.json("status --json", "status", died, "--json")
    head, *events = it.home.run("sessions", "export", died).events
    it.seen.add("sessions export", head)
    it.seen.add_events(events)


def messages(it: Scenario) -> None:
    """Tell a session something with its next turn, and have it answer."""
    key = it.home.ask("sessions", all=True)["sessions"][0]["key"]
    it.json("send --json", "send", key, "noted", "--mode", "notify", "--json")
    assert it.json("send --json", "send", key, "say on", "--json")["reply"] == "on"
    it.seen.add_events(it.home.run("logs", key, "--json").events)


def handed_over(it: Scenario) -> None:
    """Work that an agent hands to one that does not start; it is told so."""
    key = it.prompt("--agent", "fake", "--mode", "session", "say hello")
    job = hand_over(it.home, key, "gone", "do it")
    log = told(it.home, key, job)
    words = ("delegations", "--all", "--json")
    (row,) = it.json("delegations --json", *words)["delegations"]
    it.seen.add("delegation", row)
    it.json("delegations cancel --json", "delegations", "cancel", job, "--json", code=1)
    it.seen.add_events(log)
    assert it.home.run("close", key).code == 0


def a_question(it: Scenario) -> str:
    """Leave one open, and a turn with a child of its agent's beside it."""
    made = it.home.path.parent / "made.txt"  # in the state directory nobody edits
    asking = it.detached("--agent", "fake", "--mode", "session", f"edit {made} some text")
    busy = it.detached("--agent", "fake", "children plain\nsay on it\nhang")
    it.until(lambda row: bool(row["questions"]), asking)
    it.until(lambda row: any(p["role"] == "child" for p in row["processes"]), busy)
    return asking


def both_are_shown(it: Scenario, asking: str) -> None:
    shown = it.json("status --json", "status", "--json")
    it.seen.add("daemon", shown["daemon"])
    it.json("daemon status --json", "daemon", "status", "--json")
    rows = it.json("sessions --json", "sessions", "--all", "--json")["sessions"]
    for row in rows:
        it.seen.add("session", row)
    passing = ("turn", "queueDepth", "pendingPermissions", "questions", "questionsBelow")
    for row in rows:
        it.seen.add("record", {k: v for k, v in row.items() if k not in passing})
    (question,) = it.json("permissions --json", "permissions", "--json")["permissions"]
    it.seen.add("question", question)
    assert it.home.run("permissions", "list", "--json").json["permissions"] == [question]
    assert question["sessionKey"] == asking


def started_below(it: Scenario, asking: str) -> None:
    """Have a session's agent start another one; that is busy, and hears of its end later."""
    inside = f"{asking}.{'0' * 32}"
    done = it.home.run_inside(inside, "spawn", "say done", "--agent", "fake", "--json")
    assert done.code == 0, done
    it.seen.add("spawn --json", done.json)
    until(lambda: it.home.ask("tool/deliveries")["deliveries"])
    it.json("runs deliveries --json", "runs", "deliveries", "--json")
    it.json("tree --json", "tree", "--all", "--json")
    it.json("runs --json", "runs", "--all", "--json")
    it.seen.add_events(it.home.run("logs", asking, "--json").events)


def answered(it: Scenario, asking: str) -> None:
    """Answer it while somebody watches, and follow the session to its end."""
    with (
        it.home.running("permissions", "--watch", "--json") as watch,
        it.home.running("attach", asking, "--json") as attached,
    ):
        assert watch.stdout is not None
        first, asked = (json.loads(watch.stdout.readline()) for _ in range(2))
        words = ("permissions", "answer", asked["id"], "--deny", "--reason", "no", "--json")
        it.json("decision", *words)
        decided = json.loads(watch.stdout.readline())
        for change in (first, asked, decided):
            it.seen.add("permissions --watch --json", change)
        it.until(lambda row: row["state"] == "ready", asking)
        it.json("restart --json", "restart", asking, "--json")
        it.json("close --json", "close", asking, "--json")
        out, _ = attached.communicate(timeout=LIMIT)
    it.seen.add_events(map(json.loads, out.splitlines()))
    logged = it.seen.add_events(it.home.run("logs", asking, "--json").events)
    assert logged[-1]["type"] == "session_closed"


def granted(it: Scenario) -> None:
    """Allow something always, and take it back."""
    it.detached("--agent", "fake", 'ask execute "echo hi"\nhang')
    question = it.seen.add("question", it.home.wait_question())
    words = ("permissions", "answer", question["id"], "--option", "allow_always", "--json")
    assert it.json("decision", *words)["lasts"] == "session"
    (grant,) = it.json("permissions grants --json", "permissions", "grants", "--json")["grants"]
    it.seen.add("grant", grant)
    it.json("permissions revoke --json", "permissions", "revoke", grant["id"], "--json")


def audited(it: Scenario) -> None:
    for record in it.home.run("permissions", "audit", "--json").events:
        it.seen.add("permissions audit --json", record)
    verify = ("permissions", "audit", "--verify", "--json")
    assert it.json("permissions audit --verify --json", *verify)["damage"] is None


def ended(it: Scenario) -> None:
    it.json("cancel --json", "cancel", "--last", "--json")
    live = [row["key"] for row in it.home.run("sessions", "--json").json["sessions"]]
    it.json("kill --json", "kill", *live, "nobody", "--now", "--json", code=4)
    it.json("kill --json", "kill", "--all", "--json")
    closed = ("sessions", "prune", "--state", "closed", "--json")
    assert it.json("sessions prune --json", *closed, "--dry-run")["pruned"]
    for words, code in ((("status", "nobody"), 4), (("cancel",), 2)):
        error = it.json("error", *words, "--json", code=code)
        it.seen.add("failure", error["error"])


def machine(it: Scenario) -> None:
    """What is said of the machine: all is well, and something is missing."""
    it.json("agents --json", "agents", "--json")
    it.json("doctor --json", "doctor", "fake", "--json")
    it.json("doctor --json", "doctor", "gone", "--json", code=6)
    it.json("config check --json", "config", "check", "--json")
    bad = it.home.path / "bad.yaml"
    bad.write_text("limits: {maxProcesses: 0}\n", encoding="utf-8")
    it.json("config check --json", "config", "check", str(bad), "--json", code=2)
    rules = it.home.path / "rules.yaml"
    rules.write_text("rules: [{effect: deny, path: '**/.env'}]\n", encoding="utf-8")
    it.json("policy check --json", "policy", "check", str(rules), "--json")
    subject = {"runId": "r", "toolCallId": "c", "rawInput": {"path": ".env"}}
    asked = it.home.path / "asked.json"
    question = {"id": "1a", "sessionKey": "agent:fake:main", "kind": "read", "subject": subject}
    asked.write_text(json.dumps(question), encoding="utf-8")
    with_rules = ("policy", "explain", str(asked), "--policy", str(rules), "--json")
    it.json("policy explain --json", *with_rules)


def daemon_ends(it: Scenario) -> None:
    pid = it.json("daemon restart --json", "daemon", "restart", "--json")["pid"]
    assert alive(pid)
    assert it.json("daemon stop --json", "daemon", "stop", "--json")["stopped"] == pid
    it.json("daemon stop --json", "daemon", "stop", "--json")
    it.json("daemon install --json", "daemon", "install", "--json")
    it.json("daemon uninstall --json", "daemon", "uninstall", "--json")
    for line in it.home.run("daemon", "logs", "--json").events:
        it.seen.add("daemon logs --json", line)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    with daemon_home(tmp_path_factory.mktemp("json")) as home:
        memory = str(home.path / "memory")
        fake = ("--resume", "--memory", memory, "--config-options", json.dumps(OPTIONS))
        home.configure(fake=("--modes", "ask,other", *fake), gone=())
        path = home.path / "config.yaml"
        value = json.loads(path.read_text(encoding="utf-8"))
        value["agents"]["list"][1]["runtime"]["command"] = ["no-such-program"]
        files = {"readTextFile": True, "writeTextFile": True}
        value["agents"]["list"][0]["clientCapabilities"] = {"fs": files}
        path.write_text(json.dumps(value), encoding="utf-8")
        return play(home)


@pytest.mark.parametrize("name", TABLES)
def test_the_keys_of_a_document_are_those_of_its_table(name: str, seen: Seen) -> None:
    paths, keys = seen.tables[name], cli_doc.tables()[name]
    assert paths, f"nothing is compared with the table of {name}"
    assert (keys.unknown(paths), keys.missing(paths)) == (set(), set())


@pytest.mark.parametrize("kind", EVENTS)
def test_the_keys_of_an_event_are_those_of_its_type(kind: str, seen: Seen) -> None:
    keys = cli_doc.events()[kind]
    assert seen.events[kind], f"no event of the type {kind} came"
    for paths in seen.events[kind]:
        assert keys.unknown(paths) == set()
    assert keys.missing(set().union(*seen.events[kind])) == set()


def test_each_document_and_event_that_came_is_told_of(seen: Seen) -> None:
    assert set(seen.tables) == set(TABLES)
    assert set(seen.events) == set(EVENTS)
