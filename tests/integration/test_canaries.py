"""G26, case 86: secrets are sent down every way there is, and looked for in all that is kept.

Each is split where it can be, over two and more pieces with other events in between. What is
searched are bytes: all files of the state directory, and whatever commands print of the record.
"""

import json
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_home import LIMIT, Home, daemon_home, until, wait_gone

# A part of a secret that is as long as this is a leak too; less is kept of its beginning.
PART = 6


class Seeds:
    """Secrets of the caller's environment, each for one way."""

    def __init__(self, home: Home) -> None:
        self.sown: dict[str, str] = {}
        self._home = home

    def env(self, way: str) -> str:
        """Return a value of a variable whose name says that it is a secret."""
        self._home.env[f"SEED_{len(self.sown)}_TOKEN"] = value = secrets.token_hex(12)
        self.sown[way] = value
        return value

    def token(self, way: str, prefix: str) -> str:
        """Return what nobody knows, but everybody can see to be a token."""
        self.sown[way] = body = secrets.token_hex(16)
        return prefix + body

    def leaks(self, found: dict[str, str]) -> list[str]:
        """Return where a secret is, or a part of one."""
        out = []
        for way, value in self.sown.items():
            parts = {value[at : at + PART] for at in range(3, len(value) - PART + 1)}
            out += [f"{way}: {p} in {w}" for w, text in found.items() for p in parts if p in text]
        return out


