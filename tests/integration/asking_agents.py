"""One agent of a daemon that asks another one, as a process inside its tree does."""

import json
import subprocess
import sys
from typing import Any

from acpbridge.errors import BridgeError
from tests.integration.daemon_home import LIMIT, Home, until

# What a tool of an agent does: it comes from inside, and asks.
_ASKING = """
import json, sys
from pathlib import Path
from acpbridge.daemon.paths import Paths
from acpbridge.daemon.quick import connect
from acpbridge.errors import BridgeError
home = Path(sys.argv[1])
client = connect(Paths(home, home / "config.yaml"))
try:
    told = client.call(sys.argv[2], limit=float(sys.argv[4]), **json.loads(sys.argv[3]))
except BridgeError as error:
    told = {"failed": error.to_json()}
print(json.dumps(told))
"""


def inside(home: Home, key: str, method: str, **params: Any) -> dict[str, Any]:
    """Call the daemon as a process of a session does.

    Raises:
        BridgeError: what it answered.
    """
    done = subprocess.run(
        [sys.executable, "-c", _ASKING, str(home.path), method, json.dumps(params), str(LIMIT)],
        capture_output=True,
        timeout=LIMIT,
        env=home.env | {"ACPBRIDGE_MARK": f"{key}.{'0' * 32}"},
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    if "failed" in told:
        raise BridgeError.from_json(told["failed"])
    return told


def hand_over(home: Home, key: str, agent: str, message: str) -> str:
    """Hand work to another agent in the background; return its id."""
    told = inside(home, key, "tool/ask", agentId=agent, message=message, mode="background")
    assert told["status"] == "queued"
    return str(told["jobId"])


def delegation(home: Home, job: str) -> dict[str, Any]:
    """Return where a piece of work stands."""
    rows = home.ask("tool/delegations", everything=True)["delegations"]
    return next((row for row in rows if row["id"] == job), {})


def stands(home: Home, job: str, status: str) -> dict[str, Any]:
    """Wait until a piece of work stands somewhere."""

    def there() -> dict[str, Any]:
        row = delegation(home, job)
        return row if row.get("status") == status else {}

    return until(there)


def history(home: Home, key: str) -> list[dict[str, Any]]:
    """Return what is in the log of a session; it is a command, which takes its time."""
    done = home.run("logs", key, "--json")
    assert done.code == 0, done
    return done.events


def notices(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the ends of handed-over work that a session was told."""
    return [event for event in events if event.get("kind") == "delegation"]


def told(home: Home, key: str, *jobs: str) -> list[dict[str, Any]]:
    """Return a session's log, once these pieces of work have ended and it was told so."""

    def under_way() -> set[str]:
        return {row["id"] for row in home.ask("tool/delegations")["delegations"]}

    until(lambda: under_way().isdisjoint(jobs))
    return until(lambda: log if len(notices(log := history(home, key))) >= len(jobs) else [])


def prompts(events: list[dict[str, Any]]) -> list[str]:
    """Return what a session's agent was prompted with, in order."""
    return [event["prompt"][0]["text"] for event in events if event["type"] == "turn_started"]


def ends(events: list[dict[str, Any]]) -> list[str]:
    """Return how the turns of a session began and ended, in order."""
    wanted = ("turn_started", "turn_ended", "turn_failed")
    return [event["type"] for event in events if event["type"] in wanted]
