"""JSON-RPC and ACP without I/O: bytes in, messages out, bytes to send returned.

Nothing here knows a socket, a clock or async. `framing` cuts lines, `jsonrpc` is the symmetric peer
that works for both ends, `acp` and `toolcalls` hold the shapes that the bridge acts on.
"""
