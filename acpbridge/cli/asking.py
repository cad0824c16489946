"""Puts the questions of a run to the person at the terminal, one at a time.

Events are read on meanwhile: a question that is decided elsewhere is taken back. Without a terminal
it is said where the question waits.
"""

import os
from collections.abc import Mapping
from typing import Any, Protocol

import anyio
import click

from acpbridge.cli import tables
from acpbridge.cli.answers import HELP, Answer, Word, parse, ways
from acpbridge.cli.output import command_line, lines, say
from acpbridge.cli.paint import show
from acpbridge.cli.question import Question, how_decided, options, render
from acpbridge.cli.writer import forget_typed, read_line
from acpbridge.daemon.client import DaemonClient
from acpbridge.errors import BridgeError
from acpbridge.model.permission import Effect


class Asking(Protocol):
    """Is told of questions, and of what they came to."""

    def asked(self, question: Question) -> None:
        """A question is open."""
        ...

    def decided(self, decision: Mapping[str, Any]) -> None:
        """A question is decided, by whomever."""
        ...


class Inbox:
    """No terminal: says where a question waits, and how it can be answered.

    Args:
        home: the state directory as it was given on the command line.
    """

    def __init__(self, home: str | None) -> None:
        self._home = home

    def asked(self, question: Question) -> None:
        """Say so."""
        say(render(question, now=tables.now()), fg="yellow")
        say(waits(question, self._home), fg="yellow")

    def decided(self, decision: Mapping[str, Any]) -> None:
        """Nothing is open here."""


def waits(question: Question, home: str | None) -> str:
    """Return the line that tells where a question waits and what answers it."""
    command = command_line(home, "permissions", "answer", str(question.get("id")))
    return f"the question waits in the inbox; answer it with: {command} --allow (or --deny)"


def columns() -> int:
    """Return the width of the terminal on stderr, 0 if there is none."""
    try:
        return os.get_terminal_size(2).columns
    except OSError:
        return 0


class Terminal:
    """Asks the person at the terminal.

    Args:
        client: takes the answers.
        home: the state directory as it was given on the command line.
    """

    def __init__(self, client: DaemonClient, home: str | None) -> None:
        self._client = client
        self._home = home
        self._waiting: list[Question] = []
        self._news = anyio.Event()
        self._current: str | None = None
        self._done = 0
        self._reading: anyio.CancelScope | None = None
        self._mine = False

    def asked(self, question: Question) -> None:
        """Put it behind those that wait to be asked."""
        self._waiting.append(question)
        self._news.set()

    def decided(self, decision: Mapping[str, Any]) -> None:
        """Take a question back that somebody else, or the clock, has decided."""
        name = decision.get("id")
        self._waiting = [q for q in self._waiting if q.get("id") != name]
        if name == self._current and self._reading is not None and not self._mine:
            say(f"\nthe question is taken back: it was {how_decided(decision)}", fg="yellow")
            self._reading.cancel()

    async def serve(self) -> None:
        """Ask what there is to ask, until cancelled."""
        while True:
            while self._waiting:
                await self._ask(self._waiting.pop(0))
                self._done += 1
            self._done = 0
            self._news = anyio.Event()
            await self._news.wait()

    async def _ask(self, question: Question) -> None:
        self._current = str(question.get("id"))
        with anyio.CancelScope() as self._reading:
            forget_typed()
            place = (self._done + 1, self._done + 1 + len(self._waiting))
            show(render(question, now=tables.now(), place=place, width=columns()))
            while not await self._answered(question):
                pass
        self._current, self._reading = None, None

    async def _answered(self, question: Question) -> bool:
        """Ask once; False if it must be asked again."""
        line = await self._read(ways(question))
        answer = Word.LATER if line is None else parse(line, question)
        if answer is Word.LATER:
            say(f"\n{waits(question, self._home)}", fg="yellow")
            return True
        if answer is None or answer is Word.HELP:
            say(HELP if answer else "that is none of the answers; ? lists them")
            return False
        if answer.confirm and not await self._confirmed(question, answer):
            say("not confirmed: nothing was answered")
            return False
        return await self._send(question, answer)

    async def _confirmed(self, question: Question, answer: Answer) -> bool:
        """Have a doubtful answer said once more, by the option's exact id."""
        word = answer.option_id
        if word is None:
            named = [str(o.get("optionId")) for o in options(question)]
            once = [o for o in options(question) if o.get("kind") == "allow_once"]
            word = str(once[0].get("optionId")) if len(once) == 1 else ", ".join(named)
        say(f"careful: {answer.confirm}", fg="red")
        line = await self._read(f"to confirm, type the option's id ({' '.join(lines(word))}): ")
        return line is not None and line.strip() == word.strip()

    async def _read(self, prompt: str) -> str | None:
        # No line end: the answer is typed right behind it.
        click.echo(prompt, nl=False, err=True)
        return await read_line()

    async def _send(self, question: Question, answer: Answer) -> bool:
        self._mine = True
        try:
            effect = None if answer.effect is None else Effect(answer.effect)
            name = str(question.get("id"))
            decision = await self._client.answer(
                name, option=answer.option_id, effect=effect, note=answer.note
            )
        except BridgeError as error:
            say(" ".join(lines(error.message)), fg="yellow")
            return error.code != "invalid_option"
        finally:
            self._mine = False
        if decision.get("reason") != "operator":
            say(f"it did not come to that: it was {how_decided(decision)}", fg="yellow")
        return True
