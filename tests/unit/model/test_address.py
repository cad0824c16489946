"""Addresses: what can be written can be read, and nothing else can be made (0-16)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.errors import BridgeError
from acpbridge.model.address import NOBODY, Address, DeliveryContext

WORDS = st.text(min_size=1).filter(lambda text: "/" not in text)
ADDRESSES = st.one_of(
    st.builds(Address.im, WORDS, st.text()),
    st.builds(Address.agent, WORDS, WORDS, WORDS),
    st.builds(Address.agent, WORDS),
    st.builds(Address.system, WORDS),
)


@given(ADDRESSES)
def test_0_16_an_address_is_read_as_it_was_written(address: Address) -> None:
    assert Address.parse(str(address)) == address


@given(st.text() | st.builds("{}://{}".format, st.sampled_from(["im", "agent"]), st.text()))
def test_0_16_what_can_be_read_is_written_the_same(text: str) -> None:
    try:
        address = Address.parse(text)
    except BridgeError:
        return  # and nothing else is raised
    assert str(address) == text


def test_0_16_a_call_chain_has_its_first_name_as_domain_and_the_rest_as_id() -> None:
    deep = Address.parse("agent://main/a/b")
    assert (deep.domain, deep.id, deep.path()) == ("main", "a/b", "main/a/b")
    assert deep == Address.agent("main", "a", "b") == Address.agent("main/a/b")
    assert (Address.agent("main").path(), Address.im("qq", "1").path()) == ("main", "")


@pytest.mark.parametrize(
    ("address", "kind", "channel"),
    [
        (Address.im("feishu", "ou_1"), "im", "feishu"),
        (Address.agent("main"), "agent", ""),
        (Address.system("cron"), "system", ""),
        (NOBODY, "", ""),
    ],
)
def test_0_16_each_address_is_of_one_kind_and_only_an_im_has_a_channel(
    address: Address, kind: str, channel: str
) -> None:
    kinds = {"im": address.is_im, "agent": address.is_agent, "system": address.is_system}
    assert [name for name, is_it in kinds.items() if is_it] == ([kind] if kind else [])
    assert address.channel() == channel
    assert bool(address) is bool(kind)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "scheme://domain/id"),
        ("main", "scheme://domain/id"),
        ("://main", "scheme://domain/id"),
        ("http://a/b", "im, agent, system"),
        ("im://", "domain"),
        ("im:///7", "domain"),
        ("agent://main/", "last slash"),
        ("agent://main//b", "empty"),
        ("system://cron/7", "no id"),
    ],
)
def test_0_16_a_text_that_is_no_address_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(BridgeError, match=why) as caught:
        Address.parse(text)
    assert caught.value.code == "invalid_params"
    assert "im://CHANNEL/ID" in caught.value.hint


def test_0_16_no_address_can_be_made_that_could_not_be_read() -> None:
    with pytest.raises(BridgeError, match="slash"):
        Address("im", "a/b", "c")
    with pytest.raises(BridgeError, match="scheme"):
        Address("", "main")


def test_0_16_account_and_thread_stand_beside_the_address() -> None:
    where = DeliveryContext(Address.im("telegram", "7"), account="second", thread="9")
    assert DeliveryContext.from_json(where.to_json()) == where
    assert where.to_json() == {"address": "im://telegram/7", "account": "second", "thread": "9"}
    assert not DeliveryContext.from_json(DeliveryContext().to_json())
