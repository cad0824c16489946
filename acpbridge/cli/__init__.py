"""The operator's commands. The only package that prints: stdout is data, stderr is talk.

Each command is in a module of `commands` that is imported when it is used, so that the quick ones
stay quick. What they share is here; `terminal`, `questions` and `views` each import only those
before them.
"""

import gc

# Nothing that is made while modules are imported is garbage; looking through it for some took a
# tenth of a quick command's time. `root` turns it on again before a command runs.
gc.disable()

from acpbridge.cli.root import main  # noqa: E402 - see above

__all__ = ["main"]
