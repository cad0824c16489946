"""What a run may choose, and sessions taken up again, with the command line and a real process."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_home import Home, daemon_home

MODEL = {
    "id": "model",
    "name": "Model",
    "category": "model",
    "type": "select",
    "currentValue": "small",
    "options": [
        {"group": "a", "name": "A", "options": [{"value": "small", "name": "Little One"}]},
        {"group": "b", "name": "B", "options": [{"value": "large", "name": "Big One"}]},
    ],
    "_meta": {
        "brings": {"id": "deep", "name": "Deep", "type": "boolean", "currentValue": False},
    },
}
EFFORT = {
    "id": "effort",
    "name": "Effort",
    "category": "thought_level",
    "type": "select",
    "currentValue": "low",
    "options": [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}],
}
FAST = {"id": "fast", "name": "Fast mode", "type": "boolean", "currentValue": False}
OTHER = {"id": "odd", "name": "Odd", "type": "slider", "currentValue": 3}
OPTIONS = ("--config-options", json.dumps([MODEL, EFFORT, FAST, OTHER]))

# The smallest picture that a program would take for one.
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """For whoever needs no daemon of its own: what is configured anew acts at once."""
    with daemon_home(tmp_path_factory.mktemp("choices")) as made:
        yield made


def configure(home: Home, *options: str, **more: Any) -> None:
    """Configure one agent that keeps its sessions, and writes down what it is sent."""
    log = ("--log", str(home.path / "wire"), "--memory", str(home.path / "memory"))
    row = {"runtime": {"kind": "acp", "command": home.agent(*log, *options)}, **more}
    value = {"agents": {"entries": {"fake": row}}}
    (home.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")


def sent(home: Home) -> list[dict[str, Any]]:
    """Return the messages that the agent was sent, over all its processes."""
    lines = (home.path / "wire").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    return [json.loads(e["line"]) for e in events if "line" in e]


def changes(home: Home) -> list[tuple[str, Any]]:
    """Return what was set, and the prompts in between, in order."""
    out: list[tuple[str, Any]] = []
    for message in sent(home):
        params = message.get("params", {})
        if message.get("method") == "session/set_config_option":
            out.append((params["configId"], params["value"]))
        elif message.get("method") == "session/set_model":
            out.append(("set_model", params["modelId"]))
        elif message.get("method") in ("session/prompt", "session/set_mode"):
            out.append((message["method"][8:], params.get("modeId")))
    return out


def methods(home: Home, name: str) -> int:
    return sum(message.get("method") == name for message in sent(home))


def row(home: Home) -> Any:
    """Return the one session on record."""
    (found,) = home.records()
    return found


# ---- Model and options ----


def test_model_and_options_are_set_before_the_prompt_and_again_after_a_reopening(
    tmp_path: Path,
) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, *OPTIONS, "--resume")
        words = ("--model", "big one", "--set", "fast=yes", "--set", "Effort=high")
        first = home.run("run", "say a", *words)
        assert first.code == 0, first
        chosen = [("model", "large"), ("fast", True), ("effort", "high")]
        assert changes(home) == [*chosen, ("prompt", None)]
        told = next(m for m in sent(home) if m.get("params", {}).get("configId") == "fast")
        assert told["params"]["type"] == "boolean"
        assert row(home)["settings"] == {
            "model": "large",
            "mode": None,
            "options": {"fast": True, "effort": "high"},
        } or row(home)["settings"]["options"] == {"fast": "yes", "effort": "high"}
        # A later run changes one of them and takes another back; a new daemon knows them too.
        assert home.run("daemon", "stop").code == 0
        second = home.run("run", "say b", "--continue", "--set", "effort=", "--model", "small")
        assert second.code == 0, second
        assert "going on with: agent:fake:acp:" in second.err
        again = [("fast", True), ("prompt", None)]
        assert changes(home)[4:] == again
        assert row(home)["settings"]["model"] == "small"
        assert list(row(home)["settings"]["options"]) == ["fast"]


def test_an_option_that_a_model_brings_can_be_set_with_it(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, *OPTIONS)
        done = home.run("run", "say a", "--model", "large", "--set", "deep=true")
        assert done.code == 0, done
        assert changes(home) == [("model", "large"), ("deep", True), ("prompt", None)]


@pytest.mark.parametrize(
    ("words", "code", "error", "told"),
    [
        (("--model", "huge"), 2, "invalid_params", "small (Little One), large (Big One)"),
        (("--set", "effort=max"), 2, "invalid_params", "low (Low), high (High)"),
        (("--set", "fast=perhaps"), 2, "invalid_params", "true, false"),
        (("--set", "nope=1"), 1, "unsupported_control", "model, effort, fast"),
        (("--set", "odd=4"), 1, "unsupported_control", "no option 'odd'"),
        (("--set", "effort=high", "--set", "nope=1"), 1, "unsupported_control", "no option"),
        (("--set", "effort=bypassPermissions"), 2, "invalid_params", "low"),
    ],
)
def test_what_is_not_offered_is_refused_with_what_is_and_nothing_is_sent(
    home: Home, words: tuple[str, ...], code: int, error: str, told: str
) -> None:
    configure(home, *OPTIONS)
    (home.path / "wire").unlink(missing_ok=True)
    done = home.run("run", "say a", *words)
    assert done.code == code, done
    assert f"error ({error})" in done.err
    assert told in done.err
    assert changes(home) == []
    # The session is none the worse for it, and has nothing to take up.
    again = home.run("run", "say b", "--continue")
    assert (again.code, again.out) == (0, "b\n"), again


def test_an_agent_without_options_is_told_its_model_by_set_model(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, "--models", "red,blue", "--modes", "ask,other")
        done = home.run("run", "say a", "--model", "Blue", "--set", "mode=other")
        assert done.code == 0, done
        assert changes(home) == [("set_model", "blue"), ("set_mode", "other"), ("prompt", None)]
        wrong = home.run("run", "say a", "--model", "green", "--continue")
        assert (wrong.code, "red (Red), blue (Blue)" in wrong.err) == (2, True)


def test_an_agent_that_offers_no_model_says_so(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home)
        done = home.run("run", "say a", "--model", "any")
        assert (done.code, changes(home)) == (1, [])
        assert "error (unsupported_control): The agent lets its client choose no model" in done.err


def test_an_option_that_the_agent_says_yes_to_and_does_not_set_fails_the_turn(
    tmp_path: Path,
) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, *OPTIONS, "--option-deaf")
        done = home.run("run", "say a", "--set", "effort=high")
        assert (done.code, changes(home)) == (1, [("effort", "high")])
        assert "did not set the option 'effort': it is 'low'" in done.err


def test_row_28_no_setting_enters_a_bypass_mode_unless_it_is_allowed(tmp_path: Path) -> None:
    modes = ("--modes", "ask,plan,bypassPermissions", "--modes-as", "config")
    yolo = {"id": "yolo", "name": "Yolo", "type": "boolean", "currentValue": False}
    levels = [{"value": "1", "name": "Ask"}, {"value": "2", "name": "Bypass permissions"}]
    level = {"id": "lv", "name": "Level", "type": "select", "currentValue": "1", "options": levels}
    with daemon_home(tmp_path) as home:
        configure(home, *modes, "--config-options", json.dumps([yolo, level]), "--resume")
        named = ("lv=2", "lv=Bypass permissions")
        for setting in ("mode=bypassPermissions", "Mode=Bypasspermissions", "yolo=true", *named):
            done = home.run("run", "say a", "--set", setting)
            assert (done.code, "error (bypass_refused)" in done.err) == (6, True), (setting, done)
        assert changes(home) == []
        home.run("kill", "--all")
        assert home.run("daemon", "stop").code == 0
        configure(home, *modes, "--resume", allowBypass=True)
        done = home.run("run", "say b", "--set", "mode=bypassPermissions")
        assert done.code == 0, done
        assert changes(home) == [("mode", "bypassPermissions"), ("prompt", None)]


def test_the_mode_is_set_last_and_held_in_later_runs(tmp_path: Path) -> None:
    modes = ("--modes", "ask,plan", "--modes-as", "config", "--resume")
    with daemon_home(tmp_path) as home:
        configure(home, *OPTIONS, *modes, mode="ask")
        first = home.run("run", "say a", "--set", "mode=plan", "--set", "effort=high")
        assert first.code == 0, first
        assert changes(home) == [("effort", "high"), ("mode", "plan"), ("prompt", None)]
        assert home.run("run", "say b", "--continue").code == 0
        assert row(home)["mode"] == "plan"
        assert home.run("run", "say c", "--continue", "--set", "mode=").code == 0
        assert row(home)["mode"] == "ask"


def test_an_agents_entry_may_choose_for_all_its_sessions(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        chosen = {"model": "large", "options": {"effort": "high", "fast": True}}
        configure(home, *OPTIONS, **chosen)
        assert home.run("run", "say a").code == 0
        own = home.run("run", "say b", "--set", "effort=low")
        assert own.code == 0, own
        first = [("model", "large"), ("effort", "high"), ("fast", True), ("prompt", None)]
        assert changes(home) == [*first, ("model", "large"), ("fast", True), ("prompt", None)]


# ---- Images ----


def test_an_image_reaches_the_agent_with_the_type_of_its_content(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home)
        (home.path / "picture.txt").write_bytes(PNG)
        (home.path / "b.webp").write_bytes(b"RIFF\0\0\0\0WEBPVP8 ")
        words = ("--image", "picture.txt", "--image", "b.webp", "--format", "json")
        done = home.run("run", "say a", *words)
        assert done.code == 0, done
        (prompt,) = [m["params"]["prompt"] for m in sent(home) if m["method"] == "session/prompt"]
        assert [block["type"] for block in prompt] == ["text", "image", "image"]
        assert prompt[1]["mimeType"] == "image/png"
        assert base64.b64decode(prompt[1]["data"]) == PNG
        assert prompt[2]["mimeType"] == "image/webp"
        # It is told of by its size: the log is no place for pictures.
        (started,) = [e for e in done.events if e["type"] == "turn_started"]
        assert started["prompt"][1] == {"type": "image", "mimeType": "image/png", "bytes": 28}
        assert base64.b64encode(PNG).decode() not in done.out


def test_c9_an_image_for_an_agent_that_takes_none_is_refused_before_the_prompt(
    tmp_path: Path,
) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, "--no-image")
        (home.path / "a.png").write_bytes(PNG)
        done = home.run("run", "say a", "--image", "a.png")
        assert (done.code, changes(home)) == (1, [])
        assert "error (unsupported_control)" in done.err
        assert "promptCapabilities.image" in done.err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"%PDF-1.7", "no PNG, JPEG, GIF or WebP"),
        (PNG + bytes(5 * 1024 * 1024), "larger than 5 MiB"),
        (None, "there is no file"),
    ],
)
def test_a_file_that_is_no_image_or_too_large_is_refused_by_name(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    with daemon_home(tmp_path) as home:
        if content is not None:
            (home.path / "a.png").write_bytes(content)
        done = home.run("run", "say a", "--image", "a.png")
        assert (done.code, "a.png" in done.err, told in done.err) == (2, True, True), done


# ---- MCP servers ----


def test_c8_mcp_servers_of_a_run_reach_the_agent_and_no_secret_is_stored(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        own = {"name": "own", "command": "/bin/true"}
        configure(home, "--mcp", "http", mcpServers=[own])
        servers = {
            "local": {"command": "true", "args": ["-x"], "env": {"API_KEY": "hush-hush-1"}},
            "far": {
                "type": "http",
                "url": "https://x.test/mcp",
                "headers": {"Authorization": "Bearer hush-hush-2"},
            },
        }
        file = home.path.parent / "mcp.json"
        file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        done = home.run("run", "say hush-hush-1 hush-hush-2", "--mcp-config", str(file))
        assert done.code == 0, done
        (given,) = [
            m["params"]["mcpServers"] for m in sent(home) if m.get("method") == "session/new"
        ]
        assert [server["name"] for server in given] == ["own", "local", "far"]
        assert given[1]["command"].startswith("/")
        assert given[1]["command"].endswith("/true")
        assert given[1]["env"] == [{"name": "API_KEY", "value": "hush-hush-1"}]
        assert given[2]["headers"][0]["value"] == "Bearer hush-hush-2"
        assert home.run("daemon", "stop").code == 0
        kept = [p for p in home.path.rglob("*") if p.is_file() and p.name not in ("wire", "memory")]
        assert len(kept) > 3
        assert [p for p in kept if b"hush-hush" in p.read_bytes()] == []


def test_c8_a_server_that_the_agent_cannot_reach_is_an_error_that_names_it(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, "--mcp", "http")
        file = home.path / "mcp.yaml"
        file.write_text(
            "mcpServers:\n  far: {type: sse, url: 'https://x.test'}\n", encoding="utf-8"
        )
        done = home.run("run", "say a", "--mcp-config", str(file))
        assert (done.code, methods(home, "session/new")) == (1, 0)
        assert "'far'" in done.err
        assert "mcpCapabilities.sse" in done.err


# ---- Taking up again ----


def test_case_69_a_lost_conversation_is_refused_and_goes_on_only_with_fresh(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, "--resume")
        assert home.run("run", "say a").code == 0
        old = row(home)["agentSessionId"]
        (home.path / "memory").unlink()
        for _ in range(4):
            refused = home.run("run", "say b", "--continue")
            assert refused.code == 4, refused
            assert "error (resume_not_found)" in refused.err
            assert old in refused.err
            assert "--fresh" in refused.err
        assert methods(home, "session/prompt") == 1
        assert row(home)["state"] == "idle"
        fresh = home.run("run", "say c", "--session", row(home)["key"], "--fresh")
        assert (fresh.code, fresh.out) == (0, "c\n"), fresh
        assert "previous context lost" in fresh.err
        assert row(home)["formerSessionIds"] == [old]
        quiet = home.run("run", "say d", "--continue", "--fresh", "--format", "quiet")
        # Nothing is lost any more: it goes on as ever.
        assert (quiet.code, quiet.out, "lost" in quiet.err) == (0, "d\n", False), quiet


def test_a_conversation_that_is_missed_only_at_the_prompt_is_lost_all_the_same(
    tmp_path: Path,
) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, "--forgetful", "--resume")
        assert home.run("run", "say a", "--mode", "session").code == 0
        old = row(home)["agentSessionId"]
        # A session that is known to be there may say what it likes: that is no loss.
        home.run("daemon", "stop")
        (home.path / "memory").unlink()
        for _ in range(2):
            refused = home.run("run", "say b", "--continue", "--mode", "session")
            assert (refused.code, "resume_not_found" in refused.err) == (4, True), refused
            assert "--fresh" in refused.err
        assert row(home)["agentSessionId"] == old
        fresh = home.run("run", "say c", "--continue", "--fresh")
        assert (fresh.code, fresh.out) == (0, "c\n"), fresh
        assert "previous context lost" in fresh.err
        assert row(home)["formerSessionIds"] == [old]


def test_an_agent_that_can_neither_resume_nor_load_says_so(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, "--no-load")
        assert home.run("run", "say a").code == 0
        refused = home.run("run", "say b", "--continue", "--format", "quiet")
        assert (refused.code, "neither resume nor load" in refused.err) == (4, True)
        fresh = home.run("run", "say b", "--continue", "--fresh", "--format", "quiet")
        assert (fresh.code, fresh.out) == (0, "b\n")
        assert "previous context lost" in fresh.err


@pytest.mark.parametrize(("typed", "code", "prompts"), [("y\n", 0, 2), ("\n", 4, 1)])
def test_a_person_at_a_terminal_is_asked_whether_to_start_anew(
    tmp_path: Path, typed: str, code: int, prompts: int
) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, "--no-load")
        assert home.run("run", "say a").code == 0
        with home.terminal("run", "say b", "--continue") as terminal:
            terminal.expect("start anew without the earlier conversation? [y/N]")
            terminal.type(typed)
            assert terminal.wait() == code
        assert methods(home, "session/prompt") == prompts


def test_a_prompt_that_was_begun_is_never_sent_again(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, "--resume")
        assert home.run("run", "say a", "--mode", "session").code == 0
        old = row(home)["agentSessionId"]
        home.run("daemon", "stop")
        before = methods(home, "session/prompt")
        # The code of a missing session, from one that has already worked: it found no file.
        failed = home.run("run", "say b\nerror -32002 nofile", "--continue", "--fresh")
        assert (failed.code, failed.out) == (1, "b\n"), failed
        assert "lost" not in failed.err
        assert methods(home, "session/prompt") == before + 1
        assert row(home)["agentSessionId"] == old
