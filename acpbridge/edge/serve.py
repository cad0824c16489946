"""Serves any runtime as an ordinary ACP agent on a pair of byte streams.

It is handed its runtime and knows the seam only. Permissions are the client's to give, over the
same connection. The end of the client's direction cancels everything and ends the service.
"""

import os
import uuid
from collections.abc import Mapping
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from acpbridge import __version__
from acpbridge.edge.sessions import ClientHost, Job, ServedSession
from acpbridge.edge.stdio import Stdio, claim_stdio
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import AgentId, AgentPath, SessionKey
from acpbridge.model.sessions import Lineage
from acpbridge.protocol.jsonrpc import Call, Notification, Peer
from acpbridge.runtimes.base import Runtime, SessionSpec
from acpbridge.transport.connection import Connection
from acpbridge.transport.memory import ByteReceive, ByteSend
from acpbridge.transport.tasks import background

PROTOCOL_VERSION: Final = 1

# What was said before the client closed its direction still goes out, if it is read. Seconds.
LAST_WORDS: Final = 1.0

# An agent's code may say so much without waiting, in its own process's memory. Bytes.
SAID_AT_ONCE: Final = 256 * 1024 * 1024

# Who is served where nothing more is said of the agent.
ANYBODY: Final = AgentDefinition(id=AgentId("agent"), kind=RuntimeKind.PYTHON)


async def serve_stdio(
    runtime: Runtime, stdio: Stdio | None = None, *, definition: AgentDefinition = ANYBODY
) -> None:
    """Serve a runtime on standard input and output until the input ends.

    Args:
        runtime: what runs the agent.
        stdio: from `claim_stdio`, called before the agent's code was imported; None: claimed now.
        definition: of the agent; its id is the name that the client is told.
    """
    streams = claim_stdio() if stdio is None else stdio
    try:
        await serve_streams(streams.receive, streams.send, runtime, definition=definition)
    finally:
        with anyio.CancelScope(shield=True):
            await streams.send.aclose()


async def serve_streams(
    receive: ByteReceive,
    send: ByteSend,
    runtime: Runtime,
    *,
    definition: AgentDefinition = ANYBODY,
) -> None:
    """Serve a runtime on two byte streams until the client's direction ends."""
    async with background() as tasks:
        face = _Face(runtime, definition, tasks)
        peer = Peer(silent_on_noise=False)
        connection = Connection(
            receive, send, face, peer=peer, arrived=face.arrived, send_limit=SAID_AT_ONCE
        )
        face.connection = connection
        async with connection:
            await connection.closed.wait()
            face.end()
            with anyio.move_on_after(LAST_WORDS, shield=True):
                await connection.flushed()


