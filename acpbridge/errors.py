"""The one table of errors: code, JSON-RPC code, exit code and what to do next.

Everything above raises `BridgeError` with a code from `TABLE`; faces translate it once, to a wire
error or to a message and an exit status. This floor knows nothing of processes, sockets or faces.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

# JSON-RPC 2.0, section 5.1, and the codes that ACP v1 adds.
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
RESOURCE_NOT_FOUND: Final = -32002
# Of our own, from the range that JSON-RPC leaves to servers: nothing is broken, there is no room.
BUSY: Final = -32003

# Exit codes of the command line.
EXIT_OK: Final = 0
EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2
EXIT_TIMEOUT: Final = 3
EXIT_NOT_FOUND: Final = 4
EXIT_DENIED: Final = 5
EXIT_AGENT: Final = 6
EXIT_LOGIN: Final = 7
EXIT_DAEMON: Final = 8
EXIT_INTERRUPTED: Final = 130


class ErrorKind(NamedTuple):
    """What one code means on every face.

    Attributes:
        rpc: the JSON-RPC code on a wire.
        exit: the exit status of a command that ends with this error.
        hint: what to do next, one sentence; may be replaced by a more exact one when raised.
    """

    rpc: int
    exit: int
    hint: str


TABLE: Final[Mapping[str, ErrorKind]] = {
    # The agent.
    "agent_not_found": ErrorKind(
        RESOURCE_NOT_FOUND, EXIT_AGENT, "Install the agent, or give its command in config.yaml."
    ),
    "agent_died": ErrorKind(
        INTERNAL_ERROR, EXIT_AGENT, "Go on with it: acpbridge run --session KEY; that reopens it."
    ),
    "start_failed": ErrorKind(
        INTERNAL_ERROR,
        EXIT_AGENT,
        "Mend what it says, and run again.",
    ),
    "start_timeout": ErrorKind(
        INTERNAL_ERROR,
        EXIT_AGENT,
        "Raise limits.startSeconds if the agent is only slow; else its command may not speak ACP.",
    ),
    "protocol_version": ErrorKind(
        INTERNAL_ERROR, EXIT_AGENT, "Install a version of the agent that speaks ACP version 1."
    ),
    "mode_not_set": ErrorKind(
        INTERNAL_ERROR, EXIT_AGENT, "Set `mode` in the agent's definition to one that it offers."
    ),
    "auth_required": ErrorKind(
        AUTH_REQUIRED, EXIT_LOGIN, "Log in with the agent's own command, or pass its API key."
    ),
    "resume_not_found": ErrorKind(
        RESOURCE_NOT_FOUND, EXIT_NOT_FOUND, "Start a new session: acpbridge run without --session."
    ),
    "turn_failed": ErrorKind(INTERNAL_ERROR, EXIT_FAILURE, "Read the agent's message, then retry."),
    "prompt_timeout": ErrorKind(
        INTERNAL_ERROR, EXIT_TIMEOUT, "Raise --timeout, or ask for less in one turn."
    ),
    "interrupted": ErrorKind(
        INTERNAL_ERROR, EXIT_FAILURE, "Look at what it did, then send the prompt again."
    ),
    "turn_stalled": ErrorKind(
        INTERNAL_ERROR,
        EXIT_FAILURE,
        "Send the prompt again, or raise limits.stallSeconds if the agent is only slow.",
    ),
    "over_limit": ErrorKind(
        INTERNAL_ERROR,
        EXIT_AGENT,
        "Raise the limit that it names, or ask for less; the next prompt reopens the session.",
    ),
    "unsupported_control": ErrorKind(
        METHOD_NOT_FOUND, EXIT_FAILURE, "Use a control that the agent advertises."
    ),
    "bypass_refused": ErrorKind(
        INVALID_PARAMS, EXIT_AGENT, "Set allow_bypass: true in the definition if this is wanted."
    ),
    # Sessions and questions.
    "no_such_session": ErrorKind(
        RESOURCE_NOT_FOUND, EXIT_NOT_FOUND, "List them: acpbridge sessions --all."
    ),
    "no_such_agent": ErrorKind(RESOURCE_NOT_FOUND, EXIT_NOT_FOUND, "List them: acpbridge agents."),
    "no_such_question": ErrorKind(
        RESOURCE_NOT_FOUND, EXIT_NOT_FOUND, "List what is open: acpbridge permissions."
    ),
    "no_such_delegation": ErrorKind(
        RESOURCE_NOT_FOUND, EXIT_NOT_FOUND, "List what is under way: acpbridge delegations."
    ),
    "no_such_grant": ErrorKind(
        RESOURCE_NOT_FOUND, EXIT_NOT_FOUND, "List what is in force: acpbridge permissions grants."
    ),
    "ambiguous_key": ErrorKind(
        INVALID_PARAMS, EXIT_NOT_FOUND, "Give more of the key, as acpbridge sessions prints it."
    ),
    "session_closed": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "A closed session is final: start a new one."
    ),
    "busy": ErrorKind(
        BUSY, EXIT_FAILURE, "Wait for a turn to end, or cancel it: acpbridge cancel KEY."
    ),
    "capacity": ErrorKind(BUSY, EXIT_FAILURE, "Close a session, or raise limits.maxProcesses."),
    "reopen_refused": ErrorKind(
        INTERNAL_ERROR,
        EXIT_AGENT,
        "Find out why it fails to open, then run: acpbridge restart KEY.",
    ),
    "subagent_policy": ErrorKind(
        INVALID_REQUEST,
        EXIT_FAILURE,
        "End a child, or raise limits.maxDepth or limits.maxChildrenPerSession.",
    ),
    "nothing_pending": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Go on, or end the turn: there is nothing to wait for."
    ),
    "team_disabled": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Ask without mode background, or give a team processor."
    ),
    # Spawning, besides the two above.
    "acp_disabled": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Set acp.enabled to true in config.yaml."
    ),
    "requester_session_required": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Leave streamTo out, or ask from inside a session."
    ),
    "runtime_policy": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Leave out what it names, or use another agent."
    ),
    "thread_required": ErrorKind(
        INVALID_PARAMS, EXIT_USAGE, 'Use mode "run", which needs no thread.'
    ),
    "target_agent_required": ErrorKind(
        INVALID_PARAMS, EXIT_USAGE, "Give agentId, or set acp.defaultAgent in config.yaml."
    ),
    "runtime_agent_mismatch": ErrorKind(
        INVALID_PARAMS, EXIT_USAGE, "Give the runtime that the agent has; agents_list tells it."
    ),
    "agent_forbidden": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Add the agent to acp.allowedAgents in config.yaml."
    ),
    "resume_forbidden": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Resume only what this session has begun; or start anew."
    ),
    "cwd_resolution_failed": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Give a directory that can be entered: cwd."
    ),
    "thread_binding_invalid": ErrorKind(INVALID_PARAMS, EXIT_USAGE, "Leave thread out."),
    "attachments_file_count_exceeded": ErrorKind(
        INVALID_PARAMS, EXIT_USAGE, "Mend the attached file that it names, or leave it out."
    ),
    "attachments_invalid_name": ErrorKind(
        INVALID_PARAMS, EXIT_USAGE, "Mend the attached file that it names, or leave it out."
    ),
    "attachments_duplicate_name": ErrorKind(
        INVALID_PARAMS, EXIT_USAGE, "Mend the attached file that it names, or leave it out."
    ),
    "attachments_invalid_base64_or_too_large": ErrorKind(
        INVALID_PARAMS, EXIT_USAGE, "Mend the attached file that it names, or leave it out."
    ),
    "attachments_file_bytes_exceeded": ErrorKind(
        INVALID_PARAMS, EXIT_USAGE, "Mend the attached file that it names, or leave it out."
    ),
    "attachments_total_bytes_exceeded": ErrorKind(
        INVALID_PARAMS, EXIT_USAGE, "Mend the attached file that it names, or leave it out."
    ),
    "attachments_unsupported_for_acp": ErrorKind(
        INVALID_PARAMS, EXIT_USAGE, "Mend the attached file that it names, or leave it out."
    ),
    "attachments_materialization_failed": ErrorKind(
        INTERNAL_ERROR, EXIT_FAILURE, "Free disk space, then spawn again."
    ),
    "spawn_failed": ErrorKind(INTERNAL_ERROR, EXIT_FAILURE, "Mend what it says, and spawn again."),
    "dispatch_failed": ErrorKind(
        INTERNAL_ERROR, EXIT_FAILURE, "Look at the session that it names, and spawn again."
    ),
    "send_loop": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Answer with what is known, instead of asking on."
    ),
    "not_paused": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Send it with mode followup: that begins a turn."
    ),
    "not_running": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Send it with mode followup: that begins a turn."
    ),
    "already_resolved": ErrorKind(
        INVALID_REQUEST, EXIT_NOT_FOUND, "Nothing to do: what it says of the question stands."
    ),
    "invalid_option": ErrorKind(
        INVALID_PARAMS, EXIT_USAGE, "Answer with --option and one of the ids that were offered."
    ),
    "confirmation_needed": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Name the option once more, if it is meant: --confirm ID."
    ),
    "permission_denied": ErrorKind(
        INVALID_REQUEST, EXIT_DENIED, "Run it as the operator, outside every supervised agent."
    ),
    # Files that an agent has read or written by us.
    "no_such_file": ErrorKind(
        RESOURCE_NOT_FOUND, EXIT_NOT_FOUND, "Name a file that exists, or write it first."
    ),
    "file_failed": ErrorKind(INTERNAL_ERROR, EXIT_FAILURE, "Look at the file that it names."),
    "no_such_terminal": ErrorKind(
        RESOURCE_NOT_FOUND,
        EXIT_NOT_FOUND,
        "Have one made by terminal/create; a released one is gone.",
    ),
    # Messages.
    "message_too_large": ErrorKind(
        INVALID_REQUEST, EXIT_FAILURE, "Send less, or raise limits.maxMessageBytes."
    ),
    "invalid_message": ErrorKind(INVALID_REQUEST, EXIT_FAILURE, "Send one JSON-RPC 2.0 message."),
    "method_not_found": ErrorKind(METHOD_NOT_FOUND, EXIT_FAILURE, "Use a method of this version."),
    "invalid_params": ErrorKind(INVALID_PARAMS, EXIT_USAGE, "Mend the named parameter."),
    "request_cancelled": ErrorKind(REQUEST_CANCELLED, EXIT_INTERRUPTED, "Nothing to do."),
    "connection_closed": ErrorKind(
        INTERNAL_ERROR, EXIT_DAEMON, "Run the command again; a fresh daemon is started."
    ),
    # Configuration and daemon.
    "config_error": ErrorKind(INVALID_PARAMS, EXIT_USAGE, "Mend the named line and run again."),
    "usage": ErrorKind(INVALID_PARAMS, EXIT_USAGE, "See --help."),
    "daemon_unreachable": ErrorKind(
        INTERNAL_ERROR,
        EXIT_DAEMON,
        "Start it: acpbridge daemon start; see: acpbridge daemon logs.",
    ),
    "daemon_frozen": ErrorKind(
        INTERNAL_ERROR, EXIT_DAEMON, "End it: acpbridge daemon stop --force."
    ),
    "daemon_version": ErrorKind(
        INTERNAL_ERROR, EXIT_DAEMON, "Start it afresh: acpbridge daemon restart."
    ),
    "daemon_running": ErrorKind(
        INTERNAL_ERROR, EXIT_FAILURE, "Use that one, or stop it: acpbridge daemon stop."
    ),
    "daemon_stopping": ErrorKind(INTERNAL_ERROR, EXIT_DAEMON, "Run the command again in a moment."),
    "not_our_socket": ErrorKind(
        INTERNAL_ERROR, EXIT_DAEMON, "Give a state directory of your own with --home."
    ),
    "state_directory": ErrorKind(
        INTERNAL_ERROR, EXIT_DAEMON, "Give a directory that you can write to: --home DIR."
    ),
    "store_full": ErrorKind(INTERNAL_ERROR, EXIT_FAILURE, "Free disk space, then run again."),
    "survivors": ErrorKind(
        INTERNAL_ERROR, EXIT_FAILURE, "Processes are left, with their pids in the receipt."
    ),
    "internal": ErrorKind(
        INTERNAL_ERROR,
        EXIT_FAILURE,
        "This is a fault of acpbridge; see: acpbridge daemon logs.",
    ),
}


class BridgeError(Exception):
    """An error with a code of `TABLE`, fit to be shown to a person and sent over a wire.

    Args:
        code: a key of `TABLE`.
        message: what happened, one or two sentences, without secrets.
        hint: what to do next, where the table's own is not exact enough.
        data: further fields, JSON values only (`stderr`, `exitCode`, `signal`, ...).
        rpc_code: the JSON-RPC code that a peer sent, where this error relays a peer's.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        data: Mapping[str, Any] | None = None,
        rpc_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.kind = TABLE[code]
        self.hint = self.kind.hint if hint is None else hint
        self.data: dict[str, Any] = dict(data or {})
        self.rpc_code = self.kind.rpc if rpc_code is None else rpc_code

    def __repr__(self) -> str:
        return f"BridgeError({self.code}: {self.message})"

    def to_json(self) -> dict[str, Any]:
        """Return `{code, message, hint, data}`, the shape in events, runs and `--json`."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "data": self.data}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "BridgeError":
        """Rebuild an error that `to_json` wrote; a code of a newer version reads as `internal`."""
        code = str(value.get("code"))
        data, hint = value.get("data"), value.get("hint")
        return cls(
            code if code in TABLE else "internal",
            str(value.get("message", code)),
            hint=hint if isinstance(hint, str) else None,
            data=data if isinstance(data, dict) else None,
        )
