"""Checks agents side by side, with a supervisor, a keeper and shims of this very process.

Nothing of them outlives it, however it ends; the directories that they worked in go with them.
"""

import os
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio

from acpbridge import logs
from acpbridge.checking.report import Check
from acpbridge.checking.trial import Caller, Trial
from acpbridge.config.environment import fixed_values
from acpbridge.controller.containment import containment_of
from acpbridge.controller.supervisor import Supervisor
from acpbridge.errors import EXIT_INTERRUPTED, BridgeError
from acpbridge.redact import Redactor
from acpbridge.runtimes.acp import AcpRuntime
from acpbridge.runtimes.inventory import Listed
from acpbridge.transport.tasks import background

# Starting four agents keeps a small machine busy; their start limits count from their own start.
AT_ONCE: Final = 4


def check_agents(agents: list[Listed], caller: Caller) -> list[Check]:
    """Check agents side by side; return what came of each, in their order.

    Raises:
        KeyboardInterrupt: when a person wants it ended; everything that was started is ended.
    """
    fixed = (pair for agent in agents for pair in fixed_values(agent.definition))
    redactor = Redactor((*caller.env.items(), *fixed))
    logs.to_stderr(redactor.value, quiet=True)
    checks = anyio.run(_check_all, agents, caller, redactor)
    if checks is None:
        raise KeyboardInterrupt
    return [_without_secrets(check, redactor) for check in checks]


async def _check_all(
    agents: list[Listed], caller: Caller, redactor: Redactor
) -> list[Check] | None:
    out: list[Check | None] = [None] * len(agents)
    with tempfile.TemporaryDirectory(prefix="acpbridge-doctor-", ignore_cleanup_errors=True) as top:
        folder = Path(top)
        journal = folder / "processes.json"
        places = anyio.CapacityLimiter(AT_ONCE)
        scope = anyio.CancelScope()

        async def one(index: int, runtime: AcpRuntime) -> None:
            work = folder / f"{index}"
            work.mkdir()
            async with places:
                out[index] = await Trial(agents[index], caller, folder, work).run(runtime)

        async with background(lambda: _obey_signals(scope)):
            with scope:
                async with Supervisor(journal, containment_of(folder), redactor.text) as supervisor:
                    runtime = AcpRuntime(supervisor, caller.limits.max_message_bytes)
                    async with anyio.create_task_group() as tasks:
                        for index in range(len(agents)):
                            tasks.start_soon(one, index, runtime)
    return None if scope.cancelled_caught else [check for check in out if check is not None]


async def _obey_signals(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async for _ in signals:
            if scope.cancel_called:
                # The second one does not wait for a polite end: the channels close, and all dies.
                os._exit(EXIT_INTERRUPTED)
            scope.cancel()


def _without_secrets(check: Check, redactor: Redactor) -> Check:
    """An agent may put what it was given into what it says."""
    said = {"message": check.message, "next": check.next, "facts": dict(check.facts)}
    clean = redactor.value(said)
    error = (
        None
        if check.error is None
        else BridgeError.from_json(redactor.value(check.error.to_json()))
    )
    return replace(check, **clean, error=error)
