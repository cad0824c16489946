"""Secrets taken out of what is stored: known values and token patterns, in linear time.

Pure: values are handed in, text comes out. Every floor above stores, logs and shows through it.
It works on decoded text, so an escape in JSON hides nothing, and replaces each secret by
`[redacted:<kind>:<first six hex digits of its sha256>]`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

# Shorter values are words of everyday text, and would tear holes into every log.
SHORTEST_VALUE: Final = 8
# Fewer characters of one tell nothing: where a text ends with them it may end with anything.
TELLING: Final = 4
# A tree deeper than this is no agent's honest message; recursion must stay bounded.
DEEPEST: Final = 100
TOO_DEEP: Final = "[redacted:too-deep]"

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|COOKIE|SESSION", re.IGNORECASE)

# Where a short prefix may begin a token: not within a word, but right after a colour sequence.
# It also keeps the expressions linear: a run of word characters is entered only once.
_START = r"(?:(?<![A-Za-z0-9_-])|(?<=[\[;][0-9]m)|(?<=[\[;][0-9][0-9]m))"


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A kind of token. Wherever it matches, in JSON too, `guard` and `guard_2` are in the text."""

    kind: str
    guard: str
    expression: re.Pattern[str]
    guard_2: str
    begun: re.Pattern[str]
    group: str | int


def _pattern(
    kind: str, guard: str, expression: str, guard_2: str = "", begun: str = ""
) -> _Pattern:
    compiled = re.compile(expression)
    # With its quantifiers without a least number an expression also matches what only begins.
    opening = re.compile(begun or re.sub(r"\{\d+,\}", "{0,}", expression))
    return _Pattern(kind, guard, compiled, guard_2, opening, "s" if compiled.groups else 0)


# The group `s`, where there is one, is the secret; else the whole match is.
_PATTERNS: Final = (
    _pattern("anthropic", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{16,}+"),
    _pattern("openai", "sk-", _START + r"sk-[A-Za-z0-9_-]{20,}+"),
    _pattern("github", "ghp_", r"ghp_[A-Za-z0-9]{20,}+"),
    _pattern("github", "gho_", r"gho_[A-Za-z0-9]{20,}+"),
    _pattern("github", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,}+"),
    _pattern("aws", "AKIA", r"AKIA[A-Z0-9]{16}", begun=r"AKIA[A-Z0-9]{0,15}+"),
    _pattern("acpbridge", "acpb_", r"acpb_[0-9a-f]{20,}+"),
    _pattern("google", "AIza", r"AIza[A-Za-z0-9_-]{30,}+"),
    _pattern("slack", "xox", r"xox[bp]-[A-Za-z0-9-]{10,}+"),
    _pattern(
        "jwt",
        "eyJ",
        _START + r"eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+",
        begun=_START + r"eyJ[A-Za-z0-9_-]*+(?:\.[A-Za-z0-9_-]*+){0,2}+",
    ),
    # The body may be broken by line ends, numbered or marked as in a listing or a diff; a block
    # that is cut off before its end is still one.
    _pattern(
        "pem",
        "-----BEGIN ",
        r"-----BEGIN [A-Z0-9 ]{1,64}-----(?:[A-Za-z0-9+/=\s\\:,|→]++|-(?!-))*+"
        r"(?:-----END [A-Z0-9 ]{1,64}-----)?",
        begun=r"-----BEGIN [A-Z0-9 ]{1,64}-----(?:[A-Za-z0-9+/=\s\\:,|→]++|-(?!-))*+"
        r"(?:--[-A-Z0-9 ]{0,80}+)?",
    ),
    _pattern(
        "authorization",
        "uthorization",
        r"[Aa]uthorization[\"'\\]{0,2}\s{0,4}:[ \t]{0,4}[\"'\\]{0,2}(?P<s>[^\r\n\"'\\]++)",
    ),
    _pattern(
        "authorization",
        "AUTHORIZATION",
        r"AUTHORIZATION[\"'\\]{0,2}\s{0,4}:[ \t]{0,4}[\"'\\]{0,2}(?P<s>[^\r\n\"'\\]++)",
    ),
    # `git@` is the user of every ssh remote, and no secret.
    _pattern(
        "url",
        "://",
        r"://(?!git@)(?P<s>[^\s/\"'<>\\?#]{1,1024})(?=@)",
        "@",
        begun=r"://(?P<s>[^\s/\"'<>\\?#]{1,1024}+)",
    ),
)

# Spellings in JSON that do not show a character as itself: the line must be decoded to be judged.
_ESCAPES: Final = ("\\u", "\\/")
# One of these is in every line that could hold a token.
_GUARDS: Final = (*_ESCAPES, *(pattern.guard for pattern in _PATTERNS))
# No secret is shorter: `://x@`.
_SHORTEST: Final = 5
_BODY = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)

