"""One agent behind its shim: its life by the table of `lifecycle`, its stderr, its end.

Above is the supervisor, which starts it and says when it ends; below is its `Child`. How its
tree is held is the containment's business.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import anyio
import structlog

from acpbridge.config.recognise import better_command
from acpbridge.controller import lifecycle
from acpbridge.controller.containment import PLAIN, Containment, Hold
from acpbridge.controller.lifecycle import Action, Input, Life
from acpbridge.controller.process import LaunchSpec
from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults
from acpbridge.transport.faulty import faulty
from acpbridge.transport.memory import ByteReceive, ByteSend
from acpbridge.transport.tree import Child, ExitStatus

log = structlog.get_logger(__name__)

# What stands in every error about an agent.
STDERR_KEPT: Final = 16 * 1024

# Before it so much more is kept, so that a secret which the cut would halve is found. Bytes, more
# than any token or key block has.
MARGIN: Final = 8 * 1024

# How a program that does not speak ACP shows it.
_NOT_ACP: Final = frozenset({"start_failed", "start_timeout"})

# After the agent's exit its last words on stderr are waited for this long. Seconds.
LAST_WORDS: Final = 0.2


class SupervisedProcess:
    """One agent behind its shim, as an `AgentProcess`."""

    def __init__(
        self,
        spec: LaunchSpec,
        child: Child,
        containment: Containment,
        redact: Callable[[str], str],
        faults: Faults = no_faults,
        *,
        hold: Hold = PLAIN,
    ) -> None:
        self.spec = spec
        self.hold = hold
        self.child = child
        self.life = Life.STARTING
        self._containment = containment
        self._redact = redact
        self._stdin = faulty(child.stdin, faults, "agent")
        self._stderr: deque[bytes] = deque()
        self._stderr_size = 0
        self._stderr_cut = False
        self._stderr_done = anyio.Event()

    @property
    def pid(self) -> int:
        """Of the agent itself."""
        return self.child.agent.pid

    @property
    def start_ticks(self) -> int:
        """When it started, in clock ticks since boot: with the pid it is unique."""
        return self.child.agent.start_ticks

    @property
    def stdin(self) -> ByteSend:
        """Where our bytes go."""
        return self._stdin

    @property
    def stdout(self) -> ByteReceive:
        """Where its bytes come from."""
        return self.child.stdout

    @property
    def status(self) -> ExitStatus | None:
        """How the agent itself ended, None while it runs."""
        return self.child.exit

    async def gone(self) -> None:
        """Wait until nothing of the tree is left, or what is left has been named."""
        await self.child.wait_gone()

    async def exited(self) -> str:
        """Wait for the agent's own exit and return how it ended, for people."""
        status = await self.child.wait_exit()
        with anyio.move_on_after(LAST_WORDS):
            await self._stderr_done.wait()
        return str(status)

    async def watch(self) -> None:
        """Follow the process to the proof that nothing of its tree is left."""
        status = await self.child.wait_exit()
        if self.happened(Input.EXITED) is Action.TELL and not self.spec.owner:
            log.warning("agent died", name=self.spec.name, how=str(status))
        receipt = await self.child.wait_gone()
        if not receipt.survivors:
            self.happened(Input.TREE_GONE)

    def initialized(self) -> None:
        """Take note that it answered `initialize`."""
        self.happened(Input.INITIALIZED)

    def happened(self, what: Input) -> Action:
        """Move along the table and return what is to be done."""
        cell = lifecycle.step(self.life, what)
        self.life = cell.state
        return cell.action

    def post_mortem(self, code: str, message: str) -> BridgeError:
        """Return an error with the exit status and the end of its stderr, redacted."""
        data: dict[str, object] = {"stderr": self.stderr_tail()}
        if self.child.exit is not None:
            data |= {"exitCode": self.child.exit.code, "signal": self.child.exit.signal}
        hint = _better_command(self.spec) if code in _NOT_ACP else None
        return BridgeError(code, message, hint=hint, data=data)

    def stderr_tail(self) -> str:
        """Return the last of what it wrote on stderr, redacted."""
        text = self._redact(b"".join(self._stderr).decode("utf-8", "replace"))
        if self._stderr_cut:
            # Half a secret is not recognised: what stands where the cut was is not shown.
            text = text[MARGIN:]
        return text.encode("utf-8", "replace")[-STDERR_KEPT:].decode("utf-8", "ignore")

    async def drain_stderr(self) -> None:
        """Read stderr to its end, for a full pipe would block the agent; keep the last of it."""
        try:
            while True:
                chunk = await self.child.stderr.receive()
                self._stderr.append(chunk)
                self._stderr_size += len(chunk)
                while self._stderr_size - len(self._stderr[0]) >= STDERR_KEPT + MARGIN:
                    self._stderr_size -= len(self._stderr.popleft())
                    self._stderr_cut = True
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            self._stderr_done.set()

    async def stop(self, grace: float | None = None) -> tuple[int, ...]:
        """End the whole tree; return the pids that are left."""
        if self.happened(Input.STOP) is not Action.END_TREE:
            return ()  # proven gone
        asked = self.spec.stop_grace() if grace is None else grace
        wanted = self.spec.grace if asked is None else asked
        receipt = await self._containment.end(self.child, wanted)
        if not receipt.survivors:
            self.happened(Input.TREE_GONE)
        return receipt.survivors


def _better_command(spec: LaunchSpec) -> str | None:
    right = better_command(spec.argv, spec.better)
    return None if right is None else f"The command that speaks ACP is: {right}"
