"""3-2.8.4: a tool's handler looks at who asks, reads the call and calls on: it touches no file."""

import ast
import sys
import threading
from pathlib import Path
from typing import Any

import acpbridge.tools
from tests.unit.router.world import world
from tests.unit.test_layers import imports, within
from tests.unit.tools.memory import client, external

TOUCHING = {"os", "io", "pathlib", "shutil", "socket", "sqlite3", "subprocess", "tempfile"}

# What the interpreter tells of whoever touches a file; a hook cannot be taken out again.
_EVENTS = ("open", "os.", "shutil.", "sqlite3.", "socket.", "subprocess.")
_seen: list[str] = []
_watched: set[int] = set()


def _hook(event: str, arguments: Any) -> None:
    if _watched and threading.get_ident() in _watched and event.startswith(_EVENTS):
        _seen.append(f"{event} {arguments}"[:200])


def test_3_2_8_4_the_tools_import_nothing_that_touches_files() -> None:
    for path in Path(acpbridge.tools.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert [name for name in imports(tree) if within(name, TOUCHING)] == [], path
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert "open" not in names, path


async def test_3_2_8_4_no_call_touches_a_file_where_it_is_served(tmp_path: Path) -> None:
    """All that is stored is stored in threads of the store."""
    async with world(tmp_path) as w, client(w, await external(w)) as (session, _):
        spawn = {"task": "say hi", "runtime": "acp", "agentId": "fake", "cwd": w.cwd}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("agents_list", {}),
            ("sessions_spawn", spawn),
            ("sessions_list", {}),
            ("sessions_history", {}),
            ("session_status", {}),
            ("subagents", {}),
            ("sessions_send", {"agentId": "nobody", "message": "hi"}),
        ]
        for name, arguments in calls:  # once unwatched: modules are imported when first needed
            await session.call_tool(name, arguments)
        sys.addaudithook(_hook)
        _watched.add(threading.get_ident())
        try:
            for name, arguments in calls:
                await session.call_tool(name, arguments)
                assert _seen == [], name
            Path(w.cwd).is_dir()
            (tmp_path / "seen").open("w", encoding="utf-8").close()
        finally:
            _watched.clear()
        assert _seen  # so it would have been
