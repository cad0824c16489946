"""The life of one agent process as a total table: every state meets every input. Pure.

Two rules stand behind the cells. Only `end_tree` ends anything, and whoever reaches ENDING has
asked for it. Only GONE says that nothing is left, and it is reached by proof alone: the report that
the whole tree is gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Life(StrEnum):
    """Where a process stands. READY means that `initialize` was answered, not that it runs."""

    NEW = "new"
    STARTING = "starting"
    READY = "ready"
    ENDING = "ending"
    GONE = "gone"


class Input(StrEnum):
    """What can happen to it."""

    SPAWNED = "spawned"
    SPAWN_FAILED = "spawn_failed"
    INITIALIZED = "initialized"
    EXITED = "exited"
    LOST = "lost"  # end of file on its stdout, or a start that took too long
    STOP = "stop"
    TREE_GONE = "tree_gone"


class Action(StrEnum):
    """What is to be done about it."""

    NOTHING = "nothing"
    END_TREE = "end_tree"
    REPORT = "report"  # tell the session that its agent died
    REPORT_AND_END = "report_and_end"


@dataclass(frozen=True, slots=True)
class Step:
    """One cell: the next state and what to do."""

    state: Life
    action: Action


def _row(**cells: tuple[Life, Action]) -> dict[Input, Step]:
    return {Input(name): Step(*cell) for name, cell in cells.items()}


_N, _S, _R, _E, _G = Life.NEW, Life.STARTING, Life.READY, Life.ENDING, Life.GONE
_NO, _END = Action.NOTHING, Action.END_TREE
_TELL, _BOTH = Action.REPORT, Action.REPORT_AND_END

TABLE: Final[Mapping[Life, Mapping[Input, Step]]] = {
    _N: _row(
        spawned=(_S, _NO),
        spawn_failed=(_G, _TELL),
        initialized=(_N, _NO),
        exited=(_N, _NO),
        lost=(_N, _NO),
        stop=(_G, _NO),
        tree_gone=(_N, _NO),
    ),
    _S: _row(
        spawned=(_S, _NO),
        spawn_failed=(_G, _TELL),
        initialized=(_R, _NO),
        exited=(_E, _BOTH),
        lost=(_E, _BOTH),
        stop=(_E, _END),
        tree_gone=(_G, _TELL),
    ),
    _R: _row(
        spawned=(_R, _NO),
        spawn_failed=(_R, _NO),
        initialized=(_R, _NO),
        exited=(_E, _BOTH),
        lost=(_E, _BOTH),
        stop=(_E, _END),
        tree_gone=(_G, _TELL),
    ),
    _E: _row(
        spawned=(_E, _END),  # a stop came while it was being spawned
        spawn_failed=(_G, _NO),
        initialized=(_E, _NO),
        exited=(_E, _NO),
        lost=(_E, _NO),
        stop=(_E, _END),  # again, and maybe harder
        tree_gone=(_G, _NO),
    ),
    _G: _row(
        spawned=(_G, _NO),
        spawn_failed=(_G, _NO),
        initialized=(_G, _NO),
        exited=(_G, _NO),
        lost=(_G, _NO),
        stop=(_G, _NO),
        tree_gone=(_G, _NO),
    ),
}


def step(state: Life, happened: Input) -> Step:
    """Return the cell for a state and an input."""
    return TABLE[state][happened]
