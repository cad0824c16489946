"""A state directory of a test's own, real commands in it, and the proof that nothing is left.

What is left is judged by /proc and by nothing that acpbridge says of itself.
"""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from acpbridge.controller.cgroups import Cgroups
from acpbridge.daemon import frozen, quick
from acpbridge.daemon.paths import Paths
from acpbridge.errors import BridgeError
from fixtures.fake_acp import ENTRY
from tests.integration.conftest import descendants

# What any one command or wait may take unless a test says more: it guards against hanging, and
# says nothing of how long anything takes.
LIMIT = float(os.environ.get("TEST_LIMIT", "60"))
PAUSE = 0.02

Found = TypeVar("Found")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Home:
    """A state directory and the commands that are run in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark = f"mark-{path.name}-{os.getpid()}-{time.monotonic_ns()}"
        self.env = {
            name: value for name, value in os.environ.items() if not name.startswith("ACPBRIDGE")
        }
        self.env |= {"NO_COLOR": "1", "HOME": str(path)}

    def agent(self, *options: str) -> list[str]:
        """Return the command of a fake agent whose children can be found."""
        return [sys.executable, "-I", "-S", ENTRY, "--mark", self.mark, *options]

    def configure(self, limits: dict[str, Any] | None = None, **agents: Sequence[str]) -> None:
        """Write the configuration: an agent for each name, with options of the fake one."""
        rows = [
            {"id": name, "runtime": {"kind": "acp", "command": self.agent(*options)}}
            for name, options in agents.items()
        ]
        value = {"agents": {"list": rows}, "limits": limits or {}}
        # JSON is YAML.
        (self.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")

    def files(self) -> dict[Path, bytes]:
        """Return all that is kept, by file; one may go or get its name while others are read."""
        found = {}
        for path in self.path.rglob("*"):
            with suppress(FileNotFoundError):
                if path.is_file():
                    found[path] = path.read_bytes()
        return found

    def argv(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "acpbridge", "--home", str(self.path), *args]

    def run(self, *args: str, stdin: str | None = None, limit: float = LIMIT) -> Done:
        """Run a command to its end."""
        done = subprocess.run(
            self.argv(*args),
            input=stdin if stdin is None else stdin.encode(),
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=limit,
            env=self.env,
            cwd=self.path,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def run_inside(self, mark: str, *args: str, limit: float = LIMIT) -> Done:
        """Run a command as if a session had started it: it bears the session's marker."""
        before = self.env
        self.env = before | {"ACPBRIDGE_MARK": mark}
        try:
            return self.run(*args, limit=limit)
        finally:
            self.env = before

    @contextmanager
    def running(self, *args: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a command beside the test, and end it with the block."""
        process = subprocess.Popen(
            self.argv(*args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env,
            cwd=self.path,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def terminal(self, *args: str) -> Iterator["Terminal"]:
        """Run a command on a terminal of its own."""
        pid, fd = pty.fork()
        if pid == 0:
            try:
                os.chdir(self.path)
                os.execve(sys.executable, self.argv(*args), self.env)
            finally:
                os._exit(99)
        terminal = Terminal(pid, fd)
        try:
            yield terminal
        finally:
            terminal.close()

    def start(self) -> None:
        """Have a daemon run.

        Where the machine is so busy that it says hello too late for the command, it is asked again.
        """
        deadline = time.monotonic() + LIMIT
        while (done := self.run("daemon", "start")).code != 0:
            assert "daemon_frozen" in done.err, done
            assert time.monotonic() < deadline, done

    @property
    def paths(self) -> Paths:
        return Paths(self.path, self.path / "config.yaml")

    def ask(self, method: str, **params: Any) -> Any:
        """Call the daemon as the quick commands do, and start none; None where none answers.

        A command takes a tenth of a second of a processor and more; a test that looks again and
        again looks this way.
        """
        try:
            client = quick.connect(self.paths, any_version=True)
            if client is None:
                return None
            with client:
                return client.call(method, **params)
        except BridgeError as error:
            if error.code != "connection_closed":
                raise
            return None  # it ended just then

    def serves(self) -> bool:
        """Tell whether a daemon answers."""
        return self.ask("status") is not None

    def status(self) -> Any:
        """Return what `status --json` prints."""
        found = self.ask("status")
        return self.run("status", "--json").json if found is None else found

    def row(self, key: str) -> Any:
        """Return what `status KEY --json` prints of a session, live or not."""
        (row,) = self.ask("status", key=key)["sessions"]
        return row

    def record(self, key: str) -> Any:
        """Return what `sessions --all --json` prints of a session; a daemon is started for it."""
        found = self.ask("sessions", all=True)
        rows = self.run("sessions", "--all", "--json").json if found is None else found
        return next(row for row in rows["sessions"] if row["key"] == key)

    def records(self, *options: str) -> list[dict[str, Any]]:
        """Return what `sessions --all --json` prints, without main sessions that nobody used."""
        rows = self.run("sessions", "--all", "--json", *options).json["sessions"]
        return [row for row in rows if row["opens"] or not row["key"].endswith(":main")]

    def session(self) -> Any:
        """Return the one session that lives."""
        (row,) = self.status()["sessions"]
        return row

    def wait_question(self) -> Any:
        """Return the one open question, once there is one."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            found = self.ask("questions")
            if found and found["permissions"]:
                return found["permissions"][0]
            time.sleep(PAUSE)
        raise AssertionError("no question came up")

    def daemon_pid(self) -> int:
        return int((self.path / "daemon.lock").read_text(encoding="ascii"))

    def marked(self) -> dict[int, str]:
        """Return the processes that carry the directory or the mark in arguments or environment."""
        needles = (os.fsencode(self.path), self.mark.encode())
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            try:
                texts = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:
                continue
            if any(needle in text for needle in needles for text in texts):
                found[int(entry.name)] = texts[0].replace(b"\0", b" ").decode(errors="replace")
        return found


class Terminal:
    """A command on a pseudo-terminal: what it shows, and what a person types."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        self.seen = ""
        self._fd = fd
        self._at = 0
        self._status: int | None = None

    def expect(self, text: str, limit: float = LIMIT) -> str:
        """Read until a text was shown after the last one expected; return what came before it."""
        deadline = time.monotonic() + limit
        while (found := self.seen.find(text, self._at)) < 0:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{text!r} was not shown in: {self.seen[self._at :]!r}")
        before = self.seen[self._at : found]
        self._at = found + len(text)
        return before

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait(self, limit: float = LIMIT) -> int:
        """Read to the end and return the exit status."""
        deadline = time.monotonic() + limit
        while self._read(deadline - time.monotonic()):
            pass
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = status
                return os.waitstatus_to_exitcode(status)
            time.sleep(PAUSE)
        raise AssertionError(f"still running, having shown: {self.seen!r}")

    def close(self) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._fd], [], [], max(0, seconds))[0]:
            return False
        try:
            piece = os.read(self._fd, 65536)
        except OSError:
            return False
        self.seen += piece.decode(errors="replace")
        return bool(piece)


def until(look: Callable[[], Found], limit: float = LIMIT) -> Found:
    """Look until there is something to see, and return it."""
    deadline = time.monotonic() + limit
    while not (found := look()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(PAUSE)
    return found


def failed(done: Done, code: str, status: int) -> str:
    """Check an error's code, status and hint; return all that was said."""
    assert f"error ({code}): " in done.err, done
    assert "\nnext: " in done.err, done
    assert done.code == status, done
    return done.err


def alive(pid: int) -> bool:
    """Tell whether a process can still run code."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace", encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def used(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return sessions without the main ones of configured agents that nobody has prompted."""
    return [row for row in rows if row["opens"] or not row["key"].endswith(":main")]


def wait_gone(pids: Sequence[int], limit: float = LIMIT) -> list[int]:
    """Wait until processes are gone; return those that are not."""
    deadline = time.monotonic() + limit
    left = list(pids)
    while (left := [pid for pid in left if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    return left


@contextmanager
def daemon_home(path: Path) -> Iterator[Home]:
    """Give a test its own state directory; at the end its daemon is stopped and nothing is left."""
    home = Home(path / "home")
    home.path.mkdir(mode=0o700)
    home.configure(fake=())
    groups = Cgroups.find(home.path)
    try:
        yield home
    finally:
        below = _everything(home)
        stopped = _stop(home)
        left = wait_gone([*below, *home.marked()], 20)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, f"left behind: {left}"
        # Of a daemon that was killed an empty group may be left, for the next start to remove.
        assert groups is None or (groups.sweep(), groups.left()) == ([], [])
        assert stopped.code == 0, stopped


def _stop(home: Home) -> Done:
    """Stop the daemon as `daemon stop` does, and by `--force` where it has work or is frozen."""
    try:
        client = quick.connect(home.paths, any_version=True)
        if client is None:
            return Done(0, "", "")
        with client:
            client.call("stop", force=False, ifIdle=not client.stopping)
    except BridgeError as error:
        if error.code != "connection_closed":
            return home.run("daemon", "stop", "--force")
    if frozen.wait_stopped(home.paths, LIMIT):
        return Done(0, "", "")
    return home.run("daemon", "stop", "--force")


def _everything(home: Home) -> list[int]:
    try:
        pid = home.daemon_pid()
    except (OSError, ValueError):
        return []
    return [pid, *descendants(pid)] if alive(pid) and pid in home.marked() else []
