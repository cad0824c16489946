"""What an agent and the daemon wrote to one another in a test, and runs without a command each."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from acpbridge.daemon import quick
from tests.integration.daemon_home import LIMIT, Done, Home


def log_option(home: Home) -> tuple[str, str]:
    """Return the option that has an agent keep its log where `Look` looks."""
    return "--log", str(home.path / "agent.log")


class Look:
    """What the daemon and the agent have written since it was made."""

    def __init__(self, home: Home) -> None:
        self._files = (home.path / "daemon.log", home.path / "agent.log")
        self._from = [path.stat().st_size if path.exists() else 0 for path in self._files]

    def _new(self, which: int) -> str:
        with self._files[which].open(encoding="utf-8") as file:
            file.seek(self._from[which])
            return file.read()

    @property
    def noise(self) -> list[dict[str, Any]]:
        """The daemon's lines about what was no message."""
        records = map(json.loads, self._new(0).splitlines())
        return [r for r in records if r["event"] == "noise on a connection"]

    @property
    def daemon(self) -> str:
        return self._new(0)

    def agent(self, event: str) -> list[dict[str, Any]]:
        records = map(json.loads, self._new(1).splitlines())
        return [record for record in records if record["event"] == event]

    @property
    def sent_to_agent(self) -> list[dict[str, Any]]:
        """The messages that the agent was sent."""
        return [json.loads(record["line"]) for record in self.agent("line")]

    @property
    def methods(self) -> list[Any]:
        """What the agent was sent, a method each; None where it was an answer."""
        return [message.get("method") for message in self.sent_to_agent]

    @property
    def waits(self) -> list[float]:
        """How long the agent waited for each line, in seconds since it last wrote something."""
        out, wrote = [], 0.0
        for record in map(json.loads, self._new(1).splitlines()):
            if record["event"] == "sent":
                wrote = record["t"]
            elif record["event"] == "line":
                out.append(record["t"] - (wrote or record["t"]))
        return out


def prompt(home: Home, agent: str, *lines: str, limit: float = LIMIT) -> Done:
    """Run one turn of so many directives, as events."""
    words = ("run", "--agent", agent, "--format", "json", "-")
    return home.run(*words, stdin="\n".join(lines), limit=limit)


def texts(done: Done) -> list[str]:
    """What the agent said, a text for each update."""
    assert done.code == 0, (done.code, done.err, done.out[-500:])
    updates = [event["update"] for event in done.events if event["type"] == "update"]
    return [update["content"]["text"] for update in updates]


class Client:
    """A connection to a daemon, with the patience of a test."""

    def __init__(self, inner: quick.Quick) -> None:
        self._inner = inner

    def call(self, method: str, *, limit: float = LIMIT, **params: Any) -> Any:
        """Call a method of the daemon and return its result, as `Quick.call` does."""
        return self._inner.call(method, limit=limit, **params)


@contextmanager
def client(home: Home) -> Iterator[Client]:
    """Connect to the daemon that runs in a state directory."""
    found = quick.connect(home.paths)
    assert found is not None
    with found:
        yield Client(found)


def start(client: Client, words: str, **fields: Any) -> Any:
    """Have a run accepted, that goes on by itself; return its receipt."""
    content = [{"type": "text", "text": words}]
    given = {"content": content, "env": {}, "callerCwd": "/", "detach": True, **fields}
    return client.call("run", **given)


def ended(client: Client, words: str, limit: float = LIMIT, **fields: Any) -> Any:
    """Have a run accepted and wait for its end: `{outcome, stopReason, error, ...}`."""
    receipt = start(client, words, **fields)
    return {**client.call("wait", limit=limit, runId=receipt["runId"]), **receipt}
