"""Who may import whom: the floors of the package, and what only one place may touch."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import acpbridge

ROOT = Path(acpbridge.__file__).parent

FLOORS = (
    {"errors", "logline"},
    {"model"},
    {"config", "protocol", "redact"},
    {"transport"},
    {"controller", "permissions", "store"},
    {"runtimes"},
    {"router"},
    {"daemon", "edge", "tools", "agents"},
    {"logs"},
    # Three roots: `serve` and `doctor` do without router, store and daemon.
    {"app", "serving", "checking"},
    {"embed"},  # the bridge in somebody else's program
    {"cli"},
)
LEVEL = {part: level for level, parts in enumerate(FLOORS) for part in parts}

# The package itself lends its version and, lazily, the names that it exports from upper floors;
# `python -m` is the command line under another name.
EXEMPT = {"acpbridge", "acpbridge.__main__"}

PURE = {"errors", "model", "config", "protocol", "redact"}
IMPURE = {"anyio", "os", "psutil", "socket", "time", "asyncio", "subprocess"}

NOWHERE = {"asyncio", "threading"}

# The one task that belongs to no group: a program's own code that does not end when it is told to.
LEFT_BEHIND = "acpbridge.transport.foreign"

# child starts the helpers, which start agents; from a client detach starts the daemon itself, and
# foreground what a person asks for and talks to; commands is for agents of the house.
STARTERS = {
    f"acpbridge.transport.{name}"
    for name in ("child", "helpers.role", "detach", "foreground", "commands")
}
STARTING = {
    "subprocess",
    "multiprocessing",
    "pty",
    "anyio.open_process",
    "anyio.run_process",
    "anyio.to_process",
    "os.fork",
    "os.forkpty",
    "os.popen",
    "os.posix_spawn",
    "os.posix_spawnp",
    "os.system",
    *(f"os.spawn{how}" for how in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
}

CODEC, CODEC_HOME = "jsonrpc_base", "acpbridge.protocol.jsonrpc"


def imports(tree: ast.Module) -> Iterator[str]:
    """Yield the dotted name of everything that is imported, at any depth of the module."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                yield from (f"{'.' * level}{module or ''}.{alias.name}" for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name
            case _:
                pass


