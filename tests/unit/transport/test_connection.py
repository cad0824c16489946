"""A connection over a pair in memory: order, one answer each, cancellation, loss, back-pressure."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream

from acpbridge.errors import BridgeError
from acpbridge.protocol.jsonrpc import Call, Notification, Peer
from acpbridge.transport import connection as module
from acpbridge.transport import outgoing
from acpbridge.transport.connection import Connection
from acpbridge.transport.memory import MemoryEnd, memory_pair

HANG = 15


class Side:
    """A handler that does what the method says, and remembers what it saw."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.served: Counter[str] = Counter()
        self.serving = anyio.Event()
        self.go = anyio.Event()
        self.may_read = anyio.Event()
        self.may_read.set()

    def on_notification(self, notification: Notification) -> None:
        if notification.method == "break":
            raise ValueError("a handler broke")
        self.seen.append(notification.params)

    async def on_call(self, call: Call) -> Any:
        self.served[call.wire_id] += 1
        self.serving.set()
        if call.method == "refuse":
            raise BridgeError("capacity", "full", data={"limit": 1})
        if call.method == "crash":
            raise RuntimeError("the secret text")
        if call.method == "odd":
            raise BridgeError("busy", "odd", data={"path": object()})
        if call.method == "odd result":
            return object()
        if call.method == "wait":
            await self.go.wait()
        if call.method == "hang":
            await anyio.sleep_forever()
        return call.params

    async def room(self) -> None:
        await self.may_read.wait()


