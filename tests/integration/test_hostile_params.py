"""Params that nobody honest sends: each is refused, and the connection and the daemon live on."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from acpbridge import __version__
from acpbridge.daemon.gate import MOST_IDS
from acpbridge.daemon.server import MAX_FOLLOWED
from acpbridge.daemon.wire import MOST_KEYS, WIRE_VERSION
from acpbridge.errors import BridgeError
from tests.integration.daemon_home import Home, daemon_home
from tests.integration.traffic import client


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("hostile")) as made:
        assert made.run("run", "say here").code == 0
        yield made


@pytest.mark.parametrize("after", [10**30, -(10**30), 2**63, -(2**63) - 1])
def test_a_number_of_an_event_that_no_event_has_is_no_fault(home: Home, after: int) -> None:
    with client(home) as daemon:
        key = daemon.call("sessions", all=True)["sessions"][-1]["key"]
        assert daemon.call("follow", key=key, after=after, live=False, stored=True)["newest"] > 0
        assert daemon.call("status", key=key)["sessions"]
    assert "failed" not in home.run("daemon", "logs").out


def test_more_keys_than_a_person_could_mean_are_not_looked_up(home: Home) -> None:
    with client(home) as daemon, pytest.raises(BridgeError) as caught:
        daemon.call("kill", keys=[f"x{n}" for n in range(MOST_KEYS + 1)])
    assert caught.value.code == "invalid_params"


def test_a_notification_of_a_wrong_shape_costs_nobody_the_connection(home: Home) -> None:
    with socket.socket(socket.AF_UNIX) as sock, sock.makefile("rwb") as file:
        sock.settimeout(20)
        sock.connect(str(home.path / "daemon.sock"))

        def send(**message: Any) -> None:
            file.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            file.flush()

        send(id=1, method="hello", params={"version": __version__, "wire": WIRE_VERSION})
        assert json.loads(file.readline())["id"] == 1
        for wrong in ([1], {"a": 1}, None, "x", 1.5, True):
            send(method="unfollow", params={"follow": wrong})
            send(method="attend", params={"key": wrong})
        send(id=2, method="matching", params={})
        assert json.loads(file.readline())["id"] == 2
    assert "failed" not in home.run("daemon", "logs").out


def test_no_client_follows_without_end(home: Home) -> None:
    with client(home) as daemon:
        for _ in range(MAX_FOLLOWED):
            daemon.call("watch")
        with pytest.raises(BridgeError) as caught:
            daemon.call("watch")
        assert caught.value.code == "busy"
        assert daemon.call("matching")["keys"] == []


@pytest.mark.parametrize("ids", [None, [], "x", [1], [None], ["x"] * (MOST_IDS + 1)])
def test_what_names_no_grants_revokes_nothing(home: Home, ids: Any) -> None:
    with client(home) as daemon, pytest.raises(BridgeError) as caught:
        daemon.call("revoke", ids=ids)
    assert caught.value.code == "invalid_params"


@pytest.mark.parametrize("confirm", [1, True, ["x"], {"optionId": "x"}])
def test_row_27_a_confirmation_of_a_wrong_shape_is_none(home: Home, confirm: Any) -> None:
    with client(home) as daemon, pytest.raises(BridgeError) as caught:
        daemon.call("answer", id="q", optionId="x", confirm=confirm)
    assert caught.value.code == "invalid_params"
