"""What a start makes of what the last daemon left behind: nothing that was open is ever allowed.

Above is `opening`. The ledger ends what only a living daemon could go on with; what was decided
just before the end is found in the audit, and what was not is put there now (row 34).
"""

from collections.abc import Mapping, Sequence

import structlog

from acpbridge.daemon import killed
from acpbridge.daemon.paths import Paths
from acpbridge.errors import BridgeError
from acpbridge.model.permission import Decision
from acpbridge.permissions.audit import Audit, last_decisions
from acpbridge.store.ledger import Ledger
from acpbridge.store.records import QuestionRecord

log = structlog.get_logger(__name__)


async def recover(ledger: Ledger, audit: Audit, paths: Paths, now: str) -> None:
    """Bring the ledger up to date, and the audit about the questions that were open.

    Args:
        ledger: open.
        audit: open.
        paths: of the state directory.
        now: ISO 8601, UTC.
    """
    said: dict[str, Decision] = {}

    def decided(questions: Sequence[str]) -> Mapping[str, Decision]:
        said.update(last_decisions(paths.audit, questions))
        return said

    report = await ledger.recover(now, killed.noted(paths.killed), decided)
    try:
        for name in report.questions:
            question = await ledger.question(name)
            if name not in said and question is not None and question.decision is not None:
                await audit.note("permission_decided", _fields(question, question.decision))
    except BridgeError as error:
        # A full disk keeps nobody from starting: the ledger has it already.
        log.warning("the audit was not told", kind="permission_decided", code=error.code)


def _fields(question: QuestionRecord, decision: Mapping[str, object]) -> dict[str, object]:
    return {
        "request_uid": question.id,
        "agent": question.session.agent,
        "session": str(question.session),
        "turn": question.turn,
        "rule_id": decision["by"],
        "decision": decision["effect"],
        "option_id": decision["optionId"],
        "reason": decision["reason"],
        "note": decision["note"],
        "decided_by": None,
    }
