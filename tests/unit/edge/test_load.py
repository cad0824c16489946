"""Entries of Python agents, and what is said of those that lead nowhere."""

from pathlib import Path

import pytest

from acpbridge.agents.demo import demo
from acpbridge.edge.load import load_entry
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
        ("acpbridge.agents.demo:ABOUT", "is not callable"),
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
