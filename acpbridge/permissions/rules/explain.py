"""A question as a list prints it, back to the request that it is of; facts, to be printed. Pure.

A list shows more than rules may see, and less than the daemon knows: of a call of kind `other` it
does not say whether the agent named a kind, and which directories are the session's not at all.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import (
    OnPermission,
    PermissionAsk,
    PermissionRequest,
    ToolKind,
    ToolSubject,
)
from acpbridge.permissions.rules.facts import Facts

_KINDS = {kind.value: kind for kind in ToolKind}


def requests(text: str, roots: Sequence[str]) -> list[PermissionRequest]:
    """Return the requests of a JSON document: a question, or a list as `permissions --json` has it.

    Args:
        text: the document.
        roots: directories of the session, absolute.

    Raises:
        BridgeError: `usage`, saying what it is not.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _no("The file is not JSON") from None
    if isinstance(found, dict) and "permissions" in found:
        found = found["permissions"]
    questions = found if isinstance(found, list) else [found]
    return [_request(question, tuple(roots)) for question in questions]


def _request(question: Any, roots: tuple[str, ...]) -> PermissionRequest:
    subject = question.get("subject") if isinstance(question, dict) else None
    if not isinstance(subject, dict) or not isinstance(question.get("sessionKey"), str):
        raise _no("A question has a sessionKey and a subject")
    kind = _KINDS.get(str(question.get("kind")), ToolKind.OTHER)
    call = ToolSubject(
        tool_call_id=_text(subject.get("toolCallId")),
        title=_text(question.get("title")),
        kind=kind,
        known_kind=kind is not ToolKind.OTHER,
        raw_input=subject.get("rawInput"),
        locations=tuple(_texts(subject.get("locations"))),
        content=tuple(block for block in _list(subject.get("content")) if isinstance(block, dict)),
        changed=tuple(_texts(subject.get("changed"))),
        tool=_text(subject.get("tool")),
        server=_text(subject.get("server")),
    )
    return PermissionRequest(
        id=_text(question.get("id")),
        session=SessionKey.parse(question["sessionKey"]),
        turn=_text(subject.get("runId")) or None,
        run_rule=OnPermission.ASK,
        ask=PermissionAsk(call, ()),
        label=_text(question.get("label")),
        roots=roots,
    )


def facts_json(facts: Facts) -> Mapping[str, Any]:
    """Return facts to be printed; null is what is not known."""
    paths = None
    if facts.paths is not None:
        paths = [{"literal": path.literal, "resolved": path.resolved} for path in facts.paths]
    return {
        "agent": facts.agent,
        "label": facts.label,
        "kind": facts.kind,
        "tool": facts.tool,
        "server": facts.server,
        "argv": None if facts.argv is None else list(facts.argv),
        "paths": paths,
        "host": facts.host,
        "roots": list(facts.roots),
    }


def _no(problem: str) -> BridgeError:
    hint = "Give what this prints: acpbridge permissions --json"
    return BridgeError("usage", f"{problem}.", hint=hint)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [item for item in _list(value) if isinstance(item, str)]
