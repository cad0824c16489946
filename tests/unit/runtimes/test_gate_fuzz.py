"""What an agent may write, at random: no allow without an answer, no fault but typed ones.

The whole road from bytes to bytes is real: the peer, the client side, the host's place, the broker
and its audit. A person answers some of the questions; what was allowed is compared with that.
"""

import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import structlog.testing

from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.permission import (
    Decision,
    Effect,
    OnPermission,
    PermissionAsk,
    PermissionRequest,
    Question,
    Reason,
)
from acpbridge.model.requesters import Requester, Role
from acpbridge.permissions.audit import Audit, verify
from acpbridge.permissions.broker import PermissionBroker
from acpbridge.runtimes.malformed import Malformed
from tests.unit.runtimes.scenarios import HANG, Recorder
from tests.unit.runtimes.wire import OPTIONS, PERMISSION, line, params, prompted

SEEDS = [1, 2, 3]
REQUESTS = 600
PERSON = Requester(Role.OPERATOR, client_id="person")

JUNK: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    "",
    "x",
    "\ud800",
    "\u202e",
    [],
    {},
    [[]],
    {"": 0},
]
KINDS = ["allow_once", "allow_always", "reject_once", "reject_always", "deny", "", "ALLOW_ONCE"]
TOKENS = [
    b"NaN",
    b"1e999",
    b'"a":1,"a":2',
    b"\\ud800",
    b"\xff",
    b"[" * 300,
    b"}",
    b'"',
    b"null",
    b"\0",
]


class Clock:
    def wall(self) -> datetime:
        return datetime(2026, 1, 2, tzinfo=UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class Gate(Recorder):
    """A host with a real broker behind it, and a person who answers now and then."""

    def __init__(self, audit: Audit, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice
        self._count = 0
        self.waiting: list[Question] = []
        self.allowed: dict[str, str] = {}  # question id -> what the person chose
        self.refused: set[str] = set()
        self.returned: list[tuple[PermissionRequest, Decision]] = []
        self.broker = PermissionBroker(
            audit,
            Clock(),
            on_asked=self.waiting.append,
            on_decided=lambda request, decision: self.returned.append((request, decision)),
        )

    async def ask(self, ask: PermissionAsk) -> Decision:
        self._count += 1
        session = SessionKey.main(AgentId("wired"))
        request = PermissionRequest(f"q{self._count}", session, "turn", OnPermission.ASK, ask)
        return await self.broker.ask(request)

    async def person(self) -> None:
        """Answer questions, half of them with what was offered first: a task."""
        while True:
            await anyio.lowlevel.checkpoint()
            if not self.waiting:
                continue
            question = self.waiting.pop(0)
            offered = [option.option_id for option in question.request.ask.options]
            chosen = self._dice.choice([*offered[:1], None, None])
            try:
                if chosen is None:
                    await self.broker.answer(
                        question.request.id, requester=PERSON, effect=Effect.DENY
                    )
                    continue
                self.allowed[question.request.id] = chosen
                await self.broker.answer(question.request.id, requester=PERSON, option_id=chosen)
            except BridgeError as error:
                self.refused.add(error.code)


def mutated(dice: random.Random, number: Any) -> bytes:
    """Return one line that is a permission request, or was one."""
    message: dict[str, Any] = {"id": number, "method": PERMISSION, "params": params()}
    found: dict[str, Any] = message["params"]
    found["options"] = [
        {
            "optionId": dice.choice(["a", *[f"o{n}"] * 9]),
            "name": f"n{n}",
            "kind": dice.choice(KINDS),
        }
        for n in range(dice.randrange(5))
    ] or list(OPTIONS)
    found["toolCall"]["toolCallId"] = dice.choice(["t-1", "t-2", f"t-{number}"])
    changes: list[Callable[[], Any]] = [
        lambda: None,
        lambda: found.__setitem__(dice.choice(list(found)), dice.choice(JUNK)),
        lambda: found.pop(dice.choice(list(found))),
        lambda: found["toolCall"].__setitem__(
            dice.choice(["title", "kind", "content", "locations", "rawInput", "toolCallId"]),
            dice.choice(JUNK),
        ),
        lambda: found["options"].append(dice.choice(JUNK)),
        lambda: found.__setitem__("options", found["options"] * dice.randrange(40)),
        lambda: message.__setitem__("id", dice.choice([*JUNK, number - 1, number - 2])),
        lambda: message.__setitem__("params", dice.choice(JUNK)),
    ]
    dice.choice(changes)()
    data = line(**message)
    if dice.random() < 0.3:
        at = dice.randrange(len(data) - 1)
        size = dice.randrange(4)
        data = data[:at] + dice.choice([*TOKENS, b""]) + data[at + size : -1] + b"\n"
    return data


@pytest.mark.parametrize("seed", SEEDS)
async def test_g19_g15_whatever_an_agent_writes_nothing_is_allowed_that_no_person_allowed(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Malformed, "take", lambda _self, _reason: None)  # it would end too soon
    dice = random.Random(seed)
    audit = Audit.open(tmp_path / "audit.jsonl", boot_id="b", clock=Clock())
    gate = Gate(audit, dice)
    with anyio.fail_after(HANG * 3), structlog.testing.capture_logs() as logged:
        async with (
            prompted(tmp_path, gate) as (session, wire, _),
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(gate.person)
            for number in range(REQUESTS):
                await wire.raw(mutated(dice, number))
                if number % 50 == 49:
                    await wire.raw(b"\n")
                    await wire.settled()
                    while gate.waiting:  # a person is slower than an agent
                        await anyio.lowlevel.checkpoint()
            session.cancel()
            await wire.settled()
            tasks.cancel_scope.cancel()
    audit.close()
    allowed = [(r, d) for r, d in gate.returned if d.effect is Effect.ALLOW]
    assert allowed  # else it proves nothing
    for request, decision in allowed:
        if decision.reason is Reason.RULE:
            # Of a person's "always", that was lowered to a grant of our own.
            assert decision.by.startswith("grant")
            continue
        assert gate.allowed[request.id] == decision.option_id or _lowered(request, decision)
        assert decision.option_id in [o.option_id for o in request.ask.options]
    records = [json.loads(text) for text in (tmp_path / "audit.jsonl").read_bytes().splitlines()]
    # The last word counts: a request may be withdrawn while its allow is being recorded.
    last = {r["request_uid"]: r["decision"] for r in records if r["kind"] == "permission_decided"}
    assert {r.id for r, _ in allowed} == {name for name, word in last.items() if word == "allow"}
    assert verify(tmp_path / "audit.jsonl") == (len(records), None)
    # What was written is no more than what was decided.
    sent = [m for m in wire.heard if "method" not in m and "result" in m]
    chosen = [m["result"]["outcome"]["optionId"] for m in sent if "optionId" in str(m["result"])]
    decided = [d.option_id for _, d in gate.returned if d.option_id is not None]
    assert set(chosen) <= set(decided)
    assert len(chosen) <= len(decided)
    known = {"invalid_option", "confirmation_needed", "already_resolved", "no_such_question"}
    assert gate.refused <= known
    faults = [entry for entry in logged if "failed" in entry["event"]]
    assert faults == []


def _lowered(request: PermissionRequest, decision: Decision) -> bool:
    """Tell whether an "always" was lowered to the one "once" (row 26)."""
    kinds = {o.option_id: o.kind for o in request.ask.options}
    assert decision.option_id is not None
    return kinds[decision.option_id] == "allow_once"
