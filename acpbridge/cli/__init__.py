"""The operator's commands. The only package that prints: stdout is data, stderr is talk.

Each command is a module of its own, imported when it is used, so that the quick ones stay quick.
"""

import gc

# Nothing that is made while modules are imported is garbage; looking through it for some took a
# tenth of a quick command's time. `root` turns it on again before a command runs.
gc.disable()

from acpbridge.cli.root import main  # noqa: E402 - see above

__all__ = ["main"]