class Raw:
    """The other end, by hand."""

    def __init__(self, end: MemoryEnd) -> None:
        self.end = end
        self._rest = b""

    async def send(self, *values: dict[str, Any]) -> None:
        data = b"".join(json.dumps({"jsonrpc": "2.0", **v}).encode() + b"\n" for v in values)
        await self.end.send(data)

    async def line(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            self._rest += await self.end.receive()
        data, _, self._rest = self._rest.partition(b"\n")
        value: dict[str, Any] = json.loads(data)
        return value

    async def quiet(self) -> None:
        """Nothing more has been written to us, once everybody waits."""
        await anyio.wait_all_tasks_blocked()
        stream = self.end._stream.receive_stream
        assert isinstance(stream, MemoryObjectReceiveStream)
        assert (self._rest, self.end._rest) == (b"", b"")
        assert stream.statistics().current_buffer_used == 0
        assert stream.statistics().tasks_waiting_send == 0


@asynccontextmanager
async def wired(
    side: Side | None = None, buffered: int = 64, **options: Any
) -> AsyncIterator[tuple[Connection, Raw]]:
    here, there = memory_pair(buffered)
    try:
        with anyio.fail_after(HANG):
            async with Connection(here, here, side or Side(), **options) as connection:
                yield connection, Raw(there)
    finally:
        await here.aclose_both()
        await there.aclose_both()


@asynccontextmanager
async def pair(one: Side, two: Side) -> AsyncIterator[tuple[Connection, Connection]]:
    here, there = memory_pair(4)
    try:
        with anyio.fail_after(HANG):
            async with Connection(here, here, one) as left, Connection(there, there, two) as right:
                yield left, right
    finally:
        await here.aclose_both()
        await there.aclose_both()


def ask(number: Any, method: str = "echo", **params: Any) -> dict[str, Any]:
    return {"id": number, "method": method, "params": params}


def result(number: Any, value: Any = None) -> dict[str, Any]:
    return {"id": number, "result": value}


def cancel(number: Any) -> dict[str, Any]:
    return {"method": "$/cancel_request", "params": {"requestId": number}}


# Order.


async def test_notifications_and_answers_are_taken_in_wire_order_g16() -> None:
    side = Side()
    async with wired(side) as (connection, raw):
        async with anyio.create_task_group() as tasks:

            async def prompt() -> None:
                side.seen.append(await connection.request("session/prompt", {}))

            tasks.start_soon(prompt)
            assert (await raw.line())["method"] == "session/prompt"
            updates = [{"method": "session/update", "params": [n]} for n in range(100)]
            await raw.send(*updates, result(0, "end"))
        assert side.seen == [*([n] for n in range(100)), "end"]


async def test_a_call_does_not_block_the_reader() -> None:
    side = Side()
    async with wired(side) as (_, raw):
        await raw.send(ask(1, "wait"), {"method": "m", "params": [1]}, ask(2, a=2))
        assert await raw.line() == {"jsonrpc": "2.0", **result(2, {"a": 2})}
        assert side.seen == [[1]]
        side.go.set()
        assert (await raw.line())["id"] == 1


async def test_arrivals_are_told_in_wire_order() -> None:
    side = Side()

    def arrived(call: Call) -> None:
        side.seen.append(call.id)
        raise ValueError("nor does it matter when this breaks")

    async with wired(side, arrived=arrived) as (_, raw):
        tell = {"method": "m", "params": ["told"]}
        await raw.send(tell, ask(1), tell, ask(2))
        assert [(await raw.line())["id"], (await raw.line())["id"]] == [1, 2]
    assert side.seen == [["told"], 1, ["told"], 2]


async def test_requests_and_notifications_leave_in_the_order_they_were_made() -> None:
    async with wired() as (connection, raw), anyio.create_task_group() as tasks:
        tasks.start_soon(connection.request, "a", {})
        await anyio.wait_all_tasks_blocked()
        connection.notify("b", {})
        connection.send_raw(b'{"method":"c"}\n')
        assert [(await raw.line())["method"] for _ in range(3)] == ["a", "b", "c"]
        await raw.send(result(0))


# Answers.


async def test_an_error_of_ours_is_answered_whole() -> None:
    async with wired() as (_, raw):
        await raw.send(ask("q", "refuse"))
        reply = await raw.line()
    assert reply["id"] == "q"
    assert reply["error"]["data"]["code"] == "capacity"
    assert reply["error"]["data"]["limit"] == 1


@pytest.mark.parametrize("method", ["crash", "odd", "odd result"])
async def test_an_unknown_error_is_answered_without_its_text(method: str) -> None:
    with structlog.testing.capture_logs() as logs:
        async with wired() as (_, raw):
            await raw.send(ask(1, method), ask(2))
            reply = await raw.line()
            assert (await raw.line())["id"] == 2
    assert reply["error"]["code"] == -32603
    assert reply["error"]["data"]["code"] == "internal"
    assert "secret" not in json.dumps(reply)
    assert [entry["event"] for entry in logs] == ["call failed"]


async def test_a_broken_notification_handler_ends_nothing() -> None:
    side = Side()
    with structlog.testing.capture_logs() as logs:
        async with wired(side) as (_, raw):
            await raw.send({"method": "break"}, {"method": "m", "params": [1]}, ask(1))
            assert (await raw.line())["id"] == 1
    assert side.seen == [[1]]
    assert len(logs) == 1


async def test_a_call_that_is_answered_early_is_answered_once() -> None:
    side = Side()
    calls: list[Call] = []
    async with wired(side, arrived=calls.append) as (connection, raw):
        await raw.send(ask(1, "wait"))
        await side.serving.wait()
        connection.answer(calls[0], "early")
        connection.answer(calls[0], "again")
        side.go.set()
        assert (await raw.line())["result"] == "early"
        await raw.quiet()


async def test_the_answering_hook_is_the_last_look() -> None:
    side = Side()
    allowed = True

    def answering(call: Call, value: Any) -> Any:
        return value if allowed else f"changed {call.id}"

    async with wired(side, answering=answering) as (_, raw):
        await raw.send(ask(1, "wait"))
        await side.serving.wait()
        allowed = False
        side.go.set()
        assert (await raw.line())["result"] == "changed 1"


async def test_a_broken_answering_hook_never_lets_the_result_through() -> None:
    def answering(call: Call, value: Any) -> Any:
        raise ValueError("broken")

    async with wired(answering=answering) as (_, raw):
        await raw.send(ask(1, a=1))
        assert "error" in await raw.line()


async def test_a_failed_request_raises_what_was_answered() -> None:
    async with wired() as (connection, raw):

        async def refuse() -> None:
            await raw.line()
            await raw.send({"id": 0, "error": {"code": -32000, "message": "log in", "data": "why"}})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refuse)
            with pytest.raises(BridgeError, match="log in: why") as caught:
                await connection.request("m", {})
        assert caught.value.rpc_code == -32000


