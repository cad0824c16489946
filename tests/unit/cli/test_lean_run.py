"""What a client of the daemon does not wait for."""

import subprocess
import sys

MODULES = "acpbridge.cli.commands.run, acpbridge.cli.turn, acpbridge.cli.choices, acpbridge.logs"


def test_a_run_reads_no_configuration_and_imports_nothing_that_does() -> None:
    """It is the daemon that reads it. With pydantic and yaml a `run` started half as long again."""
    code = f"import sys, {MODULES}\nprint([m for m in ('pydantic', 'yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
