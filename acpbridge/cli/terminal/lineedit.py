"""A line that is being typed: keys in, text and cursor out. Pure.

The few keys that hands know from a shell. Whatever else a terminal sends is passed over, and a
paste never ends the line: text from elsewhere must not answer a question by its line ends.
"""

import codecs
import re
from typing import Final

# A line is as long as one that the kernel would edit, at most.
LONGEST: Final = 65_536

_KEY: Final = re.compile(
    r"\x1b\[(?P<csi>[0-?]*[ -/]*[@-~])|\x1bO(?P<ss3>.)|\x1b(?P<meta>[^\[O])|(?P<one>[^\x1b])",
    re.DOTALL,
)
# The beginning of a sequence whose rest is still on its way.
_PARTIAL: Final = re.compile(r"\x1b(\[[0-?]*[ -/]*|O)?\Z")

_PASTE, _PASTED = "200~", "201~"
_NAMED: Final = {
    "D": "left", "C": "right", "H": "home", "F": "end", "1~": "home", "7~": "home",
    "4~": "end", "8~": "end", "3~": "delete",
}  # fmt: skip
_CONTROL: Final = {
    "\x01": "home", "\x02": "left", "\x05": "end", "\x06": "right", "\x08": "back", "\x7f": "back",
    "\x0b": "kill", "\x15": "clear", "\x17": "word", "\x04": "eof", "\r": "enter", "\n": "enter",
}  # fmt: skip


class Line:
    """One line: `text`, the place of the cursor in it, and whether it is over."""

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.entered = False
        self.ended = False
        self._pasting = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    @property
    def over(self) -> bool:
        """Whether it was entered, or ended with Ctrl-D."""
        return self.entered or self.ended

    def feed(self, data: bytes) -> bytes:
        """Take keys; return those behind the end of the line."""
        text = self._held + self._decoder.decode(data)
        self._held, at = "", 0
        while at < len(text) and not self.over:
            found = _KEY.match(text, at)
            if found is None:
                if _PARTIAL.match(text, at):
                    self._held = text[at:]
                    return b""
                at += 1
                continue
            at = found.end()
            self._key(found)
        return text[at:].encode()

    def _key(self, found: re.Match[str]) -> None:
        sequence, one = found["csi"] or found["ss3"], found["one"]
        if sequence in (_PASTE, _PASTED):
            self._pasting = sequence == _PASTE
        elif sequence:
            self._do(_NAMED.get(sequence, ""))
        elif one is not None:
            self._one(one)

    def _one(self, char: str) -> None:
        if self._pasting:
            self._insert("\n" if char == "\r" else char)
        elif char in _CONTROL:
            self._do(_CONTROL[char])
        elif char == "\t" or char >= " ":
            self._insert(char)

    def _insert(self, char: str) -> None:
        if len(self.text) < LONGEST:
            self.text = self.text[: self.at] + char + self.text[self.at :]
            self.at += 1

    def _do(self, name: str) -> None:
        if name == "enter":
            self.entered = True
        elif name == "eof":
            self.ended = not self.text
            self._cut(self.at, self.at + 1)
        elif name in ("left", "right", "home", "end"):
            goals = {"left": self.at - 1, "right": self.at + 1, "home": 0, "end": len(self.text)}
            self.at = min(max(goals[name], 0), len(self.text))
        elif name:
            self._cut(*self._span(name))

    def _span(self, name: str) -> tuple[int, int]:
        """Return what a key that deletes takes away."""
        if name == "word":
            head = self.text[: self.at].rstrip()
            return len(head) - len(head.split(" ")[-1]) if head else 0, self.at
        spans = {
            "back": (max(self.at - 1, 0), self.at),
            "delete": (self.at, self.at + 1),
            "clear": (0, self.at),
        }
        return spans.get(name, (self.at, len(self.text)))

    def _cut(self, start: int, end: int) -> None:
        self.text = self.text[:start] + self.text[end:]
        self.at = start
