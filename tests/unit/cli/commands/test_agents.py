"""The table of `agents`: it fits, and says in a word how each would come to run."""

from typing import Any

from acpbridge.cli.commands.agents import text_of

HOME = "/home/ann"


def row(**fields: Any) -> dict[str, Any]:
    usual = {
        "id": "codex",
        "aliases": ["codex-acp"],
        "configured": False,
        "default": False,
        "launch": "installed",
        "command": ["/usr/bin/codex-acp"],
        "missing": None,
        "mode": "read-only",
        "asks": True,
        "login": "unknown",
    }
    return usual | fields


def cells(**fields: Any) -> list[str]:
    """Return the cells of one agent's line, without the mark."""
    line = text_of([row(**fields)], HOME, 100)[1]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_no_line_is_wider_than_it_may_be_whatever_an_agent_is_called() -> None:
    longest = "x" * 200
    rows = [
        row(default=True),
        row(id=longest, mode=longest, asks=None, login=f"file:{HOME}/{longest}"),
        row(launch="npx", command=["/usr/bin/npx", "-y", longest]),
        row(launch="missing", command=None, missing={"message": longest, "hint": longest}),
        *(row(id=f"agent-{number}", launch="unknown", command=None) for number in range(30)),
    ]
    for width in (100, 140):
        assert max(map(len, text_of(rows, HOME, width))) <= width


def test_the_state_says_how_it_would_come_to_run() -> None:
    assert cells()[1] == "installed"
    assert cells(launch="npx", command=["/usr/bin/npx", "-y", "a"])[1] == "via npx"
    assert cells(launch="uvx", command=["/usr/bin/uvx", "a"])[1] == "via uvx"
    assert cells(launch="missing", command=None)[1] == "not installed"
    assert cells(launch="configured")[1] == "configured"


def test_what_is_not_installed_has_no_sentence_in_its_row_but_a_command_that_tells_more() -> None:
    missing = {"message": "Nothing of that name.", "hint": "Install it: npm install -g thing"}
    text = text_of([row(launch="missing", command=None, missing=missing)], HOME, 100)
    assert not any("npm install" in line for line in text)
    assert text[1].endswith("-")
    assert text[-1] == "what to do about one that is not installed: acpbridge doctor AGENT"
    assert not any("doctor" in line for line in text_of([row()], HOME, 100))


def test_a_program_is_shown_by_its_name_a_configured_one_by_its_path() -> None:
    assert cells(command=["/opt/x/codex-acp", "--fast"])[-1] == "codex-acp --fast"
    mine = {"launch": "configured", "command": [f"{HOME}/bin/codex-acp"]}
    assert cells(**mine)[-1] == "~/bin/codex-acp"
    python = {"launch": "python", "command": ["/usr/bin/python3", "/x/start.py", "shop:agent"]}
    assert cells(**python)[-1] == "shop:agent"


def test_a_login_below_the_home_directory_is_shown_short() -> None:
    assert cells(login=f"file:{HOME}/.codex/auth.json")[-2] == "file:~/.codex/auth.json"
    assert cells(login=f"file:{HOME}ette/auth.json")[-2] == f"file:{HOME}ette/auth.json"


def test_whether_anybody_is_asked_is_said_however_long_its_mode_is() -> None:
    assert cells()[2:4] == ["read-only", "yes"]
    assert cells(mode="yolo", asks=False)[2:4] == ["yolo", "NOBODY"]
    assert cells(mode="other", asks=None)[2:4] == ["other", "unknown"]
    assert cells(mode=None, asks=None)[2:4] == ["unknown", "unknown"]
    crowded = row(id="x" * 99, mode="y" * 99, asks=False, login="z" * 99)
    assert "NOBODY" in text_of([crowded], HOME, 100)[1]


def test_what_a_file_says_cannot_steer_the_terminal() -> None:
    shown = "\n".join(text_of([row(mode="\x1b[2J", login="\x07", command=["a\n", "b"])], HOME, 100))
    assert not {"\x1b", "\x07", "\r"} & set(shown)
    assert len(shown.splitlines()) == 2
