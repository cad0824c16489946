"""What breaks things, each as the plan says; what takes time is done beside the schedule."""

import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress

from tests.chaos import procs
from tests.chaos.book import Book
from tests.chaos.load import Lane, Slot
from tests.chaos.plan import CRASHES, Fault
from tests.chaos.wire import CallError, Client, GoneError, StuckError
from tests.chaos.world import World

# Ten times the promise of two seconds.
DEATH_LIMIT = 20.0
KILL_LIMIT = 30.0
BAD_FRAMES = (
    b"\x00\xff\xfe\n",
    b"{\n",
    b"[" * 100_000 + b"\n",
    b'{"jsonrpc":"2.0","id":1,"method":"status"}\n',
    b'{"jsonrpc":"2.0","id":null,"method":"hello","params":[]}\n',
    b'{"jsonrpc":"2.0","id":1,"id":2,"method":"hello","params":{}}\n',
    b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"wire":NaN}}\n',
    b"x" * 200_000,
    b'{"jsonrpc":"2.0","id":7,"result":{}}\n' * 50,
    b"GET / HTTP/1.1\r\n\r\n",
)
BAD_CONFIGS = ("agents: [", "{nonsense: 1}", "\x00", "limits: {maxProcesses: -1}")
POLICY = "policy.yaml"
# Neither is about what the agents ask: that stays with people, whatever is in force.
POLICIES = (
    'rules: [{effect: allow, tool_kind: [read, search], path: "{root}/**"}]',
    'rules: [{effect: deny, tool_kind: [edit, delete], path: "**/.env"}]',
)
BAD_POLICIES = ("rules: [", "rules: 1", "{nonsense: 1}", "rules: [{effect: allow}]")
HARMLESS = (signal.SIGCONT, signal.SIGWINCH, signal.SIGURG, signal.SIGCHLD)


