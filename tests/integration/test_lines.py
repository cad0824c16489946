"""Lines, bytes and noise on an agent's stdout: what arrives through daemon and command line."""

import time
from collections.abc import Iterator

import pytest

from acpbridge.model.sessions import LIVE_STATES
from tests.integration.daemon_home import LIMIT, Home, daemon_home, wait_gone
from tests.integration.traffic import Look, log_option, prompt, texts

MIB = 1024 * 1024
START_SECONDS = 2


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("lines")) as made:
        log = log_option(made)
        made.configure(
            {"startSeconds": START_SECONDS},
            plain=log,
            crlf=("--framing", "crlf"),
            windows=("--framing", "bom,crlf,blank", *log),
            banner=("--banner", "Loaded cached credentials."),
            pretty=("--framing", "pretty", *log),
        )
        made.start()
        yield made


def wait_over(home: Home, key: str) -> str:
    """Return a session's state, once it has no process."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        state = str(home.record(key)["state"])
        if state not in LIVE_STATES:
            return state
    raise AssertionError("its process is still there")


SIZES = (65_535, 65_536, 65_537, MIB, 8 * MIB)


def test_case_13_lines_of_every_size_arrive_whole_and_in_order(home: Home) -> None:
    said = texts(prompt(home, "plain", *(f"big {size}" for size in SIZES), "say and on"))
    assert [len(text) for text in said[:-1]] == list(SIZES)
    assert {text.strip("a") for text in said[:-1]} == {""}
    assert said[-1] == "and on"


@pytest.mark.parametrize("size", [65_537, 8 * MIB])
def test_case_13_prompts_of_every_size_reach_the_agent(home: Home, size: int) -> None:
    said = texts(prompt(home, "plain", "say " + "b" * size, "say and on"))
    assert [len(text) for text in said] == [size, 6]


def test_case_15_where_a_message_is_cut_makes_no_difference(home: Home) -> None:
    big = f"big {5 * MIB // 2} é"
    cuts = ("split 1x100", "split -8", "split -1")  # its head, inside the last é, between CR and LF
    whole, *cut = texts(prompt(home, "crlf", big, *(f"{how}\n{big}" for how in cuts)))
    assert whole == "é" * (5 * MIB // 2)
    assert len(cut) == len(cuts)
    assert all(text == whole for text in cut)


def test_case_16_bytes_that_are_no_utf_8_spoil_only_their_line(home: Home) -> None:
    look = Look(home)
    assert texts(prompt(home, "plain", "say one", "garbage utf8", "say two")) == ["one", "two"]
    assert len(look.noise) == 1
    assert look.methods == ["initialize", "session/new", "session/prompt"]


BURST = 10_000
ENOUGH = 30  # log lines, for any number of lines of noise


def test_case_18_noise_before_between_and_after_is_counted_and_never_shown(home: Home) -> None:
    look = Look(home)
    ended = '{"jsonrpc":"2.0","id":@ID@,"result":{"stopReason":"end_turn"}}'
    lines = ["say one", "garbage lines 1 scalar", "say two", f"garbage lines {BURST}", "say three"]
    lines += ["no-answer", f"raw {ended}", "garbage lines 3"]
    done = home.run("run", "--agent", "banner", "-", stdin="\n".join(lines))
    assert (done.code, done.out) == (0, "onetwothree\n"), done
    assert "noise" not in done.err
    assert "Loaded" not in done.err
    counts = [line["count"] for line in look.noise]
    assert counts[-1] > BURST / 2
    assert len(counts) < ENOUGH


def test_case_19_a_mark_crlf_and_blank_lines_do_no_harm(home: Home) -> None:
    look = Look(home)
    assert texts(prompt(home, "windows", "say é", "say two")) == ["é", "two"]
    assert look.agent("sent")[0]["bytes"].startswith("\u00ef\u00bb\u00bf")
    assert all(sent["bytes"].endswith("\r\n") for sent in look.agent("sent"))
    assert look.noise == []


def test_case_23_a_last_line_without_its_end_counts(home: Home) -> None:
    words = ("run", "--agent", "plain", "--mode", "session", "--format", "json")
    done = home.run(*words, "say bye\nunterminated 0")
    assert texts(done) == ["bye"]
    key = done.events[-1]["key"]
    assert wait_over(home, key) == "died"
    assert key not in [row["key"] for row in home.status()["sessions"]]


def test_case_23_half_a_line_at_the_end_is_a_death(home: Home) -> None:
    look = Look(home)
    half = b'{"jsonrpc":"2.0","id":2,"result":{"stop'.hex()
    done = prompt(home, "plain", "say bye", f"raw-hex {half}", "crash 0")
    assert done.code == 6
    assert done.events[-1]["error"]["code"] == "agent_died"
    assert "Traceback" not in done.err + look.daemon


def test_case_24_json_over_many_lines_fails_with_the_first_of_them(home: Home) -> None:
    look = Look(home)
    done = home.run("run", "--agent", "pretty", "say never")
    assert done.code == 6
    assert "error (start_" in done.err
    assert "the first time '{'" in done.err
    assert "whole on one line" in done.err
    assert 0 < len(look.noise) < ENOUGH
    assert wait_gone([look.agent("start")[0]["pid"]]) == []
