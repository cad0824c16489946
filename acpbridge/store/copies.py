"""The stored copies of the lines of one commit, and of earlier ones that it changes.

Pure; above is the event file, below is what knows of secrets that are said in pieces. A commit may
fail, so what was known before is changed by `kept` alone, and only once it has worked.
"""

from collections.abc import Callable, Mapping, Sequence

from acpbridge.store.joins import Joins, Searcher, State
from acpbridge.store.ring import Chunk

Redact = Callable[[bytes], bytes]


class Copies:
    """What a commit stores.

    Args:
        redact: makes the stored copy of a line by itself; pure and total.
        searcher: finds the secrets that are said in pieces; None: nobody looks for them.
        before: where the streams of the sessions stood, by name; left as it is.
        chunks: what is committed.
        last: whether nothing follows, so that nothing may be withheld any more.
    """

    def __init__(
        self,
        redact: Redact,
        searcher: Searcher | None,
        before: Mapping[str, State],
        chunks: Sequence[Chunk],
        *,
        last: bool = False,
    ) -> None:
        self._redact = redact
        self._before = before
        self._joins: dict[str, Joins] = {}
        if searcher is not None:
            names = {chunk.stream.name for chunk in chunks} | (set(before) if last else set())
            for name in sorted(names):
                state = before.get(name, State()).copy()
                self._joins[name] = Joins(searcher, redact, state)
        for chunk in chunks:
            self._feed(chunk)
        if last:
            for joins in self._joins.values():
                joins.finish()
        self._lines = [self._of(chunk) for chunk in chunks]

    def lines(self) -> list[list[bytes]]:
        """Return the copies, by chunk; none has a line end in it."""
        return self._lines

    def again(self) -> list[tuple[str, int, bytes]]:
        """Return session, number and line of the earlier events that are to be written again."""
        return [
            (name, seq, _one_line(line))
            for name, joins in self._joins.items()
            for seq, line in joins.stored.items()
        ]

    def kept(self) -> dict[str, State]:
        """Return where the streams of the sessions stand after the commit."""
        after = {name: joins.state for name, joins in self._joins.items()}
        return {name: state for name, state in ({**self._before, **after}).items() if state.streams}

    def _feed(self, chunk: Chunk) -> None:
        joins = self._joins.get(chunk.stream.name)
        if joins is not None:
            for seq, line in enumerate(chunk.lines, chunk.first):
                joins.feed(seq, line)

    def _of(self, chunk: Chunk) -> list[bytes]:
        joins = self._joins.get(chunk.stream.name)
        if joins is None:
            return [_one_line(self._redact(line)) for line in chunk.lines]
        return [_one_line(joins.stored.pop(seq)) for seq in range(chunk.first, chunk.last + 1)]


def _one_line(line: bytes) -> bytes:
    """A line end within a line could only be the redactor's: it would shift every number."""
    return line.replace(b"\n", b" ")
