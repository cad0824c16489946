"""How sessions of real ACP processes start, talk, ask and die."""

import json
from pathlib import Path

import anyio
import pytest

from acpbridge.config.catalogue import CATALOGUE
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentFacts
from acpbridge.model.events import Fact
from acpbridge.model.permission import Decision, PermissionAsk
from acpbridge.runtimes.acp import _AcpSession
from acpbridge.runtimes.base import Load, New, Resume, RuntimeSession
from tests.integration.agents import fake_session, received
from tests.unit.runtimes.scenarios import HANG, Recorder, allow, text


async def refusal(folder: Path, *options: str, start_seconds: float = 15.0) -> BridgeError:
    """Connect to an agent that must not come up, and return why."""
    with anyio.fail_after(HANG), pytest.raises(BridgeError) as caught:
        async with fake_session(folder, Recorder(), *options, start_seconds=start_seconds):
            pass
    return caught.value


# Starting.


async def test_an_agent_that_never_answers_initialize_is_given_up(tmp_path: Path) -> None:
    error = await refusal(tmp_path, "--silent-start", start_seconds=0.5)
    assert error.code == "start_timeout"
    assert "0.5 s" in error.message


@pytest.mark.parametrize(
    ("how", "method"),
    [(New(), "session/new"), (Load("old"), "session/load"), (Resume("old"), "session/resume")],
)
async def test_g10_an_open_that_is_never_answered_is_given_up_with_the_end_of_stderr(
    how: New | Load | Resume, method: str, tmp_path: Path
) -> None:
    """Without the limit in `_set_up` it waits for ever: TimeoutError of this test's own guard."""
    options = ("--resume", "--silent", method, "--stderr", "still thinking")
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder(), *options, cold_start_seconds=0.5) as session:
            with pytest.raises(BridgeError) as caught:
                await session.open(how)
    assert caught.value.code == "start_timeout"
    assert f"did not answer {method} in 0.5 s" in caught.value.message
    assert "limits.coldStartSeconds" in caught.value.hint
    assert "still thinking" in caught.value.data["stderr"]


async def test_an_agent_that_dies_at_start_is_quoted(tmp_path: Path) -> None:
    error = await refusal(tmp_path, "--die-at-start", "3", "--stderr", "no such config")
    assert error.code == "start_failed"
    assert error.data["exitCode"] == 3
    assert "no such config" in error.data["stderr"]


async def test_another_protocol_version_is_refused(tmp_path: Path) -> None:
    error = await refusal(tmp_path, "--protocol-version", "2")
    assert error.code == "protocol_version"
    assert "version 2" in error.message


async def test_an_agent_that_refuses_initialize_did_not_start(tmp_path: Path) -> None:
    error = await refusal(tmp_path, "--answer", "initialize", '"nonsense"')
    assert error.code == "start_failed"


async def test_a_banner_on_stdout_is_counted_and_hinders_nothing(tmp_path: Path) -> None:
    host = Recorder()
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host, "--banner", "Loaded.") as session:
            opened = await session.open(New())
            assert (await session.prompt(text("say on"))).stop_reason == "end_turn"
            assert isinstance(session, _AcpSession)
            status = session.controller.status()
    assert (status["noise"], status["agentSessionId"]) == (1, opened["sessionId"])
    assert host.said == "on"
    assert "Loaded." not in str(host.events)
    assert [m["method"] for m in received(tmp_path)] == [
        "initialize",
        "session/new",
        "session/prompt",
    ]


# Modes.


async def not_in_mode(folder: Path, *options: str) -> BridgeError:
    with anyio.fail_after(HANG):
        async with fake_session(folder, Recorder(), *options, mode="default") as session:
            with pytest.raises(BridgeError) as caught:
                await session.open(New())
    assert caught.value.code == "mode_not_set"
    return caught.value


@pytest.mark.parametrize("how", ["modes", "config", "both"])
async def test_the_mode_is_set_by_whatever_the_agent_offers(how: str, tmp_path: Path) -> None:
    options = ("--modes", "auto,default", "--modes-as", how)
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder(), *options, mode="default") as session:
            await session.open(New())
            assert session.mode == "default"
    sent = {message["method"] for message in received(tmp_path)}
    assert ("session/set_config_option" in sent) != ("session/set_mode" in sent)


