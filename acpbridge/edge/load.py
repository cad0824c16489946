"""Finds the code of a Python agent by its entry, `MODULE:ATTRIBUTE`."""

import importlib
from collections.abc import Callable
from typing import Any, cast

from acpbridge.errors import BridgeError

# An error inside somebody's module may say a lot.
LONGEST_REASON = 500


def load_entry(entry: str) -> Callable[..., Any]:
    """Import the module and return the attribute, which may be dotted.

    Raises:
        BridgeError: `usage`, saying what is missing or what the import raised.
    """
    name, colon, path = entry.partition(":")
    if not (name and colon and path):
        raise BridgeError("usage", f"{entry!r} is not an entry: write MODULE:ATTRIBUTE.")
    found = _import(name)
    for attribute in path.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError:
            raise BridgeError("usage", f"The module {name} has no {path}.") from None
    if not callable(found):
        raise BridgeError("usage", f"{entry} is not callable: an agent is an async function.")
    return cast("Callable[..., Any]", found)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise BridgeError(
                "usage",
                f"There is no module {name}: {error.name} cannot be found.",
                hint="Install it for this interpreter, or put its directory on PYTHONPATH.",
            ) from None
        raise _failed(name, error) from error
    except (Exception, SystemExit) as error:
        # The boundary of a call: somebody else's module, at its import.
        raise _failed(name, error) from error


def _failed(name: str, error: BaseException) -> BridgeError:
    text = " ".join(str(error).split())[:LONGEST_REASON]
    return BridgeError(
        "usage", f"The module {name} fails to import: {type(error).__name__}: {text}"
    )
