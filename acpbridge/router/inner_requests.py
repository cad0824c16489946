"""What an agent says of the roles that run inside a run of its own: it is no tool of a model's.

Pure. Above is `inner`, which serves it.
"""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, StrictStr

from acpbridge.model.sessions import Outcome
from acpbridge.router.toolcall import ToolRequest

INNER: Final = "inner"
"""The runtime of a session whose work is done by the process of the session above it."""

# Of what a role has said; the rest of it is cut off. Characters.
TEXT_LIMIT: Final = 1_000_000


class InnerRequest(ToolRequest):
    """One step in the life of a role.

    Attributes:
        action: `open` it, begin a `turn`, say how that did `end`, `close` it.
        parent_key: below whom it is opened: a role of the same agent; "" for the agent itself.
        role: its name.
        path: its call path.
        session_key: as `open` has told it.
        run_id: as `turn` has told it.
        task: of a turn.
        outcome: of a turn; one that is neither completed nor cancelled has failed.
        text: what was said.
        error_code: of a failed turn.
        error: of a failed turn, in words.
    """

    METHOD: ClassVar[str] = "tool/inner"

    action: Literal["open", "turn", "end", "close"]
    parent_key: StrictStr = ""
    role: Annotated[StrictStr, Field(max_length=64)] = ""
    path: Annotated[StrictStr, Field(max_length=512)] = ""
    session_key: StrictStr = ""
    run_id: StrictStr = ""
    task: StrictStr = ""
    outcome: Outcome = Outcome.FAILED
    text: Annotated[StrictStr, Field(max_length=TEXT_LIMIT, repr=False)] = ""
    error_code: StrictStr = ""
    error: StrictStr = ""


class InnerWait(ToolRequest):
    """Wait until a role's turn is unwanted or over.

    Attributes:
        session_key: as `open` has told it.
        run_id: as `turn` has told it.
    """

    METHOD: ClassVar[str] = "tool/inner/wait"
    WAITS: ClassVar[bool] = True

    session_key: StrictStr
    run_id: StrictStr
