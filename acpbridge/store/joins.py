"""Secrets said in pieces, taken out of the stored copy over the borders of its events.

Agents stream: a key arrives as `sk`, `-ant`, `-api`, each in an event of its own, with other events
in between. Pieces of one stream (an agent's words, the output of one tool call) are judged joined.
Where the end of a piece may be the beginning of a secret, it is withheld from the stored copy, and
`UNFINISHED` stands there, until the next piece or the end of the turn tells; then the stored line
is written again. A kill in between leaves the mark: of a secret no more than a few characters are
ever on disk. Numbers and order stay, and live followers see nothing of it.

Pure; above is the event file, below are the expressions of `redact`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, NamedTuple, Protocol

from acpbridge.model.events import SESSION_END, TURN_ENDS
from acpbridge.redact import Span, mark

UNFINISHED: Final = "[redacted:unfinished]"

# So much is withheld of a stream at most. Characters; a private key with its listing is shorter.
HELD: Final = 8192
# So much of the lines that are to be written again is kept for a session. Bytes.
OPEN_BYTES: Final = 1024 * 1024
# Streams of a session that are known at once; an agent has a few tool calls open.
STREAMS: Final = 64

# So much of what came before is looked at again: more than stands before a secret itself.
_BEFORE: Final = 128
# Where a secret is too long to be withheld, its beginning is kept: what goes on is still known.
_GUARD: Final = 32

# A longer line is judged by itself: to find its strings takes longer than others may wait. Bytes.
LONGEST: Final = 1024 * 1024

# The first one in a line is the bridge's own.
_TYPE: Final = re.compile(rb'"type":"([a-z_]+)"')
_KIND: Final = re.compile(rb'"sessionUpdate"\s*+:\s*+"([a-z_]+)"')
_CALL: Final = re.compile(rb'"toolCallId"\s*+:\s*+"((?:[^"\\]++|\\.)*+)"')
_TEXT: Final = re.compile(rb'"text"\s*+:\s*+("(?:[^"\\]++|\\.)*+")')
_LITERAL: Final = re.compile(rb'("(?:[^"\\]++|\\.)*+")(\s*+:)?')

_CHUNKS: Final = (b"agent_message_chunk", b"agent_thought_chunk", b"user_message_chunk")
# Each of these says all it has to say at once.
_WHOLE: Final = (
    *(b"plan", b"available_commands_update", b"current_mode_update", b"config_option_update"),
    *(b"usage_update", b"session_info_update"),
)
_ENDS: Final = frozenset(kind.encode() for kind in (*TURN_ENDS, SESSION_END, "turn_started"))

_Name = tuple[bytes, bytes, bytes, int]


class Searcher(Protocol):
    """What is known of secrets: `redact.Redactor`."""

    def hints(self, text: str) -> bool:
        """Tell whether the others may find something; never wrongly says no."""
        ...

    def spans(self, text: str) -> list[Span]:
        """Return where secrets are, in order and without overlap."""
        ...

    def begun(self, text: str) -> int:
        """Return where a secret begins that may go on beyond the end, its length if none."""
        ...

    @property
    def longest(self) -> int:
        """The length of the longest known value."""
        ...


class _Leaf(NamedTuple):
    """A string in a line of JSON: its place with its quotes, and which stream it is a piece of."""

    start: int
    end: int
    name: _Name


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one event said in a stream.

    Attributes:
        seq: number of the event.
        leaf: where in its line.
        done: what is certain of it, redacted.
        rest: what is withheld.
    """

    seq: int
    leaf: _Leaf
    done: str
    rest: str


