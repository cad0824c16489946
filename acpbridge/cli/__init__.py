"""The operator's commands. The only package that prints: stdout is data, stderr is talk.

Each command is a module of its own, imported when it is used, so that the quick ones stay quick.
"""

from acpbridge.cli.root import main

__all__ = ["main"]
