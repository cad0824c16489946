"""Makes a completion of a run that has ended: what is on record of it, and what was said in it.

Above are those who tell of completions; below are the ledger and the sessions' logs.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.agents import RuntimeKind
from acpbridge.model.sessions import Outcome, RunRecord
from acpbridge.router.api import RunRequest
from acpbridge.router.directory import Directory
from acpbridge.router.dues import Due
from acpbridge.router.said import Said, said_in
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.telling import SILENT, Completion, plain, protected, runtime_word

log = structlog.get_logger(__name__)

# By whom the turns are asked for that tell a session of what it had given away.
ANNOUNCED: Final = "system:announce"


class Reporting:
    """Looks up what there is to say of runs.

    Args:
        directory: the sessions that there are.
        services: ledger and log.
        plain_environment: see `Surroundings`.
    """

    def __init__(
        self,
        directory: Directory,
        services: Services,
        plain_environment: Callable[[], Mapping[str, str]],
    ) -> None:
        self._directory = directory
        self._services = services
        self._plain_environment = plain_environment

    async def request(self, due: Due, target: Session) -> RunRequest:
        """Return the turn in which a session is told of a completion.

        Raises:
            BridgeError: `store_full`, when the ledger cannot be read.
        """
        completion = await self.completion(due.run)
        python = target.definition.kind is RuntimeKind.PYTHON
        text = (protected if python else plain)(completion)
        return RunRequest(
            content=({"type": "text", "text": text},),
            session=str(target.key),
            # That of its last caller is in memory only.
            env={} if target.env else self._plain_environment(),
            one_shot=target.record.one_shot,
            detached=True,
            correlation_id=due.run.correlation_id,
            provenance=_provenance(due, target, completion.runtime),
            task=f"announce {due.run.session}",
            announces=due.entry.id,
        )

    async def completion(self, run: RunRecord) -> Completion:
        """Return how a run ended. What the log cannot tell any more is left out.

        Raises:
            BridgeError: `store_full`, when the ledger cannot be read.
        """
        session = self._directory.get(run.session)
        said = Said() if session is None else await self._said(session, run)
        record = None if session is None else session.record
        return Completion(
            run=run,
            said=said,
            runtime="unknown" if record is None else runtime_word(record.runtime),
            session_id="" if record is None else record.agent_session_id or "",
            label="" if record is None else record.label,
        )

    async def _said(self, session: Session, run: RunRecord) -> Said:
        """Return what was said in the last of its turns: those that came after it told of parts."""
        try:
            await session.open_log()
            said = await said_in(self._services.log, run.session, run.run_id)
            for later in await self._told_since(run):
                more = await said_in(self._services.log, run.session, later.run_id)
                if more.text and more.text.upper() != SILENT:
                    said = more
        except BridgeError as error:
            log.warning("what a run came to cannot be read", run=run.run_id, code=error.code)
            return Said()
        return said

    async def _told_since(self, run: RunRecord) -> list[RunRecord]:
        """Return the turns in which its session heard of what the run had given away."""
        runs = await self._services.ledger.runs(run.session)
        place = next((i for i, one in enumerate(runs) if one.run_id == run.run_id), len(runs))
        ended: list[RunRecord] = []
        for later in runs[place + 1 :]:
            if later.requested_by != ANNOUNCED:
                break  # somebody else's work: what is said there answers that
            if later.outcome is Outcome.COMPLETED:
                ended.append(later)
        return ended


def _provenance(due: Due, target: Session, runtime: str) -> dict[str, Any]:
    return {
        "kind": "inter_session",
        "sourceTool": "subagent_announce",
        "runtime": runtime,
        "sourceSessionKey": str(due.run.session),
        "targetSessionKey": str(target.key),
        "runId": due.run.run_id,
        "correlationId": due.run.correlation_id,
    }
