"""What is typed in `attach`: prompts, and the few words that are meant for us.

A prompt is a detached run, so that leaving ends none. Words that begin with a slash and are not
ours go to the agent, which may have such words of its own.
"""

import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from acpbridge.cli.caller import environment
from acpbridge.cli.questions.asking import Terminal
from acpbridge.cli.turn import CANCEL_GRACE
from acpbridge.cli.views.sessionview import SessionView
from acpbridge.daemon.client import DaemonClient
from acpbridge.errors import BridgeError
from acpbridge.router.api import RunRequest

HELP: Final = """\
  Enter          send what was typed; while a turn runs it waits behind it
  /cancel        end the turn, and what waits behind it (or Ctrl-C)
  /close         end the session politely, for good
  /kill          end the session and all that it started, at once
  /questions     ask again what was left for later
  /detach        leave; the session goes on (or Ctrl-D)
  //...          send a prompt that begins with /"""


class Commands:
    """Does what is typed.

    Args:
        client: of the daemon.
        key: of the session.
        view: says what came of it.
        leave: detaches.
    """

    def __init__(
        self,
        client: DaemonClient,
        key: str,
        view: SessionView,
        leave: Callable[[], Awaitable[None]],
    ) -> None:
        self.terminal: Terminal | None = None
        self._client = client
        self._key = key
        self._view = view
        self._words = {
            "/cancel": self._cancel,
            "/close": self._close,
            "/kill": self._kill,
            "/questions": self._ask_again,
            "/detach": leave,
            "/quit": leave,
            "/help": self._help,
        }

    async def typed(self, line: str | None) -> None:
        """Do what a line means; None is its end, and means to leave."""
        word = "/detach" if line is None else line.strip()
        try:
            if word in self._words:
                await self._words[word]()
            elif word and line:
                await self._prompt(word[1:] if word.startswith("//") else line)
        except BridgeError as error:
            await self._view.tell_error(error)

    async def ask_open(self) -> int:
        """Have the open questions of the session, and below it, asked; return how many."""
        found = (await self._client.call("questions"))["permissions"]
        ours = [q for q in found if self._key in (q.get("sessionKey"), *q.get("above", ()))]
        for question in ours:
            if self.terminal is not None:
                await self.terminal.asked(question)
        return len(ours)

    async def _prompt(self, text: str) -> None:
        request = RunRequest(
            content=({"type": "text", "text": text},),
            session=self._key,
            env=environment(),
            detached=True,
            correlation_id=uuid.uuid4().hex,
        )
        behind = len(self._view.unfinished)
        if not behind:
            self._view.own.add(request.correlation_id)
        await self._client.run(request)
        if behind:
            waiting = "the running turn" if behind == 1 else f"{behind} turns"
            await self._view.say(f"queued behind {waiting}", dim=True)

    async def _cancel(self) -> None:
        receipt = await self._client.call("cancel", key=self._key, grace=CANCEL_GRACE)
        if receipt.get("rung") == "none":
            await self._view.say("no turn runs", dim=True)
        elif not receipt.get("turnEnded"):
            await self._view.say("the turn STILL RUNS; /kill ends it", fg="red")

    async def _close(self) -> None:
        await self._client.call("close", key=self._key)

    async def _kill(self) -> None:
        results = (await self._client.call("kill", keys=[self._key], grace=0))["results"]
        killed = ", ".join(str(pid) for result in results for pid in result["killed"])
        left = sum(len(result["survivors"]) for result in results)
        await self._view.say(f"killed {killed or 'no process'}; left: {left}", fg="yellow")

    async def _ask_again(self) -> None:
        if not await self.ask_open():
            await self._view.say("no open question", dim=True)

    async def _help(self) -> None:
        await self._view.say(HELP)
