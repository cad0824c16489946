"""The signals of a command that stays: Ctrl-C is the command's to understand, the others end it.

One that ends the command still lets it give its terminal back.
"""

import signal
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

_LEAVE: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

# As a shell tells of a program that a signal ended.
_BY_SIGNAL: Final = 128


async def obey(on_interrupt: Callable[[], Awaitable[None]], leave: Callable[[int], None]) -> None:
    """Hear signals until cancelled.

    Args:
        on_interrupt: called at each Ctrl-C.
        leave: ends the command with an exit status.
    """
    # Who had them ignored (nohup) meant it.
    others = [number for number in _LEAVE if signal.getsignal(number) is not signal.SIG_IGN]
    with anyio.open_signal_receiver(signal.SIGINT, *others) as signals:
        async for number in signals:
            if number == signal.SIGINT:
                await on_interrupt()
            else:
                leave(_BY_SIGNAL + number)
