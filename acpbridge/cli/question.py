"""A question as a person sees it, and the person's line as an answer. Pure.

What is shown is what will really happen: arguments, paths and contents as the agent gave them, in
full, and never its title alone. Everything is escaped, line by line.
"""

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from acpbridge.cli.tables import clock
from acpbridge.model.display import escape
from acpbridge.model.permission import OptionKind, ToolKind
from acpbridge.permissions.policy import names_bypass, names_mode

Question = Mapping[str, Any]

INDENT: Final = "    "

# Before every line of the agent's own text, so that none can pass for one of ours.
MARGIN: Final = INDENT + "| "

# Beyond this a difference is not looked for, for the search grows with the square: the old text
# goes, the new one comes. Lines of both.
DIFF_LIMIT: Final = 2_000

# As a person knows it from other tools that show changes.
NO_LINE_END: Final = "(no line end)"

_COMMAND_NAMES: Final = ("command", "cmd", "argv", "args", "script")
_KINDS: Final = frozenset(OptionKind) - {OptionKind.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person's line comes to; one of the two is set.

    Attributes:
        effect: `allow` or `deny`.
        option_id: the exact id of an offered option.
        confirm: why it must be said a second time, "" if it need not.
    """

    effect: str | None = None
    option_id: str | None = None
    confirm: str = ""


def render(question: Question) -> str:
    """Return a question in full, as lines of text."""
    subject = question.get("subject")
    subject = subject if isinstance(subject, Mapping) else {}
    out = [
        f"permission {_word(question.get('id'))}: {_kind(question)}",
        f"  agent    {_word(question.get('agentId'))}",
        f"  session  {_word(question.get('sessionKey'))}",
        f"  title    {_word(question.get('title'))} (the agent's own words)",
    ]
    changed = subject.get("changed") or ()
    if changed:
        out.append(f"  WARNING  changed since it was announced: {_words(changed)}")
    if not subject.get("runId"):
        out.append("  WARNING  asked outside of any turn")
    out += _input_lines(subject.get("rawInput"))
    out += [f"  path     {_word(path)}" for path in subject.get("locations") or ()]
    for block in subject.get("content") or ():
        out += _block_lines(block)
    if question.get("expiresAt"):
        out.append(f"  expires  {clock(question['expiresAt'])}, then it is denied")
    return "\n".join([*out, "  options", *option_lines(question)])


def option_lines(question: Question) -> list[str]:
    """Return the offered options by number, the doubtful ones flagged."""
    out = []
    counts = Counter(str(option.get("optionId")) for option in options(question))
    for number, option in enumerate(options(question), 1):
        kind = _word(option.get("kind"))
        twice = counts[str(option.get("optionId"))] > 1
        flags = "".join(f"  ! {flag}" for flag in _flags(option, twice=twice))
        name, name_of = _word(option.get("name")), _word(option.get("optionId"))
        out.append(f"{INDENT}{number}) {name}  [{kind}]  id {name_of}{flags}")
    return out or [f"{INDENT}none"]


def options(question: Question) -> list[Mapping[str, Any]]:
    """Return the offered options."""
    offered = question.get("options")
    return [o for o in offered if isinstance(o, Mapping)] if isinstance(offered, list) else []


def parse(line: str, question: Question) -> Answer | None:
    """Return the answer that a line means: a number, an exact id, y or n; None if it means none."""
    word = line.strip()
    if word.lower() in ("y", "yes"):
        confirm = "it would change the agent's mode" if _switches(question) else ""
        return Answer(effect="allow", confirm=confirm)
    if word.lower() in ("n", "no"):
        return Answer(effect="deny")
    offered = options(question)
    found = [o for o in offered if o.get("optionId") == word]
    if word.isascii() and word.isdecimal() and 1 <= int(word) <= len(offered):
        # A number is the one that is shown, whatever the agent calls its options.
        found = [offered[int(word) - 1]]
    if len(found) != 1:
        return None
    return Answer(option_id=str(found[0].get("optionId")), confirm=_doubt(question, found[0]))


def doubt(question: Question, *, option_id: str | None, effect: str | None) -> tuple[str, str]:
    """Return why a choice must be said twice, and the id to say; two empty texts if it need not."""
    once = [o for o in options(question) if o.get("kind") == OptionKind.ALLOW_ONCE]
    if effect == "allow" and _switches(question) and len(once) == 1:
        return _doubt(question, once[0]), str(once[0].get("optionId"))
    for option in options(question):
        if option_id is not None and option.get("optionId") == option_id:
            return _doubt(question, option), option_id
    return "", ""


def ways(question: Question) -> str:
    """Return the prompt that says what may be typed."""
    count = len(options(question))
    numbers = "1" if count == 1 else f"1-{count}"
    return f"answer [{numbers}, y = allow once, n = deny]: "


def _switches(question: Question) -> bool:
    return question.get("kind") == ToolKind.SWITCH_MODE


def _doubt(question: Question, option: Mapping[str, Any]) -> str:
    """Return why an option must be confirmed, "" if it need not be."""
    kind = option.get("kind")
    if kind in (OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS):
        return ""
    if kind not in _KINDS:
        return "its kind is unknown, so it may do anything"
    if names_mode(str(option.get("optionId"))) or _switches(question):
        return "it would change the agent's mode"
    return ""


def _flags(option: Mapping[str, Any], *, twice: bool) -> Iterator[str]:
    if option.get("kind") not in _KINDS:
        yield "unknown kind: it may do anything"
    name = str(option.get("optionId"))
    if names_bypass(name):
        yield "nobody would be asked any more"
    elif names_mode(name):
        yield "less would be asked from then on"
    if twice:
        yield "this id is offered twice"
    if option.get("kind") == OptionKind.ALLOW_ALWAYS:
        yield "sent as `allow once` where exactly one is offered"


def _kind(question: Question) -> str:
    kind = question.get("kind")
    if kind in (None, ToolKind.OTHER):
        return "a tool of unknown kind (take it for the most dangerous)"
    return _word(kind)


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
    head = f"  {escape(name):<8}"
    split = text.splitlines()
    if len(split) <= 1 and text == "".join(split):
        yield f"{head} {escape(text)}"
        return
    yield head
    # Other line ends than "\n" are not line ends to a shell: they are spelt out.
    yield from (f"{MARGIN}{escape(line)}" for line in text.split("\n"))


def _block_lines(block: Any) -> Iterator[str]:
    if isinstance(block, Mapping) and block.get("type") == "diff":
        yield f"  change   {_word(block.get('path'))}"
        yield from _diff_lines(block.get("oldText"), block.get("newText"))
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
