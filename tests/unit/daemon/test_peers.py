"""Which role the server gives to a process that connects."""

from pathlib import Path

from anyio.abc import SocketStream

from acpbridge.daemon.duties import Duties
from acpbridge.daemon.server import Server
from acpbridge.model.requesters import Role
from acpbridge.transport import unix
from tests.unit.transport.test_unix import connected


async def _nothing(*_: object) -> None:
    return


def _server() -> Server:
    duties = Duties(
        owner_of=lambda _: None,  # whoever has that number now is nobody's agent
        vanished=_nothing,
        stop=lambda _: None,
        denied=_nothing,
        limit=1024,
    )
    return Server(None, duties)  # type: ignore[arg-type]


async def _role(server: Server, stream: SocketStream) -> Role:
    peer = unix.peer_credentials(stream)
    return (await server._requester(stream, peer.pid, peer.uid)).role


async def test_g6_who_has_gone_is_no_operator_by_another_ones_number(tmp_path: Path) -> None:
    """Without `still_there` in `Server._requester`: the second role is `operator`."""
    async with connected(tmp_path / "socket") as (stream, client):
        server = _server()
        assert await _role(server, stream) is Role.OPERATOR
        assert client.stdin
        await client.stdin.send(b"go\n")
        await client.wait()
        assert await _role(server, stream) is Role.AGENT
