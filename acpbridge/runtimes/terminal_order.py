"""What an agent wants to have run, resolved: program, words, directory and environment.

Above is `terminals`, which shows it to whoever decides, and has it run. A seal binds the two: it is
made of every byte that will run and of the very file and directory that they were found to be, and
is made again just before the start. Looks at files, so it blocks: use a thread.
"""

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from acpbridge.config.environment import command_environment, may_be_given
from acpbridge.errors import BridgeError
from acpbridge.protocol.terminals import CreateTerminal, Variable
from acpbridge.transport.program import resolve_program

# A title is for a list; the whole command is in what is asked. Characters.
TITLE: Final = 200


@dataclass(frozen=True, slots=True)
class Place:
    """Where the commands of a session may run, and what they are given.

    Attributes:
        cwd: where they run unless the agent says otherwise.
        roots: directories, resolved when the session began: what the agent names lies below them.
        env: the agent's own environment, which has the PATH.
    """

    cwd: str
    roots: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CommandOrder:
    """A command, exactly as it would run.

    Attributes:
        program: absolute path of the file that runs.
        words: the command and its arguments. The first is the agent's word if that is a name or an
            absolute path, else the path that it comes to.
        cwd: absolute, without symlinks.
        given: names and values that the agent sets and may set.
        dropped: names that it sets and may not.
        env: the whole environment.
        seal: hash of all that, and of which file and directory are meant.
    """

    program: str
    words: tuple[str, ...]
    cwd: str
    given: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    seal: str = ""

    @property
    def argv(self) -> tuple[str, ...]:
        """What is executed."""
        return (self.program, *self.words[1:])

    @property
    def raw_input(self) -> dict[str, Any]:
        """What is shown to whoever decides, beside the program; rules know just these words."""
        return {
            "command": self.words[0],
            "args": list(self.words[1:]),
            "cwd": self.cwd,
            "env": [{"name": name, "value": value} for name, value in self.given],
        }


def real_roots(folders: Sequence[str]) -> tuple[str, ...]:
    """Return directories as they are now, symlinks followed."""
    return tuple(os.path.realpath(folder) for folder in folders)


def order_of(wanted: CreateTerminal, place: Place, mark: str) -> CommandOrder:
    """Return what would run.

    Args:
        wanted: what the agent asks for.
        place: where, and with what.
        mark: value by which a sweep recognises its tree.

    Raises:
        BridgeError: `invalid_params`, naming what cannot be.
    """
    args, variables = wanted.args or [], wanted.env or []
    for word in (wanted.command, *args):
        _check_word(word, "A word of the command")
    given = _given(variables)
    cwd = _directory(place.cwd if wanted.cwd is None else wanted.cwd, place.roots)
    program = _program(wanted.command, place.env, cwd)
    relative = "/" in wanted.command and not wanted.command.startswith("/")
    kept = {name: value for name, value in given.items() if may_be_given(name)}
    order = CommandOrder(
        program=program,
        words=(program if relative else wanted.command, *args),
        cwd=cwd,
        given=tuple(kept.items()),
        dropped=tuple(name for name in given if name not in kept),
        env=command_environment(place.env, kept, mark=mark),
    )
    return _sealed(order)


def _check_word(word: str, what: str) -> None:
    try:
        usable = b"\0" not in word.encode("utf-8")
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise BridgeError(
            "invalid_params", f"{what} holds a character that no program can be given."
        )


def _given(variables: Sequence[Variable]) -> dict[str, str]:
    given: dict[str, str] = {}
    for variable in variables:
        _check_word(variable.name, "The name of a variable")
        _check_word(variable.value, "The value of a variable")
        if not variable.name or "=" in variable.name:
            raise BridgeError("invalid_params", f"{variable.name!r} names no variable.")
        if variable.name in given:
            raise BridgeError("invalid_params", f"The variable {variable.name!r} is given twice.")
        given[variable.name] = variable.value
    return given


def _directory(folder: str, roots: Sequence[str]) -> str:
    """Return a directory without symlinks, if it is in or below one of the roots (G25)."""
    _check_word(folder, "The working directory")
    if not folder.startswith("/"):
        raise BridgeError("invalid_params", f"The working directory {folder!r} is not absolute.")
    try:
        real = os.path.realpath(folder, strict=True)
        found = stat.S_ISDIR(Path(real).stat().st_mode)
    except OSError as error:
        message = f"The working directory {folder!r} cannot be used: {error.strerror}."
        raise BridgeError("invalid_params", message) from None
    if not any(Path(real).is_relative_to(root) for root in roots):
        message = f"The working directory {folder!r} is outside the session's directories."
        hint = "Name one of the session's directories, or one below them."
        raise BridgeError("invalid_params", message, hint=hint)
    if not found:
        raise BridgeError("invalid_params", f"The working directory {folder!r} is no directory.")
    return real


def _program(command: str, env: Mapping[str, str], cwd: str) -> str:
    """Return the path of the program; its own name stays, for some programs go by that."""
    try:
        found = Path(resolve_program(command, env, cwd))
    except BridgeError as error:
        hint = "Name a program on the agent's PATH, or give its path."
        raise BridgeError("invalid_params", error.message, hint=hint) from None
    return str(Path(os.path.realpath(found.parent), found.name))


def _sealed(order: CommandOrder) -> CommandOrder:
    try:
        file, folder = Path(order.program).stat(), Path(order.cwd).stat()
    except OSError as error:
        message = f"{order.program} cannot be run: {error.strerror}."
        raise BridgeError("invalid_params", message) from None
    which = (file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, folder.st_dev, folder.st_ino)
    whole = [order.argv, order.cwd, sorted(order.env.items()), which]
    text = json.dumps(whole, ensure_ascii=True).encode("ascii")
    return replace(order, seal=hashlib.sha256(text).hexdigest())
