"""The embedded agent: it shows every part of the bridge and needs neither login nor network.

`write PATH [with TEXT]` shows a change, asks a person and then writes one file below the session's
directory; `choose A, B or C` has a person pick one. Anything else is answered with a look at the
directory and a word about itself. The same prompt has the same answer, every time.
"""

import errno
import os
import re
import stat
from typing import Final

from acpbridge.runtimes.content import diff_content
from acpbridge.runtimes.turn import PlanEntry, Turn

# What a child is asked stands between these; see `router.briefing`.
_TASK: Final = re.compile(
    r"\[Subagent Context\] .*?\n\n\[Subagent Task\]\n(?P<task>.*)\n\nBegin now[^\n]*", re.DOTALL
)
_WRITE: Final = re.compile(r"\s*write\s+(?P<path>\S+)(?:\s+with\s+(?P<text>.*))?\s*", re.DOTALL)
_CHOOSE: Final = re.compile(r"\s*choose\s+(?P<options>.*\S)\s*", re.DOTALL)
_BETWEEN: Final = re.compile(r"\s*(?:,|\bor\b)\s*")

# More than that nobody chooses among at a glance.
MOST_OPTIONS: Final = 9

# A diff that a person is to approve is shown whole, so a file that is larger is left alone.
LARGEST: Final = 256 * 1024

DEFAULT_TEXT: Final = "Written by the demo agent of acpbridge."

# There is no model; words pass for tokens, so that there is something to be counted.
WINDOW: Final = 10_000

ABOUT: Final = (
    "Hello. I am demo, the agent that comes with acpbridge. I have no model behind me and use no "
    "network; I am here so that you can see the bridge at work."
)

TRY: Final = """\
Try one of these:

- `write hello.txt with Hi there`: I show you the change, ask, and write it
- `choose red, green or blue`: I ask you to pick one"""


async def demo(turn: Turn) -> str:
    """Serve one turn."""
    answer = await _answer(turn)
    before = sum(_words(past.text) + _words(past.said) for past in turn.history)
    turn.tokens(input=_words(turn.text), output=_words(answer))
    turn.usage(min(before + _words(turn.text) + _words(answer), WINDOW), WINDOW)
    return answer


async def _answer(turn: Turn) -> str:
    briefed = _TASK.fullmatch(turn.text)
    asked = turn.text if briefed is None else briefed["task"]
    found = _WRITE.fullmatch(asked)
    if found is not None:
        text = found["text"] or DEFAULT_TEXT
        return await _write(turn, found["path"], text.rstrip("\n") + "\n")
    found = _CHOOSE.fullmatch(asked)
    options = [] if found is None else _options(found["options"])
    return await _choose(turn, options) if len(options) > 1 else await _look(turn)


def _words(text: str) -> int:
    return len(text.split())


def _options(text: str) -> list[str]:
    options = dict.fromkeys(filter(None, _BETWEEN.split(text)))
    return list(options)[:MOST_OPTIONS]


async def _choose(turn: Turn, options: list[str]) -> str:
    turn.think("That is for you to decide.")
    # Numbers for ids: a word of the prompt could mean something to whoever reads the answer.
    named = {str(number): text for number, text in enumerate(options, 1)}
    chosen = await turn.choose("Which one shall it be?", named)
    return "You chose none of them." if chosen is None else f"You chose {named[chosen]}."


async def _look(turn: Turn) -> str:
    look, tell = "Look at the directory", "Say what I am"
    turn.think("I do not know that one; I had better say what I can do.")
    turn.plan([PlanEntry(look, "in_progress"), PlanEntry(tell)])
    async with turn.tool("Count the entries", kind="read", locations=[turn.cwd]) as call:
        try:
            count = len(os.listdir(turn.cwd))  # noqa: PTH208 - one short look
        except OSError as error:
            seen = f"{turn.cwd} cannot be read: {error.strerror}."
            call.fail(seen)
        else:
            seen = f"{turn.cwd} has {count} {'entry' if count == 1 else 'entries'}."
            call.content(seen)
    turn.plan([PlanEntry(look, "completed"), PlanEntry(tell, "completed")])
    return f"{ABOUT}\n\n{seen}\n\n{TRY}"


async def _write(turn: Turn, path: str, text: str) -> str:
    try:
        parts = _parts(turn.cwd, path)
        old = _read(turn.cwd, parts)
    except (OSError, ValueError) as error:
        return f"I do not write {path}: {_why(error)}"
    target = turn.absolute("/".join(parts))
    ask, write = "Show the change and ask", f"Write {path}"
    turn.think(f"{path} is {'new' if old is None else 'there already'}; you should see it first.")
    turn.plan([PlanEntry(ask, "in_progress"), PlanEntry(write)])
    async with turn.tool(
        write,
        kind="edit",
        raw_input={"path": target, "text": text},
        locations=[target],
        content=[diff_content(target, old, text)],
    ) as call:
        if not await call.ask():
            turn.plan([PlanEntry(ask, "completed"), PlanEntry(write)])
            return f"I was not allowed to write {path}, so I left it alone."
        turn.plan([PlanEntry(ask, "completed"), PlanEntry(write, "in_progress")])
        try:
            _replace(turn.cwd, parts, text)
        except OSError as error:
            call.fail(_why(error))
            return f"I could not write {path}: {_why(error)}"
    turn.plan([PlanEntry(ask, "completed"), PlanEntry(write, "completed")])
    return f"I wrote {len(text.encode())} bytes to {path}."


def _why(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return "a link or a file is in the way, and I do not follow links."
    return f"{error.strerror}."


def _parts(cwd: str, path: str) -> list[str]:
    """Return the names from the directory down to the file.

    Raises:
        ValueError: the path leaves the directory, or names nothing in it.
    """
    relative = os.path.relpath(os.path.join(cwd, path), cwd)  # noqa: PTH118 - text only
    parts = relative.split("/")
    if parts[0] == "..":
        raise ValueError("it is outside of my directory.")
    if parts == ["."]:
        raise ValueError("it is my directory itself.")
    return parts


# Each name is opened below the one before and no link is followed, so that a link put in place
# after the question leads nowhere either.


def _open_parent(cwd: str, parts: list[str]) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    folder = os.open(cwd, flags)
    for name in parts[:-1]:
        try:
            inner = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _open_file(folder: int, name: str, flags: int) -> int:
    # Without a wait: a named pipe must not hold up the agent.
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o666, dir_fd=folder)


def _read(cwd: str, parts: list[str]) -> str | None:
    """Return what the file holds, None if there is none yet.

    Raises:
        ValueError: it is no regular file of text, or a large one.
    """
    folder = _open_parent(cwd, parts)
    try:
        fd = _open_file(folder, parts[-1], os.O_RDONLY)
    except FileNotFoundError:
        return None
    finally:
        os.close(folder)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise ValueError("it is no plain file.")
        if found.st_size > LARGEST:
            raise ValueError("the file that is there is too large for me.")
        # Only now: given a directory it raises, and closes nothing.
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read().decode("utf-8", "replace")
    finally:
        os.close(fd)


def _replace(cwd: str, parts: list[str], text: str) -> None:
    folder = _open_parent(cwd, parts)
    try:
        fd = _open_file(folder, parts[-1], os.O_WRONLY | os.O_CREAT)
    finally:
        os.close(folder)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise PermissionError(1, "It is no plain file")
        with os.fdopen(fd, "wb", closefd=False) as file:
            file.truncate()
            file.write(text.encode("utf-8", "surrogatepass"))
    finally:
        os.close(fd)
