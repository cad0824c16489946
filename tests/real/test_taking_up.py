"""Sessions taken up again in new processes, and what a run may choose, with the real agents.

What the agent remembers and which model it uses is read at the model's endpoint.
"""

import base64
import json
import struct
import zlib
from typing import Any

import pytest

from tests.real.agents import AGENTS
from tests.real.bridge import Bridge, bridge

pytestmark = [pytest.mark.real, pytest.mark.timeout(150)]

each_agent = pytest.mark.parametrize("agent", AGENTS)

# One that each agent offers, by its id, and by its name where it has one of its own.
MODELS = {
    "claude": (("haiku", "haiku"),),
    "codex": (("gpt-6-sol", "gpt-6-sol"), ("6 Astra", "gpt-6-astra")),
    "gemini": (("gemini-2.5-pro", "gemini-2.5-pro"),),
}


def asked(it: Bridge, prompt: str) -> Any:
    """Return the one request of the model's endpoint that a prompt led to."""
    (found,) = [r for r in it.model.requests if not r.side and prompt in r.prompt]
    return found


def only_session(it: Bridge) -> dict[str, Any]:
    _, rows = it.call("sessions", "--all")
    (row,) = [row for row in rows["sessions"] if row["opens"]]
    return dict(row)


def red_square() -> bytes:
    """Return a real PNG of 8 by 8 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + crc

    rows = b"".join(b"\0" + b"\xff\0\0" * 8 for _ in range(8))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@each_agent
def test_a_session_goes_on_in_new_processes_and_under_a_new_daemon(
    agent: str, tmp_path: Any
) -> None:
    with bridge(tmp_path, agent) as it:
        first = it.run(agent, "say walrus", "--agent", agent)
        assert (first.returncode, first.stdout.strip()) == (0, "walrus"), first.stderr
        key = only_session(it)["key"]
        second = it.run(agent, "say pelican", "--session", key)
        assert (second.returncode, second.stdout.strip()) == (0, "pelican"), second.stderr
        it.stop()
        # More often than once, and at once: one of the three would have lost it by now.
        third = it.run(agent, "say heron", "--continue")
        assert (third.returncode, third.stdout.strip()) == (0, "heron"), third.stderr
        assert key in third.stderr
        body = json.dumps(asked(it, "say heron").body)
        assert "say walrus" in body
        assert "say pelican" in body
        row = only_session(it)
        assert (row["opens"], row["formerSessionIds"]) == (3, [])
        assert "notice" not in second.stderr + third.stderr


@each_agent
def test_a_conversation_that_is_gone_is_refused_and_goes_on_only_with_fresh(
    agent: str, tmp_path: Any
) -> None:
    with bridge(tmp_path, agent) as it:
        first = it.run(agent, "say walrus", "--agent", agent)
        assert first.returncode == 0, first.stderr
        row = only_session(it)
        old = row["agentSessionId"]
        stored = [p for p in it.agents[agent].home.rglob(f"*{old[:8]}*") if p.is_file()]
        assert stored
        for path in stored:
            path.unlink()
        before = len(it.model.requests)
        refused = it.run(agent, "say pelican", "--session", row["key"])
        assert refused.returncode == 4, refused.stderr
        assert "resume_not_found" in refused.stderr
        assert "--fresh" in refused.stderr
        assert not [r for r in it.model.requests[before:] if "pelican" in json.dumps(r.body)]
        fresh = it.run(agent, "say heron", "--session", row["key"], "--fresh")
        assert (fresh.returncode, fresh.stdout.strip()) == (0, "heron"), fresh.stderr
        assert "previous context lost" in fresh.stderr
        assert "walrus" not in json.dumps(asked(it, "say heron").body)
        assert only_session(it)["formerSessionIds"] == [old]


@each_agent
def test_the_chosen_model_is_the_one_that_is_asked_and_a_wrong_one_asks_none(
    agent: str, tmp_path: Any
) -> None:
    with bridge(tmp_path, agent) as it:
        for number, (given, told) in enumerate(MODELS[agent]):
            run = it.run(agent, f"say number {number}", "--agent", agent, "--model", given)
            assert run.returncode == 0, run.stderr
            models = {
                f"{request.path} {request.body.get('model')}"
                for request in it.model.requests
                if f"say number {number}" in json.dumps(request.body)
            }
            assert [model for model in models if told in model], models
        wrong = it.run(agent, "say never", "--agent", agent, "--model", "no-such-model")
        assert wrong.returncode == 2
        assert "offered:" in wrong.stderr
        assert MODELS[agent][0][0] in wrong.stderr
        assert not [r for r in it.model.requests if "say never" in json.dumps(r.body)]


@each_agent
def test_an_image_reaches_the_model(agent: str, tmp_path: Any) -> None:
    with bridge(tmp_path, agent) as it:
        (it.work / "red.png").write_bytes(red_square())
        run = it.run(agent, "say seen", "--agent", agent, "--image", "red.png")
        assert (run.returncode, run.stdout.strip()) == (0, "seen"), run.stderr
        body = json.dumps(asked(it, "say seen").body)
        assert base64.b64encode(red_square()).decode() in body
