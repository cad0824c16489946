"""The fields of an audit record of a decision: evidence, never contents.

Of a tool's arguments only what says *which* thing is touched goes in, the argv and the paths; the
rest is covered by the hash of the request's bytes, and what we would write by one of its own.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from acpbridge.model.permission import (
    Decision,
    Effect,
    Lasts,
    PermissionRequest,
    Reason,
    Source,
    ToolSubject,
)
from acpbridge.model.requesters import Requester
from acpbridge.permissions.arguments import ARGV_KEYS, PATH_KEYS, under
from acpbridge.permissions.rules.facts import Facts

# A request that names more is recorded in part; the hash covers all of it.
_MOST: Final = 64


def decision_fields(
    request: PermissionRequest,
    rule: str,
    policy_sha256: str,
    decision: Decision,
    requester: Requester | None,
    latency: float,
) -> dict[str, Any]:
    """Return the fields of one decision; `latency` in seconds since the request came in."""
    ask = request.ask
    return {
        **place_fields(request),
        "agent_pid": ask.agent_pid,
        "agent_start": ask.agent_start,
        "jsonrpc_id": ask.wire_id,
        "tool_call_id": ask.subject.tool_call_id,
        "tool_kind": ask.subject.kind if ask.subject.known_kind else "unknown",
        "title": ask.subject.title,
        "changed": list(ask.subject.changed),
        "argv": _argv(ask.subject.raw_input),
        "paths": _paths(ask.subject),
        "raw_sha256": ask.raw_sha256,
        "content_sha256": _content(ask.subject),
        "options": [
            {"id": option.option_id, "kind": option.raw_kind or option.kind}
            for option in ask.options[:_MOST]
        ],
        "rule_id": rule,
        "policy_sha256": policy_sha256 or None,
        "decision": decision.effect,
        "option_id": decision.option_id,
        "reason": decision.reason,
        "note": decision.note,
        "lasts": decision.lasts,
        "decided_by": None if requester is None else requester_fields(requester),
        "clients_offered": request.offered,
        "latency_ms": round(latency * 1000, 3),
    }


def resolved_fields(facts: Facts | None) -> dict[str, Any]:
    """Return where the paths of a request lead, as the rules were told; None: nobody could tell."""
    paths = None if facts is None or facts.paths is None else facts.paths[:_MOST]
    return {"resolved": None if paths is None else [path.resolved for path in paths]}


def decision_of(record: Mapping[str, Any]) -> Decision | None:
    """Return the decision that a record tells of; None if it was changed since."""
    who = record.get("decided_by")
    try:
        by = record["rule_id"] if who is None else f"{who['role']}:{who['client_id'] or who['pid']}"
        return Decision(
            Effect(record["decision"]),
            record["option_id"],
            Reason(record["reason"]),
            str(by),
            str(record["note"]),
            Lasts(record.get("lasts", Lasts.ONCE)),
        )
    except (KeyError, ValueError, TypeError):
        return None


def place_fields(request: PermissionRequest) -> dict[str, Any]:
    """Return the fields that say which request of which session a record is about."""
    return {
        "request_uid": request.id,
        "agent": request.session.agent,
        "session": str(request.session),
        "turn": request.turn,
    }


def requester_fields(requester: Requester) -> dict[str, Any]:
    """Return who somebody is, for `decided_by` and for refusals."""
    return {
        "client_id": requester.client_id,
        "uid": requester.uid,
        "pid": requester.pid,
        "role": requester.role,
        "session": None if requester.session is None else str(requester.session),
    }


def _argv(raw_input: Any) -> list[str] | None:
    return list(under(raw_input, ARGV_KEYS))[:_MOST] or None


def _paths(subject: ToolSubject) -> list[str]:
    found = [*subject.locations, *under(subject.raw_input, PATH_KEYS)]
    return list(dict.fromkeys(found))[:_MOST]


def _content(subject: ToolSubject) -> str | None:
    """Return the hash of what would be written to a file by us."""
    raw = subject.raw_input
    content = raw.get("content") if isinstance(raw, Mapping) else None
    if subject.source is not Source.FILES or not isinstance(content, str):
        return None
    return hashlib.sha256(content.encode()).hexdigest()
