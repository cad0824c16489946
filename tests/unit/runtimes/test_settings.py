"""What is chosen for a child's session is found among the options that its agent offers."""

from typing import Any

import pytest

from acpbridge.controller.chosen import Chosen
from acpbridge.model.agents import AgentFacts
from acpbridge.model.settings import Settings
from acpbridge.runtimes.settings import resolved


def option(name: str, *values: str, category: str = "") -> dict[str, Any]:
    choices = [{"value": value, "name": value.title()} for value in values]
    return {"id": name, "name": name, "type": "select", "category": category, "options": choices}


MODEL = option("model", "small", "big", category="model")


async def unused(method: str, params: Any, limit: float | None = None) -> Any:
    raise AssertionError(method)


def offering(*options: dict[str, Any]) -> Chosen:
    chosen = Chosen(unused, AgentFacts())
    chosen.opened({"sessionId": "s", "configOptions": list(options)})
    return chosen


@pytest.mark.parametrize("name", ["thinking", "effort", "reasoning_effort", "thought_level"])
def test_3_5_thinking_is_set_by_the_name_that_the_agent_has_for_it(name: str) -> None:
    chosen = offering(option("other", "high"), option(name, "low", "high"))
    assert resolved(chosen, Settings(thinking="high")).options == {name: "high"}


def test_3_5_of_several_names_the_first_is_taken_and_of_none_the_first_fails_by_name() -> None:
    both = offering(option("effort", "high"), option("thinking", "high"))
    assert resolved(both, Settings(thinking="high")).options == {"thinking": "high"}
    assert resolved(offering(), Settings(thinking="high")).options == {"thinking": "high"}


def test_an_inherited_choice_that_the_agent_does_not_offer_is_dropped() -> None:
    wish = Settings("big", thinking="high", lenient=True)
    assert resolved(offering(MODEL), wish) == Settings("big", options={})
    assert not resolved(offering(), wish)
    low = offering(option("model", "small", category="model"), option("effort", "low"))
    assert not resolved(low, wish)
    some = resolved(offering(MODEL, option("effort", "high")), wish)
    assert (some.model, some.options) == ("big", {"effort": "high"})


def test_a_choice_that_was_asked_for_is_kept_for_the_agent_to_refuse() -> None:
    asked = resolved(offering(), Settings("big", thinking="high"))
    assert (asked.model, asked.options) == ("big", {"thinking": "high"})
