"""G28: no disk, no descriptors. New work is refused, what is pending denied, what runs is kept.

And it recovers without a restart. The full disks are real ones where this may be mounted (root);
the armed fault points give the same errors everywhere.
"""

import json
import os
import resource
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from acpbridge.daemon.wire import WIRE_VERSION
from acpbridge.errors import BridgeError
from tests.integration.daemon_home import Home, daemon_home, until
from tests.integration.traffic import client, ended, start

pytestmark = pytest.mark.timeout(120)


@contextmanager
def daemon(home: Home, fault: str = "", *, descriptors: int = 0) -> Iterator[None]:
    """Run a daemon in the foreground, with faults armed or with few descriptors."""

    def limit() -> None:
        if descriptors:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    env = home.env | ({"ACPBRIDGE_FAULT": fault} if fault else {})
    log = (home.path / "daemon.log").open("ab")
    with log, subprocess.Popen(
        home.argv("daemon", "run"), env=env, stderr=log, preexec_fn=limit
    ) as process:
        try:
            until(lambda: connects(home))
            yield
            assert process.poll() is None
            with client(home) as caller:
                caller.call("stop", force=False)
            assert process.wait(30) == 0
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


@pytest.mark.parametrize("descriptors", [40, 64])
def test_g28_without_descriptors_one_still_looks_and_ends_and_more_is_refused(
    tmp_path: Path, descriptors: int
) -> None:
    with daemon_home(tmp_path) as home, daemon(home, descriptors=descriptors):
        with client(home) as early:
            running = start(early, "say working\nhang", agent="fake")
            until(lambda: row(early, running["key"])["turn"]["lastUpdateAt"])
            with ExitStack() as crowd:
                for _ in range(100):
                    hold(home, crowd)
                with client(home) as late:
                    assert row(late, running["key"])["state"] == "running"
                    assert refused(lambda: start(late, "say no", agent="fake")) == "capacity"
                    killed = late.call("kill", limit=30, keys=[running["key"]], grace=0)
                    assert killed["ok"], killed
                    assert killed["results"][0]["killed"], killed
        with client(home) as again:
            done = until(lambda: try_again(lambda: ended(again, "say back", agent="fake")))
        assert done["outcome"] == "completed"


def try_again(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except BridgeError as error:
        assert error.code == "capacity", error
        return None


def row(caller: Any, key: str) -> Any:
    (found,) = caller.call("status", key=key)["sessions"]
    return found
