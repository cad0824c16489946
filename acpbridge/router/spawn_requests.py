"""What a spawn may ask (`sessions_spawn`): its parameters, each checked or refused by name.

Pure. Above is `spawn`, which serves it; whatever a caller says here of parents, depth or roles is
an unknown parameter: who asks is found by the daemon.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, StrictBool, StrictInt, StrictStr

from acpbridge.errors import BridgeError
from acpbridge.router.toolcall import ToolRequest

# A day: the longest that an external agent may be let to work on one task. Seconds.
LONGEST_RUN: Final = 86400

# Of a label, in characters: it is a title.
LABEL_LIMIT: Final = 512

_TASK_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_RESERVED: Final = frozenset({"all", "last"})

# Where a completion goes is not the caller's to say: it goes to the caller.
_OF_CHANNELS: Final = frozenset(
    {"target", "transport", "channel", "to", "threadId", "thread_id", "replyTo", "reply_to"}
)
_OLD_TIMEOUTS: Final = frozenset({"timeoutSeconds", "timeout_seconds"})


class Attachment(ToolRequest):
    """One file that is given to a child."""

    METHOD: ClassVar[str] = "attachment"

    name: StrictStr
    content: StrictStr = Field(repr=False)
    encoding: Literal["utf8", "base64"] = "utf8"
    mime_type: StrictStr = ""


class AttachAs(ToolRequest):
    """Where a child would like to find its attachments; a hint."""

    METHOD: ClassVar[str] = "attachAs"

    mount_path: StrictStr = ""


class SpawnRequest(ToolRequest):
    """A child that somebody wants started; the receipt does not wait for it.

    Attributes:
        task: what it is to do.
        task_name: a handle for it, unique prefixes of which will do later.
        label: a short title, for people.
        runtime: `subagent` for a Python agent, `acp` for an external one; None: as the agent is
            that is named, else `subagent`.
        agent_id: of the agent; "" for the requester's own, or for `acp.defaultAgent`.
        model: by id or name; "" for the agent's own.
        thinking: how much it thinks; "" for the agent's own.
        run_timeout_seconds: how long its turn may take; 0: as long as it likes; None: as
            `limits.runTimeoutSeconds` says.
        cwd: absolute directory; "" for the agent's workspace, else the requester's.
        thread: whether to bind it to a thread of a channel.
        mode: `run` for one task, `session` to be spoken to again.
        cleanup: `delete` to archive it once its end is announced.
        expects_completion_message: whether the requester is told of its end.
        completion_target: `parent` for a private turn of the requester.
        sandbox: `require` for nothing outside a sandbox.
        context: `fork` to hand on the requester's conversation.
        light_context: whether to leave out what a child can do without.
        attachments: files for it.
        attach_as: where it would like to find them.
        resume_session_id: the agent's own id of a conversation to go on with.
        stream_to: `parent` to be told of progress.
        caller_cwd: directory of who calls; said by the face, and never by a model.
        env: environment of who calls, likewise.
        idempotency_key: a second request with the same one is the same spawn; likewise.
    """

    METHOD: ClassVar[str] = "tool/spawn"

    task: StrictStr
    task_name: StrictStr = ""
    label: Annotated[StrictStr, Field(max_length=LABEL_LIMIT)] = ""
    runtime: Literal["subagent", "acp"] | None = None
    agent_id: StrictStr = ""
    model: Annotated[StrictStr, Field(max_length=200)] = ""
    thinking: StrictStr = ""
    run_timeout_seconds: Annotated[StrictInt, Field(ge=0)] | None = None
    cwd: StrictStr = ""
    thread: StrictBool = False
    mode: Literal["run", "session"] | None = None
    cleanup: Literal["keep", "delete"] = "keep"
    expects_completion_message: StrictBool = True
    completion_target: Literal["parent"] | None = None
    sandbox: Literal["inherit", "require"] = "inherit"
    context: Literal["isolated", "fork"] | None = None
    light_context: StrictBool = False
    attachments: Annotated[tuple[Attachment, ...], Field(repr=False)] = ()
    attach_as: AttachAs | None = None
    resume_session_id: StrictStr = ""
    stream_to: Literal["parent"] | None = None
    caller_cwd: StrictStr = ""
    env: Annotated[dict[StrictStr, StrictStr], Field(repr=False)] = Field(default_factory=dict)
    idempotency_key: StrictStr = ""

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> Self:
        """Return the request that the params of a call hold.

        Raises:
            BridgeError: `invalid_params`, saying what to write instead where that is known.
        """
        for name in params:
            _check_name(name)
        request = super().read(params)
        if not request.task.strip():
            raise BridgeError("invalid_params", "task: say what is to be done; it is blank.")
        _check_task_name(request.task_name)
        return request


def _check_name(name: str) -> None:
    if name in _OF_CHANNELS:
        message = f"sessions_spawn does not support {name}; remove channel-delivery parameters."
        raise BridgeError("invalid_params", message)
    if name in _OLD_TIMEOUTS:
        raise BridgeError("invalid_params", f"{name}: Use runTimeoutSeconds.")


def _check_task_name(name: str) -> None:
    if name in _RESERVED:
        raise BridgeError("invalid_params", f"taskName: {name!r} means something else already.")
    if name and not _TASK_NAME.fullmatch(name):
        message = (
            f"taskName: {name!r} must be a lower-case letter and then letters, digits, _ and -, "
            "64 at most."
        )
        raise BridgeError("invalid_params", message)
