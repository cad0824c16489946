"""What an agent has said of its tool calls, so that a question can be shown whole.

Agents announce a call first and ask with half of it (codex leaves out the path of an edit), or ask
before they announce it (gemini). Every sight of a `toolCallId` is therefore an upsert.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from acpbridge.model.agents import ToolNames
from acpbridge.model.permission import (
    Option,
    OptionKind,
    PermissionAsk,
    ToolKind,
    ToolSubject,
)
from acpbridge.protocol.acp import LONGEST_ID, PermissionParams, update_kind
from acpbridge.protocol.promises import broken, promised, shown
from acpbridge.protocol.toolnames import names_of

# Calls remembered per session; a question comes within a few updates of its announcement.
REMEMBERED: Final = 512

_WIRE: Final = ("title", "kind", "content", "locations", "rawInput")
_FIELDS: Final = (*_WIRE, "tool", "server")
_OPTION_KINDS: Final = {kind.value: kind for kind in OptionKind if kind is not OptionKind.UNKNOWN}
_TOOL_KINDS: Final = {kind.value: kind for kind in ToolKind}


# What is kept of one call; the largest real ones, whole files in a diff, have tens of kilobytes.
# A call beyond it is remembered by name only, and no rule applies to it.
MAX_CALL_BYTES: Final = 256 * 1024

# What is kept of all calls of a session; beyond it the oldest are forgotten. Bytes of JSON.
MAX_KEPT_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Seen:
    """One call: its fields as last told, and those that it was first announced with.

    Attributes:
        fields: by name.
        first: of the promised ones, the first that said something.
        open: whether it has not ended.
        unread: whether more was told of it than is kept.
        size: bytes that are kept of it.
    """

    fields: Mapping[str, Any]
    first: Mapping[str, Any]
    open: bool
    unread: bool = False
    size: int = 0


class ToolCalls:
    """The tool calls of one session, as far as they were told.

    Args:
        names: where the agent says what a tool is called, besides ACP's own field.
        cwd: the session's directory, from which a path is meant that is not absolute.
    """

    def __init__(self, names: Sequence[ToolNames] = (), cwd: str = "") -> None:
        self._names = tuple(names)
        self._cwd = cwd
        self._calls: OrderedDict[str, _Seen] = OrderedDict()
        self._size = 0

    def update(self, params: Any, size: int = 0) -> None:
        """Take in a `session/update`; anything but a tool call is ignored.

        Args:
            params: of the notification, read leniently.
            size: of its line in bytes; of one that is far too long nothing but its name is kept.
        """
        if update_kind(params) not in ("tool_call", "tool_call_update"):
            return
        update = params["update"]
        call_id = update.get("toolCallId")
        if not isinstance(call_id, str) or not 0 < len(call_id) <= LONGEST_ID:
            return
        if size > MAX_CALL_BYTES:
            self._upsert(call_id, {"status": update.get("status")}, unread=True)
            return
        sound = {name: update[name] for name in update if _sound(update[name])}
        self._upsert(call_id, self._read(sound))

    @property
    def running(self) -> bool:
        """Whether a call was announced that has not ended."""
        return any(call.open for call in self._calls.values())

    def end_turn(self) -> None:
        """Take every call as ended: none outlives its turn."""
        for call_id, call in self._calls.items():
            self._calls[call_id] = replace(call, open=False)

    def ask(self, params: PermissionParams, wire_id: str, sha256: str, pid: int) -> PermissionAsk:
        """Return the question of a permission request, joined with what is known of its call."""
        call = params.toolCall
        wire = {name: getattr(call, name) for name in _WIRE if getattr(call, name) is not None}
        now = self._read({**(call.model_extra or {}), **wire})
        now.pop("status", None)  # it is asked about, so it has not ended
        before = self._calls.get(call.toolCallId)
        self._upsert(call.toolCallId, now)
        merged = {**(before.fields if before else {}), **now}
        kind = merged.get("kind")
        was = {} if before is None else broken(before.first, merged, self._cwd)
        unread = ("more than is kept",) if before is not None and before.unread else ()
        subject = ToolSubject(
            tool_call_id=call.toolCallId,
            title=_text(merged.get("title")),
            kind=_TOOL_KINDS.get(kind, ToolKind.OTHER) if isinstance(kind, str) else ToolKind.OTHER,
            known_kind=isinstance(kind, str) and kind in _TOOL_KINDS,
            raw_input=merged.get("rawInput"),
            locations=_paths(merged.get("locations")),
            content=_blocks(merged.get("content")),
            changed=(*was, *unread),
            announced=shown(was),
            tool=merged.get("tool", ""),
            server=merged.get("server", ""),
        )
        options = tuple(
            Option(o.optionId, o.name, _OPTION_KINDS.get(o.kind, OptionKind.UNKNOWN), o.kind)
            for o in params.options
        )
        return PermissionAsk(subject, options, wire_id, sha256, pid)

    def _read(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a sight of a call says, with the names that it says somewhere else."""
        told = {name: call[name] for name in (*_WIRE, "status") if name in call}
        return {**told, **names_of(call, self._names)}

    def _upsert(self, call_id: str, update: Mapping[str, Any], *, unread: bool = False) -> None:
        seen = self._calls.pop(call_id, _Seen({}, {}, open=True))
        told = {name: update[name] for name in _FIELDS if update.get(name) is not None}
        status = update.get("status")
        is_open = seen.open if status is None else status not in ("completed", "failed")
        fields, first = {**seen.fields, **told}, {**promised(told), **seen.first}
        size = len(json.dumps([fields, first]))
        unread = unread or seen.unread or size > 2 * MAX_CALL_BYTES
        if unread:
            fields, first, size = {}, {}, 0
        self._calls[call_id] = _Seen(fields, first, is_open, unread, size)
        self._size += size - seen.size
        while len(self._calls) > REMEMBERED or self._size > MAX_KEPT_BYTES:
            self._size -= self._calls.popitem(last=False)[1].size


def _sound(value: Any) -> bool:
    """Tell whether a value, read leniently to be relayed, may be shown and written again."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _paths(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else []
    paths = (item.get("path") for item in items if isinstance(item, dict))
    return tuple(path for path in paths if isinstance(path, str))


def _blocks(value: Any) -> tuple[Mapping[str, Any], ...]:
    items = value if isinstance(value, list) else []
    return tuple(item for item in items if isinstance(item, dict))
