"""The systemd user unit of a daemon: its name, its text, and whether a process runs in it. Pure.

Above are `daemon install`, which writes it, and `daemon restart`, which leaves such a daemon to its
manager. Directives and quoting are those of systemd.service(5), systemd.unit(5) and
systemd.syntax(7).
"""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from acpbridge.daemon.paths import Paths

# A polite stop takes ten seconds at most, and is then taken for failed. Seconds.
STOP_LIMIT: Final = 15

# A daemon whose event loop has not said for so long that it turns is replaced. Seconds.
WATCHDOG: Final = 30

# ExecStop is the polite way, between it and the daemon. Only what is left after it, nothing unless
# the daemon hangs, gets the signals of KillMode: they would cut each agent's grace short.
# RestartPreventExitStatus: a configuration that is wrong is wrong the next time as well.
# OOMPolicy: memory that one agent takes is not to end the others.
# Delegate: the daemon may hold each agent in a control group of its own.
_BODY: Final = """\
[Unit]
Description=acpbridge, the supervised home of coding agents
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart={program} {home} daemon run {config}
ExecStop={program} {home} daemon stop --yes
TimeoutStartSec=60
TimeoutStopSec={stop}
KillMode=control-group
Restart=on-failure
RestartSec=1
RestartPreventExitStatus=2
WatchdogSec={watchdog}
Delegate=yes
OOMPolicy=continue
UMask=0077

[Install]
WantedBy=default.target
"""

_PLAIN: Final = re.compile(r"[\w./=:@+-]+", re.ASCII)

_HEAD: Final = "# Written by acpbridge daemon install; change it with systemctl --user edit. "


def name(paths: Paths, default: Paths) -> str:
    """Return the name of a state directory's unit.

    Args:
        paths: of the state directory.
        default: of the one that is meant when none is named.
    """
    if paths.home == default.home:
        return "acpbridge.service"
    return f"acpbridge-{hashlib.sha256(os.fsencode(paths.home)).hexdigest()[:8]}.service"


def text(program: Sequence[str], paths: Paths) -> str:
    """Return the unit.

    Args:
        program: argv of `acpbridge`, the first by its absolute path.
        paths: of the state directory.
    """
    body = _BODY.format(
        program=" ".join(map(_quoted, program)),
        home=f"--home {_quoted(str(paths.home))}",
        config=f"--config {_quoted(str(paths.config))}",
        stop=STOP_LIMIT,
        watchdog=WATCHDOG,
    )
    return f"{_HEAD}{_digest(body)}\n{body}"


def untouched(found: str) -> bool:
    """Tell whether a unit is as some `daemon install` has written it."""
    head, _, body = found.partition("\n")
    return head == f"{_HEAD}{_digest(body)}"


def runs_in(unit: str, pid: int, proc: Path = Path("/proc")) -> bool:
    """Tell whether a process runs in a unit, by its control group; False when it is gone."""
    try:
        groups = (proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(unit in line.partition("/")[2].split("/") for line in groups.splitlines())


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def _quoted(word: str) -> str:
    """Return a word as systemd reads it back: no specifier, no variable, no byte but printable."""
    out = []
    for byte in os.fsencode(word):
        character = chr(byte)
        if character in '"\\':
            out.append(f"\\{character}")
        elif character in "%$":
            out.append(character * 2)
        elif 0x20 <= byte < 0x7F:
            out.append(character)
        else:
            out.append(f"\\x{byte:02x}")
    read_back = "".join(out)
    return read_back if _PLAIN.fullmatch(read_back) else f'"{read_back}"'
