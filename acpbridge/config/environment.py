"""The environment of a child: an allow-list over the caller's, never the daemon's own. Pure.

An agent that inherits everything inherits other agents' keys, and switches that change what it
does: loaders' and interpreters' variables, and endpoints that send its traffic elsewhere.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from acpbridge.model.agents import AgentDefinition
from acpbridge.model.modelagent import VARIABLE

MARK: Final = "ACPBRIDGE_MARK"
HOME: Final = "ACPBRIDGE_HOME"
OURS: Final = frozenset({MARK, HOME, VARIABLE})

_COMMON: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "XDG_*"),
    *("LANG", "LC_*", "SSL_CERT_*", "NODE_EXTRA_CA_CERTS"),
)

# In lower case; programs read them in either.
_PROXIES: Final = frozenset({"http_proxy", "https_proxy", "no_proxy"})

# Names through which code of somebody else's choice runs inside the child.
_NEVER: Final = re.compile(r"LD_.*|DYLD_.*|NODE_OPTIONS|PYTHON.*|GIT_.*|BASH_ENV|ENV")

# The session's sockets live there; no agent needs them.
_NOT_COMMON: Final = frozenset({"XDG_RUNTIME_DIR"})

_ENDPOINT: Final = re.compile(r".*_BASE_URL")

# The same for the commonest shells and languages, of a command that an agent has us run: what the
# agent itself is given by its user may hold some of them.
_STEERS: Final = re.compile(
    r"BASH_FUNC_.*|BASHOPTS|SHELLOPTS|PROMPT_COMMAND|PS4|ZDOTDIR|IFS|GCONV_PATH"
    r"|PERL5(LIB|OPT|DB)|RUBY(LIB|OPT)|(_?JAVA|JDK_JAVA|JAVA_TOOL)_OPTIONS|NODE_PATH",
    re.DOTALL,
)


def forbidden(name: str) -> bool:
    """Tell whether a variable is never passed on, not even when the configuration names it."""
    return _NEVER.fullmatch(name) is not None


def child_environment(
    definition: AgentDefinition, caller: Mapping[str, str], *, home: str, mark: str
) -> dict[str, str]:
    """Return the whole environment of an agent.

    Args:
        definition: names what is passed on and what is set.
        caller: the environment of whoever asked for the run.
        home: the state directory in use.
        mark: value by which a sweep recognises the tree. No secret.
    """
    facts = definition.facts
    wanted = [*_COMMON, *facts.env_names]
    out = {
        name: value
        for name, value in caller.items()
        if (_matches(name, wanted) or name.lower() in _PROXIES)
        and name not in _NOT_COMMON
        and not _ENDPOINT.fullmatch(name)
    }
    out |= facts.env_set
    out |= {name: caller[name] for name in definition.env_pass if name in caller}
    out |= definition.env_set
    dropped = facts.secret_names if definition.auth == "subscription" else ()
    out = {name: v for name, v in out.items() if name not in dropped and not forbidden(name)}
    by_model = definition.by_model
    told = {} if by_model is None else {VARIABLE: by_model.write()}
    return out | told | {HOME: home, MARK: mark}


def is_proxy(name: str) -> bool:
    """Tell whether a variable names a proxy."""
    return name.lower() in _PROXIES


def plain_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what any program needs of an environment and nobody keeps secret.

    Proxies are left out, for their addresses may hold a password.
    """
    kept = (name for name in environ if _matches(name, _COMMON) and name not in _NOT_COMMON)
    return {name: environ[name] for name in kept if not forbidden(name)}


def may_be_given(name: str) -> bool:
    """Tell whether an agent may set a variable for a command that it has us run."""
    dropped = forbidden(name) or name in OURS
    return not (dropped or _STEERS.fullmatch(name) or _ENDPOINT.fullmatch(name))


def command_environment(
    agent: Mapping[str, str], given: Mapping[str, str], *, mark: str
) -> dict[str, str]:
    """Return the whole environment of a command that an agent has us run.

    Args:
        agent: the agent's own, see `child_environment`.
        given: what the agent sets for it; what it may not is left out.
        mark: value by which a sweep recognises the tree.
    """
    kept = {name: value for name, value in given.items() if may_be_given(name)}
    return {**agent, **kept, MARK: mark}


def fixed_values(definition: AgentDefinition) -> list[tuple[str, str]]:
    """Return the names and values that a definition gives to its agent: some are secrets."""
    return [*definition.env_set.items(), *server_values(definition.mcp_servers)]


def server_values(servers: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the names and values that MCP servers are given: some are secrets."""
    pairs = []
    for server in servers:
        for pair in (*server.get("env", ()), *server.get("headers", ())):
            name, value = pair["name"], pair["value"]
            # Of `Bearer abc`, the second word alone is a secret as well.
            pairs += [(name, value), (name, value.rpartition(" ")[2])]
    return pairs


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )
