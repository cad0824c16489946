"""The session tools and what works for them while the router does: composed here, a part each.

Above is the router, which says who may call what; below are spawning, sending, looking, telling and
the team, none of which knows another but by what it is handed.
"""

from collections.abc import Collection
from contextlib import AsyncExitStack
from typing import Any

from anyio.abc import TaskGroup

from acpbridge.model.requesters import Requester
from acpbridge.router.accepting import Accepting
from acpbridge.router.api import RunRequest
from acpbridge.router.archiving import Archiving
from acpbridge.router.attachments import Staging
from acpbridge.router.completing import Completing
from acpbridge.router.ending import Ending
from acpbridge.router.hearing import Hearing
from acpbridge.router.house_team import HouseTeam
from acpbridge.router.lookers import Parts, look_handlers
from acpbridge.router.roster import Roster
from acpbridge.router.send import Sending
from acpbridge.router.send_requests import SendRequest
from acpbridge.router.spawn import Spawning
from acpbridge.router.spawn_requests import SpawnRequest
from acpbridge.router.team_requests import AskRequest, DelegationsRequest
from acpbridge.router.toolcall import AgentsRequest, ToolHandler, ToolRequest
from acpbridge.router.tooling import Tooling, ToolsRequest
from acpbridge.transport.tasks import Owner, background


class Toolbox(Owner):
    """Serves the session tools; use it as an async context manager.

    Args:
        parts: what the tools that look stand on; `tools` is filled here.
        handlers: the mapping that `parts` has as `tools`.
        accepting: the one way by which a run begins.
        ending: ends runs and sessions.
        completing: tells those who are to hear of the ends of runs.
        tasks: runs what goes on beside the calls.

    Attributes:
        sending: takes messages from session to session.
    """

    def __init__(
        self,
        parts: Parts,
        handlers: dict[type[ToolRequest], ToolHandler[Any]],
        accepting: Accepting,
        ending: Ending,
        completing: Completing,
        tasks: TaskGroup,
    ) -> None:
        directory, services, config = parts.directory, parts.services, parts.around.config
        self._handlers = handlers
        self._tooling = Tooling(directory, config, self.tools)
        staging = Staging(parts.around.daemon.home)
        self._archiving = Archiving(
            directory,
            services,
            staging,
            lambda: config().tools.sessions_spawn.attachments.retain_on_session_keep,
        )
        spawning = Spawning(
            directory,
            accepting,
            config,
            ids=services.ids,
            staging=staging,
            attended=services.attended,
            relay=completing.relaying.start,
        )
        hearing = Hearing(parts.runs, services, completing.announcing)
        self.sending = Sending(directory, services, config, accepting, hearing, tasks)
        self._team = HouseTeam(directory, parts.runs, services, config, accepting, ending)
        more: dict[type[ToolRequest], ToolHandler[Any]] = {
            AgentsRequest: Roster(directory, config).agents,
            ToolsRequest: self._tooling.tools,
            SpawnRequest: spawning.spawn,
            SendRequest: self.sending.send,
            AskRequest: self._team.ask,
            DelegationsRequest: self._team.delegations,
        }
        handlers |= more
        handlers |= completing.handlers
        handlers |= look_handlers(parts)

    async def _enter(self, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(background(self._archiving.serve))
        await stack.enter_async_context(self._team)

    async def stop(self) -> None:
        """Take no more work of the team."""
        await self._team.stop()

    def tools(self) -> Collection[type[ToolRequest]]:
        """Return the tools that are served."""
        return self._handlers.keys()

    def check_run(self, request: RunRequest, requester: Requester) -> None:
        """Check that the requester may start what it wants to run; see `Tooling.check_run`."""
        self._tooling.check_run(request, requester)

    async def call(self, request: ToolRequest, requester: Requester) -> dict[str, Any]:
        """Serve one call, if its tool is the requester's at all; see `RouterApi.tool`."""
        self._tooling.check(request, requester)
        return await self._handlers[type(request)](request, requester)
