"""How an agent's session is opened: a known one by resume, else by load, else a new one, said so.

A session that fails to open again and again is left alone: nothing starts an agent by itself, and
nobody can make it be started in a loop either (G11).
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact
from acpbridge.model.ports import Clock
from acpbridge.protocol import acp
from acpbridge.runtimes.base import Load, New, Resume, RuntimeSession, SessionHost

# A session that failed to open this often within so many seconds is left alone until `restart`.
OPENS_FAILED: Final = 3
OPENS_WINDOW: Final = 60.0


class Failures:
    """The failed opens of one session.

    Attributes:
        refusing: whether it is not to be opened any more.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: deque[float] = deque(maxlen=OPENS_FAILED)
        self.refusing = False

    def add(self) -> None:
        """Count one, now."""
        now = self._clock.monotonic()
        self._times.append(now)
        full = len(self._times) == OPENS_FAILED
        self.refusing = self.refusing or (full and now - self._times[0] < OPENS_WINDOW)

    def clear(self) -> None:
        """Forget them: it was opened."""
        self._times.clear()

    def forgive(self) -> None:
        """Let it be opened again: a human wants it to be."""
        self._times.clear()
        self.refusing = False

    def check(self) -> None:
        """Check that the session may be opened.

        Raises:
            BridgeError: `reopen_refused`.
        """
        if self.refusing:
            message = f"The session failed to open {OPENS_FAILED} times in {OPENS_WINDOW:g} s."
            raise BridgeError("reopen_refused", message)


def can_reopen(capabilities: Mapping[str, Any]) -> bool:
    """Tell whether an agent can take up an earlier session of its own."""
    return bool(_ways("", capabilities))


@dataclass(frozen=True, slots=True)
class Opened:
    """An agent's session that is open: its id, and whether an earlier context was lost for it."""

    session_id: str | None
    context_lost: bool = False


async def open_session(agent: RuntimeSession, host: SessionHost, known: str | None) -> Opened:
    """Open the agent's session.

    Args:
        agent: that is up.
        host: told by a notice when an earlier context is lost.
        known: the agent's id of the earlier session, None if there was none.

    Raises:
        BridgeError: why it cannot be opened.
    """
    if known is not None:
        why = "the agent can neither resume nor load a session"
        for how in _ways(known, agent.capabilities):
            try:
                return Opened(_session_id(await agent.open(how)) or known)
            except BridgeError as error:
                if error.code != "resume_not_found":
                    raise
                why = error.message
        message = f"previous context lost: {why}"
        host.emit(Fact("notice", {"kind": "context_lost", "was": known, "message": message}))
    return Opened(_session_id(await agent.open(New())), context_lost=known is not None)


def _ways(known: str, capabilities: Mapping[str, Any]) -> list[Resume | Load]:
    ways: list[Resume | Load] = []
    if acp.can(capabilities, "sessionCapabilities", "resume"):
        ways.append(Resume(known))
    if acp.can(capabilities, "loadSession"):
        ways.append(Load(known))
    return ways


def _session_id(result: Mapping[str, Any]) -> str | None:
    session_id = result.get("sessionId")
    return session_id if isinstance(session_id, str) else None
