"""G26: a secret that is said in pieces is in no stored line, at no moment; all else is kept."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.redact import TELLING, Redactor
from acpbridge.store import joins
from acpbridge.store.joins import HELD, UNFINISHED, Joins, State

VALUE = "S3NT1NEL-0b7c2d9e4f"
TOKEN = "sk-ant-" + "Q9" * 12
REDACTOR = Redactor([("SHOP_API_KEY", VALUE), ("OTHER_TOKEN", "S3NT2-other-value")])

Update = dict[str, Any]


def says(text: str, kind: str = "agent_message_chunk") -> Update:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def tool(**fields: Any) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c1", **fields}


class Stored:
    """What is on disk of one session; every event is a commit of its own."""

    def __init__(self) -> None:
        self.state = State()
        self.lines: dict[int, bytes] = {}

    def add(self, value: Update, kind: str = "update") -> None:
        self.raw(json.dumps(value, separators=(",", ":")).encode(), kind)

    def raw(self, update: bytes, kind: str = "update") -> None:
        seq = len(self.lines) + 1
        head = b'{"seq":%d,"epoch":"e","at":"","key":"k","turn":"t","type":"%s"' % (
            seq,
            kind.encode(),
        )
        self._commit(seq, head + b',"update":' + update + b"}")

    def end(self) -> None:
        seq = len(self.lines) + 1
        self._commit(seq, b'{"seq":%d,"turn":"t","type":"turn_ended"}' % seq)

    def _commit(self, seq: int, line: bytes) -> None:
        state = self.state.copy()
        made = Joins(REDACTOR, REDACTOR.json_line, state)
        made.feed(seq, line)
        self.lines |= made.stored
        self.state = state

    def text(self, kind: str = "agent_message_chunk") -> str:
        found = [json.loads(self.lines[seq]).get("update", {}) for seq in sorted(self.lines)]
        return "".join(u["content"]["text"] for u in found if u.get("sessionUpdate") == kind)

    @property
    def bytes(self) -> bytes:
        return b"\n".join(self.lines.values())


def cuts(text: str) -> st.SearchStrategy[list[str]]:
    places = st.sets(st.integers(0, len(text))).map(sorted)
    return places.map(
        lambda at: [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]
    )


@given(cuts(f"a key {VALUE} and {TOKEN} and S3NT1mple words, sk-ant and S3NT1NEL"))
def test_g26_wherever_a_text_is_cut_no_part_of_a_secret_is_ever_stored(pieces: list[str]) -> None:
    stored = Stored()
    for piece in pieces:
        stored.add(says(piece))
        stored.add(says(".", "agent_thought_chunk"))
        assert VALUE[TELLING - 1 : TELLING + 6].encode() not in stored.bytes
        assert b"Q9Q9" not in stored.bytes
    stored.end()
    text = stored.text()
    assert text.startswith("a key ")
    assert text.endswith(" and S3NT1mple words, sk-ant and S3NT1NEL")  # nothing else is lost
    assert "[redacted:env:" in text
    assert "[redacted:anthropic:" in text
    assert UNFINISHED not in text


@given(st.lists(st.sampled_from(["S3NT", "1", "NEL-", "sk-", "ant-", "x", " ", "https://", "eyJ"])))
def test_what_is_no_secret_is_stored_to_the_last_character(pieces: list[str]) -> None:
    stored = Stored()
    for piece in pieces:
        stored.add(says(piece))
    stored.end()
    whole = "".join(pieces)
    assert not stored.state.holds
    if not REDACTOR.spans(whole):
        assert stored.text() == whole


def test_until_it_is_known_a_mark_stands_for_what_may_be_a_secret() -> None:
    stored = Stored()
    stored.add(says(f"it is {VALUE[:9]}"))
    assert stored.text() == f"it is {UNFINISHED}"
    stored.add(says("!"))
    assert stored.text() == f"it is {VALUE[:9]}!"


@pytest.mark.parametrize(
    "fields",
    [
        lambda piece: {
            "content": [{"type": "content", "content": {"type": "text", "text": piece}}]
        },
        lambda piece: {"rawOutput": {"stdout": piece, "code": 0}},
        lambda piece: {"_meta": {"terminal_output": {"terminal_id": "x", "data": piece}}},
        lambda piece: {"rawOutput": ["first", piece]},
    ],
    ids=["content", "rawOutput", "meta", "list"],
)
def test_the_output_of_a_tool_call_is_a_stream_wherever_the_agent_puts_it(fields: Any) -> None:
    stored = Stored()
    for piece in (VALUE[:6], VALUE[6:12], VALUE[12:]):
        stored.add(tool(**fields(piece)))
        stored.add({**tool(rawOutput="other"), "toolCallId": "c2"})
    assert VALUE[6:12].encode() not in stored.bytes
    assert b"[redacted:env:" in stored.bytes
    assert UNFINISHED.encode() not in stored.bytes


def test_pieces_of_two_tool_calls_are_not_joined() -> None:
    stored = Stored()
    stored.add(tool(rawOutput=VALUE[:9]))
    stored.add({**tool(rawOutput=VALUE[9:]), "toolCallId": "c2"})
    stored.end()
    assert b"redacted" not in stored.bytes


def test_an_escaped_piece_is_judged_as_what_it_says_and_other_bytes_stay() -> None:
    stored = Stored()
    escaped = "".join(f"\\u{ord(c):04x}" for c in VALUE[:10]).encode()
    stored.raw(
        b'{ "n": 1.0, "sessionUpdate":"agent_message_chunk","content":{"text":"' + escaped + b'"}}'
    )
    stored.add(says(VALUE[10:]))
    assert b"[redacted:env:" in stored.lines[1]
    assert b'"update":{ "n": 1.0,' in stored.lines[1]
    assert escaped[30:] not in stored.bytes


def test_a_key_block_that_is_longer_than_is_withheld_is_redacted_to_its_end() -> None:
    stored = Stored()
    stored.add(says("-----BEGIN RSA PRIVATE KEY-----\n"))
    body = [f"{n:03d}" + "Ab9/" * 15 + "\n" for n in range(3 * HELD // 64)]
    for line in body:
        stored.add(says(line))
    stored.add(says("-----END RSA PRIVATE KEY-----\nafter"))
    stored.end()
    assert b"Ab9/Ab9/" not in stored.bytes
    assert stored.text().endswith("after")


def test_what_is_kept_of_open_lines_is_bounded_and_their_marks_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joins, "OPEN_BYTES", 10_000)
    stored = Stored()
    for piece in VALUE:
        stored.add({**says(piece), "_meta": {"filler": "f" * 4000}})
    stored.end()
    assert VALUE[TELLING:-1].encode() not in stored.bytes
    assert not any(VALUE[at : at + 6] in stored.text() for at in range(TELLING, len(VALUE) - 6))
    assert UNFINISHED in stored.text()


def test_streams_that_are_known_at_once_are_bounded_and_the_oldest_is_told() -> None:
    stored = Stored()
    stored.add(tool(rawOutput=VALUE[:9]))
    for number in range(joins.STREAMS):
        stored.add({**tool(rawOutput="x"), "toolCallId": f"d{number}"})
    assert len(stored.state.streams) <= joins.STREAMS
    assert VALUE[:9].encode() in stored.lines[1]
    assert not stored.state.holds


def test_a_turn_that_begins_joins_nothing_to_the_one_before() -> None:
    stored = Stored()
    stored.add(says(VALUE[:9]))
    stored.end()
    assert stored.state.streams == {}
