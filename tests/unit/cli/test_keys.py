"""What a command says is to be typed."""

import pytest

from acpbridge.cli.keys import short
from acpbridge.cli.root import main


@pytest.mark.parametrize(
    ("key", "typed"),
    [
        ("agent:codex:acp:490432e0-2bc6-43c3-96d4-69faf4287be6", "490432e0"),
        ("agent:codex:main", "agent:codex:main"),
        ("x", "x"),
    ],
)
def test_of_a_key_with_a_uuid_its_beginning_is_typed(key: str, typed: str) -> None:
    assert short(key) == typed


def failing(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what is said of a wrong use."""
    with pytest.raises(SystemExit) as ended:
        main([*words])
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("key", ["", "  "])
def test_a_blank_key_is_named_before_anything_is_started(
    capsys: pytest.CaptureFixture[str], key: str
) -> None:
    """Else a person is told what a tool's caller should do."""
    assert "KEY is blank" in failing(capsys, "send", key, "hi")


def test_the_help_that_is_named_can_be_typed_below_a_command_with_an_argument(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "See: acpbridge runs dismiss --help" in failing(capsys, "runs", "dismiss")
