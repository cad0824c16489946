"""What to start, in exec's terms, and why a start failed, in a person's.

Above is `acpbridge.transport.child`. Looks at files, starts nothing.
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.transport.helpers import wire
from acpbridge.transport.tree import ChildSpec

# What to do about a step that failed, where that is not plain from the message.
_NO_ROOM: Final = (
    "Close a session, or raise the daemon's limits (ulimit -n, ulimit -u); then prompt again."
)

_HINTS: Final = {
    "fork": _NO_ROOM,
    "pidns": "Allow user namespaces, or remove `containment: pidns` from the agent's definition.",
}


def resolve_program(argv0: str, env: Mapping[str, str], cwd: str) -> str:
    """Return the absolute path of a program, found on the absolute places of the PATH.

    Raises:
        BridgeError: `agent_not_found`, with the places that were searched.
    """
    folder = Path(cwd)
    if "/" in argv0:
        candidates = [folder / argv0]
        if not folder.is_dir() and not Path(argv0).is_absolute():
            return str(candidates[0])  # the start will fail on the directory, and say so
    else:
        places = env.get("PATH", os.defpath).split(os.pathsep)
        # An empty or relative place is the directory that the agent works in: what lies there may
        # be anybody's, and starts nothing by itself.
        candidates = [Path(place, argv0) for place in places if Path(place).is_absolute()]
    files = [candidate for candidate in candidates if argv0 and candidate.is_file()]
    for candidate in files:
        if os.access(candidate, os.X_OK):
            return str(candidate)
    searched = [str(candidate.parent) for candidate in candidates]
    if files:
        message = f"{files[0]} is not executable."
    elif "/" in argv0:
        message = f"There is no program {candidates[0]}."
    else:
        message = f"There is no program {argv0!r} on the agent's PATH: {':'.join(searched)}"
    raise BridgeError("agent_not_found", message, data={"program": argv0, "searched": searched})


def order_for(spec: ChildSpec, program: str) -> bytes:
    """Return what the shim is told; `start_failed` if exec could not pass it on as it is."""
    try:
        return wire.Order(
            os.fsencode(program),
            [os.fsencode(word) for word in spec.argv],
            {os.fsencode(name): os.fsencode(value) for name, value in spec.env.items()},
            os.fsencode(spec.cwd),
            spec.linger,
            cgroup=os.fsencode(spec.cgroup),
            pidns=spec.pidns,
        ).encode()
    except ValueError as error:
        raise BridgeError("start_failed", f"The agent cannot be started: {error}.") from error


def no_room(error: OSError) -> BridgeError:
    """Say that this process ran out of something that a start needs."""
    return BridgeError(
        "capacity",
        f"There is no room for another agent: {error.strerror}.",
        hint=_NO_ROOM,
        data={"errno": errno.errorcode.get(error.errno or 0)},
    )


def start_error(failure: tuple[str, int] | None, spec: ChildSpec, program: str) -> BridgeError:
    """Say in a person's words why an agent did not start."""
    if failure is None:
        return BridgeError(
            "start_failed",
            "The agent's helper was killed, or did not answer, while it was started.",
        )
    step, number = failure
    reason = os.strerror(number)
    data = {"program": program, "cwd": spec.cwd, "step": step, "errno": errno.errorcode.get(number)}
    code = "start_failed"
    if step == "cwd":
        message = f"The working directory {spec.cwd} cannot be entered: {reason}."
    elif step == "cgroup":
        message = f"The agent cannot be put into a control group of its own: {reason}."
    elif step == "pidns":
        message = f"The kernel does not give the agent a pid namespace of its own: {reason}."
    elif step == "fork":
        code, message = "capacity", f"There is no room for another process: {reason}."
    elif number == errno.ENOENT and Path(program).exists():
        message = f"{program} cannot be run: the interpreter that its first line names is missing."
    else:
        code = "agent_not_found" if number == errno.ENOENT else code
        message = f"{program} cannot be run: {reason}."
    return BridgeError(code, message, hint=_HINTS.get(step), data=data)