async def test_a_mode_that_is_never_confirmed_is_not_set(tmp_path: Path) -> None:
    error = await not_in_mode(tmp_path, "--modes", "auto,default", "--mode-deaf")
    assert "did not confirm" in error.message
    assert "auto" in error.message


async def test_a_mode_that_is_not_offered_is_not_set(tmp_path: Path) -> None:
    assert "it offers auto" in (await not_in_mode(tmp_path, "--modes", "auto")).message


async def test_a_mode_that_is_refused_is_not_set(tmp_path: Path) -> None:
    error = await not_in_mode(tmp_path, "--modes", "auto,default", "--mode-error")
    assert "Cannot change the mode" in error.message


async def test_a_bare_answer_confirms_a_mode_only_where_that_is_known(tmp_path: Path) -> None:
    options = ("--modes", "auto,default", "--mode-quiet")
    facts = AgentFacts(asking_mode="default", mode_answer_suffices=True)
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder(), *options, facts=facts) as session:
            await session.open(New())
            assert session.mode == "default"
    await not_in_mode(tmp_path, *options)


async def test_a_bypass_mode_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    facts = AgentFacts(bypass_modes=("bypassPermissions",))
    options = ("--modes", "default", "--mode-bypass-on-start")
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder(), *options, facts=facts) as session:
            with pytest.raises(BridgeError) as caught:
                await session.open(New())
    assert caught.value.code == "bypass_refused"


async def test_a_mode_that_the_agent_has_left_is_set_again_before_the_next_prompt(
    tmp_path: Path,
) -> None:
    options = ("--modes", "default,auto")
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder(), *options, mode="default") as session:
            await session.open(New())
            await session.prompt(text("set-mode auto"))
            assert session.mode == "auto"
            await session.prompt(text("say in it again"))
            assert session.mode == "default"
    sent = [message["method"] for message in received(tmp_path) if "method" in message]
    assert sent[-3:] == ["session/prompt", "session/set_mode", "session/prompt"]


async def test_g30_an_agent_that_lets_itself_go_is_cancelled_and_brought_back(
    tmp_path: Path,
) -> None:
    facts = AgentFacts(asking_mode="default", bypass_modes=("bypassPermissions",))
    options = ("--modes", "default,bypassPermissions")
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder(), *options, facts=facts) as session:
            await session.open(New())
            with pytest.raises(BridgeError) as caught:
                await session.prompt(text("set-mode bypassPermissions\nhang"))
            assert caught.value.code == "bypass_refused"
            assert (await session.prompt(text("say good"))).stop_reason == "end_turn"
            assert session.mode == "default"


@pytest.mark.parametrize("params", [{"modeId": "yolo"}, {"configId": "mode", "value": "yolo"}])
async def test_row_28_no_request_leads_into_a_bypass_mode(
    params: dict[str, str], tmp_path: Path
) -> None:
    facts = AgentFacts(bypass_modes=("yolo",))
    method = "session/set_mode" if "modeId" in params else "session/set_config_option"
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder(), "--modes", "a,yolo", facts=facts) as session:
            await session.open(New())
            with pytest.raises(BridgeError) as caught:
                await session.request(method, params)
            assert caught.value.code == "bypass_refused"
            assert session.mode == "a"


async def test_a_change_of_mode_in_a_turn_is_told(tmp_path: Path) -> None:
    host = Recorder()
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host, "--modes", "default,auto") as session:
            await session.open(New())
            await session.prompt(text("set-mode auto"))
            assert session.mode == "auto"
    told = {"mode": "auto", "before": "default", "by": "agent", "bypass": False}
    assert Fact("mode_changed", told) in host.events


# Logging in.


async def test_a_login_that_is_needed_names_the_methods(tmp_path: Path) -> None:
    options = ("--auth-method", "key", "--auth-terminal", "browser", "--auth-required")
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder(), *options, "new") as session:
            with pytest.raises(BridgeError) as caught:
                await session.open(New())
        assert caught.value.code == "auth_required"
        assert caught.value.data["authMethods"] == ["key", "browser"]
        async with fake_session(tmp_path, Recorder(), *options, "prompt") as session:
            await session.open(New())
            with pytest.raises(BridgeError) as caught:
                await session.prompt(text("say hi"))
        assert caught.value.code == "auth_required"


# Old sessions.