# An expression is applied to so much text at once, in characters: whoever else runs in this process
# waits meanwhile. What it finds may reach beyond, but it must show within the second figure.
WINDOW: Final = 256 * 1024
REACH: Final = 64 * 1024
_EDGE: Final = 128  # more than the last line of a key block
# What stands between the strings of a line of JSON: numbers, words, structure.
_BARE = re.compile(r'[^\s\[\]{}:,"]+')


@dataclass(frozen=True, slots=True)
class Span:
    """One secret in a text; `match` is where the pattern began that found it."""

    start: int
    end: int
    kind: str
    match: int


def mark(kind: str, secret: str) -> str:
    """Return what stands in a secret's place."""
    digest = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
    return f"[redacted:{kind}:{digest[:6]}]"


def _occurrences(value: str, text: str) -> Iterator[Span]:
    """Yield where a value is; occurrences that overlap are one."""
    start = at = text.find(value)
    while at >= 0:
        end = at + len(value)
        at = text.find(value, at + 1)
        if not 0 <= at < end:
            yield Span(start, end, "env", start)
            start = at


def _begun(value: str, text: str) -> int:
    """Return where a text ends with the beginning of a value, its length if it does not."""
    at = text.find(value[:TELLING], max(0, len(text) - len(value) + 1))
    while at >= 0 and not value.startswith(text[at:]):
        at = text.find(value[:TELLING], at + 1)
    return at if at >= 0 else len(text)


