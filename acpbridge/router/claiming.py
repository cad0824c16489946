"""Who somebody says that they are, besides what the kernel says of them: it only ever lowers.

A peer inside a supervised tree stays what its ancestry says. One outside may say by a token of
which session its tools are, or be a client that the bridge does not run, with a key of its own: an
agent without a process of ours, which sees and starts what is below its key and answers nothing.
Above is the daemon's `hello`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import MAIN, SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import SessionRecord, SessionState
from acpbridge.router import routes
from acpbridge.router.directory import Directory
from acpbridge.router.session import Session
from acpbridge.router.surroundings import Surroundings
from acpbridge.router.tokens import Tokens

# In the record of a session that was made for a client: no runtime of ours runs it.
EXTERNAL: Final = "external"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a peer says of itself.

    Attributes:
        token: of its tools, "" for none.
        key: under which it wants to be known, "" for none.
        cwd: absolute directory it works in, for a session that has to be made.
    """

    token: str = ""
    key: str = ""
    cwd: str = ""


class Claiming:
    """Judges claims.

    Args:
        directory: the sessions that there are.
        around: the configuration.
        tokens: in force.
        now: the wall-clock time, ISO 8601.
        make: makes a session of a record.
        put: stores a record.
    """

    def __init__(
        self,
        directory: Directory,
        around: Surroundings,
        tokens: Tokens,
        *,
        now: Callable[[], str],
        make: Callable[[SessionRecord, AgentDefinition], Session],
        put: Callable[[SessionRecord], Awaitable[None]],
    ) -> None:
        self._directory = directory
        self._around = around
        self._tokens = tokens
        self._now = now
        self._make = make
        self._put = put

    async def judge(self, who: Requester, claim: Claim) -> Requester:
        """Return who a peer is, whatever it says.

        Args:
            who: it is by the kernel's word.
            claim: what it says.

        Raises:
            BridgeError: `permission_denied` for a token that is not its own, or not in force;
                `no_such_session`, `no_such_agent`, `session_closed` for a key.
        """
        if claim.token:
            return self._by_token(who, claim.token)
        if not claim.key or who.role is not Role.OPERATOR:
            return who
        session = await self._session(claim)
        if session.closing:
            message = f"The session {session.key} is closed."
            raise BridgeError("session_closed", message, hint="Choose another key: --session KEY.")
        return replace(who, role=Role.AGENT, session=session.key, external=True)

    def _by_token(self, who: Requester, token: str) -> Requester:
        owner = self._tokens.owner(token)
        if owner is None or (who.role is not Role.OPERATOR and who.session != owner):
            raise BridgeError("permission_denied", "The tool token is not in force here.", hint=_BY)
        return replace(who, role=Role.AGENT, session=owner)

    async def _session(self, claim: Claim) -> Session:
        key = SessionKey.parse(claim.key)
        session = self._directory.get(key)
        if key.kind != "main" and session is not None and session.record.runtime != EXTERNAL:
            message = f"{key} is a session that the bridge runs: no client may be it."
            raise BridgeError("permission_denied", message, hint=_OWN)
        if session is not None:
            return session
        if key.kind not in ("main", "subagent", "acp"):
            raise BridgeError("no_such_session", f"{key} cannot be a client's key.", hint=_OWN)
        return await self._new(key, claim.cwd)

    async def _new(self, key: SessionKey, cwd: str) -> Session:
        definition = AgentDefinition(id=key.agent)
        if key.agent != MAIN:
            definition = routes.find_agent(str(key.agent), self._around.config())
        record = SessionRecord(
            key=key,
            state=SessionState.IDLE,
            cwd=cwd if cwd.startswith("/") else self._around.daemon.home,
            created_at=self._now(),
            runtime=EXTERNAL,
            one_shot=False,
        )
        await self._put(record)
        # Another client of the same key may have been quicker.
        known = self._directory.get(key)
        if known is not None:
            return known
        session = self._make(record, definition)
        self._directory.add(session)
        return session


_BY: Final = "The agent's process has ended, or another one started this: start the agent again."
_OWN: Final = "Use agent:<id>:main of a configured agent, or leave --session out."
