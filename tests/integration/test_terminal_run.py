"""A run on a real terminal: what is seen, and that every way out gives the terminal back."""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.daemon_home import LIMIT, PAUSE, Home, Terminal, daemon_home
from tests.unit.cli.terminal.emulator import Emulator

COLUMNS, ROWS = 72, 24

# As much of a shell as stops and goes on with one job.
SHELL = """
import os, signal, sys, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    status = os.waitpid(pid, os.WUNTRACED)[1]
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status))
    os.tcsetpgrp(0, os.getpgrp())
    echo = bool(termios.tcgetattr(0)[3] & termios.ECHO)
    print(f"stopped, echo {echo}", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, pid)
    os.killpg(pid, signal.SIGCONT)
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        made.env["TERM"] = "xterm-256color"
        made.run("daemon", "start")
        yield made


@contextmanager
def terminal(home: Home, *argv: str) -> Iterator[Terminal]:
    """Run any command on a terminal of its own, of a certain size."""
    pid, fd = pty.fork()
    if pid == 0:
        try:
            os.chdir(home.path)
            os.execve(argv[0], argv, home.env)
        finally:
            os._exit(99)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    made = Terminal(pid, fd)
    try:
        yield made
    finally:
        made.close()


def modes(shown: Terminal) -> tuple[bool, bool]:
    """Return whether the terminal echoes, and whether it takes whole lines."""
    flags = termios.tcgetattr(shown._fd)[3]
    return bool(flags & termios.ECHO), bool(flags & termios.ICANON)


def picture(shown: Terminal) -> Emulator:
    emulator = Emulator(COLUMNS, ROWS)
    emulator.feed(shown.seen)
    return emulator


def left(shown: Terminal) -> str:
    """Return what is to be seen at the end, on a terminal that was given back."""
    emulator = picture(shown)
    assert (emulator.visible, emulator.pasting) == (True, False)
    assert modes(shown) == (True, True)
    return emulator.text


def test_a_run_shows_words_tools_and_its_end(home: Home) -> None:
    script = "think hm\nsay **strong** words\ntool read a-file\nsay the end"
    with terminal(home, *home.argv("run", script)) as shown:
        assert shown.wait() == 0
        first, *lines = left(shown).split("\n")
    assert first == "agent: fake (the default)"
    assert lines[0].startswith("session: agent:fake:acp:")
    assert lines[1] == "warning: whether this agent asks is unknown: it may act without asking"
    text = "\n".join(lines[2:])
    assert text.startswith("\n· hm\n\n  strong words\n\n✓ read  a-file  ")
    assert "    | did a-file\n\n  the end\n\n■ done in " in text


def test_the_first_ctrl_c_cancels_and_waits(home: Home) -> None:
    with terminal(home, *home.argv("run", "say half\nslow-cancel 300\nhang")) as shown:
        shown.expect("half")
        shown.expect("waiting for the model")
        assert modes(shown) == (False, False)
        shown.type("\x03")
        shown.expect("cancelling; Ctrl-C once more to leave at once")
        assert shown.wait() == 130
        text = left(shown)
    assert "\n  half\n\n■ cancelled after " in text


def test_the_second_ctrl_c_leaves_at_once(home: Home) -> None:
    with terminal(home, *home.argv("run", "say half\nhang-deaf")) as shown:
        shown.expect("half")
        shown.type("\x03")
        shown.expect("once more to leave at once")
        shown.type("\x03")
        assert shown.wait() == 130
        assert "\n  half\n" in left(shown)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_it_and_the_terminal_is_given_back(home: Home, number: int) -> None:
    with terminal(home, *home.argv("run", "say half\nhang")) as shown:
        shown.expect("half")
        os.kill(shown.pid, number)
        assert shown.wait() == 128 + number
        assert left(shown).endswith("\n  half")


def test_a_signal_at_a_question_gives_the_terminal_back(home: Home) -> None:
    with terminal(home, *home.argv("run", 'ask execute "rm x"')) as shown:
        shown.expect("answer [")
        os.kill(shown.pid, signal.SIGTERM)
        assert shown.wait() == 143
        left(shown)


def test_an_error_is_told_below_what_was_said(home: Home) -> None:
    with terminal(home, *home.argv("run", "say half\ncrash 3")) as shown:
        assert shown.wait() == 6
        text = left(shown)
    assert "\n  half\n\n■ failed after " in text
    assert "\nerror (agent_died): " in text


def test_a_daemon_that_dies_gives_the_terminal_back(home: Home) -> None:
    with terminal(home, *home.argv("run", "say half\nhang")) as shown:
        shown.expect("half")
        os.kill(home.daemon_pid(), signal.SIGKILL)
        assert shown.wait() == 8
        assert "error (connection_closed)" in left(shown)


def test_it_stops_like_any_job_and_goes_on(home: Home) -> None:
    argv = [sys.executable, "-c", SHELL, *home.argv("run", "say half\nsleep 1500\nsay whole")]
    with terminal(home, *argv) as shown:
        shown.expect("half")
        shown.type("\x1a")
        shown.expect("stopped, echo True")
        assert picture(shown).visible
        shown.type("fg\n")
        assert shown.wait() == 0
        text = left(shown)
    assert "halfwhole\n\n■ done in " in text


def test_a_window_of_another_size_is_drawn_anew(home: Home) -> None:
    with terminal(home, *home.argv("run", f"say {'word ' * 30}\nhang")) as shown:
        shown.expect("waiting for the model")
        fcntl.ioctl(shown._fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, 30, 0, 0))
        shown.expect("  word word word word word\x1b[0m\r\n")
        shown.type("\x03")
        assert shown.wait() == 130


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_draw_gets_plain_lines(home: Home, term: str) -> None:
    home.env["TERM"] = term
    with terminal(home, *home.argv("run", "think hm\nsay **x**\ntool read a")) as shown:
        assert shown.wait() == 0
        text = shown.seen
    assert "\x1b" not in text
    assert "thought: hm\r\n**x**\r\ntool read: a (in_progress)\r\n" in text


def test_words_in_a_file_are_as_they_came(home: Home) -> None:
    command = 'exec "$@" > words'
    argv = ["/bin/sh", "-c", command, "sh", *home.argv("run", "say **x**\ntool read a\nsay y")]
    with terminal(home, *argv) as shown:
        assert shown.wait() == 0
        assert "\x1b" not in shown.seen
        assert "tool: a (completed)" in shown.seen
    assert (home.path / "words").read_bytes() == b"**x**\ny\n"


def test_a_key_that_is_detached_is_plain(home: Home) -> None:
    with terminal(home, *home.argv("run", "--detach", "say x")) as shown:
        assert shown.wait() == 0
        assert "\x1b" not in shown.seen
        assert shown.seen.strip().split("\r\n")[-1].startswith("agent:fake:acp:")


def test_a_terminal_that_is_closed_ends_the_run_and_its_turn(home: Home) -> None:
    with terminal(home, *home.argv("run", "say half\nhang")) as shown:
        shown.expect("half")
        os.close(shown._fd)
        shown._fd = os.open(os.devnull, os.O_RDWR)
        _, status = os.waitpid(shown.pid, 0)
        shown._status = status
    assert os.waitstatus_to_exitcode(status) in (1, 128 + signal.SIGHUP)
    deadline = time.monotonic() + LIMIT
    while home.status()["sessions"]:
        assert time.monotonic() < deadline
        time.sleep(PAUSE)


def test_a_run_that_was_frozen_from_outside_draws_itself_anew(home: Home) -> None:
    with terminal(home, *home.argv("run", "say half\nhang")) as shown:
        shown.expect("half")
        os.kill(shown.pid, signal.SIGSTOP)
        os.waitpid(shown.pid, os.WUNTRACED)
        os.kill(shown.pid, signal.SIGCONT)
        shown.expect("waiting for the model")
        shown.expect("half")
        shown.type("\x03")
        assert shown.wait() == 130
        left(shown)
