"""Records that an older version wrote."""

import json
from uuid import uuid4

from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.sessions import SessionRecord, SessionState
from acpbridge.store.records import read_session, write_session

NEW = ("openedAt", "formerSessionIds", "settings", "mcpServers")


def test_a_session_that_an_older_version_wrote_is_read() -> None:
    key = SessionKey.acp(AgentId("fake"), uuid4())
    record = SessionRecord(key, SessionState.IDLE, "/", "2026-01-02T03:04:05+00:00")
    fields = json.loads(write_session(record))
    old = {name: value for name, value in fields.items() if name not in NEW}
    assert len(old) == len(fields) - len(NEW)
    assert read_session(json.dumps(old)) == record
