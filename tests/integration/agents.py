"""Real agents for these tests: a supervisor, and sessions of the scripted fake."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from acpbridge.controller.containment import ShimContainment
from acpbridge.controller.supervisor import Supervisor
from acpbridge.model.agents import AgentDefinition, AgentFacts
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.keys import AgentId
from acpbridge.runtimes.acp import AcpRuntime
from acpbridge.runtimes.base import RuntimeSession, SessionSpec
from fixtures.fake_acp import fake_agent
from tests.unit.runtimes.scenarios import Recorder, spec_fields


@asynccontextmanager
async def supervisor(folder: Path) -> AsyncIterator[Supervisor]:
    async with Supervisor(folder / "journal.json", ShimContainment(), lambda said: said) as parent:
        yield parent


@asynccontextmanager
async def fake_session(
    folder: Path,
    host: Recorder,
    *options: str,
    mode: str | None = None,
    facts: AgentFacts | None = None,
    start_seconds: float = 15.0,
    cold_start_seconds: float = 180.0,
    serves: Mapping[str, Any] | None = None,
    faults: Faults = no_faults,
) -> AsyncIterator[RuntimeSession]:
    """Connect to a fake agent of its own, with its log in the folder; it is not opened yet."""
    argv = fake_agent("--log", str(folder / "log.jsonl"), *options)
    facts = AgentFacts() if facts is None else facts
    definition = AgentDefinition(AgentId("fake"), command=argv, mode=mode, facts=facts)
    definition = replace(definition, **(serves or {}))
    spec = SessionSpec(
        **spec_fields(definition, str(folder)),
        start_seconds=start_seconds,
        cold_start_seconds=cold_start_seconds,
    )
    async with (
        supervisor(folder) as parent,
        AcpRuntime(parent, faults=faults).connect(spec, host) as session,
    ):
        yield session


def received(folder: Path) -> list[dict[str, Any]]:
    """Return the messages that the fake agent has received, in order."""
    records = map(json.loads, (folder / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return [json.loads(record["line"]) for record in records if record["event"] == "line"]
