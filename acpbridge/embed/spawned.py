"""A child that a program has started: its receipt at once, how it ended when somebody asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from acpbridge.embed.run import Result, Run
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.router.api import RouterApi, RunReceipt
from acpbridge.transport.tasks import background

# Letting go of a cursor takes no time; the other side may be gone. Seconds.
LEAVE_LIMIT = 5.0


@dataclass(frozen=True, slots=True)
class Spawned:
    """A child that works by itself, whatever becomes of who started it.

    Attributes:
        key: of its session; speak to it by `send`, end it by `kill`.
        run_id: of its task.
        mode: `run` or `session`.
        cwd: where it works.
        note: what there is to know.
        value: the whole receipt, as `acpbridge spawn --json` prints it.
    """

    key: str
    run_id: str
    mode: str
    cwd: str
    note: str
    value: Mapping[str, Any]
    _api: RouterApi = field(repr=False)
    _who: Requester = field(repr=False)

    @classmethod
    def from_json(cls, value: Mapping[str, Any], api: RouterApi, who: Requester) -> "Spawned":
        """Read the receipt of a call."""
        key, run_id = value["childSessionKey"], value["runId"]
        return cls(key, run_id, value["mode"], value["cwd"], value["note"], value, api, who)

    async def result(self) -> Result:
        """Wait for the end of its task, and return how it ended; cancelled, it works on.

        Raises:
            BridgeError: `connection_closed`, when the daemon is gone; `no_such_session`, when the
                session was deleted.
        """
        key = SessionKey.parse(self.key)
        receipt = RunReceipt(key, self.run_id, 0, str(key.agent))
        following = await self._api.follow(self.key, 0, self._who)
        try:
            async with background() as tasks:
                run = Run(receipt, following, self._api, self._who, tasks, None)
                return await run.result()
        finally:
            with anyio.move_on_after(LEAVE_LIMIT, shield=True):
                await following.aclose()
