"""A record of the audit as a line for people: when, whose, what it came to, what, by whom. Pure.

What agents and people said stands in it escaped, once more: a file can be written by anybody who
could write it.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

from acpbridge.model.display import clip, escape

_LONGEST: Final = 400

# What every record has, and what is told at the head of the line.
_USUAL: Final = frozenset(
    {"seq", "kind", "ts_wall", "ts_mono", "boot_id", "prev_hash", "hash", "session", "agent"}
)


def line(record: Mapping[str, Any]) -> str:
    """Return one line."""
    said = _decision(record) if record.get("kind") == "permission_decided" else _other(record)
    where = str(record.get("session") or record.get("agent") or "-")
    head = f"{record.get('seq')} {str(record.get('ts_wall'))[:19]}Z {where}"
    return escape(clip(f"{head}  {said}", _LONGEST))


def _decision(record: Mapping[str, Any]) -> str:
    words, paths = record.get("argv"), record.get("paths")
    what = shlex.join(map(str, words)) if isinstance(words, list) and words else ""
    if not what and isinstance(paths, list):
        what = " ".join(map(str, paths))
    what = what or f"{record.get('title')!r}"
    note = f": {record['note']}" if record.get("note") else ""
    chosen = f" ({record['option_id']})" if record.get("option_id") is not None else ""
    return (
        f"{record.get('decision')}{chosen}  {record.get('tool_kind')} {what}"
        f"  by {_by(record)}, {record.get('reason')}{note}"
    )


def _by(record: Mapping[str, Any]) -> str:
    who = record.get("decided_by")
    if not isinstance(who, Mapping):
        return str(record.get("rule_id") or "-")
    return f"{who.get('role')} {who.get('client_id') or '-'} (pid {who.get('pid')})"


def _other(record: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in record.items() if name not in _USUAL}
    told = (f"{name}={json.dumps(value)}" for name, value in rest.items() if value is not None)
    return " ".join((str(record.get("kind")), *told))
