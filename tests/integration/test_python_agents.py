"""Agents that are somebody's Python: served by the daemon, each a process of its own."""

import json
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.daemon_home import LIMIT, Done, Home, daemon_home, until

ROOT = Path(__file__).parents[2]

AGENT = """
import sys
import time
from pathlib import Path

import anyio

import acpbridge
from acpbridge import Turn


async def agent(turn: Turn):
    word = turn.text
    print("printed, and not on the wire")
    if word == "crash":
        raise ValueError("no such luck")
    if word == "exit":
        sys.exit(4)
    if word == "ask":
        return f"allowed: {await turn.ask('Do it', kind='execute', raw_input={'command': 'do'})}"
    if word == "choose":
        return f"chosen: {await turn.choose('Which?', {'a': 'First', 'b': 'Second'})}"
    if word == "history":
        return "before: " + "|".join(past.text for past in turn.history)
    if word == "delegate":
        async with acpbridge.connect() as bridge:
            async with bridge.start("choose a or b", agent="demo") as run:
                async for event in run:
                    if event.type == "permission_asked":
                        break
                (question,) = await bridge.questions()
                try:
                    await bridge.answer(question.id, acpbridge.Answer.choose("1"))
                except acpbridge.BridgeError as error:
                    turn.say(f"may not answer: {error.code}. ")
                result = await run.result()
                return f"was told: {result.text}"
    if word == "where":
        return sys.prefix
    if word in ("wait", "block", "loop"):
        Path(turn.cwd, word).touch()
    if word == "wait":
        await anyio.sleep_forever()
    if word == "block":
        time.sleep(600)
    while word == "loop":
        pass
    return f"heard {word}"
"""


