"""`session_status`: how a session stands, and what has changed since somebody looked last.

A session's version is the number of the newest event in its log, so that it survives restarts and
never goes back. What counts as a change of state is read from the log by number: nothing of it is
kept a second time. Above is the router.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from acpbridge.model.requesters import Requester
from acpbridge.router.authorize import Action
from acpbridge.router.births import CHILD_SPAWNED
from acpbridge.router.directory import Directory
from acpbridge.router.finding import find
from acpbridge.router.listing import SHARED
from acpbridge.router.look_requests import SessionRequest
from acpbridge.router.looking import Looking
from acpbridge.router.reading import MOST, Reading
from acpbridge.router.session import Session
from acpbridge.router.transcript import kind_of

# In place of a model: none is chosen any more.
DEFAULT: Final = "default"

# Changes that one answer tells, the newest.
MOST_CHANGES: Final = 100

_TYPES: Final = frozenset({"turn_started", "turn_ended", "turn_failed", CHILD_SPAWNED})

# How a run failed, by the code of its error; any other is `failed`.
_OUTCOMES: Final = {"prompt_timeout": "timed_out", "interrupted": "interrupted"}


class Changes:
    """Tells how a session stands.

    Args:
        directory: the sessions that there are.
        looking: the one projection of their state.
        reading: reads the logs.
    """

    def __init__(self, directory: Directory, looking: Looking, reading: Reading) -> None:
        self._directory = directory
        self._looking = looking
        self._reading = reading

    async def status(self, request: SessionRequest, requester: Requester) -> dict[str, Any]:
        """Return state, version and, if asked for, what changed since.

        Raises:
            BridgeError: `no_such_session`; `session_closed` or `permission_denied` for a change of
                the model.
        """
        session = find(self._directory, request.session_key, requester)
        if request.model:
            await self._choose(session, request.model, requester)
        version = await self._reading.newest(session)
        (row,) = self._looking.rows([session], requester)
        chosen = session.record.settings.model
        model = chosen or session.definition.settings.model
        answer: dict[str, Any] = {
            "ok": True,
            "sessionKey": str(session.key),
            "agentId": session.key.agent,
            "changedModel": bool(request.model),
            "stateVersion": version,
            "statusText": status_text(row),
            **{name: row[name] for name in SHARED},
            "active": session.active,
            **({"model": row["settings"].get("model") or model} if model else {}),
            **({"modelOverride": row["settings"].get("model")} if chosen else {}),
        }
        if request.changes_since is not None:
            answer["stateChanges"] = await self._since(session, request.changes_since, version)
        return answer

    async def _choose(self, session: Session, model: str, requester: Requester) -> None:
        """Have a session go on with another model: from its next turn on, which applies it."""
        if session.key != requester.session:
            find(self._directory, str(session.key), requester, Action.PROMPT)
        session.check_open()
        wanted = "" if model == DEFAULT else model  # the empty one takes the choice back
        await session.keep(settings=replace(session.record.settings, model=wanted))

    async def _since(self, session: Session, after: int, version: int) -> dict[str, Any]:
        begin = max(after, version - MOST)
        lines = await self._reading.lines(session, begin, version)
        spawned = session.record.lineage.parent is not None

        def read() -> tuple[list[dict[str, Any]], int]:
            return changes(lines, begin, version, spawned=spawned)

        found, first = await self._reading.parsed(read)
        if after == 0:
            created = {"sequence": 0, "type": "created", "at": session.record.created_at}
            found.insert(0, created)
        gap = first > after + 1
        return {
            "events": found[-MOST_CHANGES:],
            "truncated": len(found) > MOST_CHANGES,
            "earliestAvailableSequence": first if gap else 0,
            "historyGap": gap,
        }


def changes(
    lines: list[bytes], after: int, upto: int, *, spawned: bool
) -> tuple[list[dict[str, Any]], int]:
    """Return the changes of state that lines of a log hold, and the number of the first line.

    Args:
        lines: of events, in order.
        after: number after which they were read.
        upto: number of the last one that counts.
        spawned: whether a session spawned this one, so that a person seldom prompts it.
    """
    first = json.loads(lines[0])["seq"] if lines else after + 1
    found = []
    for line in lines:
        if kind_of(line) not in _TYPES:
            continue
        event = json.loads(line)
        if event["seq"] > upto:
            break
        change = _change(event, spawned=spawned)
        if change:
            found.append({"sequence": event["seq"], "at": event["at"], **change})
    return found, first


def _change(event: Mapping[str, Any], *, spawned: bool) -> dict[str, Any]:
    kind = event["type"]
    if kind == CHILD_SPAWNED:
        return {"type": kind, "childSessionKey": event.get("childSessionKey")}
    if kind == "turn_started":
        provenance = event.get("provenance")
        source = provenance.get("kind") if isinstance(provenance, Mapping) else None
        by_person = spawned and source in ("operator", "external_user")
        return {"type": "human_direct_message", "runId": event["turn"]} if by_person else {}
    outcome = _outcome(event)
    which = "run_completed" if outcome == "completed" else "run_failed"
    return {"type": which, "runId": event["turn"], "outcome": outcome}


def _outcome(event: Mapping[str, Any]) -> str:
    if event["type"] == "turn_failed":
        error = event.get("error")
        code = error.get("code") if isinstance(error, Mapping) else None
        return _OUTCOMES.get(str(code), "failed")
    reason = event.get("stopReason")
    return {"end_turn": "completed", "cancelled": "cancelled"}.get(str(reason), "failed")


def status_text(row: Mapping[str, Any]) -> str:
    """Return a session's row in one sentence, for whoever reads rather than parses."""
    turn, asked = row["turn"], row["pendingPermissions"]
    parts = [f"{row['key']} is {row['state']}"]
    if turn:
        parts.append(f"its turn is {turn['state']} and waits for {turn['waitsFor']}")
    if row["queueDepth"]:
        parts.append(f"{row['queueDepth']} more wait")
    if asked:
        parts.append(f"{asked} questions wait for a person")
    return "; ".join(parts) + "."
