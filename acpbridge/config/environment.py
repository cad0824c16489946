"""The environment of a child: an allow-list over the caller's, never the daemon's own. Pure.

An agent that inherits everything inherits other agents' keys, and switches that change what it
does: loaders' and interpreters' variables, and endpoints that send its traffic elsewhere.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from acpbridge.model.agents import AgentDefinition

MARK: Final = "ACPBRIDGE_MARK"
HOME: Final = "ACPBRIDGE_HOME"
OURS: Final = frozenset({MARK, HOME})

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
    return out | {HOME: home, MARK: mark}


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
