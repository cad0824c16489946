"""Programs that run another one, or a text, that they are given: their name says nothing.

No rule and no grant allows a command that begins with one. The list is no proof that other
programs are harmless (`find -exec`, `git -c`): a rule that ends in `...` trusts its program.
"""

from collections.abc import Mapping, Sequence
from typing import Final

# Whatever follows.
_ALWAYS: Final = frozenset(
    word
    for line in (
        "sh bash zsh dash ksh mksh ash fish csh tcsh rbash nu xonsh pwsh powershell busybox toybox",
        "env xargs parallel sudo doas su pkexec runuser setpriv nohup nice ionice chrt taskset",
        "setsid timeout time gtime stdbuf unbuffer script watch flock entr strace ltrace gdb",
        "unshare nsenter chroot proot fakeroot bwrap firejail systemd-run ssh",
        "exec eval command builtin source . noglob nocorrect",
        "npx bunx pnpx uvx pipx direnv mise asdf nix-shell",
    )
    for word in line.split()
)
# Only with one of these behind it.
_WITH: Final[Mapping[str, frozenset[str]]] = {
    "uv": frozenset({"run", "tool", "x"}),
    "npm": frozenset({"exec", "x"}),
    "pnpm": frozenset({"exec", "dlx"}),
    "yarn": frozenset({"exec", "dlx"}),
    "bun": frozenset({"x"}),
    "poetry": frozenset({"run"}),
    "pipenv": frozenset({"run", "shell"}),
    "hatch": frozenset({"run", "shell"}),
    "pdm": frozenset({"run"}),
    "rye": frozenset({"run"}),
    "conda": frozenset({"run"}),
    "mamba": frozenset({"run"}),
    "bundle": frozenset({"exec"}),
    "deno": frozenset({"eval", "repl"}),
    "docker": frozenset({"run", "exec"}),
    "podman": frozenset({"run", "exec"}),
    "kubectl": frozenset({"run", "exec"}),
    "nix": frozenset({"run", "shell", "develop"}),
}
# Interpreters, and the letters or words by which they take a program as text.
_PYTHON: Final = ("c", frozenset[str]())
_TEXT: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "python": _PYTHON,
    "pypy": _PYTHON,
    "node": ("ep", frozenset({"--eval", "--print"})),
    "nodejs": ("ep", frozenset({"--eval", "--print"})),
    "bun": ("ep", frozenset({"--eval", "--print"})),
    "perl": ("eE", frozenset[str]()),
    "ruby": ("e", frozenset[str]()),
    "lua": ("e", frozenset[str]()),
    "php": ("rBRE", frozenset({"--run"})),
    "osascript": ("e", frozenset[str]()),
    "awk": ("", frozenset({"--source"})),
}


def hides_program(argv: Sequence[str]) -> bool:
    """Tell whether the first word of a command does not say what will run."""
    name = argv[0].rpartition("/")[2].lower() if argv else ""
    name = name.removesuffix(".exe")
    if name in _ALWAYS:
        return True
    rest = [word for word in argv[1:] if not word.startswith("-")]
    # An option may have a value of its own before the word, so the place is not counted.
    if not _WITH.get(name, frozenset[str]()).isdisjoint(rest):
        return True
    base = name.rstrip("0123456789.")
    return base in _TEXT and _takes_text(argv[1:], *_TEXT[base])


def _takes_text(options: Sequence[str], letters: str, words: frozenset[str]) -> bool:
    for word in options:
        if word == "-":
            return True  # the program comes on stdin
        if not word.startswith("-") or word == "--":
            return False
        if word.startswith("--"):
            if word.partition("=")[0] in words:
                return True
        elif any(letter in word for letter in letters):
            return True
    return not options  # alone it reads its program from stdin
