"""What agents may take of the control socket: never so much that a person cannot come in.

An agent, or anything that it has started, connects as often as it likes and asks as fast as it
can. So agents have a part of the places only and none of the narrow way, and of what each session
asks a few things are looked at while the others wait: the threads in which the kernel is asked are
everybody's. Above is the server; who is an agent it has found out by then.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sized
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Final
from weakref import WeakValueDictionary

import anyio
import structlog

from acpbridge.model.requesters import Requester, Role
from acpbridge.router.toolset import WAITING
from acpbridge.transport.helpers import kernel

log = structlog.get_logger(__name__)

# The part of all places that agents have, and the fewest: an agent's tools and one command. Each
# session has one or two.
SHARE: Final = 4
_FEWEST: Final = 2

# What one session asks for is served by so many at once; the threads are forty, and any that
# computes takes the interpreter from the event loop.
CALLS_AT_ONCE: Final = 2

# And so many of those at once that mostly wait for somebody else: a main agent asks several others
# at a time, and looks at them meanwhile.
WAITS_AT_ONCE: Final = 32

# Logs that all clients of one session follow: each wakes for every event, before anybody else is
# served again.
FOLLOWED: Final = 64

# This waits for something else, and takes no thread meanwhile.
_WAITING: Final = frozenset({"hello", "wait"})
# So do these actions of one that has others too: a parent that waits for two of its children can
# still end them.
_WAITING_ACTIONS: Final = {"tool/subagents": ("wait", "send")}

# One who is an agent is found out in a thread: those of everybody else are not taken for it.
JUDGES: Final = 2

# Processes that are remembered as an agent's: one that connects again and again costs less then.
_REMEMBERED: Final = 256


class Crowd:
    """The agents' part.

    Args:
        places: for clients of all kinds.
    """

    def __init__(self, places: int) -> None:
        self.judges = anyio.CapacityLimiter(JUDGES)
        self._most = max(_FEWEST, places // SHARE)
        self._here = 0
        self._told = False
        self._known: OrderedDict[tuple[int, int], str] = OrderedDict()
        # Each lives as long as a client of its session.
        self._turnstiles: WeakValueDictionary[str, Turnstile] = WeakValueDictionary()

    def known(self, pid: int) -> str | None:
        """Return whose a process is that was found to be an agent's; None for any other.

        Whoever is below a shim stays that agent's for as long as it lives.
        """
        row = kernel.read_process(pid) if self._known else None
        return None if row is None else self._known.get((pid, row.start_ticks))

    def remember(self, pid: int, owner: str, there: Callable[[], bool]) -> None:
        """Take note that a process is an agent's.

        Args:
            pid: its number.
            owner: whose it is.
            there: asked last, whether the number is still its own.
        """
        row = kernel.read_process(pid)
        if row is not None and there():
            self._known[pid, row.start_ticks] = owner
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    @contextmanager
    def counted(self, who: Requester, *, narrow: bool) -> Iterator[bool]:
        """Count a client; yield whether it may stay.

        Args:
            who: it is.
            narrow: whether it came in where there was no room.
        """
        if who.role is not Role.AGENT:
            yield True
        elif narrow or self._here >= self._most:
            self._tell(who)
            yield False
        else:
            self._here += 1
            try:
                yield True
            finally:
                self._here -= 1
                self._told = self._told and self._here > self._most // 2

    def _tell(self, who: Requester) -> None:
        if not self._told:
            log.warning("agents have too many connections", most=self._most, last=who.label())
        self._told = True

    def turnstile(self, who: Requester) -> "Turnstile":
        """Return what the calls of a client pass: all clients of an agent's session the same."""
        if who.role is not Role.AGENT:
            return Turnstile()
        fresh = Turnstile(CALLS_AT_ONCE, FOLLOWED, WAITS_AT_ONCE)
        return self._turnstiles.setdefault(str(who.session), fresh)


class Turnstile:
    """Lets calls in: of a session a few at once.

    Args:
        calls: served at once; None for no bound.
        followed: logs that are followed at once; None for no bound.
        waits: calls served at once that mostly wait; None for no bound.
    """

    def __init__(
        self, calls: int | None = None, followed: int | None = None, waits: int | None = None
    ) -> None:
        self._calls = None if calls is None else anyio.Semaphore(calls)
        self._waits = None if waits is None else anyio.Semaphore(waits)
        self._most = followed
        self._followed: list[Sized] = []

    def serving(self, method: str, action: object = None) -> AbstractAsyncContextManager[object]:
        """Wait until a call may be served; leaving lets the next one in.

        Args:
            method: of the call.
            action: what it says that it is to do, where one method does several things.
        """
        if method in _WAITING:
            return nullcontext()
        long = method in WAITING or action in _WAITING_ACTIONS.get(method, ())
        bound = self._waits if long else self._calls
        return nullcontext() if bound is None else bound

    @contextmanager
    def passing(self, followed: Sized) -> Iterator[None]:
        """Take a client in.

        Args:
            followed: the logs that it follows, whenever that is asked.
        """
        self._followed.append(followed)
        try:
            yield
        finally:
            self._followed = [other for other in self._followed if other is not followed]

    def full(self) -> bool:
        """Tell whether no log more may be followed."""
        return self._most is not None and sum(map(len, self._followed)) >= self._most
