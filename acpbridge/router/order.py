"""A process that somebody wants without a turn to run: from the order to the open session."""

from dataclasses import dataclass, field

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey


@dataclass(eq=False, slots=True)
class RestartOrder:
    """What whoever restarts a session waits for.

    Attributes:
        fresh: begin anew if the agent cannot take up the earlier conversation.
        go: set once the old process is gone.
        done: set once the session is open again, or is not going to be.
        taken: whether the session's task has seen it.
        pid: of the new agent, which has answered `initialize`.
        context_lost: whether the agent could not take up its earlier session.
        error: why the session is not open.
    """

    fresh: bool = False
    go: anyio.Event = field(default_factory=anyio.Event)
    done: anyio.Event = field(default_factory=anyio.Event)
    taken: bool = False
    pid: int = 0
    context_lost: bool = False
    error: BridgeError | None = None

    def up(self, pid: int, *, context_lost: bool) -> None:
        """Tell that the session is open."""
        self.pid, self.context_lost = pid, context_lost
        self.done.set()

    def fail(self, error: BridgeError) -> None:
        """Tell why it is not, unless it was open already."""
        if not self.done.is_set():
            self.error = error
            self.done.set()


def turn_under_way(key: SessionKey) -> BridgeError:
    """Return why a session is not restarted that is at work."""
    hint = f"Cancel it first (acpbridge cancel {key}), or restart with --force."
    return BridgeError("busy", f"A turn of {key} is under way.", hint=hint)


def would_forget(key: SessionKey) -> BridgeError:
    """Return why a session is not restarted whose agent cannot take up its conversation."""
    message = f"The agent of {key} can take up no conversation in a new process."
    hint = f"Begin anew in it all the same: acpbridge restart {key} --fresh."
    return BridgeError("resume_not_found", message, hint=hint)
