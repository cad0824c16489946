"""An agent that crowds the control socket keeps no person out (G13, G14)."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from acpbridge.daemon.doorway import MAX_CLIENTS
from acpbridge.daemon.wire import WIRE_VERSION
from acpbridge.errors import BridgeError
from fixtures import shell_agent
from tests.integration.daemon_home import Home, daemon_home, until
from tests.integration.traffic import Client, client, ended

pytestmark = pytest.mark.timeout(90)

# Connects as often as it can, asks over each connection for so many things ahead, all the time.
# It writes down how many it has; every connection that is ended is made anew.
CROWD = """
import json, os, selectors, socket, sys
path, note, hello, most, ahead = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
asks = [b'{"jsonrpc":"2.0","id":%d,"method":"status","params":{}}\\n' % n for n in range(ahead)]
doors, here, tried = selectors.DefaultSelector(), 0, 0
while True:
    while here < most:
        door = socket.socket(socket.AF_UNIX)
        door.setblocking(False)
        try:
            tried += 1
            door.connect(path)
            door.send(hello.encode() + b"\\n" + b"".join(asks))
        except OSError:
            door.close()
            break
        doors.register(door, selectors.EVENT_READ)
        here += 1
    with open(note + ".new", "w") as file:
        file.write(f"{here} {tried}")
    os.replace(note + ".new", note)
    for key, _ in doors.select(0.02):
        try:
            data = key.fileobj.recv(1 << 20)
            if data:
                key.fileobj.send(b"".join(asks[: data.count(b"\\n")]))
                continue
        except BlockingIOError:
            continue
        except OSError:
            pass
        doors.unregister(key.fileobj)
        key.fileobj.close()
        here -= 1
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("crowd")) as made:
        shell = [sys.executable, "-P", shell_agent.__file__]
        rows = [
            {"id": "shell", "runtime": {"command": shell}},
            {"id": "fake", "runtime": {"command": made.agent()}},
        ]
        (made.path / "config.yaml").write_text(json.dumps({"agents": {"list": rows}}), "utf-8")
        (made.path / "crowd.py").write_text(CROWD, encoding="utf-8")
        assert made.run("daemon", "start").code == 0
        yield made


@contextmanager
def crowding(home: Home, connections: int, ahead: int) -> Iterator[None]:
    """Have an agent crowd the socket, until it is killed."""
    note = home.path / "crowd"
    note.unlink(missing_ok=True)
    hello = json.dumps(
        {"jsonrpc": "2.0", "id": "h", "method": "hello", "params": {"wire": WIRE_VERSION}}
    )
    words = [sys.executable, home.path / "crowd.py", home.path / "daemon.sock", note]
    command = " ".join(map(str, words)) + f" '{hello}' {connections} {ahead}"
    with home.running("run", f"sh {command}", "--agent", "shell", "--format", "quiet"):
        until(lambda: note.exists() and int(note.read_text(encoding="utf-8").split()[1]) >= 20)
        if connections > MAX_CLIENTS:
            until(lambda: int(note.read_text(encoding="utf-8").split()[1]) > MAX_CLIENTS)
        yield


def coming_in(home: Home, ask: Callable[[Client], Any]) -> Any:
    """Ask for something, as a person who tries again where it takes too long."""

    def once() -> Any:
        try:
            with client(home) as person:
                return ask(person)
        except BridgeError as error:
            if error.code != "daemon_frozen":
                raise
        return None

    return until(once, limit=40)


@pytest.mark.parametrize(("connections", "ahead"), [(MAX_CLIENTS + 50, 1), (20, 200)])
def test_g13_a_person_comes_in_and_is_served_whatever_an_agent_does_at_the_socket(
    home: Home, connections: int, ahead: int
) -> None:
    """Many connections, or many questions over few: either took all there was of something.

    Without `Crowd.counted`, or without the bound in `turnstile`: `daemon_frozen` for every hello,
    after five seconds; with both it takes a tenth of one.
    """
    with crowding(home, connections, ahead):
        said = coming_in(home, lambda person: ended(person, "say through", agent="fake"))
        assert said["outcome"] == "completed"
        (key,) = coming_in(home, lambda person: person.call("matching", agent="shell"))["keys"]
        killed = coming_in(home, lambda person: person.call("kill", keys=[key], grace=0))
    assert killed["ok"], killed
    assert killed["results"][0]["survivors"] == []
    tool = f"sh {' '.join(home.argv('status', '--json'))}"
    done = home.run("run", tool, "--agent", "shell", "--format", "quiet", limit=40)
    assert "status 0" in done.out, done  # there is room for an agent again
