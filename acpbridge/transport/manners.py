"""How a busy reader gives way to whoever else has something to do. Above is the connection."""

from typing import Final

import anyio
import anyio.lowlevel

# Others get on until they have nothing to do (a round of the loop without us took less than the
# first figure), or for the second at most. Seconds.
QUIET: Final = 0.0001
MAKE_WAY_AT_MOST: Final = 0.01


async def make_way(at_most: float) -> None:
    """Let others get on, once at least, while they have something to do, but not for ever."""
    now = anyio.current_time()
    patience = now + at_most
    while True:
        await anyio.lowlevel.cancel_shielded_checkpoint()
        before, now = now, anyio.current_time()
        if now - before < QUIET or now >= patience:
            return
