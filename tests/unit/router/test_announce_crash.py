"""A daemon that is cut off at any commit between a child's start and its parent's hearing of it.

What a dead daemon leaves is what is on disk at that moment: a copy of its files, taken at each pass
of each point at which the ledger commits, is what the next daemon starts from.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.lowlevel

from acpbridge.model.sessions import Outcome
from acpbridge.router.api import RunReceipt
from acpbridge.store.ledger import Ledger
from acpbridge.store.records import OutboxEntry
from tests.unit.router.world import REPORT, Diary, World, agent_in, world

COMMITS = ("ledger.before_commit", "ledger.after_commit")


@dataclass
class Wreck:
    """What a daemon left that was cut off.

    Attributes:
        files: its state directory.
        told: how often a report had gone out by then.
    """

    files: Path
    told: int


class Cutting:
    """Takes copies of a state directory while a daemon works in it."""

    def __init__(self, home: Path, into: Path) -> None:
        self._home = home
        self._into = into
        self.diary: Diary | None = None
        self.wrecks: list[Wreck] = []

    def __call__(self, point: str) -> None:
        if self.diary is None or point not in COMMITS:
            return
        copy = self._into / f"{len(self.wrecks)}-{point}"
        shutil.copytree(self._home, copy, ignore=shutil.ignore_patterns("*-shm"))
        self.wrecks.append(Wreck(copy, told(self.diary)))


def told(diary: Diary) -> int:
    return sum(line.startswith(f"prompt {REPORT}") for line in diary.lines)


async def over(w: World, run_id: str) -> OutboxEntry:
    """Wait until nothing of a completion is to come any more."""
    while True:
        entry = await w.ledger.delivery(f"announce:{run_id}")
        if entry is not None and entry.state not in ("pending", "sent"):
            return entry
        await anyio.lowlevel.checkpoint()


async def accepted(files: Path, run_id: str) -> bool:
    async with Ledger(files) as ledger:
        return await ledger.run(run_id) is not None


async def test_case_133_r12_a_parent_hears_once_wherever_the_daemon_is_cut_off(
    tmp_path: Path,
) -> None:
    """Or a person is shown that nobody knows whether it heard; never twice, and never nothing."""
    home = tmp_path / "home"
    home.mkdir()
    cutting = Cutting(home, tmp_path)
    child: RunReceipt
    async with world(home, faults=cutting) as w:
        parent, _ = await w.done("say hello", one_shot=False)
        await w.is_ready(parent.key)
        cutting.diary = w.diary
        child = await w.run(
            "say found-it", by=agent_in(parent.key), deliver_to=parent.key, detached=True
        )
        await over(w, child.run_id)
        assert told(w.diary) == 1
        cutting.diary = None
    found: dict[str, int] = {}
    for wreck in cutting.wrecks:
        if not await accepted(wreck.files, child.run_id):
            assert wreck.told == 0  # nobody was told that there would be one
            continue
        with anyio.fail_after(20):
            async with world(wreck.files) as w:
                entry = await over(w, child.run_id)
                again = told(w.diary)
                run = await w.ledger.run(child.run_id)
                assert run is not None
                if again and run.outcome is Outcome.COMPLETED:
                    # What it said was on disk before it was on record that it is over.
                    assert [line for line in w.diary.lines if "\n| found-it\n" in line], wreck
        where = str(entry.payload.get("reason") or entry.state)
        found[where] = found.get(where, 0) + 1
        if where == "delivered":
            assert wreck.told + again == 1, wreck
        else:
            # Between the record that it goes out and the record of the turn's end.
            assert (where, again) == ("ambiguous", 0), wreck
            assert wreck.told <= 1
    assert found["delivered"] >= 8
    assert 1 <= found["ambiguous"] <= 4