class _Stream(NamedTuple):
    """What was said in a stream: the end of what is certain, and pieces that are not."""

    before: str = ""
    pieces: tuple[_Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class _Open:
    """An event with something to be written again: its line as it came, and texts by leaf."""

    line: bytes
    texts: Mapping[_Leaf, str]


@dataclass(slots=True)
class State:
    """Where the streams of one session stand, between two commits."""

    streams: dict[_Name, _Stream] = field(default_factory=dict)
    events: dict[int, _Open] = field(default_factory=dict)

    def copy(self) -> "State":
        """Return one that can be changed while this stays: a commit may fail."""
        return State(dict(self.streams), dict(self.events))

    @property
    def holds(self) -> bool:
        """Whether something is withheld."""
        return bool(self.events)


class Joins:
    """Goes over the events of one session in their order; made anew for each commit.

    Args:
        searcher: knows the secrets.
        redact: makes the stored copy of a line by itself.
        state: where the streams stand; it is changed.

    Attributes:
        state: as it was given.
        stored: the stored copy of each line that was fed, or is to be written again, by number.
    """

    def __init__(self, searcher: Searcher, redact: Callable[[bytes], bytes], state: State) -> None:
        self._searcher = searcher
        self._redact = redact
        self.state = state
        self.stored: dict[int, bytes] = {}

    def feed(self, seq: int, line: bytes) -> None:
        """Take the next event."""
        found = _TYPE.search(line)
        kind = b"" if found is None else found[1]
        if kind in _ENDS:
            self.finish()
        changed: dict[_Leaf, str] = {}
        if kind == b"update" and found is not None and len(line) <= LONGEST:
            # A line with more strings than there may be streams brings no pieces.
            for leaf in islice(_leaves(line, found.end()), STREAMS):
                text = self._piece(seq, leaf, _decoded(line[leaf.start : leaf.end]))
                if text is not None:
                    changed[leaf] = text
        if changed:
            event = _Open(line, changed)
            self._show(seq, event)
            if self._is_open(seq):
                self.state.events[seq] = event
                self._keep_bounds()
        else:
            self.stored[seq] = self._redact(line)

    def finish(self) -> None:
        """End all streams: what is withheld is told, but for the secrets in it."""
        for name in list(self.state.streams):
            self._end(name)

    # ---- One stream ----

    def _piece(self, seq: int, leaf: _Leaf, text: str) -> str | None:
        """Take a piece; return its text as it is stored now, None if as it came."""
        streams = self.state.streams
        stream = streams.pop(leaf.name, None)
        if stream is None:
            if len(streams) >= STREAMS:
                self._end(next(iter(streams)))
            stream = _Stream()
        joined = stream.before + text
        if not stream.pieces and not self._searcher.hints(joined):
            streams[leaf.name] = _Stream(joined[-_BEFORE:])
            return None
        pieces = (*stream.pieces, _Piece(seq, leaf, "", text))
        joined = stream.before + "".join(piece.rest for piece in pieces)
        spans = self._searcher.spans(joined)
        begins = self._begins(joined, spans)
        cut = max(begins, len(stream.before))  # what is before it is on disk
        first = max(0, begins - _GUARD)
        before = joined[min(first, max(0, cut - _BEFORE)) : cut]
        if len(joined) - cut > max(HELD, self._searcher.longest):
            before = joined[first:][:_BEFORE]
            cut = len(joined)
        told = self._told(joined, len(stream.before), pieces, spans, cut)
        streams[leaf.name] = _Stream(before, tuple(piece for piece in told if piece.rest))
        for piece in told[:-1]:
            self._again(piece)
        return None if told[-1].done == text else _shown(told[-1])

    def _begins(self, joined: str, spans: list[Span]) -> int:
        """Return up to where all is certain."""
        cut = self._searcher.begun(joined)
        for span in reversed(spans):
            goes_on = span.end == len(joined) and span.kind != "env"
            if goes_on or span.start < cut < span.end:
                cut = min(cut, span.start)
        return cut

    def _told(
        self, joined: str, start: int, pieces: tuple[_Piece, ...], spans: list[Span], cut: int
    ) -> list[_Piece]:
        """Return the pieces with what is certain now moved from `rest` to `done`."""
        out, at = list[_Piece](), start
        for piece in pieces:
            end = at + len(piece.rest)
            stop = max(at, min(end, cut))
            done = piece.done + self._redacted(joined, at, stop, spans, start)
            out.append(replace(piece, done=done, rest=joined[stop:end]))
            at = end
        return out

    def _redacted(self, joined: str, at: int, stop: int, spans: list[Span], start: int) -> str:
        """Return a part of the joined text; a secret's mark stands where it begins."""
        out: list[str] = []
        for span in spans:
            first = max(span.start, start)
            if span.end <= at or first >= stop:
                continue
            out.append(joined[at:first])
            if first >= at:
                out.append(mark(span.kind, joined[span.start : span.end]))
            at = min(span.end, stop)
        return "".join((*out, joined[at:stop]))

    def _end(self, name: _Name) -> None:
        stream = self.state.streams.pop(name)
        if not stream.pieces:
            return
        joined = stream.before + "".join(piece.rest for piece in stream.pieces)
        spans = self._searcher.spans(joined)
        for piece in self._told(joined, len(stream.before), stream.pieces, spans, len(joined)):
            self._again(piece)

    # ---- Lines that are written again ----

    def _again(self, piece: _Piece) -> None:
        event = self.state.events.get(piece.seq)
        text = _shown(piece)
        if event is None or event.texts.get(piece.leaf) == text:
            return
        event = _Open(event.line, {**event.texts, piece.leaf: text})
        self._show(piece.seq, event)
        if self._is_open(piece.seq):
            self.state.events[piece.seq] = event
        else:
            del self.state.events[piece.seq]

    def _show(self, seq: int, event: _Open) -> None:
        out, at = list[bytes](), 0
        for leaf in sorted(event.texts, key=lambda leaf: leaf.start):
            out += event.line[at : leaf.start], json.dumps(event.texts[leaf]).encode()
            at = leaf.end
        self.stored[seq] = self._redact(b"".join((*out, event.line[at:])))

    def _is_open(self, seq: int) -> bool:
        return any(
            piece.seq == seq for stream in self.state.streams.values() for piece in stream.pieces
        )

    def _keep_bounds(self) -> None:
        """Give up what takes too much memory: its marks stay."""
        state = self.state
        if sum(len(event.line) for event in state.events.values()) > OPEN_BYTES:
            state.events.clear()
            for name, stream in state.streams.items():
                rest = "".join(piece.rest for piece in stream.pieces)
                state.streams[name] = _Stream(stream.before + rest)


def _shown(piece: _Piece) -> str:
    return piece.done + (UNFINISHED if piece.rest else "")


def _leaves(line: bytes, at: int) -> Iterator[_Leaf]:
    """Yield the strings of an update that are pieces of a stream."""
    found = _KIND.search(line, at)
    kind = b"" if found is None else found[1]
    if kind in _CHUNKS:
        for number, text in enumerate(_TEXT.finditer(line, at)):
            yield _Leaf(*text.span(1), (kind, b"", b"text", number))
    elif kind not in _WHOLE:
        call = _CALL.search(line, at)
        yield from _values(line, at, b"" if call is None else call[1])


def _values(line: bytes, at: int, call: bytes) -> Iterator[_Leaf]:
    """Yield every string that is no name of a field: the same field is the same stream."""
    name, counts = b"", dict[bytes, int]()
    for literal in _LITERAL.finditer(line, at):
        if literal[2] is not None:
            name = literal[1]
            continue
        number = counts[name] = counts.get(name, 0) + 1
        yield _Leaf(*literal.span(1), (b"", call, name, number))


def _decoded(literal: bytes) -> str:
    text = literal.decode("utf-8", "surrogateescape")
    if "\\" in text:
        try:
            return str(json.loads(text, strict=False))
        except ValueError:  # no JSON after all: judged as the text that it is
            pass
    return text[1:-1]
