"""Which agents there are on a machine, which of them runs by default, and where logins are."""

from pathlib import Path

from acpbridge.runtimes.inventory import default_agent


def machine(tmp_path: Path, *programs: str) -> dict[str, str]:
    """Return the environment of a machine with these programs."""
    for name in programs:
        (tmp_path / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    return {"PATH": str(tmp_path), "HOME": str(tmp_path / "home")}


def log_in(tmp_path: Path, name: str) -> None:
    (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "home" / name).touch()


ALL = ("claude-agent-acp", "codex-acp", "gemini", "npx")


def test_with_nothing_installed_the_demo_is_the_default(tmp_path: Path) -> None:
    assert default_agent(machine(tmp_path), "/").id == "demo"
    assert default_agent({}, "/").id == "demo"


def test_what_is_installed_and_not_logged_in_is_not_the_default(tmp_path: Path) -> None:
    assert default_agent(machine(tmp_path, *ALL), "/").id == "demo"


def test_what_would_have_to_be_downloaded_is_not_the_default(tmp_path: Path) -> None:
    env = machine(tmp_path, "npx") | {"OPENAI_API_KEY": "k"}
    assert default_agent(env, "/").id == "demo"


def test_the_first_of_the_catalogue_that_is_installed_and_logged_in_is_the_default(
    tmp_path: Path,
) -> None:
    env = machine(tmp_path, *ALL)
    log_in(tmp_path, ".gemini/oauth_creds.json")
    assert default_agent(env, "/").id == "gemini"
    assert default_agent(env | {"OPENAI_API_KEY": "k"}, "/").id == "codex"
    log_in(tmp_path, ".claude/.credentials.json")
    assert default_agent(env | {"OPENAI_API_KEY": "k"}, "/").id == "claude"
    (tmp_path / "claude-agent-acp").unlink()
    assert default_agent(env, "/").id == "gemini"


def test_a_login_is_found_where_the_agents_own_variable_says(tmp_path: Path) -> None:
    env = machine(tmp_path, *ALL) | {"CODEX_HOME": str(tmp_path / "elsewhere")}
    assert default_agent(env, "/").id == "demo"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "auth.json").touch()
    assert default_agent(env, "/").id == "codex"
