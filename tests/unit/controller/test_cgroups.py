"""Where control groups are made: found by what the kernel says is mounted, never by a path."""

import os
from pathlib import Path

import pytest

from acpbridge.controller import cgroups
from acpbridge.controller.cgroups import Cgroups, Mount
from acpbridge.controller.containment import AUTO, CGROUP2, PIDNS, SHIM, ShimContainment
from acpbridge.errors import BridgeError
from acpbridge.transport.helpers import cgroup

MOUNTINFO = """\
22 1 0:21 / /proc rw,relatime - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 master:2 - cgroup2 cgroup2 rw
50 31 0:38 /user.slice /mnt/with\\040space rw - cgroup2 none rw,nsdelegate
"""


def test_hierarchies_of_version_2_are_found_wherever_they_are_mounted() -> None:
    found = cgroups.mounts(MOUNTINFO)
    assert found == [Mount("/", "/sys/fs/cgroup/unified"), Mount("/user.slice", "/mnt/with space")]
    for torn in ("", "nonsense", "1 2 3 - cgroup2", " - cgroup2 x y"):
        assert cgroups.mounts(torn) == []


@pytest.mark.parametrize(
    ("root", "own", "place"),
    [
        ("/", "/", "/m"),
        ("/", "/user.slice/a.scope", "/m/user.slice/a.scope"),
        ("/user.slice", "/user.slice/a.scope", "/m/a.scope"),
        ("/user.slice", "/user.slice", "/m"),
        ("/user.slice", "/user.slices/a", None),
        ("/user.slice", "/system.slice", None),
        ("/", "/../other", None),
    ],
)
def test_our_place_is_below_the_mount_or_there_is_none(
    root: str, own: str, place: str | None
) -> None:
    found = cgroups.place_in(Mount(root, "/m"), own)
    assert found == (None if place is None else Path(place))


def test_where_no_hierarchy_can_be_written_to_there_is_none(tmp_path: Path) -> None:
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_text("", encoding="utf-8")
    assert Cgroups.find(tmp_path, mountinfo) is None
    assert Cgroups.find(tmp_path, tmp_path / "missing") is None
    # A directory that is none of the kernel's: groups can be made there, and are worth nothing.
    (tmp_path / "fake").mkdir()
    line = f"41 31 0:38 / {tmp_path}/fake rw - cgroup2 none rw\n"
    mountinfo.write_text(line, encoding="utf-8")
    assert Cgroups.find(tmp_path, mountinfo) is None
    assert list((tmp_path / "fake").rglob("acpbridge-*")) == []


def test_what_is_asked_for_is_given_or_refused_and_never_replaced_by_less(tmp_path: Path) -> None:
    """Without the refusal: `cgroup2` is asked for and a plain shim comes."""
    plain = ShimContainment()
    assert plain.name == SHIM
    assert [plain.hold(asked).name for asked in (AUTO, SHIM, PIDNS)] == [SHIM, SHIM, PIDNS]
    with pytest.raises(BridgeError, match="no cgroup v2") as caught:
        plain.hold(CGROUP2)
    assert caught.value.code == "start_failed"
    assert "Delegate=yes" in caught.value.hint
    full = ShimContainment(Cgroups(tmp_path / "missing", tmp_path, "tag"))
    assert full.name == CGROUP2
    assert full.hold(AUTO).name == SHIM  # nothing was asked for, and status shows what it is
    with pytest.raises(BridgeError, match="No control group can be made"):
        full.hold(CGROUP2)


def test_g13_an_agents_thousands_of_groups_hold_nobody_up_for_long(tmp_path: Path) -> None:
    """Twenty thousand took ten seconds of the event loop; now a call has a bound.

    Without `GROUPS_LIMIT` in `Cgroup._folders`: one call removes all of them, however many.
    """
    found = Cgroups.find(tmp_path)
    if found is None:
        pytest.skip("no writable cgroup v2 hierarchy is mounted here")
    group = found.make()
    path = Path(os.fsdecode(group.path))
    try:
        for number in range(cgroup.GROUPS_LIMIT + 50):
            (path / f"{number}").mkdir()
        (path / "0" / "below").mkdir()
        assert not group.remove(0)
        left = sum(one.is_dir() for one in path.iterdir())
        assert 50 <= left < cgroup.GROUPS_LIMIT
    finally:
        assert group.remove(60)
    assert not path.exists()
    assert group.remove()  # whoever comes second finds it done
