"""The built-in denies: by name, wherever it is, whether or not it exists, in any case."""

import pytest

from acpbridge.permissions.rules.builtin import protected
from acpbridge.permissions.rules.rulebook import ASK_EVERYTHING
from acpbridge.permissions.verdict import Ruling, Verdict
from tests.unit.permissions.rules.asking import ROOT, facts, verdict

PATHS = {
    "builtin:git": [
        ".git", ".git/hooks", ".git/hooks/pre-commit", ".git/config", ".git/config.worktree",
        ".git/modules/x/hooks/y", ".git/worktrees/x/config.worktree", ".git/commondir",
        "sub/.git/config", "bare.git/hooks/x", "bare.git/config", ".gitconfig",
        ".config/git/config",
    ],
    "builtin:agent_settings": [
        ".claude", ".claude/settings.json", ".claude/new/deep", ".codex/config.toml", ".gemini/x",
        ".cursor/mcp.json", ".mcp.json", ".claude.json", "sub/.mcp.json", ".qwen/x",
        "opencode.json",
    ],
    "builtin:editor_settings": [".vscode/tasks.json", ".idea/x", ".zed/x", ".devcontainer/x"],
    "builtin:shell_startup": [".bashrc", ".zshrc", ".profile", ".bash_profile", ".zshenv"],
    "builtin:credentials": [".ssh/authorized_keys", ".aws/credentials", ".gnupg/x", ".netrc"],
    "builtin:autostart": [".config/systemd/user/x.service", ".config/autostart/x.desktop"],
    "builtin:acpbridge": [".config/acpbridge/policy.yaml", ".local/state/acpbridge/audit.jsonl"],
}  # fmt: skip
EACH = [(name, path) for name, paths in PATHS.items() for path in paths]


@pytest.mark.parametrize(("name", "path"), EACH)
def test_a_protected_path_is_written_by_nobody(name: str, path: str) -> None:
    allow = "- {effect: allow, tool_kind: [edit, delete, move], path: '**'}"
    for kind in ("edit", "delete", "move", "other", None):
        for spelled in (f"{ROOT}/{path}", path, f"/home/ann/{path}", path.upper()):
            assert verdict(allow, kind, {"path": spelled}) == Verdict(Ruling.DENY, name)


def test_the_directories_of_cron_are_protected_too() -> None:
    for path in ("/var/spool/cron/ann", "/etc/cron.d/x", "/etc/crontab", "/etc/profile.d/x.sh"):
        assert protected(path) == "builtin:autostart"


def test_cve_2025_59944_case_form_and_invisible_marks_open_no_way() -> None:
    for path in (
        ".Cursor/mcp.json",
        ".GIT/Hooks/x",
        ".g\u200cit/config",
        ".\u212anown/../.ss\u0048/x",
    ):
        edit = facts("edit", {"path": f"{ROOT}/{path}"})
        assert ASK_EVERYTHING.judge(edit).effect is Ruling.DENY


def test_what_only_looks_alike_is_not_protected() -> None:
    for path in (".github/x", ".gitignore", "git/hooks/x", "claude/x", "src/.claude.md", "hooks/x",
                 ".bashrc.md", ".sshx/y", ".git/refs/heads/x"):  # fmt: skip
        assert protected(f"{ROOT}/{path}") == ""


def test_cve_2026_25725_a_symlink_and_a_climb_lead_to_no_protected_path() -> None:
    links = {f"{ROOT}/docs": f"{ROOT}/.git/hooks", f"{ROOT}/x": "/home/ann"}
    for path in ("docs/a", "x/.ssh/id", "src/../.git/hooks/a", "docs/../config"):
        allow = "- {effect: allow, tool_kind: [edit], path: '**'}"
        assert verdict(allow, "edit", {"path": path}, links=links).effect is Ruling.DENY


def test_a_lenient_tool_is_led_to_no_protected_path() -> None:
    for path in (
        f"{ROOT}/.git/config:12",
        f"{ROOT}/.git/config:12:3",
        ".git\\hooks\\x",
        "~/.ssh/x",
    ):
        assert ASK_EVERYTHING.judge(facts("edit", {"path": path})).effect is Ruling.DENY


def test_reading_and_looking_are_not_the_business_of_these() -> None:
    for kind in ("read", "search", "think"):
        assert (
            ASK_EVERYTHING.judge(facts(kind, {"path": f"{ROOT}/.git/config"})).effect is Ruling.ASK
        )


def test_directories_of_this_acpbridge_are_written_by_nobody_nor_moved_away() -> None:
    book = ASK_EVERYTHING.guarding("/opt/bridge", "/etc/Bridge/policy.yaml")
    for path in ("/opt/bridge", "/opt/bridge/x/y", "/etc/bridge/policy.yaml"):
        assert book.judge(facts("edit", {"path": path})).rule == "builtin:acpbridge"
    for kind in ("delete", "move"):
        assert book.judge(facts(kind, {"path": "/opt"})).rule == "builtin:acpbridge"
    for path in ("/opt", "/opt/bridges", "/etc/bridge"):
        assert book.judge(facts("edit", {"path": path})).effect is Ruling.ASK


def test_the_directory_of_a_session_is_not_moved_away_from_under_its_rules() -> None:
    for kind in ("delete", "move"):
        for path in (ROOT, "/srv", f"{ROOT}/.", "/SRV/APP"):
            found = ASK_EVERYTHING.judge(facts(kind, {"path": path}))
            assert found == Verdict(Ruling.DENY, "builtin:session_root")
        assert ASK_EVERYTHING.judge(facts(kind, {"path": f"{ROOT}/x"})).effect is Ruling.ASK
    assert ASK_EVERYTHING.judge(facts("other", {"path": ROOT})).effect is Ruling.ASK
