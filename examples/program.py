"""Opens a bridge in this process, runs an agent, and asks whoever sits at the terminal."""

import sys

import anyio
import anyio.to_thread
from shout import shout

from acpbridge import Answer, OpenQuestion, open_bridge


async def ask(question: OpenQuestion) -> Answer:
    """Decide a question."""
    words = f"{question.title!r} by {question.agent}, in {question.subject['locations']}? [y/N] "
    typed = await anyio.to_thread.run_sync(input, words)
    return Answer.allow() if typed == "y" else Answer.deny()


async def main() -> None:
    """Run one turn."""
    async with open_bridge(agents={"shout": shout}, on_question=ask) as bridge:
        result = await bridge.run("hello", agent="shout")
    sys.stdout.write(result.check().text + "\n")


anyio.run(main)
