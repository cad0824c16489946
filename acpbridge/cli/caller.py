"""What a command takes from its caller for an agent."""

import os


def environment() -> dict[str, str]:
    """Return the environment, without what cannot travel as JSON: bytes that are not UTF-8."""
    out = {}
    for name, value in os.environ.items():
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            continue
        out[name] = value
    return out


def directory() -> str:
    """Return the current directory, "" where it is gone or cannot travel as JSON."""
    try:
        here = os.getcwd()  # noqa: PTH109 - as the kernel has it
        here.encode()
    except (OSError, UnicodeEncodeError):
        return ""
    return here
