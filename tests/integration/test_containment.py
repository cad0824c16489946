"""What a definition asks for is what its agent gets, as status shows it; else it does not start."""

import _socket
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acpbridge.controller.cgroups import Cgroups
from acpbridge.transport.helpers import kernel, libc, namespace, role, wire
from fixtures import shell_agent
from tests.integration.daemon_home import Home, alive, daemon_home, failed, until
from tests.integration.traffic import client, start

PR_SET_DUMPABLE = 4  # linux/prctl.h


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("held")) as made:
        rows = [
            {"id": asked, "containment": asked, "runtime": {"command": made.agent()}}
            for asked in ("auto", "shim", "cgroup2", "pidns")
        ]
        shell = [sys.executable, "-P", shell_agent.__file__]
        rows.append({"id": "shell", "containment": "pidns", "runtime": {"command": shell}})
        value = {"agents": {"list": rows}, "limits": {"idleTtlSeconds": 60}}
        (made.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")
        made.start()
        yield made


def held(home: Home, agent: str) -> Any:
    """Start a turn, and return its session's row once its children are in place."""
    with client(home) as daemon:
        key = start(daemon, "children setsid env-i\nhang", agent=agent)["key"]

        def up() -> Any:
            settled = [words for words in home.marked().values() if f"{home.mark}:" in words]
            (row,) = daemon.call("status", key=key)["sessions"]
            if row["lastError"] and "namespace" in row["lastError"]["message"]:
                pytest.skip(f"no pid namespaces: {row['lastError']['message']}")
            return row if len(settled) >= 2 and len(row["processes"]) >= 4 else None

        return until(up)


@pytest.mark.parametrize("asked", ["auto", "shim", "cgroup2", "pidns"])
def test_a_session_is_held_as_its_definition_asks_and_status_says_so(
    home: Home, asked: str
) -> None:
    best = home.status()["daemon"]["containment"]
    if asked == "cgroup2" and best != "cgroup2":
        pytest.skip("no writable cgroup v2 hierarchy is mounted here")
    row = held(home, asked)
    assert row["containment"] == (best if asked == "auto" else asked)
    agent = next(p["pid"] for p in row["processes"] if p["role"] == "agent")
    before = {process["pid"] for process in row["processes"] if alive(process["pid"])}
    group = Path(f"/proc/{agent}/cgroup").read_text(encoding="utf-8").rpartition("/")[2]
    assert group.startswith("acpbridge-") == (row["containment"] == "cgroup2")
    inside = os.stat(f"/proc/{agent}/ns/pid").st_ino  # noqa: PTH116 - follows a magic link
    assert (inside != os.stat("/proc/self/ns/pid").st_ino) == (asked == "pidns")  # noqa: PTH116
    done = home.run("kill", row["key"], "--now", "--json")
    (result,) = done.json["results"]
    assert (done.code, result["survivors"]) == (0, [])
    assert before <= set(result["killed"])
    assert [pid for pid in before if alive(pid)] == []
    assert home.run("status", row["key"], "--json").json["sessions"][0]["containment"] is None


def test_row_24_an_agent_is_known_for_one_from_inside_its_namespace(home: Home) -> None:
    """Its number in there says nothing out here: the kernel's word for it is translated."""
    words = f"{sys.executable} -m acpbridge --home {home.path} permissions answer q --allow"
    way = f"env -i PATH=$PATH HOME=$HOME setsid {words}"
    done = home.run("run", f"sh {way}", "--agent", "shell", "--format", "quiet")
    if "namespace" in done.err:
        pytest.skip(f"no pid namespaces: {done.err}")
    assert "permission_denied" in done.out, done


def test_g24_a_daemon_that_was_started_on_demand_inherits_no_descriptor(tmp_path: Path) -> None:
    read, write = os.pipe()
    with daemon_home(tmp_path) as home:
        started = subprocess.run(
            home.argv("daemon", "start"),
            cwd=home.path,
            env=home.env,
            pass_fds=(write,),
            capture_output=True,
            timeout=40,
            check=False,
        )
        assert started.returncode == 0, started.stderr
        mine = str(Path(f"/proc/self/fd/{write}").readlink())
        daemon = home.status()["daemon"]
        for pid in (daemon["pid"], daemon["guardPid"], daemon["keeperPid"]):
            held = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
            assert mine not in held
            assert not [link for link in held if link.startswith("/dev/pts")]
    os.close(read)
    os.close(write)


def test_g5_the_next_start_ends_what_hid_from_everything_but_its_control_group(
    tmp_path: Path,
) -> None:
    """Daemon, guard, keeper and shim die at once; no journal is left to name the children.

    Without `containment.sweep` in `open_router`: the children of `env-i` live on.
    """
    if Cgroups.find(tmp_path) is None:
        pytest.skip("no writable cgroup v2 hierarchy is mounted here")
    with daemon_home(tmp_path) as home:
        assert home.run("daemon", "start").code == 0
        row = held(home, "fake")
        daemon = home.status()["daemon"]
        shim = next(p["pid"] for p in row["processes"] if p["role"] == "shim")
        # From below: the death of whoever is above one that is stopped would wake it.
        helpers = (shim, daemon["keeperPid"], daemon["guardPid"], daemon["pid"])
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in helpers:
                os.kill(pid, number)
        until(lambda: not any(alive(pid) for pid in helpers))
        # Children that are what they are to be; one on its way to that may end by itself.
        tree = [pid for pid, words in home.marked().items() if f"{home.mark}:" in words]
        assert tree
        (home.path / "processes.json").unlink()
        assert home.run("daemon", "start").code == 0
        assert [pid for pid in tree if alive(pid)] == []
        groups = Cgroups.find(home.path)
        assert groups is not None
        assert groups.left() == []
        warning = " ".join(home.status()["warnings"])
        assert all(str(pid) in warning for pid in tree)


def as_nobody() -> dict[str, Any]:
    """Become nobody, and start a shell in a pid namespace as a shim does; return what came."""
    libc.prctl(PR_SET_DUMPABLE, 1)  # as after an exec: /proc/self is its own again
    found: dict[str, Any] = {"groups": Cgroups.find(Path("/tmp")) is not None}
    try:
        namespace.enter_namespaces()
    except OSError as error:
        return found | {"error": str(error)}
    report, far = _socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0)
    read, write = os.pipe()
    script = b"echo $$ $(id -u) /proc/[0-9]*"
    order = wire.Order(b"/bin/sh", [b"sh", b"-c", script], {b"PATH": b"/bin:/usr/bin"}, b"/", 1)
    stdio = [read, write, os.dup(write)]
    init = namespace.Init(order, stdio, far.fileno())
    first = role.fork(init.run, [*stdio, far.fileno()])
    far.close()
    for fd in stdio[1:]:
        os.close(fd)
    told = [report.recv(100).decode()]
    report.send(b"seen")
    found["said"] = os.read(read, 1000).decode().split()
    told.append(report.recv(100).decode())
    _, status = os.waitpid(first, 0)
    return found | {"told": told, "status": status}


