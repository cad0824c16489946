"""The real Claude Code, Codex and Gemini CLI behind acpbridge, one turn of each kind.

What counts is seen from outside: on the terminal's bytes, on disk, at the model's endpoint and in
/proc.
"""

import os
import signal
import time
from pathlib import Path

import pytest

from tests import check_frames
from tests.real.agents import AGENTS, ASKING_MODES
from tests.real.bridge import bridge, processes_of, processes_with, until

SCHEMA = Path(__file__).parent.parent / "acp-schema" / "schema.json"

pytestmark = [pytest.mark.real, pytest.mark.timeout(150)]

each_agent = pytest.mark.parametrize("agent", AGENTS)


@each_agent
def test_the_first_words_are_shown_before_the_model_has_said_its_last(
    agent: str, tmp_path: Path
) -> None:
    with bridge(tmp_path, agent) as it, it.start(agent, "hold gate", "--agent", agent) as run:
        assert run.stdout is not None
        shown = ""
        while "holding gate" not in shown:
            char = run.stdout.read(1)
            assert char, f"ended after {shown!r}: {run.stderr and run.stderr.read()}"
            shown += char
        (held,) = [event.request for event in it.model.events if event.kind == "held"]
        ended = [e for e in it.model.events if e.kind == "last_byte" and e.request == held]
        it.model.release("gate")
        rest, _ = run.communicate(timeout=60)
        assert ended == []
        assert "released gate" in shown + rest
        assert run.returncode == 0


@each_agent
def test_an_edit_is_shown_whole_and_happens_only_after_it_was_allowed(
    agent: str, tmp_path: Path
) -> None:
    with bridge(tmp_path, agent) as it:
        target = it.work / "new.txt"
        prompt = f"write {target} with forty-two"
        with it.start(agent, prompt, "--agent", agent) as run:
            question = it.question()
            row = it.session(agent)
            assert not target.exists()
            code, _ = it.call("permissions", "answer", question["id"], "--allow")
            _, err = run.communicate(timeout=60)
        assert (code, run.returncode) == (0, 0), err
        assert target.read_text(encoding="utf-8").strip() == "forty-two"
        # What was shown is what happened: the path, and the text that was written to it.
        assert question["kind"] == "edit"
        assert str(target) in str(question["subject"])
        assert "forty-two" in str(question["subject"])
        assert question["subject"]["changed"] == []
        # In their own default modes two of the three would have asked nobody.
        assert (row["mode"], row["asks"], row["bypass"]) == (ASKING_MODES[agent], True, False)
        assert row["pendingPermissions"] == 1
        assert row["turn"]["waitsFor"] == "permission"
        assert all(process["rssBytes"] > 0 for process in row["processes"])


@each_agent
def test_a_command_that_is_allowed_once_runs_once(agent: str, tmp_path: Path) -> None:
    with bridge(tmp_path, agent) as it:
        log = it.work / "log"
        with it.start(agent, f"run echo ran >> {log}", "--agent", agent) as run:
            question = it.question()
            assert f"echo ran >> {log}" in str(question)
            assert question["subject"]["changed"] == []
            assert not log.exists()
            it.call("permissions", "answer", question["id"], "--allow")
            _, err = run.communicate(timeout=60)
        assert run.returncode == 0, err
        assert log.read_text(encoding="utf-8") == "ran\n"


@each_agent
def test_a_rejected_command_has_no_effect_and_the_agent_is_still_usable(
    agent: str, tmp_path: Path
) -> None:
    with bridge(tmp_path, agent) as it:
        target = it.work / "never"
        words = ("--agent", agent, "--mode", "session")
        with it.start(agent, f"run touch {target}", *words) as run:
            question = it.question()
            code, decision = it.call("permissions", "answer", question["id"], "--deny")
            run.communicate(timeout=60)
        assert (code, decision["effect"]) == (0, "deny")
        # codex ends the turn on a reject; the others go on to its normal end.
        assert run.returncode in (0, 5)
        assert not target.exists()
        again = it.run(agent, "say still here", "--session", question["sessionKey"])
        assert (again.returncode, again.stdout.strip()) == (0, "still here"), again.stderr


def test_row_09_a_file_that_claude_names_from_its_directory_on_has_not_changed(
    tmp_path: Path,
) -> None:
    """It announces the file as its model named it, and asks with the whole path."""
    with bridge(tmp_path, "claude") as it:
        prompt = 'call Write {"file_path": "short.txt", "content": "hi"}'
        with it.start("claude", prompt, "--agent", "claude") as run:
            question = it.question()
            it.call("permissions", "answer", question["id"], "--allow")
            _, err = run.communicate(timeout=60)
        assert run.returncode == 0, err
        subject = question["subject"]
        assert (subject["changed"], subject["announced"]) == ([], {})
        assert (subject["tool"], subject["locations"]) == ("Write", [str(it.work / "short.txt")])
        assert (it.work / "short.txt").read_text(encoding="utf-8") == "hi"


