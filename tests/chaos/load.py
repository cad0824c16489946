"""The load: eight lanes, each a session of an agent of its own, on four clients."""

import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.book import Asked, Book, Run
from tests.chaos.plan import AGENTS, CLIENTS
from tests.chaos.wire import CallError, Client, GoneError, StuckError, Take, Tally, connect

SILENCE = 2.0  # after which a turn is asked after, in seconds
DEADLINE = 1.5  # of a question, in seconds, as configured
TURN_LIMIT = 60.0  # ten times what the longest turn takes, in seconds
CHILDREN = ("plain", "setsid", "double-forked", "env-i", "term-ignoring", "stopped", "holding-all")
NOISE = (
    "garbage",
    "garbage utf8 nul",
    "garbage deep",
    "garbage 70000",
    "split",
    "stderr-flood 9999",
)
WAYS = ("yes", "always", "no", "no", "wrong", "late", "twice", "twist", "cancelled", "silent")
# Of the questions of a session that was granted something, those that are for the same again; and
# of its turns, those before which all its grants are revoked.
AGAIN, REVOKED = 0.3, 0.1
KINDS = {"echo": 3, "stream": 3, "asks": 6, "children": 3, "long": 2}
# More than the daemon keeps in memory of one agent's log, so that its caches are full.
FILL = "stream 2600 900"
YES = ("yes", "always", "twice")
# What a session may answer in the middle of all this; the lane goes on with a new one.
LOST_SESSION = ("session_closed", "no_such_session", "reopen_refused", "resume_not_found")


class Slot:
    """One of the clients: it connects again whenever its connection, or the daemon, is gone."""

    def __init__(self, path: Path, tally: Tally, going_on: Callable[[], bool]) -> None:
        self._path, self._tally, self._going_on = path, tally, going_on
        self._lock = threading.Lock()
        self.client: Client | None = None

    def get(self) -> Client:
        with self._lock:
            if self.client is None or self.client.gone:
                if self.client is not None:
                    self.client.close()
                self.client = connect(self._path, self._tally, 30.0, self._going_on)
            if self.client is None:
                raise GoneError
            return self.client

    def sever(self) -> bool:
        client = self.client
        if client is None or client.gone:
            return False
        client.sever()
        return True

    def close(self) -> None:
        with self._lock:
            if self.client is not None:
                self.client.close()
                self.client = None