async def test_an_old_session_is_loaded_without_its_replay_or_resumed(tmp_path: Path) -> None:
    options = ("--memory", str(tmp_path / "memory"), "--resume")
    host = Recorder()
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder(), *options) as session:
            name = (await session.open(New()))["sessionId"]
            await session.prompt(text("say once"))
        async with fake_session(tmp_path, host, *options) as session:
            assert (await session.open(Load(name)))["sessionId"] == name
            assert host.updates == []
            await session.prompt(text("say again"))
        async with fake_session(tmp_path, host, *options) as session:
            assert (await session.open(Resume(name)))["sessionId"] == name
            await session.prompt(text("say and again"))
    assert host.said == "againand again"


def words_of(agent: str) -> AgentFacts:
    """Return facts that know the words of one agent of the catalogue, and nothing else of it."""
    known = CATALOGUE.get(agent, AgentFacts())
    return AgentFacts(unknown_session_words=known.unknown_session_words)


@pytest.mark.parametrize("says", ["-32002", "-32001", "-32602", "-32601", "codex", "gemini"])
async def test_case_69_an_unknown_session_is_not_found_however_that_is_said(
    says: str, tmp_path: Path
) -> None:
    options = ("--memory", str(tmp_path / "memory"), "--resume", "--load-unknown", says)
    with anyio.fail_after(HANG):
        for how in (Load("gone"), Resume("gone")):
            async with fake_session(
                tmp_path, Recorder(), *options, facts=words_of(says)
            ) as session:
                with pytest.raises(BridgeError) as caught:
                    await session.open(how)
            assert caught.value.code == "resume_not_found"


async def test_case_69_an_internal_error_of_another_cause_is_reported_and_not_taken_for_that(
    tmp_path: Path,
) -> None:
    options = ("--memory", str(tmp_path / "memory"), "--resume", "--load-unknown", "-32603")
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder(), *options) as session:
            with pytest.raises(BridgeError) as caught:
                await session.open(Load("gone"))
    assert caught.value.code == "start_failed"


async def test_nothing_is_loaded_that_was_not_advertised(tmp_path: Path) -> None:
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder(), "--no-load") as session:
            with pytest.raises(BridgeError) as caught:
                await session.open(Load("any"))
    assert caught.value.code == "unsupported_control"


# Talking.


async def said_in(folder: Path, words: str, *options: str) -> str:
    """Run one turn that must end well, and return what the agent said."""
    host = Recorder()
    with anyio.fail_after(HANG):
        async with fake_session(folder, host, *options) as session:
            await session.open(New())
            assert (await session.prompt(text(words))).stop_reason == "end_turn"
            return host.said


async def test_a_line_of_megabytes_comes_whole(tmp_path: Path) -> None:
    assert await said_in(tmp_path, "big 3000000") == "a" * 3_000_000


async def test_noise_ends_nothing(tmp_path: Path) -> None:
    said = await said_in(tmp_path, "say before;\ngarbage\ngarbage deep 100000\nsay after")
    assert said == "before;crlfbomafter"


async def test_a_flood_on_stderr_is_drained(tmp_path: Path) -> None:
    assert await said_in(tmp_path, "stderr-flood 1000000\nsay done") == "done"


async def test_updates_around_the_answers_are_all_kept(tmp_path: Path) -> None:
    host = Recorder()
    options = ("--early-update", "--update-after-new")
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host, *options) as session:
            await session.open(New())
            await session.prompt(text("say in time;\nlate-update 50 late"))
            assert host.said == "in time;"
            await host.until(lambda: host.said == "in time;late")
    kinds = [update["sessionUpdate"] for update in host.updates]
    assert kinds == ["available_commands_update"] * 2 + ["agent_message_chunk"] * 2


async def test_an_answer_without_a_line_end_before_the_exit_still_counts(tmp_path: Path) -> None:
    assert await said_in(tmp_path, "say done\nunterminated") == "done"


async def test_an_unknown_method_of_the_agent_is_refused(tmp_path: Path) -> None:
    said = await said_in(tmp_path, "call fs/read_text_file {}")
    assert json.loads(said.removeprefix("answer: "))["error"]["code"] == -32601


async def test_an_error_of_the_agent_keeps_its_code_and_its_data(tmp_path: Path) -> None:
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder()) as session:
            await session.open(New())
            with pytest.raises(BridgeError) as caught:
                await session.prompt(text('error -32099 "out of luck" {"a":1}'))
    assert (caught.value.code, caught.value.rpc_code) == ("turn_failed", -32099)
    assert "out of luck" in caught.value.message
    assert caught.value.data["details"] == {"a": 1}


