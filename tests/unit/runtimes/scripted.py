"""A Python agent that does what its prompt says; it also runs served, as a process of its own.

`python -P THIS_MODULE` serves it on stdio.
"""

import os
from collections.abc import Awaitable, Callable

import anyio

from acpbridge.runtimes.python import PlanEntry, StopReason, Turn, text_content


async def scripted(turn: Turn) -> StopReason | str | None:
    word, _, rest = turn.text.partition(" ")
    return await DEEDS[word](turn, rest)


async def say(turn: Turn, rest: str) -> None:
    for index in range(int(rest)):
        turn.say(f"{index};")


async def ask(turn: Turn, rest: str) -> None:
    allowed = await turn.ask("Run it", kind="execute", raw_input={"command": rest})
    turn.say("allowed" if allowed else "denied")


async def fail(turn: Turn, rest: str) -> None:
    print("a word on stdout before the end")
    raise RuntimeError("it broke")


async def recall(turn: Turn, rest: str) -> str:
    return "|".join(f"{past.text}>{past.said}" for past in turn.history)


async def weigh(turn: Turn, rest: str) -> str:
    """Tell each earlier prompt by its length and the sum of its bytes."""
    return "|".join(f"{len(past.text)} {sum(past.text.encode())}" for past in turn.history)


async def die(turn: Turn, rest: str) -> None:
    os._exit(int(rest))


async def cwd(turn: Turn, rest: str) -> str:
    return turn.cwd


async def finish(turn: Turn, rest: str) -> str:
    return "the last words"


async def refuse(turn: Turn, rest: str) -> StopReason:
    return StopReason.REFUSAL


async def everything(turn: Turn, rest: str) -> None:
    turn.think("hm")
    turn.plan([PlanEntry("look", "in_progress"), "tell"])
    async with turn.tool("Edit a", kind="edit", locations=["a"], raw_input={"n": 1}) as call:
        call.content("half way")
        call.diff("a", None, "new")
        call.output({"ok": True})
    try:
        async with turn.tool("Fail", kind="fetch", content=[text_content("try")]):
            raise LookupError
    except LookupError:
        turn.say("done")


async def choose(turn: Turn, rest: str) -> str:
    chosen = await turn.choose("Which one?", {"left": "To the left", "right": "To the right"})
    return f"chose {chosen}"


async def grow(turn: Turn, rest: str) -> str:
    answers = []
    for paths in (["a"], ["a", "a"], ["a", "b"]):
        async with turn.tool("Edit", kind="edit") as call:
            for path in paths:
                call.diff(path, None, "new")
            answers.append(await call.ask())
    return str(answers)


async def count(turn: Turn, rest: str) -> None:
    turn.usage(1200, 200_000, cost=0.25)
    turn.tokens(input=100, output=20)
    turn.tokens(output=5, cached_read=50)


async def look(turn: Turn, rest: str) -> str:
    pictures = [f"{image.mime_type} {len(image.data)}" for image in turn.images]
    linked = [f"{found.uri} {found.text}" for found in turn.resources]
    return ", ".join([*pictures, *linked])


async def leave(turn: Turn, rest: str) -> None:
    raise SystemExit(int(rest))


async def hang(turn: Turn, rest: str) -> None:
    turn.say("hanging")
    try:
        async with turn.tool("Wait"):
            await anyio.sleep_forever()
    finally:
        turn.say("cleaned up")


DEEDS: dict[str, Callable[[Turn, str], Awaitable[StopReason | str | None]]] = {
    "say": say,
    "choose": choose,
    "count": count,
    "grow": grow,
    "look": look,
    "leave": leave,
    "everything": everything,
    "ask": ask,
    "hang": hang,
    "raise": fail,
    "return": finish,
    "refuse": refuse,
    "recall": recall,
    "weigh": weigh,
    "die": die,
    "cwd": cwd,
}


def main() -> None:
    from acpbridge.edge.serve import serve_stdio
    from acpbridge.edge.stdio import claim_stdio
    from acpbridge.runtimes.python import PythonRuntime

    stdio = claim_stdio()
    print("a word on stdout at the start", flush=True)
    anyio.run(serve_stdio, PythonRuntime(scripted), stdio)


if __name__ == "__main__":
    main()
