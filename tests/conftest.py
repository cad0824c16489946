"""The order of the tests, and the profiles of the property tests.

`dev` is for a desk, `ci` thorough and the same every time.
"""

import os

import pytest
from hypothesis import settings

# A worker takes whole files, so those that take longest come first, by what was measured; the rest
# of what starts processes follows, and what does not fills the gaps at the end.
LONGEST = (
    *("test_care", "test_cli", "test_one_daemon", "test_choices", "test_doctor", "test_keeping"),
    *("test_starts_and_logins", "test_chaos", "test_service", "test_first_day", "test_embed"),
    *("test_python_agents", "test_asking", "test_errors", "test_deaths", "test_isolation"),
    *("test_life", "test_lineage", "test_no_room", "test_cli_json", "test_kill_cases"),
    *("test_terminal_run", "test_death", "test_containment", "test_child"),
)
_RANK = {name: rank for rank, name in enumerate(LONGEST)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put whole files in order; the order within a file stays."""
    items.sort(key=lambda item: (_RANK.get(item.path.stem, len(_RANK)), "unit" in item.path.parts))


settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=500, deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))
