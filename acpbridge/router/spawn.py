"""A child for whoever asks: guarded, accepted by the one way by which runs begin, never waited for.

Above is the router; below are `accepting`, which makes the session and puts the run on record.
"""

from collections.abc import Callable
from typing import Any

from acpbridge.config.snapshot import Config
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import Birth
from acpbridge.router.accepting import Accepting
from acpbridge.router.api import RunRequest
from acpbridge.router.directory import Directory
from acpbridge.router.spawn_requests import SpawnRequest


class Spawning:
    """Starts children.

    Args:
        directory: the sessions that there are.
        accepting: accepts their runs.
        config: the configuration in force.
    """

    def __init__(
        self,
        directory: Directory,
        accepting: Accepting,
        config: Callable[[], Config],
    ) -> None:
        self._directory = directory
        self._accepting = accepting
        self._config = config

    async def spawn(self, request: SpawnRequest, requester: Requester) -> dict[str, Any]:
        """Start a child; return its receipt, without waiting for anything that it does."""
        run = RunRequest(
            content=({"type": "text", "text": request.task},),
            agent=request.agent_id,
            cwd=request.cwd,
            caller_cwd=request.caller_cwd,
            env=request.env,
            one_shot=request.mode != "session",
            detached=True,
            idempotency_key=request.idempotency_key,
            birth=Birth(request.label, request.task_name, request.cleanup),
        )
        receipt = await self._accepting.accept(run, requester)
        return {
            "status": "accepted",
            "childSessionKey": str(receipt.key),
            "runId": receipt.run_id,
            "mode": request.mode or "run",
        }
