"""All that has to do with the ends of runs that somebody is to hear of, put together.

Above is the router; the parts know one another through what they are handed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anyio.abc import TaskGroup

from acpbridge.router.announce import Accept, Announcing
from acpbridge.router.announce_requests import CompletionsRequest, DeliveriesRequest
from acpbridge.router.attention import Attention
from acpbridge.router.completions import Completions
from acpbridge.router.directory import Directory
from acpbridge.router.dues import Dues
from acpbridge.router.relaying import Relaying
from acpbridge.router.reporting import Reporting
from acpbridge.router.runs import Runs
from acpbridge.router.services import Services
from acpbridge.router.surroundings import Surroundings
from acpbridge.router.toolcall import ToolHandler, ToolRequest


@dataclass(frozen=True, slots=True)
class Completing:
    """The parts.

    Attributes:
        announcing: tells sessions of what has ended.
        attention: tells those above of questions.
        relaying: shows how a run gets on.
        dues: what is still to be told.
        handlers: the tools that are served.
    """

    announcing: Announcing
    attention: Attention
    relaying: Relaying
    dues: Dues
    handlers: Mapping[type[ToolRequest], ToolHandler[Any]]


def completing(
    directory: Directory,
    runs: Runs,
    services: Services,
    around: Surroundings,
    *,
    accept: Accept,
    tasks: TaskGroup,
) -> Completing:
    """Put the parts together, and begin to tell.

    Args:
        directory: the sessions that there are.
        runs: the runs under way.
        services: what sessions work with.
        around: where the router finds itself.
        accept: accepts a turn.
        tasks: for what goes on beside whoever asks.
    """
    dues = Dues(directory, services)
    reporting = Reporting(directory, services, around.plain_environment)
    announcing = Announcing(directory, runs, services, reporting, dues, accept)
    completions = Completions(directory, runs, services, dues, announcing, reporting)
    tasks.start_soon(announcing.serve, name="announcing")
    return Completing(
        announcing,
        Attention(directory, services),
        Relaying(directory, services, tasks),
        dues,
        {
            CompletionsRequest: completions.fetch,
            DeliveriesRequest: completions.deliveries,
        },
    )
