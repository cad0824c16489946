"""The JSON-RPC face on the control socket.

Who a peer is, is found from the kernel when it connects: another uid gets nothing, and a process
inside a supervised tree is an agent, whatever it says. Below is `RouterApi`; nothing here decides.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from functools import partial
from itertools import count
from typing import Any, Final

import anyio
import anyio.to_thread
import structlog
from anyio.abc import SocketListener, SocketStream

from acpbridge import __version__
from acpbridge.daemon import gate
from acpbridge.daemon.crowd import Crowd, Turnstile
from acpbridge.daemon.doorway import Doorway, Slot
from acpbridge.daemon.duties import Duties
from acpbridge.daemon.lifetime import check_idle
from acpbridge.daemon.params import (
    count_of,
    environment,
    moment,
    number,
    read_claim,
    read_prune,
    read_run,
    text,
)
from acpbridge.daemon.wire import (
    ATTEND,
    EVENTS,
    HELLO,
    HELLO_LIMIT,
    MOST_KEYS,
    UNFOLLOW,
    WIRE_VERSION,
)
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.protocol.jsonrpc import Call, Notification, Peer
from acpbridge.router.api import Following, RouterApi, Span
from acpbridge.router.authorize import Action, Target, authorize
from acpbridge.router.receipts import RestartRequest
from acpbridge.router.toolcall import ToolRequest
from acpbridge.router.toolset import REQUESTS
from acpbridge.transport.connection import Connection
from acpbridge.transport.faulty import faulty
from acpbridge.transport.tasks import background
from acpbridge.transport.unix import peer_credentials, still_there

log = structlog.get_logger(__name__)

# Logs that one client follows at once: a dashboard has a few dozen. Each costs a task.
MAX_FOLLOWED: Final = 128

# When no descriptor is left for a client, the next look is so much later. Seconds.
ACCEPT_PAUSE: Final = 0.2

# One who has not said hello is let to say just that. An agent's own tools need no more than a
# prompt's text; the operator's may be as long as the configuration says. Bytes.
STRANGER_LINE: Final = 64 * 1024
AGENT_LINE: Final = 1024 * 1024

# A follower that takes no byte for this long is let go, with the number to resume from. Seconds.
STALLED: Final = 30.0


class Server:
    """Serves clients until it is cancelled."""

    def __init__(self, router: RouterApi, duties: Duties) -> None:
        self._router = router
        self._duties = duties
        self._ids = count(1)
        self._door = Doorway()
        self._crowd = Crowd(self._door.most)
        self._left_at = anyio.current_time()

    def idle_since(self) -> float | None:
        """Return the monotonic time at which the last client left; None while there is one."""
        return None if self._door.clients else self._left_at

    async def listen(self, listener: SocketListener) -> None:
        """Take clients until cancelled; where there is no room they may do but little (G28).

        When the listener is closed nobody else comes in, and those who are in are served on.
        """
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    stream = await listener.accept()
                except anyio.ClosedResourceError:
                    return
                except (OSError, anyio.BrokenResourceError) as error:
                    self._door.give_up(error)
                    await anyio.sleep(ACCEPT_PAUSE)
                    continue
                tasks.start_soon(self._serve_one, stream, await self._door.enter())

    def close(self) -> None:
        """Give back the descriptors in reserve, once nobody is served any more."""
        self._door.close()

    async def _serve_one(self, stream: SocketStream, slot: Slot | None) -> None:
        try:
            with nullcontext() if slot is None else slot.scope:
                await self.serve(stream, slot)
        finally:
            self._door.left(slot)
            self._left_at = anyio.current_time()

    async def serve(self, stream: SocketStream, slot: Slot | None = None) -> None:
        """Serve one client to its end; with a slot it came in by the narrow way."""
        try:
            async with stream:
                peer = peer_credentials(stream)
                if peer.uid != os.getuid():
                    await self._duties.denied(peer.pid, peer.uid)
                    return
                requester = await self._requester(stream, peer.pid, peer.uid)
                with self._crowd.counted(requester, narrow=slot is not None) as welcome:
                    if not welcome:
                        return
                    client = _Client(stream, self._router, self._duties, requester)
                    client.slot = slot
                    client.turnstile = self._crowd.turnstile(requester)
                    await client.run()
        except OSError as error:
            log.info("client lost", error=str(error))
        except Exception:
            # The top of a task: one client's fault ends nobody else's connection.
            log.exception("client failed")

    async def _requester(self, stream: SocketStream, pid: int, uid: int) -> Requester:
        owner = self._crowd.known(pid)
        if owner is None:
            judges = self._crowd.judges
            owner = await anyio.to_thread.run_sync(self._duties.owner_of, pid, limiter=judges)
            if owner is None and not still_there(stream):
                owner = ""  # whoever has its number now is not the one that connected
            elif owner:
                self._crowd.remember(pid, owner, lambda: still_there(stream))
        client = f"c{next(self._ids)}"
        if owner is None:
            return Requester(Role.OPERATOR, pid=pid, uid=uid, client_id=client)
        try:
            session = SessionKey.parse(owner)
        except BridgeError:
            session = None
        return Requester(Role.AGENT, session, pid, uid, client)


class _Client:
    """One connection: a handler of its calls, and its followers."""

    def __init__(
        self, stream: SocketStream, router: RouterApi, duties: Duties, requester: Requester
    ) -> None:
        self._router = router
        self._duties = duties
        self._who = requester
        self.slot: Slot | None = None
        self.turnstile = Turnstile()
        self._greeted = anyio.Event()
        self._following: dict[int, anyio.CancelScope] = {}
        self._numbers = count(1)
        self._peer = Peer(STRANGER_LINE, silent_on_noise=False)
        send = faulty(stream, duties.faults, "socket")
        self._connection = Connection(stream, send, self, peer=self._peer)
        self._calls: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Any]]] = {
            HELLO: self._hello,
            "run": self._run,
            "wait": self._wait,
            "follow": self._follow,
            "status": self._status,
            "sessions": self._sessions,
            "matching": self._matching,
            "restart": self._restart,
            "prune": self._prune,
            "cancel": self._cancel,
            "close": self._close,
            "kill": self._kill,
            "watch": self._watch,
            **{name: partial(self._of_people, call) for name, call in gate.CALLS.items()},
            **{name: partial(self._tool, request) for name, request in REQUESTS.items()},
            "stop": self._stop,
        }

    async def run(self) -> None:
        """Serve until the client is gone, then give up what it had asked for."""
        try:
            with self.turnstile.passing(self._following):
                async with background(self._expect_hello) as self._tasks, self._connection:
                    await self._connection.closed.wait()
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                await self._duties.vanished(self._who.client_id)

    async def _expect_hello(self) -> None:
        """Let go of one who does not say who it is."""
        with anyio.move_on_after(HELLO_LIMIT):
            await self._greeted.wait()
        if not self._greeted.is_set():
            self._connection.finish_reading()

    # ---- Handler ----

    def on_notification(self, notification: Notification) -> None:
        """Let go of a follower, or take note of a person; there is nothing else to notify of."""
        params = notification.params
        if not isinstance(params, dict):
            return
        key, number = params.get("key", ""), params.get("follow")
        if notification.method == ATTEND and isinstance(key, str) and self._greeted.is_set():
            self._router.attend(key, self._who)
        if notification.method == UNFOLLOW and type(number) is int and number in self._following:
            self._following[number].cancel()

    async def room(self) -> None:
        """A client's requests are small and few."""

    async def on_call(self, call: Call) -> Any:
        """Serve one call."""
        method = self._calls.get(call.method)
        if method is None:
            raise BridgeError("method_not_found", f"There is no method {call.method!r}.")
        params = call.params if call.params is not None else {}
        if not isinstance(params, dict):
            raise BridgeError("invalid_params", "The params must be an object.")
        if not self._greeted.is_set() and call.method != HELLO:
            raise BridgeError("invalid_message", "Say hello first.")
        with nullcontext() if self.slot is None else self.slot.serving(call.method):
            async with self.turnstile.serving(call.method, params.get("action")):
                return await method(params)

    # ---- Calls ----

    async def _hello(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self._who = await self._duties.claimed(self._who, read_claim(params))
        self._greeted.set()
        agent = self._who.role is Role.AGENT and not self._who.external
        takes = min(AGENT_LINE, self._duties.limit) if agent else self._duties.limit
        self._peer.raise_limit(takes)
        return {
            "takes": takes,
            "version": __version__,
            "wire": WIRE_VERSION,
            "pid": os.getpid(),
            "stopping": self._duties.stopping(),
            "role": self._who.role,
            "session": None if self._who.session is None else str(self._who.session),
            "notify": self._duties.notify(),
        }

    async def _run(self, params: Mapping[str, Any]) -> dict[str, Any]:
        receipt = await self._router.run(read_run(params), self._who)
        return receipt.to_json()

    async def _wait(self, params: Mapping[str, Any]) -> dict[str, Any]:
        result = await self._router.wait(text(params, "runId"), self._who)
        return {
            "runId": result.run_id,
            "outcome": result.outcome,
            "stopReason": result.stop_reason,
            "error": result.error,
        }

    async def _status(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return await self._router.status(text(params, "key", ""), self._who)

    async def _sessions(self, params: Mapping[str, Any]) -> dict[str, Any]:
        rows = await self._router.sessions(
            self._who,
            everything=params.get("all") is True,
            agent=text(params, "agent", ""),
            cwd=text(params, "cwd", ""),
        )
        newest = count_of(params, "newest")
        return {"sessions": rows if newest is None else rows[max(0, len(rows) - newest) :]}

    async def _matching(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"keys": await self._router.matching(text(params, "agent", ""), self._who)}

    async def _cancel(self, params: Mapping[str, Any]) -> dict[str, Any]:
        grace = number(params, "grace")
        key = text(params, "key")
        receipt = await self._router.cancel(key, 2.0 if grace is None else grace, self._who)
        return receipt.to_json()

    async def _close(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"key": str(await self._router.close(text(params, "key"), self._who))}

    async def _kill(self, params: Mapping[str, Any]) -> dict[str, Any]:
        keys = params.get("keys")
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise BridgeError("invalid_params", "keys must be a list of strings.")
        if len(keys) > MOST_KEYS:
            raise BridgeError("invalid_params", f"keys may be {MOST_KEYS} at most.")
        receipts = await self._router.kill(keys, number(params, "grace"), self._who)
        if params.get("unowned") is True:
            receipts += await self._router.end_unowned(self._who)
        return {
            "ok": not any(receipt.survivors for receipt in receipts),
            "results": [receipt.to_json() for receipt in receipts],
        }

    async def _restart(self, params: Mapping[str, Any]) -> dict[str, Any]:
        request = RestartRequest(
            key=text(params, "key"),
            env=environment(params),
            force=params.get("force") is True,
            fresh=params.get("fresh") is True,
        )
        return (await self._router.restart(request, self._who)).to_json()

    async def _prune(self, params: Mapping[str, Any]) -> dict[str, Any]:
        request = read_prune(params)
        pruned = await self._router.prune(request, self._who)
        return {"dryRun": request.dry_run, "pruned": [session.to_json() for session in pruned]}

    async def _of_people(self, call: gate.GateCall, params: Mapping[str, Any]) -> dict[str, Any]:
        return await call(self._router, self._who, params)

    async def _tool(self, tool: type[ToolRequest], params: Mapping[str, Any]) -> dict[str, Any]:
        return await self._router.tool(tool.read(params), self._who)

    async def _stop(self, params: Mapping[str, Any]) -> dict[str, Any]:
        authorize(Action.STOP_DAEMON, self._who, Target())
        if params.get("ifIdle") is True:
            check_idle(await self._router.sessions(self._who, everything=False))
        self._duties.stop(params.get("force") is True)
        return {"stopping": True}

    # ---- Following ----

    async def _follow(self, params: Mapping[str, Any]) -> dict[str, Any]:
        after = params.get("after", 0)
        if type(after) is not int:
            raise BridgeError("invalid_params", "after must be a number of an event, or -N.")
        span = Span(
            since=moment(params, "since"),
            live=params.get("live", True) is not False,
            stored=params.get("stored") is True,
        )
        self._check_followers()
        following = await self._router.follow(text(params, "key"), after, self._who, span)
        return {**self._push_all(following), "newest": following.newest}

    async def _watch(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self._check_followers()
        key = text(params, "key") if params.get("key") else ""
        return self._push_all(await self._router.watch(self._who, key))

    def _check_followers(self) -> None:
        if len(self._following) >= MAX_FOLLOWED or self.turnstile.full():
            message = f"{len(self._following)} logs are followed already: no more are."
            raise BridgeError("busy", message, hint="Let go of one, or open another connection.")

    def _push_all(self, following: Following) -> dict[str, Any]:
        number = next(self._numbers)
        scope = self._following[number] = anyio.CancelScope()
        self._tasks.start_soon(self._push, number, following, scope, name="follower")
        return {"follow": number}

    async def _push(self, number: int, following: Following, scope: anyio.CancelScope) -> None:
        """Send events as they come; the lines go out as they are, spliced and not re-encoded.

        The last message has an `end`: null where all was read that was wanted, else an error.
        """
        head = b'{"jsonrpc":"2.0","method":"%s","params":{"follow":%d,"events":[' % (
            EVENTS.encode(),
            number,
        )
        try:
            with scope:
                while lines := await following.read():
                    await self._connection.drained(STALLED)
                    self._connection.send_raw(head + b",".join(lines) + b"]}}\n")
                self._connection.notify(EVENTS, {"follow": number, "events": [], "end": None})
        except BridgeError as error:
            end = {"follow": number, "events": [], "end": error.to_json()}
            self._connection.notify(EVENTS, end)
        except TimeoutError:
            self._connection.give_up(f"{self._who.client_id} read nothing for {STALLED:g} s")
        finally:
            self._following.pop(number, None)
            await following.aclose()
