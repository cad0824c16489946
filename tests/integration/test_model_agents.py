"""Agents that are a model in the configuration and no code: real processes, a scripted model."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.fake_model import FakeModel
from tests.integration.daemon_home import LIMIT, Done, Home, daemon_home, until, wait_gone

TOOLS = ["read_file", "list_files", "write_file", "run_command", "sessions_spawn"]
VENDORS = {
    "anthropic": ("anthropic:claude-scripted", "", "ANTHROPIC_API_KEY"),
    "openai": ("openai:scripted", "/v1", "OPENAI_API_KEY"),
    "google": ("google:gemini-scripted", "", "GOOGLE_API_KEY"),
}
SECRET = "sk-a-key-that-nobody-may-see"


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    with FakeModel(sides=False) as served:
        yield served


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model: FakeModel) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("models")) as made:
        rows = [row(name, model) for name in VENDORS]
        rows[0]["subagents"] = {"allowAgents": ["demo"]}
        rows += [{"id": "demo"}, row("anthropic", model) | {"id": "keyless", "env": {}}]
        (made.path / "config.yaml").write_text(
            json.dumps({"agents": {"list": rows}}), encoding="utf-8"
        )
        work(made).mkdir()
        made.env |= {key: SECRET for _, _, key in VENDORS.values()}
        yield made


def row(vendor: str, model: FakeModel, **more: Any) -> dict[str, Any]:
    name, path, key = VENDORS[vendor]
    runtime = {
        "kind": "python",
        "model": name,
        "instructions": "You are the agent of a test.",
        "tools": TOOLS,
        "maxIterations": 5,
        "baseUrl": model.url + path,
        **more,
    }
    return {"id": vendor, "env": {"pass": [key]}, "runtime": runtime}


def work(home: Home) -> Path:
    """Return the directory in which the agents work: no agent may write where acpbridge lives."""
    return home.path.parent / "work"


def run(home: Home, agent: str, words: str, *options: str) -> Done:
    cwd = str(work(home))
    return home.run("run", words, "--agent", agent, "--cwd", cwd, "--format", "json", *options)


def said(done: Done) -> str:
    updates = (event.get("update", {}) for event in done.events)
    chunks = (u for u in updates if u.get("sessionUpdate") == "agent_message_chunk")
    return "".join(chunk["content"]["text"] for chunk in chunks)


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_agent_of_each_vendor_calls_a_tool_that_a_person_allowed(
    home: Home, model: FakeModel, vendor: str
) -> None:
    words = f'call write_file {{"path": "{vendor}.txt", "content": "by {vendor}"}}'
    done = run(home, vendor, words, "--on-permission", "allow")
    assert done.code == 0, done
    assert (work(home) / f"{vendor}.txt").read_text(encoding="utf-8") == f"by {vendor}"
    assert "Wrote" in said(done)
    asked = model.requests[-1]
    assert (asked.vendor, "You are the agent of a test." in str(asked.body)) == (
        vendor_of(vendor),
        True,
    )
    assert SECRET not in done.out + done.err


def vendor_of(name: str) -> str:
    return "gemini" if name == "google" else name


@pytest.fixture(scope="module")
def session(home: Home) -> str:
    """Return the key of a session that stays, for one process is enough for many turns."""
    done = run(home, "anthropic", "say Hello.", "--mode", "session")
    assert (done.code, said(done)) == (0, "Hello.")
    return str(done.events[0]["key"])


def go_on(home: Home, key: str, words: str) -> Done:
    return home.run("run", words, "--session", key, "--format", "json")


def test_it_is_a_session_like_any_other(home: Home, session: str) -> None:
    assert session.startswith("agent:anthropic:subagent:")
    (row,) = [one for one in home.run("status", "--json").json["sessions"] if one["key"] == session]
    assert (row["agentId"], row["runtime"], row["state"]) == ("anthropic", "python", "ready")
    assert (row["parentKey"], row["asks"]) == (None, True)
    assert row["authSource"] == "env:ANTHROPIC_API_KEY"
    (agent,) = [one for one in row["processes"] if one["role"] == "agent"]
    assert agent["pid"] > 0


def test_it_goes_on_with_its_conversation(home: Home, model: FakeModel, session: str) -> None:
    assert go_on(home, session, "say Again.").code == 0
    assert "Hello." in str(model.requests[-1].body["messages"])


@pytest.mark.parametrize("answer", ["--allow", "--deny"])
def test_each_call_of_a_tool_is_a_question_that_a_person_answers(
    home: Home, session: str, answer: str
) -> None:
    ran = work(home) / f"ran{answer}"
    words = f"call run_command {json.dumps({'command': ['touch', str(ran)]})}"
    with home.running("run", words, "--session", session, "--format", "json") as running:
        question = home.wait_question()
        assert question["sessionKey"] == session
        assert question["kind"] == "execute"
        assert question["subject"]["rawInput"]["command"] == ["touch", str(ran)]
        done = home.run("permissions", "answer", question["id"], answer)
        assert done.code == 0, done
        out, _ = running.communicate(timeout=LIMIT)
    assert running.returncode == 0
    assert ran.exists() == (answer == "--allow")
    assert ("Not allowed" in out.decode()) == (answer == "--deny")


def test_a_question_that_nobody_is_there_for_is_a_no(home: Home, session: str) -> None:
    words = 'call write_file {"path": "no.txt", "content": "x"}'
    done = home.run("run", words, "--session", session, "--on-permission", "deny")
    assert not (work(home) / "no.txt").exists()
    assert "Not allowed" in done.out


def test_it_starts_another_agent_as_its_child_once_a_person_has_said_yes(
    home: Home, session: str
) -> None:
    arguments = {"task": "Say who you are.", "agentId": "demo"}
    words = f"call sessions_spawn {json.dumps(arguments)}"
    with home.running("run", words, "--session", session, "--format", "json") as running:
        question = home.wait_question()
        assert question["subject"]["rawInput"] == arguments
        assert home.run("permissions", "answer", question["id"], "--allow").code == 0
        out, _ = running.communicate(timeout=LIMIT)
    assert "childSessionKey" in out.decode()
    rows = home.run("sessions", "--all", "--json").json["sessions"]
    assert [row["agentId"] for row in rows if row["parentKey"] == session] == ["demo"]


def test_a_cancel_reaches_the_model_and_the_session_lives_on(
    home: Home, model: FakeModel, session: str
) -> None:
    with home.running("run", "hold here", "--session", session, "--format", "json") as running:
        model.wait_for("held", text="here", timeout=LIMIT)
        done = home.run("cancel", session, "--json")
        assert (done.code, done.json["rung"]) == (0, "cancel")
        running.communicate(timeout=LIMIT)
    assert running.returncode == 130
    model.wait_for("closed_by_client", timeout=LIMIT)
    after = go_on(home, session, "say Back.")
    assert (after.code, said(after)) == (0, "Back.")


def test_a_kill_ends_it_with_the_command_that_it_runs(home: Home, session: str) -> None:
    words = f"call run_command {json.dumps({'command': ['sleep', '600']})}"
    options = ("--session", session, "--on-permission", "allow", "--format", "json")
    with home.running("run", words, *options) as running:
        until(lambda: any(p["name"] == "sleep" for p in processes(home, session)))
        before = [p["pid"] for p in processes(home, session)]
        killed = home.run("kill", session, "--grace", "0.2", "--json")
        assert (killed.code, killed.json["ok"]) == (0, True)
        running.communicate(timeout=LIMIT)
    assert running.returncode == 130
    assert wait_gone(before) == []


def processes(home: Home, key: str) -> list[dict[str, Any]]:
    rows = home.run("status", key, "--json").json["sessions"]
    return [one for row in rows for one in row["processes"]]


def test_without_a_key_the_turn_ends_with_how_to_give_one(home: Home) -> None:
    done = run(home, "keyless", "say x")
    assert done.code == 7
    error = done.events[-1]["error"]
    assert error["code"] == "auth_required"
    assert "env: {pass: [ANTHROPIC_API_KEY]}" in error["message"]


def test_no_key_of_a_model_is_kept_anywhere(home: Home) -> None:
    assert [path for path, data in home.files().items() if SECRET.encode() in data] == []
