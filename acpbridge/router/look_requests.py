"""The tools that look: sessions, their history and state, runs, families; and what is done below.

Values only. The handlers are those of `lookers`; the base class is in `toolcall`.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictBool, StrictInt

from acpbridge.errors import BridgeError
from acpbridge.router.toolcall import ToolRequest

CURRENT: Final = "current"

# A page of sessions, and of messages; more than the most is cut to it, and said so.
LIST_LIMIT: Final = 100
MOST_LISTED: Final = 200
HISTORY_LIMIT: Final = 50
MOST_MESSAGES: Final = 200

# One wait; whoever wants longer asks again. Seconds.
LONGEST_WAIT: Final = 60.0
WAIT: Final = 30.0

SessionKind = Literal["main", "group", "cron", "hook", "node", "other"]

Seconds = Annotated[float, Field(ge=0, le=LONGEST_WAIT, allow_inf_nan=False)]
Minutes = Annotated[float, Field(gt=0, le=60 * 24 * 365, allow_inf_nan=False)]
Number = Annotated[int, Field(ge=0)]


class SessionsRequest(ToolRequest):
    """Which sessions there are (`sessions_list`).

    Attributes:
        kinds: only of these kinds; empty for all.
        limit: rows of a page; more than `MOST_LISTED` is cut to it.
        offset: rows to pass over, as the page before told.
        active_minutes: only those used in so many minutes.
        active_only: only those that have a process or something to do.
        exclude_subagents: not those that were spawned.
        agent_id: only of this agent.
        label: only with exactly this label.
        search: only where key, agent, label or task name holds it, whatever the case.
        archived: True: only those that are closed; "all": those too.
        message_limit: so many of the newest messages with each row.
    """

    METHOD: ClassVar[str] = "tool/sessions"

    kinds: tuple[SessionKind, ...] = ()
    limit: Annotated[int, Field(ge=1)] = LIST_LIMIT
    offset: Number = 0
    active_minutes: Minutes | None = None
    active_only: bool = False
    exclude_subagents: bool = False
    agent_id: str = ""
    label: str = ""
    search: str = ""
    archived: StrictBool | Literal["all"] = False
    message_limit: Annotated[int, Field(ge=0, le=20)] = 0


class HistoryRequest(ToolRequest):
    """What was said in a session (`sessions_history`).

    Attributes:
        session_key: whose; `current` for the requester's own.
        limit: messages of a page; more than `MOST_MESSAGES` is cut to it.
        offset: only what was before the message of this number, as the page before told.
        message_id: only up to this message, with it.
        session_id: checked against the session's own, if given.
        include_tools: also what tools were called and what they gave.
        pending_before: only prompts that wait before the one of this run.
    """

    METHOD: ClassVar[str] = "tool/history"

    session_key: str = CURRENT
    limit: Annotated[int, Field(ge=1)] = HISTORY_LIMIT
    offset: Number = 0
    message_id: str = ""
    session_id: str = ""
    include_tools: bool = False
    pending_before: str = ""


class SessionRequest(ToolRequest):
    """How a session stands, and what changed (`session_status`).

    Attributes:
        session_key: which; `current` for the requester's own.
        model: the session goes on with this model; `default` clears what was chosen.
        changes_since: the `stateVersion` of an earlier look; what changed since is told.
    """

    METHOD: ClassVar[str] = "tool/session"

    session_key: str = CURRENT
    model: str = Field("", max_length=200)
    changes_since: Number | None = None


class YieldRequest(ToolRequest):
    """The requester pauses until something comes (`sessions_yield`).

    Attributes:
        wait_for: what for; `message` is all that there is.
        message: why, for people who look.
        acknowledgment: ids of completions that were taken in, for a client that pulls them.
    """

    METHOD: ClassVar[str] = "tool/yield"
    WAITS: ClassVar[bool] = True

    wait_for: Literal["message"] = "message"
    message: str = Field("", max_length=2000)
    acknowledgment: str | tuple[str, ...] = ()


Action = Literal["list", "info", "log", "kill", "send", "steer", "wait", "cancel"]

# What each action of `subagents` takes beside its name: anything else is refused, not ignored.
TAKES: Final[Mapping[str, frozenset[str]]] = {
    "list": frozenset({"recent_minutes"}),
    "info": frozenset({"target"}),
    "log": frozenset({"target", "limit", "include_tools"}),
    "kill": frozenset({"target", "cascade"}),
    "send": frozenset({"target", "message", "timeout_seconds"}),
    "steer": frozenset({"target", "message"}),
    "wait": frozenset({"task_ids", "timeout_seconds"}),
    "cancel": frozenset({"task_id"}),
}
NEEDS: Final[Mapping[str, frozenset[str]]] = {
    "info": frozenset({"target"}),
    "log": frozenset({"target"}),
    "kill": frozenset({"target"}),
    "send": frozenset({"target", "message"}),
    "steer": frozenset({"target", "message"}),
    "wait": frozenset({"task_ids"}),
    "cancel": frozenset({"task_id"}),
}


class SubagentsRequest(ToolRequest):
    """What the requester started, and what is to be done with it (`subagents`).

    Attributes:
        action: what is wanted.
        target: a run id, a key, the number in the list, a task name or its beginning, or `last`;
            for `kill` also `all`.
        recent_minutes: how long ago a run may have ended to be listed.
        limit: messages of `log`.
        include_tools: also what tools were called.
        cascade: whether what lies below is ended too.
        message: for `send` and `steer`.
        timeout_seconds: how long to wait.
        task_ids: runs to wait for.
        task_id: the run to cancel.
    """

    METHOD: ClassVar[str] = "tool/subagents"

    action: Action = "list"
    target: StrictInt | str = ""
    recent_minutes: Minutes = 30.0
    limit: Annotated[int, Field(ge=1, le=MOST_MESSAGES)] = 20
    include_tools: bool = False
    cascade: bool = True
    message: str = ""
    timeout_seconds: Seconds = WAIT
    task_ids: Annotated[tuple[str, ...], Field(max_length=32)] = ()
    task_id: str = ""

    def check(self) -> None:
        """Check that what is given belongs to the action, and that nothing is missing.

        Raises:
            BridgeError: `invalid_params`, naming the parameter.
        """
        given = self.model_fields_set - {"action"}
        fields = type(self).model_fields
        for name in sorted(given - TAKES[self.action]):
            takes = ", ".join(sorted(str(fields[one].alias) for one in TAKES[self.action]))
            message = f"{fields[name].alias} is not for action {self.action!r}; it takes {takes}."
            raise BridgeError("invalid_params", message)
        for name in sorted(NEEDS.get(self.action, frozenset())):
            value = getattr(self, name)
            if value in ("", ()) or (isinstance(value, str) and not value.strip()):
                message = f"action {self.action!r} needs {fields[name].alias}."
                raise BridgeError("invalid_params", message)


class TreeRequest(ToolRequest):
    """Families of sessions, for people (`acpbridge tree`).

    Attributes:
        key: of a session, or a part of one: only what lies below it; "" for all.
        all: also families of which nothing is active any more.
    """

    METHOD: ClassVar[str] = "tool/tree"

    key: str = ""
    all: bool = False


class RunsRequest(ToolRequest):
    """Runs with how they ended, for people (`acpbridge runs`).

    Attributes:
        key: of a session, or a part of one: only its runs and those below it; "" for all.
        all: also those that ended longer ago.
        newest: so many at most, the ones accepted last.
    """

    METHOD: ClassVar[str] = "tool/runs"

    key: str = ""
    all: bool = False
    newest: Annotated[int, Field(ge=1, le=1000)] = 100