# Cancellation.


async def test_a_cancelled_call_is_answered_once_row_38() -> None:
    side = Side()
    async with wired(side) as (_, raw):
        await raw.send(ask(1, "hang"), ask(1.0, "hang"), ask("1", "hang"))
        await side.serving.wait()
        await raw.send(cancel(1), cancel(1), cancel(True), cancel([1]), cancel(None), cancel(9))
        reply = await raw.line()
        assert (reply["id"], type(reply["id"]), reply["error"]["code"]) == (1, int, -32800)
        await raw.quiet()
        await raw.send(cancel("1"), cancel(1.0))
        replies = [await raw.line(), await raw.line()]
        assert [reply["error"]["code"] for reply in replies] == [-32800, -32800]
        await raw.quiet()


@pytest.mark.parametrize("behind", [cancel(1), ask(1, "hang")])
async def test_a_call_taken_back_in_the_same_chunk_is_not_served(behind: dict[str, Any]) -> None:
    side = Side()
    async with wired(side) as (_, raw):
        await raw.send(ask(1, "hang"), behind)
        assert (await raw.line())["error"]["code"] in (-32800, -32600)
        await raw.quiet()
    assert side.served == {}


async def test_a_reused_id_stops_the_handler_row_16() -> None:
    side = Side()
    async with wired(side) as (connection, raw):
        await raw.send(ask(1, "wait"))
        await side.serving.wait()
        await raw.send(ask(1, "echo"))
        assert (await raw.line())["error"]["code"] == -32600
        side.go.set()
        await raw.quiet()
        assert connection.malformed_requests == 1
    assert side.served == {"1": 1}


async def test_a_handler_that_goes_on_after_its_cancel_is_not_heard() -> None:
    async with wired(Stubborn()) as (_, raw):
        await raw.send(ask(1))
        await anyio.wait_all_tasks_blocked()
        await raw.send(cancel(1))
        assert (await raw.line())["error"]["code"] == -32800
        await raw.quiet()


class Stubborn(Side):
    async def on_call(self, call: Call) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            raise BridgeError("busy", "I answer all the same")


async def test_withdrawing_an_unknown_call_does_nothing() -> None:
    async with wired() as (connection, raw):
        assert not connection.withdraw("1")
        await raw.quiet()


async def test_a_request_given_up_leaves_nothing_and_its_answer_is_dropped() -> None:
    async with wired() as (connection, raw):
        with anyio.move_on_after(0):
            await connection.request("m", {})
        number = (await raw.line())["id"]
        assert connection._waiters == {}
        with structlog.testing.capture_logs():
            await raw.send(result(number), ask(1))
            assert (await raw.line())["id"] == 1
        assert connection.noise == 1
        assert connection.malformed_requests == 0


@pytest.mark.parametrize("retract", [True, False])
async def test_the_other_side_is_told_of_a_request_given_up_where_that_is_wanted(
    retract: bool,
) -> None:
    async with wired() as (connection, raw):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def request() -> None:
                    await connection.request("m", {}, retract=retract)

                tasks.start_soon(request)
                number = (await raw.line())["id"]
                scope.cancel()
        if retract:
            assert await raw.line() == {"jsonrpc": "2.0", **cancel(number)}
        await raw.quiet()


@pytest.mark.parametrize("place", ["entering", "reading", "writing", "serving", "room"])
async def test_a_cancel_anywhere_leaves_nothing(place: str) -> None:
    side = Side()
    here, there = memory_pair(0)
    raw = Raw(there)
    before = anyio.get_running_tasks()
    with anyio.fail_after(HANG), anyio.CancelScope() as outer:
        if place == "entering":
            outer.cancel()
        if place == "room":
            side.may_read = anyio.Event()
        async with Connection(here, here, side) as connection:
            if place == "writing":
                connection.notify("m", {})
            if place == "serving":
                await raw.send(ask(1, "hang"))
                await side.serving.wait()
            await anyio.wait_all_tasks_blocked()
            outer.cancel()
            await anyio.sleep_forever()
    assert outer.cancelled_caught
    assert connection.closed.is_set()
    assert (connection._scopes, connection._waiters, connection._outgoing.unsent) == ({}, {}, 0)
    assert len(anyio.get_running_tasks()) == len(before)
    await here.aclose_both()
    await there.aclose_both()


