"""The tools that look and the commands beside them, with a real daemon and real processes."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acpbridge.router.listing import SHARED
from tests.integration.daemon_home import Home, alive, daemon_home, failed, until


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("looks")) as home:
        home.start()
        yield home


def call(home: Home, method: str, **params: Any) -> Any:
    found = home.ask(method, **params)
    assert found is not None
    return found


def begun(home: Home, words: str, **how: Any) -> str:
    """Start a run of a person's, and return its key once its agent works on it."""
    content = [{"type": "text", "text": words}]
    wanted = {"cwd": str(home.path), "agent": "fake", "detach": True, "env": home.env, **how}
    key = str(call(home, "run", content=content, **wanted)["key"])
    until(lambda: (home.row(key)["turn"] or {}).get("startedAt"))
    return key


def child_of(home: Home, key: str, words: str) -> str:
    """Have a session's own agent start a run, as a process of its tree would."""
    agent = next(p["pid"] for p in home.row(key)["processes"] if p["role"] == "agent")
    environ = Path(f"/proc/{agent}/environ").read_bytes().split(b"\0")
    mark = next(w for w in environ if w.startswith(b"ACPBRIDGE_MARK=")).partition(b"=")[2].decode()
    done = home.run_inside(mark, "run", words, "--agent", "fake", "--detach", "--format", "json")
    assert done.code == 0, done
    child = str(done.out.split()[0]) if not done.out.startswith("{") else done.json["key"]
    until(lambda: (home.row(child)["turn"] or {}).get("startedAt"))
    return child
