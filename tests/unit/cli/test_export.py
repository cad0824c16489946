"""G26: an export has no secret of its caller's, not even one that the agent said in pieces."""

import json

import pytest

from acpbridge.cli import export
from acpbridge.cli.export import Lines
from acpbridge.daemon.client import EventLine
from acpbridge.redact import Redactor

VALUE = "S3NT1NEL-0b7c2d9e4f"
REDACTOR = Redactor([("MINE_TOKEN", VALUE)])


def event(seq: int, text: str, kind: str = "agent_message_chunk") -> EventLine:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    value = {"seq": seq, "type": "update", "update": update}
    return EventLine(json.dumps(value, separators=(",", ":")).encode(), value)


def exported(*pieces: tuple[str, str]) -> tuple[list[int], str, bytes]:
    """Return the numbers in their order, the agent's words, and all bytes."""
    form = Lines(REDACTOR)
    out = b"".join(
        form.event(event(seq, text, f"agent_{whose}_chunk"))
        for seq, (whose, text) in enumerate(pieces, 1)
    )
    out += form.end()
    rows = [json.loads(line) for line in out.splitlines()]
    updates = [row["update"] for row in rows]
    words = "".join(
        u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk"
    )
    return [row["seq"] for row in rows], words, out


def test_g26_a_secret_in_pieces_is_taken_out_and_the_order_stays() -> None:
    said = [("message", "it is "), ("message", VALUE[:9]), ("thought", "hm")]
    numbers, words, out = exported(*said, ("message", VALUE[9:] + "."), ("thought", "so"))
    assert numbers == [1, 2, 3, 4, 5]
    assert words.startswith("it is [redacted:env:")
    assert words.endswith("].")
    assert VALUE[4:10].encode() not in out


def test_nothing_waits_where_nothing_may_be_half_a_secret() -> None:
    form = Lines(REDACTOR)
    assert form.event(event(1, "words ")).count(b"\n") == 1
    assert form.event(event(2, VALUE[:9])) == b""
    assert form.event(event(3, "!")).count(b"\n") == 2
    assert form.end() == b""


def test_what_waits_is_bounded_and_nothing_is_written_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export, "HELD_BACK", 2000)
    said = [("message", VALUE[:9]), *[("thought", "t" * 100)] * 30, ("message", VALUE[9:])]
    numbers, words, out = exported(*said)
    assert numbers == list(range(1, 33))
    assert VALUE[4:10].encode() not in out
    assert words.startswith("[redacted:unfinished]")
