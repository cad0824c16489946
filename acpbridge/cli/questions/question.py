"""A question as a person sees it. Pure.

What is shown is what will really happen: arguments, paths and contents as the agent gave them, in
full, and never its title alone. Everything is escaped, line by line, and what is longer than the
terminal is wide goes on behind a margin, so that no text of an agent can pass for a row of ours.
What can be answered comes last.
"""

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from acpbridge.cli.moments import time_left, whole_seconds
from acpbridge.model.display import escape
from acpbridge.model.permission import Lasts, OptionKind, ToolKind
from acpbridge.permissions.confirming import KNOWN_KINDS
from acpbridge.permissions.policy import names_bypass, names_mode

Question = Mapping[str, Any]

INDENT: Final = "    "

# Before every line of the agent's own text, so that none can pass for one of ours.
MARGIN: Final = INDENT + "| "

# Before what is left of a line that was too long for the terminal.
WRAPPED: Final = INDENT + ": "

# A terminal that is narrower than this is written to as if it were not.
NARROWEST: Final = 20

# Beyond this a difference is not looked for, for the search grows with the square: the old text
# goes, the new one comes. Lines of both.
DIFF_LIMIT: Final = 2_000

# A value that takes more than this is spread over lines, as it is easier to read. Characters.
LONG_VALUE: Final = 120

# A value that is nested deeper stays on one line: every line of it would be mostly blanks, and a
# megabyte of input would become hundreds. Levels.
DEEPEST: Final = 20

# As a person knows it from other tools that show changes.
NO_LINE_END: Final = "(no line end)"

_COMMAND_NAMES: Final = ("command", "cmd", "argv", "args", "script")
_OPTION_WORDS: Final[Mapping[str, str]] = {
    OptionKind.ALLOW_ONCE: "Allow once",
    OptionKind.ALLOW_ALWAYS: "Allow always",
    OptionKind.REJECT_ONCE: "Reject once",
    OptionKind.REJECT_ALWAYS: "Reject always",
}


def render(
    question: Question, *, now: str = "", place: tuple[int, int] = (1, 1), width: int = 0
) -> str:
    """Return a question in full, as lines of text.

    Args:
        question: as the daemon lists it.
        now: the time, ISO 8601; "" shows when it expires instead of how long that is.
        place: which of how many that wait.
        width: of the terminal, in cells; 0 leaves long lines as they are.
    """
    subject = question.get("subject")
    subject = subject if isinstance(subject, Mapping) else {}
    number, count = place
    which = f" ({number} of {count})" if count > 1 else ""
    out = [
        f"permission {_word(question.get('id'))}{which}: {_kind(question)}",
        f"  agent    {_word(question.get('agentId'))}",
        f"  session  {_word(question.get('sessionKey'))}",
        f"  title    {_word(question.get('title'))} (the agent's own words)",
        *_warnings(subject),
        *_input_lines(subject.get("rawInput")),
    ]
    blocks = subject.get("content") or ()
    below = {str(block.get("path")) for block in blocks if _is_diff(block)}
    paths = dict.fromkeys(map(str, subject.get("locations") or ()))
    out += [f"  path     {_word(path)}" for path in paths if path not in below]
    for block in blocks:
        out += _block_lines(block)
    if question.get("expiresAt"):
        out.append(f"  expires  {_expiry(question['expiresAt'], now)}, then it is denied")
    out += ["  options", *option_lines(question)]
    return "\n".join(out if not width else wrapped(out, width))


def option_lines(question: Question) -> list[str]:
    """Return the offered options by number, our words first, the doubtful ones flagged."""
    out = []
    counts = Counter(str(option.get("optionId")) for option in options(question))
    for number, option in enumerate(options(question), 1):
        twice = counts[str(option.get("optionId"))] > 1
        flags = "".join(f"  ! {flag}" for flag in _flags(option, question, twice=twice))
        kind = option.get("kind")
        what = _OPTION_WORDS.get(kind, f"[{_word(kind)}]") if isinstance(kind, str) else "[-]"
        name, name_of = _word(option.get("name")), _word(option.get("optionId"))
        out.append(f"{INDENT}{number}) {what}{flags}: {name}  (id {name_of})")
    return out or [f"{INDENT}none"]


