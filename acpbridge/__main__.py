"""`python -m acpbridge`: the same as the command."""

from acpbridge.cli import main

main()
