"""The policy on disk: what is in force, what keeps the daemon from starting, what is kept of it."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from acpbridge.daemon import textfile, trust
from acpbridge.daemon.paths import Paths, find
from acpbridge.daemon.policyfile import PolicyFile
from acpbridge.errors import BridgeError
from acpbridge.model.permission import ToolKind
from acpbridge.permissions.rules.facts import Facts, PathFact
from acpbridge.permissions.verdict import NO_MATCH, Ruling, Verdict

ALLOW = "rules:\n  - effect: allow\n    tool_kind: [read]\n"
DENY = "  - effect: deny\n    tool_kind: [execute]\n"
BROKEN = "rules:\n  - effect: allow\n    tool_kinds: [read]\n"
READ, RUN = Facts("main", kind=ToolKind.READ), Facts("main", kind=ToolKind.EXECUTE)
OTHER_USER = 65534

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "config").mkdir(mode=0o700)
    (tmp_path / "state").mkdir(mode=0o700)
    return Paths(tmp_path / "state", tmp_path / "config" / "config.yaml")


def write(paths: Paths, text: str) -> None:
    """Write as an editor does: a new file in the place of the old one."""
    part = paths.policy.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.chmod(0o600)
    part.replace(paths.policy)


def refused(paths: Paths) -> BridgeError:
    with pytest.raises(BridgeError) as caught:
        PolicyFile.first(paths)
    assert caught.value.code == "config_error"
    assert caught.value.kind.exit == 2
    assert caught.value.hint
    return caught.value


def edits(path: str) -> Facts:
    return Facts("main", kind=ToolKind.EDIT, paths=(PathFact(path, path),))


def test_the_policy_lies_beside_the_configuration(tmp_path: Path) -> None:
    chosen = find(str(tmp_path), {})
    assert chosen.policy == chosen.home / "policy.yaml"
    xdg = find(None, {"HOME": "/home/me", "XDG_CONFIG_HOME": "/etc/me"})
    assert xdg.policy == Path("/etc/me/acpbridge/policy.yaml")
    assert Paths(tmp_path, Path("/elsewhere/mine.yaml")).policy == Path("/elsewhere/policy.yaml")


def test_row_29_without_a_file_everything_is_asked_but_what_is_built_in(paths: Paths) -> None:
    file = PolicyFile.first(paths)
    assert file.missing
    assert file.in_force.book.judge(READ) == NO_MATCH
    assert not file.in_force.broken
    assert file.warning == ""
    assert file.to_json() == {
        "path": str(paths.policy),
        "sha256": None,
        "rules": 0,
        "problem": None,
    }
    assert file.again() is file


def test_a_changed_file_is_in_force_at_once(paths: Paths) -> None:
    file = PolicyFile.first(paths)
    write(paths, ALLOW)
    file = file.again()
    assert file.in_force.book.judge(READ) == Verdict(Ruling.ALLOW, "policy:1")
    assert file.again() is file
    write(paths, ALLOW + DENY)
    assert file.again().in_force.book.judge(RUN) == Verdict(Ruling.DENY, "policy:2")
    assert file.again().rules == 2
    assert len(str(file.again().to_json()["sha256"])) == 64


def test_row_30_a_broken_file_prevents_the_start_and_names_line_and_key(paths: Paths) -> None:
    write(paths, BROKEN)
    error = refused(paths)
    assert error.data == {"file": str(paths.policy), "line": 3, "key": "rules.0.toolKinds"}
    assert f"{paths.policy}, line 3: rules.0.toolKinds" in error.message


def test_row_30_a_broken_reload_asks_everything_and_keeps_what_was_denied(paths: Paths) -> None:
    write(paths, ALLOW + DENY)
    good = PolicyFile.first(paths)
    write(paths, BROKEN)
    file = good.again()
    for _ in range(2):  # nor does a second broken one lose anything
        assert file.in_force.broken
        assert file.in_force.book.judge(READ) == NO_MATCH
        assert file.in_force.book.judge(RUN) == Verdict(Ruling.DENY, "policy:2")
        assert file.rules == 1
        assert "rules.0.toolKinds" in file.problem
        assert "everything is asked" in file.warning
        assert file.to_json()["sha256"] == good.to_json()["sha256"]
        assert file.again() is file
        write(paths, "#\n" + BROKEN)
        file = file.again()
    write(paths, ALLOW)
    file = file.again()
    assert (file.problem, file.warning, file.in_force.broken) == ("", "", False)
    assert file.in_force.book.judge(READ).effect is Ruling.ALLOW
    assert file.in_force.book.judge(RUN) == NO_MATCH


def test_row_30_whoever_removes_the_file_is_not_rid_of_what_it_denied(paths: Paths) -> None:
    write(paths, ALLOW + DENY)
    file = PolicyFile.first(paths)
    paths.policy.unlink()
    file = file.again()
    assert file.in_force.broken
    assert f"{paths.policy} is gone" in file.problem
    assert file.in_force.book.judge(RUN).effect is Ruling.DENY
    assert file.in_force.book.judge(READ) == NO_MATCH
    write(paths, ALLOW + DENY)
    assert not file.again().in_force.broken
    # A daemon that starts anew does without.
    paths.policy.unlink()
    assert not PolicyFile.first(paths).in_force.broken


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o660, 0o666])
def test_row_30_a_file_that_others_may_write_is_refused(paths: Paths, mode: int) -> None:
    write(paths, ALLOW)
    file = PolicyFile.first(paths)
    paths.policy.chmod(mode)
    error = refused(paths)
    assert "can be written by other users" in error.message
    assert "chmod 600" in error.hint
    # Nothing but the mode has changed, and it is noticed at once.
    assert file.again().in_force.broken
    paths.policy.chmod(0o644)  # to be read is no harm
    assert not file.again().again().in_force.broken
    assert PolicyFile.first(paths).rules == 1


@pytest.mark.parametrize("mode", [0o770, 0o707])
@pytest.mark.parametrize("which", ["config", "."])
def test_row_30_a_file_that_others_may_replace_is_refused(
    paths: Paths, mode: int, which: str
) -> None:
    write(paths, ALLOW)
    file = PolicyFile.first(paths)
    directory = (paths.config.parent.parent / which).resolve()
    directory.chmod(mode)
    error = refused(paths)
    assert f"{directory}, where policy.yaml lies, can be written by other users" in error.message
    assert file.again().in_force.broken
    directory.chmod(mode | 0o1000)  # with the sticky bit nobody can rename what is another's
    assert PolicyFile.first(paths).rules == 1
    directory.chmod(0o700)
    assert not file.again().again().in_force.broken


def test_a_directory_that_others_may_write_is_no_harm_without_a_policy(paths: Paths) -> None:
    paths.config.parent.chmod(0o777)
    assert PolicyFile.first(paths).missing
    paths.config.parent.rmdir()
    assert PolicyFile.first(paths).missing


@as_root
def test_row_30_a_file_of_another_owner_is_refused(paths: Paths) -> None:
    write(paths, ALLOW)
    file = PolicyFile.first(paths)
    os.chown(paths.policy, OTHER_USER, OTHER_USER)
    assert "belongs to another user" in refused(paths).message
    assert file.again().in_force.broken


@as_root
def test_row_30_a_file_in_a_directory_of_another_owner_is_refused(paths: Paths) -> None:
    write(paths, ALLOW)
    os.chown(paths.config.parent, OTHER_USER, OTHER_USER)
    assert "belongs to another user" in refused(paths).message


@as_root
def test_row_30_a_user_who_is_not_root_is_held_to_the_same() -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # to be passed through, which those of pytest are not
        roots, mine = (Paths(Path("/none"), Path(folder, name, "c.yaml")) for name in "ab")
        for paths in (roots, mine):
            paths.policy.parent.mkdir(mode=0o755)
            write(paths, ALLOW)
            paths.policy.chmod(0o644)
        os.chown(mine.policy.parent, OTHER_USER, OTHER_USER)
        os.chown(mine.policy, OTHER_USER, OTHER_USER)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setuid(OTHER_USER)
                assert "belongs to another user" in refused(roots).message
                assert PolicyFile.first(mine).rules == 1
                mine.policy.chmod(0)
                assert "cannot be read" in refused(mine).message
                mine.policy.chmod(0o600)
                mine.policy.parent.chmod(0)
                assert "cannot be looked at" in refused(mine).message
                mine.policy.parent.chmod(0o700)
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_link_to_a_file_that_can_be_trusted_is_followed(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir(mode=0o700)
    real = tmp_path / "dotfiles" / "rules.yaml"
    real.write_text(ALLOW, encoding="utf-8")
    real.chmod(0o600)
    (tmp_path / "link").symlink_to("dotfiles/rules.yaml")
    paths.policy.symlink_to("../link")
    file = PolicyFile.first(paths)
    assert file.rules == 1
    real.write_text(ALLOW + DENY, encoding="utf-8")
    assert file.again().rules == 2


def loosen_file(target: Path) -> None:
    target.chmod(0o666)


def loosen_directory(target: Path) -> None:
    target.parent.chmod(0o777)


def remove(target: Path) -> None:
    target.unlink()


def lead_back(target: Path) -> None:
    target.unlink()
    target.symlink_to(target)


@pytest.mark.parametrize("spoil", [loosen_file, loosen_directory, remove, lead_back])
def test_row_30_a_link_to_what_cannot_be_trusted_is_refused(
    paths: Paths, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    (tmp_path / "dotfiles").mkdir(mode=0o700)
    target = tmp_path / "dotfiles" / "policy.yaml"
    target.write_text(ALLOW, encoding="utf-8")
    target.chmod(0o600)
    paths.policy.symlink_to(target)
    file = PolicyFile.first(paths)
    spoil(target)
    message = refused(paths).message
    assert str(target.parent) in message or "leads nowhere" in message
    assert file.again().in_force.broken


def test_row_30_a_file_that_is_swapped_after_the_look_is_refused(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(paths, ALLOW)
    look = trust.doubt

    def swapped(path: Path) -> trust.Doubt | None:
        found = look(path)
        path.chmod(0o666)
        return found

    monkeypatch.setattr(trust, "doubt", swapped)
    assert "can be written by other users" in refused(paths).message


def test_row_30_an_empty_file_is_no_policy_without_rules(paths: Paths) -> None:
    write(paths, "rules: []")
    file = PolicyFile.first(paths)
    write(paths, " \n")
    assert f"{paths.policy} is empty" in refused(paths).message
    assert file.again().in_force.broken


def test_row_30_a_file_is_read_once_it_is_written_whole(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of it would be a policy too, of fewer rules."""
    write(paths, ALLOW + DENY)
    file = PolicyFile.first(paths)
    pieces = [ALLOW, DENY]
    paths.policy.write_text("", encoding="utf-8")
    read = textfile.read

    def write_on(_: float = 0) -> None:
        if pieces:
            with paths.policy.open("a", encoding="utf-8") as writer:
                writer.write(pieces.pop(0))

    def while_it_is_read(path: Path, check: Callable[[os.stat_result], None]) -> str | None:
        text = read(path, check)
        write_on()
        return text

    monkeypatch.setattr(
        "acpbridge.daemon.policyfile.time.sleep", lambda _: write_on() if pieces[1:] else None
    )
    monkeypatch.setattr(textfile, "read", while_it_is_read)
    file = file.again()
    assert not pieces
    assert (file.rules, file.problem) == (2, "")