def options(question: Question) -> list[Mapping[str, Any]]:
    """Return the offered options."""
    offered = question.get("options")
    return [o for o in offered if isinstance(o, Mapping)] if isinstance(offered, list) else []


def wrapped(lines: Iterable[str], width: int) -> list[str]:
    """Return lines none of which is wider than a terminal; what is too long goes on indented."""
    width = max(width, NARROWEST)
    out: list[str] = []
    for line in lines:
        if line.isascii() and len(line) <= width:
            out.append(line)
        else:
            first, *rest = _pieces(line, width, width - len(WRAPPED))
            out += [first, *(WRAPPED + piece for piece in rest)]
    return out


def _pieces(line: str, first: int, others: int) -> Iterator[str]:
    """Cut a line by columns, every character once: an agent may send a megabyte of them."""
    if line.isascii():
        yield line[:first]
        yield from (line[at : at + others] for at in range(first, len(line), others))
        return
    from rich.cells import get_character_cell_size  # not needed without a terminal

    room, start, used = first, 0, 0
    for at, char in enumerate(line):
        cells = 1 if char.isascii() else get_character_cell_size(char)
        if used + cells > room:
            yield line[start:at]
            room, start, used = others, at, 0
        used += cells
    yield line[start:]


def how_decided(decision: Mapping[str, Any]) -> str:
    """Return what a question came to, by whom or why, and with what reason."""
    effect, reason = str(decision.get("effect")), str(decision.get("reason"))
    words = {"allow": "allowed", "deny": "denied", "cancel": "withdrawn"}.get(effect, effect)
    if reason == "operator":
        why = f"by {decision.get('by') or 'an operator'}"
    else:
        why = _WHY.get(reason) or f"by {decision.get('by') or reason}"
    note = f": {decision['note']}" if decision.get("note") else ""
    return escape(f"{words} {why}{note}")


def how_long(decision: Mapping[str, Any]) -> str:
    """Return how long an answer holds, where that is longer than once; "" where it is not."""
    lasts = decision.get("lasts")
    if lasts == Lasts.SESSION:
        name = escape(str(decision.get("id")))
        return f"granted for this session: acpbridge permissions revoke {name} ends it"
    if lasts == Lasts.AGENT:
        return "sent as it is: how long it holds is up to the agent"
    return ""


_WHY: Final = {
    "timed_out": "because nobody answered in time",
    "turn_cancelled": "because its turn was cancelled",
    "withdrawn": "by the agent",
    "killed": "because the session was killed",
    "daemon_stopping": "because the daemon stops",
    "agent_died": "because the agent is gone",
    "malformed": "because it was malformed",
    "audit_failed": "because the audit could not be written",
    "too_many_open": "because too many questions are open",
    "judge_failed": "because the rules could not be applied",
}


def _expiry(expires: Any, now: str) -> str:
    left = time_left(expires, now) if now else ""
    return f"in {left}" if left else _word(expires)


def _flags(option: Mapping[str, Any], question: Question, *, twice: bool) -> Iterator[str]:
    if str(option.get("kind")) not in KNOWN_KINDS:
        yield "unknown kind: it may do anything"
    name = str(option.get("optionId"))
    if names_bypass(name):
        yield "nobody would be asked any more"
    elif names_mode(name):
        yield "less would be asked from then on"
    if twice:
        yield "this id is offered twice"
    if option.get("kind") == OptionKind.ALLOW_ALWAYS:
        yield _always(question)


