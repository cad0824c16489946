"""Puts questions to the person at the terminal, one at a time; the one way in which it is done.

Events are read on meanwhile: a question that is decided elsewhere is taken back. Without a terminal
it is said where the question waits. Above are `run`, `attach` and `permissions --watch`; below is
the screen, which keeps a question from being buried.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, Protocol

import anyio

from acpbridge.cli import moments
from acpbridge.cli.output import command_line, lines, styled, terminal_width
from acpbridge.cli.questions.alert import alert
from acpbridge.cli.questions.answers import (
    HELP,
    Answer,
    Word,
    allows,
    one_allows,
    parse,
    ways,
)
from acpbridge.cli.questions.colours import coloured
from acpbridge.cli.questions.folding import folded
from acpbridge.cli.questions.question import (
    REASON_GOES,
    Question,
    how_decided,
    how_long,
    options,
    render,
)
from acpbridge.cli.terminal.screen import Prompt, Screen
from acpbridge.cli.terminal.wrapping import wrapped
from acpbridge.daemon.client import DaemonClient
from acpbridge.errors import BridgeError
from acpbridge.model.permission import Effect

# Before what a person types to the agent.
LABEL: Final = "> "

# Where there is no width to know. Columns.
WIDE: Final = 1_000

# Takes what was typed while nothing is asked; None at the end of it (Ctrl-D).
Typed = Callable[[str | None], Awaitable[None]]


class Asking(Protocol):
    """Is told of questions, and of what they came to."""

    async def asked(self, question: Question) -> None:
        """A question is open."""
        ...

    async def decided(self, decision: Mapping[str, Any]) -> None:
        """A question is decided, by whomever."""
        ...


class Inbox:
    """No terminal: says where a question waits, and how it can be answered.

    Args:
        screen: has the terminal, if there is one to look at.
        home: the state directory as it was given on the command line.
    """

    def __init__(self, screen: Screen, home: str | None) -> None:
        self._screen = screen
        self._home = home

    async def asked(self, question: Question) -> None:
        """Say so."""
        shown = render(question, now=moments.now(), width=columns())
        await self._screen.say(f"{shown}\n{waits(question, self._home)}", fg="yellow")

    async def decided(self, decision: Mapping[str, Any]) -> None:
        """Nothing is open here."""


def waits(question: Question, home: str | None) -> str:
    """Return the line that tells where a question waits and what answers it."""
    command = command_line(home, "permissions", "answer", str(question.get("id")))
    way = "--allow" if one_allows(question) else "--option OPTION"
    return f"the question waits in the inbox; answer it with: {command} {way} (or --deny)"


def taken_back(decision: Mapping[str, Any]) -> str:
    """Return the line that tells whoever is asked why there is nothing more to answer."""
    if decision.get("reason") == "operator":
        return f"answered elsewhere: {how_decided(decision)}"
    what = how_decided(decision)
    if decision.get("reason") == "elsewhere":
        what = "decided elsewhere"  # while we were not told
    return f"the question is gone: it was {what}"


def columns() -> int:
    """Return the width of the terminal on stderr, 0 if there is none."""
    return terminal_width(2)


class Terminal:
    """Asks the person at the terminal, and takes what they type while nothing is asked.

    Args:
        client: takes the answers.
        home: the state directory as it was given on the command line.
        screen: has the terminal.
        typed: takes lines that answer nothing; None where there is nobody to type to.
        key: the session whose questions are asked; "" for all of them.
    """

    def __init__(
        self,
        client: DaemonClient,
        home: str | None,
        screen: Screen,
        typed: Typed | None = None,
        *,
        key: str = "",
    ) -> None:
        self._client = client
        self._home = home
        self._screen = screen
        self._typed = typed
        self._key = key
        self._waiting: list[Question] = []
        self._news = anyio.Event()
        self._done = 0
        self._current: str | None = None
        # What a decision from elsewhere, or a question, takes the keyboard away from.
        self._reading: anyio.CancelScope | None = None
        self._typing: anyio.CancelScope | None = None
        self._gone = ""
        self._mine = False
        # Of the question that is asked: where it was shown in part only, all of it.
        self._rest = ""

    async def asked(self, question: Question) -> None:
        """Put it behind those that wait to be asked."""
        name = question.get("id")
        if name == self._current or any(q.get("id") == name for q in self._waiting):
            return
        self._waiting.append(question)
        alert(str(self._client.hello.get("notify", "bell")), question)
        self._news.set()
        if self._typing is not None:
            self._typing.cancel()

    async def decided(self, decision: Mapping[str, Any]) -> None:
        """Take a question back that somebody else, or the clock, has decided."""
        name = decision.get("id")
        self._waiting = [q for q in self._waiting if q.get("id") != name]
        if name == self._current and self._reading is not None and not self._mine:
            self._gone = taken_back(decision)
            self._reading.cancel()

    async def keep(self, names: list[str]) -> None:
        """Take back every question that is none of those that are open."""
        gone = {str(q.get("id")) for q in self._waiting} | {self._current or ""}
        for name in gone - set(names):
            await self.decided({"id": name, "effect": "decided", "reason": "elsewhere"})

    async def serve(self) -> None:
        """Ask what there is to ask, until cancelled."""
        self._client.attend(self._key)
        async with AsyncExitStack() as stack:
            bottom = None
            if self._typed is not None:
                bottom = await stack.enter_async_context(self._screen.prompt(hold=False))
            while True:
                while self._waiting:
                    await self._ask(self._waiting.pop(0))
                    self._done += 1
                self._done = 0
                self._news = anyio.Event()
                if bottom is None:
                    await self._news.wait()
                else:
                    await self._type(bottom)

    async def _type(self, bottom: Prompt) -> None:
        """Have a line typed to the agent; a question takes the keyboard away from it."""
        assert self._typed is not None
        with anyio.CancelScope() as self._typing:
            line = await bottom.line(LABEL)
        took, self._typing = self._typing.cancelled_caught, None
        if not took:
            await self._typed(line)

    async def _ask(self, question: Question) -> None:
        self._current = str(question.get("id"))
        self._gone = ""
        place = (self._done + 1, self._done + 1 + len(self._waiting))
        async with self._screen.prompt() as prompt:
            with anyio.CancelScope() as self._reading:
                shown = render(question, now=moments.now(), place=place, width=columns())
                brief, hidden = folded(shown)
                self._rest = shown if hidden else ""
                await prompt.show(coloured(brief))
                while not await self._answered(question, prompt):
                    pass
            if self._gone:
                await prompt.show(styled(self._gone, fg="yellow"))
        self._current, self._reading = None, None

    async def _answered(self, question: Question, prompt: Prompt) -> bool:
        """Ask once; False if it must be asked again."""
        line = await prompt.line(ways(question, more=bool(self._rest)))
        answer = Word.LATER if line is None else parse(line, question)
        if answer is Word.LATER:
            await prompt.show(styled(waits(question, self._home), fg="yellow"))
            return True
        if answer is Word.ALL:
            await self._show_rest(prompt, "that was all of it")
            return False
        if answer is None or answer is Word.HELP:
            await prompt.show(HELP if answer else "that is none of the answers; ? lists them")
            return False
        if self._rest and allows(answer, question):
            # Nobody approves what was not shown (row 12).
            await self._show_rest(prompt, "a part was left out before; answer once more")
            return False
        confirm = None
        if answer.confirm:
            confirm = await self._confirmed(question, answer, prompt)
            if confirm is None:
                await prompt.show("not confirmed: nothing was answered")
                return False
        return await self._send(question, answer, prompt, confirm)

    async def _show_rest(self, prompt: Prompt, said: str) -> None:
        """Show all of a question that was shown in part, and say so."""
        rest, self._rest = self._rest, ""
        if rest:
            await prompt.show(coloured(rest))
        await prompt.show(styled(said if rest else "all of it is shown above", fg="yellow"))

    async def _confirmed(self, question: Question, answer: Answer, prompt: Prompt) -> str | None:
        """Have a doubtful answer said once more, by the option's exact id; return that id."""
        word = answer.option_id
        if word is None:
            named = [str(o.get("optionId")) for o in options(question)]
            once = [o for o in options(question) if o.get("kind") == "allow_once"]
            word = str(once[0].get("optionId")) if len(once) == 1 else ", ".join(named)
        shown = " ".join(lines(word))
        # Whole lines: a label may be cut where the terminal is narrow.
        careful = wrapped([f"careful: {answer.confirm} (option {shown})"], columns() or WIDE)
        await prompt.show(styled("\n".join(careful), fg="red"))
        label = f"to confirm, type the option's id ({shown}): "
        line = await prompt.line(label)
        return word if line is not None and line.strip() == word.strip() else None

    async def _send(
        self, question: Question, answer: Answer, prompt: Prompt, confirm: str | None
    ) -> bool:
        self._mine = True
        try:
            effect = None if answer.effect is None else Effect(answer.effect)
            name = str(question.get("id"))
            decision = await self._client.answer(
                name, option=answer.option_id, effect=effect, note=answer.note, confirm=confirm
            )
        except BridgeError as error:
            await prompt.show(styled(" ".join(lines(error.message)), fg="yellow"))
            return error.code not in ("invalid_option", "confirmation_needed")
        finally:
            self._mine = False
        if decision.get("told") is not None:
            await prompt.show(styled(REASON_GOES[bool(decision["told"])], dim=True))
        if decision.get("reason") != "operator":
            said = f"it did not come to that: it was {how_decided(decision)}"
            await prompt.show(styled(said, fg="yellow"))
        elif how_long(decision):
            await prompt.show(styled(how_long(decision), fg="yellow"))
        return True
