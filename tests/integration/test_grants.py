"""Row 26 through a whole daemon: shown before, lowered, used, listed, revoked, and by no agent."""

import json
from pathlib import Path

from fixtures.fake_acp import fake_agent
from tests.integration.daemon_home import LIMIT, Home, daemon_home
from tests.integration.test_agents_never_approve import bridge, configure, shell


def ask(home: Home, did: Path, *words: str, wait: bool = False) -> str:
    """Have one session ask to run the same command; return its key."""
    script = f'ask execute "touch it" do {did}'
    words = words if "--session" in words else ("--agent", "fake", *words)
    done = home.run("run", *words, script, *(() if wait else ("--detach",)))
    assert done.code == 0, done
    return done.out.strip()


def test_row_26_always_is_a_grant_of_ours_that_is_shown_used_and_revoked(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home)
        did = tmp_path / "did"
        key = ask(home, did, "--mode", "session")
        question = home.wait_question()
        shown = home.run("permissions").out
        assert (
            "covers exactly `touch it`, in this session, until its agent ends, 1h00m at most"
            in (" ".join(shown.split()))
        )
        answer = home.run("permissions", "answer", question["id"], "--option", "allow_always")
        assert answer.code == 0, answer
        assert "allow (option allow_once)" in answer.out
        assert f"granted while its agent runs: acpbridge permissions revoke {question['id']}" in (
            answer.err
        )
        # Nobody is asked a second time, and another session is.
        ask(home, did, "--session", key, wait=True)
        assert did.read_text(encoding="utf-8") == "executed\n" * 2
        other = tmp_path / "other"
        ask(home, other)
        second = home.wait_question()
        assert home.run("permissions", "answer", second["id"], "--deny").code == 0
        assert not other.exists()
        listed = home.run("permissions", "grants").out
        assert "exactly `touch it`, in this session" in listed
        assert "used once" in listed
        # An agent neither sees nor ends it.
        for words in ("permissions grants", f"permissions revoke {question['id']}"):
            assert "permission_denied" in shell(home, bridge(home, words))
        assert home.run("permissions", "revoke", question["id"]).code == 0
        again = home.run("permissions", "revoke", question["id"])
        assert (again.code, "no_such_grant" in again.err) == (4, True)
        ask(home, did, "--session", key)
        third = home.wait_question()
        assert home.run("permissions", "answer", third["id"], "--deny").code == 0
        audit = (home.path / "audit.jsonl").read_text(encoding="utf-8").splitlines()
        of_grants = [r["kind"] for r in map(json.loads, audit) if r["kind"].startswith("grant_")]
        assert of_grants == ["grant_made", "grant_used", "grant_revoked"]


def test_row_26_with_forward_always_the_agent_gets_what_was_picked(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        command = list(fake_agent("--mark", home.mark))
        row = {"id": "fake", "runtime": {"command": command}, "forwardAlways": True}
        config = json.dumps({"agents": {"list": [row]}})
        (home.path / "config.yaml").write_text(config, encoding="utf-8")
        ask(home, tmp_path / "did", "--mode", "session")
        question = home.wait_question()
        assert (question["grant"], question["always"]) == (None, "agent")
        words = ("permissions", "answer", question["id"], "--option", "allow_always", "--json")
        decision = home.run(*words).json
        assert (decision["optionId"], decision["lasts"]) == ("allow_always", "agent")
        assert home.ask("grants")["grants"] == []


def test_row_26_a_grant_ends_with_its_session_and_with_the_agents_death(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home)
        did = tmp_path / "did"
        keys = []
        for _ in range(2):
            keys.append(ask(home, did, "--mode", "session"))
            answer = ("permissions", "answer", home.wait_question()["id"])
            assert home.run(*answer, "--option", "allow_always").code == 0
        assert len(home.ask("grants")["grants"]) == 2
        assert home.run("run", "--session", keys[0], "crash 3").code == 6
        [grant] = home.ask("grants")["grants"]
        assert grant["sessionKey"] == keys[1]
        assert home.run("kill", keys[1], limit=LIMIT).code == 0
        assert home.ask("grants")["grants"] == []
        ended = [
            record["reason"]
            for record in map(json.loads, (home.path / "audit.jsonl").read_bytes().splitlines())
            if record["kind"] == "grant_expired"
        ]
        assert ended == ["agent_died", "session_ended"]
