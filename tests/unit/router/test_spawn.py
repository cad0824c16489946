"""`sessions_spawn`: what is accepted, what is refused and with which words (3-2.4, 3-3.1.16)."""

from pathlib import Path
from typing import Any

import pytest

from acpbridge.config.delegation import Acp
from acpbridge.config.snapshot import Limits
from acpbridge.errors import BridgeError
from acpbridge.model.delegation import THINKING, Delegation
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import Outcome, SessionState
from acpbridge.router.claiming import Claim
from acpbridge.router.receipts import RestartRequest
from acpbridge.router.spawn_requests import SpawnRequest
from acpbridge.runtimes.base import New, Resume
from tests.unit.router.spawning import agency, child_of, parent, spawn
from tests.unit.router.world import OPERATOR, World, agent_in, refused, until

# ---- Parameters ----


@pytest.mark.parametrize(
    "name", ["target", "transport", "channel", "to", "threadId", "thread_id", "replyTo", "reply_to"]
)
def test_3_2_4_channel_delivery_is_refused_by_name(name: str) -> None:
    with pytest.raises(BridgeError) as caught:
        SpawnRequest.read({"task": "x", name: "y"})
    words = f"sessions_spawn does not support {name}; remove channel-delivery parameters."
    assert (caught.value.code, caught.value.message) == ("invalid_params", words)


@pytest.mark.parametrize("name", ["timeoutSeconds", "timeout_seconds"])
def test_3_2_4_an_old_word_for_the_time_names_the_new_one(name: str) -> None:
    with pytest.raises(BridgeError, match="Use runTimeoutSeconds"):
        SpawnRequest.read({"task": "x", name: 5})


@pytest.mark.parametrize("name", ["parent", "parentSessionKey", "spawnedBy", "depth", "role"])
def test_case_137_who_asks_and_how_deep_is_no_parameter(name: str) -> None:
    with pytest.raises(BridgeError, match=name) as caught:
        SpawnRequest.read({"task": "x", name: "agent:fake:main"})
    assert caught.value.code == "invalid_params"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "task"),
        ({"task": " \n"}, "blank"),
        ({"task": "x", "taskName": "Bad"}, "taskName"),
        ({"task": "x", "taskName": "all"}, "taskName"),
        ({"task": "x", "taskName": "last"}, "taskName"),
        ({"task": "x", "taskName": "x" * 65}, "taskName"),
        ({"task": "x", "label": "x" * 513}, "label"),
        ({"task": "x", "runtime": "native"}, "runtime"),
        ({"task": "x", "runTimeoutSeconds": -1}, "runTimeoutSeconds"),
        ({"task": "x", "runTimeoutSeconds": True}, "runTimeoutSeconds"),
        ({"task": "x", "cleanup": "burn"}, "cleanup"),
        ({"task": "x", "sandbox": "off"}, "sandbox"),
        ({"task": "x", "completionTarget": "channel"}, "completionTarget"),
        ({"task": "x", "streamTo": "channel"}, "streamTo"),
    ],
)
def test_3_2_4_a_wrong_value_is_named(params: dict[str, Any], words: str) -> None:
    with pytest.raises(BridgeError, match=words) as caught:
        SpawnRequest.read(params)
    assert caught.value.code == "invalid_params"


# ---- Accepted ----


