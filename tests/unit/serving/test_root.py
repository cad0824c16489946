"""A served agent starts in the time that Python takes: nothing slow is imported for it."""

import subprocess
import sys

SLOW = ("pydantic", "structlog", "rich", "psutil", "yaml", "click")


def test_serving_an_agent_imports_nothing_slow() -> None:
    code = f"import acpbridge.serving.root, sys; print(sorted({{*{SLOW}}} & {{*sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8"
    )
    assert done.stdout == "[]\n"