class _Face:
    """The agent's side of one connection: a `Handler`."""

    connection: Connection

    def __init__(self, runtime: Runtime, definition: AgentDefinition, tasks: TaskGroup) -> None:
        self._runtime = runtime
        self._definition = definition
        self._tasks = tasks
        self._initialized = False
        self._sessions: dict[str, ServedSession] = {}
        self._jobs: dict[Call, Job] = {}
        self._methods = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/set_mode": self._set_mode,
            "session/close": self._close,
        }

    def end(self) -> None:
        """End every session at once."""
        for session in self._sessions.values():
            session.end()

    async def room(self) -> None:
        """Read on at once: a cancel must come through even where the client is slow to read."""

    def on_notification(self, notification: Notification) -> None:
        """Cancel a session's prompts; anything else is not for us."""
        params = notification.params
        if notification.method == "session/cancel" and isinstance(params, dict):
            session = self._sessions.get(str(params.get("sessionId")))
            if session is not None:
                session.cancel()

    def arrived(self, call: Call) -> None:
        """Queue a prompt in the order of the wire, so that a cancel right behind it finds it."""
        if call.method != "session/prompt":
            return
        self._jobs = {call: job for call, job in self._jobs.items() if call.open}
        job = self._jobs[call] = Job(call)
        try:
            session, params = self._find(call.params)
            job.content = _content(params)
            session.add(job)
        except BridgeError as error:
            job.fail(error)

    async def on_call(self, call: Call) -> Any:
        """Serve a request of the client.

        Raises:
            BridgeError: the answer.
        """
        if call.method != "initialize" and not self._initialized:
            raise BridgeError("invalid_message", "Not initialized: send initialize first.")
        if call.method == "session/prompt":
            return await self._prompt(call)
        method = self._methods.get(call.method)
        if method is None:
            raise BridgeError("method_not_found", f"This agent does not serve {call.method}.")
        return await method(_object(call.params))

    # Methods.

    async def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if type(params.get("protocolVersion")) is not int:
            raise BridgeError("invalid_params", "protocolVersion is not an integer.")
        self._initialized = True
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": False,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": False, "sse": False},
                "sessionCapabilities": {"close": {}},
            },
            "agentInfo": {
                "name": str(self._definition.id),
                "title": self._definition.name or str(self._definition.id),
                "version": __version__,
            },
            "authMethods": [],
        }

    async def _authenticate(self, params: Mapping[str, Any]) -> dict[str, Any]:
        method = params.get("methodId")
        raise BridgeError("invalid_params", f"There is no authentication method {method!r}.")

    async def _new(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        definition, cwd = self._definition, params.get("cwd")
        if not isinstance(cwd, str) or not os.path.isabs(cwd):  # noqa: PTH117 - text, not a file
            raise BridgeError("invalid_params", "cwd is not an absolute path.")
        servers = params.get("mcpServers", [])
        if not isinstance(servers, list) or not all(isinstance(item, dict) for item in servers):
            raise BridgeError("invalid_params", "mcpServers is not a list of objects.")
        spec = SessionSpec(
            definition=definition,
            revision="",
            key=SessionKey.subagent(definition.id, uuid.uuid4()),
            path=AgentPath(definition.id),
            lineage=Lineage(),
            cwd=cwd,
            mcp_servers=tuple(servers),
            env=dict(os.environ),
        )
        session = ServedSession(self._runtime, spec, ClientHost(self.connection))
        result: Mapping[str, Any] = await self._tasks.start(session.run, name=str(spec.key))
        self._sessions[result["sessionId"]] = session
        return result

    async def _prompt(self, call: Call) -> Mapping[str, Any]:
        try:
            return await self._jobs[call].result()
        finally:
            self._jobs.pop(call, None)

    async def _set_mode(self, params: Mapping[str, Any]) -> dict[str, Any]:
        session, _ = self._find(params)
        mode = params.get("modeId")
        if not isinstance(mode, str):
            raise BridgeError("invalid_params", "modeId is not a string.")
        try:
            await session.session.set_mode(mode)
        except BridgeError as error:
            if error.code == "mode_not_set":
                raise BridgeError("invalid_params", error.message) from None
            raise
        return {}

    async def _close(self, params: Mapping[str, Any]) -> dict[str, Any]:
        session, _ = self._find(params)
        del self._sessions[params["sessionId"]]
        await session.close()
        return {}

    def _find(self, params: Any) -> tuple[ServedSession, Mapping[str, Any]]:
        read = _object(params)
        name = read.get("sessionId")
        if not isinstance(name, str):
            raise BridgeError("invalid_params", "sessionId is not a string.")
        session = self._sessions.get(name)
        if session is None:
            raise BridgeError("no_such_session", f"There is no session {name[:100]!r}.")
        return session, read


def _object(params: Any) -> Mapping[str, Any]:
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise BridgeError("invalid_params", "The parameters are not an object.")
    return params


def _content(params: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    blocks = params.get("prompt")
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise BridgeError("invalid_params", "prompt is not a list of content blocks.")
    return tuple(blocks)
