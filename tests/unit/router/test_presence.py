"""Who looks at which session: a person's clients count, and only as long as they are there."""

from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.router.presence import Presence

KEY, OTHER = SessionKey.main(AgentId("mine")), SessionKey.main(AgentId("other"))


def person(name: str) -> Requester:
    return Requester(Role.OPERATOR, client_id=name)


def test_a_session_is_attended_as_long_as_a_person_looks_at_it() -> None:
    presence = Presence()
    assert not presence.attended(KEY)
    presence.attend(str(KEY), person("c1"))
    presence.attend("", person("c2"))
    assert presence.attended(KEY)
    assert presence.attended(OTHER)
    presence.leave("c2")
    assert presence.attended(KEY)
    assert not presence.attended(OTHER)
    presence.leave("c1")
    presence.leave("never there")
    assert not presence.attended(KEY)


def test_who_follows_a_session_is_asked_for_all_below_it() -> None:
    presence = Presence()
    presence.attend(str(KEY), person("c1"))
    assert presence.attended(OTHER, (SessionKey.main(AgentId("between")), KEY))
    assert not presence.attended(OTHER, ())


def test_an_agent_cannot_keep_a_person_from_being_called() -> None:
    presence = Presence()
    presence.attend("", Requester(Role.AGENT, KEY, client_id="c1"))
    presence.attend("", Requester(Role.OPERATOR))
    assert not presence.attended(KEY)
