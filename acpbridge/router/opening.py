"""How an agent's session is opened: a known one by resume, else by load; else it is refused.

A conversation that is lost is never followed by a new one in silence: only who says so goes on
without it, and is told again.

A session that fails to open again and again is left alone: nothing starts an agent by itself, and
nobody can make it be started in a loop either (G11).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact
from acpbridge.model.ports import Clock
from acpbridge.protocol import acp
from acpbridge.runtimes.base import Load, New, Resume, RuntimeSession, SessionHost

# A session that failed to open this often within so many seconds is left alone until `restart`.
OPENS_FAILED: Final = 3
OPENS_WINDOW: Final = 60.0

# The agent reads its clock a little after we read ours, and it may be another one. Seconds.
AFTER_THE_MINUTE: Final = 0.5

FRESH_HINT: Final = (
    "To go on in this session without it, add --fresh to acpbridge run or acpbridge restart; "
    "or start a new session."
)

# The agent is well, and so is the session: a later prompt may ask for something else, or find room.
REFUSED: Final = frozenset({"resume_not_found", "unsupported_control", "capacity"})


class Failures:
    """The failed opens of one session.

    Attributes:
        refusing: whether it is not to be opened any more.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: list[float] = []  # the latest
        self.refusing = False

    def add(self) -> None:
        """Count one, now."""
        now = self._clock.monotonic()
        self._times = [*self._times, now][-OPENS_FAILED:]
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
    """How an agent's session was opened.

    Attributes:
        session_id: the agent's own; None if it told none.
        new: whether nothing was said in it yet.
        lost: the agent's id of the conversation that it begins anew without.
    """

    session_id: str | None
    new: bool
    lost: str | None = None


async def open_session(
    agent: RuntimeSession, host: SessionHost, known: str | None, *, fresh: bool, pause: float = 0.0
) -> Opened:
    """Open the agent's session: the known one, or a new one where there is none.

    Args:
        agent: that is up.
        host: told by a notice of a wait, and when an earlier context is lost.
        known: the agent's id of the earlier session, None if there was none.
        fresh: begin anew if the known one cannot be taken up.
        pause: seconds to wait before a load.

    Raises:
        BridgeError: why it cannot be opened; `resume_not_found` where only `fresh` would help.
    """
    if known is None:
        return Opened(_session_id(await agent.open(New())), new=True)
    why = "the agent can neither resume nor load a session"
    for how in _ways(known, agent.capabilities):
        if isinstance(how, Load):
            await _wait(host, pause)
        try:
            return Opened(_session_id(await agent.open(how)) or known, new=False)
        except BridgeError as error:
            if error.code != "resume_not_found":
                raise
            why = error.message.rstrip(".")
    return await begin_anew(agent, host, known, why, fresh=fresh)


async def begin_anew(
    agent: RuntimeSession, host: SessionHost, known: str | None, why: str, *, fresh: bool
) -> Opened:
    """Open a new session in place of one that cannot be taken up, where that is wanted.

    Raises:
        BridgeError: `resume_not_found`, or why it cannot be opened.
    """
    if not fresh:
        message = f"The earlier conversation ({known}) cannot be taken up: {why}."
        raise BridgeError("resume_not_found", message, hint=FRESH_HINT, data={"was": known})
    message = f"previous context lost: {why}"
    host.emit(Fact("notice", {"kind": "context_lost", "was": known, "message": message}))
    return Opened(_session_id(await agent.open(New())), new=True, lost=known)


async def _wait(host: SessionHost, pause: float) -> None:
    if pause > 0:
        message = (
            f"waiting {pause:.0f} s: this agent would destroy a conversation that it loads "
            "within the minute in which it was last opened"
        )
        host.emit(Fact("notice", {"kind": "waiting", "message": message}))
        await anyio.sleep(pause)


def reload_pause(rule: str, opened_at: str, now: datetime) -> float:
    """Return the seconds until a session may be loaded again. Pure.

    Args:
        rule: `AgentFacts.reload_wait`.
        opened_at: when it was last opened, ISO 8601; "" if nobody knows: it may have been now.
        now: the wall-clock time.
    """
    if rule != "minute":
        return 0.0
    opened = datetime.fromisoformat(opened_at) if opened_at else now
    minute = now.replace(second=0, microsecond=0)
    if opened < minute:
        return 0.0
    # The clock may have been put back since: no wait is longer than a minute.
    return 60.0 - (now - minute).total_seconds() + AFTER_THE_MINUTE


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
