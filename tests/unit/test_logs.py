"""A daemon's log: bounded, its owner's, redacted, and never the end of the daemon.

A log takes the descriptors 1 and 2 of its process, so each runs in a process of its own.
"""

import asyncio
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from acpbridge import logs
from acpbridge.cli.commands import daemon_log

START = """
import os, resource, signal, sys
from pathlib import Path
import structlog
from acpbridge import logs
path = Path(sys.argv[1])
logs.to_file(path, lambda event: {k: "***" if v == "canary" else v for k, v in event.items()})
log = structlog.get_logger("test")
"""


def logged(path: Path, code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", START + code, str(path)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_line_is_an_object_without_secrets_in_a_file_of_ours_alone_g26(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    path.touch(0o644)
    done = logged(path, 'log.info("hello", who="canary", odd="\\ud800")')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (line,) = lines(path)
    assert {k: line[k] for k in ("event", "who", "level")} == {
        "event": "hello",
        "who": "***",
        "level": "info",
    }
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_crash_is_told_in_it(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    done = logged(path, 'print("out", flush=True)\nos.write(2, b"err\\n")\n1 / 0')
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    out, err, crash = path.read_text(encoding="utf-8").splitlines()
    assert (out, err) == ("out", "err")
    line = json.loads(crash)
    assert (line["event"], line["level"]) == ("crashed", "critical")
    assert "ZeroDivisionError" in line["exception"]


def test_it_is_turned_over_when_full_and_the_oldest_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    code = """
logs.FILE_LIMIT = 2000
for number in range(300):
    log.info("line", number=number)
    if number == 299:
        os.write(2, b"the end\\n")
"""
    done = logged(path, code)
    assert (done.returncode, done.stderr) == (0, "")
    files = [*logs.older(path), path]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert all(file.stat().st_size < 2200 for file in files)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    *whole, last = text.splitlines()
    numbers = [json.loads(line)["number"] for line in whole]
    assert numbers == list(range(numbers[0], 300))
    assert last == "the end"
    shown = daemon_log.Tail(path).last(3)
    assert shown == text.splitlines()[-3:]


def test_the_viewer_knows_the_files_by_the_names_that_the_log_gives_them(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    assert [path.with_name(path.name + end) for end in daemon_log.OLDER] == logs.older(path)


def test_what_cannot_be_written_is_lost_and_ends_nobody_g28(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    code = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
for _ in range(3):
    log.info("much", text="x" * 200)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
log.info("again")
"""
    assert logged(path, code).returncode == 0
    assert path.read_text(encoding="utf-8").splitlines()[-1].endswith("}")
    assert "again" in path.read_text(encoding="utf-8")


def test_a_file_that_cannot_be_opened_leaves_stderr(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "daemon.log").symlink_to(tmp_path / "elsewhere")
    done = logged(tmp_path / "daemon.log", 'log.info("hello")')
    assert (done.returncode, "hello" in done.stderr) == (0, True)
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_a_stderr_whose_reader_is_gone_ends_nobody(tmp_path: Path) -> None:
    code = """
logs.to_stderr()
read, write = os.pipe()
os.dup2(write, 2)
os.close(read)
log = structlog.get_logger("test")
log.info("to nobody")
os._exit(7)
"""
    assert logged(tmp_path / "daemon.log", code).returncode == 7


async def test_a_wait_that_was_cancelled_as_its_socket_became_ready_is_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()

    def fault() -> None:
        raise LookupError

    over = loop.create_future()
    over.cancel()
    try:
        logs.to_stderr(quiet=True)
        loop.call_soon(over.set_result, None)
        loop.call_soon(fault)
        await asyncio.sleep(0)
    finally:
        logging.getLogger("asyncio").removeFilter(logs.news)
        structlog.reset_defaults()
    told = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert told == [LookupError]


def test_g28_a_log_that_cannot_be_turned_over_ends_nobody(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    code = """
from acpbridge.logs import LogFile

def faults(point):
    if point == "logfile.turn":
        raise OSError(28, "full")

logs.FILE_LIMIT = 10
full = LogFile(path, faults)
full.write("one line of some length\\n")
full.write("lost, and nobody dies of it\\n")
full._faults = lambda point: None
full.write("goes on\\n")
"""
    assert logged(path, code).returncode == 0
    assert path.read_text(encoding="utf-8") == "goes on\n"
    assert "one line" in logs.older(path)[-1].read_text(encoding="utf-8")
