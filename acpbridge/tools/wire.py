"""MCP's messages on a pair of byte streams: a line each, bounded, and nothing else ever.

The package's own transport reads in a thread, which holds up the end of the process, and takes a
line of any length. Above is `mcp`; below are the streams that were standard input and output.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from acpbridge.protocol.framing import LineSplitter, TooLong
from acpbridge.transport.memory import ByteReceive, ByteSend
from acpbridge.transport.tasks import background

# A spawn with all the attachments that there may be, in base64; the daemon has bounds of its own.
# Bytes.
LINE_LIMIT: Final = 16 * 1024 * 1024

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


@asynccontextmanager
async def messages(receive: ByteReceive, send: ByteSend) -> AsyncIterator[Streams]:
    """Yield streams of messages, read and written beside the body.

    What is no message, or too long for one, comes as an exception. The end of either direction is
    the end of both: nobody is left to speak to.
    """
    inward, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, outward = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        splitter = LineSplitter(LINE_LIMIT)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            try:
                while True:
                    for line in splitter.feed(await receive.receive()):
                        await inward.send(_message(line))
            except (anyio.EndOfStream, OSError):
                for line in splitter.finish():
                    await inward.send(_message(line))
        await inward.aclose()

    async def write() -> None:
        async for message in outward:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await send.send(text.encode() + b"\n")
            except (anyio.BrokenResourceError, OSError):
                await inward.aclose()
                return

    async with inward, incoming, outgoing, outward, background(read, write):
        yield incoming, outgoing


def _message(line: bytes | TooLong) -> Incoming:
    if isinstance(line, TooLong):
        return ValueError(f"a line is longer than {line.limit} bytes")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except (ValidationError, ValueError) as error:
        return error
