"""What is known of the agents of the field, as data and nothing but data.

An unknown agent that is given the same fields behaves the same; no other module may look at an
agent's name. What is not known is not here: nothing is guessed. Above is `recognise`, which finds.
"""

from collections.abc import Mapping
from typing import Final

from acpbridge.model.agents import (
    AgentDefinition,
    AgentFacts,
    RuntimeKind,
    SessionFiles,
    ToolNames,
)
from acpbridge.model.keys import AgentId

CLAUDE: Final = AgentFacts(
    description="Claude Code, through its ACP adapter.",
    registry_id="claude-acp",
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
    tool_names=(
        ToolNames(
            tool=("_meta", "claudeCode", "toolName"),
            server=("_meta", "claudeCode", "mcpServer", "name"),
        ),
    ),
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
    # It opens a session without a login, and refuses at the first prompt.
    logins={
        "claudeai": ("--cli", "auth", "login", "--claudeai"),
        "console": ("--cli", "auth", "login", "--console"),
    },
    login_hint="Log in: acpbridge login claude --method claudeai, or set ANTHROPIC_API_KEY.",
    install_hint="Install it: npm install -g @agentclientprotocol/claude-agent-acp",
    wrong_commands={"claude": "claude-agent-acp"},
    silence_hint="It retries a refused login (401), a limit (429) or a server error without a "
    "word, for a minute or longer. Check the key or log in again; CLAUDE_CODE_MAX_RETRIES=1 in its "
    "environment has it fail at once.",
    settings_paths=(
        ".claude",
        ".claude.json",
        ".mcp.json",
    ),
)

CODEX: Final = AgentFacts(
    description="Codex, through its ACP adapter.",
    registry_id="codex-acp",
    binaries=("codex-acp",),
    npx_package="@agentclientprotocol/codex-acp",
    npx_version="2.6.0",
    packages=("@agentclientprotocol/codex-acp", "@zed-industries/codex-acp"),
    # It starts in `agent`, where a reviewing model decides and nobody is asked.
    asking_mode="read-only",
    unknown_session_words=("no rollout found", "thread not found"),
    bypass_modes=("agent-full-access",),
    # Of other calls the input is the model's, whatever keys it has.
    tool_names=(
        ToolNames(
            tool=("rawInput", "tool"),
            server=("rawInput", "server"),
            only_if=("_meta", "is_mcp_tool_call"),
        ),
    ),
    # It kills its own child 2 s after its stdin was closed; just after a turn it took 4.3 s.
    grace=5.0,
    env_names=("CODEX_HOME", "OPENAI_API_KEY", "CODEX_API_KEY"),
    secret_names=("OPENAI_API_KEY", "CODEX_API_KEY"),
    login_files=("$CODEX_HOME/auth.json", ".codex/auth.json"),
    logins={"default": ("login",)},
    login_hint="Log in: acpbridge login codex, or set OPENAI_API_KEY.",
    session_needs_login=True,
    install_hint="Install it: npm install -g @agentclientprotocol/codex-acp",
    wrong_commands={"codex": "codex-acp"},
    settings_paths=(".codex",),
)

GEMINI: Final = AgentFacts(
    description="Gemini CLI.",
    registry_id="gemini",
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
    session_needs_login=True,
    install_hint="Install it: npm install -g @google/gemini-cli",
    wrong_commands={"gemini": "gemini --acp"},
    silence_hint="It retries a limit (429) or a server error without a word.",
    settings_paths=(".gemini",),
)

# Of these only the command is known. No mode, login or environment is: they show as unknown.

OPENCODE: Final = AgentFacts(
    description="OpenCode.",
    binaries=("opencode",),
    args=("acp",),
    npx_package="opencode-ai",
    npx_version="1.18.33",
    packages=("opencode-ai",),
    install_hint="Install it: npm install -g opencode-ai",
    wrong_commands={"opencode": "opencode acp"},
    settings_paths=(
        ".opencode",
        "opencode.json",
        "opencode.jsonc",
        ".config/opencode",
    ),
)

PI: Final = AgentFacts(
    description="pi, through its ACP adapter.",
    binaries=("pi-acp",),
    npx_package="pi-acp",
    npx_version="0.0.34",
    packages=("pi-acp",),
    install_hint="Install it: npm install -g pi-acp @earendil-works/pi-coding-agent",
    settings_paths=(".pi",),
)

