"""One run under way: its events, its questions, its end.

Events are read only when somebody wants them, so a program that is slow holds nobody up and nothing
is kept for it. A run that is left before its end is cancelled, as by one who goes away.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pydantic_core
from anyio.abc import TaskGroup

from acpbridge.embed.questions import Answer, Asked, OpenQuestion
from acpbridge.errors import BridgeError
from acpbridge.model.events import TURN_ENDS
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import Outcome
from acpbridge.router.api import Following, RouterApi, RunReceipt

# Somebody else was faster: the question is decided, and that is all that was wanted.
_DECIDED: Final = ("already_resolved", "no_such_question")


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One event of a run.

    Attributes:
        type: `update`, `permission_asked`, `turn_ended`, ...
        value: the whole event, as `acpbridge run --format json` prints it.
    """

    type: str
    value: Mapping[str, Any]

    @property
    def update(self) -> Mapping[str, Any]:
        """The agent's own object of an update, empty for any other event."""
        update = self.value.get("update") if self.type == "update" else None
        return update if isinstance(update, Mapping) else {}

    @property
    def kind(self) -> str:
        """The word of an update (`agent_message_chunk`, `tool_call`, ...), "" for other events."""
        return str(self.update.get("sessionUpdate", ""))

    @property
    def text(self) -> str:
        """What the agent says in a chunk of its message, "" in any other event."""
        content = self.update.get("content") if self.kind == "agent_message_chunk" else None
        text = content.get("text") if isinstance(content, Mapping) else None
        return text if isinstance(text, str) else ""


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended.

    Attributes:
        key: of its session; go on with it by `session=result.key`.
        run_id: of the run.
        outcome: from the record, and never from what the agent said.
        text: what the agent said.
        stop_reason: the agent's word for the end, None where there is none.
        error: why it failed, None if it did not.
        usage: tokens, as the agent counted them.
    """

    key: str
    run_id: str
    outcome: Outcome
    text: str
    stop_reason: str | None = None
    error: BridgeError | None = None
    usage: Mapping[str, Any] | None = None

    @property
    def ok(self) -> bool:
        """Whether the turn ended normally; a permission may have been denied in it."""
        return self.outcome is Outcome.COMPLETED

    def check(self) -> "Result":
        """Return the result of a run that ended normally.

        Raises:
            BridgeError: why it did not.
        """
        if self.ok:
            return self
        raise self.error or BridgeError("turn_failed", f"The turn ended: {self.stop_reason}.")


class Run:
    """A run under way; `Bridge.start` makes it.

    Attributes:
        key: of the session.
        run_id: of the run.
        agent: id of the agent that was chosen.
        warnings: what is worth saying at the start.
    """

    def __init__(
        self,
        receipt: RunReceipt,
        following: Following,
        api: RouterApi,
        requester: Requester,
        tasks: TaskGroup,
        on_question: Asked | None,
    ) -> None:
        self.key = str(receipt.key)
        self.run_id = receipt.run_id
        self.agent = receipt.agent
        self.warnings = receipt.warnings
        self._following = following
        self._api = api
        self._who = requester
        self._tasks = tasks
        self._on_question = on_question
        self._lines: deque[bytes] = deque()
        self._said: list[str] = []
        self._last: RunEvent | None = None

    async def next_event(self) -> RunEvent | None:
        """Return the next event of the run, None once it is over.

        Raises:
            BridgeError: `connection_closed`, when the daemon is gone.
        """
        while self._last is None:
            while not self._lines:
                self._lines.extend(await self._following.read())
            value = pydantic_core.from_json(self._lines.popleft())
            if value.get("turn") in (None, self.run_id):
                return self._take(RunEvent(value["type"], value))
        return None

    def __aiter__(self) -> "Run":
        return self

    async def __anext__(self) -> RunEvent:
        event = await self.next_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def result(self) -> Result:
        """Read to the end of the run, and return how it ended."""
        while await self.next_event() is not None:
            pass
        record = await self._api.wait(self.run_id, self._who)
        error = None if record.error is None else BridgeError.from_json(record.error)
        return Result(
            key=self.key,
            run_id=self.run_id,
            outcome=record.outcome,
            text="".join(self._said),
            stop_reason=record.stop_reason,
            error=error,
            usage=None if self._last is None else self._last.value.get("usage"),
        )

    def _take(self, event: RunEvent) -> RunEvent:
        self._said.append(event.text)
        if event.type in TURN_ENDS and event.value.get("turn") == self.run_id:
            self._last = event
        elif event.type == "permission_asked" and self._on_question is not None:
            question = OpenQuestion.from_json(event.value)
            self._tasks.start_soon(self._decide, self._on_question, question)
        return event

    async def _decide(self, decide: Asked, question: OpenQuestion) -> None:
        """Have a question decided; code that fails to has denied it, and ends the run."""
        try:
            answer = await decide(question)
        except Exception:
            # The boundary of a call: the program's own code. It is raised where the run is left.
            await answer_with(self._api, self._who, question.id, Answer.deny("nobody decided"))
            raise
        if answer is not None:
            await answer_with(self._api, self._who, question.id, answer)


async def answer_with(
    api: RouterApi, requester: Requester, question: str, answer: Answer, *, late: bool = True
) -> Mapping[str, Any]:
    """Answer a question; return the decision.

    Args:
        api: the router.
        requester: who answers.
        question: its id.
        answer: the decision.
        late: whether to pass over it that the question is decided by now.

    Raises:
        BridgeError: `invalid_option`, `confirmation_needed`, `permission_denied`;
            `already_resolved`, `no_such_question`.
    """
    try:
        return await api.answer(
            question,
            requester,
            option_id=answer.option_id,
            effect=answer.effect,
            note=answer.note,
            confirm=answer.confirm,
        )
    except BridgeError as error:
        if late and error.code in _DECIDED:
            return {}
        raise
