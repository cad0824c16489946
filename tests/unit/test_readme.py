"""What the README shows is what the tests run."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_agent_in_the_readme_is_the_one_that_is_run_both_ways() -> None:
    shown = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    agent = (ROOT / "examples" / "shout.py").read_text(encoding="utf-8")
    assert agent in shown
    code = [line for line in agent.splitlines() if line.strip() and not line.startswith('"""')]
    assert len(code) <= 15


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).is_file(), link


def test_every_configuration_in_the_readme_loads() -> None:
    from acpbridge.config.load import load

    for text in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL):
        if not text.startswith("rules:"):
            assert load(text, "README.md", "/home/someone").agents


def test_every_policy_in_the_readme_loads() -> None:
    from acpbridge.permissions.rules.load import parse

    texts = re.findall(r"```yaml\n(rules:.*?)```", README, re.DOTALL)
    assert [len(parse(text, "README.md", "/home/someone").rules) for text in texts] == [3]
