"""Which run somebody means by a target: its id, key, number, task name, or `last`. Pure.

Above are the tools that act on what lies below their caller. Only runs that were handed in can be
meant: what is not among them, does not exist here.
"""

from collections.abc import Sequence

from acpbridge.errors import BridgeError
from acpbridge.router.authorize import unreachable
from acpbridge.router.finding import session_id
from acpbridge.router.workload import Work, names

LAST = "last"


def resolve(target: int | str, works: Sequence[Work]) -> Work:
    """Return the one run that a target means; of a session's runs it is the one accepted last.

    Args:
        target: a run id, a session's key or its unique part, the number of a run in the list, a
            task name or the beginning of just one, or `last`.
        works: the runs that may be meant, in the order they were accepted.

    Raises:
        BridgeError: `no_such_session`; `ambiguous_key`, with the candidates.
    """
    text = str(target).strip()
    if text == LAST and works:
        return works[-1]
    by_index = {str(work.index): work for work in works}
    if text in by_index:
        return by_index[text]
    for work in works:
        if text == work.run.run_id:
            return work
    for found in (
        [work for work in works if text in (str(work.session.key), session_id(work.session.key))],
        [work for work in works if text and text == work.session.record.task_name],
        [work for work in works if text and work.session.record.task_name.startswith(text)],
    ):
        latest = {work.session.key: work for work in found}
        if len(latest) == 1:
            return next(iter(latest.values()))
        if latest:
            message = f"{text!r} may be any of: {names(list(latest.values()))}."
            hint = "Give a runId or a sessionKey of them."
            raise BridgeError("ambiguous_key", message, hint=hint)
    raise unreachable()