def uses(tree: ast.Module) -> Iterator[str]:
    """Yield every `name.attribute` that is looked up, by the name as it was imported."""
    real = {
        alias.asname: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{real.get(node.value.id, node.value.id)}.{node.attr}"


def within(name: str, places: set[str]) -> bool:
    """Tell whether a dotted name is one of the places, or inside one."""
    words = name.split(".")
    return any(".".join(words[: length + 1]) in places for length in range(len(words)))


def wrong_floor(module: str, imported: str) -> str | None:
    """Say what is wrong with an import of ours, None if nothing is."""
    here, there = module.split(".")[1], imported.split(".")[1]
    if there.startswith("__") or here == there:
        return None
    if there not in LEVEL:
        return f"{module} imports {imported}, which is on no floor"
    if LEVEL[there] >= LEVEL[here]:
        return f"{module} imports {imported}, which is not below it"
    return None


def prints(tree: ast.Module) -> bool:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    echoes = {"click.echo", "click.secho"}
    return "print" in names or bool(echoes & {*uses(tree), *imports(tree)})


def faults(modules: Mapping[str, str]) -> list[str]:
    """Return every breach of the layering in modules given by name and source."""
    found: list[str] = []
    for module, source in modules.items():
        if module not in EXEMPT:
            found += _faults(module, ast.parse(source))
    return found


def _faults(module: str, tree: ast.Module) -> Iterator[str]:
    part = module.split(".")[1]
    if part not in LEVEL:
        yield f"{module} is on no floor"
        return
    names = set(imports(tree))
    for name in sorted(names):
        yield from _import_faults(module, name)
    for name in sorted({*names, *uses(tree)}):
        if within(name, STARTING) and module not in STARTERS:
            yield f"{module} starts processes with {name}"
    if part != "cli" and prints(tree):
        yield f"{module} prints"


def _import_faults(module: str, name: str) -> Iterator[str]:
    root = name.split(".")[0]
    if not root:
        yield f"{module} imports {name} relatively"
    if root == "acpbridge" and (fault := wrong_floor(module, name)):
        yield fault
    if module.split(".")[1] in PURE and root in IMPURE:
        yield f"{module} is pure and imports {name}"
    nowhere = root in NOWHERE and (root, module) != ("asyncio", LEFT_BEHIND)
    if nowhere or (root == CODEC and module != CODEC_HOME):
        yield f"{module} imports {root}"


def package() -> dict[str, str]:
    """Return the source of every module of the package by its name."""
    out = {}
    for path in sorted(ROOT.rglob("*.py")):
        words = path.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(words[:-1] if words[-1] == "__init__" else words)
        out[name] = path.read_text(encoding="utf-8")
    return out


def test_the_package_keeps_its_floors() -> None:
    modules = package()
    assert len(modules) > 50
    assert faults(modules) == []


# What the helpers are started with; each starts in milliseconds and takes little memory.
FAST = {"_ctypes", "_socket", "errno", "gc", "os", "resource", "select", "signal", "sys", "time"}
# From below; each imports only those before it.
HELPERS = [
    "kernel",
    "killing",
    "cgroup",
    "wire",
    "libc",
    "role",
    "namespace",
    "shim",
    "keeper",
    "guard",
    "start",
]


def test_the_helpers_stand_on_their_own() -> None:
    home = "acpbridge.transport.helpers"
    found = {name: source for name, source in package().items() if name.startswith(f"{home}.")}
    assert sorted(found) == sorted(f"{home}.{name}" for name in HELPERS)
    for place, name in enumerate(HELPERS):
        allowed = FAST | {f"{home}.{below}" for below in HELPERS[:place]} | {"collections.abc"}
        for imported in imports(ast.parse(found[f"{home}.{name}"])):
            assert within(imported, allowed), f"{name} imports {imported}"


def test_every_floor_of_the_package_is_named() -> None:
    parts = {name.split(".")[1] for name in package() if "." in name} - {"__main__"}
    assert parts <= set(LEVEL)


PLANTED = {
    "a higher floor": ("model.x", "from acpbridge.store import ledger"),
    "a higher floor, by its module": ("model.x", "import acpbridge.store.ledger"),
    "a higher floor, by the package": ("model.x", "from acpbridge import store"),
    "a neighbour on the same floor": ("store.x", "from acpbridge.permissions.broker import B"),
    "a deferred import": ("runtimes.x", "def f():\n    from acpbridge.daemon import server"),
    "an import for types only": (
        "model.x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import acpbridge.router.api",
    ),
    "an import by name": ("model.x", "import importlib\nimportlib.import_module('acpbridge.cli')"),
    "an import in a class": ("router.x", "class A:\n    import acpbridge.app"),
    "the app from a face": ("edge.x", "from acpbridge.app import main"),
    "a package on no floor": ("cli.x", "import acpbridge.extras"),
    "a module on no floor": ("extras", "x = 1"),
    "a relative import": ("model.x", "from . import keys"),
    "anyio in a pure floor": ("protocol.x", "import anyio.abc"),
    "os in a pure floor": ("config.x", "from os import environ"),
    "the path of os in a pure floor": ("config.x", "import os.path as p"),
    "time in a pure floor": ("redact", "def f():\n    import time"),
    "a socket in a pure floor": ("errors", "import socket"),
    "psutil in a pure floor": ("model.x", "import psutil"),
    "asyncio": ("transport.x", "import asyncio.events"),
    "threading": ("store.x", "from threading import Lock"),
    "subprocess": ("cli.x", "import subprocess"),
    "subprocess, renamed": ("controller.x", "from subprocess import Popen as P"),
    "a fork": ("daemon.x", "import os\nos.fork()"),
    "a fork, renamed": ("daemon.x", "import os as system\nsystem.fork()"),
    "a fork, imported": ("daemon.x", "from os import fork"),
    "a spawn": ("daemon.x", "import os\nspawn = os.posix_spawn"),
    "a shell": ("cli.x", "import os\nos.system('x')"),
    "a process of anyio": ("runtimes.x", "import anyio\nanyio.open_process"),
    "worker processes": ("store.x", "from anyio import to_process"),
    "the codec": ("protocol.acp", "import jsonrpc_base"),
    "the codec, from": ("daemon.x", "from jsonrpc_base import Request"),
    "a print": ("daemon.x", "print('x')"),
    "a print as a value": ("router.x", "f = print"),
    "an echo": ("app", "import click\nclick.echo('x')"),
    "an echo, imported": ("edge.x", "from click import echo"),
    "a rich print": ("tools.x", "from rich import print\nprint('x')"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_breach_is_found(name: str) -> None:
    module, source = PLANTED[name]
    assert len(faults({f"acpbridge.{module}": source})) >= 1


SOUND = {
    "a lower floor": ("store.x", "from acpbridge.model.keys import SessionKey"),
    "its own package": ("store.x", "from acpbridge.store.lines import x"),
    "the version": ("model.x", "from acpbridge import __version__"),
    "the clock above": ("transport.x", "import time, os, anyio"),
    "the codec at home": ("protocol.jsonrpc", "import jsonrpc_base"),
    "a process by the child": ("transport.child", "import subprocess"),
    "a fork by the helpers": ("transport.helpers.role", "import os\nos.fork()"),
    "a print by the command line": ("cli.x", "import click\nclick.echo('x')\nprint('x')"),
    "a word": ("model.x", "'print asyncio import os'\nclass A:\n    def fork(self): ..."),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_allowed_is_not_found(name: str) -> None:
    module, source = SOUND[name]
    assert faults({f"acpbridge.{module}": source}) == []


def test_the_package_and_its_command_are_exempt() -> None:
    source = "from acpbridge.cli import main\nfrom acpbridge.app import open_bridge"
    assert faults(dict.fromkeys(EXEMPT, source)) == []