def cut(text: str, pieces: int) -> list[str]:
    size = -(-len(text) // pieces)
    return [text[at : at + size] for at in range(0, len(text), size)]


def chunk(kind: str, text: str) -> dict[str, Any]:
    return {"sessionUpdate": f"{kind}_chunk", "content": {"type": "text", "text": text}}


def says(seeds: Seeds) -> Iterator[dict[str, Any]]:
    """Yield what the agent says: updates, with a secret in pieces in each way."""
    yield chunk("agent_message", "begin ")
    for piece in cut(seeds.env("message in two"), 2):
        yield chunk("agent_message", piece)
    for piece in cut(seeds.env("message in nine, thoughts in between"), 9):
        yield chunk("agent_message", piece)
        yield chunk("agent_thought", "hm ")
    for piece in cut(seeds.env("thought in three"), 3):
        yield chunk("agent_thought", piece)
    for piece in cut(seeds.env("user's words in two"), 2):
        yield chunk("user_message", piece)
    yield chunk("agent_message", " the key: ")
    for piece in seeds.token("token, a character at a time", "sk-ant-"):
        yield chunk("agent_message", piece)
    yield chunk("agent_message", " and https://")
    for piece in cut(seeds.token("userinfo in three", "me:"), 3):
        yield chunk("agent_message", piece)
    yield chunk("agent_message", "@host/ ")
    call = {"toolCallId": "c1", "title": "T " + seeds.env("title"), "kind": "execute"}
    yield {"sessionUpdate": "tool_call", **call, "rawInput": {"command": [seeds.env("argv")]}}
    paths = [{"path": "/tmp/" + seeds.env("path")}]
    yield {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "locations": paths}
    ways = [cut(seeds.env(f"tool's {way}"), 3) for way in ("content", "output", "meta")]
    for content, output, meta in zip(*ways, strict=True):
        yield {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c1",
            "content": [{"type": "content", "content": {"type": "text", "text": content}}],
            "rawOutput": {"stdout": output},
            "_meta": {"terminal_output": {"terminal_id": "x", "data": meta}},
        }
    yield {
        "sessionUpdate": "plan",
        "entries": [{"content": seeds.env("plan"), "status": "pending"}],
    }
    yield {"sessionUpdate": "something_new", "delta": seeds.env("unknown update")}


def ask(seeds: Seeds) -> str:
    call = {
        "toolCallId": "c2",
        "title": "T " + seeds.env("question's title"),
        "kind": "execute",
        "rawInput": {"command": ["do", seeds.env("question's argv")]},
    }
    options = [
        {"optionId": "yes", "name": seeds.env("option's name"), "kind": "allow_once"},
        {"optionId": seeds.env("option's id"), "name": "No", "kind": "reject_once"},
    ]
    return "ask-json " + json.dumps({"toolCall": call, "options": options})


def kept(home: Home, key: str) -> dict[str, str]:
    """Return everything that is kept of a session, by where it is."""
    commands = [
        *(["logs", key], ["logs", key, "--json"], ["sessions", "export", key]),
        *(["sessions", "export", key, "--format", "md"], ["sessions", "--all", "--json"]),
        *(["status", "--json"], ["status", key, "--json"], ["daemon", "logs", "-n", "1000"]),
    ]
    out = {" ".join(argv): str(home.run(*argv)) for argv in commands}
    own = home.path / "config.yaml"  # what a person has written there
    files = home.files().items()
    return out | {str(path): data.decode("latin-1") for path, data in files if path != own}


def replayed(home: Home, key: str, wanted: str) -> str:
    """Return what somebody sees who comes later, up to a word of the agent's."""
    with home.running("attach", key, "--json") as attached:
        assert attached.stdout is not None
        lines: list[str] = []
        while not lines or wanted not in lines[-1]:
            lines.append(attached.stdout.readline().decode())
            assert lines[-1], lines
    return "".join(lines)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        yield made


def test_g26_canaries_down_every_way_are_in_nothing_that_is_kept(
    home: Home, tmp_path: Path
) -> None:
    home.configure(fake=["--mcp", "http"])
    seeds = Seeds(home)
    key, token = seeds.token("MCP's env", ""), seeds.token("MCP's header", "")
    web = {"type": "http", "url": "http://x/", "headers": {"X-Token": f"Bearer {token}"}}
    servers = {"shop": {"command": "true", "env": {"SHOP_KEY": key}}, "web": web}
    told = [chunk("agent_message", piece) for piece in cut(f"{key} and {token}.", 6)]
    updates = [*says(seeds), *told]
    script = tmp_path / "script"
    script.write_text("\n".join(map(json.dumps, updates)), encoding="utf-8")
    mcp = tmp_path / "mcp.json"
    mcp.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    end = f'error -32603 "{seeds.env("error")}" {{"x": "{seeds.env("data")}"}}'
    note = seeds.env("note")
    prompt = "\n".join(
        [
            f"about {seeds.env('prompt')}",
            f"play {script}",
            f"stderr {seeds.env('stderr')}",
            ask(seeds),
            end,
        ]
    )
    argv = ("--mcp-config", str(mcp), "--format", "json", prompt)
    with home.running("run", *argv) as run:
        question = home.wait_question()
        answered = home.run("permissions", "answer", question["id"], "--deny", "--reason", note)
        assert answered.code == 0, answered
        live = run.communicate(timeout=LIMIT)[0].decode()
    key = question["sessionKey"]
    found = kept(home, key)
    assert "begin " in found[f"logs {key}"]
    home.run("daemon", "stop")
    leaks = seeds.leaks(found | kept(home, key))
    print(f"canaries seeded: {len(seeds.sown)}, leaked: {len(leaks)}")
    assert leaks == []
    # Who follows it live gets the agent's own bytes.
    seen = [event["update"] for event in map(json.loads, live.splitlines()) if "update" in event]
    assert seen[: len(updates)] == updates


def test_g26_who_attaches_later_sees_no_secret_of_before(home: Home) -> None:
    """Not even of a turn that still runs, whose events are all in memory."""
    seeds = Seeds(home)
    first, *rest = (json.dumps(chunk("agent_message", p)) for p in cut(seeds.env("in three"), 3))
    script = home.path.parent / "script"
    script.write_text("\n".join((first, *rest)), encoding="utf-8")
    prompt = f"say begin\nplay {script}\nsay enough\nhang"
    key = home.run("run", "--detach", prompt).out.strip()
    until(lambda: "enough" in home.run("logs", key).out)
    assert seeds.leaks({"attach": replayed(home, key, "enough")}) == []
    assert home.run("kill", key).code == 0


def test_g26_of_a_secret_that_a_kill_cuts_off_nothing_is_on_disk(home: Home) -> None:
    seeds = Seeds(home)
    half = cut(seeds.env("half"), 2)[0]
    script = home.path.parent / "script"
    script.write_text(json.dumps(chunk("agent_message", f"it is {half}")), encoding="utf-8")
    key = home.run("run", "--detach", f"play {script}\nthink over\nhang").out.strip()
    until(lambda: "over" in home.run("logs", key).out)
    daemon = home.daemon_pid()
    os.kill(daemon, signal.SIGKILL)
    assert wait_gone([daemon]) == []
    found = kept(home, key)  # by a daemon that is started for it
    assert seeds.leaks(found) == []
    assert "it is [redacted:unfinished]" in found[f"logs {key} --json"]
