"""Entries of Python agents, and what is said of those that lead nowhere."""

import sys
from pathlib import Path

import pytest

from acpbridge.agents.demo import demo
from acpbridge.edge.load import load_entry, name_of, users_frames
from acpbridge.errors import BridgeError


def test_an_entry_names_a_module_and_an_attribute_in_it() -> None:
    assert load_entry("acpbridge.agents.demo:demo") is demo
    assert load_entry("pathlib:Path.cwd")() == Path.cwd()


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("demo", "MODULE:AGENT"),
        (":demo", "MODULE:AGENT"),
        ("no.such.module:agent", "There is no module no.such.module"),
        ("acpbridge.agents.nobody:agent", "There is no module acpbridge.agents.nobody"),
        ("acpbridge.agents.demo:nobody", "has no nobody"),
        ("acpbridge.agents.demo:ABOUT", "is not callable; it is of type str"),
        ("pathlib:Path", "is a class; name an instance"),
        ("./no/such/file.py:agent", "There is no file"),
    ],
)
def test_an_entry_that_leads_nowhere_is_a_usage_error(entry: str, says: str) -> None:
    with pytest.raises(BridgeError, match=says) as caught:
        load_entry(entry)
    assert caught.value.code == "usage"


@pytest.mark.parametrize("body", ["1 / 0", "import no_such_dependency", "raise SystemExit(3)"])
def test_a_module_that_fails_to_import_is_named_with_its_reason(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_agent.py").write_text(body, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BridgeError, match="broken_agent fails to import") as caught:
        load_entry("broken_agent:agent")
    assert caught.value.code == "usage"


FILE = """
import neighbour


async def one(turn):
    return neighbour.WORD


async def talks(turn):
    yield "a word"


class Agent:
    async def __call__(self, turn):
        return "called"


two = Agent()
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An agent in a file that is called as a module of the library, with a neighbour."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    (tmp_path / "neighbour.py").write_text("WORD = 'hello'\n", encoding="utf-8")
    (tmp_path / "string.py").write_text(FILE, encoding="utf-8")
    return tmp_path / "string.py"


async def test_an_agent_in_a_file_finds_its_neighbours_and_shadows_nothing(file: Path) -> None:
    before = sys.modules["string"]
    assert await load_entry(f"{file}:one")(None) == "hello"
    assert await load_entry(f"{file}:two")(None) == "called"
    assert sys.modules["string"] is before
    assert sys.path[-1] == str(file.parent)


def test_of_a_file_it_is_told_what_is_there_and_what_is_wrong(file: Path) -> None:
    with pytest.raises(BridgeError, match="has no three") as caught:
        load_entry(f"{file}:three")
    assert caught.value.hint == "It has: one."
    with pytest.raises(BridgeError, match="is a generator; speak by turn") as caught:
        load_entry(f"{file}:talks")
    assert caught.value.hint == "Write it as: async def agent(turn): ..."
    file.write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(BridgeError, match="fails to import: ZeroDivisionError") as caught:
        load_entry(f"{file}:one")
    assert caught.value.code == "usage"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_traceback_begins_where_somebody_elses_code_does(file: Path) -> None:
    file.write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(BridgeError) as caught:
        load_entry(f"{file}:one")
    assert caught.value.__cause__ is not None
    told = "".join(users_frames(caught.value.__cause__).format())
    assert told.count("File ") == 1
    assert f'File "{file}", line 1' in told


def test_the_name_of_an_entry_is_that_of_the_agent() -> None:
    assert name_of("/a/b.py:one") == "one"
    assert name_of("shop.agents:team.one") == "team-one"


def test_a_file_never_becomes_a_module_that_was_only_not_imported_yet(tmp_path: Path) -> None:
    path = tmp_path / "this.py"  # of the standard library, and imported by nobody
    path.write_text("async def agent(turn): ...\n", encoding="utf-8")
    try:
        load_entry(f"{path}:agent")
        assert "this" not in sys.modules
    finally:
        sys.path.remove(str(tmp_path))
        for name in ("this", "agent_file_this"):
            sys.modules.pop(name, None)
