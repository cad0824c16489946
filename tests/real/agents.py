"""How each real agent is started against the scripted model: command, environment, config files.

`prepare("codex", home=..., port=...)` writes the agent's files below a scratch home and returns
what to start. The environment is complete and explicit: nothing of the caller's gets in, for one
stray variable (`IS_SANDBOX=yes`) is enough to stop an agent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.real import install

AGENTS = ("claude", "codex", "gemini")

# The Claude adapter of the set for node 20.
OLDER_CLAUDE = "claude-older"
EVERY = (*AGENTS, OLDER_CLAUDE)

# The mode in which the agent asks its client before it runs or edits.
ASKING_MODES = {
    "claude": "default",
    "codex": "read-only",
    "gemini": "default",
    OLDER_CLAUDE: "default",
}

_CODEX_CONFIG = """\
model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
"""

_GEMINI_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}


@dataclass(frozen=True)
class RealAgent:
    """One agent, ready to start: `argv` with exactly `env`, in any working directory."""

    id: str
    argv: tuple[str, ...]
    env: dict[str, str]
    home: Path
    asking_mode: str


def prepare(
    agent_id: str, *, home: Path, port: int | None, folder: Path = install.DEFAULT_FOLDER
) -> RealAgent:
    """Write the agent's files below `home`, which must exist, and return how to start it.

    Args:
        agent_id: one of `EVERY`.
        home: of the agent.
        port: of the scripted model.
        folder: where both sets of agents are installed.

    With a port of None the agent finds neither key nor endpoint: a user who never logged in.
    """
    if agent_id == OLDER_CLAUDE:
        folder /= install.OLDER.below
    temporary = home / "tmp"
    temporary.mkdir(exist_ok=True)
    bin_folder = folder / "node_modules" / ".bin"
    path = [install.node_folder(folder), bin_folder, "/usr/local/bin", "/usr/bin", "/bin"]
    common = {
        "PATH": ":".join(map(str, path)),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_BROWSER": "1",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    arguments, special = _SPECIAL[agent_id](home, port)
    argv = (str(bin_folder / arguments[0]), *arguments[1:])
    return RealAgent(agent_id, argv, common | special, home, ASKING_MODES[agent_id])


Special = tuple[tuple[str, ...], dict[str, str]]


def _claude(home: Path, port: int | None) -> Special:
    env = {
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "IS_SANDBOX": "1",  # root may then use every mode; only the value 1 works
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",  # without it an API failure means a minute of silence
    }
    if port is not None:
        env |= {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "x"}
    return ("claude-agent-acp",), env


def _codex(home: Path, port: int | None) -> Special:
    config = home / ".codex"
    config.mkdir(exist_ok=True)
    env = {"CODEX_HOME": str(config)}
    if port is not None:
        text = _CODEX_CONFIG.format(port=port)
        (config / "config.toml").write_text(text, encoding="utf-8")
        env["OPENAI_API_KEY"] = "x"
    return ("codex-acp",), env


def _gemini(home: Path, port: int | None) -> Special:
    env = {
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_MODEL": "gemini-2.5-flash",
        "GEMINI_CLI_NO_RELAUNCH": "true",  # one process, which then obeys SIGTERM
    }
    if port is not None:
        config = home / ".gemini"
        config.mkdir(exist_ok=True)
        (config / "settings.json").write_text(json.dumps(_GEMINI_SETTINGS), encoding="utf-8")
        env |= {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}"}
    return ("gemini", "--acp"), env


_SPECIAL: dict[str, Callable[[Path, int | None], Special]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    OLDER_CLAUDE: _claude,
}
