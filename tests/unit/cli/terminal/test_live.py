"""A live screen on a real terminal: nothing is written across a prompt, all is given back."""

import os
import signal
import termios
import time

import anyio
import pytest

from acpbridge.cli.terminal.keyboard import Keyboard
from acpbridge.cli.terminal.live import LiveScreen
from acpbridge.cli.terminal.paper import HELD, Paper
from acpbridge.transport.tasks import background
from tests.unit.cli.terminal.watched import Watched, watched


async def test_lines_stay_above_rows_that_change() -> None:
    async with watched() as terminal:
        count = 0

        def region(width: int, height: int) -> list[str]:
            return [f"row {count}", "spinner"]

        async with LiveScreen(terminal.tty) as screen:
            screen.region = region
            await screen.write("first")
            await terminal.sees("first\nrow 0\nspinner")
            count = 1
            screen.redraw()
            await screen.say("second", fg="red")
            await terminal.sees("first\nsecond\nrow 1\nspinner")
            assert terminal.shown.hidden
        await terminal.until(lambda: terminal.shown.text == "first\nsecond")
        assert terminal.shown.visible
        assert terminal.restored


async def test_a_long_line_of_talk_goes_on_indented() -> None:
    async with watched(20) as terminal, LiveScreen(terminal.tty) as screen:
        await screen.say("warning: one two three four\n  a row  of words that are long")
        wanted = "warning: one two\n  three four\n  a row  of words\n    that are long"
        await terminal.sees(wanted)
        assert terminal.shown.text.strip() == wanted


async def test_keys_are_not_echoed_into_rows_that_change() -> None:
    async with watched() as terminal, LiveScreen(terminal.tty) as screen:
        screen.region = lambda width, height: ["spinner"]
        terminal.type("zzz\n")
        await screen.write("line")
        await terminal.sees("line\nspinner")
        assert "z" not in terminal.raw


async def test_a_question_holds_everything_else_back() -> None:
    async with watched() as terminal, LiveScreen(terminal.tty) as screen:
        screen.region = lambda width, height: ["spinner"]
        terminal.type("typed before it was asked\n")
        async with screen.prompt() as prompt:
            await prompt.show("question")
            async with background() as tasks:
                answers: list[str | None] = []

                async def ask() -> None:
                    answers.append(await prompt.line("answer: "))

                tasks.start_soon(ask)
                await terminal.sees("question\nanswer:")
                await screen.write("other")  # returns at once, and is not seen
                terminal.type("y")
                await terminal.sees("answer: y")
                assert "other" not in terminal.shown.text
                assert "spinner" not in terminal.shown.text
                assert (terminal.shown.visible, terminal.shown.pasting) == (True, True)
                terminal.type("es\n")
                with anyio.fail_after(30):
                    while not answers:  # noqa: ASYNC110 - of a task of this test
                        await anyio.sleep(0.01)
            assert answers == ["yes"]
        await terminal.sees("question\nanswer: yes\nother\nspinner")


async def test_output_is_drawn_above_a_line_that_is_typed() -> None:
    async with (
        watched() as terminal,
        LiveScreen(terminal.tty) as screen,
        screen.prompt(hold=False) as prompt,
        background() as tasks,
    ):
        tasks.start_soon(prompt.line, "> ")
        terminal.type("half a ")
        await terminal.sees("> half a")
        await screen.write("news")
        await terminal.sees("news\n> half a")
        terminal.type("line")
        await terminal.sees("news\n> half a line")
        assert terminal.shown.text.count("half") == 1


async def test_a_question_over_a_typed_line_keeps_what_was_typed() -> None:
    async with (
        watched() as terminal,
        LiveScreen(terminal.tty) as screen,
        screen.prompt(hold=False) as below,
        background() as tasks,
    ):
        tasks.start_soon(below.line, "> ")
        terminal.type("half")
        await terminal.sees("> half")
        async with screen.prompt() as question:
            with anyio.move_on_after(10) as scope:
                async with background() as inner:
                    inner.start_soon(question.line, "sure? ")
                    await terminal.sees("sure?")
                    terminal.type("y")
                    await terminal.sees("sure? y")
                    assert "> half" not in terminal.shown.text
                    scope.cancel()
        await terminal.until(lambda: terminal.shown.text == "> half")


