"""The tools that act in the directory of a session: read, list, write, run. Each asks first.

A call is shown to a person, or to the rules, as any agent's is: with where a path really leads,
with the change, with the words of the command. Only an explicit yes is one. Files are those below
the directory of the session, opened beneath it so that no link leads out; a command is executed
without a shell, exactly as it was shown.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from acpbridge.agents.registry import Tool
from acpbridge.config.environment import MARK, OURS, command_environment
from acpbridge.errors import BridgeError
from acpbridge.permissions import textfiles
from acpbridge.permissions.confine import Place, Roots
from acpbridge.protocol import textlines
from acpbridge.runtimes.content import diff_content
from acpbridge.runtimes.toolcall import ToolCall
from acpbridge.runtimes.turn import Turn
from acpbridge.transport.commands import run_command
from acpbridge.transport.threads import Threads

T = TypeVar("T")

# A disk that hangs does not hold up the agent. Seconds.
FILE_SECONDS: Final = 10.0

# What one call tells the model, which has other things to keep in mind. Characters; of a command,
# bytes.
MOST_TOLD: Final = 65536

# Entries of a directory that are listed.
MOST_ENTRIES: Final = 1000

# What a person is to allow must be shown whole: old and new text together. Characters.
MOST_SHOWN: Final = 1024 * 1024

# A build or a test run takes minutes; what takes longer should be started another way. Seconds.
COMMAND_SECONDS: Final = 120
MOST_SECONDS: Final = 1800


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Read(_Arguments):
    path: str = Field(description="Of the file: absolute, or from the session's directory.")
    line: int | None = Field(None, ge=1, description="The first line that is wanted, 1 for all.")
    limit: int | None = Field(None, ge=1, description="How many lines are wanted.")


class _List(_Arguments):
    path: str = Field(".", description="Of the directory; left out: the session's own.")


class _Write(_Arguments):
    path: str = Field(description="Of the file: absolute, or from the session's directory.")
    content: str = Field(description="All that the file is to hold.")


class _Run(_Arguments):
    command: list[str] = Field(
        min_length=1,
        description="The program and its arguments, each a string. No shell reads them: for a pipe "
        'give ["sh", "-c", "..."].',
    )
    timeout: int = Field(
        COMMAND_SECONDS, ge=1, le=MOST_SECONDS, description="Seconds that it may take."
    )


class House:
    """The tools of one turn.

    Args:
        turn: through which they tell and ask.
        environ: of this process, from which that of a command is made.
        secrets: names of variables that no command is given: the keys of the agent's own model.
    """

    def __init__(
        self, turn: Turn, environ: Mapping[str, str], secrets: frozenset[str] = frozenset()
    ) -> None:
        self._turn = turn
        self._environ = environ
        self._hidden = secrets | (OURS - {MARK})
        self._threads = Threads(FILE_SECONDS)
        self._roots = Roots()

    @contextmanager
    def open(self) -> Iterator[dict[str, Tool]]:
        """Hold the session's directory open, and return the tools by name."""
        self._roots = Roots.of([self._turn.cwd])
        try:
            yield {tool.name: tool for tool in self._tools()}
        finally:
            self._roots.close()

    def _tools(self) -> Iterator[Tool]:
        yield _tool(
            "read_file", "Reads a text file below the session's directory.", _Read, self._read
        )
        yield _tool(
            "list_files", "Lists a directory below the session's directory.", _List, self._list
        )
        yield _tool(
            "write_file",
            "Writes a text file whole, new or over what is there; its directory must exist.",
            _Write,
            self._write,
        )
        yield _tool(
            "run_command",
            "Runs a program in the session's directory and returns what it writes.",
            _Run,
            self._run,
        )

    async def _read(self, wanted: _Read) -> str:
        place = self._place(wanted.path)
        seen = await self._in_thread(lambda: textfiles.look(self._roots, place))
        told = wanted.model_dump(exclude_none=True) | {"path": place.path}
        asked = self._asked(f"Read {seen.path}", "read", told, (seen.path, place.path))
        async with asked as call:
            text = await self._in_thread(lambda: textfiles.read(self._roots, place, seen))
            part = textlines.part(text, wanted.line, wanted.limit)
            call.content(f"{len(part)} characters")
            if len(part) <= MOST_TOLD:
                return part
            return f"{part[:MOST_TOLD]}\n[... cut here; ask for the rest by `line` and `limit` ...]"

    async def _list(self, wanted: _List) -> str:
        path = self._absolute(wanted.path)
        real = await self._in_thread(lambda: self._roots.folder(path))
        locations = (real, path)
        async with self._asked(f"List {real}", "read", {"path": path}, locations) as call:
            names = await self._in_thread(lambda: self._names(path))
            call.content(f"{len(names)} entries")
            more = [f"[... {len(names) - MOST_ENTRIES} more ...]"] * (len(names) > MOST_ENTRIES)
            return "\n".join([*names[:MOST_ENTRIES], *more]) or "(empty)"

    async def _write(self, wanted: _Write) -> str:
        place = self._place(wanted.path)
        seen = await self._in_thread(lambda: textfiles.look_to_write(self._roots, place))
        if len(seen.text or "") + len(wanted.content) > MOST_SHOWN:
            message = f"A change of {place.path} is too long to be shown, so nobody can allow it."
            raise BridgeError("message_too_large", message)
        verb = "Create" if seen.file is None else "Write"
        told = {"path": place.path, "content": wanted.content}
        locations = (seen.path, place.path)
        shown = diff_content(seen.path, seen.text, wanted.content)
        async with self._asked(f"{verb} {seen.path}", "edit", told, locations, shown):
            await self._in_thread(
                lambda: textfiles.write(
                    self._roots,
                    place,
                    seen,
                    wanted.content,
                    wanted=lambda: not self._turn.cancelled,
                )
            )
        return f"Wrote {len(wanted.content.encode())} bytes to {place.path}."

    async def _run(self, wanted: _Run) -> str:
        told = {"command": wanted.command, "cwd": self._turn.cwd, "timeout": wanted.timeout}
        async with self._asked(f"Run {' '.join(wanted.command)}", "execute", told) as call:
            environ = {n: v for n, v in self._environ.items() if n not in self._hidden}
            ran = await run_command(
                wanted.command,
                cwd=self._turn.cwd,
                env=command_environment(environ, {}, mark=self._environ.get(MARK, "")),
                seconds=wanted.timeout,
                most=MOST_TOLD,
            )
            late = f"It was ended after {wanted.timeout} s."
            ended = late if ran.code is None else f"Exit status {ran.code}."
            call.output({"exitCode": ran.code})
            call.content(f"{ended}\n{ran.output}")
            if ran.code != 0:
                call.fail()
            return f"{ended}\n{ran.output}"

    @asynccontextmanager
    async def _asked(
        self,
        title: str,
        kind: str,
        raw_input: Mapping[str, Any],
        locations: tuple[str, ...] = (),
        *content: Mapping[str, Any],
    ) -> AsyncIterator[ToolCall]:
        """Announce a call, have it allowed, and end it with the block.

        Raises:
            BridgeError: `permission_denied`.
        """
        places = tuple(dict.fromkeys(locations))
        call_of = self._turn.tool(
            title, kind=kind, raw_input=raw_input, locations=places, content=content
        )
        async with call_of as call:
            if not await call.ask():
                raise not_allowed(title)
            yield call

    def _absolute(self, path: str) -> str:
        return self._turn.absolute(path)

    def _place(self, path: str) -> Place:
        return self._roots.place(self._absolute(path))

    def _names(self, path: str) -> list[str]:
        fd = self._roots.open(self._roots.place(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with os.scandir(fd) as entries:
                return sorted(
                    f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                    for entry in entries
                )
        finally:
            os.close(fd)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def run() -> T:
            with self._roots.in_use():
                return work()

        try:
            return await self._threads.run(run)
        except TimeoutError:
            message = f"The file system did not answer in {FILE_SECONDS:g} s."
            raise BridgeError("file_failed", message) from None
        except OSError as error:
            raise BridgeError("file_failed", f"{error.strerror or error}.") from None


def not_allowed(what: str) -> BridgeError:
    """Return the error that a model is told when nobody has allowed its call."""
    message = f"Not allowed: {what}. Nothing was done; do without it, or say what it is for."
    return BridgeError("permission_denied", message)


A = TypeVar("A", bound=_Arguments)


def _tool(name: str, text: str, arguments: type[A], code: Callable[[A], Awaitable[str]]) -> Tool:
    async def run(_context: object, given: Mapping[str, Any]) -> str:
        return await code(_checked(arguments, given))

    # Not `reads`, which would have two questions at once for one person.
    return Tool(name, text, run, arguments.model_json_schema())


def _checked(arguments: type[A], given: Mapping[str, Any]) -> A:
    try:
        return arguments.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "arguments"
        raise BridgeError("invalid_params", f"{where}: {first['msg']}.") from None
