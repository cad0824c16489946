"""The life of one agent process as a total table: every state meets every input. Pure.

It begins when the process is there. Two rules stand behind the cells: whoever comes to ENDING has
asked for it, and only GONE says that nothing is left, which is reached by proof alone, the report
that the whole tree is gone. A death is told once, and only if nobody had asked for the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Life(StrEnum):
    """Where a process stands.

    READY means that `initialize` was answered, not that it runs. LINGERING: the agent has exited by
    itself, and what it left behind has a moment before its shim ends it.
    """

    STARTING = "starting"
    READY = "ready"
    LINGERING = "lingering"
    ENDING = "ending"
    GONE = "gone"


class Input(StrEnum):
    """What can happen to it."""

    INITIALIZED = "initialized"
    EXITED = "exited"
    STOP = "stop"
    TREE_GONE = "tree_gone"


class Action(StrEnum):
    """What is to be done about it."""

    NOTHING = "nothing"
    TELL = "tell"  # that the agent died
    END_TREE = "end_tree"


@dataclass(frozen=True, slots=True)
class Step:
    """One cell: the next state and what to do."""

    state: Life
    action: Action


def _row(**cells: tuple[Life, Action]) -> dict[Input, Step]:
    return {Input(name): Step(*cell) for name, cell in cells.items()}


TABLE: Final[Mapping[Life, Mapping[Input, Step]]] = {
    Life.STARTING: _row(
        initialized=(Life.READY, Action.NOTHING),
        exited=(Life.LINGERING, Action.TELL),
        stop=(Life.ENDING, Action.END_TREE),
        tree_gone=(Life.GONE, Action.TELL),
    ),
    Life.READY: _row(
        initialized=(Life.READY, Action.NOTHING),
        exited=(Life.LINGERING, Action.TELL),
        stop=(Life.ENDING, Action.END_TREE),
        tree_gone=(Life.GONE, Action.TELL),
    ),
    Life.LINGERING: _row(
        initialized=(Life.LINGERING, Action.NOTHING),
        exited=(Life.LINGERING, Action.NOTHING),
        stop=(Life.ENDING, Action.END_TREE),
        tree_gone=(Life.GONE, Action.NOTHING),
    ),
    Life.ENDING: _row(
        initialized=(Life.ENDING, Action.NOTHING),
        exited=(Life.ENDING, Action.NOTHING),
        stop=(Life.ENDING, Action.END_TREE),  # again, and maybe harder
        tree_gone=(Life.GONE, Action.NOTHING),
    ),
    Life.GONE: _row(
        initialized=(Life.GONE, Action.NOTHING),
        exited=(Life.GONE, Action.NOTHING),
        stop=(Life.GONE, Action.NOTHING),
        tree_gone=(Life.GONE, Action.NOTHING),
    ),
}


def step(state: Life, happened: Input) -> Step:
    """Return the cell for a state and an input."""
    return TABLE[state][happened]
