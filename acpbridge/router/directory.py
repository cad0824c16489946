"""Which sessions there are, who spawned whom, and who may see or touch which of them."""

from collections.abc import Callable, Iterator

from acpbridge.config.tools import NO_TOOLS, Tools
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.router import routes
from acpbridge.router.authorize import Action, Target, authorize, may, unreachable
from acpbridge.router.delegating import Asker
from acpbridge.router.inner_requests import INNER
from acpbridge.router.lane import in_lane
from acpbridge.router.session import Session
from acpbridge.router.standstill import stands_still
from acpbridge.router.turns import Turn


class Directory:
    """All sessions of the router by key, in the order they were made.

    Args:
        tools: how far agents reach, by the configuration in force.
    """

    def __init__(self, tools: Callable[[], Tools] = lambda: NO_TOOLS) -> None:
        self._sessions: dict[SessionKey, Session] = {}
        self._tools = tools

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def add(self, session: Session) -> None:
        """Take a session in."""
        self._sessions[session.key] = session

    def drop(self, session: Session) -> None:
        """Forget a session that was never put on record."""
        self._sessions.pop(session.key, None)

    def get(self, key: SessionKey) -> Session | None:
        """Return a session, None if there is none of this key."""
        return self._sessions.get(key)

    def children(self, parent: SessionKey) -> list[Session]:
        """Return what a session has spawned itself."""
        return [s for s in self._sessions.values() if s.record.lineage.parent == parent]

    def asker(self, parent: Session) -> Asker:
        """Return a session as one that asks for a child: by its stored lineage alone."""
        line = [parent.key, *self.line_above(parent.key)]
        return Asker(
            agent=parent.key.agent,
            depth=parent.record.lineage.depth,
            chain=tuple(key.agent for key in reversed(line)),
            children=sum(child.active for child in self.children(parent.key)),
        )

    def with_descendants(self, tops: list[Session]) -> list[Session]:
        """Return sessions with all that was spawned below them, each once, the given ones first."""
        keys = dict.fromkeys(session.key for session in tops)
        parents = self._parents()
        for top in tops:
            keys |= dict.fromkeys(routes.descendants(top.key, parents))
        return [self._sessions[key] for key in keys]

    def above(self, sessions: list[Session]) -> dict[SessionKey, tuple[SessionKey, ...]]:
        """Return, for each, the keys of who spawned it and of who spawned that one."""
        return {session.key: self._target(session.key).ancestors for session in sessions}

    def line_above(self, key: SessionKey) -> tuple[SessionKey, ...]:
        """Return the keys of all that a session lies below, the nearest first."""
        return self._target(key).ancestors

    def persons_roots(self, key: SessionKey) -> tuple[str, ...] | None:
        """Return within which directories a person has this session work; None: its own are that.

        Where an agent's child works is the agent's choice, unless it is where the family works or
        where the configuration has the child's agent work.
        """
        session = self._sessions.get(key)
        if session is None:
            return ()
        record = session.record
        if record.lineage.parent is None:
            return None
        top = None if record.lineage.root is None else self._sessions.get(record.lineage.root)
        roots = () if top is None else (top.record.cwd, *top.record.additional_directories)
        workspace = session.definition.workspace
        return (*roots, workspace) if workspace else roots

    def turns_below(self, turn: Turn) -> list[tuple[Session, Turn]]:
        """Return the turns that a turn's agent has asked for, and those that they have."""
        return [
            (session, one)
            for session in self._sessions.values()
            for one in (session.turn, *session.inbox.waiting())
            if one is not None and one.asked_by(turn)
        ]

    def asked_by(self, session: Session) -> set[SessionKey]:
        """Return in which sessions that runs, or waits, which a session's turn waits for."""
        turn = session.turn
        return {
            other.key
            for other in self._sessions.values()
            for one in (other.turn, *other.inbox.waiting())
            if one is not None and one.caller is turn is not None and not one.request.detached
        }

    def stands_still(
        self, asking: Session, wanted: SessionKey | None, *, lane: bool = False
    ) -> bool:
        """Tell whether nobody with a place could go on, if one waited for one more without.

        Args:
            asking: who would wait.
            wanted: for which session, which has no place; None for a new one.
            lane: whether only the places of the lane are looked at.
        """
        sessions = list(self._sessions.values())
        processes = [s for s in sessions if s.has_place and s.record.runtime != INNER]
        holders = {s.key for s in processes if not lane or in_lane(s.record)}
        waits: dict[SessionKey | None, set[SessionKey | None]] = {
            key: {*self.asked_by(self._sessions[key])} for key in holders
        }
        waits.setdefault(asking.key, set()).add(wanted)
        placeless = {s.key for s in sessions if s.active and not s.has_place}
        return stands_still(holders, waits, {*placeless, wanted})

    def above_active(self) -> set[SessionKey]:
        """Return the keys of all that is anywhere above a session with something to do."""
        parents = self._parents()
        active = [session.key for session in self._sessions.values() if session.active]
        return {above for key in active for above in routes.ancestors(key, parents)}

    # ---- Who may ----

    def find(self, text: str, requester: Requester, action: Action) -> Session:
        """Return the one session that a key, or a part of one, means.

        What a requester may not see, does not exist for it (case 139).

        Raises:
            BridgeError: `no_such_session`, `ambiguous_key`, `permission_denied`.
        """
        visible = self.visible(requester)
        try:
            key = routes.find_session(text, [s.key for s in visible])
        except BridgeError as error:
            if error.code == "no_such_session" and requester.role is Role.AGENT:
                raise unreachable() from None
            if error.code != "ambiguous_key":
                raise
            # Of several on record, the one that runs is meant.
            active = [s.key for s in visible if s.active and text in str(s.key)]
            if len(active) != 1:
                raise
            key = active[0]
        authorize(action, requester, self._target(key))
        return self._sessions[key]

    def visible(self, requester: Requester) -> list[Session]:
        """Return the sessions that a requester may see."""
        return [s for s in self._sessions.values() if self.may(Action.SEE, requester, s.key)]

    def may(self, action: Action, requester: Requester, key: SessionKey) -> bool:
        """Tell whether a requester may do something to a session."""
        if requester.role is Role.OPERATOR:
            return True
        return may(action, requester, self._target(key))

    def asking(self, requester: Requester) -> Session | None:
        """Return the session whose agent wants something run; None: it is a person.

        Raises:
            BridgeError: `permission_denied` for an agent of no session that is known here,
                `session_closed` if its session, or its process, is being ended (G12).
        """
        if requester.role is not Role.AGENT:
            return None
        parent = None if requester.session is None else self._sessions.get(requester.session)
        if parent is None:
            message = "An agent of an unknown session may not run anything."
            raise BridgeError("permission_denied", message)
        # A client that the bridge does not run has no process here that could be ended.
        if not (parent.may_spawn or (requester.external and not parent.closing)):
            raise BridgeError("session_closed", "The session that asks is being ended.")
        return parent

    def _target(self, key: SessionKey) -> Target:
        # Its own line alone, and not that of all there are: an agent may ask very often.
        line: dict[SessionKey, SessionKey | None] = {}
        above: SessionKey | None = key
        while above is not None and above not in line:
            session = self._sessions.get(above)
            parent = None if session is None else session.record.lineage.parent
            line[above], above = parent, parent
        return Target(key, routes.ancestors(key, line), self._tools())

    def _parents(self) -> dict[SessionKey, SessionKey | None]:
        return {key: s.record.lineage.parent for key, s in self._sessions.items()}
