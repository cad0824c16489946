"""What there is to see: sessions, their turns and their processes. Never cached."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Question
from acpbridge.model.requesters import Requester, Role
from acpbridge.router import mains, view
from acpbridge.router.authorize import Action
from acpbridge.router.directory import Directory
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.surroundings import Inspector, Surroundings

# What agents and people said, in a row of a session.
_SAID: Final = ("agentSessionId", "formerSessionIds", "mode", "settings", "lastError")

_OfSessions = dict[SessionKey, list[Question]]


class Looking:
    """Answers who wants to see.

    Args:
        directory: the sessions that there are.
        inspector: what really runs.
        services: the open questions, and the clock.
        around: what is known of the daemon.
    """

    def __init__(
        self, directory: Directory, inspector: Inspector, services: Services, around: Surroundings
    ) -> None:
        self._directory = directory
        self._inspector = inspector
        self._services = services
        self._around = around

    async def status(self, key: str, requester: Requester) -> dict[str, Any]:
        """Return the truth, now; see `RouterApi.status`."""
        visible = self._directory.visible(requester)
        if key:
            shown = [self._directory.find(key, requester, Action.SEE)]
        else:
            shown = [session for session in visible if session.active]
        resting = view.between_turns(shown)
        # The trees first: the states that are told with them are then not older than they.
        trees = await self._inspector.trees([str(session.key) for session in shown])
        # Who has come to rest since has no process any more, whatever the first look saw.
        rested = [str(s.key) for s in shown if not s.live and trees[str(s.key)]]
        if rested:
            trees |= await self._inspector.trees(rested)
        pending, below = self._pending(requester)
        rows = [
            view.with_processes(
                self._row(session, pending[session.key], below[session.key]),
                trees[str(session.key)],
                self._inspector.held(str(session.key)),
            )
            for session in shown
        ]
        live = [session for session in visible if session.live]
        # What concerns the whole daemon may name sessions of others: it is no agent's to read.
        whole = requester.role is not Role.AGENT
        warnings = [*self._around.notices(), *self._around.config().warnings] if whole else []
        policy, of_policy = await self._around.policy() if whole else (None, [])
        unowned = await self._inspector.unowned() if whole else []
        silent = view.silent(visible, self._services.clock.monotonic())
        near = [warning for session in live for warning in await session.near_limits()]
        outliving = view.outliving(resting, trees)
        stopped = view.stopped([session for session in shown if session.live], trees)
        return {
            "daemon": self._around.daemon.to_json(
                self._inspector.keeper_pid, self._inspector.guard_pid
            ),
            "sessions": rows,
            "unowned": [view.unowned(p) for p in unowned],
            "pendingPermissions": sum(len(pending[session.key]) for session in visible),
            "policy": policy,
            "warnings": [
                *of_policy,
                *warnings,
                *view.shared_directories(live),
                *silent,
                *near,
                *outliving,
                *stopped,
            ],
            "observedAt": self._services.now(),
        }

    def sessions(
        self, requester: Requester, *, everything: bool, agent: str = "", cwd: str = ""
    ) -> list[dict[str, Any]]:
        """Return rows, the newest last; see `RouterApi.sessions`."""
        seen = [
            session
            for session in self._directory.visible(requester)
            if (everything or session.active)
            and agent in ("", session.key.agent)
            and cwd in ("", session.record.cwd)
        ]
        # A main session that nobody used is nobody's last one.
        seen.sort(key=lambda one: (not mains.unused(one), one.record.created_at))
        return self.rows(seen, requester)

    def rows(self, sessions: Iterable[Session], requester: Requester) -> list[dict[str, Any]]:
        """Return the row of each: the one projection of a session, on whatever face."""
        pending, below = self._pending(requester)
        return [self._row(one, pending[one.key], below[one.key]) for one in sessions]

    def matching(self, agent: str, requester: Requester) -> list[str]:
        """Return keys of live sessions; see `RouterApi.matching`."""
        active = [session for session in self._directory.visible(requester) if session.active]
        return [str(s.key) for s in active if agent in ("", str(s.key.agent))]

    def _row(
        self, session: Session, questions: list[Question], below: list[Question]
    ) -> dict[str, Any]:
        shown = view.row(session, questions, below)
        return {**shown, **self._services.redact({name: shown[name] for name in _SAID})}

    def _pending(self, requester: Requester) -> tuple[_OfSessions, _OfSessions]:
        """Return the open questions by the session that asks, and by those above it.

        What is asked in a session that the requester may not see, is not there for it.
        """
        own: _OfSessions = defaultdict(list)
        below: _OfSessions = defaultdict(list)
        for question in self._services.broker.questions():
            if not self._directory.may(Action.SEE, requester, question.request.session):
                continue
            own[question.request.session].append(question)
            for above in self._directory.line_above(question.request.session):
                below[above].append(question)
        return own, below