def configure(home: Home, **runtimes: dict[str, str]) -> None:
    rows = [{"id": n, "runtime": {"kind": "python", **more}} for n, more in runtimes.items()]
    value = {"agents": {"list": rows}}
    (home.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        file = made.path / "agent.py"
        file.write_text(AGENT, encoding="utf-8")
        configure(made, mine={"entry": f"{file}:agent"})
        yield made


def said(done: Done) -> str:
    updates = (event.get("update", {}) for event in done.events)
    chunks = (u for u in updates if u.get("sessionUpdate") == "agent_message_chunk")
    return "".join(chunk["content"]["text"] for chunk in chunks)


def session(home: Home, words: str) -> tuple[str, Done]:
    """Run a first turn of a session that stays; return its key too."""
    done = home.run("run", words, "--mode", "session", "--format", "json")
    return str(done.events[0]["key"]), done


def go_on(home: Home, key: str, words: str, *options: str) -> Done:
    return home.run("run", words, "--session", key, "--format", "json", *options)


@pytest.mark.parametrize(
    ("word", "says"), [("crash", "ValueError: no such luck"), ("exit", "SystemExit: 4")]
)
def test_code_that_breaks_fails_its_turn_and_its_process_lives_on(
    home: Home, word: str, says: str
) -> None:
    key, done = session(home, word)
    assert done.code == 1
    error = done.events[-1]["error"]
    assert error["code"] == "turn_failed"
    assert says in error["message"]
    before = home.session()["processes"]
    after = go_on(home, key, "history")
    assert (after.code, said(after)) == (0, f"before: {word}")
    assert [p["pid"] for p in home.session()["processes"]] == [p["pid"] for p in before]


def test_what_the_code_prints_and_its_tracebacks_stay_off_the_wire(home: Home) -> None:
    key, done = session(home, "hello")
    assert (done.code, said(done)) == (0, "heard hello")
    assert [e["type"] for e in done.events if e["type"] == "notice"] == []
    assert home.session()["asks"] is True
    assert go_on(home, key, "hello").code == 0


@pytest.mark.parametrize("word", ["wait", "loop"])
def test_a_kill_ends_code_that_waits_or_loops(home: Home, word: str) -> None:
    with home.running("run", word, "--format", "json") as run:
        until((home.path / word).exists)
        killed = home.run("kill", "--all", "--grace", "0.2", "--json", limit=30)
        assert (killed.code, killed.json["ok"]) == (0, True)
        assert len(killed.json["results"][0]["killed"]) >= 2
        out, _ = run.communicate(timeout=LIMIT)
    assert run.returncode == 130
    assert json.loads(out.splitlines()[-1])["stopReason"] == "cancelled"


@pytest.mark.parametrize(("word", "rung"), [("wait", "cancel"), ("block", "kill")])
def test_a_cancel_goes_as_far_as_the_code_makes_it(home: Home, word: str, rung: str) -> None:
    with home.running("run", word, "--format", "json") as run:
        until((home.path / word).exists)
        key = home.session()["key"]
        done = home.run("cancel", key, "--grace", "0.3", "--json", limit=30)
        assert (done.code, done.json["rung"], done.json["turnEnded"]) == (0, rung, True)
        run.communicate(timeout=LIMIT)
    assert run.returncode == 130


@pytest.mark.parametrize("answer", ["--allow", "--deny"])
def test_a_question_of_the_code_comes_to_a_person(home: Home, answer: str) -> None:
    with home.running("run", "ask", "--format", "json") as run:
        question = home.wait_question()
        assert question["subject"]["rawInput"] == {"command": "do"}
        assert home.run("permissions", "answer", question["id"], answer).code == 0
        out, _ = run.communicate(timeout=LIMIT)
    assert run.returncode == 0
    done = Done(0, out.decode(), "")
    assert said(done) == f"allowed: {answer == '--allow'}"


def test_a_choice_of_the_code_must_be_made_by_its_id(home: Home) -> None:
    with home.running("run", "choose", "--format", "json") as run:
        question = home.wait_question()
        refused = home.run("permissions", "answer", question["id"], "--allow")
        assert refused.code == 2  # there are two things that could be allowed
        assert home.run("permissions", "answer", question["id"], "--option", "b").code == 0
        out, _ = run.communicate(timeout=LIMIT)
    assert said(Done(0, out.decode(), "")) == "chosen: b"


def test_no_rule_makes_a_choice_for_a_person(home: Home) -> None:
    with home.running("run", "choose", "--on-permission", "allow", "--format", "json") as run:
        question = home.wait_question()
        assert home.run("permissions", "answer", question["id"], "--deny").code == 0
        out, _ = run.communicate(timeout=LIMIT)
    assert said(Done(0, out.decode(), "")) == "chosen: None"


def test_row_24_an_agent_may_delegate_and_may_not_answer_what_is_asked_then(home: Home) -> None:
    config = json.loads((home.path / "config.yaml").read_text(encoding="utf-8"))
    config["agents"]["list"][0]["subagents"] = {"allowAgents": ["demo"]}
    config["agents"]["list"].append({"id": "demo"})
    (home.path / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    with home.running("run", "delegate", "--format", "json") as run:
        question = home.wait_question()
        rows = {row["agentId"]: row for row in home.status()["sessions"]}
        assert rows["demo"]["parentKey"] == rows["mine"]["key"]
        assert question["sessionKey"] == rows["demo"]["key"]
        assert home.run("permissions", "answer", question["id"], "--option", "2").code == 0
        out, _ = run.communicate(timeout=LIMIT)
    assert said(Done(0, out.decode(), "")) == (
        "may not answer: permission_denied. was told: You chose b."
    )


def test_a_context_that_ended_with_its_process_is_said_to_be_lost(home: Home) -> None:
    first = home.run("run", "hello", "--format", "json")
    after = go_on(home, first.events[0]["key"], "history", "--fresh")
    assert (after.code, said(after)) == (0, "before: ")
    (notice,) = (e for e in after.events if e["type"] == "notice")
    assert notice["kind"] == "context_lost"


def test_an_agent_runs_in_an_interpreter_of_its_own(home: Home) -> None:
    place = home.path / "env"
    venv.create(place, symlinks=True)
    (packages,) = place.glob("lib/python*/site-packages")
    python = str(place / "bin" / "python")
    configure(home, mine={"entry": "shop_agent:agent", "python": python})
    (packages / "shop_agent.py").write_text(AGENT, encoding="utf-8")
    bare = home.run("run", "where")
    assert bare.code == 6
    assert f"{python} cannot import acpbridge" in bare.err
    assert f"next: Install it for that interpreter: {python} -m pip install acpbridge" in bare.err
    ours = sysconfig.get_paths()
    lines = [str(ROOT), ours["purelib"], ours["platlib"]]
    (packages / "ours.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = home.run("run", "where", "--format", "quiet")
    assert (done.code, done.out.strip()) == (0, str(place))


def test_a_module_of_the_workspace_is_no_agent(home: Home) -> None:
    configure(home, mine={"entry": "agent:agent"})  # agent.py is where it is run
    done = home.run("run", "hello")
    assert done.code == 6
    assert "There is no module agent" in done.err
    assert f"Install it for {sys.executable}, or name its file" in done.err


def test_a_mistake_at_the_import_is_shown_with_its_traceback(home: Home) -> None:
    (home.path / "agent.py").write_text("import os\n\nos.nothing\n", encoding="utf-8")
    done = home.run("run", "hello")
    assert done.code == 6
    assert f'File "{home.path}/agent.py", line 3, in <module>' in done.err
    assert "fails to import: AttributeError" in done.err


def test_what_is_no_async_function_is_told_how_to_be_one(home: Home) -> None:
    (home.path / "agent.py").write_text("def agent(turn):\n    return 'x'\n", encoding="utf-8")
    done = home.run("run", "hello")
    assert done.code == 1
    assert "The agent's code is no async function; write it as: async def agent(turn)" in done.err


def test_who_serves_an_agent_at_a_terminal_is_told_what_it_waits_for(home: Home) -> None:
    with home.terminal("serve", f"{home.path}/agent.py:agent") as terminal:
        terminal.expect("waiting for a client's JSON-RPC on standard input; Ctrl-D ends it")
        terminal.type("\x04")
        assert terminal.wait() == 0
    with home.terminal("serve", f"{home.path}/none.py:agent") as terminal:
        assert "waiting" not in terminal.expect("There is no file")
        assert terminal.wait() == 2