def test_somebody_who_is_not_root_gets_a_pid_namespace_and_no_groups_of_roots() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(write, json.dumps(as_nobody()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    found = json.loads(said)
    assert found["groups"] is False
    if "error" in found:
        pytest.skip(f"no user namespaces for nobody: {found['error']}")
    assert found["told"] == ["started 2", "exit 0"]  # its first process is number 1
    assert found["said"][:2] == ["2", "65534"]
    assert {"/proc/1", "/proc/2"} <= set(found["said"][2:])
    assert len(found["said"]) <= 6
    assert found["status"] == 0


def test_where_namespaces_are_forbidden_the_agent_that_asked_for_one_does_not_start(
    home: Home,
) -> None:
    """In a namespace in which no more can be made. Never silently weaker."""
    limit = Path("/proc/sys/user/max_pid_namespaces")
    if not limit.exists() or os.getuid() != 0:
        pytest.skip("the number of namespaces cannot be limited here")
    script = f'echo 0 > {limit}; exec "$@"'
    words = ("unshare", "-Ur", "sh", "-c", script, "sh", *home.argv("doctor", "pidns"))
    done = subprocess.run(
        words,
        cwd=home.path,
        env=home.env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=40,
        check=False,
    )
    said = done.stdout + done.stderr
    if "unshare:" in said:
        pytest.skip(f"no user namespace here: {said}")
    assert done.returncode != 0
    assert "does not give the agent a pid namespace" in said
    assert "remove `containment: pidns`" in said
    assert kernel.read_process(os.getpid()) is not None


def test_an_unknown_containment_is_an_error_that_names_its_line(home: Home) -> None:
    text = "agents:\n  list:\n    - id: codex\n      containment: jail\n"
    other = home.path / "other.yaml"
    other.write_text(text, encoding="utf-8")
    done = home.run("config", "check", str(other))
    assert "containment" in failed(done, "config_error", 2)
    assert "line 4" in done.err
