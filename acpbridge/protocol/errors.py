"""Errors on the wire: ours as JSON-RPC error objects, and a peer's as exceptions.

Above is `jsonrpc`; below is the table of errors.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from acpbridge.errors import BridgeError

# A peer's reason beyond this many characters is left out of the message; `data` keeps all of it.
REASON_LIMIT: Final = 500

# For whoever waits for an answer that turns out to be broken: the fault is not theirs to mend.
BROKEN_ANSWER_HINT: Final = "The program that answered broke the protocol: update or report it."


def wire_error(error: BridgeError) -> dict[str, Any]:
    """Return the JSON-RPC error object of one of our errors."""
    data = {**error.data, "source": "acpbridge", "code": error.code, "hint": error.hint}
    return {"code": error.rpc_code, "message": error.message, "data": data}


def read_error(error: Mapping[str, Any], *, ours: bool = True) -> BridgeError:
    """Return a peer's error object as an exception.

    Args:
        error: `{code, message, data?}`, checked in form.
        ours: whether the peer is our own daemon, whose errors come back as they were raised.
    """
    code, message, data = error["code"], error["message"], error.get("data")
    if ours and isinstance(data, dict) and data.get("source") == "acpbridge":
        rest = {k: v for k, v in data.items() if k not in ("source", "code", "hint")}
        return BridgeError.from_json({**data, "message": message, "data": rest})
    kept = {"rpcCode": code} if data is None else {"rpcCode": code, "details": data}
    return BridgeError("turn_failed", _meaning(message, data), data=kept, rpc_code=code)


def _meaning(message: str, data: Any) -> str:
    """Return the message with the reason that agents hide in `data`, in whatever shape."""
    reason = data
    if isinstance(data, dict) and data.get("source") == "acpbridge":
        return message  # it says all that a person needs
    if isinstance(data, dict):
        words = (data.get(key) for key in ("details", "error", "message", "reason"))
        reason = next((word for word in words if isinstance(word, str)), data or None)
    if reason is None or reason in ("", message):
        return message
    text = reason if isinstance(reason, str) else json.dumps(reason, ensure_ascii=False)
    return f"{message}: {shorten(text, REASON_LIMIT)}"


def answer_problem(message: Mapping[str, Any]) -> str | None:
    """Return in what an answer breaks the protocol, None if in nothing."""
    error = message.get("error")
    if message.get("jsonrpc") != "2.0":
        return "jsonrpc is not 2.0"
    if error is None:
        return None if "result" in message else "it has neither a result nor an error"
    if message.get("result") is not None:
        return "it has a result and an error"
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        return "its error has no code"
    return None if isinstance(error.get("message"), str) else "its error has no message"


def broken_answer(message: str, code: str = "invalid_message", **data: Any) -> BridgeError:
    """Return the error for whoever waits for an answer that is broken."""
    hint = (
        BROKEN_ANSWER_HINT if code == "invalid_message" else None
    )  # a limit of ours can be raised
    return BridgeError(code, message, hint=hint, data=data)


def shorten(text: str, limit: int) -> str:
    """Return at most so many characters and dots: whole words, for nobody knows half a secret."""
    if len(text) <= limit:
        return text
    head = text[: limit + 1]
    return head[: max(map(head.rfind, " \t\n"), default=0) + 1].rstrip() + "..."