def _always(question: Question) -> str:
    """Say what "always" covers, before it is chosen (row 26)."""
    lasts, grant = question.get("always"), question.get("grant")
    if lasts == Lasts.SESSION and isinstance(grant, Mapping):
        seconds = grant.get("seconds")
        until = f", for {whole_seconds(seconds)}" if isinstance(seconds, int | float) else ""
        return f"covers {_word(grant.get('scope'))}{until} or until it is revoked"
    if lasts == Lasts.AGENT:
        return "sent as it is: what it covers, and for how long, is up to the agent"
    return "this once all the same: what it would cover is not certain"


def _kind(question: Question) -> str:
    kind = question.get("kind")
    if kind in (None, ToolKind.OTHER):
        return "a tool of unknown kind (take it for the most dangerous)"
    return _word(kind)


def _warnings(subject: Mapping[str, Any]) -> Iterator[str]:
    changed = subject.get("changed") or ()
    if changed:
        yield f"  WARNING  changed since it was announced: {_words(changed)}"
    if not subject.get("runId"):
        yield "  WARNING  asked outside of any turn"
    if subject.get("rawInput") is None and not any(map(_is_diff, subject.get("content") or ())):
        yield "  WARNING  no input was given: the title is only the agent's claim of what it does"


def _input_lines(value: Any) -> Iterator[str]:
    """Say what the tool is given: the command first, then everything else."""
    if value is None:
        yield "  input    not given by the agent"
        return
    if not isinstance(value, Mapping):
        yield from _named("input", value)
        return
    names = [name for name in _COMMAND_NAMES if name in value]
    for name in names:
        yield from _named(name, value[name])
    # The agent chose these names: they must not pass for rows of ours.
    for name in (name for name in value if name not in names):
        yield from _named(f"input.{name}", value[name])


def _named(name: str, value: Any) -> Iterator[str]:
    """Name a value on one line, or, where it has several, on lines of its own."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) and len(text) > LONG_VALUE and not _deeper(value, DEEPEST):
        text = json.dumps(value, ensure_ascii=False, indent=2)
    head = f"  {escape(name):<8}"
    split = text.splitlines()
    if len(split) <= 1 and text == "".join(split):
        yield f"{head} {escape(text)}"
        return
    yield head
    # Other line ends than "\n" are not line ends to a shell: they are spelt out.
    yield from (f"{MARGIN}{escape(line)}" for line in text.split("\n"))


def _deeper(value: Any, levels: int) -> bool:
    """Tell whether a value is nested in more than so many levels."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(item, levels - 1) for item in inner)


def _is_diff(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "diff"


def _block_lines(block: Any) -> Iterator[str]:
    if _is_diff(block):
        yield f"  change   {_word(block.get('path'))}"
        yield from _diff_lines(block.get("oldText"), block.get("newText"))
        return
    if isinstance(block, Mapping) and block.get("type") == "terminal" and len(block) == 2:
        yield f"  terminal {_word(block.get('terminalId'))}"
        return
    inner = block.get("content") if isinstance(block, Mapping) else None
    if isinstance(inner, Mapping) and isinstance(inner.get("text"), str):
        yield from _named("text", inner["text"])
    else:
        yield from _named("content", block)


def _diff_lines(old: Any, new: Any) -> Iterator[str]:
    before = _text_lines(old) if isinstance(old, str) else []
    after = _text_lines(new) if isinstance(new, str) else [json.dumps(new)]
    if not before:
        yield f"{INDENT}(a new file)"
    if len(before) + len(after) > DIFF_LIMIT or not before:
        changes: Iterable[str] = (*("-" + line for line in before), *("+" + line for line in after))
    else:
        changes = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    yield from (f"{MARGIN}{line[:1]}{escape(line[1:])}" for line in changes)


def _text_lines(text: str) -> list[str]:
    """Return the lines of a text; that its last one has no end is a line of its own."""
    lines = text.split("\n")
    if lines[-1]:
        return [*lines, NO_LINE_END]
    return lines[:-1]


def _word(value: Any) -> str:
    return escape(str(value)) if value not in (None, "") else "-"


def _words(values: Sequence[Any]) -> str:
    return ", ".join(_word(value) for value in values)
