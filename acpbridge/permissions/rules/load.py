"""A policy file: strictly read YAML to a rulebook.

What is not understood is an error that names file, line and key: a rule that is silently ignored
is worse than one that is missing. Above are whoever reads the file and the commands that check it.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StrictStr
from pydantic_core import PydanticCustomError

from acpbridge.config import yamltext
from acpbridge.config.shape import Word, shaped
from acpbridge.config.snapshot import STRICT
from acpbridge.model.display import hides
from acpbridge.model.keys import agent_id
from acpbridge.model.permission import ToolKind
from acpbridge.permissions.rules import examples
from acpbridge.permissions.rules.globs import Glob, glob
from acpbridge.permissions.rules.hosts import is_host
from acpbridge.permissions.rules.rule import Rule
from acpbridge.permissions.rules.rulebook import Rulebook
from acpbridge.permissions.rules.seen import Argv
from acpbridge.permissions.verdict import Ruling

# Each takes some microseconds of every question; people have some dozens.
MOST_RULES: Final = 10_000
# Behind the words of a command: others may follow.
MORE: Final = "..."

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def _several(value: Any) -> Any:
    """Read one word as a list of one."""
    return [value] if isinstance(value, str) else value


def _kind(word: str) -> str:
    if word not in tuple(ToolKind):
        message = "no kind of tool; write one of " + ", ".join(ToolKind)
        raise PydanticCustomError("tool_kind", message)
    return word


Kind = Annotated[StrictStr, AfterValidator(_kind)]
Words = Annotated[list[Word], Field(min_length=1), BeforeValidator(_several)]


class _Rule(BaseModel):
    model_config = STRICT

    id: Word | None = None
    effect: Literal["deny", "ask", "allow"]
    agent: Words | None = None
    session_label: Words | None = None
    tool_kind: Annotated[list[Kind], Field(min_length=1)] | None = None
    tool_name: Words | None = None
    mcp_server: Words | None = None
    path: Words | None = None
    argv: Annotated[list[StrictStr], Field(min_length=1)] | None = None
    host: Words | None = None
    match: list[Any] = Field(default_factory=list)
    not_match: list[Any] = Field(default_factory=list)


class _File(BaseModel):
    model_config = STRICT

    rules: list[_Rule] = Field(default_factory=list)


def parse(text: str, name: str, home: str) -> Rulebook:
    """Return the rules of a policy file.

    Args:
        text: of the file.
        name: of the file, for errors.
        home: the user's home directory, for `~`.

    Raises:
        BridgeError: `config_error`, with file, line and key.
    """
    source = yamltext.read(text, name)
    _refuse_nothing(source)
    file = shaped(source, _File, source.value)
    if len(file.rules) > MOST_RULES:
        raise source.error(("rules",), f"more than {MOST_RULES} rules; write fewer")
    rules = tuple(_Reader(source, home, n).rule(row) for n, row in enumerate(file.rules))
    _check_ids(source, rules)
    return Rulebook(rules, hashlib.sha256(text.encode()).hexdigest())


def _refuse_nothing(source: yamltext.Text) -> None:
    """Refuse a key without a value: a matcher that is empty would be about everything.

    A lone `~`, which looks like a home directory, is how YAML writes nothing.
    """
    rows = source.value.get("rules") if isinstance(source.value, dict) else None
    for number, row in enumerate(rows if isinstance(rows, list) else ()):
        for key, value in row.items() if isinstance(row, dict) else ():
            if value is None:
                problem = "it has no value; give one (`~` alone needs quotes), or remove the key"
                raise source.error(("rules", number, key), problem)


def _check_ids(source: yamltext.Text, rules: Sequence[Rule]) -> None:
    counts = Counter(rule.id for rule in rules)
    for number, rule in enumerate(rules):
        if counts[rule.id] > 1:
            raise source.error(("rules", number, "id"), f"{rule.id} is given twice; rename one")


class _Reader:
    """Reads one rule."""

    def __init__(self, source: yamltext.Text, home: str, number: int) -> None:
        self._source = source
        self._home = home
        self._number = number
        self._here: yamltext.Path = ("rules", number)

    def rule(self, row: _Rule) -> Rule:
        if row.id is not None and not _ID.fullmatch(row.id):
            raise self._error("id", "use letters, digits, `-`, `_` and `.`, at most 64")
        rule = Rule(
            effect=Ruling(row.effect),
            id=row.id or f"policy:{self._number + 1}",
            agents=self._agents(row.agent),
            labels=self._plain("sessionLabel", row.session_label),
            kinds=None if row.tool_kind is None else tuple(map(ToolKind, row.tool_kind)),
            tools=self._plain("toolName", row.tool_name),
            servers=self._plain("mcpServer", row.mcp_server),
            paths=self._paths(row.path),
            argv=self._argv(row.argv),
            hosts=self._hosts(row.host),
            line=self._source.lines.get(self._here, 0),
        )
        if rule.effect is Ruling.ALLOW and not rule.says_what:
            problem = "an allow needs one of toolKind, toolName, mcpServer, path, argv, host"
            raise self._source.error(self._here, problem)
        for key, found, meant in (("match", row.match, True), ("notMatch", row.not_match, False)):
            for number, example in enumerate(found):
                problem = examples.problem(rule, example, self._home, meant=meant)
                if problem:
                    raise self._source.error((*self._here, key, number), problem)
        return rule

    def _agents(self, names: list[str] | None) -> tuple[str, ...] | None:
        for name in names or ():
            if agent_id(name) != name:
                raise self._error("agent", f"write the id as it is shown: {agent_id(name)}")
        return None if names is None else tuple(names)

    def _plain(self, key: str, words: list[str] | None) -> tuple[str, ...] | None:
        if any(hides(word) for word in words or ()):
            raise self._error(key, "it holds a character that cannot be seen; remove it")
        return None if words is None else tuple(words)

    def _paths(self, patterns: list[str] | None) -> tuple[Glob, ...] | None:
        if patterns is None:
            return None
        try:
            return tuple(glob(pattern, self._home) for pattern in patterns)
        except ValueError as error:
            raise self._error("path", str(error)) from None

    def _argv(self, words: list[str] | None) -> Argv | None:
        if words is None:
            return None
        more = words[-1] == MORE
        plain = tuple(words[:-1] if more else words)
        if MORE in plain:
            raise self._error("argv", "`...` stands at the end, behind the words that are needed")
        if not plain or not plain[0]:
            raise self._error("argv", "name the program at least")
        self._plain("argv", list(plain))
        return Argv(plain, more)

    def _hosts(self, names: list[str] | None) -> tuple[str, ...] | None:
        for name in names or ():
            if not is_host(name.removeprefix("*.")):
                problem = "write a host in lower case, without port; `*.` in front for all below it"
                raise self._error("host", problem)
        return None if names is None else tuple(names)

    def _error(self, key: str, problem: str) -> Exception:
        return self._source.error((*self._here, key), problem)
