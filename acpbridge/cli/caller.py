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
