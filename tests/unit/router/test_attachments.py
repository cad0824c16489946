"""Files that are given to a child: refused by code, sent along, staged, removed (3-2.4)."""

import base64
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from acpbridge.config.snapshot import Config
from acpbridge.config.tools import Attached, SpawnTool, Tools
from acpbridge.errors import BridgeError
from acpbridge.router.attachments import MOST_BYTES, decoded
from acpbridge.router.spawn_requests import Attachment
from tests.unit.router.spawning import child_of, house, parent, spawn
from tests.unit.router.world import World, agent_in, refused, until, world

PICTURE = {"name": "a.png", "content": "AAAA", "encoding": "base64", "mimeType": "image/png"}
NOTE = {"name": "note.txt", "content": "héllo"}


@asynccontextmanager
async def giving(path: Path, *, on: bool = True, retain: bool = False) -> AsyncIterator[World]:
    attached = Attached(enabled=on, retain_on_session_keep=retain)
    tools = Tools(sessions_spawn=SpawnTool(attachments=attached))
    async with world(path, config=Config(agents=house(), tools=tools)) as w:
        yield w


def files(*given: dict[str, Any], images_only: bool = False) -> Any:
    return decoded([Attachment.read(one) for one in given], images_only=images_only)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ([{**NOTE, "name": str(n)} for n in range(51)], "attachments_file_count_exceeded"),
        *(
            ([{**NOTE, "name": name}], "attachments_invalid_name")
            for name in ("", ".", "..", ".manifest.json", "a/b", "a\\b", "a\nb", "<a", "a>")
        ),
        ([NOTE, NOTE], "attachments_duplicate_name"),
        (
            [{"name": "x", "content": "not base64!", "encoding": "base64"}],
            "attachments_invalid_base64_or_too_large",
        ),
        ([{"name": "x", "content": "y" * (MOST_BYTES + 1)}], "attachments_file_bytes_exceeded"),
        (
            [{"name": str(n), "content": "y" * MOST_BYTES} for n in range(6)],
            "attachments_total_bytes_exceeded",
        ),
    ],
)
def test_3_2_4_what_cannot_be_given_has_its_code(given: list[dict[str, Any]], code: str) -> None:
    with pytest.raises(BridgeError) as caught:
        files(*given)
    assert caught.value.code == code


def test_3_2_4_an_acp_agent_gets_pictures_and_nothing_else() -> None:
    assert files(PICTURE, images_only=True)[0].data == base64.b64decode("AAAA")
    with pytest.raises(BridgeError) as caught:
        files(PICTURE, NOTE, images_only=True)
    assert caught.value.code == "attachments_unsupported_for_acp"


async def test_3_2_4_they_are_off_unless_the_configuration_says_so(tmp_path: Path) -> None:
    async with giving(tmp_path, on=False) as w:
        error = await refused("invalid_params", spawn(w, "x", attachments=[PICTURE]))
        assert "tools.sessionsSpawn.attachments.enabled" in error.message


async def test_3_2_4_a_picture_goes_out_with_the_prompt_of_an_acp_agent(tmp_path: Path) -> None:
    async with giving(tmp_path) as w:
        receipt = await spawn(w, "wait", attachments=[PICTURE])
        assert receipt["attachments"] == [{"name": "a.png", "bytes": 3}]
        key = child_of(receipt)
        await until(lambda: w.session(key).turn is not None)
        image = w.turn(key).request.content[-1]
        assert image == {"type": "image", "mimeType": "image/png", "data": "AAAA"}
        assert not (tmp_path / "attachments").exists()


@pytest.mark.parametrize("retain", [False, True])
async def test_3_2_4_files_for_a_python_agent_are_private_and_go_with_its_end(
    tmp_path: Path, retain: bool
) -> None:
    """Outside of the workspace: 0700, 0600, a manifest; removed unless they are to stay."""
    async with giving(tmp_path, retain=retain) as w:
        top = await parent(w, "house")
        quiet: dict[str, Any] = {"expectsCompletionMessage": False}
        more: dict[str, Any] = {
            "attachments": [NOTE],
            "attachAs": {"mountPath": "in"},
            "runtime": "subagent",
        }
        more |= quiet
        key = child_of(await spawn(w, "wait", agent_in(top), **more))
        place = tmp_path / "attachments" / key.parts[0]
        assert (place / "note.txt").read_text(encoding="utf-8") == "héllo"
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert {stat.S_IMODE(one.stat().st_mode) for one in place.iterdir()} == {0o600}
        manifest = json.loads((place / ".manifest.json").read_text(encoding="utf-8"))
        assert manifest == {"files": [{"name": "note.txt", "bytes": 6}], "mountPath": "in"}
        await until(lambda: str(key) in w.runtime.running and w.agent(key).word)
        link = w.turn(key).request.content[-1]
        assert (link["type"], link["uri"]) == ("resource_link", (place / "note.txt").as_uri())
        w.agent(key).answer("end_turn")
        await w.rest(key)
        if retain:
            done = await spawn(w, "say x", agent_in(top), cleanup="delete", **quiet)
            await until(lambda: w.session(child_of(done)).closed)
            assert place.exists()
        else:
            await until(lambda: not place.exists())


async def test_3_2_4_nothing_is_left_of_files_for_a_child_that_is_refused(tmp_path: Path) -> None:
    full: list[str] = []

    def faults(point: str) -> None:
        if point == "ledger.before_commit" and full:
            raise OSError(28, "No space left on device")

    tools = Tools(sessions_spawn=SpawnTool(attachments=Attached(enabled=True)))
    config = Config(agents=house(), tools=tools)
    async with world(tmp_path, config=config, faults=faults) as w:
        top = agent_in(await parent(w, "house"))
        full.append("now")
        more: dict[str, Any] = {"attachments": [NOTE], "runtime": "subagent"}
        await refused("spawn_failed", spawn(w, "x", top, **more))
        full.clear()
        assert list((tmp_path / "attachments").iterdir()) == []
