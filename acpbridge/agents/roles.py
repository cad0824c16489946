"""Roles: as what an agent may be called inside a run, each a Markdown file of the user's.

Front matter in YAML says what the role may do, the text below it is its instruction. The files lie
in the directory `roles` beside the configuration file, and nowhere else: a role of a workspace
would let whoever wrote that workspace say what an agent may do. Below are YAML and errors.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError
from pydantic.alias_generators import to_camel

from acpbridge.config import yamltext
from acpbridge.errors import BridgeError
from acpbridge.model.keys import is_agent_id
from acpbridge.model.modelagent import ROLES

DEFAULT_ITERATIONS: Final = 100

# Nobody reads an instruction that is longer, and a model pays for all of it with each call.
LARGEST: Final = 256 * 1024

# Each is offered to a model by name and description.
MOST_ROLES: Final = 200

_FENCE: Final = "---"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a called one may do beyond its tools. What is not given it cannot do.

    Attributes:
        memory: whether it has a memory of its own.
        send_message: whether it may write to people itself.
        max_iterations: of its loop.
    """

    memory: bool = False
    send_message: bool = False
    max_iterations: int = DEFAULT_ITERATIONS


@dataclass(frozen=True, slots=True)
class Role:
    """One role.

    Attributes:
        name: as it is called.
        description: for whoever chooses among roles.
        system_prompt: its instruction.
        tools: the only tools that it gets; empty for all of the caller's but `SubAgent`.
        capabilities: what it may do besides.
    """

    name: str
    description: str = ""
    system_prompt: str = ""
    tools: tuple[str, ...] = ()
    capabilities: Capabilities = field(default_factory=Capabilities)


@dataclass(frozen=True, slots=True)
class Roles:
    """What was found in a directory of roles.

    Attributes:
        known: by name.
        broken: why a file is no role, by the name that it would have.
        warnings: what was found besides, for people.
    """

    known: Mapping[str, Role] = field(default_factory=dict)
    broken: Mapping[str, BridgeError] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def get(self, name: str) -> Role:
        """Return a role.

        Raises:
            BridgeError: `no_such_agent`, naming those that there are; `config_error`, if its file
                is broken.
        """
        if name in self.broken:
            raise self.broken[name]
        if name not in self.known:
            there = ", ".join(sorted(self.known)) or "none"
            message = f"There is no role {name!r}; there is: {there}."
            hint = f"Write it as {ROLES}/{name or 'NAME'}.md beside config.yaml."
            raise BridgeError("no_such_agent", message, hint=hint)
        return self.known[name]


class _Front(BaseModel):
    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, hide_input_in_errors=True)

    name: StrictStr | None = None
    description: StrictStr = ""
    tools: list[StrictStr] = Field(default_factory=list)
    memory: StrictBool = False
    send_message: StrictBool = False
    max_iterations: StrictInt = Field(default=0, ge=0)


_KNOWN: Final = frozenset(to_camel(name) for name in _Front.model_fields)


def parse_role(text: str, file: str) -> tuple[Role, tuple[str, ...]]:
    """Return the role that a file holds, and a warning for each key that means nothing.

    Args:
        text: of the file.
        file: its name, which names the role unless its front matter does, and for errors.

    Raises:
        BridgeError: `config_error`, with file, line and key.
    """
    front, body = _split(text, file)
    # With the fence in place of its first line, each line has the number that an editor shows.
    source = yamltext.read(f"\n{front}", file)
    if not isinstance(source.value, dict):
        raise source.error((), "the front matter must be keys with values")
    try:
        read = _Front.model_validate(source.value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise source.error(first["loc"], first["msg"]) from None
    name = Path(file).stem if read.name is None else read.name
    if not is_agent_id(name):
        problem = "a role's name has small letters, digits, - and _, at most 64"
        raise source.error(("name",), problem)
    role = Role(
        name=name,
        description=read.description,
        system_prompt=body.strip(),
        tools=tuple(dict.fromkeys(read.tools)),
        capabilities=Capabilities(
            memory=read.memory,
            send_message=read.send_message,
            max_iterations=read.max_iterations or DEFAULT_ITERATIONS,
        ),
    )
    return role, tuple(_unknown(source, key) for key in source.value if key not in _KNOWN)


def _split(text: str, file: str) -> tuple[str, str]:
    """Return front matter and body of a file."""
    lines = [line.rstrip() for line in text.removeprefix("\ufeff").splitlines()]
    if lines[:1] != [_FENCE]:
        raise _broken(file, f"it must begin with a line {_FENCE}, keys, and another such line")
    if _FENCE not in lines[1:]:
        raise _broken(file, f"its front matter has no end: a line {_FENCE}")
    end = lines.index(_FENCE, 1)
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :])


def _unknown(source: yamltext.Text, key: str) -> str:
    return source.error((key,), "this key means nothing in a role; it is not looked at").message


def _broken(file: str, problem: str) -> BridgeError:
    return yamltext.Text(file, None).error((), problem)


def roles_directory(config_file: str) -> Path:
    """Return where the roles of a configuration lie.

    Args:
        config_file: absolute path of the configuration in use, which no workspace has a say in.

    Raises:
        BridgeError: `config_error`: it is relative, so that it would depend on a workspace.
    """
    if not Path(config_file).is_absolute():
        raise _broken(config_file, "the path of the configuration must be absolute")
    return Path(config_file).parent / ROLES


def load_roles(directory: Path) -> Roles:
    """Return the roles of a directory; none where there is no such directory.

    A file that is broken costs nobody the others: it is told in `warnings`, and to whoever calls
    the role.
    """
    known: dict[str, Role] = {}
    broken: dict[str, BridgeError] = {}
    warnings: list[str] = []
    try:
        files = sorted(path for path in directory.iterdir() if path.suffix == ".md")
    except FileNotFoundError:
        return Roles()
    except OSError as error:
        return Roles(warnings=(f"{directory}: it cannot be read: {error.strerror}.",))
    if len(files) > MOST_ROLES:
        warnings.append(f"{directory}: only {MOST_ROLES} of {len(files)} roles are read.")
    for path in files[:MOST_ROLES]:
        try:
            role, odd = parse_role(_read(path), str(path))
            if role.name in known:
                raise _broken(str(path), f"a role {role.name} was read already; rename one")
        except BridgeError as error:
            warnings.append(error.message)
            broken.setdefault(path.stem, error)
        else:
            known[role.name] = role
            warnings += odd
    broken = {name: error for name, error in broken.items() if name not in known}
    return Roles(known, broken, tuple(warnings))


def _read(path: Path) -> str:
    """Return the text of a file of the user's.

    Raises:
        BridgeError: `config_error`.
    """
    try:
        # A named pipe must not hold up anybody.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _broken(str(path), f"it cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _broken(str(path), "it is no plain file")
        # Only now: given a directory it raises, and closes nothing.
        with os.fdopen(fd, "rb", closefd=False) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise _broken(str(path), f"it cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)
    if len(data) > LARGEST:
        raise _broken(str(path), f"it is longer than {LARGEST} bytes; make it shorter")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _broken(str(path), "it is not UTF-8") from None


def offer(roles: Roles) -> list[dict[str, Any]]:
    """Return what whoever chooses among roles is told of them, sorted by name."""
    return [
        {"role": name, "description": roles.known[name].description} for name in sorted(roles.known)
    ]