def _matches(expression: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches in a text, like `finditer`, without a long one being searched at once."""
    at, size = 0, len(text)
    while at < size:
        stop = min(at + WINDOW, size)
        found = expression.search(text, at, min(stop + REACH, size))
        if found is None or found.start() >= stop:
            at = stop
            continue
        if found.end() > stop + REACH - _EDGE:  # it may go on
            found = expression.match(text, found.start()) or found
        yield found
        at = max(found.end(), at + 1)


def _literals(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the strings of JSON in a text begin and end, their quotes included."""
    start = text.find('"')
    while start >= 0:
        stop = _literal_end(text, start + 1)
        if stop >= 0:
            yield start, stop
        start = text.find('"', max(stop, start + 1))


def _literal_end(text: str, at: int) -> int:
    """Return where the string ends whose body is entered here, -1 if it has no end."""
    while at < len(text):
        found = _BODY.match(text, at, at + WINDOW)
        assert found is not None  # it matches nothing as well
        at = found.end()
        if text[at : at + 1] == '"':
            return at + 1
        if found.end() == found.start() and len(text) - at < 2:
            break  # half an escape at the very end
    return -1


def _merged(spans: list[Span]) -> list[Span]:
    """Join spans that overlap, so that no half of a secret is left beside another's mark."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        last = merged[-1] if merged else None
        if last is None or span.start >= last.end:
            merged.append(span)
        elif span.end > last.end:
            merged[-1] = Span(last.start, span.end, last.kind, min(last.match, span.match))
    return merged


class Redactor:
    """Knows the secret values of this process and its callers, and what tokens look like.

    Args:
        values: names and values of an environment; those with a telling name are learnt.
    """

    def __init__(self, values: Iterable[tuple[str, str]] = ()) -> None:
        # Each value with the form that it has in a line of JSON without unneeded escapes.
        self._values: dict[str, str] = {}
        # One of these is in every text with a secret, or with the beginning of one at its end.
        self._hints: tuple[str, ...] = tuple(pattern.guard for pattern in _PATTERNS)
        for name, value in values:
            self.add(name, value)

    def add(self, name: str, value: str) -> None:
        """Learn a variable of an environment, if its name says that it is a secret."""
        if _SECRET_NAME.search(name) is None:
            return
        forms = {form for form in (value, value.strip()) if len(form) >= SHORTEST_VALUE}
        # Another thread may be going through those that there are: they stay as they are.
        self._values = {**self._values, **{form: _spelt(form) for form in forms}}
        self._hints = tuple(dict.fromkeys((*self._hints, *(form[:TELLING] for form in forms))))

    @property
    def has_lines(self) -> bool:
        """Whether a known value is longer than one line."""
        return any("\n" in value for value in self._values)

    @property
    def longest(self) -> int:
        """The length of the longest known value."""
        return max(map(len, self._values), default=0)

    def text(self, text: str) -> str:
        """Return the text without its secrets; the very same object if there are none."""
        spans = self.spans(text)
        return self.replace(text, spans) if spans else text

    def value(self, value: Any) -> Any:
        """Return a JSON tree with every string in it redacted, keys included."""
        return self._value(value, DEEPEST)

    def json_line(self, line: bytes) -> bytes:
        """Return a line of JSON without secrets, its other bytes as they were.

        A line that is not JSON is redacted as text. The very same object comes back when there is
        nothing to redact.
        """
        if not self._is_suspicious(line):
            return line
        text = line.decode("utf-8", "surrogateescape")
        pieces: list[str] = []
        end = 0
        for start, stop in _literals(text):
            pieces += self._bare(text[end:start]), self._literal(text[start:stop])
            end = stop
        pieces.append(self._bare(text[end:]))
        result = "".join(pieces)
        # A long one is an event, which was JSON when it was made; to decode it takes for ever.
        if len(text) <= WINDOW and not _is_json(text):
            result = self.text(result)
        return line if result == text else result.encode("utf-8", "surrogateescape")

    def spans(self, text: str) -> list[Span]:
        """Return where secrets are, in order and without overlap."""
        found = [
            span for value in self._values if value in text for span in _occurrences(value, text)
        ]
        for pattern in _PATTERNS:
            if pattern.guard in text and pattern.guard_2 in text:
                found += (
                    Span(*match.span(pattern.group), pattern.kind, match.start())
                    for match in _matches(pattern.expression, text)
                )
        return _merged(found)

    def hints(self, text: str) -> bool:
        """Tell whether `spans` or `begun` may find something; never wrongly says no."""
        for hint in self._hints:  # noqa: SIM110 -- for every event: loops are faster
            if hint in text:
                return True
        return False

    def begun(self, text: str) -> int:
        """Return where a secret begins that may go on beyond the end, its length if none does."""
        at = len(text)
        for value in self._values:
            if value[:TELLING] in text:
                at = min(at, _begun(value, text))
        for pattern in _PATTERNS:
            if pattern.guard in text:
                for match in pattern.begun.finditer(text, max(0, len(text) - REACH)):
                    if match.end() == len(text):
                        at = min(at, match.start(pattern.group))
        return at

    def replace(self, text: str, spans: list[Span]) -> str:
        """Return the text with a mark in place of each span."""
        pieces: list[str] = []
        end = 0
        for span in spans:
            pieces += text[end : span.start], mark(span.kind, text[span.start : span.end])
            end = span.end
        return "".join((*pieces, text[end:]))

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list | tuple):
            return value
        if depth == 0:
            return TOO_DEEP
        if isinstance(value, dict):
            return {
                self._value(key, depth): self._value(item, depth - 1) for key, item in value.items()
            }
        return [self._value(item, depth - 1) for item in value]

    def _is_suspicious(self, line: bytes) -> bool:
        """Tell whether a raw line could hold a secret; never wrongly says no."""
        # This runs for every line of every agent: loops are faster than generators, and `in` is on
        # text than on bytes. Latin-1 keeps each byte as it is.
        text = line.decode("latin-1")
        for guard in _GUARDS:
            if guard in text:
                return True
        for value in self._values.values():  # noqa: SIM110 -- see above
            if value in text:
                return True
        return False

    def _literal(self, literal: str) -> str:
        if len(literal) < _SHORTEST:
            return literal
        body = literal[1:-1]
        if "\\" in body:
            with suppress(ValueError):  # not JSON after all: judged as the text that it is
                body = json.loads(literal, strict=False)
        redacted = self.text(body)
        return literal if redacted is body else json.dumps(redacted)

    def _bare(self, gap: str) -> str:
        def quoted(found: re.Match[str]) -> str:
            redacted = self.text(found.group())
            # A number that is a secret becomes a string, so that the line stays JSON.
            return found.group() if redacted == found.group() else json.dumps(redacted)

        return gap if len(gap) < SHORTEST_VALUE else _BARE.sub(quoted, gap)


def _spelt(value: str) -> str:
    """Return the bytes of a value in a line of JSON, each as the character of its number."""
    literal = json.dumps(value, ensure_ascii=False)
    return literal[1:-1].encode("utf-8", "surrogateescape").decode("latin-1")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class StreamRedactor:
    """Redacts a text that comes in pieces: a secret that is cut by a border is found.

    What follows the last line end is held back, and a block that may go on, up to a bound; a
    secret longer than the bound is cut.
    """

    # A 4096-bit private key in PEM is 3.3 KB; twice that covers its listing with line numbers.
    BOUND: Final = 8192

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, text: str) -> str:
        """Take a piece; return what is now certain, redacted."""
        held = self._held + text
        spans = self._redactor.spans(held)
        cut = held.rfind("\n") + 1
        if self._redactor.has_lines:
            cut = min(cut, max(0, len(held) - self._redactor.longest + 1))
        cut = max(cut, len(held) - self.BOUND)
        for span in reversed(spans):
            # Not within a secret, nor right after one: it may go on.
            if span.match < cut <= span.end:
                cut = span.match
        if len(held) - cut > 2 * self.BOUND:
            cut = len(held)
        self._held = held[cut:]
        return self._redactor.replace(held[:cut], [span for span in spans if span.end <= cut])

    def flush(self) -> str:
        """Return what is held back, redacted, at the end of the stream."""
        held, self._held = self._held, ""
        return self._redactor.text(held)
