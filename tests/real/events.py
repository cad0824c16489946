"""What can happen to agents that are in the middle of a running shell command, as data.

Above is `killing`, which makes it happen and looks at what is left.
"""

from __future__ import annotations

from dataclasses import dataclass

# What stands between the user and the agent's command, from the top.
PARTS = ("daemon", "guard", "keeper", "shim", "agent")


@dataclass(frozen=True)
class Event:
    """One thing that happens.

    Attributes:
        id: short.
        words: for people.
        parts: get SIGKILL, every one stopped before the first is killed.
        command: of acpbridge; with `each` once for each session, with its key behind it.
        each: see there.
        leaves: the shell command ends, and leaves what it started; with it the turn ends.
        options: of `run`.
        lives_on: the session does, so only the shell command and its children are watched.
        sweep: nobody is left to end anything before a daemon starts again.
        again: the session lives on in a new process.
        always: it is part of the test, and not only of the table.
    """

    id: str
    words: str
    parts: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    each: bool = False
    leaves: bool = False
    options: tuple[str, ...] = ()
    lives_on: bool = False
    sweep: bool = False
    again: bool = False
    always: bool = True

    @property
    def whole(self) -> bool:
        """Whether nothing may be left of it, without another daemon's help."""
        return not (self.lives_on or self.sweep)


def _killed(*parts: str, sweep: bool = False, always: bool = True) -> Event:
    words = f"`kill -9` of {', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{parts[-1]}"
    return Event("+".join(parts), words, parts, sweep=sweep, always=always)


_SESSION = ("--mode", "session")

EVENTS = (
    Event("kill", "`acpbridge kill`", command=("kill", "--all")),
    Event("kill-now", "`acpbridge kill --now`", command=("kill", "--all", "--now"), always=False),
    _killed("agent"),
    _killed("shim"),
    _killed("keeper"),
    _killed("guard", always=False),
    _killed("daemon"),
    _killed("daemon", "keeper"),
    _killed("daemon", "shim"),
    _killed("keeper", "shim"),
    _killed("daemon", "guard", always=False),
    _killed("guard", "keeper", always=False),
    _killed("guard", "shim", always=False),
    _killed("daemon", "keeper", "shim"),
    _killed("daemon", "guard", "keeper", always=False),
    _killed("daemon", "guard", "shim", always=False),
    _killed("guard", "keeper", "shim", always=False),
    _killed("daemon", "guard", "keeper", "shim", sweep=True),
    _killed("daemon", "guard", "keeper", "shim", "agent", sweep=True, always=False),
    Event(
        "stop",
        "`acpbridge daemon stop --force`",
        command=("daemon", "stop", "--force"),
        always=False,
    ),
    Event("close", "`acpbridge close`", command=("close",), each=True, always=False),
    Event(
        "restart",
        "`acpbridge restart --force`",
        command=("restart", "--force"),
        each=True,
        options=_SESSION,
        again=True,
        always=False,  # one of them waits for the next minute before it loads its session again
    ),
    Event("client", "`kill -9` of the `acpbridge run`", ("client",), always=False),
    Event(
        "cancel",
        "`acpbridge cancel`",
        command=("cancel",),
        each=True,
        options=_SESSION,
        lives_on=True,
    ),
    Event("end", "the turn ends, `--mode run`", leaves=True, always=False),
    Event("end-session", "the turn ends", leaves=True, options=_SESSION, lives_on=True),
)
