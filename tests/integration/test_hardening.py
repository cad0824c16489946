"""What an agent, a client or a workspace may try against the bridge, and what comes of it."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from acpbridge.controller.process import AgentProcess, LaunchSpec
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import AgentId
from acpbridge.runtimes.acp import AcpRuntime
from acpbridge.runtimes.base import New, SessionSpec
from fixtures.fake_acp import fake_agent
from tests.integration.agents import fake_session, supervisor
from tests.integration.conftest import Observer
from tests.integration.daemon_home import LIMIT, daemon_home
from tests.unit.runtimes.scenarios import Recorder, spec_fields


async def test_row_24_what_has_lost_its_shim_is_an_agents_and_is_ended_by_a_kill(
    tmp_path: Path, observer: Observer
) -> None:
    """The keeper is held back for ever, so that nobody sweeps after the shim."""
    argv = fake_agent("--mark", observer.marker, "--children", "env-i", "setsid")
    spec = LaunchSpec("agent:fake:acp:x", argv, {"PATH": os.environ["PATH"]}, str(tmp_path))
    over = threading.Event()
    with anyio.fail_after(40):
        async with supervisor(tmp_path) as parent, parent.launch(spec):
            while len(observer.alive()) < 3:
                await anyio.lowlevel.checkpoint()
            helpers = [parent.keeper_pid, parent.guard_pid]

            def hold_back() -> None:
                while not over.is_set():
                    for pid in helpers:
                        os.kill(pid, signal.SIGSTOP)

            holder = threading.Thread(target=hold_back)
            holder.start()
            try:
                tree = await parent.processes("agent:fake:acp:x")
                shim = next(p for p in tree if p.role == "shim")
                os.kill(shim.pid, signal.SIGKILL)
                for pid in observer.alive():
                    assert parent.owner_of(pid) in ("", "agent:fake:acp:x")
                while await parent.alive(tree):
                    pass
                assert observer.alive() == {}
            finally:
                over.set()
                holder.join()
                for pid in helpers:
                    os.kill(pid, signal.SIGCONT)


async def test_more_options_than_a_person_can_see_are_refused(tmp_path: Path) -> None:
    options = [{"optionId": "a", "name": "b", "kind": "reject_once"}] * 5000
    words = f"ask execute x {json.dumps(options)}"
    host = Recorder()
    with anyio.fail_after(20):
        async with fake_session(tmp_path, host) as session:
            await session.open(New())
            await session.prompt(({"type": "text", "text": words},))
    assert host.asks == []
    assert "-32602" in host.said


async def test_g30_a_mode_that_is_a_bypass_by_its_name_is_refused_of_an_unknown_agent(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(20):
        async with fake_session(tmp_path, Recorder(), "--mode-bypass-on-start") as session:
            with pytest.raises(BridgeError) as caught:
                await session.open(New())
    assert caught.value.code == "bypass_refused"


async def test_npx_is_not_started_in_the_workspace(tmp_path: Path) -> None:
    """It would run what the workspace has under the package's name."""
    (tmp_path / "bin").mkdir()
    npx = tmp_path / "bin" / "npx"
    npx.write_text("#!/bin/sh\n", encoding="utf-8")
    npx.chmod(0o755)
    started: list[LaunchSpec] = []

    class Nothing:
        def launch(self, spec: LaunchSpec) -> AbstractAsyncContextManager[AgentProcess]:
            started.append(spec)
            raise BridgeError("start_failed", "nothing is started here")

    definition = AgentDefinition(AgentId("x"), command=("npx", "-y", "some-agent"))
    env = {"PATH": str(npx.parent), "HOME": "/home/somebody"}
    spec = SessionSpec(**{**spec_fields(definition, str(tmp_path)), "env": env})
    with pytest.raises(BridgeError):
        async with AcpRuntime(Nothing()).connect(spec, Recorder()):
            pass
    assert [launched.cwd for launched in started] == ["/home/somebody"]


def test_g26_a_secret_in_an_agents_error_is_neither_stored_nor_shown(tmp_path: Path) -> None:
    secret = "hunter2-hunter2-hunter2"
    with daemon_home(tmp_path) as home:
        home.env["MY_API_KEY"] = secret
        prompt = f'error -32603 "bad key {secret}" {{"key": "{secret}"}}'
        done = home.run("run", prompt, "--agent", "fake", "--mode", "session")
        assert done.code == 1
        assert secret not in done.err
        shown = home.run("status", "--json").out + home.run("sessions", "--all", "--json").out
        assert "bad key" in shown
        assert secret not in shown
        home.run("daemon", "stop")
        for path in home.path.rglob("*"):
            if path.is_file():
                assert secret.encode() not in path.read_bytes(), path


def test_g28_running_out_of_descriptors_only_makes_clients_wait(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:

        def few_descriptors() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

        with subprocess.Popen(
            home.argv("daemon", "run"),
            env=home.env,
            stderr=subprocess.DEVNULL,
            preexec_fn=few_descriptors,
        ) as daemon:
            while home.run("daemon", "status").code != 0 or not home.status()["daemon"]:
                pass
            clients = [socket.socket(socket.AF_UNIX) for _ in range(100)]
            try:
                for client in clients:
                    client.connect(str(home.path / "daemon.sock"))
            finally:
                for client in clients:
                    client.close()
            again = home.run("run", "say still here", "--agent", "fake")
            assert (again.code, again.out.strip()) == (0, "still here"), again
            assert daemon.poll() is None
            home.run("daemon", "stop")
            daemon.wait(LIMIT)


def test_one_who_does_not_say_hello_is_let_go_and_may_not_say_much(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        assert home.run("daemon", "start").code == 0
        with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as loud:
            for client in (silent, loud):
                client.connect(str(home.path / "daemon.sock"))
                client.settimeout(20)
            loud.sendall(b'{"jsonrpc":"2.0","id":1,"method":"hello","params":"' + b"x" * 200_000)
            assert b"-32600" in loud.recv(4096)
            assert silent.recv(4096) == b""
        assert home.run("status").code == 0


def test_a_hostile_directory_shadows_no_module_of_ours(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        hostile = tmp_path / "work"
        (hostile / "acpbridge").mkdir(parents=True)
        for name in ("yaml.py", "anyio.py", "acpbridge/__init__.py", "sitecustomize.py"):
            (hostile / name).write_text("open('pwned', 'w')\n", encoding="utf-8")
        program = Path(sys.executable).with_name("acpbridge")
        done = subprocess.run(
            [program, "--home", home.path, "run", "hi", "--agent", "demo"],
            cwd=hostile,
            env=home.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done
        assert not (hostile / "pwned").exists()
