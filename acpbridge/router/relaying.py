"""Shows a session, while it goes on, how a run is getting on that it had given away.

Notices in its log, few and short: a person who looks at the parent sees that the child lives. That
the run ended is told by its completion, whatever happens here. Above is the router; below are the
two sessions' logs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio
import structlog
from anyio.abc import TaskGroup

from acpbridge.config.environment import is_proxy
from acpbridge.errors import BridgeError
from acpbridge.model.display import escape
from acpbridge.model.events import TURN_ENDS, Fact
from acpbridge.model.keys import SessionKey
from acpbridge.router.api import RunReceipt
from acpbridge.router.directory import Directory
from acpbridge.router.services import Services
from acpbridge.transport.tasks import background

log = structlog.get_logger(__name__)

# What was said is told so often; of more the end is shown. Seconds, characters.
FLUSH: Final = 2.5
SNIPPET: Final = 220
BUFFER: Final = 4000

# Nothing for so long is told once, and looked for so often. Seconds.
QUIET: Final = 60.0
LOOK: Final = 15.0

# A run that takes longer is no longer followed. Seconds.
LIFE: Final = 6 * 3600.0


@dataclass(slots=True)
class _Progress:
    """What is known of one run.

    Attributes:
        said: and not told yet; its end.
        last: monotonic seconds of the last event.
        events: of the agent, so far.
        spoke: whether any of them can be seen.
        stalled: whether its silence was told.
        end: its last event.
    """

    last: float
    said: str = ""
    events: int = 0
    spoke: bool = False
    stalled: bool = False
    end: Mapping[str, Any] | None = None


class Relaying:
    """Follows runs for the sessions that had asked for them.

    Args:
        directory: the sessions that there are.
        services: logs and clock.
        tasks: a task for each run that is followed.
    """

    def __init__(self, directory: Directory, services: Services, tasks: TaskGroup) -> None:
        self._directory = directory
        self._services = services
        self._tasks = tasks

    def start(self, receipt: RunReceipt, parent: SessionKey) -> None:
        """Begin to show a session how a run is getting on.

        Args:
            receipt: of the run, as it was accepted.
            parent: who is shown it.
        """
        self._tasks.start_soon(self._relay, receipt, parent, name=f"relay {receipt.run_id}")

    async def _relay(self, receipt: RunReceipt, parent: SessionKey) -> None:
        progress = _Progress(self._services.clock.monotonic())
        try:
            self._tell(receipt, parent, "start", f"{receipt.key} has begun")
            async with background(lambda: self._tick(receipt, parent, progress)):
                await self._read(receipt, progress)
            self._flush(receipt, parent, progress)
            self._tell_end(receipt, parent, progress)
        except (BridgeError, anyio.ClosedResourceError) as error:
            # Its end is told by other means.
            log.warning("a run is not followed any more", run=receipt.run_id, why=str(error))
        except Exception:
            # The top of a task.
            log.exception("a run is not followed any more", run=receipt.run_id)

    async def _read(self, receipt: RunReceipt, progress: _Progress) -> None:
        """Take in what happens, from the redacted copy, until the run is over."""
        log, clock = self._services.log, self._services.clock
        began = clock.monotonic()
        async with log.follow(receipt.key, receipt.after, stored=True) as follower:
            while clock.monotonic() - began < LIFE:
                for line in await follower.read():
                    event = json.loads(line)
                    if event.get("turn") != receipt.run_id:
                        continue
                    progress.last = clock.monotonic()
                    if event["type"] in TURN_ENDS:
                        progress.end = event
                        return
                    if event["type"] == "update":
                        _take(progress, event.get("update"))

    async def _tick(self, receipt: RunReceipt, parent: SessionKey, progress: _Progress) -> None:
        since_look = 0.0
        while True:
            await self._services.sleep(FLUSH)
            since_look += FLUSH
            if progress.stalled and self._quiet(progress) < QUIET:
                progress.stalled = False
                self._tell(receipt, parent, "resumed", f"{receipt.key} goes on")
            self._flush(receipt, parent, progress)
            if since_look >= LOOK:
                since_look = 0.0
                self._look(receipt, parent, progress)

    def _quiet(self, progress: _Progress) -> float:
        return self._services.clock.monotonic() - progress.last

    def _flush(self, receipt: RunReceipt, parent: SessionKey, progress: _Progress) -> None:
        said = " ".join(progress.said.split())
        progress.said = ""
        if said:
            self._tell(receipt, parent, "progress", escape(said[-SNIPPET:]))

    def _look(self, receipt: RunReceipt, parent: SessionKey, progress: _Progress) -> None:
        """Tell of a silence once, and of what kind it is."""
        quiet = self._quiet(progress)
        if quiet < QUIET or progress.stalled:
            return
        progress.stalled = True
        session = self._directory.get(receipt.key)
        if session is None or session.prompted_ticks is None:
            kind = "no prompt was submitted yet"
        elif not progress.events:
            names = sorted(name for name in session.env if is_proxy(name))
            proxies = f"; it was given the proxies {', '.join(names)}" if names else ""
            kind = f"it was prompted, and nothing has come from its agent{proxies}"
        elif not progress.spoke:
            kind = "its agent works, and nothing of it can be seen yet"
        else:
            kind = "it is silent after what it said"
        self._tell(receipt, parent, "stall", f"{receipt.key}: nothing for {quiet:.0f} s: {kind}")

    def _tell_end(self, receipt: RunReceipt, parent: SessionKey, progress: _Progress) -> None:
        end = progress.end
        if end is None:
            return
        if end["type"] == "turn_ended":
            self._tell(receipt, parent, "done", f"{receipt.key}: {end.get('stopReason')}")
            return
        error = end.get("error") or {}
        word = "timeout" if error.get("code") == "prompt_timeout" else "error"
        self._tell(receipt, parent, word, f"{receipt.key}: {escape(str(error.get('message')))}")

    def _tell(self, receipt: RunReceipt, parent: SessionKey, word: str, message: str) -> None:
        session = self._directory.get(parent)
        if session is None or session.closed or not self._services.log.knows(parent):
            return
        values = {
            "kind": "relay",
            "contextKey": f"acp-spawn:{receipt.run_id}:{word}",
            "message": message,
        }
        turn = None if session.turn is None else session.turn.run_id
        self._services.log.append(parent, turn, Fact("notice", values))


def _take(progress: _Progress, update: Any) -> None:
    progress.events += 1
    if not isinstance(update, Mapping) or update.get("sessionUpdate") != "agent_message_chunk":
        return  # thoughts and tools stay where they are
    content = update.get("content")
    text = content.get("text") if isinstance(content, Mapping) else None
    if isinstance(text, str):
        progress.spoke = True
        progress.said = (progress.said + text)[-BUFFER:]
