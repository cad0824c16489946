"""Known ways around a policy, each by a real agent and a real daemon: what ran is what counts.

The policy allows reading in the workspace, editing its `src`, `pytest` with anything behind it, and
fetching from one host. The first rows show that it does; all others end at a person, or denied.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.integration.daemon_home import Home, daemon_home, until

POLICY: Final = """
rules:
  - effect: allow
    tool_kind: [read, search]
    path: "{root}/**"
  - effect: allow
    tool_kind: [edit, delete, move]
    path: "{root}/src/**"
  - effect: allow
    tool_kind: [execute]
    argv: ["pytest", "..."]
  - effect: allow
    tool_kind: [fetch]
    host: ["docs.example"]
  - effect: deny
    tool_kind: [read, search, edit, delete, move]
    path: "**/.env"
"""

OPTIONS: Final = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]

Call = dict[str, Any]

AT_ONCE: Final = 20  # a session may have 32 questions at most


def read(path: str, **more: Any) -> Call:
    return {"kind": "read", "locations": [{"path": path}], "rawInput": {"path": path}, **more}


def edit(path: str, **more: Any) -> Call:
    diff = {"type": "diff", "path": path, "oldText": None, "newText": "x"}
    return {"kind": "edit", "locations": [{"path": path}], "content": [diff], **more}


def execute(command: Any, **more: Any) -> Call:
    return {"kind": "execute", "rawInput": {"command": command, **more}}


def fetch(url: str) -> Call:
    return {"kind": "fetch", "rawInput": {"url": url}}


def calls(work: Path) -> dict[str, tuple[str, Call]]:
    """Return each attempt with what it must come to: allow, ask or deny."""
    src = f"{work}/src"
    return {
        "a read of the workspace": ("allow", read(f"{work}/src/a.py")),
        "an edit of src": ("allow", edit(f"{src}/new.py")),
        "pytest": ("allow", execute("pytest -q tests")),
        "pytest, by a shell": ("allow", execute(["/bin/bash", "-lc", "pytest -q"])),
        "a fetch": ("allow", fetch("https://docs.example/page")),
        # Paths.
        "a sibling with the same prefix": ("ask", read(f"{work}_evil/x")),
        "dots": ("ask", read(f"{work}/src/../../work_evil/x")),
        "a link out": ("ask", read(f"{src}/out/secret")),
        "a dangling link": ("ask", edit(f"{src}/dangling")),
        "the root of a process": ("deny", edit(f"/proc/self/root{src}/a.py")),
        "a link to what is denied": ("deny", read(f"{src}/innocent")),
        "what is denied": ("deny", read(f"{work}/.env")),
        "what is denied, in capitals": ("deny", read(f"{work}/.ENV")),
        "a second path outside": ("ask", read(f"{src}/a.py", locations=[{"path": "/etc/shadow"}])),
        "a path in the arguments alone": (
            "ask",
            read(f"{src}/a.py", rawInput={"path": f"{src}/a.py", "also": "/etc/shadow"}),
        ),
        "no path at all": ("deny", {"kind": "edit", "title": f"Edit {src}/a.py"}),
        # What would be run by others.
        "a hook that is not there yet": ("deny", edit(f"{src}/.git/hooks/pre-commit")),
        "a hook in other letters": ("deny", edit(f"{src}/.GIT/Hooks/pre-commit")),
        "an agent's settings": ("deny", edit(f"{src}/.claude/settings.json")),
        "an agent's servers": ("deny", edit(f"{src}/.mcp.json")),
        "an editor's tasks": ("deny", edit(f"{src}/.vscode/tasks.json")),
        "keys": ("deny", edit(f"{src}/.ssh/authorized_keys")),
        # Commands.
        "two commands": ("ask", execute("pytest; rm -rf /")),
        "a command inside": ("ask", execute("pytest $(rm -rf /)")),
        "a pipe": ("ask", execute("pytest | sh")),
        "a second line": ("ask", execute("pytest\nrm -rf /")),
        "a command behind blanks": ("ask", execute("pytest" + " " * 400 + "x")),
        "a mark that turns the text around": ("ask", execute("pytest \u202etxt")),
        "a wrapper": ("ask", execute(["env", "pytest"])),
        "another program of that name": ("ask", execute(["./pytest"])),
        "an unknown switch": ("ask", execute("pytest", dangerouslyDisableSandbox=True)),
        "a variable in front": ("ask", execute("PYTHONPATH=/tmp pytest")),
        "a directory outside": ("ask", execute("pytest", cwd="/tmp")),
        "fifty commands": ("ask", execute(" && ".join(["pytest"] * 60))),
        # Kinds and titles.
        "a title that says read": ("ask", {"title": f"Read {src}/a.py", "kind": "other"}),
        "no kind": ("ask", {"title": "cat x", "rawInput": {"path": f"{src}/a.py"}}),
        "a read that runs": (
            "ask",
            {"kind": "read", "rawInput": {"path": f"{src}/a.py", "command": "rm x"}},
        ),
        # Hosts.
        "a host in the user's place": ("ask", fetch("https://docs.example@evil.example/")),
        "a longer host": ("ask", fetch("https://docs.example.evil.example/")),
    }


@contextmanager
def guarded(tmp_path: Path) -> Iterator[tuple[Home, Path]]:
    """A daemon with the policy, and a workspace that tries what a repository can try."""
    with daemon_home(tmp_path) as home:
        home.configure({"permissionSeconds": 60}, fake=())
        (home.path / "policy.yaml").write_text(POLICY, encoding="utf-8")
        (home.path / "policy.yaml").chmod(0o600)
        work = tmp_path / "work"
        (work / "src").mkdir(parents=True)
        (tmp_path / "work_evil").mkdir()
        (work / ".env").write_text("x", encoding="utf-8")
        (work / "src" / "a.py").write_text("", encoding="utf-8")
        (work / "src" / "out").symlink_to(tmp_path / "work_evil")
        (work / "src" / "dangling").symlink_to(tmp_path / "work_evil" / "new")
        (work / "src" / "innocent").symlink_to(work / ".env")
        # A workspace's own policy or configuration is nobody's.
        every = 'rules: [{effect: allow, tool_kind: [execute], argv: ["rm", "..."]}]'
        for name in ("policy.yaml", "config.yaml", ".acpbridge/policy.yaml"):
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text(every, encoding="utf-8")
        (work / ".env").write_text(f"ACPBRIDGE_HOME={work}\n", encoding="utf-8")
        yield home, work


def turn(attempts: dict[str, Call], did: Path) -> str:
    """Return a prompt by which the agent asks all at once, and does what it is allowed."""
    lines = []
    for number, (name, call) in enumerate(attempts.items()):
        params = {"toolCall": {"toolCallId": f"call-{number}", **call}, "options": OPTIONS}
        lines.append(f"bg ask-json {json.dumps(params)} do {did} {name}")
    return "\n".join([*lines, "join"])


def outcomes(home: Home, key: str) -> dict[str, str]:
    """Return what each call came to, by its id: the first thing that the log says of it."""
    found: dict[str, str] = {}
    for event in home.run("logs", key, "--json").events:
        if event["type"] == "permission_asked":
            found.setdefault(event["subject"]["toolCallId"], "ask")
        elif event["type"] == "permission_decided":
            found.setdefault(event["toolCallId"], event["effect"])
    return found


def test_g19_no_known_way_around_a_policy_leads_past_a_person(tmp_path: Path) -> None:
    with guarded(tmp_path) as (home, work):
        table = calls(work)
        did = tmp_path / "did"
        came: dict[str, str] = {}
        for names in batched(table, AT_ONCE):
            prompt = turn({name: table[name][1] for name in names}, did)
            words = ("--agent", "fake", "--mode", "session", "--detach", "--cwd", str(work))
            begun = home.run("run", prompt, *words)
            assert begun.code == 0, begun.err
            key = begun.out.strip()
            found = until(partial(all_of, home, key, len(names)))
            came |= {names[int(call.removeprefix("call-"))]: how for call, how in found.items()}
            home.run("kill", key, "--now")
        assert came == {name: how for name, (how, _) in table.items()}
        ran = did.read_text(encoding="utf-8").splitlines()
        assert sorted(ran) == sorted(f"executed {name}" for name in came if came[name] == "allow")


def batched(table: dict[str, Any], size: int) -> Iterator[list[str]]:
    names = list(table)
    for at in range(0, len(names), size):
        yield names[at : at + size]


def all_of(home: Home, key: str, count: int) -> dict[str, str]:
    """Return what all calls came to, nothing before all did."""
    found = outcomes(home, key)
    return found if len(found) == count else {}


def test_a_command_that_an_agent_changes_after_it_was_shown_is_asked_again(tmp_path: Path) -> None:
    with guarded(tmp_path) as (home, work):
        did = tmp_path / "did"
        shown = {"sessionUpdate": "tool_call", "toolCallId": "one", "title": "x", **execute("rm x")}
        asked = {"toolCallId": "one", **execute("pytest -q")}
        params = {"toolCall": asked, "options": OPTIONS}
        prompt = f"update {json.dumps(shown)}\nask-json {json.dumps(params)} do {did} it"
        key = home.run("run", prompt, "--agent", "fake", "--detach", "--cwd", str(work)).out.strip()
        question = home.wait_question()
        assert question["sessionKey"] == key
        assert question["subject"]["changed"] == ["rawInput"]
        home.run("kill", key, "--now")
        assert not did.exists()
        assert list((tmp_path / "work_evil").iterdir()) == []
