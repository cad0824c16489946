"""acpbridge: the supervised home of a person's coding agents.

This is the public face: what is in `__all__` is for programs, everything below it is not. For those
who write an agent in Python: `Turn` and what belongs to it. For programs that run agents:
`open_bridge` in their own process, `connect` to the daemon. Importing the package stays cheap:
nothing is imported until it is used.
"""

TYPE_CHECKING = False  # type checkers take it for true; `typing` would be the one thing to import
if TYPE_CHECKING:
    from acpbridge.embed.bridge import Bridge, RunOptions, SpawnOptions
    from acpbridge.embed.opening import connect, open_bridge
    from acpbridge.embed.questions import Answer, OpenQuestion
    from acpbridge.embed.run import Result, Run, RunEvent
    from acpbridge.embed.sent import Sent
    from acpbridge.embed.spawned import Spawned
    from acpbridge.errors import BridgeError
    from acpbridge.runtimes.content import diff_content, text_content
    from acpbridge.runtimes.toolcall import ToolCall
    from acpbridge.runtimes.turn import Exchange, PlanEntry, StopReason, Turn

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Bridge",
    "BridgeError",
    "Exchange",
    "OpenQuestion",
    "PlanEntry",
    "Result",
    "Run",
    "RunEvent",
    "RunOptions",
    "Sent",
    "SpawnOptions",
    "Spawned",
    "StopReason",
    "ToolCall",
    "Turn",
    "connect",
    "diff_content",
    "open_bridge",
    "text_content",
]

_HOMES = {
    "acpbridge.embed.bridge": ("Bridge", "RunOptions", "SpawnOptions"),
    "acpbridge.embed.opening": ("connect", "open_bridge"),
    "acpbridge.embed.questions": ("Answer", "OpenQuestion"),
    "acpbridge.embed.run": ("Result", "Run", "RunEvent"),
    "acpbridge.embed.sent": ("Sent",),
    "acpbridge.embed.spawned": ("Spawned",),
    "acpbridge.errors": ("BridgeError",),
    "acpbridge.runtimes.content": ("diff_content", "text_content"),
    "acpbridge.runtimes.toolcall": ("ToolCall",),
    "acpbridge.runtimes.turn": ("Exchange", "PlanEntry", "StopReason", "Turn"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
