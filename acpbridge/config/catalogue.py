"""What is known of the agents of the field, as data.

An unknown agent that is given the same fields behaves the same; no other module may look at an
agent's name.
"""

from collections.abc import Mapping
from typing import Final

from acpbridge.model.agents import AgentDefinition, AgentFacts, RuntimeKind, SessionFiles
from acpbridge.model.keys import AgentId

CLAUDE: Final = AgentFacts(
    binaries=("claude-agent-acp", "claude-code-acp"),
    npx_package="@agentclientprotocol/claude-agent-acp",
    npx_version="0.101.0",
    packages=(
        "@agentclientprotocol/claude-agent-acp",
        "@zed-industries/claude-agent-acp",
        "@zed-industries/claude-code-acp",
    ),
    # Newer versions start in `auto`, where a model decides and nobody is asked.
    asking_mode="default",
    bypass_modes=("bypassPermissions",),
    # Its own child needs up to 3.6 s after the adapter has gone.
    grace=5.0,
    env_names=(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_MODEL",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_MAX_RETRIES",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_EXECUTABLE",
        "DISABLE_AUTOUPDATER",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_TELEMETRY",
    ),
    secret_names=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    login_files=("$CLAUDE_CONFIG_DIR/.credentials.json", ".claude/.credentials.json"),
    login_hint="Log in: claude-agent-acp --cli auth login --claudeai, or set ANTHROPIC_API_KEY.",
    install_hint="Install it: npm install -g @agentclientprotocol/claude-agent-acp",
    wrong_commands={"claude": "claude-agent-acp"},
)

CODEX: Final = AgentFacts(
    binaries=("codex-acp",),
    npx_package="@agentclientprotocol/codex-acp",
    npx_version="2.6.0",
    packages=("@agentclientprotocol/codex-acp", "@zed-industries/codex-acp"),
    # It starts in `agent`, where a reviewing model decides and nobody is asked.
    asking_mode="read-only",
    unknown_session_words=("no rollout found", "thread not found"),
    bypass_modes=("agent-full-access",),
    # It kills its own child 2 s after its stdin was closed; just after a turn it took 4.3 s.
    grace=5.0,
    env_names=("CODEX_HOME", "OPENAI_API_KEY", "CODEX_API_KEY"),
    secret_names=("OPENAI_API_KEY", "CODEX_API_KEY"),
    login_files=("$CODEX_HOME/auth.json", ".codex/auth.json"),
    login_hint="Log in: codex-acp login, or set OPENAI_API_KEY.",
    install_hint="Install it: npm install -g @agentclientprotocol/codex-acp",
    wrong_commands={"codex": "codex-acp"},
)

GEMINI: Final = AgentFacts(
    binaries=("gemini",),
    args=("--acp",),
    npx_package="@google/gemini-cli",
    npx_version="0.61.0",
    packages=("@google/gemini-cli",),
    asking_mode="default",
    bypass_modes=("yolo",),
    unknown_session_words=("No previous sessions found", "Invalid session identifier"),
    # It answers a load first, and replays while the next request is already on its way.
    replay_quiet=0.3,
    # Its files bear the minute in which a session was opened: to load it within that minute writes
    # over what was to be loaded. A load in a later minute leaves an empty file of the same session,
    # for which the next start in that directory removes both. Either way it is gone for good.
    session_files=SessionFiles(
        pattern=".gemini/tmp/*/chats/session-{minute}-{id}.jsonl",
        id_length=8,
        minute="%Y-%m-%dT%H-%M",
        message='{"id":',
    ),
    reload_wait="minute",
    # It answers session/set_mode with an empty object and never sends an update.
    mode_answer_suffices=True,
    env_names=("GEMINI_API_KEY", "GEMINI_MODEL", "GEMINI_CLI_TRUST_WORKSPACE", "GOOGLE_*"),
    # Without it the program is a launcher that ignores signals and whose child holds our pipes.
    env_set={"GEMINI_CLI_NO_RELAUNCH": "true"},
    secret_names=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    login_files=(".gemini/oauth_creds.json",),
    login_hint="Log in: run gemini once and choose a login, or set GEMINI_API_KEY.",
    install_hint="Install it: npm install -g @google/gemini-cli",
    wrong_commands={"gemini": "gemini --acp"},
)

CATALOGUE: Final[Mapping[str, AgentFacts]] = {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI}

ALIASES: Final[Mapping[str, str]] = {
    "claude-acp": "claude",
    "claude-code": "claude",
    "codex-acp": "codex",
    "gemini-cli": "gemini",
}

# The embedded agent: no login, no network, started like any Python agent.
DEMO: Final = AgentDefinition(
    id=AgentId("demo"),
    name="demo",
    description="Plans a little, reads a little, and asks before it writes.",
    kind=RuntimeKind.PYTHON,
    entry="acpbridge.agents.demo:demo",
    facts=AgentFacts(asking_mode="default"),
)


# Programs that start another one, which their first plain argument names.
_LAUNCHERS: Final = frozenset({"npx", "bunx", "node", "env"})


def facts_for_command(command: tuple[str, ...]) -> AgentFacts:
    """Return the facts of the entry whose binary or package a command names, else unknown ones."""
    program = _program(command)
    for facts in CATALOGUE.values():
        known = (*facts.binaries, *(wrong.partition(" ")[0] for wrong in facts.wrong_commands))
        if program in known or any(_names_package(word, facts.packages) for word in command):
            return facts
    return AgentFacts()


def better_command(command: tuple[str, ...], wrong: Mapping[str, str]) -> str | None:
    """Return the command that speaks ACP for one that looks right and does not, else None.

    Args:
        command: as it was started.
        wrong: first words of commands, each with what to write for them.
    """
    words = [_basename(command[0]), *command[1:]] if command else []
    for count in range(len(words), 0, -1):
        right = wrong.get(" ".join(words[:count]))
        if right is not None:
            return None if set(right.split(" ")) <= set(words) else right
    return None


def _program(command: tuple[str, ...]) -> str:
    """Return the name of what a command runs, past a launcher, its options and assignments."""
    first, *rest = command or ("",)
    if _basename(first) not in _LAUNCHERS:
        return _basename(first)
    plain = (word for word in rest if not word.startswith("-") and "=" not in word)
    return _without_version(_basename(next(plain, "")))


def _names_package(word: str, packages: tuple[str, ...]) -> bool:
    name = _without_version(word.rpartition("=")[2])
    return name in packages or any(f"/node_modules/{package}/" in word for package in packages)


def _basename(word: str) -> str:
    return word.rpartition("/")[2]


def _without_version(word: str) -> str:
    name, at, _ = word.rpartition("@")
    return name if at and name else word


def entry(agent: str) -> AgentDefinition | None:
    """Return the definition of a catalogue agent by its id or alias, None if there is none."""
    if agent == DEMO.id:
        return DEMO
    name = ALIASES.get(agent, agent)
    facts = CATALOGUE.get(name)
    return None if facts is None else AgentDefinition(id=AgentId(name), name=name, facts=facts)