@each_agent
def test_case_52_a_reason_of_a_denial_reaches_the_model_with_the_next_prompt(
    agent: str, tmp_path: Path
) -> None:
    with bridge(tmp_path, agent) as it:
        words = ("--agent", agent, "--mode", "session")
        with it.start(agent, f"run touch {it.work / 'never'}", *words) as run:
            name, key = (question := it.question())["id"], question["sessionKey"]
            deny = ("permissions", "answer", name, "--deny", "--reason", "use mktemp instead")
            _, decision = it.call(*deny)
            run.communicate(timeout=60)
        assert decision["told"] is True
        assert "use mktemp instead" not in str([r.body for r in it.model.requests])
        again = it.run(agent, "say heard", "--session", key)
        assert again.returncode == 0, again.stderr
        assert "use mktemp instead" in str(it.model.requests[-1].body)
        once = it.run(agent, "say once", "--session", key)
        assert once.returncode == 0, once.stderr
        # It is in the conversation from then on, and was said one single time.
        assert str(it.model.requests[-1].body).count("use mktemp instead") <= 1


@each_agent
def test_a_cancel_in_mid_stream_ends_the_stream_and_the_next_prompt_works(
    agent: str, tmp_path: Path
) -> None:
    with bridge(tmp_path, agent) as it:
        words = ("--agent", agent, "--mode", "session")
        with it.start(agent, "hold cancelled", *words) as run:
            held = it.model.wait_for("held", timeout=60)
            key = it.session(agent)["key"]
            code, receipt = it.call("cancel", key)
            run.communicate(timeout=60)
        assert (code, receipt["turnEnded"], receipt["rung"]) == (0, True, "cancel")
        assert run.returncode == 130
        closed = it.model.wait_for("closed_by_client", timeout=30)
        assert closed.request == held.request
        again = it.run(agent, "say and again", "--session", key)
        assert (again.returncode, again.stdout.strip()) == (0, "and again"), again.stderr


@each_agent
def test_a_kill_leaves_nothing_of_a_running_shell_command(agent: str, tmp_path: Path) -> None:
    with bridge(tmp_path, agent) as it:
        sleep = f"sleep 1{time.time_ns() % 10**9}"
        # Some agents take a bare sleep for harmless and do not ask; nobody takes a touch for that.
        command = f"touch {it.work / 'began'} && {sleep}"
        with it.start(agent, f"run {command}", "--agent", agent) as run:
            question = it.question()
            it.call("permissions", "answer", question["id"], "--allow")
            until(lambda: processes_with(sleep), "the command running")
            code, receipt = it.call("kill", question["sessionKey"])
            run.communicate(timeout=60)
        assert (code, receipt["ok"]) == (0, True)
        assert receipt["results"][0]["survivors"] == []
        assert len(receipt["results"][0]["killed"]) >= 3  # the shim, the agent, the command
        assert processes_with(sleep) == {}
        assert processes_of(it.home) == {}
        assert run.returncode == 130


@each_agent
def test_an_agent_killed_from_outside_is_reported_within_two_seconds(
    agent: str, tmp_path: Path
) -> None:
    with bridge(tmp_path, agent) as it, it.start(agent, "hold death", "--agent", agent) as run:
        it.model.wait_for("held", timeout=60)
        row = it.session(agent)
        (pid,) = [p["pid"] for p in row["processes"] if p["role"] == "agent"]
        os.kill(pid, signal.SIGKILL)
        died = time.monotonic()
        _, err = run.communicate(timeout=60)
        took = time.monotonic() - died
        assert run.returncode == 6
        assert "agent_died" in err
        assert "SIGKILL" in err
        assert took < 2.0
        until(lambda: not processes_of(it.home), "an end of its tree")
        _, rows = it.call("sessions", "--all")
        assert [r["state"] for r in rows["sessions"] if r["opens"]] == ["died"]


@each_agent
def test_every_frame_of_a_session_fits_the_official_schema(agent: str, tmp_path: Path) -> None:
    capture = tmp_path / "frames.jsonl"
    with bridge(tmp_path, agent, capture=capture) as it:
        plain = it.run(agent, "say hello", "--agent", agent, "--mode", "session")
        assert (plain.returncode, plain.stdout.strip()) == (0, "hello"), plain.stderr
        key = it.session(agent)["key"]
        with it.start(agent, f"write {it.work / 'x'} with y", "--session", key) as run:
            it.call("permissions", "answer", it.question()["id"], "--allow")
            run.communicate(timeout=60)
        with it.start(agent, "hold it", "--session", key) as run:
            it.model.wait_for("held", timeout=60)
            it.call("cancel", key)
            run.communicate(timeout=60)
    assert check_frames.main([str(SCHEMA), str(capture)]) == 0


def test_the_three_agents_work_side_by_side_on_one_daemon(tmp_path: Path) -> None:
    with bridge(tmp_path, *AGENTS) as it:
        runs = {a: it.start(a, f"hold {a}", "--agent", a) for a in AGENTS}
        for agent in AGENTS:
            it.model.wait_for("held", text=agent, timeout=60)
        _, status = it.call("status")
        assert {r["agentId"] for r in status["sessions"]} == set(AGENTS)
        for agent in AGENTS:
            it.model.release(agent)
        for agent, run in runs.items():
            with run:
                out, err = run.communicate(timeout=60)
            assert (run.returncode, f"released {agent}" in out) == (0, True), err
