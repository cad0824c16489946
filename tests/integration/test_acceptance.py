"""The acceptance turn: one turn of a real child process through every floor, as a user has it."""

import json
import sqlite3
from pathlib import Path

from acpbridge.permissions.audit import verify
from tests.integration.daemon_home import LIMIT, Home, daemon_home

SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"


def stored(home: Home, agent: str) -> list[str]:
    """Return the log's stored lines of an agent's sessions."""
    path = home.path / "agents" / agent / "sessions" / "events.db"
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT * FROM events ORDER BY first_seq").fetchall()
    database.close()
    blobs = [value for row in rows for value in row if isinstance(value, bytes)]
    return b"\n".join(blobs).decode().splitlines()


def test_one_turn_crosses_every_floor(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        (home.path / "config.yaml").unlink()  # no configuration is needed for the demo
        note = tmp_path / "note.txt"  # in the state directory nobody edits
        words = ("run", f"write note.txt with {SECRET}", "--agent", "demo", "--format", "json")
        with home.running(*words, "--cwd", str(tmp_path)) as run:
            question = home.wait_question()
            row = home.session()
            # controller, from the kernel: the whole tree, with memory.
            assert [p["role"] for p in row["processes"]] == ["shim", "agent"]
            assert all(p["rssBytes"] > 0 for p in row["processes"])
            # runtimes and protocol: the session is open, in its asking mode.
            assert (row["state"], row["mode"], row["asks"]) == ("running", "default", True)
            # permissions and router: what will happen is shown, and nothing has.
            assert str(note) in str(question["subject"])
            assert not note.exists()
            answered = home.run("permissions", "answer", question["id"], "--allow", "--json")
            assert answered.json["optionId"] == "allow_once"
            out, err = run.communicate(timeout=LIMIT)
        assert run.returncode == 0, err
        assert note.read_text(encoding="utf-8") == SECRET + "\n"
        # cli and daemon: every event, numbered without a gap, the last one the turn's end.
        events = [json.loads(line) for line in out.decode().splitlines()]
        assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
        assert events[-1]["type"] == "turn_ended"
        assert events[-1]["stopReason"] == "end_turn"
        kinds = [e["type"] for e in events]
        assert kinds.index("permission_asked") < kinds.index("permission_decided")
        # store: the same events are on disk; redact: but the secret, which only followers saw live.
        kept = [json.loads(line) for line in stored(home, "demo")]
        assert [e["type"] for e in kept][: len(events)] == kinds
        assert SECRET in out.decode()
        assert SECRET not in "\n".join(stored(home, "demo"))
        # permissions: the audit has the decision, chained, and not the secret.
        audit = home.path / "audit.jsonl"
        count, broken = verify(audit)
        assert (count >= 1, broken) == (True, None)
        text = audit.read_text(encoding="utf-8")
        assert '"option_id":"allow_once"' in text
        assert SECRET not in text
        # model and store: the run has its one outcome on record.
        with sqlite3.connect(home.path / "state.db") as database:
            outcomes = database.execute("SELECT outcome FROM runs").fetchall()
        database.close()
        assert outcomes == [("completed",)]