# Loss.


async def test_open_requests_fail_when_the_other_side_is_gone_case_61() -> None:
    lost = BridgeError("agent_died", "gone")
    async with wired(lost=lambda: lost) as (connection, raw):
        failed: list[str] = []

        async def request() -> None:
            with pytest.raises(BridgeError) as caught:
                await connection.request("m", {})
            failed.append(caught.value.code)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(request)
            for _ in range(3):
                await raw.line()
            await raw.end.aclose()
        assert failed == ["agent_died"] * 3
        await request()
        connection.notify("m", {})
        connection.send_raw(b"{}\n")
        connection.finish_reading()


async def test_an_answer_without_a_newline_counts_case_23() -> None:
    async with wired() as (connection, raw):

        async def agent() -> None:
            await raw.line()
            await raw.end.send(b'{"jsonrpc":"2.0","id":0,"result":"last"}')
            await raw.end.aclose()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent)
            assert await connection.request("m", {}) == "last"


async def test_the_end_of_the_stream_cancels_what_is_served() -> None:
    side = Side()
    async with wired(side) as (connection, raw):
        await raw.send(ask(1, "hang"))
        await side.serving.wait()
        await raw.end.aclose()
        await connection.closed.wait()
        await anyio.wait_all_tasks_blocked()
        assert connection._scopes == {}
        await raw.quiet()


async def test_after_the_end_nothing_is_answered_any_more() -> None:
    async with wired(Stubborn()) as (connection, raw):
        await raw.send(ask(1))
        await anyio.wait_all_tasks_blocked()
        await raw.end.aclose()
        await connection.closed.wait()
        await raw.quiet()
        assert connection._scopes == {}


async def test_leaving_fails_requests_that_other_tasks_wait_for() -> None:
    codes: list[str] = []
    async with anyio.create_task_group() as tasks, wired() as (connection, raw):

        async def request() -> None:
            with pytest.raises(BridgeError) as caught:
                await connection.request("m", {})
            codes.append(caught.value.code)

        tasks.start_soon(request)
        await raw.line()
    assert codes == ["connection_closed"]


async def test_what_is_still_in_the_pipe_is_read_before_the_verdict() -> None:
    side = Side()
    async with wired(side) as (connection, raw):
        async with anyio.create_task_group() as tasks:
            answers: list[Any] = []

            async def request() -> None:
                answers.append(await connection.request("m", {}))

            tasks.start_soon(request)
            await raw.line()
            for number in range(50):
                await raw.send({"method": "m", "params": [number]})
            await raw.send(result(0, "in time"))
            # Nothing of it was read yet; the other side keeps the stream open for ever.
            connection.finish_reading()
            connection.finish_reading()
            await connection.closed.wait()
        assert answers == ["in time"]
        assert side.seen == [[n] for n in range(50)]


@pytest.mark.parametrize("reading", [True, False])
async def test_the_verdict_comes_under_a_flood_and_without_room_too(
    reading: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DRAIN_AT_MOST", 0.2)
    side = Side()
    async with wired(side) as (connection, raw):

        async def flood() -> None:
            while True:
                await raw.send({"method": "m"})

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flood)
            if not reading:
                side.may_read = anyio.Event()
            connection.finish_reading()
            await connection.closed.wait()
            tasks.cancel_scope.cancel()
        assert bool(side.seen) or not reading


async def test_a_peer_that_closed_its_stdin_is_still_read_case_75() -> None:
    here, there = memory_pair()
    side = Side()
    raw = Raw(there)
    with anyio.fail_after(HANG):
        await raw.send({"method": "m", "params": ["last words"]})
        await there.aclose_both()
        async with Connection(here, here, side) as connection:
            connection.notify("m", {})
            with pytest.raises(BridgeError):
                await connection.request("m", {})
            await connection.flushed()
            await connection.drained()
    assert side.seen == [["last words"]]
    await here.aclose_both()


