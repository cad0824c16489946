"""Writes what it is told in capitals to shout.txt, once a person has seen and allowed it."""

from anyio import Path

from acpbridge import PlanEntry, Turn


async def shout(turn: Turn) -> str:
    """Serve one turn."""
    ask, write = "Show the change and ask", "Write shout.txt"
    turn.plan([PlanEntry(ask, "in_progress"), PlanEntry(write)])
    path, text = Path(turn.cwd, "shout.txt"), turn.text.upper() + "\n"
    old = await path.read_text("utf-8") if await path.exists() else None
    async with turn.tool(write, kind="edit") as call:
        call.diff("shout.txt", old, text)
        if not await call.ask():
            return "You said no, so I left it alone."
        await path.write_text(text, "utf-8")
    turn.plan([PlanEntry(ask, "completed"), PlanEntry(write, "completed")])
    return f"I wrote it to {path.name}."
