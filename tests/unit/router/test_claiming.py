"""Who a peer is that says something of itself: it is lowered by that, and never raised."""

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import CloseReason
from acpbridge.router.authorize import REACH, Action, Reach
from acpbridge.router.claiming import Claim
from acpbridge.router.tokens import PREFIX, Tokens, with_tools
from tests.unit.router.world import OPERATOR, Ids, World, agent_in, refused, until, world

MAIN = "agent:main:main"


def other(kind: str = "subagent") -> str:
    return f"agent:fake:{kind}:{uuid.uuid4()}"


async def test_who_says_nothing_stays_what_the_kernel_says(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        inside = agent_in(SessionKey.parse(other()))
        for who in (OPERATOR, inside, Requester(Role.EDITOR)):
            assert await w.router.claimed(who, Claim()) == who


async def test_a_peer_inside_a_tree_stays_what_ancestry_says(tmp_path: Path) -> None:
    """Without the look at its role: it is the main session."""
    async with world(tmp_path) as w:
        for who in (agent_in(SessionKey.parse(other())), Requester(Role.AGENT)):
            assert await w.router.claimed(who, Claim(key=MAIN)) == who


async def test_c_2_a_client_outside_gets_the_key_that_it_names(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        for key in (MAIN, "agent:fake:main", other("acp"), other()):
            who = await w.router.claimed(OPERATOR, Claim(key=key, cwd=w.cwd))
            assert who == replace(
                OPERATOR, role=Role.AGENT, session=SessionKey.parse(key), external=True
            )
            record = await w.ledger.session(SessionKey.parse(key))
            assert record is not None
            # It is found again, by a second client of the same key too.
            assert await w.router.claimed(OPERATOR, Claim(key=key)) == who


async def test_a_key_that_cannot_be_a_clients_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        running = (await w.run("wait")).key
        before = list(w.router._directory)
        await refused("permission_denied", w.router.claimed(OPERATOR, Claim(key=str(running))))
        for key, code in (
            ("nonsense", "no_such_session"),
            ("agent:fake:telegram:direct:u1", "no_such_session"),
            ("agent:nobody:main", "no_such_agent"),
        ):
            await refused(code, w.router.claimed(OPERATOR, Claim(key=key)))
            assert list(w.router._directory) == before


async def test_a_closed_key_takes_no_client(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.router.claimed(OPERATOR, Claim(key=MAIN))
        w.session(SessionKey.parse(MAIN)).mark_ending(CloseReason.CLOSED)
        error = await refused("session_closed", w.router.claimed(OPERATOR, Claim(key=MAIN)))
        assert "--session" in error.hint


def test_an_agent_answers_no_question_whoever_runs_it() -> None:
    assert REACH[Role.AGENT][Action.ANSWER] is Reach.NONE


async def with_token(w: World) -> tuple[SessionKey, str]:
    """Start an agent that has the session tools; return its key and its token."""
    key = (await w.run("wait", one_shot=False)).key
    await until(lambda: w.runtime.specs)
    token = w.runtime.specs[-1].tool_token
    assert token.startswith(PREFIX)
    return key, token


async def test_a_token_says_whose_tools_they_are(tmp_path: Path) -> None:
    async with world(tmp_path, session_tools=True) as w:
        key, token = await with_token(w)
        who = await w.router.claimed(OPERATOR, Claim(token=token))
        assert (who.role, who.session, who.external) == (Role.AGENT, key, False)
        assert await w.router.claimed(agent_in(key), Claim(token=token)) == agent_in(key)


async def test_a_token_of_another_session_is_refused(tmp_path: Path) -> None:
    """Without the comparison: the one session is the other one."""
    async with world(tmp_path, session_tools=True) as w:
        _, token = await with_token(w)
        stranger = agent_in(SessionKey.parse(other()))
        await refused("permission_denied", w.router.claimed(stranger, Claim(token=token)))
        await refused(
            "permission_denied", w.router.claimed(Requester(Role.AGENT), Claim(token=token))
        )
        for wrong in ("x", token[:-1], token.upper(), PREFIX):
            await refused("permission_denied", w.router.claimed(OPERATOR, Claim(token=wrong)))


async def test_a_token_is_void_when_its_process_has_ended(tmp_path: Path) -> None:
    """Without `_lives`: it is taken."""
    async with world(tmp_path, session_tools=True) as w:
        key, token = await with_token(w)
        assert (await w.router.claimed(OPERATOR, Claim(token=token))).session == key
        await w.router.kill([str(key)], 0.0, OPERATOR)
        await refused("permission_denied", w.router.claimed(OPERATOR, Claim(token=token)))


async def test_an_agent_without_the_tools_has_no_token(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.done("say hi")
        assert w.runtime.specs[-1].tool_token == ""


def test_a_new_process_has_a_new_token() -> None:
    key = SessionKey.main(AgentId("fake"))
    tokens = Tokens(Ids(), lambda _: True)
    first, second = tokens.issue(key), tokens.issue(key)
    assert first != second
    assert (tokens.owner(first), tokens.owner(second)) == (None, key)


def test_a_persons_own_server_of_that_name_stands() -> None:
    def build(token: str) -> dict[str, object]:
        return {"name": "acpbridge", "env": [token]}

    mine = {"name": "acpbridge", "command": "/bin/mine"}
    docs = {"name": "docs"}
    assert with_tools((docs,), "t", build) == (docs, {"name": "acpbridge", "env": ["t"]})
    assert with_tools((mine,), "t", build) == (mine,)
    assert with_tools((docs,), "", build) == (docs,)
    assert with_tools((docs,), "t", None) == (docs,)


async def test_no_external_client_starts_anything_below_a_closed_key(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        who = await w.router.claimed(OPERATOR, Claim(key=MAIN))
        w.session(SessionKey.parse(MAIN)).mark_ending(CloseReason.CLOSED)
        with pytest.raises(BridgeError) as caught:
            await w.run("say hi", by=who)
        assert caught.value.code == "session_closed"