@dataclass
class Lane:
    """One session and its turns, one after the other.

    Attributes:
        key: of the session; "" until there is one.
        noisy: set by a fault: the next prompt has the agent send frames that are none.
        doubled: set by a fault: the next question is answered twice, and differently.
        granted: what was last allowed always; "" for nothing.
    """

    number: int
    slot: Slot
    other: Slot
    book: Book
    seed: int
    nonces: Path
    stop: threading.Event
    pause: threading.Event
    key: str = ""
    noisy: bool = False
    doubled: bool = False
    granted: str = ""
    turns: int = 0
    idle: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        while not self.stop.is_set():
            if self.pause.is_set():
                self.idle.set()
                time.sleep(0.02)
                continue
            self.idle.clear()
            self.one_turn()
        self.idle.set()

    def one_turn(self, kind: str = "") -> None:
        """Have one turn, of a kind that is drawn unless it is given."""
        self.turns += 1
        draw = random.Random(f"{self.seed}/{self.number}/{self.turns}")
        kind = kind or draw.choices(list(KINDS), list(KINDS.values()))[0]
        token = f"T-{self.number}-{self.turns}-{kind};"
        lines = [f"echo {token}", *self._lines(kind, draw)]
        if self.noisy:
            self.noisy = False
            lines.insert(1, draw.choice(NOISE))
        try:
            if self.granted and draw.random() < REVOKED:
                self._revoke()
            self._turn(token, kind, lines, draw)
        except GoneError:
            time.sleep(0.01)
        except StuckError as error:
            self.book.stuck.append(f"lane {self.number}: no answer to {error}")
        except CallError as error:
            if error.code in LOST_SESSION:
                self.key = ""
            time.sleep(0.02)

    def _lines(self, kind: str, draw: random.Random) -> list[str]:
        if kind == "fill":
            return [FILL]
        if kind == "stream":
            return [f"stream 200 {draw.choice((0, 40, 900))}"]
        if kind == "children":
            kinds = " ".join(draw.sample(CHILDREN, draw.randint(1, 4)))
            return [f"children {kinds}", "echo done;"]
        if kind == "long":
            return [f"tool execute long-{self.turns}", f"sleep {draw.randint(300, 1500)}"]
        if kind == "asks":
            return [self._ask(index, draw) for index in range(draw.randint(1, 3))]
        return [f"echo {index}-{self.turns};" for index in range(draw.randint(1, 9))]

    def _ask(self, index: int, draw: random.Random) -> str:
        how = draw.choice(WAYS)
        if self.granted and draw.random() < AGAIN:
            return self._again(index)
        nonce = f"N-{self.number}-{self.turns}-{index}-{how}"
        self.book.asked[nonce] = Asked(how in YES, how)
        more = " allow_always" if how == "always" else ""
        return f"ask execute {nonce} allow_once reject_once{more} do {self.nonces} {nonce}"

    def _again(self, index: int) -> str:
        """Ask for what was allowed always: unasked by its grant, else allowed always once more."""
        nonce = f"{self.granted}#{self.turns}-{index}"
        self.book.asked[nonce] = Asked(truth=True, how="granted", allow_sent=True)
        options = "allow_once reject_once allow_always"
        return f"ask execute {self.granted} {options} do {self.nonces} {nonce}"

    def _revoke(self) -> None:
        client = self.slot.get()
        listed = client.call("grants")["grants"]
        ids = [grant["id"] for grant in listed if grant["sessionKey"] == self.key]
        if ids:
            client.call("revoke", ids=ids)

    def _turn(self, token: str, kind: str, lines: list[str], draw: random.Random) -> None:
        client = self.slot.get()
        self.book.tokens.append(token)
        where: dict[str, Any] = {"session": self.key} if self.key else {"agent": f"a{self.number}"}
        receipt = client.call(
            "run",
            content=[{"type": "text", "text": "\n".join(lines)}],
            callerCwd=str(self.nonces.parent),
            env={"PATH": "/usr/bin:/bin"},
            mode="session",
            detach=draw.random() < 0.5,
            **where,
        )
        self.key = receipt["key"]
        run = Run(receipt["runId"], self.key, token, kind, client.hello["pid"])
        self.book.runs.append(run)
        cancel_at = draw.uniform(0.05, 0.6) if kind == "long" and draw.random() < 0.5 else None
        self._watch(client, run, receipt["after"], cancel_at)

    def _watch(self, client: Client, run: Run, after: int, cancel_at: float | None) -> None:
        """Follow the turn to its end, over as many connections as that takes."""
        deadline = time.monotonic() + TURN_LIMIT
        while True:
            events: queue.SimpleQueue[Any] = queue.SimpleQueue()
            try:
                following = client.follow(run.key, after, _into(events))
                after, over = self._read(client, run, events, (after, deadline, cancel_at))
                client.unfollow(following)
                if over:
                    return
            except GoneError:
                pass
            except CallError as error:
                if error.code not in LOST_SESSION:
                    raise
                self.key = ""
            if time.monotonic() > deadline:
                self.book.stuck.append(f"lane {self.number}: {run}")
                self.key = ""
                return
            cancel_at = None
            client = self.slot.get()
            if self._outcome(client, run):
                return  # what was not shown any more is in the log

    @staticmethod
    def _outcome(client: Client, run: Run) -> bool:
        """Ask how a run ended whose connection was lost, if it has."""
        try:
            run.outcome = client.call("wait", runId=run.run_id, limit=0.3)["outcome"]
        except (StuckError, GoneError):
            return False
        return True

    def _read(
        self,
        client: Client,
        run: Run,
        events: "queue.SimpleQueue[Any]",
        bounds: tuple[int, float, float | None],
    ) -> tuple[int, bool]:
        """Read events to the end of the turn; return the last number, and whether it ended."""
        after, deadline, cancel_at = bounds
        while True:
            try:
                rows, end = events.get(timeout=SILENCE if cancel_at is None else cancel_at)
            except queue.Empty:
                if cancel_at is not None:
                    cancel_at = None
                    client.call("cancel", key=run.key, grace=2.0)
                elif time.monotonic() > deadline or self._over(client, run, events):
                    return after, run.outcome != ""
                continue
            for event in rows:
                self.book.show(event)
                if after and event["seq"] != after + 1:
                    self.book.gaps.append(f"{run.key}: {event['seq']} after {after}")
                after = event["seq"]
                if self._take(client, run, event):
                    return after, True
            if end is not ...:
                return after, False

    def _over(self, client: Client, run: Run, events: "queue.SimpleQueue[Any]") -> bool:
        """Tell whether a turn is over that is silent; its last event must have come by then.

        Only a crash keeps it out of the log: the daemon that accepted the run is another one then.
        """
        if not self._outcome(client, run):
            return False
        same = client.hello["pid"] == run.daemon
        patience = time.monotonic() + SILENCE * (5 if same else 1)
        while events.empty() and time.monotonic() < patience:
            time.sleep(0.05)
        if not events.empty():
            return False
        if same:
            self.book.stuck.append(f"lane {self.number}: the end was not shown of {run}")
        return True

    def _take(self, client: Client, run: Run, event: dict[str, Any]) -> bool:
        kind = event["type"]
        if kind == "update" and event["turn"] == run.run_id:
            text = event["update"].get("content") or {}
            text = text.get("text", "") if isinstance(text, dict) else ""
            if text.startswith("T-"):
                self.book.echoes.setdefault(text, time.monotonic())
        elif kind == "permission_asked":
            self._answer(client, run, event["id"], event["title"])
        elif kind == "permission_decided" and event["title"] in self.book.asked:
            self.book.asked[event["title"]].decided = f"{event['effect']}: {event['reason']}"
        elif kind in ("turn_ended", "turn_failed") and event["turn"] == run.run_id:
            run.outcome = kind
            return True
        return False

    # ---- Answers ----

    def _answer(self, client: Client, run: Run, question: str, nonce: str) -> None:
        asked = self.book.asked.get(nonce)
        if asked is None:
            return
        how = asked.how
        if self.doubled:
            self.doubled = False
            how = "twice" if asked.truth else "twist"
        asked.allow_sent = asked.allow_sent or how in YES
        if how == "always":
            if self._say(client, question, "allow_always"):
                self.granted = nonce
        elif how in YES:
            self._decide(client, question, "allow_once", how)
        elif how in ("no", "twist"):
            self._decide(client, question, "reject_once", how)
        elif how != "silent":
            self._mislead(client, run, question, how)

    def _decide(self, client: Client, question: str, option: str, how: str) -> None:
        """Give the right answer, with `twice` and `twist` more than once, and differently."""
        first = self._say(client, question, option)
        if how == "twice":
            self._say(client, question, option)
        if how in ("twice", "twist"):
            other = {"allow_once": "reject_once", "reject_once": "allow_once"}[option]
            self._contradict(question, other, first)

    def _mislead(self, client: Client, run: Run, question: str, how: str) -> None:
        """Say yes in a way that must not be taken."""
        option = "allow_once"
        if how == "wrong":
            option = "allow_always"
        elif how == "late":
            time.sleep(DEADLINE * 1.25)
        else:
            client.call("cancel", key=run.key, grace=2.0)
        if self._say(client, question, option):
            self.book.second_answers.append(f"{question} of {run}: {how}")
        if how == "wrong":
            self._say(client, question, "reject_once")

    def _contradict(self, question: str, option: str, first: bool) -> None:
        """Say the opposite from another client, once the first answer was taken."""
        if not first:
            return
        try:
            taken = self._say(self.other.get(), question, option)
        except GoneError:
            return
        if taken:
            self.book.second_answers.append(f"{question}: a second answer, {option}")

    @staticmethod
    def _say(client: Client, question: str, option: str) -> bool:
        """Give an answer; tell whether it was taken."""
        try:
            client.call("answer", id=question, optionId=option, note="")
        except CallError:
            return False
        return True


def _into(events: "queue.SimpleQueue[Any]") -> Take:
    return lambda rows, end: events.put((rows, end))


def make_lanes(book: Book, socket: Path, home: Path, seed: int) -> tuple[list[Lane], list[Slot]]:
    """Return the lanes and the clients that they share."""
    stop, pause = threading.Event(), threading.Event()
    slots = [Slot(socket, book.tally, lambda: not stop.is_set()) for _ in range(CLIENTS)]
    lanes = [
        Lane(
            number,
            slots[number % CLIENTS],
            slots[(number + 1) % CLIENTS],
            book,
            seed,
            home / "nonces",
            stop,
            pause,
        )
        for number in range(AGENTS)
    ]
    return lanes, slots
