"""A question as a person sees it. Pure.

What is shown is what will really happen: arguments, paths and contents as the agent gave them, in
full, and never its title alone. Everything is escaped, line by line, and what is longer than the
terminal is wide goes on behind a margin, so that no text of an agent can pass for a row of ours.
What can be answered comes last.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from acpbridge.cli.moments import time_left, whole_seconds
from acpbridge.cli.questions.announced import was_lines
from acpbridge.cli.questions.pieces import INDENT, block_lines, input_lines, is_diff, word
from acpbridge.cli.terminal.wrapping import wrapped
from acpbridge.model.display import escape
from acpbridge.model.permission import Lasts, OptionKind, Source, ToolKind
from acpbridge.permissions.confirming import KNOWN_KINDS
from acpbridge.permissions.policy import names_bypass, names_mode

Question = Mapping[str, Any]

# Where a reason goes, by `told` of a decision: nobody should believe that it was heard already.
REASON_GOES: Final[Mapping[bool, str]] = {
    True: "the reason goes to the agent with the next prompt of its session",
    False: "the reason is kept in the audit and the log; the agent is not told",
}

_HARMLESS: Final = frozenset(
    {ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK, ToolKind.FETCH, ToolKind.OTHER, None}
)
_HARMLESS_WORDS: Final = frozenset(
    {"read", "reading", "view", "viewing", "think", "thinking", "search", "searching", "look"}
)

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
        f"permission {word(question.get('id'))}{which}: {_kind(question)}",
        *_who(question),
        *_tool(subject),
        f"  title    {word(question.get('title'))} {_whose(subject)}",
        *_warnings(question, subject),
        *input_lines(_input(subject)),
    ]
    blocks = subject.get("content") or ()
    below = {str(block.get("path")) for block in blocks if is_diff(block)}
    paths = dict.fromkeys(map(str, subject.get("locations") or ()))
    out += [f"  path     {word(path)}" for path in paths if path not in below]
    for block in blocks:
        out += block_lines(block)
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
        what = _OPTION_WORDS.get(kind, f"[{word(kind)}]") if isinstance(kind, str) else "[-]"
        name, name_of = word(option.get("name")), word(option.get("optionId"))
        out.append(f"{INDENT}{number}) {what}{flags}: {name}  (id {name_of})")
    return out or [f"{INDENT}none"]


def options(question: Question) -> list[Mapping[str, Any]]:
    """Return the offered options."""
    offered = question.get("options")
    return [o for o in offered if isinstance(o, Mapping)] if isinstance(offered, list) else []


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
        return f"granted while its agent runs: acpbridge permissions revoke {name} ends it"
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
    "grant_ended": "because the grant for it ended just then",
}


def _expiry(expires: Any, now: str) -> str:
    left = time_left(expires, now) if now else ""
    return f"in {left}" if left else word(expires)


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
        most = f", {whole_seconds(seconds)} at most" if isinstance(seconds, int | float) else ""
        return f"covers {word(grant.get('scope'))}, until its agent ends{most}"
    if lasts == Lasts.AGENT:
        return "sent as it is: what it covers, and for how long, is up to the agent"
    return "this once all the same: what it would cover is not certain"


def _who(question: Question) -> Iterator[str]:
    """Say who asks: which agent, in which session, started by which, and where it works."""
    yield f"  agent    {word(question.get('agentId'))}"
    yield f"  session  {word(question.get('sessionKey'))}"
    above = question.get("above")
    if isinstance(above, list) and above:
        yield f"  started  by {' below '.join(map(word, above))}"
    if question.get("cwd"):
        yield f"  works in {word(question['cwd'])}"


def _tool(subject: Mapping[str, Any]) -> Iterator[str]:
    tool, server = subject.get("tool"), subject.get("server")
    if tool or server:
        yield f"  tool     {word(tool)}" + (f" of MCP server {word(server)}" if server else "")


def _kind(question: Question) -> str:
    kind = question.get("kind")
    if kind in (None, ToolKind.OTHER):
        return "a tool of unknown kind (treated as the most dangerous)"
    return word(kind)


def _whose(subject: Mapping[str, Any]) -> str:
    ours = subject.get("source") in (Source.FILES, Source.TERMINAL)
    return "(what acpbridge would do)" if ours else "(the agent's own words)"


def _input(subject: Mapping[str, Any]) -> Any:
    """Return what is given, without the text of a file that the change below shows whole."""
    given = subject.get("rawInput")
    if subject.get("source") != Source.FILES or not isinstance(given, Mapping):
        return given
    shown = [block.get("newText") for block in subject.get("content") or () if is_diff(block)]
    return {k: v for k, v in given.items() if k != "content" or v not in shown}


def _warnings(question: Question, subject: Mapping[str, Any]) -> Iterator[str]:
    if subject.get("source") == Source.AGENT and _belied(question, subject):
        yield f"  WARNING  the title speaks of less than what is asked: {_kind(question)}"
    changed = subject.get("changed") or ()
    if changed:
        yield f"  WARNING  changed since it was announced: {_words(changed)}"
        yield from was_lines(subject)
    for caution in subject.get("cautions") or ():
        yield f"  WARNING  {word(caution)}"
    if not subject.get("runId"):
        yield "  WARNING  asked outside of any turn: nobody had asked the agent for anything"
    if subject.get("rawInput") is None and not any(map(is_diff, subject.get("content") or ())):
        yield "  WARNING  no input was given: the title is only the agent's claim of what it does"


def _belied(question: Question, subject: Mapping[str, Any]) -> bool:
    """Tell whether a title begins like something harmless, and something else is asked.

    It is never taken for what happens; a title that is the command itself says what happens.
    """
    title = str(question.get("title") or "").strip()
    if not title or question.get("kind") in _HARMLESS:
        return False
    given = subject.get("rawInput")
    if isinstance(given, Mapping) and title in given.values():
        return False
    return title.split()[0].lower().strip(":.") in _HARMLESS_WORDS


def _words(values: Sequence[Any]) -> str:
    return ", ".join(word(value) for value in values)
