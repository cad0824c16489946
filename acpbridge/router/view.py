"""How sessions are shown: the JSON rows of `status` and `sessions`, the same on every face."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from acpbridge.controller.census import ProcessInfo
from acpbridge.controller.strays import Unowned
from acpbridge.model.permission import Question
from acpbridge.model.sessions import TurnState, WaitsFor
from acpbridge.permissions import policy
from acpbridge.router.inner_requests import INNER
from acpbridge.router.leftover import is_between_turns, started_by_turns
from acpbridge.router.session import Session

# Processes that a warning names; the tree above it has them all.
NAMED: Final = 5

# A model that thinks says so every few seconds; beyond this somebody should have a look. Seconds.
SILENCE: Final = 120.0


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """What `status` says of the daemon itself.

    Attributes:
        pid: of the daemon.
        epoch: of this start.
        started_at: ISO 8601, UTC.
        version: of acpbridge.
        home: the state directory.
        socket: its control socket, "" in process.
        containment: how trees are held.
    """

    pid: int
    epoch: str
    started_at: str
    version: str
    home: str
    socket: str
    containment: str

    def to_json(self, keeper_pid: int, guard_pid: int) -> dict[str, Any]:
        """Return the shape in `status`."""
        return {
            "pid": self.pid,
            "keeperPid": keeper_pid,
            "guardPid": guard_pid,
            "epoch": self.epoch,
            "startedAt": self.started_at,
            "version": self.version,
            "home": self.home,
            "socket": self.socket,
            "containment": self.containment,
        }


def asks(session: Session) -> bool | None:
    """Tell whether a person is asked in the session's mode; None: nobody knows."""
    facts = session.definition.facts
    if bypasses(session):
        return False
    if facts.asking_mode is None or session.mode is None:
        if session.mode is not None and policy.names_mode(session.mode):
            return False  # by its name, whatever the program is
        return None
    return session.mode == facts.asking_mode


def bypasses(session: Session) -> bool:
    """Tell whether nobody is asked, by what is known of the session's mode or by its name."""
    mode = session.mode
    if session.agent is not None and session.agent.unasked:
        return True
    if mode is None:
        return False
    return mode in session.definition.facts.bypass_modes or policy.names_bypass(mode)


def row(
    session: Session, open_questions: list[Question], below: Sequence[Question] = ()
) -> dict[str, Any]:
    """Return a row of `sessions`; `below` are the questions of what it has started."""
    record, turn, agent = session.record, session.turn, session.agent
    tool_running = agent is not None and agent.tool_running
    error = record.last_error
    return {
        "key": str(record.key),
        "agentId": record.key.agent,
        "runtime": record.runtime,
        "state": record.state,
        "agentSessionId": record.agent_session_id,
        "cwd": record.cwd,
        "parentKey": None if record.lineage.parent is None else str(record.lineage.parent),
        "createdAt": record.created_at,
        "turn": None if turn is None else turn.to_json(tool_running=tool_running),
        "queueDepth": len(session.inbox),
        "pendingPermissions": len(open_questions),
        "questions": [
            {"id": q.request.id, "kind": q.request.ask.subject.kind, "askedAt": q.asked_at}
            for q in open_questions
        ],
        "questionsBelow": [
            {
                "id": q.request.id,
                "sessionKey": str(q.request.session),
                "kind": q.request.ask.subject.kind,
                "askedAt": q.asked_at,
            }
            for q in below
        ],
        "mode": session.mode,
        "asks": asks(session),
        "bypass": bypasses(session),
        "authSource": record.auth_source,
        "opens": record.opens,
        "settings": record.settings.to_json(),
        "formerSessionIds": list(record.former_session_ids),
        "lastError": None
        if error is None
        else {"code": error.get("code"), "message": error.get("message")},
        "closeReason": record.close_reason,
    }


def with_processes(
    shown: dict[str, Any], processes: list[ProcessInfo], held: str | None
) -> dict[str, Any]:
    """Return a row of `status`: a session with its whole tree, and how that is held."""
    return {
        **shown,
        "containment": held,
        "processes": [process.to_json() for process in processes],
    }


def unowned(found: Unowned) -> dict[str, Any]:
    """Return a row of what nobody owns."""
    return {"pid": found.pid, "name": found.name, "reason": found.reason, "next": found.next}


def silent(sessions: list[Session], now: float) -> list[str]:
    """Return a warning for each turn that was silent for too long while it waits for the model.

    A tool that runs and a person who thinks may be silent for as long as they like (case 123).
    """
    out = []
    for session in sessions:
        turn, agent = session.turn, session.agent
        if turn is None or agent is None or turn.state is TurnState.QUEUED:
            continue
        quiet = now - turn.last_update
        waits_for = turn.waits_for(tool_running=agent.tool_running)
        if waits_for is WaitsFor.MODEL and quiet >= SILENCE:
            out.append(
                f"{session.key}: no update for {quiet:.0f} s while it waits for the model; "
                f"end the turn: acpbridge cancel {session.key}"
            )
    return out


def between_turns(sessions: list[Session]) -> list[Session]:
    """Return those that have a process and no turn under way."""
    return [session for session in sessions if is_between_turns(session)]


def outliving(sessions: list[Session], trees: Mapping[str, list[ProcessInfo]]) -> list[str]:
    """Return a warning for each session of which something lives that an earlier turn started.

    Args:
        sessions: those that were between two turns before their trees were looked at.
        trees: of at least those.
    """
    out = []
    for session in between_turns(sessions):
        left = started_by_turns(session, trees[str(session.key)])
        if left:
            named = ", ".join(f"{process.name} ({process.pid})" for process in left[:NAMED])
            more = f" and {len(left) - NAMED} more" if left[NAMED:] else ""
            out.append(
                f"{session.key}: no turn runs, and what one started still does: {named}{more}; "
                f"end it with the session: acpbridge kill {session.key}"
            )
    return out


def stopped(sessions: list[Session], trees: Mapping[str, list[ProcessInfo]]) -> list[str]:
    """Return a warning for each agent that a signal has stopped: it looks alive and does nothing.

    Args:
        sessions: those that live.
        trees: of at least those.
    """
    return [
        f"{session.key}: its agent ({process.pid}) is stopped and does nothing; let it go on: "
        f"kill -CONT {process.pid}, or end it: acpbridge kill {session.key}"
        for session in sessions
        if not session.closing
        for process in trees[str(session.key)]
        if process.role == "agent" and process.state == "stopped"
    ]


def shared_directories(sessions: list[Session]) -> list[str]:
    """Return a warning for each directory that several live agents work in."""
    by_cwd: dict[str, list[str]] = {}
    for session in sessions:
        if session.record.runtime == INNER:
            continue  # its caller works there, and is counted
        by_cwd.setdefault(session.record.cwd, []).append(str(session.key))
    return [
        f"{len(keys)} live agents work in {cwd}: {', '.join(keys)}"
        for cwd, keys in by_cwd.items()
        if len(keys) > 1
    ]
