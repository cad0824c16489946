"""Starts a Python agent with any interpreter: run as a file, by its path, and never imported.

The interpreter is the user's choice. It may be older than acpbridge can be, or have no acpbridge:
this file is one that every Python from 3.6 on understands, and it says what to do. Nor does it let
a module of ours, or of the directory that the agent works in, pass for one of the agent's.
"""

import sys

# As `requires-python` in pyproject.toml.
OLDEST = (3, 11)


def problem(version: "tuple[int, int]", executable: str) -> str:
    """Return why an interpreter of a version cannot be used, "" if it can."""
    if version >= OLDEST:
        return ""
    found, wanted = (f"{major}.{minor}" for major, minor in (version, OLDEST))
    return (
        f"error (usage): {executable} is Python {found}; acpbridge needs {wanted} or newer.\n"
        "next: Set runtime.python in config.yaml to a newer one that has acpbridge installed.\n"
    )


def missing(error: ImportError, executable: str) -> str:
    """Return what to say when acpbridge, or a package that it needs, is not installed."""
    return (
        f"error (usage): {executable} cannot import acpbridge: {error}.\n"
        f"next: Install it for that interpreter: {executable} -m pip install acpbridge\n"
    )


def main(entry: str) -> int:
    """Serve the agent that the entry names; return the exit status."""
    here = __file__.rpartition("/")[0]
    sys.path[:] = [place for place in sys.path if place != here]
    said = problem(sys.version_info[:2], sys.executable)
    if not said:
        try:
            from acpbridge.serving.root import main as serve
        except ImportError as error:
            said = missing(error, sys.executable)
        else:
            return serve(entry)
    sys.stderr.write(said)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
