"""Words between the daemon and its helpers: the order to start, pids, and their channels.

No json, socket or struct: they would cost more than all the rest of a shim.
"""

import _socket
from collections.abc import Iterable, Mapping, Sequence

MESSAGE_LIMIT = 192 * 1024  # bytes in one datagram; a socket takes 208 KiB by default
PIDS_LIMIT = 10_000  # pids that one receipt names, so that it fits into a datagram
TICK_STEPS = 1000  # a linger travels in milliseconds


class Order:
    """What a shim is told to start; one blob of NUL-separated fields, written to a memfd."""

    __slots__ = ("argv", "cgroup", "cwd", "env", "linger", "pidns", "program")

    def __init__(  # noqa: PLR0913 - one value for each field
        self,
        program: bytes,
        argv: Sequence[bytes],
        env: Mapping[bytes, bytes],
        cwd: bytes,
        linger: float,
        *,
        cgroup: bytes = b"",
        pidns: bool = False,
    ) -> None:
        self.program = program
        self.argv = list(argv)
        self.env = dict(env)
        self.cwd = cwd
        self.linger = linger
        self.cgroup = cgroup
        self.pidns = pidns

    def encode(self) -> bytes:
        """Return the blob; ValueError if exec could not pass a field on as it is."""
        if any(not name or b"=" in name for name in self.env):
            raise ValueError("the name of an environment variable is empty or holds a '='")
        pairs = [b"%b=%b" % pair for pair in self.env.items()]
        head = [b"%d" % round(self.linger * TICK_STEPS), b"%d" % len(self.argv)]
        held = [self.cgroup, b"1" if self.pidns else b"0"]
        fields = [*head, *held, self.program, self.cwd, *self.argv, *pairs]
        if any(b"\0" in field for field in fields):
            raise ValueError("an argument, variable or path holds a NUL byte")
        return b"\0".join(fields)

    @classmethod
    def decode(cls, blob: bytes) -> "Order":
        """Rebuild the order from its blob."""
        linger, count, cgroup, pidns, program, cwd, *rest = blob.split(b"\0")
        argv, pairs = rest[: int(count)], rest[int(count) :]
        env = {name: value for name, _, value in (pair.partition(b"=") for pair in pairs)}
        seconds = int(linger) / TICK_STEPS
        return cls(program, argv, env, cwd, seconds, cgroup=cgroup, pidns=pidns == b"1")


def encode_pids(pids: Iterable[int]) -> bytes:
    """Return pids as one word of a message: `12,15`, or `-` for none."""
    return b",".join(b"%d" % pid for pid in sorted(pids)[:PIDS_LIMIT]) or b"-"


def decode_pids(word: bytes) -> tuple[int, ...]:
    """Return the pids of a word that `encode_pids` wrote."""
    return () if word == b"-" else tuple(int(pid) for pid in word.split(b","))


def channel_of(fd: int) -> _socket.socket:
    """Return the channel, a socket of whole messages, that a descriptor is."""
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fd)


def tell(channel: _socket.socket, message: bytes) -> None:
    """Send a message, if there is anybody to take it: never waits, never fails."""
    try:
        channel.send(message, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
    except OSError:
        return  # nobody listens any more, and the end of the channel says what to do about it


def hear(channel: _socket.socket) -> bytes | None:
    """Return the next message, b"" when the other end is gone, None when there is none yet."""
    try:
        return channel.recv(MESSAGE_LIMIT, _socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""
