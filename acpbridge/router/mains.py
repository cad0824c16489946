"""The main session of every configured agent: it is there before anybody has spoken to it.

A message to an agent finds it by the agent's id alone. It has no process until it is prompted, and
no directory until then either, unless its agent has a workspace: it works where its first caller
does, and where nobody says, it is not started. Above is the router, which looks here whenever
somebody looks at the sessions: a configuration counts from the moment that anybody can see it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import SessionKey
from acpbridge.model.sessions import SessionRecord, SessionState
from acpbridge.router.directory import Directory
from acpbridge.router.services import Services
from acpbridge.router.session import Session

Make = Callable[[SessionRecord, AgentDefinition], Session]


class Mains:
    """Keeps main sessions on record.

    Args:
        directory: the sessions that there are.
        services: the ledger, and what writes to it.
        config: the configuration in force.
        make: makes a session of a record.
    """

    def __init__(
        self, directory: Directory, services: Services, config: Callable[[], Config], make: Make
    ) -> None:
        self._directory = directory
        self._services = services
        self._config = config
        self._make = make

    def ensure(self) -> None:
        """Have the session of each agent that is configured now; nothing is awaited."""
        config = self._config()
        for agent in config.agents.values():
            key = SessionKey.main(agent.id)
            if self._directory.get(key) is not None:
                continue
            record = SessionRecord(
                key=key,
                state=SessionState.IDLE,
                cwd=agent.workspace,
                created_at=self._services.now(),
                runtime=agent.kind,
                one_shot=False,
                definition={"id": agent.id, "revision": config.revision},
            )
            self._directory.add(self._make(record, agent))
            self._services.scribe.put(partial(self._services.ledger.put_session, record))


def unused(session: Session) -> bool:
    """Tell whether a session is a main one that nobody has ever prompted."""
    record = session.record
    return record.key.kind == "main" and record.opens == 0 and session.at_rest


def housed(
    session: Session, definition: AgentDefinition, revision: str, cwds: tuple[str, ...], make: Make
) -> Session:
    """Return a main session that was never used as it is to be used: by today's definition.

    Args:
        session: it.
        definition: of its agent, now.
        revision: of the configuration that this is from.
        cwds: where it could work, if its agent has no workspace; the first one that is given.
        make: makes a session of a record.

    Raises:
        BridgeError: `cwd_resolution_failed`: nobody says where.
    """
    cwd = next(filter(None, (definition.workspace, session.record.cwd, *cwds)), "")
    if not cwd.startswith("/"):
        message = f"Nothing says in which directory {session.key} is to work."
        hint = f"Give {definition.id} a workspace in config.yaml, or prompt it with --cwd."
        raise BridgeError("cwd_resolution_failed", message, hint=hint)
    kept = replace(
        session.record,
        cwd=cwd,
        runtime=definition.kind,
        definition={"id": definition.id, "revision": revision},
    )
    return make(kept, definition)
