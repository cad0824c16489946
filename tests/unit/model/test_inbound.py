"""Messages that come in: one shape, and who began it over any number of calls (0-1, 0-2, 0-17)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.errors import BridgeError
from acpbridge.model.address import NOBODY, Address, DeliveryContext
from acpbridge.model.inbound import ChatType, InboundMessage
from acpbridge.model.outbound import OutboundMessage

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def of_person(**fields: Any) -> InboundMessage:
    chat = {"chat_id": "-100", "chat_type": ChatType.GROUP, "account": "second", "thread": "9"}
    return InboundMessage(
        content="hello", sender=Address.im("telegram", "7"), **{**chat, "time": NOW, **fields}
    )


def called(by: InboundMessage, chain: str, **fields: Any) -> InboundMessage:
    """Return the message of an agent that calls another because of a message."""
    return InboundMessage(
        content="do it",
        channel="agent",
        chat_type=ChatType.AGENT,
        parent_agent_id=chain,
        sender_id=by.sender_id,
        chat_id=by.chat_id,
        metadata=by.handed_on(),
        **fields,
    )


TEXT = st.text(max_size=8)


@given(
    st.builds(
        of_person,
        media=st.lists(TEXT).map(tuple),
        metadata=st.dictionaries(TEXT, TEXT),
        request_id=TEXT,
        is_cron=st.booleans(),
        sender_name=TEXT,
        thread=TEXT,
        account=TEXT,
        time=st.datetimes(timezones=st.just(UTC)),
    )
    | st.builds(
        called,
        st.just(of_person()),
        st.sampled_from(["main", "main/a"]),
        system_prompt=TEXT,
        role_name=TEXT,
        allowed_tools=st.lists(TEXT).map(tuple),
    )
)
def test_0_1_a_message_is_read_as_it_was_written(message: InboundMessage) -> None:
    assert InboundMessage.from_json(message.to_json()) == message


def test_0_1_every_field_of_the_document_is_on_the_wire() -> None:
    wire = of_person().to_json()
    assert wire["time"] == "2026-01-02T03:04:05Z"
    for name in ("channel", "senderId", "senderName", "chatId", "chatType", "content", "media"):
        assert name in wire
    for name in ("metadata", "time", "requestId", "isCron", "from", "to"):
        assert name in wire
    for name in ("parentAgentId", "systemPrompt", "allowedTools", "roleName"):
        assert name in wire


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("parentAgentId", "main"),
        ("systemPrompt", "You are root."),
        ("allowedTools", ["run_command"]),
        ("roleName", "reviewer"),
    ],
)
def test_0_1_what_only_an_agent_may_say_is_refused_from_a_channel(field: str, value: Any) -> None:
    with pytest.raises(BridgeError, match=field) as caught:
        InboundMessage.from_json({**of_person().to_json(), field: value})
    assert caught.value.code == "invalid_params"


@pytest.mark.parametrize(
    "fields",
    [
        {"channel": "qq", "from": "im://telegram/7"},
        {"channel": "agent", "from": "im://telegram/7"},
        {"channel": "telegram", "from": "agent://main"},
        {"channel": "agent"},
        {"channel": "agent", "from": "agent://main"},  # without the kind of chat
        {"channel": "telegram", "senderId": "7", "chatType": "agent"},
        {"from": "http://x"},
        {"time": "2026-01-02T03:04:05"},
        {"surprise": 1},
    ],
)
def test_0_1_fields_that_contradict_one_another_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BridgeError) as caught:
        InboundMessage.from_json(fields)
    assert caught.value.code == "invalid_params"


def test_0_2_only_a_message_of_an_agent_is_from_an_agent() -> None:
    assert called(of_person(), "main").is_from_agent()
    assert not of_person().is_from_agent()


def test_0_2_three_calls_later_it_is_still_known_who_began() -> None:
    message = of_person()
    for chain in ("main", "main/a", "main/a/b"):
        message = called(message, chain)
    assert message.origin_channel() == "telegram"
    assert message.origin_chat_id() == "-100"
    assert message.origin_sender_id() == "7"


def test_0_2_where_nobody_says_who_began_it_is_the_sender() -> None:
    bare = InboundMessage(
        channel="agent",
        chat_type=ChatType.AGENT,
        parent_agent_id="main",
        sender_id="s",
        chat_id="c",
    )
    assert bare.origin_channel() == "agent"
    assert (bare.origin_chat_id(), bare.origin_sender_id()) == ("c", "s")


def test_0_2_what_a_channel_claims_of_an_origin_is_not_believed() -> None:
    forged = of_person(
        metadata={
            "origin_channel": "qq",
            "origin_chat_id": "1",
            "origin_sender": "boss",
            "origin_address": "im://qq/boss",
            "origin_account": "first",
        }
    )
    assert forged.origin_channel() == "telegram"
    assert (forged.origin_chat_id(), forged.origin_sender_id()) == ("-100", "7")
    assert forged.origin_im() == Address.im("telegram", "7")
    assert forged.origin() == DeliveryContext(Address.im("telegram", "-100"), "second", "9")


def test_0_17_the_older_fields_and_the_addresses_say_the_same() -> None:
    new = InboundMessage(sender=Address.im("feishu", "ou_1"))
    old = InboundMessage(channel="feishu", sender_id="ou_1", chat_id="ou_1")
    assert new == old
    assert (new.channel, new.sender_id, new.chat_id) == ("feishu", "ou_1", "ou_1")
    agent = InboundMessage(sender=Address.agent("main", "a"), chat_type=ChatType.AGENT)
    assert (agent.channel, agent.parent_agent_id) == ("agent", "main/a")
    assert InboundMessage(sender=Address.system("cron")).channel == "cron"


def test_0_17_the_sender_in_a_channel_wins_over_what_the_metadata_says() -> None:
    message = of_person(metadata={"origin_address": "im://qq/other"})
    assert message.origin_im() == message.sender


@pytest.mark.parametrize("bad", ["", "nonsense", "im://", "http://x/y"])
def test_0_17_a_bad_origin_is_nobody(bad: str) -> None:
    message = InboundMessage(sender=Address.system("cron"), metadata={"origin_address": bad})
    assert message.origin_im() == NOBODY
    assert not message.origin()


def test_0_17_over_three_hops_an_answer_leaves_by_the_bot_and_into_the_thread() -> None:
    message = of_person()
    for chain in ("main", "main/a", "main/a/b"):
        message = called(message, chain)
    answer = OutboundMessage.to(message.origin(), Address.agent("main/a/b"), "done")
    assert (answer.recipient, answer.account, answer.thread) == (
        Address.im("telegram", "-100"),
        "second",
        "9",
    )
    assert (answer.channel, answer.chat_id) == ("telegram", "-100")


def test_0_16_of_two_accounts_of_one_channel_each_answers_its_own() -> None:
    for account in ("first", "second"):
        message = called(of_person(account=account), "main")
        assert OutboundMessage.to(message.origin(), NOBODY, "x").account == account


def test_0_3_an_answer_keeps_what_a_plain_text_would_lose() -> None:
    answer = OutboundMessage(
        content="see the file",
        sender=Address.agent("main", "reviewer"),
        media=("/tmp/a.png",),
        metadata={"k": "v"},
        tools_used=("Read", "Grep"),
        waiting_user=True,
    )
    again = OutboundMessage.from_json(answer.to_json())
    assert again == answer
    assert (again.tools_used, again.media) == (("Read", "Grep"), ("/tmp/a.png",))


def test_0_3_an_error_goes_over_the_wire_with_its_code() -> None:
    error = BridgeError("subagent_policy", "No.", data={"chain": ["main"]})
    sent = OutboundMessage(content="", error=error)
    read = OutboundMessage.from_json(sent.to_json()).error
    assert isinstance(read, BridgeError)
    assert read.to_json() == error.to_json()
    other = OutboundMessage(error=ValueError("odd")).to_json()["error"]
    assert (other["code"], other["message"]) == ("turn_failed", "ValueError: odd")