async def test_a_peer_that_reads_no_more_is_taken_as_gone_though_it_keeps_its_stdout() -> None:
    side = Side()
    async with wired(side) as (connection, raw):
        await raw.end._stream.receive_stream.aclose()
        await raw.send({"method": "m", "params": ["last words"]})
        with pytest.raises(BridgeError):
            await connection.request("m", {})
    assert side.seen == [["last words"]]


# Noise.


async def test_noise_is_counted_logged_seldom_and_not_answered_case_18() -> None:
    side = Side()
    with structlog.testing.capture_logs() as logs:
        async with wired(side) as (connection, raw):
            await raw.end.send(b"Loaded cached credentials.\n" * 10_000)
            await raw.send({"method": "m", "params": [1]}, ask(1))
            assert (await raw.line())["id"] == 1
            assert connection.noise == 10_000
            assert connection.malformed_requests == 0
    assert side.seen == [[1]]
    assert len(logs) < 20


async def test_malformed_requests_are_counted_row_11() -> None:
    with structlog.testing.capture_logs():
        async with wired() as (connection, raw):
            await raw.end.send(b'{"id":1,"method":"x"}\n{"id":null,"method":"x"}\n{"id":1}\n')
            assert (await raw.line())["error"]["code"] == -32600
            await raw.quiet()
            assert (connection.noise, connection.malformed_requests) == (3, 2)


# Back-pressure.


async def test_who_asks_for_it_waits_until_enough_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "SEND_BUFFER", 100)
    async with wired(buffered=0) as (connection, raw):
        await connection.drained()
        for _ in range(4):
            connection.notify("m", {"a": "a" * 50})
        order: list[str] = []

        async def wait(what: str, until: Callable[[], Any]) -> None:
            await until()
            order.append(what)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, "flushed", connection.flushed)
            tasks.start_soon(wait, "drained", connection.drained)
            await anyio.wait_all_tasks_blocked()
            assert order == []
            for _ in range(4):
                await raw.line()
        assert sorted(order) == ["drained", "flushed"]


async def test_nothing_is_read_without_room() -> None:
    side = Side()
    async with wired(side) as (_, raw):
        await raw.send({"method": "m", "params": [0]}, ask(0))
        await raw.line()
        side.may_read = anyio.Event()
        await raw.send({"method": "m", "params": [1]})  # the read under way
        await raw.send({"method": "m", "params": [2]})
        await anyio.wait_all_tasks_blocked()
        assert side.seen == [[0], [1]]
        side.may_read.set()
        await anyio.wait_all_tasks_blocked()
        assert side.seen == [[0], [1], [2]]


async def test_a_peer_that_asks_and_never_reads_is_given_up() -> None:
    """G13, G14. Without the comparison in `_put` the other side floods on: HANG is reached."""
    with structlog.testing.capture_logs() as logs:
        async with wired(buffered=0, send_limit=5_000) as (connection, raw):
            async with anyio.create_task_group() as tasks:

                async def flood() -> None:
                    while True:
                        await raw.send(ask("n", "crash"))

                tasks.start_soon(flood)
                await connection.closed.wait()
                tasks.cancel_scope.cancel()
            # The bound, and the one message that was added last.
            assert connection._outgoing.unsent <= 5_000 + 200
    assert any("unread and asks on" in entry.get("why", "") for entry in logs)


