"""A day of the daemon as a service, lived in the namespaces of systemd.sh; prints what it saw.

`python service_trial.py DIRECTORY`: a JSON object on stdout, which test_service.py judges.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.integration.daemon_home import Home, alive, until, wait_gone

UNIT = "acpbridge.service"
WATCHDOG = "[Service]\nWatchdogSec=2\n"


def systemctl(*words: str) -> str:
    done = subprocess.run(
        ("systemctl", "--user", *words),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        encoding="utf-8",
    )
    return done.stdout.strip()


def shown(name: str) -> str:
    return systemctl("show", "-p", name, "--value", UNIT)


def detached(home: Home) -> tuple[str, list[int]]:
    """Start a turn that hangs, with children that hide; return its key and its processes."""
    home.run("run", "--detach", "--agent", "fake", "say on\nchildren setsid env-i\nhang")

    def busy() -> Any:
        rows = home.status()["sessions"]
        return rows if rows and len(rows[0]["processes"]) > 3 else None

    (row,) = until(busy)
    return row["key"], [process["pid"] for process in row["processes"]]


def main(directory: Path) -> dict[str, Any]:
    home = Home(directory / ".local" / "state" / "acpbridge")
    home.path.mkdir(parents=True, mode=0o700)
    # No --home: the unit of the default directory is the one with the plain name.
    home.argv = lambda *args: [sys.executable, "-m", "acpbridge", *args]  # type: ignore[method-assign]
    home.env |= {"HOME": str(directory)}
    agents = [{"id": "fake", "runtime": {"kind": "acp", "command": home.agent()}}]
    config = directory / ".config" / "acpbridge" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"agents": {"list": agents}}), encoding="utf-8")

    saw: dict[str, Any] = {"install": home.run("daemon", "install", "--json").json}
    dropped = directory / ".config" / "systemd" / "user" / f"{UNIT}.d" / "watchdog.conf"
    dropped.parent.mkdir()
    dropped.write_text(WATCHDOG, encoding="utf-8")
    systemctl("daemon-reload")
    systemctl("start", UNIT)
    saw["status once started"] = home.run("daemon", "status").code
    saw["main"] = int(shown("MainPID")) == home.status()["daemon"]["pid"]
    refused = home.run("daemon", "restart")
    saw["restart"] = [refused.code, refused.err]

    key, tree = detached(home)
    began = time.monotonic()
    systemctl("stop", UNIT)
    saw["stop seconds"] = time.monotonic() - began
    saw["left by stop"] = [pid for pid in tree if alive(pid)]
    saw["result of stop"] = shown("Result")

    systemctl("start", UNIT)
    saw["turn that was stopped"] = [
        event for event in home.run("logs", key, "--json").events if event["turn"]
    ][-1]
    _, tree = detached(home)
    main_pid = int(shown("MainPID"))
    os.kill(main_pid, signal.SIGSTOP)
    until(lambda: shown("NRestarts") == "1" and home.run("daemon", "status").code == 0, 30)
    saw["left by the watchdog"] = wait_gone([main_pid, *tree], 10)
    _, tree = detached(home)
    os.kill(int(shown("MainPID")), signal.SIGKILL)
    until(lambda: shown("NRestarts") == "2" and home.run("daemon", "status").code == 0, 30)
    saw["left by a kill"] = wait_gone(tree, 10)
    systemctl("stop", UNIT)
    saw["uninstall"] = home.run("daemon", "uninstall", "--json").json
    return saw


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))), flush=True)
