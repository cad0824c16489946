"""Row 25: what a client's answer to a permission request comes to, whatever it answers."""

import json
from typing import Any

import anyio
import pytest

from acpbridge.edge.sessions import ClientHost
from acpbridge.model.permission import (
    Decision,
    Effect,
    Option,
    OptionKind,
    PermissionAsk,
    Reason,
    ToolSubject,
)
from acpbridge.protocol.jsonrpc import Call, Notification
from acpbridge.transport.connection import Connection
from acpbridge.transport.memory import MemoryEnd, memory_pair
from tests.unit.runtimes.scenarios import HANG

ASK = PermissionAsk(
    ToolSubject("t-1"),
    (
        Option("yes", "Yes", OptionKind.ALLOW_ONCE),
        Option("no", "No", OptionKind.REJECT_ONCE),
        Option("odd", "Odd", OptionKind.UNKNOWN, "odd"),
    ),
)


class Nothing:
    """Serves nothing."""

    def on_notification(self, notification: Notification) -> None:
        pass

    async def on_call(self, call: Call) -> Any:
        raise AssertionError

    async def room(self) -> None:
        pass


async def decision(answer: dict[str, Any] | None) -> Decision:
    """Ask a client, which answers with these members, or closes; return the decision."""
    ours, theirs = memory_pair()

    async def play(end: MemoryEnd) -> None:
        asked = json.loads(await end.receive())
        if answer is None:
            await end.aclose()
            return
        message = {"jsonrpc": "2.0", "id": asked["id"], **answer}
        await end.send(json.dumps(message).encode() + b"\n")

    with anyio.fail_after(HANG):
        async with (
            Connection(ours, ours, Nothing()) as connection,
            anyio.create_task_group() as tasks,
        ):
            host = ClientHost(connection)
            host.opened("s-1")
            tasks.start_soon(play, theirs)
            found = await host.ask(ASK)
    await ours.aclose_both()
    await theirs.aclose_both()
    return found


def outcome(value: Any) -> dict[str, Any]:
    return {"result": {"outcome": value}}


async def test_row_25_cancelled_is_passed_on() -> None:
    found = await decision(outcome({"outcome": "cancelled"}))
    assert (found.effect, found.option_id) == (Effect.CANCEL, None)


async def test_row_25_a_client_that_has_gone_cancels() -> None:
    found = await decision(None)
    assert found == Decision(Effect.CANCEL, None, Reason.CANCELLED)


async def test_row_25_an_offered_id_is_taken_as_it_is() -> None:
    found = await decision(outcome({"outcome": "selected", "optionId": "yes"}))
    assert (found.effect, found.option_id, found.reason) == (Effect.ALLOW, "yes", Reason.OPERATOR)


NO_ANSWER: dict[str, dict[str, Any]] = {
    "an error": {"error": {"code": -32603, "message": "no"}},
    "an error that says cancelled": {"error": {"code": -32800, "message": "cancelled"}},
    "an error and a result": {
        "error": {"code": -1, "message": "x"},
        **outcome({"outcome": "selected", "optionId": "yes"}),
    },
    "null": {"result": None},
    "text": {"result": "yes"},
    "a flat outcome": {"result": {"outcome": "selected", "optionId": "yes"}},
    "an unknown outcome": outcome({"outcome": "approved", "optionId": "yes"}),
    "an outcome of a later version": outcome({"outcome": "_x", "optionId": "yes"}),
    "an outcome in capitals": outcome({"outcome": "SELECTED", "optionId": "yes"}),
    "no id": outcome({"outcome": "selected"}),
    "an id that is null": outcome({"outcome": "selected", "optionId": None}),
    "an id that is a list": outcome({"outcome": "selected", "optionId": ["yes"]}),
    "an id that was not offered": outcome({"outcome": "selected", "optionId": "ja"}),
    "the name of an option": outcome({"outcome": "selected", "optionId": "Yes"}),
}


@pytest.mark.parametrize("name", NO_ANSWER)
async def test_row_25_an_error_or_an_unknown_outcome_denies(name: str) -> None:
    found = await decision(NO_ANSWER[name])
    assert (found.effect, found.option_id) == (Effect.DENY, "no")