class Injector:
    """Carries out a plan against a world.

    Attributes:
        done: faults that hit something, by kind.
        missed: faults that found nothing to hit.
    """

    def __init__(self, world: World, lanes: list[Lane], slots: list[Slot]) -> None:
        self.world = world
        self.book: Book = world.book
        self.done: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.failed: list[str] = []
        self._lanes = lanes
        self._slots = slots
        self._beside: list[threading.Thread] = []
        self._over = threading.Event()

    def run(self, plan: Iterable[Fault]) -> None:
        """Do it all at its time."""
        began: float | None = None
        for fault in plan:
            if began is None:
                began = time.monotonic() - fault.at
            time.sleep(max(0.0, began + fault.at - time.monotonic()))
            try:
                hit = getattr(self, f"_{fault.kind}")(fault)
            except (GoneError, StuckError, CallError, OSError) as error:
                hit = False
                if isinstance(error, StuckError):
                    self.failed.append(f"{fault.kind}: {error!r}")
            (self.done if hit is not False else self.missed)[fault.kind] += 1

    def finish(self) -> None:
        """Wait for what goes on beside."""
        self._over.set()
        for thread in self._beside:
            thread.join(KILL_LIMIT * 2)
        self._beside.clear()
        self._over.clear()

    def _start(self, do: Callable[[], None]) -> None:
        def guarded() -> None:
            with suppress(GoneError, CallError, OSError):
                try:
                    do()
                except StuckError as error:
                    self.failed.append(repr(error))

        thread = threading.Thread(target=guarded, daemon=True)
        self._beside.append(thread)
        thread.start()

    # ---- Processes ----

    def _kill(self, kind: str, victims: list[procs.Row], tree: list[procs.Row]) -> bool:
        """KILL, and measure how long the tree of the victims lives on."""
        began = time.monotonic()
        hit = [procs.send(victim, signal.SIGKILL) for victim in victims]
        if not all(hit):
            return any(hit)
        those = [one.who for one in tree]

        def measure() -> None:
            left = procs.wait_dead(those, DEATH_LIMIT)
            self.book.deaths.setdefault(kind, []).append(time.monotonic() - began)
            if left:
                self.book.undead.append(f"{kind}: {left}")

        self._start(measure)
        return True

    def _pulse(self, one: procs.Row | None, seconds: float) -> bool:
        """STOP, and CONT later."""
        if one is None or not procs.send(one, signal.SIGSTOP):
            return False

        def go_on() -> None:
            self._over.wait(seconds)
            procs.send(one, signal.SIGCONT)

        self._start(go_on)
        return True

    def _shim(self, fault: Fault) -> procs.Row | None:
        agent = self.world.agent_row(fault.target)
        return None if agent is None else procs.row(agent.ppid)

    def _kill_agent(self, fault: Fault) -> bool:
        agent = self.world.agent_row(fault.target)
        return agent is not None and procs.send(agent, signal.SIGKILL)

    def _stop_agent(self, fault: Fault) -> bool:
        return self._pulse(self.world.agent_row(fault.target), fault.seconds)

    def _kill_shim(self, fault: Fault) -> bool:
        shim = self._shim(fault)
        return shim is not None and self._kill("kill_shim", [shim], _tree(shim))

    def _stop_shim(self, fault: Fault) -> bool:
        return self._pulse(self._shim(fault), fault.seconds)

    def _kill_keeper(self, _fault: Fault) -> bool:
        return self._kill_helper("keeper")

    def _kill_guard(self, _fault: Fault) -> bool:
        return self._kill_helper("guard")

    def _kill_helper(self, name: str) -> bool:
        found = self.world.helpers(name)
        return bool(found) and self._kill(f"kill_{name}", found[:1], _tree(found[0]))

    def _stop_keeper(self, fault: Fault) -> bool:
        found = self.world.helpers("keeper")
        return bool(found) and self._pulse(found[0], fault.seconds)

    def _stop_daemon(self, fault: Fault) -> bool:
        return self._pulse(self.world.daemon, fault.seconds)

    def _harmless_signal(self, fault: Fault) -> bool:
        daemon = self.world.daemon
        if daemon is None:
            return False
        rows = [daemon, *procs.below(daemon.pid, procs.table())]
        ours = [one for one in rows if one.name.startswith("acpb-") or one.pid == daemon.pid]
        one = ours[fault.how % len(ours)]
        return procs.send(one, HARMLESS[fault.how % len(HARMLESS)])

    def _kill_daemon(self, fault: Fault) -> bool:
        daemon = self.world.daemon
        if daemon is None:
            return False
        how = CRASHES[fault.how % len(CRASHES)]
        more: list[procs.Row] = []
        if how in ("with_keeper", "with_guard"):
            more = self.world.helpers(how.removeprefix("with_"))[:1]
        elif how == "with_shim":
            shim = self._shim(fault)
            more = [] if shim is None else [shim]
        tree = _tree(daemon)
        self.done[f"kill_daemon {how}"] += 1
        hit = self._kill("kill_daemon", [daemon, *more], tree)
        self.world.restart()
        return hit

    # ---- Clients and frames ----

    def _kill_client(self, fault: Fault) -> bool:
        return self._slots[fault.target % len(self._slots)].sever()

    def _slow_client(self, fault: Fault) -> bool:
        key = self._lanes[fault.target].key
        if not key:
            return False
        sock = socket.socket(socket.AF_UNIX)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect(str(self.world.socket))
        hello = b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{}}\n'
        follow = b'{"jsonrpc":"2.0","id":2,"method":"follow","params":{"key":"%b","after":0}}\n'
        sock.sendall(hello + follow % key.encode())

        def sip() -> None:
            with sock:
                while not self._over.wait(1.0) and sock.recv(1):
                    pass

        self._start(sip)
        return True

    def _bad_frame_socket(self, fault: Fault) -> None:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(2.0)
            sock.connect(str(self.world.socket))
            with suppress(OSError):
                sock.sendall(BAD_FRAMES[fault.how % len(BAD_FRAMES)])
                if fault.how & 64:
                    sock.recv(4096)

    def _bad_frame_agent(self, fault: Fault) -> None:
        self._lanes[fault.target].noisy = True

    def _double_answer(self, fault: Fault) -> None:
        self._lanes[fault.target].doubled = True

    def _reload(self, fault: Fault) -> None:
        draw = random.Random(fault.how)
        if draw.random() < 0.5:
            self.world.write_config(draw.choice(BAD_CONFIGS))
            self._over.wait(0.05)
        self.world.configure(idle=draw.choice((600.0, 900.0)))

    def _reload_policy(self, fault: Fault) -> None:
        draw = random.Random(fault.how)
        if draw.random() < 0.5:
            self.world.write_config(draw.choice(BAD_POLICIES), POLICY)
            self._over.wait(0.1)
        # None but a good one stays: with a broken one the next daemon would not start.
        self.world.write_config(draw.choice(POLICIES), POLICY)

    # ---- Calls ----

    def _cancel(self, fault: Fault) -> bool:
        key = self._lanes[fault.target].key
        if key:
            self._call(lambda client: client.call("cancel", key=key, grace=0.5, limit=KILL_LIMIT))
        return bool(key)

    def _restart_session(self, fault: Fault) -> bool:
        key = self._lanes[fault.target].key
        env = {"PATH": "/usr/bin:/bin"}
        if key:
            self._call(
                lambda client: client.call(
                    "restart", key=key, env=env, force=True, limit=KILL_LIMIT
                )
            )
        return bool(key)

    def _look(self, _fault: Fault) -> None:
        def look(client: Client) -> None:
            began = time.monotonic()
            client.call("status")
            self.book.looks.append(time.monotonic() - began)

        self._call(look)

    def _kill_session(self, fault: Fault) -> bool:
        key = self._lanes[fault.target].key
        agent = self.world.agent_row(fault.target, key)
        shim = None if agent is None else procs.row(agent.ppid)
        if not key or agent is None or shim is None:
            return False
        tree = [one.who for one in _tree(shim)]
        grace = (0.0, 0.0, 0.3)[fault.how % 3]

        def kill(client: Client) -> None:
            began = time.monotonic()
            receipt = client.call("kill", keys=[key], grace=grace, limit=KILL_LIMIT)
            took = time.monotonic() - began
            left = [who for who in tree if procs.alive(who)]
            if any(row["survivors"] for row in receipt["results"]):
                self.book.undead.append(f"kill: {receipt}")
            elif left:
                self.book.lies.append(f"{key}: {left} lived when the receipt said {receipt}")
            self.book.kills.append((max(0.0, took - grace), len(tree)))

        self._call(kill)
        return True

    def _call(self, do: Callable[[Client], None]) -> None:
        def call() -> None:
            client = Client(self.world.socket, self.book.tally)
            try:
                do(client)
            finally:
                client.close()

        self._start(call)


def _tree(top: procs.Row) -> list[procs.Row]:
    rows = procs.table()
    return [one for one in procs.below(top.pid, rows) if one.state not in "ZX"]
