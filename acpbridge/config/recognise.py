"""Finds what the catalogue knows: by an agent's id or alias, or by the command that starts it.

Pure. Above is whoever has a name or an argv; below is the catalogue, which is data only.
"""

from collections.abc import Mapping
from typing import Final

from acpbridge.config import catalogue
from acpbridge.model.agents import AgentDefinition, AgentFacts
from acpbridge.model.keys import AgentId

# Programs that start another one, which their first plain argument names.
_LAUNCHERS: Final = frozenset({"npx", "bunx", "uvx", "node", "env"})


def entry(agent: str) -> AgentDefinition | None:
    """Return the definition of a catalogue agent by its id or alias, None if there is none."""
    if agent == catalogue.DEMO.id:
        return catalogue.DEMO
    name = catalogue.ALIASES.get(agent, agent)
    facts = catalogue.CATALOGUE.get(name)
    return None if facts is None else AgentDefinition(id=AgentId(name), name=name, facts=facts)


def facts_for_command(command: tuple[str, ...]) -> AgentFacts:
    """Return the facts of the entry whose binary or package a command names, else unknown ones."""
    program = _program(command)
    for facts in catalogue.CATALOGUE.values():
        wrong = (words.partition(" ")[0] for words in facts.wrong_commands)
        if program in (*facts.binaries, *facts.packages, *wrong) or any(
            _names_package(word, facts.packages) for word in command
        ):
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
    plain = (w for w in rest if not w.startswith("-") and "=" not in w.replace("==", ""))
    return _without_version(_basename(next(plain, "")))


def _names_package(word: str, packages: tuple[str, ...]) -> bool:
    # A plain word may be anything; only a name with a scope cannot but name a package.
    name = _without_version(word.rpartition("=")[2])
    scoped = "/" in name and name in packages
    return scoped or any(f"/node_modules/{package}/" in word for package in packages)


def _basename(word: str) -> str:
    return word.rpartition("/")[2]


def _without_version(word: str) -> str:
    name, at, _ = word.rpartition("@")
    return name if at and name else word.partition("==")[0]
