"""One state directory with its daemon, which is started again whenever a fault killed it."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import IO

from fixtures.fake_acp import ENTRY
from tests.chaos import procs
from tests.chaos.book import Book
from tests.chaos.load import DEADLINE
from tests.chaos.plan import AGENTS
from tests.chaos.wire import Client, connect

ROOT = Path(__file__).parents[2]
START_LIMIT = 40.0  # ten times what a start may take, in seconds
STOP_LIMIT = 20.0  # the promise is ten seconds
# What makes each of the agents harder to end, or odder to talk to.
MANNERS = (
    (),
    ("--ignore-term",),
    ("--ignore-eof",),
    ("--string-ids",),
    ("--ignore-term", "--ignore-eof"),
    ("--framing", "crlf,blank"),
    ("--close", "--resume"),
    ("--linger", "1500"),
)


class World:
    """The daemon and what belongs to it."""

    def __init__(self, home: Path, book: Book) -> None:
        self.home = home
        self.book = book
        self.mark = f"chaos-{uuid.uuid4().hex}"
        self.socket = home / "daemon.sock"
        self.restarts = 0
        self.exits: list[int] = []
        self.bystanders: set[procs.Who] = set()
        # Guards, keepers and shims need not bear the mark: whoever was one stays under suspicion.
        self._suspects: set[procs.Who] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] = (home / "said").open("ab")
        self.configure()

    # ---- What is asked for ----

    def agent(self, number: int, log: Path | None = None) -> list[str]:
        """Return the command of an agent, which keeps a log of all it lives through."""
        files = ["--memory", str(self.home / f"a{number}.memory")]
        files += ["--log", str(log or self.log(number))]
        return [sys.executable, "-I", "-S", ENTRY, "--mark", self.mark, *files, *MANNERS[number]]

    def log(self, number: int) -> Path:
        return self.home / f"a{number}.log"

    def configure(self, idle: float = 900.0) -> None:
        rows = [
            {"id": f"a{number}", "runtime": {"kind": "acp", "command": self.agent(number)}}
            for number in range(AGENTS)
        ]
        limits = {
            "permissionSeconds": DEADLINE,
            "maxProcesses": 3 * AGENTS,
            "idleTtlSeconds": idle,
            "startSeconds": 20.0,
        }
        self.write_config(json.dumps({"agents": {"list": rows}, "limits": limits}))

    def write_config(self, text: str, name: str = "config.yaml") -> None:
        """Put a file of the user's in the place of the one that is there, whole."""
        new = self.home / f"{name}.new"
        new.write_text(text, encoding="utf-8")
        new.chmod(0o600)
        new.replace(self.home / name)

    # ---- The daemon ----

    @property
    def daemon(self) -> procs.Row | None:
        return None if self._process is None else procs.row(self._process.pid)

    def start(self) -> None:
        """Start the daemon, and wait until it serves."""
        env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        env |= {"HOME": str(self.home), "CHAOS": self.mark, "PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "-m", "acpbridge", "--home", str(self.home), "daemon", "run"]
        began = time.monotonic()
        self._process = subprocess.Popen(
            argv,
            env=env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._said,
        )
        process = self._process
        client = connect(self.socket, self.book.tally, START_LIMIT, lambda: process.poll() is None)
        if client is None:
            raise AssertionError(f"the daemon does not serve: {self.said()[-2000:]}")
        self.book.serves.append(time.monotonic() - began)
        client.close()

    def restart(self) -> None:
        """Start it anew after its death."""
        assert self._process is not None
        self.exits.append(self._process.wait(STOP_LIMIT))
        self.restarts += 1
        self.start()

    def stop(self) -> float:
        """Stop it cleanly; return the seconds that took."""
        assert self._process is not None
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            self.exits.append(self._process.wait(STOP_LIMIT))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.exits.append(self._process.wait())
        return time.monotonic() - began

    def close(self) -> None:
        """End whatever is left of it."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._said.close()
        deadline = time.monotonic() + STOP_LIMIT
        while (left := self.ours()) and time.monotonic() < deadline:
            for one in left:
                procs.send(one, signal.SIGKILL)
            time.sleep(0.02)

    def said(self) -> str:
        return (self.home / "said").read_text(encoding="utf-8", errors="replace")

    def client(self) -> Client:
        found = connect(self.socket, self.book.tally, START_LIMIT, lambda: True)
        assert found is not None
        return found

    # ---- What the kernel shows ----

    def ours(self, rows: dict[int, procs.Row] | None = None) -> list[procs.Row]:
        """Return whoever bears the mark, or was seen below a daemon of ours, and lives."""
        needle = self.mark.encode()
        return [
            one
            for one in (rows or procs.table()).values()
            if one.state not in "ZX"
            and one.pid != os.getpid()
            and one.who not in self.bystanders
            and (one.who in self._suspects or needle in one.argv or needle in one.environ)
        ]

    def helpers(self, name: str) -> list[procs.Row]:
        """Return the guards, keepers or shims below the daemon that lives."""
        daemon = self.daemon
        below = [] if daemon is None else procs.below(daemon.pid, procs.table())
        self._suspects |= {one.who for one in below}
        return [one for one in below if one.name == f"acpb-{name}" and one.state not in "ZX"]

    def agent_row(self, number: int, key: str = "") -> procs.Row | None:
        """Return the process of an agent below its shim; of this very session, if it is given."""
        needle = str(self.log(number)).encode()
        rows = procs.table()
        for shim in self.helpers("shim"):
            for one in rows.values():
                if one.ppid == shim.pid and needle in one.argv and key.encode() in one.environ:
                    return one
        return None