# Dying.


async def death(folder: Path, words: str) -> BridgeError:
    """Have the agent die in a turn; the verdict must come within two seconds."""
    with anyio.fail_after(HANG):
        async with fake_session(folder, Recorder()) as session:
            await session.open(New())
            with anyio.fail_after(30), pytest.raises(BridgeError) as caught:
                await session.prompt(text(words))
            assert await session.died() is caught.value
    assert caught.value.code == "agent_died"
    return caught.value


async def test_an_agent_that_crashes_is_reported_with_its_status(tmp_path: Path) -> None:
    error = await death(tmp_path, "stderr all is lost\ncrash 9")
    assert (error.data["exitCode"], error.data["signal"]) == (9, None)
    assert "all is lost" in error.data["stderr"]


async def test_an_agent_that_is_killed_is_reported_with_the_signal(tmp_path: Path) -> None:
    error = await death(tmp_path, "die-by KILL")
    assert error.data["exitCode"] is None
    assert error.data["signal"] in (9, "SIGKILL")


async def test_a_grandchild_that_holds_stdout_hides_no_death(tmp_path: Path) -> None:
    assert (await death(tmp_path, "children holding-stdout\ncrash 1")).data["exitCode"] == 1


async def test_an_agent_that_only_closes_its_stdout_is_as_good_as_dead(tmp_path: Path) -> None:
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, Recorder()) as session:
            await session.open(New())
            with pytest.raises(BridgeError) as caught:
                await session.prompt(text("close-stdout\nhang"))
    assert caught.value.code == "agent_died"
    assert "closed its stdout" in caught.value.message


# Asking.


async def test_two_questions_at_once_are_answered_each_by_its_own(tmp_path: Path) -> None:
    second = anyio.Event()

    async def later_first(ask: PermissionAsk) -> Decision:
        if ask.subject.title == "one":
            await second.wait()
            return await allow(ask)
        second.set()
        return Decision((await allow(ask)).effect, None, (await allow(ask)).reason)

    host = Recorder(later_first)
    first, other = tmp_path / "one", tmp_path / "two"
    words = f"bg ask execute one do {first}\nask execute two do {other}"
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host) as session:
            await session.open(New())
            await session.prompt(text(words))
    assert first.exists()
    assert not other.exists()


async def cancelled(session: RuntimeSession, words: str) -> None:
    assert (await session.prompt(text(words))).stop_reason == "cancelled"


async def test_a_cancel_answers_open_questions_first(tmp_path: Path) -> None:
    async def never(ask: PermissionAsk) -> Decision:
        await anyio.sleep_forever()
        raise AssertionError

    host = Recorder(never)
    ran = tmp_path / "ran"
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host) as session:
            await session.open(New())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancelled, session, f"ask execute rm do {ran}\nhang")
                await host.until(lambda: host.asks)
                session.cancel()
    assert not ran.exists()
    *_, answer, cancel = received(tmp_path)
    assert answer["result"] == {"outcome": {"outcome": "cancelled"}}
    assert cancel["method"] == "session/cancel"


@pytest.mark.parametrize(
    "params",
    [
        '"toolCall":{"toolCallId":"a","title":"ls","title":"rm"},"options":[]',
        '"toolCall":{"toolCallId":"a","rawInput":NaN},"options":[]',
        '"toolCall":{"toolCallId":"a","title":"\\ud800"},"options":[]',
        '"toolCall":{"toolCallId":7},"options":[]',
        '"toolCall":{"toolCallId":"a"},"options":{}',
    ],
)
async def test_a_question_that_is_not_clear_is_never_asked(params: str, tmp_path: Path) -> None:
    line = (
        '{"jsonrpc":"2.0","id":"odd","method":"session/request_permission",'
        '"params":{"sessionId":"@SID@",' + params + "}}"
    )
    host = Recorder(allow)
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host) as session:
            await session.open(New())
            await session.prompt(text(f"raw {line}\nask execute ls"))
    assert [ask.subject.title for ask in host.asks] == ["ls"]
    (answer,) = [message for message in received(tmp_path) if message.get("id") == "odd"]
    assert answer["error"]["code"] in (-32600, -32602)
