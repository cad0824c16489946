"""G28: no disk, no descriptors. New work is refused, what is pending denied, what runs is kept.

And it recovers without a restart. The full disks are real ones where this may be mounted (root);
the armed fault points give the same errors everywhere.
"""

import json
import os
import resource
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from acpbridge.daemon.wire import WIRE_VERSION
from acpbridge.errors import BridgeError
from tests.integration.daemon_home import LIMIT, Home, daemon_home, failed, until
from tests.integration.traffic import Client, client, ended, start


@contextmanager
def daemon(home: Home, fault: str = "", *, descriptors: int = 0) -> Iterator[None]:
    """Run a daemon in the foreground, with faults armed or with few descriptors."""

    def limit() -> None:
        if descriptors:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    env = home.env | ({"ACPBRIDGE_FAULT": fault} if fault else {})
    log = (home.path / "daemon.log").open("ab")
    with (
        log,
        subprocess.Popen(
            home.argv("daemon", "run"), env=env, stderr=log, preexec_fn=limit
        ) as process,
    ):
        try:
            until(lambda: connects(home))
            yield
            assert process.poll() is None
            with client(home) as caller:
                caller.call("stop", force=False)
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()


def connects(home: Home) -> bool:
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(str(home.path / "daemon.sock")) == 0


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(BridgeError) as caught:
        call()
    assert caught.value.hint
    return caught.value.code