FAST_AGENT: Final = AgentFacts(
    description="fast-agent.",
    args=("acp",),
    uvx_package="fast-agent-mcp",
    packages=("fast-agent-mcp",),
    install_hint="Install uv, which brings uvx: https://docs.astral.sh/uv",
    settings_paths=(
        ".fast-agent",
        "fastagent.config.yaml",
        "fastagent.secrets.yaml",
    ),
)

COPILOT: Final = AgentFacts(
    description="GitHub Copilot CLI.",
    binaries=("copilot",),
    args=("--acp", "--stdio"),
    wrong_commands={"copilot": "copilot --acp --stdio"},
    settings_paths=(".copilot",),
)

CURSOR: Final = AgentFacts(
    description="Cursor CLI.",
    binaries=("cursor-agent",),
    args=("acp",),
    wrong_commands={"cursor-agent": "cursor-agent acp"},
    settings_paths=(".cursor",),
)

QWEN: Final = AgentFacts(
    description="Qwen Code.",
    binaries=("qwen",),
    args=("--acp",),
    wrong_commands={"qwen": "qwen --acp"},
    settings_paths=(".qwen",),
)

KIMI: Final = AgentFacts(
    description="Kimi CLI.",
    binaries=("kimi",),
    args=("acp",),
    wrong_commands={"kimi": "kimi acp"},
    settings_paths=(".kimi",),
)

DROID: Final = AgentFacts(
    description="Droid.",
    binaries=("droid",),
    args=("exec", "--output-format", "acp"),
    wrong_commands={"droid": "droid exec --output-format acp"},
    settings_paths=(".factory",),
)

OPENCLAW: Final = AgentFacts(
    description="OpenClaw.",
    binaries=("openclaw",),
    args=("acp",),
    wrong_commands={"openclaw": "openclaw acp"},
    settings_paths=(".openclaw",),
)

# Names that other bridges know. Nobody has checked a command for them, so there is none here.
UNCHECKED: Final = AgentFacts(
    description="Known by its name only: its command has not been checked.",
)

# In the order in which a default is looked for.
CATALOGUE: Final[Mapping[str, AgentFacts]] = {
    "claude": CLAUDE,
    "codex": CODEX,
    "gemini": GEMINI,
    "opencode": OPENCODE,
    "copilot": COPILOT,
    "cursor": CURSOR,
    "qwen": QWEN,
    "kimi": KIMI,
    "droid": DROID,
    "pi": PI,
    "openclaw": OPENCLAW,
    "fast-agent": FAST_AGENT,
    "grok-build": UNCHECKED,
    "iflow": UNCHECKED,
    "kilocode": UNCHECKED,
    "kiro": UNCHECKED,
    "mcode": UNCHECKED,
    "mux": UNCHECKED,
    "pool": UNCHECKED,
    "qoder": UNCHECKED,
    "trae": UNCHECKED,
    "zeroclaw": UNCHECKED,
}

# Registry ids, binaries, and what people call them elsewhere.
ALIASES: Final[Mapping[str, str]] = {
    "claude-acp": "claude",
    "claude-agent-acp": "claude",
    "claude-code": "claude",
    "claude-code-acp": "claude",
    "codex-acp": "codex",
    "gemini-cli": "gemini",
    "cursor-agent": "cursor",
    "fast-agent-mcp": "fast-agent",
    "opencode-ai": "opencode",
    "pi-acp": "pi",
}

# What we serve ourselves: the one mode there is asks.
PYTHON: Final = AgentFacts(asking_mode="default")

# The embedded agent: no login, no network, started like any Python agent.
DEMO: Final = AgentDefinition(
    id=AgentId("demo"),
    name="demo",
    description="Plans a little, reads a little, and asks before it writes.",
    kind=RuntimeKind.PYTHON,
    entry="acpbridge.agents.demo:demo",
    facts=AgentFacts(asking_mode="default", no_login=True),
)


# Who serves models to agents that have no code, with the variables by which an API key is given,
# the preferred one first. The older API of a vendor is one that most other servers speak too.
MODEL_VENDORS: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
