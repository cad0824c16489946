"""When a conversation has become too long for its model, and is to be made shorter.

Two things trigger it: a share of what the application wants to spend on context, and the limit of
the model itself. How it is made shorter is somebody else's code.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse

from acpbridge.logline import Logger

log = Logger(__name__)

# System, task and the first exchange: of that nothing can be left out.
SHORTEST: Final = 3

# English prose has about four characters a token, code and JSON fewer: rather too soon.
CHARACTERS_PER_TOKEN: Final = 3.5

# An answer has to find room too. Tokens; never more than a quarter of what the model holds.
ROOM_TO_ANSWER: Final = 8192

Compress = Callable[[list[ModelMessage], str], Awaitable[list[ModelMessage]]]
"""Returns a shorter conversation that means the same; a tool call keeps its answer beside it."""


@dataclass(frozen=True, slots=True)
class CompressConfig:
    """How a run keeps its conversation short.

    Attributes:
        compress: makes it shorter; given the messages and the model's name.
        max_context_tokens: what the application wants a conversation to hold; 0: it does not care.
        threshold: the share of it, between 0 and 1, from which on it is made shorter.
        model_tokens: what the model itself can hold; 0: not known.
    """

    compress: Compress
    max_context_tokens: int = 0
    threshold: float = 0.8
    model_tokens: int = 0

    @property
    def limit(self) -> float:
        """From how many tokens on a conversation is made shorter; infinite where nothing is set."""
        room = min(ROOM_TO_ANSWER, self.model_tokens / 4)
        limits = (self.max_context_tokens * self.threshold, self.model_tokens - room)
        return min((limit for limit in limits if limit > 0), default=float("inf"))


class Compressor:
    """Looks before each call of a model whether the conversation is too long for it.

    Args:
        config: of the run; None: it is left as it is.
        model: the name of the model.
    """

    def __init__(self, config: CompressConfig | None, model: str) -> None:
        self._config = config
        self._model = model
        # What the model has counted, and how many messages that was.
        self._counted = (0, 0)

    def answered(self, answer: ModelResponse, messages: int) -> None:
        """Take note of an answer, which is the last of so many messages: its counts are exact."""
        usage = answer.usage
        if usage.input_tokens:
            self._counted = (usage.input_tokens + usage.output_tokens, messages)

    async def __call__(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """Return the conversation to go on with: a shorter one where that is due.

        What could not be made shorter is tried as it is: the model will say if that is too much.
        """
        config = self._config
        if config is None or len(messages) <= SHORTEST or self._tokens(messages) < config.limit:
            return messages
        try:
            shorter = await config.compress(list(messages), self._model)
        except Exception:
            # The boundary of a call: somebody's code, which may ask a model.
            log.exception("a conversation could not be made shorter")
            return messages
        self._counted = (0, 0)
        return shorter or messages

    def _tokens(self, messages: Sequence[ModelMessage]) -> int:
        known, count = self._counted
        return max(known + tokens_of(messages[count:]), tokens_of(messages))


def tokens_of(messages: Sequence[ModelMessage]) -> int:
    """Return about how many tokens messages have, by the length of what is in them."""
    written = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    parts = (part for message in written for part in message["parts"])
    told = (part.get("args") or part.get("content") or "" for part in parts)
    return int(sum(map(_length, told)) / CHARACTERS_PER_TOKEN)


def _length(value: object) -> int:
    return len(value if isinstance(value, str) else json.dumps(value))
