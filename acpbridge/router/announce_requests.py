"""What may be asked about completions: those that wait for a session, and what is stuck of all."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from acpbridge.router.toolcall import ToolRequest

# Ids in one call; a client that has more acknowledges them with the next one.
MOST_IDS = 1000

_Id = Annotated[str, Field(max_length=200)]


class CompletionsRequest(ToolRequest):
    """What a session is to hear of runs that it had asked for (`sessions_completions`).

    Attributes:
        wait_seconds: how long to wait where there is none.
        acknowledge: ids of those that were taken in: they are not given again.
    """

    METHOD: ClassVar[str] = "tool/completions"
    WAITS: ClassVar[bool] = True

    wait_seconds: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 0.0
    acknowledge: Annotated[tuple[_Id, ...], Field(max_length=MOST_IDS)] = ()


class DeliveriesRequest(ToolRequest):
    """What became of completions, and what a person has become of those that are stuck.

    Attributes:
        action: list them, have some told again, or give them up.
        ids: which ones; for `list` none means all.
        everything: whether those are listed too that are over.
    """

    METHOD: ClassVar[str] = "tool/deliveries"

    action: Literal["list", "retry", "dismiss"] = "list"
    ids: Annotated[tuple[_Id, ...], Field(max_length=MOST_IDS)] = ()
    everything: bool = False
