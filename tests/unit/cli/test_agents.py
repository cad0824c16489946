"""The list of agents as a person reads it, at a terminal of 80 columns and in a file."""

from typing import Any

import pytest

from acpbridge.cli.agents import listing


def agent(name: str, **fields: Any) -> dict[str, Any]:
    row = {
        "id": name,
        "aliases": ["another-name-of-it", "one-more-name-of-it"],
        "configured": False,
        "default": False,
        "launch": "npx",
        "command": ["/usr/bin/npx", "-y", "@agentclientprotocol/claude-agent-acp@0.101.0"],
        "mode": None,
        "asks": None,
        "login": "unknown",
        "missing": None,
    }
    return {**row, **fields}


ROWS = [
    agent(
        "mine",
        configured=True,
        default=True,
        launch="missing",
        command=None,
        missing={"message": "There is no program 'gone' on /bin", "hint": "Install it."},
    ),
    agent("claude", mode="default", asks=True),
    agent("copilot", launch="missing", command=None),
    agent("kiro", launch="unknown", command=None),
]


@pytest.mark.parametrize("width", [0, 80])
def test_each_agent_is_followed_by_what_it_would_run(width: int) -> None:
    lines = listing(ROWS, width)
    assert lines[1].split()[:4] == ["*", "mine", "configured", "missing"]
    assert lines[2] == "     There is no program 'gone' on /bin. Install it."
    assert lines[3].split()[:5] == ["claude", "known", "npx", "default", "(asks)"]
    assert lines[4] == "     /usr/bin/npx -y @agentclientprotocol/claude-agent-acp@0.101.0"
    assert not width or all(len(line) <= width for line in lines)


def test_of_what_is_not_installed_only_the_names_are_shown_unless_it_is_configured() -> None:
    *_, missing, empty, nameless = listing(ROWS, 0)
    assert missing == "not installed (acpbridge doctor NAME tells what to do): copilot"
    assert (empty, nameless) == ("", "without a known command (give runtime.command): kiro")
