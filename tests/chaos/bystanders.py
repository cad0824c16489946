"""Innocent processes: twins of agents and helpers, and a crowd that comes and goes."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

from tests.chaos import procs
from tests.chaos.world import World

CROWD = 3  # short-lived ones at a time
NAMED = "import sys,time\nopen('/proc/self/comm','w').write(sys.argv[1])\ntime.sleep(3600)"


class Bystanders:
    """They bear the agents' arguments, the helpers' names, and half of a session's marker."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._crowd, daemon=True)
        self.started = 0
        self.hit: list[str] = []
        self._stand: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Bystanders":
        world = self._world
        twin = world.agent(0, log=world.home / "bystander.log")
        self._add(twin)
        self._add(["/bin/sleep", "3600"], ACPBRIDGE_HOME=str(world.home))
        self._add(["/bin/sleep", "3600"], ACPBRIDGE_MARK="agent:a0:main.x")
        for name in ("acpb-shim", "acpb-keeper", "acpb-guard"):
            self._add([sys.executable, "-I", "-S", "-c", NAMED, name, world.mark])
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for process in self._stand:
            if process.poll() is not None:
                self.hit.append(f"{process.args!r} ended with {process.returncode}")
                continue
            state = procs.row(process.pid)
            if state is not None and state.state == "T":
                self.hit.append(f"{process.args!r} was stopped")
            process.send_signal(signal.SIGKILL)
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def _add(self, argv: list[str], **env: str) -> None:
        process = subprocess.Popen(
            argv,
            env={"PATH": "/usr/bin:/bin", **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stand.append(process)
        self.started += 1
        row = procs.row(process.pid)
        assert row is not None
        self._world.bystanders.add(row.who)

    def _crowd(self) -> None:
        running: list[subprocess.Popen[bytes]] = []
        while running or not self._stop.is_set():
            while len(running) < CROWD and not self._stop.is_set():
                running.append(subprocess.Popen(["/bin/sleep", "0.1"]))
                self.started += 1
            with suppress(subprocess.TimeoutExpired):
                running[0].wait(0.5)
            for process in list(running):
                if process.poll() is not None:
                    running.remove(process)
                    if process.returncode != 0:
                        self.hit.append(f"one of the crowd ended with {process.returncode}")
            time.sleep(0.01)
