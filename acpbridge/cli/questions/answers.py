"""What a person types at a question, as an answer. Pure.

A number is the option that was shown under it, whatever the agent calls its options; a few letters
are ours; anything else must be an offered option's exact id, or it answers nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from acpbridge.cli.questions.question import Question, options
from acpbridge.model.permission import OptionKind, ToolKind
from acpbridge.permissions import confirming

# No agent offers more options than a number of so many digits counts.
LONGEST_NUMBER: Final = 6

_REJECTS: Final = (OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS)

HELP: Final = """\
  1, 2, ...      the option of that number
  y              allow, this once; needs exactly one option that does so
  d              deny, this once
  d REASON       deny, and say why: kept in audit and log, told with the agent's next prompt
  v              view all of it, where a part was left out
  s              later: leave the question in the inbox, until its time is up
  ?              this list
An option's exact id is taken as well. Doubtful choices must be said twice."""


class Word(StrEnum):
    """What a person may say that is no answer to the agent."""

    HELP = "?"
    LATER = "s"
    ALL = "v"


_WORDS: Final = {
    **dict.fromkeys(("?", "h", "help"), Word.HELP),
    **dict.fromkeys(("s", "later"), Word.LATER),
    **dict.fromkeys(("v", "view"), Word.ALL),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person's line comes to; one of the two is set.

    Attributes:
        effect: `allow` or `deny`.
        option_id: the exact id of an offered option.
        confirm: why it must be said a second time, "" if it need not.
        note: the person's reason.
    """

    effect: str | None = None
    option_id: str | None = None
    confirm: str = ""
    note: str = ""


def parse(line: str, question: Question) -> Answer | Word | None:
    """Return what a line means: a number, a letter of ours, an exact id; None if it means none."""
    text = line.strip()
    first, _, rest = text.partition(" ")
    if first.lower() in ("d", "deny"):
        return Answer(effect="deny", note=rest.strip())
    word = text.lower()
    if word in ("y", "yes"):
        confirm = confirming.OF_A_MODE if _switches(question) else ""
        return Answer(effect="allow", confirm=confirm)
    if word in ("n", "no"):
        return Answer(effect="deny")
    return _WORDS[word] if word in _WORDS else _chosen(text, question)


def _chosen(text: str, question: Question) -> Answer | None:
    """Return the option that a number or an exact id means."""
    offered = options(question)
    found = [o for o in offered if o.get("optionId") == text]
    if len(text) <= LONGEST_NUMBER and text.isascii() and text.isdecimal():
        # A number is the one that is shown, whatever the agent calls its options.
        found = offered[int(text) - 1 : int(text)] if int(text) else []
    if len(found) != 1:
        return None
    return Answer(option_id=str(found[0].get("optionId")), confirm=_doubt(question, found[0]))


def allows(answer: Answer, question: Question) -> bool:
    """Tell whether an answer may let anything happen: all but what is sure to deny."""
    if answer.option_id is None:
        return answer.effect != "deny"
    kinds = [o.get("kind") for o in options(question) if o.get("optionId") == answer.option_id]
    return any(kind not in _REJECTS for kind in kinds)


def ways(question: Question, *, more: bool = False) -> str:
    """Return the prompt that says what may be typed; `more` is left to be viewed."""
    count = len(options(question))
    numbers = {0: "", 1: "1, "}.get(count, f"1-{count}, ")
    yes = "y = allow once, " if one_allows(question) else ""
    view = "v = view all, " if more else ""
    return f"answer [{numbers}{yes}{view}d = deny, ? = help]: "


def one_allows(question: Question) -> bool:
    """Tell whether `allow` means one option: with none, or among several, it answers nothing."""
    return [o.get("kind") for o in options(question)].count(OptionKind.ALLOW_ONCE) == 1


def _switches(question: Question) -> bool:
    return question.get("kind") == ToolKind.SWITCH_MODE


def _doubt(question: Question, option: Mapping[str, Any]) -> str:
    """Return why an option must be confirmed, "" if it need not be; the daemon demands it too."""
    name, kind = str(option.get("optionId")), str(option.get("kind"))
    return confirming.doubt(name, kind, switches=_switches(question))
