"""Files that an agent has read or written by us: `fs/read_text_file` and `fs/write_text_file`.

Every call is a question of its own, whatever the agent was allowed before, and is decided where all
of them are: by rules, a person or the deadline. What was decided about is looked at again before
anything is done. Above is `acp`; below are the host, who decides, and `textfiles`, which does it.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.permission import Effect, PermissionAsk, Source, ToolKind, ToolSubject
from acpbridge.permissions import policy, textfiles
from acpbridge.permissions.confine import Place, Roots
from acpbridge.permissions.textfiles import Seen
from acpbridge.protocol import acp, textlines
from acpbridge.protocol.encoded import Encoded
from acpbridge.protocol.jsonrpc import Call
from acpbridge.runtimes.base import SessionHost, SessionSpec
from acpbridge.runtimes.content import diff_content
from acpbridge.runtimes.refusing import not_allowed
from acpbridge.runtimes.toolcall import OPTIONS
from acpbridge.transport.threads import Threads

READ: Final = "fs/read_text_file"
WRITE: Final = "fs/write_text_file"

# The old and the new text of one write together, in characters: a person cannot approve what cannot
# be shown (row 12).
SHOWN_AT_MOST: Final = 1024 * 1024

# A disk takes milliseconds; a file system over a network that is gone never answers. Seconds.
FILE_SECONDS: Final = 30.0

# Calls of one session that are at the disk at once; the rest waits.
AT_ONCE: Final = 2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Serving:
    """What the calls of one agent are served with.

    Attributes:
        host: of the session; it decides.
        roots: directories of the session.
        pid: of the agent, for the audit.
        session_id: the agent's own, None before it is known.
        wanted: asked when a call comes; what it returns tells later whether a cancel came since.
        drained: waits until the agent has read enough for a long answer.
        faults: points at which a test may fail or kill.
    """

    host: SessionHost
    roots: Roots
    pid: int
    session_id: Callable[[], str | None]
    wanted: Callable[[], Callable[[], bool]]
    drained: Callable[[], Awaitable[None]]
    faults: Faults = no_faults


@asynccontextmanager
async def session_roots(spec: SessionSpec) -> AsyncIterator[Roots]:
    """Open the directories that the user gave the session, if its agent may ask for files.

    Raises:
        BridgeError: `start_failed`: the file system does not answer.
    """
    definition = spec.definition
    if not (definition.client_fs_read or definition.client_fs_write):
        yield Roots()
        return
    paths = (spec.cwd, *spec.additional_directories)
    late: list[bool] = []

    def look() -> Roots:
        found = Roots.of(paths)
        if late:
            found.close()
        return found

    try:
        roots = await Threads(FILE_SECONDS, 1).run(look)
    except TimeoutError:
        late.append(True)
        message = f"The directories of the session cannot be opened in {FILE_SECONDS:g} s."
        raise BridgeError("start_failed", message) from None
    try:
        yield roots
    finally:
        roots.close()


class ClientFiles:
    """Serves the calls of one agent.

    Args:
        serving: with what.
    """

    def __init__(self, serving: Serving) -> None:
        self._with = serving
        self._threads = Threads(FILE_SECONDS, AT_ONCE)
        self._answering = anyio.Lock()

    async def read(self, call: Call) -> Encoded:
        """Serve `fs/read_text_file`.

        Raises:
            BridgeError: the answer.
        """
        params = acp.read(acp.ReadFileParams, call.params, READ)
        place = self._place(params.sessionId, params.path)
        roots, wanted = self._with.roots, self._with.wanted()
        seen = await self._in_time(wanted, lambda _: textfiles.look(roots, place))
        given = {"line": params.line, "limit": params.limit}
        raw_input = {"path": params.path, **{k: v for k, v in given.items() if v is not None}}
        subject = self._subject(call, place, seen, raw_input)
        await self._allowed(call, subject, wanted)

        def work(_: object) -> tuple[Encoded, Fact]:
            text = textfiles.read(roots, place, seen)
            part = textlines.part(text, params.line, params.limit)
            return Encoded.of_text("content", part), _done("file_read", place, seen, text)

        result, done = await self._in_time(wanted, work)
        self._with.host.emit(done)
        # Several long answers at once to one that does not read would end its session.
        async with self._answering:
            await self._with.drained()
        return result

    async def write(self, call: Call) -> dict[str, Any]:
        """Serve `fs/write_text_file`.

        Raises:
            BridgeError: the answer.
        """
        params = acp.read(acp.WriteFileParams, call.params, WRITE)
        place = self._place(params.sessionId, params.path)
        roots, wanted = self._with.roots, self._with.wanted()
        seen = await self._in_time(wanted, lambda _: textfiles.look_to_write(roots, place))
        raw_input = {"path": params.path, "content": params.content}
        subject = self._subject(call, place, seen, raw_input)
        await self._allowed(call, subject, wanted)

        def work(goes_on: Callable[[], bool]) -> Fact:
            faults = self._with.faults
            textfiles.write(roots, place, seen, params.content, wanted=goes_on, faults=faults)
            return _done("file_written", place, seen, params.content)

        self._with.host.emit(await self._in_time(wanted, work))
        return {}

    def _place(self, session_id: str, path: str) -> Place:
        if session_id != self._with.session_id():
            raise BridgeError("invalid_params", "The session of the request is not open here.")
        return self._with.roots.place(path)

    def _subject(
        self, call: Call, place: Place, seen: Seen, raw_input: dict[str, Any]
    ) -> ToolSubject:
        """Return what a question shows: where it really leads, and all that would be written."""
        writes = call.method == WRITE
        content = raw_input.get("content", "")
        if len(seen.text or "") + len(content) > SHOWN_AT_MOST:
            message = f"A change of {place.path} is too long to be shown, so nobody can allow it."
            hint = f"Write less: old and new text may have {SHOWN_AT_MOST} characters together."
            raise BridgeError("message_too_large", message, hint=hint)
        verb = "Read" if not writes else "Create" if seen.file is None else "Write"
        # Where its other names are nobody knows, nor what a rule would say of them.
        cautions = (f"the file has {seen.links} names",) if seen.links > 1 else ()
        note = f" ({cautions[0]})" if cautions else ""
        return ToolSubject(
            tool_call_id=f"{call.method}:{call.wire_id}",
            title=f"{verb} {seen.path}{note}",
            kind=ToolKind.EDIT if writes else ToolKind.READ,
            known_kind=True,
            raw_input=raw_input,
            locations=tuple(dict.fromkeys((seen.path, place.path))),
            content=(diff_content(seen.path, seen.text, content),) if writes else (),
            cautions=cautions,
            tool=call.method,
            source=Source.FILES,
        )

    async def _allowed(self, call: Call, subject: ToolSubject, wanted: Callable[[], bool]) -> None:
        """Return if it is allowed.

        Raises:
            BridgeError: `permission_denied`, or `request_cancelled` with the turn.
        """
        sha256 = hashlib.sha256(call.line).hexdigest()
        ask = PermissionAsk(
            subject, OPTIONS, call.wire_id, sha256, self._with.pid, outside_turn=call.outside_turn
        )
        decision = await self._with.host.ask(ask)
        valid = policy.still_valid(ask, decision) and wanted()
        if not (valid and decision.effect is Effect.ALLOW):
            raise not_allowed(subject.title, decision, cancelled=not wanted())

    async def _in_time(
        self, wanted: Callable[[], bool], work: Callable[[Callable[[], bool]], T]
    ) -> T:
        """Do something in a thread; one that hangs is given up, and then changes nothing more."""
        waiting = [True]

        def goes_on() -> bool:
            return bool(waiting) and wanted()

        def run() -> T:
            with self._with.roots.in_use():
                return work(goes_on)

        try:
            return await self._threads.run(run)
        except TimeoutError:
            message = f"The file system did not answer in {FILE_SECONDS:g} s; see what was done."
            raise BridgeError("file_failed", message) from None
        finally:
            waiting.clear()


def serve_files(serving: Serving, spec: SessionSpec) -> dict[str, Callable[[Call], Any]]:
    """Return what is served, by method: exactly what the definition switches on (row 39)."""
    files, definition = ClientFiles(serving), spec.definition
    reads = {READ: files.read} if definition.client_fs_read else {}
    writes = {WRITE: files.write} if definition.client_fs_write else {}
    return {**reads, **writes}


def _done(kind: str, place: Place, seen: Seen, text: str) -> Fact:
    data = text.encode()
    values = {"path": place.path, "resolved": seen.path, "bytes": len(data)}
    return Fact(kind, {**values, "sha256": hashlib.sha256(data).hexdigest()})
