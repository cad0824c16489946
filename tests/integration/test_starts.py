"""Starts that go wrong: each says why, ends what it started, and leaves its place to the next."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acpbridge.errors import BridgeError
from tests.integration.daemon_home import LIMIT, PAUSE, Home, daemon_home, wait_gone
from tests.integration.traffic import Look, client, ended, log_option, start

VERSIONS = (2, 0, 65535, -1)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("starts")) as made:
        log = log_option(made)
        silent = ("--silent-start", "--stderr", "waiting for a licence", "--children", "setsid")
        made.configure(
            {"maxProcesses": 1, "startSeconds": 2, "permissionSeconds": 60},
            fake=(*log, "--memory", str(made.path / "memory")),
            deaf=("--start-delay", "3600000", *log),
            silent=(*silent, *log),
            missing=(),
            **{f"v{number}": ("--protocol-version", str(number), *log) for number in VERSIONS},
        )
        text = (made.path / "config.yaml").read_text(encoding="utf-8")
        value = json.loads(text)
        row = next(row for row in value["agents"]["list"] if row["id"] == "missing")
        row["runtime"]["command"] = ["/nowhere/agent"]
        (made.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")
        made.start()
        yield made


def works(daemon: Any) -> None:
    """Check that the one place there is is free."""
    assert ended(daemon, "say on")["outcome"] == "completed"


@pytest.mark.parametrize("agent", ["silent", "deaf"])
def test_case_99_a_start_that_is_never_answered_ends_at_its_limit(home: Home, agent: str) -> None:
    look = Look(home)
    done = home.run("run", "--agent", agent, "say never")
    assert done.code == 6
    assert "error (start_timeout): The agent did not answer initialize in 2 s." in done.err
    if agent == "silent":
        assert "waiting for a licence" in done.err
        assert look.methods == ["initialize"]
    assert wait_gone([look.agent("start")[0]["pid"]]) == []
    assert not [text for text in home.marked().values() if home.mark in text]
    with client(home) as daemon:
        assert daemon.call("status")["sessions"] == []
        works(daemon)


@pytest.mark.parametrize("number", VERSIONS)
def test_case_100_another_version_is_refused_before_any_session(home: Home, number: int) -> None:
    """C3: and the user is told."""
    look = Look(home)
    done = home.run("run", "--agent", f"v{number}", "say never")
    assert done.code == 6
    said = f"error (protocol_version): The agent speaks ACP version {number}; acpbridge speaks"
    assert f"{said} version 1." in done.err
    assert look.methods == ["initialize"]
    assert wait_gone([look.agent("start")[0]["pid"]]) == []
    with client(home) as daemon:
        works(daemon)


def test_case_103_new_and_loaded_sessions_name_directory_and_servers(home: Home) -> None:
    """C6: the directory is absolute."""
    look = Look(home)
    with client(home) as daemon:
        first = ended(daemon, "say one", callerCwd=str(home.path))
        again = ended(daemon, "say two", session=first["key"])
    assert (first["outcome"], again["outcome"]) == ("completed", "completed")
    sent = {m["method"]: m["params"] for m in look.sent_to_agent if m["method"] in SETUPS}
    assert sent["session/new"] == {"cwd": str(home.path), "mcpServers": []}
    known = sent["session/load"].pop("sessionId")
    assert known.startswith("fake-")
    assert sent["session/load"] == sent["session/new"]


SETUPS = ("session/new", "session/load")


def refused(daemon: Any, **fields: Any) -> str:
    with pytest.raises(BridgeError) as caught:
        start(daemon, "say never", **fields)
    return caught.value.message


def test_case_106_a_directory_that_is_not_there_is_named_and_no_program(
    home: Home, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with client(home) as daemon:
        for cwd in (str(tmp_path / "gone"), str(tmp_path / "file"), "relative", "."):
            said = refused(daemon, cwd=cwd)
            assert f"{cwd!r} is not a directory" in said
            assert "fake_acp" not in said
        result = ended(daemon, "say never", agent="missing", cwd=str(tmp_path))
        assert result["error"]["code"] == "agent_not_found"
        assert "/nowhere/agent" in result["error"]["message"]
        assert str(tmp_path) not in result["error"]["message"]
        works(daemon)


@pytest.mark.skipif(os.getuid() == 0, reason="root may enter any directory")
def test_case_106_a_directory_without_permission_is_named(home: Home, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    with client(home) as daemon:
        result = ended(daemon, "say never", cwd=str(closed))
        assert str(closed) in result["error"]["message"]
        works(daemon)


def test_case_106_a_directory_that_goes_before_the_start_is_named(
    home: Home, tmp_path: Path
) -> None:
    gone = tmp_path / "soon-gone"
    gone.mkdir()
    with client(home) as daemon:
        first = start(daemon, "say up\nhang")
        waits = start(daemon, "say never", cwd=str(gone))  # accepted, until the place is free
        running(daemon, first["key"])
        gone.rmdir()
        daemon.call("kill", keys=[first["key"]], grace=0)
        result = daemon.call("wait", runId=waits["runId"])
        assert result["error"]["code"] == "start_failed"
        assert f"directory {gone}" in result["error"]["message"]
        works(daemon)


def running(daemon: Any, key: str) -> None:
    deadline = time.monotonic() + LIMIT
    while True:
        (row,) = daemon.call("status", key=key)["sessions"]
        if row["turn"] and row["turn"]["lastUpdateAt"] and row["state"] == "running":
            return
        assert time.monotonic() < deadline
        time.sleep(PAUSE)
