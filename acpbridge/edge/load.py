"""Finds the code of a Python agent by its entry: `MODULE:AGENT`, or `FILE.py:AGENT`.

A module is found as Python finds any module, so it must be installed for the interpreter. A file is
found by its path; its directory comes last on the import path, so that it can import its neighbours
and yet shadow nothing. Neither is ever looked for in the directory that the agent works in.
"""

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from acpbridge.errors import BridgeError

# An error inside somebody's module may say a lot.
LONGEST_REASON: Final = 500

WRITE: Final = "Write it as: async def agent(turn): ..."

# Frames of ours and of the import system say nothing of somebody's mistake.
_OURS: Final = f"{Path(__file__).parents[1]}/"
_IMPORTING: Final = ("<frozen ", importlib.__file__)


def load_entry(entry: str) -> Callable[..., Any]:
    """Import the module and return the agent in it, whose name may be dotted.

    Raises:
        BridgeError: `usage`, saying what is missing or what the import raised.
    """
    name, colon, path = entry.rpartition(":")
    if not (name and colon and path):
        hint = "Name a module and the agent in it: shop.agents:summariser, or ./agent.py:agent."
        raise BridgeError("usage", f"{entry!r} is not an entry: write MODULE:AGENT.", hint=hint)
    found = _from_file(name) if name.endswith(".py") else _from_module(name)
    for attribute in path.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError:
            raise BridgeError(
                "usage", f"The module {name} has no {path}.", hint=_there(found)
            ) from None
    return check_agent(entry, found)


def name_of(entry: str) -> str:
    """Return a name for the agent that an entry names."""
    return entry.rpartition(":")[2].replace(".", "-")


def users_frames(error: BaseException) -> traceback.TracebackException:
    """Return an error's traceback from where somebody else's code begins."""
    told = traceback.TracebackException.from_exception(error)
    frames = [f for f in told.stack if not f.filename.startswith((_OURS, *_IMPORTING))]
    told.stack = traceback.StackSummary.from_list(frames)
    return told


def check_agent(name: str, found: Any) -> Callable[..., Any]:
    """Return what could be an agent's code.

    Raises:
        BridgeError: `usage`, when it certainly is none.
    """
    what = ""
    if inspect.isclass(found):
        what = "a class; name an instance of it that has an async __call__"
    elif not callable(found):
        what = f"not callable; it is of type {type(found).__name__}"
    elif inspect.isasyncgenfunction(found) or inspect.isgeneratorfunction(found):
        what = "a generator; speak by turn.say instead of yield"
    if what:
        raise BridgeError("usage", f"{name} is {what}.", hint=WRITE)
    return cast("Callable[..., Any]", found)


def _there(module: Any) -> str:
    """Return which agents there might be instead."""
    own = [name for name, value in vars(module).items() if inspect.iscoroutinefunction(value)]
    return f"It has: {', '.join(sorted(own))}." if own else WRITE


def _from_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise BridgeError(
                "usage",
                f"There is no module {name}: {error.name} cannot be found.",
                hint=f"Install it for {sys.executable}, or name its file: /path/to/agent.py:agent.",
            ) from None
        raise _failed(f"The module {name}", error) from error
    except (Exception, SystemExit) as error:
        # The boundary of a call: somebody else's module, at its import.
        raise _failed(f"The module {name}", error) from error


def _from_file(name: str) -> ModuleType:
    path = Path(name).absolute()
    if not path.is_file():
        hint = "Give the path of a file that is there, with its .py."
        raise BridgeError("usage", f"There is no file {path}.", hint=hint)
    own = f"agent_file_{path.stem}" if _is_taken(path.stem) else path.stem
    spec = importlib.util.spec_from_file_location(own, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module
    sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        # The boundary of a call: somebody else's file.
        raise _failed(f"The file {path}", error) from error
    return module


def _is_taken(name: str) -> bool:
    """Tell whether a name is that of another module, imported or not: that must stay what it is."""
    return name in sys.modules or "." in name or importlib.util.find_spec(name) is not None


def _failed(what: str, error: BaseException) -> BridgeError:
    text = " ".join(str(error).split())[:LONGEST_REASON]
    message = f"{what} fails to import: {type(error).__name__}: {text}"
    return BridgeError("usage", message, hint="Mend it; its traceback says where it went wrong.")
