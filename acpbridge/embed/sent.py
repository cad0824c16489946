"""What came of a message that a program has sent to a session."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acpbridge.errors import BridgeError


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was sent.

    Attributes:
        status: `ok`, `no_reply`, `accepted`, `queued`, `cancelled`, `timeout` or `error`.
        key: of the session that got it.
        run_id: of the run that it began; "" where it begins none.
        reply: what the session's agent said in the end; "" for anything but `ok`.
        error: why the run failed, None if it did not.
        value: the whole result, as `acpbridge send --json` prints it.
    """

    status: str
    key: str
    run_id: str
    reply: str
    error: BridgeError | None
    value: Mapping[str, Any]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Sent":
        """Read the result of a call."""
        status = value["status"]
        error = None
        if status in ("error", "timeout"):
            code = value.get("errorCode", "prompt_timeout")
            error = BridgeError.from_json({"code": code, "message": value["error"]})
        key, run_id = value["sessionKey"], value.get("runId", "")
        return cls(status, key, run_id, value.get("reply", ""), error, value)
