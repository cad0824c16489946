"""The policy in force while this process runs: looked at before each judgement, and told of.

Above is `opening`, which gives it to the judge and to `status`; below is the file.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import structlog

from acpbridge.daemon.policyfile import PolicyFile
from acpbridge.errors import BridgeError
from acpbridge.permissions.judging import JUDGE_SECONDS, Policy
from acpbridge.transport.tasks import in_time
from acpbridge.transport.threads import Threads

log = structlog.get_logger(__name__)

Note = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class Policing:
    """Keeps the policy in force.

    Args:
        file: read already.
        note: puts a record into the audit.
    """

    def __init__(self, file: PolicyFile, note: Note) -> None:
        self._file = file
        self._note = note
        self._told: PolicyFile | None = None
        self._threads = Threads()
        # One look at a time, so that an older one never takes the place of a newer one.
        self._looking = anyio.Lock()

    async def current(self) -> Policy:
        """Return what is in force now. Takes as long as the disk; who waits has a limit.

        Raises:
            TimeoutError: earlier looks have not come back.
        """
        async with self._looking:
            self._file = await self._threads.run(self._file.again)
            await self._tell()
        return self._file.in_force

    async def shown(self) -> tuple[dict[str, Any], list[str]]:
        """Return what `status` shows, with what an operator must know."""
        warnings = []
        try:
            await in_time(JUDGE_SECONDS, self.current)
        except TimeoutError:
            where = self._file.paths.policy
            warnings.append(f"{where} cannot be looked at in time; what asks is denied")
        if self._file.warning:
            warnings.append(self._file.warning)
        return self._file.to_json(), warnings

    async def _tell(self) -> None:
        """Have the audit know which policy is in force before anything is decided by it."""
        file, shown = self._file, self._file.to_json()
        if file is self._told:
            return
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