async def test_3_2_4_an_acp_child_is_the_askers_and_nothing_is_waited_for(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        top = await parent(w)
        w.runtime.script.starts = "hang"
        receipt = await spawn(w, "wait", agent_in(top), label="tests", taskName="look")
        key = child_of(receipt)
        assert receipt == {
            "status": "accepted",
            "childSessionKey": str(key),
            "runId": receipt["runId"],
            "mode": "run",
            "cwd": w.cwd,
            "expectsCompletionMessage": True,
            "taskName": "look",
            "note": receipt["note"],
        }
        assert "Do not poll" in receipt["note"]
        assert "NO_REPLY" in receipt["note"]
        assert key.kind == "acp"
        record = w.session(key).record
        assert (record.lineage.parent, record.lineage.depth) == (top, 1)
        assert (record.label, record.task_name, record.cleanup) == ("tests", "look", "keep")
        stored, run = await w.ledger.session(key), await w.ledger.run(receipt["runId"])
        assert stored is not None
        assert (stored.label, stored.task_name) == ("tests", "look")
        assert run is not None
        assert (run.deliver_to, run.task) == (str(top), "wait")


async def test_3_1_6c_an_acp_child_gets_the_plain_task_and_a_python_one_its_place(
    tmp_path: Path,
) -> None:
    async with agency(tmp_path) as w:
        top = await parent(w, "house")
        acp = await spawn(w, "say hello", agent_in(top), runtime="acp", agentId="codex")
        assert (await w.router.wait(acp["runId"], OPERATOR)).outcome is Outcome.COMPLETED
        await w.diary.has("prompt say hello")
        native = await spawn(w, "look at it", agent_in(top), runtime="subagent", label="look")
        key = child_of(native)
        await until(lambda: str(key) in w.runtime.running and w.turn(key).started_at)
        first, task = w.turn(key).request.content
        assert first["_meta"] == {"acpbridge": {"instructions": True}}
        assert "look at it" not in first["text"]
        assert str(key) in first["text"]
        assert str(top) in first["text"]
        assert "- label: look" in first["text"]
        assert task["text"].startswith("[Subagent Context]")
        assert "(depth 1/3)" in task["text"]
        assert "[Subagent Task]\nlook at it\n" in task["text"]


async def test_3_2_4_a_python_child_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        top = await parent(w, "house")
        more = {"completionTarget": "parent", "lightContext": True, "runtime": "subagent"}
        receipt = await spawn(w, "wait", agent_in(top), **more)
        assert child_of(receipt).kind == "subagent"
        assert child_of(receipt).agent == "house"
        assert receipt["completionTarget"] == "parent"
        assert receipt["context"] == "isolated"
        assert "runTimeoutSeconds" not in receipt


async def test_3_2_4_a_fork_that_cannot_be_had_is_said_with_the_receipt(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        top = await parent(w, "house")
        receipt = await spawn(w, "wait", agent_in(top), runtime="subagent", context="fork")
        assert receipt["context"] == "isolated"
        assert "not forked" in receipt["note"]


async def test_3_2_4_nobody_is_told_where_no_completion_is_expected(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        top = await parent(w)
        receipt = await spawn(w, "say x", agent_in(top), expectsCompletionMessage=False)
        assert receipt["expectsCompletionMessage"] is False
        assert "nobody is told" in receipt["note"]
        run = await w.ledger.run(receipt["runId"])
        assert run is not None
        assert run.deliver_to == ""


async def test_3_2_4_a_persistent_child_is_kept_whatever_cleanup_says(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        top = await parent(w)
        kept = child_of(await spawn(w, "say x", agent_in(top), mode="session", cleanup="delete"))
        gone = child_of(await spawn(w, "say x", agent_in(top), cleanup="delete"))
        assert (w.session(kept).record.cleanup, w.session(kept).record.one_shot) == ("keep", False)
        assert (w.session(gone).record.cleanup, w.session(gone).record.one_shot) == ("delete", True)


async def test_a_second_spawn_with_the_same_idempotency_key_is_the_first_one(
    tmp_path: Path,
) -> None:
    async with agency(tmp_path) as w:
        top = await parent(w)
        one = await spawn(w, "wait", agent_in(top), idempotencyKey="k")
        two = await spawn(w, "wait", agent_in(top), idempotencyKey="k")
        assert one["runId"] == two["runId"]
        assert one["childSessionKey"] == two["childSessionKey"]
        assert len(w.made()) == 2


# ---- Whom: runtime and agent ----


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ({"runtime": "subagent"}, "house:subagent"),
        ({"agentId": "HOUSE"}, "house:subagent"),
        ({"runtime": "subagent", "agentId": "house"}, "house:subagent"),
        ({"runtime": "acp"}, "codex:acp"),
        ({"agentId": "codex"}, "codex:acp"),
        ({"runtime": "acp", "agentId": "claude"}, "claude:acp"),
        ({"runtime": "acp", "agentId": "gemini"}, "gemini:acp"),  # of the catalogue
    ],
)
async def test_3_3_1_16_runtime_and_agent_choose_the_key(
    tmp_path: Path, params: dict[str, Any], key: str
) -> None:
    async with agency(tmp_path, acp=Acp(default_agent="codex")) as w:
        top = await parent(w, "house")
        w.runtime.script.starts = "hang"
        found = child_of(await spawn(w, "x", agent_in(top), **params))
        assert f"{found.agent}:{found.kind}" == key


@pytest.mark.parametrize(
    ("agent", "kind"), [("house", "subagent"), ("codex", "acp"), ("fake", "acp")]
)
async def test_a_person_need_not_say_what_an_agent_is(
    tmp_path: Path, agent: str, kind: str
) -> None:
    async with agency(tmp_path) as w:
        receipt = await spawn(w, "say x", agentId=agent)
        assert child_of(receipt).kind == kind
        assert w.session(child_of(receipt)).record.lineage.parent is None


async def test_a_person_may_spawn_the_demo_without_a_configuration(tmp_path: Path) -> None:
    """The lists of who may start whom are for agents; a person spawns what `run` runs."""
    async with agency(tmp_path) as w:
        receipt = await spawn(w, "hello", agentId="demo")
        assert child_of(receipt).agent == "demo"


async def test_a_person_who_names_no_agent_is_told_to_and_not_of_one_called_main(
    tmp_path: Path,
) -> None:
    async with agency(tmp_path) as w:
        request = SpawnRequest.read({"task": "x", "callerCwd": w.cwd})
        error = await refused("target_agent_required", w.router.tool(request, OPERATOR))
        assert "main" not in error.message
        assert "--agent" in error.hint


async def test_a_client_of_no_configured_agent_is_told_to_name_one(tmp_path: Path) -> None:
    """Else it hears that its own key, which no agent is behind, is one that speaks ACP."""
    async with agency(tmp_path) as w:
        outside = await w.router.claimed(OPERATOR, Claim(key="agent:main:main", cwd=w.cwd))
        request = SpawnRequest.read({"task": "x", "callerCwd": w.cwd})
        await refused("target_agent_required", w.router.tool(request, outside))


ONLY = Delegation(allow_agents=("writer",))
ALL = Delegation(allow_agents=("*",))
NAMED = Delegation(require_agent_id=True)


@pytest.mark.parametrize(
    ("setting", "params", "code", "words"),
    [
        ({}, {"runtime": "acp", "agentId": "nobody"}, "no_such_agent", "nobody"),
        ({}, {"runtime": "subagent", "agentId": "nobody"}, "no_such_agent", "registry"),
        ({}, {"runtime": "subagent", "agentId": "gemini"}, "no_such_agent", "(allowed: house)"),
        ({}, {"runtime": "acp"}, "target_agent_required", "which ACP agent"),
        ({}, {"runtime": "acp", "agentId": "house"}, "runtime_agent_mismatch", "Python"),
        ({}, {"runtime": "subagent", "agentId": "codex"}, "runtime_agent_mismatch", "ACP"),
        ({}, {"agentId": "writer"}, "subagent_policy", "(allowed: house)"),
        ({"delegations": {"house": ONLY}}, {"agentId": "house"}, "subagent_policy", "writer"),
        ({"delegations": {"house": NAMED}}, {}, "subagent_policy", "requireAgentId"),
        (
            {"acp": Acp(allowed_agents=("codex",))},
            {"runtime": "acp", "agentId": "claude"},
            "agent_forbidden",
            "(allowed: codex)",
        ),
        (
            {"acp": Acp(enabled=False)},
            {"runtime": "acp", "agentId": "codex"},
            "acp_disabled",
            "acp.enabled",
        ),
        ({}, {"sandbox": "require"}, "runtime_policy", "sandbox"),
        (
            {},
            {"runtime": "acp", "agentId": "codex", "sandbox": "require"},
            "runtime_policy",
            "ACP sessions run outside the sandbox",
        ),
        ({}, {"mode": "session"}, "thread_required", "thread: true"),
        ({}, {"thread": True}, "thread_binding_invalid", "threads"),
        ({}, {"thread": True, "mode": "session"}, "thread_binding_invalid", "threads"),
        (
            {},
            {"runtime": "acp", "agentId": "codex", "resumeSessionId": "s1"},
            "resume_forbidden",
            "s1",
        ),
        ({}, {"thinking": "hard"}, "invalid_params", ", ".join(THINKING)),
        ({}, {"resumeSessionId": "s1"}, "invalid_params", "resumeSessionId"),
        ({}, {"streamTo": "parent"}, "invalid_params", "streamTo"),
        *(
            ({}, {"runtime": "acp", "agentId": "codex", **one}, "invalid_params", next(iter(one)))
            for one in (
                {"completionTarget": "parent"},
                {"context": "fork"},
                {"lightContext": True},
                {"attachAs": {"mountPath": "in"}},
                {"runTimeoutSeconds": 86401},
            )
        ),
        ({}, {"cwd": "relative"}, "invalid_params", "absolute"),
        ({}, {"cwd": "/no/such/directory"}, "invalid_params", "/no/such/directory"),
    ],
)
async def test_3_2_4_each_refusal_has_its_code_and_changes_nothing(
    tmp_path: Path, setting: dict[str, Any], params: dict[str, Any], code: str, words: str
) -> None:
    """Without any one guard the spawn is accepted, or refused with another code."""
    async with agency(tmp_path, **setting) as w:
        # Its own entry must let it be begun.
        top = await parent(w, "house")
        params = {"runtime": "subagent", **params} if "agentId" not in params else params
        before = len(w.made())
        error = await refused(code, spawn(w, "x", agent_in(top), **params))
        assert words in error.message
        assert error.hint
        assert len(w.made()) == before
        assert w.diary.lines.count("start") == 1


@pytest.mark.parametrize(
    ("setting", "agent"),
    [
        ({"delegations": {"house": ALL}}, "writer"),
        ({"delegations": {"house": Delegation(allow_agents=("writer", "house"))}}, "house"),
        ({"acp": Acp(allowed_agents=("*",))}, "claude"),
        ({"acp": Acp(allowed_agents=("claude",))}, "claude"),
        ({"acp": Acp(allowed_agents=())}, "claude"),
    ],
)
async def test_3_3_1_16_what_a_list_holds_is_allowed(
    tmp_path: Path, setting: dict[str, Any], agent: str
) -> None:
    async with agency(tmp_path, **setting) as w:
        top = await parent(w, "house")
        runtime = "acp" if agent == "claude" else "subagent"
        receipt = await spawn(w, "wait", agent_in(top), agentId=agent, runtime=runtime)
        assert child_of(receipt).agent == agent


async def test_3_3_1_16_allow_agents_is_for_python_agents_and_allowed_agents_for_acp_ones(
    tmp_path: Path,
) -> None:
    setting: dict[str, Any] = {
        "acp": Acp(allowed_agents=("codex",)),
        "delegations": {"house": Delegation(allow_agents=("writer",))},
    }
    async with agency(tmp_path, **setting) as w:
        top = agent_in(await parent(w, "house"))
        await spawn(w, "wait", top, runtime="acp", agentId="codex")
        await spawn(w, "wait", top, runtime="subagent", agentId="writer")
        await refused("agent_forbidden", spawn(w, "x", top, runtime="acp", agentId="claude"))
        await refused("subagent_policy", spawn(w, "x", top, runtime="subagent"))


async def test_allowed_agents_holds_for_what_a_person_spawns_and_not_for_a_run(
    tmp_path: Path,
) -> None:
    async with agency(tmp_path, acp=Acp(allowed_agents=("codex",))) as w:
        await refused("agent_forbidden", spawn(w, "x", agentId="claude"))
        await w.done("say x", agent="claude")


async def test_an_agents_run_is_a_spawn_and_meets_the_same_guards(tmp_path: Path) -> None:
    """Without the check in `Accepting._new` an agent starts by a command what no tool lets it."""
    setting: dict[str, Any] = {"acp": Acp(allowed_agents=("fake",))}
    async with agency(tmp_path, **setting) as w:
        top = agent_in(await parent(w))
        await refused("agent_forbidden", w.run("x", by=top, agent="codex"))
        await refused("subagent_policy", w.run("x", by=top, agent="house"))
        await w.done("say x", by=top, agent="fake")
        await w.done("say x", agent="codex")  # a person may


async def test_acp_that_is_switched_off_is_off_for_everybody(tmp_path: Path) -> None:
    async with agency(tmp_path, acp=Acp(enabled=False)) as w:
        await refused("acp_disabled", w.run("x", agent="codex"))
        await w.done("say x", agent="house")


async def test_3_2_4_of_several_reasons_the_first_of_the_contract_is_told(tmp_path: Path) -> None:
    """The guards stand in their order; each is found once the one before it is content."""
    setting: dict[str, Any] = {
        "acp": Acp(enabled=True, allowed_agents=("codex",)),
        "limits": Limits(max_children_per_session=1),
    }
    async with agency(tmp_path, **setting) as w:
        top = agent_in(await parent(w))
        await spawn(w, "wait", top, runtime="acp", agentId="codex")
        params: dict[str, Any] = {
            "sandbox": "require",
            "runtime": "acp",
            "agentId": "house",
            "resumeSessionId": "s9",
            "thinking": "hard",
            "cwd": "relative",
            "thread": True,
        }
        steps: list[tuple[str, dict[str, Any]]] = [
            ("runtime_policy", {"sandbox": "inherit"}),
            ("runtime_agent_mismatch", {"agentId": "claude"}),
            ("agent_forbidden", {"agentId": "codex"}),
            ("subagent_policy", {}),
        ]
        for code, mended in steps:
            await refused(code, spawn(w, "x", top, **params))
            params |= mended
        (child,) = w.router._directory.children(w.made()[0].key)
        await w.router.kill([str(child.key)], 0, OPERATOR)
        for code, mended in (
            ("resume_forbidden", {"resumeSessionId": ""}),
            ("invalid_params", {"thinking": "low"}),
            ("invalid_params", {"cwd": w.cwd}),
            ("thread_binding_invalid", {"thread": False}),
        ):
            await refused(code, spawn(w, "x", top, **params))
            params |= mended
        assert (await spawn(w, "wait", top, **params))["status"] == "accepted"


async def test_3_2_4_what_only_a_session_can_ask_is_refused_to_one_without(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        error = await refused("requester_session_required", spawn(w, "x", streamTo="parent"))
        assert "nobody to tell" in error.message


# ---- Depth, number, circles ----


async def test_case_137_depth_and_number_are_refused_in_words_that_name_the_limit(
    tmp_path: Path,
) -> None:
    async with agency(tmp_path, limits=Limits(max_depth=2, max_children_per_session=2)) as w:
        top = await parent(w)
        child = child_of(await spawn(w, "wait", agent_in(top)))
        await until(lambda: str(child) in w.runtime.running)
        leaf = child_of(await spawn(w, "wait", agent_in(child)))
        await until(lambda: str(leaf) in w.runtime.running)
        error = await refused("subagent_policy", spawn(w, "x", agent_in(leaf)))
        assert "is not allowed at this depth (current depth: 2, max: 2; limits.maxDepth)" in (
            error.message
        )
        await spawn(w, "wait", agent_in(top))
        error = await refused("subagent_policy", spawn(w, "x", agent_in(top)))
        words = "sessions_spawn has reached max active children for this session"
        assert f"{words} (2/2; limits.maxChildrenPerSession)" in error.message
        assert "limits.maxChildrenPerSession" in error.hint


async def test_0_14_no_agent_is_started_by_way_of_another_by_itself(tmp_path: Path) -> None:
    """Case 137: A spawns B, and B may not spawn A; one more of its own is no circle."""
    async with agency(tmp_path, limits=Limits(max_depth=5)) as w:
        a = await parent(w, "codex")
        a2 = child_of(await spawn(w, "wait", agent_in(a), runtime="acp", agentId="codex"))
        await until(lambda: str(a2) in w.runtime.running)
        b = child_of(await spawn(w, "wait", agent_in(a2), runtime="acp", agentId="claude"))
        await until(lambda: str(b) in w.runtime.running)
        error = await refused(
            "subagent_policy", spawn(w, "x", agent_in(b), runtime="acp", agentId="codex")
        )
        assert error.message == (
            "circular SubAgent call: codex already in chain [codex, codex, claude]."
        )
        await spawn(w, "wait", agent_in(b), runtime="acp", agentId="claude")
        await spawn(w, "wait", agent_in(b), runtime="acp", agentId="fake")


# ---- Time and place ----


@pytest.mark.parametrize(
    ("limit", "given", "timeout"), [(0, None, None), (60, None, 60.0), (60, 0, None), (60, 7, 7.0)]
)
async def test_3_2_4_the_time_is_the_requests_else_the_configurations(
    tmp_path: Path, limit: int, given: int | None, timeout: float | None
) -> None:
    async with agency(tmp_path, limits=Limits(run_timeout_seconds=limit)) as w:
        params: dict[str, Any] = {} if given is None else {"runTimeoutSeconds": given}
        receipt = await spawn(w, "wait", **params)
        key = child_of(receipt)
        await until(lambda: w.session(key).turn is not None)
        assert w.turn(key).request.timeout == timeout
        assert receipt.get("runTimeoutSeconds") == timeout


async def test_3_2_4_a_child_whose_time_is_over_has_timed_out(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        receipt = await spawn(w, "wait", runTimeoutSeconds=1)
        result = await w.router.wait(receipt["runId"], OPERATOR)
        assert result.outcome is Outcome.TIMED_OUT


async def test_3_2_4_a_child_works_where_it_is_told_else_where_its_parent_does(
    tmp_path: Path,
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with agency(tmp_path) as w:
        top = await parent(w)
        given = await spawn(w, "wait", agent_in(top), cwd=str(other))
        handed = await spawn(w, "wait", agent_in(top), callerCwd=str(other))
        assert given["cwd"] == w.session(child_of(given)).record.cwd == str(other)
        assert handed["cwd"] == w.session(child_of(handed)).record.cwd == w.cwd


async def test_3_2_4_a_directory_that_is_gone_is_passed_over_and_one_that_is_shut_is_not(
    tmp_path: Path,
) -> None:
    """ENOENT: the next one; any other error: `cwd_resolution_failed` (here a loop of links)."""
    away, shut = tmp_path / "away", tmp_path / "shut"
    away.mkdir()
    shut.symlink_to(shut)
    async with agency(tmp_path) as w:
        top = await parent(w, cwd=str(away))
        away.rmdir()
        receipt = await spawn(w, "wait", agent_in(top), callerCwd=w.cwd)
        assert receipt["cwd"] == w.cwd
        await refused("cwd_resolution_failed", spawn(w, "x", agent_in(top), callerCwd=""))
        await refused("cwd_resolution_failed", spawn(w, "x", agent_in(top), cwd=str(shut)))
        await refused("cwd_resolution_failed", spawn(w, "x", agent_in(top), callerCwd=str(shut)))


# ---- Taking a conversation up ----


async def ended_child(w: World, top: SessionKey) -> tuple[SessionKey, str]:
    receipt = await spawn(w, "say x", agent_in(top))
    await w.router.wait(receipt["runId"], OPERATOR)
    await w.rest(child_of(receipt))
    known = w.session(child_of(receipt)).record.agent_session_id
    assert known is not None
    return child_of(receipt), known


async def test_3_2_4_a_conversation_of_ones_own_child_is_taken_up_by_one_resume(
    tmp_path: Path,
) -> None:
    async with agency(tmp_path) as w:
        top = await parent(w)
        _, known = await ended_child(w, top)
        opened = len([line for line in w.diary.lines if line.startswith("open ")])
        receipt = await spawn(w, "say y", agent_in(top), resumeSessionId=known)
        await w.router.wait(receipt["runId"], OPERATOR)
        opens = [line for line in w.diary.lines if line.startswith("open ")][opened:]
        assert opens == [f"open Resume {known}"]


async def test_3_2_4_a_conversation_of_others_is_refused_as_one_that_never_was(
    tmp_path: Path,
) -> None:
    async with agency(tmp_path) as w:
        top, stranger = await parent(w), await parent(w)
        _, known = await ended_child(w, top)
        said = await refused(
            "resume_forbidden", spawn(w, "x", agent_in(stranger), resumeSessionId=known)
        )
        never = await refused(
            "resume_forbidden", spawn(w, "x", agent_in(stranger), resumeSessionId="s-none")
        )
        assert said.message.replace(known, "s-none") == never.message
        await refused(
            "resume_forbidden",
            spawn(w, "x", agent_in(top), resumeSessionId=known, runtime="acp", agentId="codex"),
        )


async def test_3_2_4_a_conversation_that_the_agent_does_not_know_fails_and_none_is_begun(
    tmp_path: Path,
) -> None:
    async with agency(tmp_path) as w:
        top = await parent(w)
        _, known = await ended_child(w, top)
        begun = w.diary.lines.count("open New")
        w.runtime.script.opens[Resume] = "resume_not_found"
        receipt = await spawn(w, "say y", agent_in(top), resumeSessionId=known)
        result = await w.router.wait(receipt["runId"], OPERATOR)
        assert result.outcome is Outcome.FAILED
        assert result.error is not None
        assert result.error["code"] == "resume_not_found"
        assert w.diary.lines.count("open New") == begun


async def test_r7_a_person_takes_up_any_conversation_that_nobody_is_in(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        receipt = await spawn(w, "say y", resumeSessionId="known-elsewhere")
        await w.router.wait(receipt["runId"], OPERATOR)
        await w.diary.has("open Resume known-elsewhere")
        top = await parent(w)
        session_id = w.session(top).record.agent_session_id
        await refused("busy", spawn(w, "x", resumeSessionId=session_id))


# ---- What goes wrong later ----


@pytest.mark.parametrize("people", [0, 1])
async def test_r1_a_spawn_that_nobody_could_answer_warns(tmp_path: Path, people: int) -> None:
    more = {"attended": lambda _key: people}
    async with agency(tmp_path, more=more) as w:
        receipt = await spawn(w, "wait", agent_in(await parent(w)))
        assert ("limits.permissionSeconds" in receipt["note"]) is (people == 0)


@pytest.mark.parametrize("starts", ["fail", "fault"])
async def test_case_143_what_does_not_start_is_accepted_and_then_fails_once(
    tmp_path: Path, starts: str
) -> None:
    """R1: the reason is in the one outcome."""
    async with agency(tmp_path) as w:
        top = await parent(w)
        w.runtime.script.starts = starts
        receipt = await spawn(w, "say x", agent_in(top))
        result = await w.router.wait(receipt["runId"], OPERATOR)
        assert result.outcome is Outcome.FAILED
        assert result.error is not None
        assert result.error["code"] in ("start_failed", "internal")


async def test_3_2_4_a_model_that_was_asked_for_and_cannot_be_had_fails_the_child(
    tmp_path: Path,
) -> None:
    async with agency(tmp_path) as w:
        w.runtime.script.refuses = True
        receipt = await spawn(w, "say x", model="big", thinking="low")
        result = await w.router.wait(receipt["runId"], OPERATOR)
        assert result.error is not None
        assert result.error["code"] == "unsupported_control"
        assert "prompt say x" not in w.diary.lines


async def test_3_2_4_what_the_configuration_wishes_of_a_child_is_asked_leniently(
    tmp_path: Path,
) -> None:
    wish = Delegation(model="small", thinking="high")
    async with agency(tmp_path, delegations={"house": wish}) as w:
        top = await parent(w, "house")
        key = child_of(await spawn(w, "wait", agent_in(top), runtime="subagent"))
        await until(lambda: w.session(key).turn is not None)
        wishes = w.turn(key).request.wishes
        assert (wishes.model, wishes.thinking, wishes.lenient) == ("small", "high", True)


async def test_case_143_a_full_disk_refuses_and_leaves_nothing(tmp_path: Path) -> None:
    full: list[str] = []

    def faults(point: str) -> None:
        if point == "ledger.before_commit" and full:
            raise OSError(28, "No space left on device")

    async with agency(tmp_path, faults=faults) as w:
        top = await parent(w)
        before = len(w.made())
        full.append("now")
        error = await refused("spawn_failed", spawn(w, "x", agent_in(top)))
        full.clear()
        assert error.data["cause"] == "store_full"
        assert len(w.made()) == before


@pytest.mark.parametrize("commits", [1, 2])
async def test_3_2_4_a_session_that_is_ended_before_its_first_turn_is_named(
    tmp_path: Path, commits: int
) -> None:
    """Without `_not_admitted` the caller hears of a closed session and not of which one."""
    worlds: list[World] = []
    passed: list[str] = []

    def faults(point: str) -> None:
        if point != "ledger.after_commit" or not worlds:
            return
        passed.append(point)
        if len(passed) == commits:
            for session in worlds[0].made()[1:]:
                session.mark_ending(None)

    async with agency(tmp_path, faults=faults) as w:
        top = await parent(w)
        worlds.append(w)
        error = await refused("dispatch_failed", spawn(w, "x", agent_in(top)))
        worlds.clear()
        key = SessionKey.parse(error.data["childSessionKey"])
        assert w.session(key).closing
        outcomes = [run.outcome for run in await w.ledger.runs(key)]
        assert outcomes == [Outcome.CANCELLED] * (commits - 1)


async def test_a_session_that_is_being_restarted_spawns_nothing(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        top = await parent(w)
        asker: Requester = agent_in(top)
        await w.router.kill([str(top)], 0, OPERATOR)
        assert await w.rest(top) is SessionState.CLOSED
        await refused("session_closed", spawn(w, "x", asker))
        await refused("session_closed", w.router.restart(RestartRequest(str(top)), OPERATOR))
        assert New not in w.runtime.script.opens
