"""What no agent writes, whatever the user's rules say: whoever writes these can allow himself all.

Compared by name, casefolded, wherever on the disk it is and whether or not it exists. Two lists:
what everybody has, and what the agents of the catalogue are configured by.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from acpbridge.config.catalogue import CATALOGUE
from acpbridge.model.permission import ToolKind
from acpbridge.permissions.rules.globs import Parts, Shape, fold, split

OWN: Final = "builtin:acpbridge"
AGENT: Final = "builtin:agent_settings"

# Kinds that may write; what an unknown one does nobody knows.
WRITING: Final = frozenset({ToolKind.EDIT, ToolKind.DELETE, ToolKind.MOVE, ToolKind.OTHER, None})
_REMOVING: Final = frozenset({ToolKind.DELETE, ToolKind.MOVE})

_STARTUP: Final = (
    "bashrc bash_profile bash_login bash_logout bash_aliases profile zshrc zshenv zprofile zlogin"
    " zlogout kshrc cshrc tcshrc login logout inputrc pam_environment xprofile xsessionrc"
)
_EVERYBODY: Final[Mapping[str, tuple[str, ...]]] = {
    OWN: (".config/acpbridge/**", ".local/state/acpbridge/**"),
    # Git runs hooks, and whatever its configuration names; `.git` as a file says where that is.
    "builtin:git": (
        ".git",
        ".git/**/hooks/**",
        ".git/**/config",
        ".git/**/config.worktree",
        ".git/**/commondir",
        ".git/**/gitdir",
        "*.git/hooks/**",
        "*.git/config",
        ".gitconfig",
        ".config/git/**",
    ),
    AGENT: (
        ".mcp.json",
        *(f"{name}/**" for facts in CATALOGUE.values() for name in facts.settings_paths),
    ),
    # Editors start tasks and servers by them.
    "builtin:editor_settings": tuple(
        f"{name}/**" for name in (".vscode", ".idea", ".zed", ".fleet", ".devcontainer")
    ),
    "builtin:shell_startup": (
        *(f".{name}" for name in _STARTUP.split()),
        ".config/fish/**",
        ".zsh/**",
    ),
    "builtin:credentials": (
        *(f"{name}/**" for name in (".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure")),
        ".config/gcloud/**",
        ".config/gh/**",
        ".password-store/**",
        ".netrc",
        ".git-credentials",
        ".pypirc",
    ),
    "builtin:autostart": (
        ".config/systemd/**",
        ".config/autostart/**",
        ".config/environment.d/**",
        ".local/share/systemd/**",
        "etc/systemd/**",
        "etc/cron*/**",
        "var/spool/cron/**",
        "crontabs/**",
        "Library/LaunchAgents/**",
        "etc/profile",
        "etc/profile.d/**",
        "etc/bash.bashrc",
        "etc/environment",
        "etc/ld.so.preload",
    ),
}

# Bare repositories are named so by custom.
_GIT: Final = ".git"


def _by_first() -> Mapping[str, tuple[tuple[str, Shape], ...]]:
    """Return id and further components of each pattern by its first component."""
    found: dict[str, dict[tuple[str, Shape], None]] = {}
    for name, patterns in _EVERYBODY.items():
        for pattern in patterns:
            first, *rest = map(fold, pattern.split("/"))
            found.setdefault(first, {})[name, Shape.of(rest)] = None
    return {first: tuple(rest) for first, rest in found.items()}


_PATTERNS: Final = _by_first()


def protected(path: str, own: Iterable[str] = (), *, removes: bool = False) -> str:
    """Return the id of the built-in rule that keeps a path from being written, "" for none.

    Args:
        path: absolute, or as an agent wrote it.
        own: directories of this acpbridge, absolute: state, configuration.
        removes: whether the path may be moved away or deleted, with all below it.
    """
    return protected_parts(tuple(map(fold, split(path))), folded_all(own), removes=removes)


def folded_all(paths: Iterable[str]) -> tuple[Parts, ...]:
    """Return the folded components of several paths."""
    return tuple(tuple(map(fold, split(path))) for path in paths)


def protected_parts(path: Parts, own: Iterable[Parts], *, removes: bool) -> str:
    """Do the same as `protected` for components that are folded already."""
    for directory in own:
        if path[: len(directory)] == directory or (removes and directory[: len(path)] == path):
            return OWN
    for at, word in enumerate(path):
        first = "*.git" if word.endswith(_GIT) and word != _GIT else word
        for name, rest in _PATTERNS.get(first, ()):
            if rest.covers(path[at + 1 :]):
                return name
    return ""


def removes(kind: ToolKind | None) -> bool:
    """Tell whether a call of a kind may take a whole directory away."""
    return kind in _REMOVING
