"""An interpreter that cannot serve says what to do about it, whatever its version."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from acpbridge.runtimes.command import START
from acpbridge.serving.start import missing, problem


@pytest.mark.parametrize(("version", "fits"), [((3, 10), False), ((3, 11), True), ((4, 0), True)])
def test_an_interpreter_that_is_too_old_is_named_with_its_version(
    version: tuple[int, int], fits: bool
) -> None:
    said = problem(version, "/usr/bin/python3.10")
    assert (said == "") is fits
    if not fits:
        assert "/usr/bin/python3.10 is Python 3.10; acpbridge needs 3.11 or newer." in said
        assert "next: Set runtime.python" in said


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    said = missing(ImportError("No module named 'acpbridge'"), "/opt/python")
    assert "/opt/python cannot import acpbridge: No module named 'acpbridge'" in said
    assert "next: Install it for that interpreter: /opt/python -m pip install acpbridge" in said


def test_every_python_3_from_3_6_on_can_read_it() -> None:
    tree = ast.parse(Path(START).read_text(encoding="utf-8"), feature_version=(3, 6))
    assert tree.body


def run(*args: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env=env,
        input="",
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=20,
        check=False,
    )


def test_where_acpbridge_is_not_installed_that_is_said(tmp_path: Path) -> None:
    done = run("-I", "-S", START, "shop.agents:one", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot import acpbridge" in done.stderr
    assert "-m pip install acpbridge" in done.stderr


def test_neither_our_modules_nor_those_of_the_directory_pass_for_the_agents(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("async def one(turn): ...\n", encoding="utf-8")
    for name in ("agent:one", "root:main", "start:main"):
        done = run(START, name, cwd=tmp_path)
        assert done.returncode == 2
        assert f"There is no module {name.partition(':')[0]}" in done.stderr


def test_a_mistake_of_the_module_is_shown_with_its_own_traceback_and_no_other(
    tmp_path: Path,
) -> None:
    file = tmp_path / "agent.py"
    file.write_text("def wrong():\n    return {}['key']\n\n\nwrong()\n", encoding="utf-8")
    done = run(START, f"{file}:one", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[:3] == [
        "Traceback (most recent call last):",
        f'  File "{file}", line 5, in <module>',
        "    wrong()",
    ]
    assert "KeyError: 'key'" in done.stderr
    assert "acpbridge/" not in done.stderr.replace(str(tmp_path), "")
    assert "fails to import: KeyError" in done.stderr.splitlines()[-2]
    assert done.stderr.splitlines()[-1].startswith("next: ")


def test_a_served_agent_imports_nothing_that_is_slow(tmp_path: Path) -> None:
    code = (
        "import runpy, sys\n"
        f"sys.argv[:] = [{START!r}, 'acpbridge.agents.demo:demo']\n"
        "try:\n"
        f"    runpy.run_path({START!r}, run_name='__main__')\n"
        "except SystemExit as error:\n"
        "    assert not error.code\n"
        "slow = ('rich', 'structlog', 'click', 'psutil', 'yaml', 'sqlite3')\n"
        "sys.exit(' '.join(name for name in slow if name in sys.modules) or 0)\n"
    )
    done = run("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
