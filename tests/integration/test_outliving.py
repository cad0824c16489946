"""What a turn started and left running is told of, as long as it runs."""

from pathlib import Path

from tests.integration.daemon_home import Home, daemon_home, until, wait_gone


def warnings(home: Home) -> list[str]:
    return [w for w in home.status()["warnings"] if "what one started still does" in w]


def test_a_process_that_outlives_its_turn_has_a_warning_until_it_is_gone_g7(
    tmp_path: Path,
) -> None:
    """G7. Without `view.outliving`: `assert len([]) == 1` fails."""
    with daemon_home(tmp_path) as home:
        # What the agent started before its first prompt is the agent's own.
        home.configure(fake=("--children", "plain"))
        first = home.run("run", "say hello", "--agent", "fake", "--mode", "session")
        assert first.code == 0, first
        key = str(home.session()["key"])
        own = {p["pid"] for p in home.session()["processes"]}
        assert len(own) == 3
        assert warnings(home) == []
        # While a turn runs its processes are at work.
        done = home.run("run", "children plain setsid\nhang", "--session", key, "--detach")
        assert done.code == 0, done
        until(lambda: len(home.session()["processes"]) == len(own) + 2)
        assert warnings(home) == []
        cancelled = home.run("cancel", key)
        left = {p["pid"] for p in home.session()["processes"]} - own
        # The cancel says so itself; without `left_running` it says nothing.
        assert cancelled.code == 0
        assert f"{key} started still runs: " in cancelled.err
        assert all(str(pid) in cancelled.err for pid in left)
        assert f"kill {key}" in cancelled.err
        assert set(home.run("cancel", key, "--json").json["left"]) == left
        (warning,) = warnings(home)
        assert warning.startswith(f"{key}: ")
        assert all(f"({pid})" in warning for pid in left)
        assert not any(f"({pid})" in warning for pid in own)
        assert f"acpbridge kill {key}" in home.run("status").out
        assert home.run("kill", key, "--now").code == 0
        assert wait_gone(sorted(left | own)) == []
        assert warnings(home) == []
