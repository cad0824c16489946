"""acpbridge: the supervised home of a person's coding agents.

Importing the package stays cheap: nothing below is imported until it is used.
"""

__version__ = "0.1.0"
