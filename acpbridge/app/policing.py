"""The policy in force while this process runs: looked at before each judgement, and told of.

Above is `opening`, which gives it to the judge and to `status`; below is the file.
"""

import queue
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import structlog

from acpbridge.daemon.policyfile import PolicyFile
from acpbridge.errors import BridgeError
from acpbridge.permissions.judging import DISK_SECONDS, Policy
from acpbridge.transport.threads import Threads

log = structlog.get_logger(__name__)

Note = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class Policing:
    """Keeps the policy in force.

    Args:
        file: read already.
        note: puts a record into the audit.
        seconds: for a look at the disk, by the clock.
    """

    def __init__(self, file: PolicyFile, note: Note, *, seconds: float = DISK_SECONDS) -> None:
        self._file = file
        self._note = note
        self._seconds = seconds
        self._threads = Threads(seconds)
        self._told: PolicyFile | None = None
        self._telling = anyio.Lock()
        # Held by the thread that looks: an older look never takes the place of a newer one, and one
        # that takes too long for who waits for it is there for the next.
        self._turn: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._turn.put(None)

    async def current(self) -> Policy:
        """Return what is in force now, once the audit knows of it.

        Raises:
            TimeoutError: the disk takes too long.
        """
        file = await self._threads.run(self._look)
        with anyio.move_on_after(self._seconds):
            await self._tell(file)
        return file.in_force

    async def shown(self) -> tuple[dict[str, Any], list[str]]:
        """Return what `status` shows, with what an operator must know."""
        warnings = []
        try:
            await self.current()
        except TimeoutError:
            where = self._file.paths.policy
            warnings.append(f"{where} cannot be looked at in time; what asks is denied")
        if self._file.warning:
            warnings.append(self._file.warning)
        return self._file.to_json(), warnings

    def _look(self) -> PolicyFile:
        try:
            self._turn.get(timeout=self._seconds)
        except queue.Empty:
            raise TimeoutError("an earlier look at the policy has not ended") from None
        try:
            self._file = self._file.again()
            return self._file
        finally:
            self._turn.put(None)

    async def _tell(self, file: PolicyFile) -> None:
        """Have log and audit know of a policy before anything is decided by it."""
        async with self._telling:
            if file is self._told:
                return
            shown = file.to_json()
            if file.problem:
                log.error("the policy cannot be used", **shown)
            elif not file.missing:
                log.info("policy", **shown)
            kind = "policy_broken" if file.problem else "policy_loaded"
            try:
                await self._note(kind, {"policy_sha256": shown.pop("sha256"), **shown})
            except BridgeError as error:
                # Without an audit nothing is allowed; it is told once it can be.
                log.warning("the policy is not in the audit yet", code=error.code)
                return
            self._told = file
