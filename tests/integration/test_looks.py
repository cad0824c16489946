"""The tools that look and the commands beside them, with a real daemon and real processes."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from acpbridge.cli.terminal.wrapping import cells
from acpbridge.router.listing import SHARED
from tests.integration.daemon_home import Home, alive, daemon_home, failed, until, wait_gone


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
    until(lambda: home.record(key)["opens"])
    return key


def child_of(home: Home, key: str, words: str) -> str:
    """Have a run started from inside of a session, and return its key once it is worked on."""
    inside = f"{key}.{'0' * 32}"
    done = home.run_inside(inside, "run", words, "--agent", "fake", "--detach")
    assert done.code == 0, done
    child = done.out.strip()
    until(lambda: any(p["role"] == "agent" for p in home.row(child)["processes"]))
    return child


def shown(home: Home, columns: int, *words: str) -> list[str]:
    """Return what a command writes to a terminal of a width, as rows."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen(
        home.argv(*words), stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=home.env
    ) as process:
        os.close(slave)
        pieces = []
        with suppress(OSError):  # the terminal is gone with the last who wrote to it
            while piece := os.read(master, 65536):
                pieces.append(piece)
        os.close(master)
        assert process.wait(60) == 0, pieces
    return b"".join(pieces).decode("utf-8").splitlines()


def test_3_2_5p_every_face_says_the_same_of_a_session(home: Home) -> None:
    """One projection: state, turn and questions on status, sessions, tools and tree."""
    key = begun(home, "ask execute ls")
    until(lambda: home.row(key)["pendingPermissions"])
    content = [{"type": "text", "text": "hang"}]
    call(home, "run", content=content, session=key, detach=True, env=home.env)
    faces = {
        "status": home.row(key),
        "sessions": home.record(key),
        "sessions --json": row_of(home.run("sessions", "--json").json["sessions"], key),
        "sessions_list": row_of(call(home, "tool/sessions")["sessions"], key),
        "session_status": call(home, "tool/session", sessionKey=key),
        "tree": row_of(call(home, "tool/tree")["families"], key),
        "tree --json": row_of(home.run("tree", "--json").json["families"], key),
    }
    assert faces["status"]["turn"]["state"] == "waiting"
    assert faces["status"]["queueDepth"] == 1
    assert faces["status"]["questions"]
    for name, row in faces.items():
        assert {field: row[field] for field in SHARED} == {
            field: faces["status"][field] for field in SHARED
        }, name
    call(home, "kill", keys=[key])


def row_of(rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
    return next(row for row in rows if row["key"] == key)


def test_a_family_is_seen_measured_and_ended(home: Home) -> None:
    top = begun(home, "hang")
    child = child_of(home, top, "hang")
    listed = call(home, "tool/subagents")
    (row,) = [row for row in listed["active"] if row["sessionKey"] == child]
    pid = row["pid"]
    assert row["pgid"] == os.getpgid(pid)
    assert row["rssBytes"] > 0
    assert row["cpuSeconds"] >= 0
    assert alive(pid)
    # An agent sees of it what is its own, whatever it asks.
    seen = home.run_inside(f"{child}.{'0' * 32}", "tree", "--all", "--json").json["families"]
    assert [family["key"] for family in seen] == [child]
    failed(home.run_inside(f"{child}.{'0' * 32}", "runs", top), "no_such_session", 4)
    wide = "\n".join(shown(home, 120, "tree", top))
    assert wide.index(f"fake {top[15:23]}") < wide.index(f"`- fake {child[15:23]}")
    done = call(home, "tool/subagents", action="kill", target=row["runId"])
    assert [one["sessionKey"] for one in done["stopped"]] == [child]
    assert pid in done["stopped"][0]["killed"]
    assert wait_gone([pid]) == []
    assert home.row(top)["turn"] is not None
    (run,) = [r for r in call(home, "tool/runs", key=top)["runs"] if r["sessionKey"] == child]
    assert run["outcome"] == "cancelled"
    call(home, "kill", keys=[top])


@pytest.mark.parametrize("columns", [40, 120])
def test_tree_and_runs_fit_a_terminal(home: Home, columns: int) -> None:
    key = begun(home, "say " + "long words " * 40)
    until(lambda: not home.row(key)["turn"])
    for words in (("tree", "--all"), ("runs", "--all"), ("runs", "deliveries", "--all")):
        rows = shown(home, columns, *words)
        assert rows
        for row in rows:
            assert cells(row) <= columns, words


def test_what_is_for_a_command_of_runs_goes_behind_it(home: Home) -> None:
    failed(home.run("runs", "--all", "deliveries"), "usage", 2)
    failed(home.run("runs", "retry"), "usage", 2)
    unknown = home.run("runs", "dismiss", "announce:none")
    assert "acpbridge runs deliveries" in failed(unknown, "invalid_params", 2)
    assert home.run("runs", "deliveries", "--json").json == {"deliveries": []}


def test_a_history_survives_the_daemon_and_what_it_was_told_is_not_asked_again(
    home: Home,
) -> None:
    """Also: `tree` starts a daemon where none runs, as `runs` does (6.6)."""
    key = begun(home, "say from before")
    until(lambda: not home.row(key)["turn"])
    version = call(home, "tool/session", sessionKey=key)["stateVersion"]
    assert home.run("daemon", "stop", "--force").code == 0
    assert not home.serves()
    # A new daemon on a loaded machine may answer late: then it is said to be frozen.
    until(lambda: home.run("tree", key, "--json").code == 0)
    assert home.serves()
    (run,) = home.run("runs", key, "--json").json["runs"]
    assert (run["outcome"], run["startedAt"] is not None) == ("completed", True)
    history = call(home, "tool/history", sessionKey=key)
    assert [m["content"][0]["text"] for m in history["messages"]][-1] == "from before"
    status = call(home, "tool/session", sessionKey=key, changesSince=version)
    assert status["stateVersion"] >= version
    assert status["stateChanges"]["events"] == []
