"""The table of fault points and the source say the same (G17): no write escapes the table.

Every call that writes, flushes, cuts, commits, renames or removes stands in a function that passes
a fault point, or here with the reason why nothing depends on it.
"""

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from acpbridge.model.faults import POINTS
from tests.integration.test_fault_points import ELSEWHERE, armings

ROOT = Path(__file__).parents[2] / "acpbridge"

# What changes a file or sends bytes, by the name of the function or method that is called.
WRITES = {"write", "pwrite", "fsync", "ftruncate", "rename", "replace", "unlink", "executescript"}
WRITES |= {"send", "sendall", "write_text", "write_bytes", "hardlink_to"}
MODULES = ("os", "path", "part", "fresh", "aside", "source", "draft", "target", "file", "out")

# Functions that write without a point, and why.
OTHERWISE = {
    "cli": "what a command prints or exports is a person's, who sees whether it worked",
    "edge/stdio.py": "the process of an editor's face, not the daemon's",
    "agents/demo.py": "an agent that ships, in a process of its own",
    "agents/main.py": "a channel of the program that the agent lives in",
    "tools/wire.py": "stdio of a server that a client started, a process of its own",
    "checking": "a trial of an agent by `doctor`",
    "transport/helpers": "guard, keeper and shim: processes of their own, killed in their tests",
    "transport/line.py": "orders to the keeper: see tests/integration/test_child.py",
    "transport/tree.py": "the sealed order of one start; the same",
    "transport/pipes.py": "below `faulty`, which has the points",
    "transport/memory.py": "no file, and no process at its other end",
    "transport/outgoing.py": "sends by the stream that it is given: `faulty`",
    "transport/unix.py": "the socket of a daemon that is gone",
    "daemon/quick.py": "a client's side",
    "daemon/obstacles.py": "a rename before anything is opened; done or not, the start goes on",
    "runtimes/session_files.py": "an agent's own files; see its tests",
    "embed/opening.py": "the socket, at the end of an embedding program",
    "app/daemon.py": "the socket, at the end",
    "logs.py": "stderr of a process without a log file",
}


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call with the name of the innermost function that it stands in."""
    todo: list[tuple[str, ast.AST]] = [("", tree)]
    while todo:
        name, node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        if isinstance(node, ast.Call):
            yield name, node
        todo += [(name, child) for child in ast.iter_child_nodes(node)]


def passed(call: ast.Call) -> str | None:
    """Return the point that a call passes, None if it is no passing."""
    named = ast.unparse(call.func)
    if re.fullmatch(r"(.*\._?)?faults", named) and isinstance(call.args[0], ast.Constant):
        return str(call.args[0].value)
    return None


def writes(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in WRITES:
        return False
    on = ast.unparse(call.func.value)
    if call.func.attr == "replace" and len(call.args) != 1:
        return False  # of a text, or of a dataclass
    return call.func.attr in ("send", "executescript") or any(word in on for word in MODULES)


@functools.cache
def sources() -> list[tuple[str, ast.AST]]:
    return [
        (str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(ROOT.rglob("*.py"))
    ]


def test_the_table_names_exactly_the_points_of_the_source() -> None:
    found = Counter(
        point for _, tree in sources() for _, call in calls(tree) if (point := passed(call))
    )
    # Those of the streams are looked up by the name of the stream, in `transport/faulty.py`.
    streams = ("agent.send", "agent.sent", "socket.send", "socket.sent")
    assert found + Counter(streams) == Counter(list(POINTS))


def test_g17_whatever_is_written_passes_a_fault_point_or_says_why_not() -> None:
    bare = []
    for where, tree in sources():
        if any(where == known or where.startswith(f"{known}/") for known in OTHERWISE):
            continue
        covered = {name for name, call in calls(tree) if passed(call)}
        bare += [
            (where, name, ast.unparse(call.func))
            for name, call in calls(tree)
            if writes(call) and name not in covered and (where, name) not in WITHIN
        ]
    assert bare == []


# Functions that only the one with the point calls.
WITHIN = {
    ("permissions/audit.py", "_write_whole"): "of `_write`",
    ("permissions/audit.py", "_finish_turn"): "undoes what is harmless, again at the next start",
    ("permissions/audit.py", "_sync_directory"): "a new file's name; before it holds anything",
    ("store/database.py", "rebuild"): "passes `store.rescued`",
    ("transport/faulty.py", "send"): "its points are looked up by the name of the stream",
    ("store/database.py", "_prepare"): "passes `store.create`",
    ("store/database.py", "_columns"): "a database in memory",
    ("runtimes/client_files.py", "work"): "calls `textfiles.write`, which has the points",
    ("agents/house.py", "_write"): "calls `textfiles.write`, in the agent's own process",
    ("router/attachments.py", "_write"): "staged before the run is accepted; else removed",
    ("store/writer.py", "_attempt"): "the event file has the points",
}


def test_every_point_is_killed_at_by_a_test() -> None:
    """In the scenario, or in the file that is named for it."""
    swept = {arming.partition(":")[0] for arming in armings()}
    assert swept | set(ELSEWHERE) == set(POINTS)
    for point, where in ELSEWHERE.items():
        assert point in (ROOT.parent / where).read_text(encoding="utf-8"), point
