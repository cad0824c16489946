"""What a person said with a denial, kept until the agent can be told: with its next prompt.

No field of the protocol takes a reason. A turn that goes on after a denial is not spoken into; the
next prompt of that session carries the reason behind it, as a block that says who speaks; it is
told once, in order. It is in memory only: the audit and the session's log have it for good. Above
are the questions, which put it here, and the life of a process, which takes it.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from acpbridge.model.display import clip, escape
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Decision, Effect, PermissionRequest, Reason
from acpbridge.router.turns import Turn

# Reasons that wait for one prompt; of more the newest count. A person types each of them.
MOST: Final = 16

# Of one reason; what is longer is cut, with a mark. Characters.
LONGEST: Final = 2_000

# Of the title that names what was denied. Characters.
TITLE: Final = 200

# Sessions that reasons wait for; most are never prompted again, and the oldest are forgotten.
SESSIONS: Final = 64

# A prompt that failed so was never heard: the next one carries its reasons.
_UNHEARD: Final = frozenset({"mode_not_set", "resume_not_found", "unsupported_control"})

HEAD: Final = (
    "[From acpbridge, not part of the prompt. A person denied what you asked for before, "
    "and gave a reason:]"
)


@dataclass(slots=True)
class _Kept:
    """What waits for one session, and what its last prompt carried."""

    waiting: list[str] = field(default_factory=list)
    left_out: int = 0
    carried: list[str] = field(default_factory=list)
    by: Turn | None = None


def remarkable(decision: Decision) -> bool:
    """Tell whether a person denied something and said why."""
    by_person = decision.reason is Reason.OPERATOR
    return by_person and decision.effect is Effect.DENY and bool(decision.note.strip())


class Remarks:
    """The reasons that agents were not told yet."""

    def __init__(self) -> None:
        self._kept: OrderedDict[SessionKey, _Kept] = OrderedDict()

    def add(self, request: PermissionRequest, decision: Decision) -> None:
        """Keep the reason of a denial; see `remarkable`."""
        kept = self._kept.setdefault(request.session, _Kept())
        self._kept.move_to_end(request.session)
        title = clip(escape(request.ask.subject.title or request.ask.subject.kind), TITLE)
        reason = clip(decision.note.strip(), LONGEST)
        kept.waiting.append(f"- denied `{title}`: {reason}")
        kept.left_out += max(0, len(kept.waiting) - MOST)
        del kept.waiting[:-MOST]
        while len(self._kept) > SESSIONS:
            self._kept.popitem(last=False)

    def behind(
        self, session: SessionKey, turn: Turn, content: Sequence[Mapping[str, Any]]
    ) -> tuple[tuple[Mapping[str, Any], ...], int]:
        """Return a prompt with what its session is to be told, and how many reasons are news.

        It stands behind what was asked: an agent may look for words of its own at the beginning.
        """
        kept = self._kept.get(session)
        if kept is None:
            return tuple(content), 0
        if kept.by is not turn:
            before = kept.carried if _unheard(kept.by) else []
            more = [f"- and {kept.left_out} more before these"] if kept.left_out else []
            kept.by, kept.carried = turn, [*before, *more, *kept.waiting]
            kept.waiting, kept.left_out = [], 0
            news = len(kept.carried)
        else:
            news = 0  # the same prompt once more: the agent has not taken it
        if not kept.carried:
            return tuple(content), 0
        text = "\n".join([HEAD, *kept.carried])
        return (*content, {"type": "text", "text": text}), news

    def forget(self, session: SessionKey) -> None:
        """Drop what a session was to be told."""
        self._kept.pop(session, None)


def _unheard(turn: Turn | None) -> bool:
    return turn is not None and turn.error is not None and turn.error.code in _UNHEARD