def test_row_30_a_file_that_never_settles_is_broken(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(paths, ALLOW + DENY)
    file = PolicyFile.first(paths)

    def write_on(_: float) -> None:
        with paths.policy.open("a", encoding="utf-8") as writer:
            writer.write("#\n")

    monkeypatch.setattr("acpbridge.daemon.policyfile.time.sleep", write_on)
    write_on(0)
    file = file.again()
    assert "is being written all the time" in file.problem
    assert file.in_force.book.judge(RUN).effect is Ruling.DENY


@as_root
def test_row_30_a_link_that_another_user_made_is_refused(paths: Paths) -> None:
    write(paths, ALLOW)
    real = paths.policy.rename(paths.policy.with_name("real.yaml"))
    paths.policy.symlink_to(real)
    os.chown(paths.policy, OTHER_USER, OTHER_USER, follow_symlinks=False)
    assert "is a link of another user" in refused(paths).message


def test_row_30_what_is_not_a_file_is_refused_and_holds_nobody_up(paths: Paths) -> None:
    os.mkfifo(paths.policy, 0o600)
    assert "is not a file" in refused(paths).message
    paths.policy.unlink()
    paths.policy.mkdir(mode=0o700)
    assert "is not a file" in refused(paths).message


def test_row_30_a_huge_file_and_one_that_is_no_text_are_refused(paths: Paths) -> None:
    paths.policy.touch(0o600)
    paths.policy.write_bytes(b"#" * (textfile.TEXT_LIMIT + 1))
    assert f"over {textfile.TEXT_LIMIT} bytes" in refused(paths).message
    paths.policy.write_bytes(b"rules: []\n# r\xe9sum\n")
    assert "line 2: not UTF-8" in refused(paths).message


def test_no_agent_edits_what_decides_about_it_by_any_of_its_names(
    paths: Paths, tmp_path: Path
) -> None:
    (tmp_path / "dotfiles").mkdir(mode=0o700)
    real = tmp_path / "dotfiles" / "rules.yaml"
    real.write_text("rules: [{effect: allow, tool_kind: [edit]}]", encoding="utf-8")
    real.chmod(0o600)
    paths.policy.symlink_to(real)
    for file in (PolicyFile.first(paths), PolicyFile.first(Paths(paths.home, tmp_path / "c.yaml"))):
        book = file.in_force.book
        for path in (file.paths.config, file.paths.policy, file.paths.home / "audit.jsonl"):
            assert book.judge(edits(str(path))).effect is Ruling.DENY, path
    book = PolicyFile.first(paths).in_force.book
    assert book.judge(edits(str(real))).effect is Ruling.DENY
    # What lies beside it is nobody's secret: a configuration may be anywhere.
    assert book.judge(edits(str(paths.config.with_name("notes")))).effect is Ruling.ALLOW
