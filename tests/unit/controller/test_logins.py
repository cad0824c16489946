"""Which login is made without a person, and that it is made once."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from acpbridge.controller import logins
from acpbridge.controller.logins import only_way, set_up
from acpbridge.controller.refusals import login_error
from acpbridge.errors import AUTH_REQUIRED, BridgeError
from acpbridge.model.agents import AgentFacts

KEY = {"id": "key", "name": "Key"}


@pytest.mark.parametrize(
    ("methods", "way"),
    [
        ([KEY], "key"),
        ([{**KEY, "type": "agent"}], "key"),
        ([KEY, "nonsense", {"name": "no id"}], "key"),
        ([], None),
        (None, None),
        ("key", None),
        ([KEY, {"id": "browser"}], None),
        ([{**KEY, "type": "terminal"}], None),
        ([{**KEY, "type": "env_var"}], None),
        ([{**KEY, "type": None}], None),
        ([{**KEY, "_meta": {"terminal-auth": {"command": "x"}}}], None),
        ([{**KEY, "_meta": {"other": 1}}], "key"),
    ],
)
def test_case_94_only_a_single_way_without_a_terminal_is_taken(methods: Any, way: Any) -> None:
    assert only_way({"authMethods": methods}) == way


class Agent:
    """Answers what it is told to, in order, and keeps what it was called."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.called: list[str] = []

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        self.called.append(method)
        answer = self.answers.pop(0)
        if answer == "never":
            await anyio.sleep_forever()
        if isinstance(answer, BridgeError):
            raise answer
        return answer


def refused(message: str = "log in") -> BridgeError:
    return BridgeError("turn_failed", message, rpc_code=AUTH_REQUIRED)


async def opened(agent: Agent) -> Any:
    return await set_up(agent.call, "session/new", {}, {"authMethods": [KEY]})


async def test_case_94_it_is_authenticated_once_and_called_once_more() -> None:
    agent = Agent(refused(), {}, {"sessionId": "s"})
    assert await opened(agent) == {"sessionId": "s"}
    assert agent.called == ["session/new", "authenticate", "session/new"]
    agent = Agent(refused(), {}, refused("still not"))
    with pytest.raises(BridgeError, match="still not"):
        await opened(agent)
    assert agent.called == ["session/new", "authenticate", "session/new"]


async def test_a_way_that_fails_or_waits_for_a_person_leaves_the_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logins, "AUTHENTICATE_WAIT", 0.01)
    for answer in (BridgeError("turn_failed", "no such key"), "never"):
        agent = Agent(refused(), answer)
        with pytest.raises(BridgeError, match="log in"):
            await opened(agent)
        assert agent.called == ["session/new", "authenticate"]


async def test_an_agent_that_dies_of_it_is_told_of_and_other_refusals_are_left_alone() -> None:
    with pytest.raises(BridgeError) as caught:
        await opened(Agent(refused(), BridgeError("agent_died", "gone")))
    assert caught.value.code == "agent_died"
    other = Agent(BridgeError("turn_failed", "bad directory", rpc_code=-32602))
    with pytest.raises(BridgeError, match="bad directory"):
        await opened(other)
    assert other.called == ["session/new"]


def test_case_94_the_ways_are_named_and_so_is_what_to_do() -> None:
    methods = [{"id": f"way-{n}"} for n in range(12)]
    error = login_error(refused(), AgentFacts(login_hint="Set KEY."), {"authMethods": methods})
    assert (error.code, error.hint) == ("auth_required", "Set KEY.")
    assert "way-0, way-1" in error.message
    assert "and 4 more" in error.message
    assert len(error.data["authMethods"]) == 12
    bare = login_error(refused(), AgentFacts(), {})
    assert bare.message == "The agent needs a login: log in"
    assert bare.hint