async def test_one_who_takes_a_little_now_and_then_is_no_stalled_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G14: what counts is that bytes are taken, not that all are.

    With the limit around the whole wait `drained` raises TimeoutError here.
    """
    monkeypatch.setattr(outgoing, "SEND_BUFFER", 100)
    monkeypatch.setattr(outgoing, "SEND_PIECE", 50)
    stalled = 0.4
    async with wired(buffered=0) as (connection, raw):
        connection.notify("m", {"a": "a" * 500})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.drained, stalled)
            began = anyio.current_time()
            while anyio.current_time() < began + 2 * stalled:
                await anyio.wait_all_tasks_blocked()
                await anyio.sleep(stalled / 4)
                await raw.end.receive(50)
            while connection._outgoing.unsent > 100:
                await raw.end.receive(50)
        connection.notify("m", {"a": "a" * 500})
        with pytest.raises(TimeoutError):
            await connection.drained(stalled)


async def test_who_waits_for_room_adds_one_message_each_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G14: of many followers of one client that wake together, one sends and the others wait on."""
    monkeypatch.setattr(outgoing, "SEND_BUFFER", 1000)
    most = 0
    async with wired(buffered=0) as (connection, raw):

        async def follower() -> None:
            nonlocal most
            for _ in range(20):
                await connection.drained()
                connection.notify("m", {"a": "a" * 400})
                most = max(most, connection._outgoing.unsent)

        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(follower)
            for _ in range(1000):
                await raw.line()
    assert most <= 1000 + 500


async def test_others_get_on_between_two_pieces_of_a_flood() -> None:
    """G13: what was read at once is not taken in at once.

    Without `make_way` in `_take_in` the other task gets on once, and `assert 0 > 5` fails.
    """
    side = Side()
    got_on = 0

    async def other() -> None:
        nonlocal got_on
        while len(side.seen) < 2000:
            await anyio.lowlevel.checkpoint()
            got_on += 0 < len(side.seen) < 2000

    monkey = pytest.MonkeyPatch()
    monkey.setattr(module, "BUSY", 0.0)
    with monkey.context():
        async with wired(side) as (_, raw), anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            await raw.send(*({"method": "m", "params": [n]} for n in range(2000)))
    monkey.undo()
    assert side.seen == [[n] for n in range(2000)]
    assert got_on > 5


# All at once.


@pytest.mark.parametrize("seed", range(5))
async def test_in_a_storm_each_request_is_answered_exactly_once_g15(seed: int) -> None:
    dice = random.Random(seed)
    sides = Side(), Side()
    outcomes: Counter[str] = Counter()
    expected: Counter[str] = Counter()

    async def request(connection: Connection, method: str, params: dict[str, Any]) -> None:
        try:
            answer = await connection.request(method, params)
        except BridgeError as error:
            outcomes[f"{method} {error.rpc_code}"] += 1
        else:
            assert answer == params
            outcomes[method] += 1

    async def given_up(connection: Connection) -> None:
        with anyio.move_on_after(0):
            await connection.request("wait", {})
        outcomes["given up"] += 1

    with structlog.testing.capture_logs():
        async with pair(*sides) as ends, anyio.create_task_group() as tasks:
            told: tuple[list[int], list[int]] = ([], [])
            for number in range(300):
                which = dice.randrange(2)
                method = dice.choice(["echo", "wait", "refuse", "crash", "given up", "tell"])
                if method == "tell":
                    ends[which].notify("m", {"n": number})
                    told[which].append(number)
                elif method == "given up":
                    tasks.start_soon(given_up, ends[which])
                    expected[method] += 1
                else:
                    tasks.start_soon(request, ends[which], method, {"n": number})
                    code = {"refuse": " -32003", "crash": " -32603"}.get(method, "")
                    expected[method + code] += 1
                if dice.random() < 0.2:
                    await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            for side in sides:
                side.go.set()
        assert outcomes == expected
        assert [seen["n"] for seen in sides[1].seen] == told[0]
        assert [seen["n"] for seen in sides[0].seen] == told[1]
        assert all(set(side.served.values()) <= {1} for side in sides)


async def test_the_peer_may_be_given() -> None:
    async with wired(peer=Peer(limit=200)) as (connection, raw):
        with pytest.raises(BridgeError) as caught:
            await connection.request("m", {"a": "a" * 300})
        assert caught.value.code == "message_too_large"
        with structlog.testing.capture_logs():
            await raw.send(ask(1, a="a" * 300), ask(2))
            assert (await raw.line())["error"]["code"] == -32600
            assert (await raw.line())["id"] == 2
