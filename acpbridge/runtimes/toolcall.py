"""A tool call of an agent's code: what is told of it, and the questions about it.

Above is `turn`, which announces calls and hands them out; a call tells and asks through it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from acpbridge.model.permission import Option, OptionKind, PermissionAsk, ToolKind, ToolSubject
from acpbridge.runtimes.content import diff_content, text_content

# What a question of a Python agent offers: nothing that lasts.
NO: Final = "reject_once"
OPTIONS: Final = (
    Option("allow_once", "Allow", OptionKind.ALLOW_ONCE),
    Option(NO, "Reject", OptionKind.REJECT_ONCE),
)


# What may be added to after a call was announced. As for any agent, a question about what was first
# told otherwise says so, and no rule allows it.
_LISTS: Final = ("locations", "content")


class Teller(Protocol):
    """The turn that a call belongs to."""

    def update(self, kind: str, /, **fields: Any) -> None:
        """Send an update."""
        ...

    def absolute(self, path: str) -> str:
        """Return a path as the protocol wants it."""
        ...

    async def decide(self, ask: PermissionAsk) -> str | None:
        """Return the offered option that allows, if any."""
        ...


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of a tool call, in the words of the bridge and of the wire."""

    title: str
    kind: ToolKind
    raw_input: Any
    locations: tuple[str, ...]
    content: tuple[Mapping[str, Any], ...]

    def with_content(self, item: Mapping[str, Any]) -> "Told":
        """Return the same with one more item, and with the file that the item is about."""
        path = item.get("path")
        known = path is None or path in self.locations
        locations = self.locations if known else (*self.locations, str(path))
        return replace(self, content=(*self.content, item), locations=locations)

    def fields(self) -> dict[str, Any]:
        """Return what an announcement says, as fields of the wire."""
        optional = {
            "rawInput": self.raw_input,
            "locations": [{"path": path} for path in self.locations] or None,
            "content": [dict(item) for item in self.content] or None,
        }
        told = {name: value for name, value in optional.items() if value is not None}
        return {"title": self.title, "kind": str(self.kind), **told}

    def subject(self, call_id: str, changed: tuple[str, ...]) -> ToolSubject:
        """Return what a question about the call is about; `changed` was first told otherwise."""
        return ToolSubject(
            call_id,
            self.title,
            self.kind,
            known_kind=True,
            raw_input=self.raw_input,
            locations=self.locations,
            content=self.content,
            changed=changed,
        )


class ToolCall:
    """A tool call under way, inside the `async with turn.tool(...)` block that announced it."""

    def __init__(self, teller: Teller, call_id: str, told: Told) -> None:
        self.id = call_id
        self.status = "completed"
        self._teller = teller
        self._told = self._first = told

    def content(self, text: str) -> None:
        """Add text to what the call shows."""
        self._add(text_content(text))

    def diff(self, path: str, old: str | None, new: str) -> None:
        """Add a diff, and its file to the call's locations; `old` is None for a new file."""
        self._add(diff_content(self._teller.absolute(path), old, new))

    def output(self, value: Any) -> None:
        """Tell the raw output of the call: any JSON value."""
        self._teller.update("tool_call_update", toolCallId=self.id, rawOutput=value)

    def fail(self, why: str = "") -> None:
        """Have the call end as `failed` although nothing is raised."""
        self.status = "failed"
        if why:
            self.content(why)

    async def ask(self) -> bool:
        """Have this call permitted; True only for an explicit yes. Denied, it ends as failed.

        Ask when everything is told that is to be decided on: what is shown is what was told.
        """
        return await self.choose(OPTIONS) is not None

    async def choose(self, options: Sequence[Option]) -> str | None:
        """Have one of several options chosen for this call; `Turn.choose` is the easy way."""
        first, now = self._first.fields(), self._told.fields()
        changed = tuple(name for name in _LISTS if first.get(name) != now.get(name))
        ask = PermissionAsk(self._told.subject(self.id, changed), tuple(options))
        chosen = await self._teller.decide(ask)
        if chosen is None:
            self.status = "failed"
        return chosen

    def _add(self, item: dict[str, Any]) -> None:
        # An update replaces a whole list, so it is always told whole.
        before, self._told = self._told, self._told.with_content(item)
        now = self._told.fields()
        if not self._first.content:
            self._first = replace(self._first, content=self._told.content)
        if not self._first.locations:
            self._first = replace(self._first, locations=self._told.locations)
        same = self._told.locations == before.locations
        fields = {name: now[name] for name in _LISTS if name == "content" or not same}
        self._teller.update("tool_call_update", toolCallId=self.id, **fields)
