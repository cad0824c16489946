"""Starts a program that a person talks to: on our own terminal, and waited for.

Above is `acpbridge login`. Nothing here is supervised: the person has started it, and ends it.
"""

import signal
import subprocess
from collections.abc import Mapping


def run_in_foreground(argv: tuple[str, ...], env: Mapping[str, str], cwd: str) -> int:
    """Run a program on our standard input, output and error; return its exit status.

    A Ctrl-C reaches the program from the terminal, and is its own business: we only wait for it.

    Raises:
        OSError: when it cannot be started.
    """
    # A handler, and not SIG_IGN: the program would inherit that.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = subprocess.Popen(argv, env=dict(env), cwd=cwd)  # noqa: TID251 - see the top
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