def hold(home: Home, stack: ExitStack) -> socket.socket:
    """Connect, say hello, and do nothing more."""
    sock = stack.enter_context(socket.socket(socket.AF_UNIX))
    sock.settimeout(20)
    sock.connect(str(home.path / "daemon.sock"))
    hello = {"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"wire": WIRE_VERSION}}
    sock.sendall(json.dumps(hello).encode() + b"\n")
    return sock


@pytest.mark.parametrize("descriptors", [40])
def test_g28_without_descriptors_one_still_looks_and_ends_and_more_is_refused(
    tmp_path: Path, descriptors: int
) -> None:
    """Without the test of `NARROW`: `DID NOT RAISE` for the run of the last client.

    Where nobody makes way (`Slot.idle`): `daemon_frozen` for it, behind a hundred that do nothing.
    """
    with daemon_home(tmp_path) as home, daemon(home, descriptors=descriptors):
        with client(home) as early:
            running = start(early, "say working\nhang", agent="fake")
            until(lambda: row(early, running["key"])["agentSessionId"])
            with ExitStack() as crowd:
                for _ in range(100):
                    hold(home, crowd)
                with client(home) as late:
                    shown = row(late, running["key"])
                    assert shown["state"] == "running", shown
                    assert refused(lambda: start(late, "say no", agent="fake")) == "capacity"
                    killed = late.call("kill", limit=30, keys=[running["key"]], grace=0)
                    assert killed["ok"], killed
                    assert killed["results"][0]["killed"], killed
        with client(home) as again:
            done = until(lambda: unless("capacity", lambda: ended(again, "say back", agent="fake")))
        assert done["outcome"] == "completed"


class Room:
    """Takes the room away from a daemon's files, and gives it back."""

    def __init__(self, home: Home, how: str) -> None:
        self._home = home
        self._how = how

    def take(self) -> None:
        if self._how == "limit":
            self._limit(1)
            return
        with (self._home.path / "fill").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def give(self) -> None:
        if self._how == "limit":
            self._limit(resource.RLIM_INFINITY)
        else:
            (self._home.path / "fill").unlink()

    def _limit(self, size: int) -> None:
        hard = resource.RLIM_INFINITY
        resource.prlimit(self._home.daemon_pid(), resource.RLIMIT_FSIZE, (size, hard))


@contextmanager
def disk(path: Path, how: str) -> Iterator[None]:
    """Put a small disk where a home will be; not where a limit takes the room away."""
    path.mkdir()
    if how == "limit":
        yield
        return
    words = ["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs", str(path)]
    if os.getuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("only where a disk may be mounted")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


def leave_no_page(home: Home, caller: Client) -> None:
    """Have the audit fill its page, so that the next record needs another one."""
    for _ in range(50):
        before = (home.path / "audit.jsonl").stat().st_size
        ended(caller, "ask execute x", agent="fake", onPermission="deny")
        size = (home.path / "audit.jsonl").stat().st_size
        if -size % 4096 < (size - before) // 2:
            return
    raise AssertionError("no page was filled")


@pytest.mark.parametrize("how", ["limit", "disk"])
def test_g28_a_full_disk_refuses_and_denies_and_keeps_what_runs(tmp_path: Path, how: str) -> None:
    """An event that cannot be committed is not shown; it is shown once it can."""
    place = tmp_path / how
    with disk(place, how), daemon_home(place) as home:  # noqa: SIM117 - what is left is looked at
        with daemon(home), client(home) as caller:
            room = Room(home, how)
            kept = ended(caller, "say before", agent="fake", mode="session")["key"]
            done = home.path / "done"
            if how == "disk":
                leave_no_page(home, caller)
            asking = start(caller, f"ask execute x do {done}", agent="fake")
            (question,) = until(lambda: caller.call("questions")["permissions"])
            streaming = start(caller, "stream 20\nsleep 1\nsay after all\nhang", agent="fake")
            until(lambda: row(caller, streaming["key"])["agentSessionId"])
            room.take()
            answer = caller.call("answer", id=question["id"], effect="allow")
            assert (answer["effect"], answer["reason"]) == ("deny", "audit_failed")
            assert refused(lambda: start(caller, "say no", agent="fake")) == "store_full"
            assert refused(lambda: start(caller, "say no", session=kept)) == "store_full"
            assert row(caller, streaming["key"])["state"] == "running"
            assert row(caller, kept)["state"] == "ready"
            until(lambda: "cannot be written" in str(caller.call("status", key="")["warnings"]))
            killed = caller.call("kill", limit=30, keys=[asking["key"]], grace=0)
            assert killed["ok"], killed
            room.give()
            again = until(
                lambda: unless("store_full", lambda: ended(caller, "say on", session=kept))
            )
            assert again["outcome"] == "completed"
            until(lambda: "cannot be" not in str(caller.call("status", key="")["warnings"]))
            until(lambda: "after all" in logged(home, streaming["key"]))
            assert not done.exists()
            caller.call("kill", limit=30, keys=[streaming["key"]], grace=0)


def logged(home: Home, key: str) -> str:
    return home.run("logs", key, "--json").out


def test_g28_a_disk_that_is_full_at_the_stop_and_at_the_start_is_said(tmp_path: Path) -> None:
    with disk(tmp_path / "disk", "disk"), daemon_home(tmp_path / "disk") as home:
        room = Room(home, "disk")
        with daemon(home), client(home) as caller:
            kept = ended(caller, "say before", agent="fake", mode="session")["key"]
            room.take()
        failed(home.run("daemon", "start", limit=40), "store_full", 1)
        room.give()
        with daemon(home), client(home) as caller:
            rows = caller.call("sessions", all=True)["sessions"]
            (record,) = [row for row in rows if row["opens"]]
            assert (record["key"], record["state"]) == (kept, "idle")


def test_row_32_an_audit_that_alone_cannot_be_written_denies_and_the_session_goes_on(
    tmp_path: Path,
) -> None:
    """With `if True` for `if recorded or not allows`: `executed 1` and `executed 2` too."""
    # The first two are of the start: of the daemon and of the policy.
    with daemon_home(tmp_path) as home, daemon(home, "audit.write:3-4:eio,audit.write:5:short"):
        with client(home) as caller:
            done = home.path / "done"
            words = "\n".join(f"ask execute x do {done} {n}" for n in (1, 2, 3))
            running = start(caller, words, agent="fake", onPermission="allow")
            ended_run = caller.call("wait", limit=30, runId=running["runId"])
            assert ended_run["outcome"] == "completed"
            shown = caller.call("status", key="")["warnings"]
            assert ["for tests" in warning for warning in shown] == [True]
        # Each denial is a second record; the first allow that is written is that of the third.
        assert done.read_text(encoding="utf-8") == "executed 3\n"
        assert [r["decision"] for r in audit(home)] == ["deny", "allow"]


def audit(home: Home) -> list[Any]:
    text = (home.path / "audit.jsonl").read_text(encoding="utf-8")
    records = map(json.loads, text.splitlines())
    return [record for record in records if record["kind"] == "permission_decided"]


def unless(code: str, call: Callable[[], Any]) -> Any:
    """Return what a call returns, None if it is refused with this code."""
    try:
        return call()
    except BridgeError as error:
        if error.code != code:
            raise
        return None


def row(caller: Any, key: str) -> Any:
    (found,) = caller.call("status", key=key)["sessions"]
    return found