async def test_a_line_that_is_taken_back_leaves_nothing() -> None:
    async with watched() as terminal, LiveScreen(terminal.tty) as screen:
        async with screen.prompt() as prompt:
            async with background() as tasks:
                tasks.start_soon(prompt.line, "answer: ")
                terminal.type("ye")
                await terminal.sees("answer: ye")
            await prompt.show("decided elsewhere")
        await terminal.until(lambda: terminal.shown.text == "decided elsewhere")
    assert "answer" not in terminal.shown.text


async def test_a_long_line_is_shown_around_its_cursor() -> None:
    async with (
        watched(20) as terminal,
        LiveScreen(terminal.tty) as screen,
        screen.prompt() as prompt,
        background() as tasks,
    ):
        tasks.start_soon(prompt.line, "a label that is long: ")
        terminal.type("abcdefghijklmnopqrstuvwxyz")
        await terminal.sees("wxyz")
        assert len(terminal.shown.lines) == 1
        terminal.type("\x1b[H")
        await terminal.sees("abcd")
        assert len(terminal.shown.lines) == 1


async def test_ctrl_d_is_no_answer() -> None:
    async with (
        watched() as terminal,
        LiveScreen(terminal.tty) as screen,
        screen.prompt() as prompt,
    ):
        terminal.type("\x04")
        with anyio.fail_after(30):
            assert await prompt.line("answer: ") is None


async def test_no_more_is_held_back_than_there_is_room_for() -> None:
    paper = Paper()
    paper.hold()
    for _ in range(3):
        paper.add("x" * (HELD // 2 - 10) + "\ny")
    assert not paper.full
    paper.add("asked", always=True)
    assert paper.take() == "asked\n"
    paper.release()
    text = paper.take()
    assert text.count("y\n") == 2
    assert text.endswith("(2 more lines are in the session's log)\n")


async def _fail_on(terminal: Watched) -> None:
    async with LiveScreen(terminal.tty) as screen:
        screen.region = lambda width, height: ["spinner"]
        await screen.write("line")
        await terminal.sees("spinner")
        raise KeyError


async def test_an_error_gives_the_terminal_back() -> None:
    async with watched() as terminal:
        with pytest.raises(KeyError):
            await _fail_on(terminal)
        assert terminal.restored
        await terminal.until(lambda: terminal.shown.text == "line" and terminal.shown.visible)


async def test_a_cancel_gives_the_terminal_back() -> None:
    async with watched() as terminal:
        with anyio.CancelScope() as scope:
            async with (
                LiveScreen(terminal.tty) as screen,
                screen.prompt() as prompt,
                background() as tasks,
            ):
                tasks.start_soon(prompt.line, "answer: ")
                await terminal.sees("answer:")
                scope.cancel()
                await anyio.sleep_forever()
        assert terminal.restored
        await terminal.until(lambda: terminal.shown.text == "" and not terminal.shown.pasting)


async def test_a_terminal_that_is_stopped_holds_nobody_for_ever() -> None:
    async with watched() as terminal:
        termios.tcflow(terminal.side, termios.TCOOFF)
        try:
            with anyio.fail_after(30):
                async with LiveScreen(terminal.tty) as screen:
                    await screen.write("line")
            assert terminal.restored
        finally:
            termios.tcflow(terminal.side, termios.TCOON)


async def test_another_size_is_drawn_anew() -> None:
    async with watched(40, 12) as terminal, LiveScreen(terminal.tty) as screen:
        screen.region = lambda width, height: [f"{width} by {height}"]
        await terminal.sees("39 by 10")
        async with screen.prompt():  # no ticks now: the signal alone has it drawn
            pass
        terminal.resize(30, 9)
        os.kill(os.getpid(), signal.SIGWINCH)
        await terminal.sees("29 by 7")
        assert "39 by 10" not in terminal.shown.text


async def test_at_once_means_without_a_wait() -> None:
    async with watched() as terminal, LiveScreen(terminal.tty) as screen:
        screen.region = lambda width, height: ["words", "spinner"]
        await terminal.sees("spinner")
        screen.abandon()
        assert terminal.restored
        await terminal.until(lambda: terminal.shown.visible)
        assert terminal.shown.row == 2
        screen.region = lambda width, height: []


async def test_a_long_paste_does_not_hold_up_the_terminal() -> None:
    async with watched() as terminal:
        prompt = Keyboard(terminal.tty, Paper()).open(hold=False)
        prompt.feed(b"pasted " * 9_000 + b"end")
        began = time.process_time()
        row, column = prompt.row(39)
        assert time.process_time() - began < 5  # it took half a minute
        assert (row.text.endswith("pasted end"), row.cells, column) == (True, 38, 38)
