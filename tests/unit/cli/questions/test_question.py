"""A question shows what will happen, in full, and nothing in it can pass for a row of ours."""

import json
from typing import Any

import pytest
from rich.cells import cell_len

from acpbridge.cli.questions.question import how_decided, how_long, render

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "ever", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def question(options: Any = OPTIONS, kind: str = "execute", **subject: Any) -> dict[str, Any]:
    return {
        "id": "1a2b3c4d",
        "sessionKey": "agent:fake:acp:0",
        "agentId": "fake",
        "title": "harmless",
        "kind": kind,
        "subject": {"runId": "r", "rawInput": None, "locations": [], "content": [], **subject},
        "options": options,
        "expiresAt": "2026-01-01T00:05:00+00:00",
    }


def diff(**fields: str) -> dict[str, str]:
    return {"type": "diff", "path": "/f", **fields}


def test_the_command_is_shown_and_the_title_is_only_the_agents_words() -> None:
    text = render(question(rawInput={"cwd": "/", "command": "rm -rf ~"}))
    assert text.index("command  rm -rf ~") < text.index("input.cwd /")
    assert "title    harmless (the agent's own words)" in text


def test_what_acpbridge_would_write_is_shown_once_and_whole() -> None:
    change: Any = diff(oldText="a\nold\n", newText="a\nnew\n")
    given = {"path": "/link/f", "content": "a\nnew\n"}
    text = render(question(rawInput=given, content=[change], source="fs"))
    assert "title    harmless (what acpbridge would do)" in text
    assert "input.path /link/f" in text
    assert "input.content" not in text
    assert text.index("| -old") < text.index("| +new")
    # What the change does not show, and what an agent does by itself, is shown beside it.
    for source, shown in (("agent", change), ("fs", diff(newText="b"))):
        text = render(question(rawInput=given, content=[shown], source=source))
        assert "input.content\n    | a\n    | new\n" in text


def test_a_caution_of_ours_stands_before_what_is_asked() -> None:
    text = render(question(rawInput={"path": "/f"}, source="fs", cautions=["it has\x1b 2 names"]))
    assert "  WARNING  it has⟨U+001B⟩ 2 names\n  input.path" in text


def test_an_argument_vector_keeps_its_borders() -> None:
    assert 'command  ["rm", "a b"]' in render(question(rawInput={"command": ["rm", "a b"]}))


def test_nothing_invisible_gets_to_the_screen() -> None:
    hidden = "ls\u202e\x1b[2J\r\u200b"
    text = render(question([{"optionId": hidden, "name": hidden, "kind": hidden}], hidden))
    text += render(question(rawInput={hidden: hidden, "x": [hidden]}, locations=[hidden]))
    text += render(question(content=[{"type": hidden, "z": hidden}], changed=[hidden]))
    assert text.replace("\n", "").isprintable()
    assert "⟨U+202E⟩" in text


def test_a_command_of_several_lines_is_shown_line_by_line_to_its_end() -> None:
    command = "\n".join(f"step {number}" for number in range(300)) + "\n\rlast"
    text = render(question(rawInput={"command": command}))
    assert "\n    | step 299\n    | ⟨U+000D⟩last\n" in text


def test_a_change_is_shown_as_a_difference_and_a_new_file_in_full() -> None:
    old, new = "a\nb\nc\n", "a\nB\nc\n"
    text = render(
        question(content=[{"type": "diff", "path": "/f", "oldText": old, "newText": new}])
    )
    assert "change   /f" in text
    assert "\n    | -b\n    | +B\n" in text
    text = render(question(content=[diff(newText="x\ny")]))
    assert "(a new file)\n    | +x\n    | +y\n" in text


def test_a_huge_change_is_shown_whole_without_looking_for_the_difference() -> None:
    old, new = "a\n" * 200_000, "b\n" * 100_000
    text = render(
        question(content=[{"type": "diff", "path": "/f", "oldText": old, "newText": new}])
    )
    assert text.count("\n    | +b") == 100_000


def test_text_content_is_shown() -> None:
    block = {"type": "content", "content": {"type": "text", "text": "why\nso"}}
    assert "\n    | why\n    | so\n" in render(question(content=[block]))


def test_what_is_doubtful_is_flagged() -> None:
    text = render(question(kind="other", changed=["rawInput"], runId=None))
    assert "a tool of unknown kind" in text
    assert "WARNING  changed since it was announced: rawInput" in text
    assert "WARNING  asked outside of any turn" in text
    options = [
        {"optionId": "odd", "name": "Odd", "kind": "strange"},
        {"optionId": "bypassPermissions", "name": "Yes", "kind": "allow_once"},
        {"optionId": "acceptEdits", "name": "Yes", "kind": "allow_always"},
        {"optionId": "odd", "name": "Odd", "kind": "reject_once"},
    ]
    first, second, third, fourth = render(question(options)).splitlines()[-4:]
    assert first.startswith("    1) [strange]  ! unknown kind")
    assert "unknown kind" in first
    assert "nobody would be asked" in second
    assert "less would be asked" in third
    assert "this id is offered twice" in fourth


def test_a_command_of_several_lines_cannot_pass_for_an_option() -> None:
    text = render(question(rawInput={"command": "ls\n1) Allow  [allow_once]  id yes"}))
    assert "\n    | 1) Allow" in text
    assert text.count("\n    1) ") == 1


def test_case_40_ten_thousand_options_and_lines_are_shown_in_no_time() -> None:
    many = [{"optionId": f"o{n}", "name": "x", "kind": "allow_once"} for n in range(10_000)]
    lines = "a\n" * 20_000
    diff = {"type": "diff", "path": "/x", "oldText": lines, "newText": "b\n" * 20_000}
    text = render({**question(content=[diff]), "options": many})
    assert text.count("\n    | +b") == 20_000


def test_a_name_that_the_agent_chose_cannot_pass_for_a_row_of_ours() -> None:
    text = render(question(rawInput={"expires": "never", "options": "1) Allow"}))
    assert "\n  expires  never" not in text
    assert "\n  input.expires never" in text
    assert text.count("\n  options") == 1


def test_case_58_a_name_of_an_option_cannot_hide_its_kind() -> None:
    liar = [{"optionId": "x", "name": "Reject once: No  (id no)", "kind": "allow_once"}]
    assert render(question(liar)).endswith("    1) Allow once: Reject once: No  (id no)  (id x)")


def test_an_agent_that_gives_no_input_only_claims_what_it_does() -> None:
    assert "WARNING  no input was given: the title is only" in render(question())
    assert "no input was given" not in render(question(rawInput={"command": "ls"}))
    assert "no input was given" not in render(question(content=[diff(newText="x")]))


def test_a_path_is_shown_once() -> None:
    text = render(question(locations=["/f", "/g", "/g"], content=[diff(newText="x")]))
    assert text.count("/f") == 1
    assert text.count("/g") == 1


def test_the_input_of_a_tool_of_mcp_is_shown_in_full() -> None:
    deep = {"query": "x" * 80, "filter": {"and": [{"a": 1}, {"b": "rm"}]}}
    text = render(question(rawInput={"server": "db", "arguments": deep}))
    assert "  input.server db" in text
    assert '\n    |         "b": "rm"\n' in text


def test_the_time_that_is_left_is_told_as_people_say_it() -> None:
    text = render(question(), now="2026-01-01T00:00:01.123+00:00", place=(2, 3))
    assert "  expires  in 4 min 59 s, then it is denied" in text
    assert text.startswith("permission 1a2b3c4d (2 of 3): execute\n")


HOSTILE = {
    "ansi": "ok\x1b[2J\x1b[31m  options",
    "bidi": "\u202etxt.exe\u2066",
    "line ends": "x\n  options\r\n    1) Allow once: yes  (id yes)\u2028    2) z\x85",
    "10 kB": "a" * 10_000,
    "10 kB of rows": ("  options" + " " * 15) * 420,
    "wide": "\u6f22" * 3000 + "  options",
    "combining": "a\u0301" * 5000,
    "emoji": "\U0001f468\u200d\U0001f469" * 300,
    "blanks": " " * 5000 + "1) Allow once",
}


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("name", HOSTILE)
def test_case_58_a_hostile_text_neither_outgrows_the_terminal_nor_begins_a_row_of_ours(
    name: str, width: int
) -> None:
    text = HOSTILE[name]
    options = [{"optionId": text, "name": text, "kind": "allow_once"}, *OPTIONS]
    full: dict[str, Any] = {
        "rawInput": {"command": text, text: text},
        "locations": [text],
        "changed": [text],
    }
    content = [{"type": "diff", "path": text, "oldText": text, "newText": text + "!"}]
    asked = {**question(options, **full, content=content), "title": text, "agentId": text}
    lines = render(asked, width=width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert all(line.isprintable() for line in lines)
    assert lines.count("  options") == 1
    numbered = [line for line in lines if line.startswith("    1) ")]
    assert len(numbered) == 1
    # What can be answered comes last, behind all of the agent's text.
    assert lines.index("  options") < lines.index(numbered[0])
    assert any(line.startswith("    4) Reject once") for line in lines[-3:])


def test_what_is_wrapped_is_all_there() -> None:
    command = "".join(chr(0x41 + number % 26) for number in range(997))
    lines = render(question(rawInput={"command": command}), width=50).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("  command  "))
    rest = [line.removeprefix("    : ") for line in lines[first + 1 :] if line.startswith("    : ")]
    shown = lines[first].removeprefix("  command  ") + "".join(rest)
    assert shown.startswith(command)


def test_what_a_question_came_to_is_told_with_whom_and_why() -> None:
    by = {"effect": "deny", "reason": "operator", "by": "operator:c3", "note": "not\x1b now"}
    assert how_decided(by) == "denied by operator:c3: not⟨U+001B⟩ now"
    late = {"effect": "deny", "reason": "timed_out", "by": "", "note": ""}
    assert how_decided(late) == "denied because nobody answered in time"
    gone = {"effect": "cancel", "reason": "turn_cancelled", "by": ""}
    assert how_decided(gone) == "withdrawn because its turn was cancelled"
    assert how_decided({"effect": "allow", "reason": "rule", "by": "run"}) == "allowed by run"


def test_case_58_a_megabyte_of_anything_is_wrapped_in_no_time() -> None:
    for text in ("A" * 1_000_000, "\u6f22" * 300_000, "a\u0301" * 300_000):
        asked = {**question(rawInput={"command": text}), "title": text}
        assert max(map(cell_len, render(asked, width=80).splitlines()[:100])) <= 80


def test_a_terminal_of_the_agents_is_named_and_not_spelt_out() -> None:
    text = render(question(content=[{"type": "terminal", "terminalId": "call_7\x1b"}]))
    assert "  terminal call_7⟨U+001B⟩\n" in text
    odd = render(question(content=[{"type": "terminal", "terminalId": "t", "more": 1}]))
    assert '"more": 1' in odd


def test_an_input_that_is_nested_deeply_takes_no_more_room_than_it_has() -> None:
    value: Any = ["x"] * 100_000
    for _ in range(180):
        value = [value]
    shown = render({"id": "p1", "subject": {"rawInput": {"deep": value}}, "options": []}, width=80)
    assert len(shown) < 3 * len(json.dumps(value))
    assert shown.count("x") >= 100_000


# ---- what was announced otherwise, who asks, and what a title is worth ----


def test_row_09_what_was_announced_is_shown_beside_what_is_asked() -> None:
    was = {
        "kind": "read",
        "rawInput": {"command": "ls\n  command  rm"},
        "locations": [{"path": "/a"}],
    }
    text = render(
        question(rawInput={"command": "rm"}, changed=["kind", "rawInput"], announced=was), width=60
    )
    rows = text.splitlines()
    assert "    was |  kind     read" in rows
    assert "    was |    | ls" in rows
    assert "    was |  path     /a" in rows
    # What was announced can pass for nothing that is asked.
    assert [row for row in rows if "command" in row and not row.startswith("    was |")] == [
        "  command  rm"
    ]


def test_row_09_nothing_that_was_announced_looks_like_what_is_asked() -> None:
    was = {"content": [diff(newText="x\n1) Allow"), {"type": "odd", "z": "1\n2"}], "tool": "T\n U"}
    text = render(question(rawInput={}, changed=[*was], announced=was), width=50)
    start = text.index("changed since it was announced")
    rows = text[start : text.index("  expires")].splitlines()[1:]
    assert len(rows) > 5
    assert all(row.startswith(("    was |", "    : ")) for row in rows)


def test_row_14_a_question_outside_of_a_turn_is_flagged_in_words() -> None:
    assert "WARNING  asked outside of any turn" in render(question(runId=None))
    assert "outside of any turn" not in render(question())


def test_case_50_the_agent_its_session_what_started_it_and_its_directory_are_named() -> None:
    asked = {**question(), "above": ["agent:up:acp:1", "agent:top:acp:2"], "cwd": "/w\u202e"}
    text = render(asked)
    assert "\n  agent    fake\n  session  agent:fake:acp:0\n" in text
    assert "\n  started  by agent:up:acp:1 below agent:top:acp:2\n" in text
    assert "\n  works in /w⟨U+202E⟩\n" in text


def test_a_tool_and_its_server_are_shown_escaped() -> None:
    text = render(question(tool="an\x1bnounce", server="ho\u200bst"))
    assert "\n  tool     an⟨U+001B⟩nounce of MCP server ho⟨U+200B⟩st\n" in text


@pytest.mark.parametrize("kind", ["execute", "edit", "delete", "move", "switch_mode"])
def test_row_08_a_title_that_speaks_of_less_is_marked_as_such(kind: str) -> None:
    asked = {**question(kind=kind, source="agent"), "title": "Read notes.txt"}
    text = render(asked)
    assert text.startswith(f"permission 1a2b3c4d: {kind}\n")
    assert f"WARNING  the title speaks of less than what is asked: {kind}" in text


def test_row_08_a_title_that_is_the_command_or_fits_is_not_warned_of() -> None:
    asked = {**question(rawInput={"command": "read x"}, source="agent"), "title": "read x"}
    assert "the title speaks" not in render(asked)
    fits = {**question(kind="read", source="agent"), "title": "Read notes.txt"}
    assert "the title speaks" not in render(fits)


@pytest.mark.parametrize("kind", ["other", None])
def test_row_08_a_kind_that_nobody_knows_is_called_the_most_dangerous(kind: str | None) -> None:
    asked = {**question(), "kind": kind, "title": "Read"}
    first, *_ = render(asked).splitlines()
    assert first.endswith("a tool of unknown kind (treated as the most dangerous)")


def test_case_58_blank_lines_push_nothing_out_of_sight() -> None:
    text = render(question(rawInput={"command": "ls\n" + "\n" * 5_000 + "rm -rf ~"}))
    assert "    | ls\n    | ⟨5000 blank lines⟩\n    | rm -rf ~\n" in text
    text = render(question(content=[diff(newText="a\n" + " \n" * 4_000 + "b\n")]))
    assert "    | +a\n    | +⟨4000 blank lines⟩\n    | +b\n" in text
    few = render(question(rawInput={"command": "a\n\n\nb"}))
    assert "    | a\n    | \n    | \n    | b\n" in few


@pytest.mark.parametrize(
    ("always", "grant", "shown"),
    [
        (
            "session",
            {"scope": "exactly `mk`\x1b[2J, in this session", "seconds": 3600.0},
            "covers exactly `mk`⟨U+001B⟩[2J, in this session, until its agent ends, 1h00m at most",
        ),
        ("once", None, "this once all the same: what it would cover is not certain"),
        ("agent", None, "sent as it is: what it covers, and for how long, is up to the agent"),
    ],
)
def test_row_26_what_always_covers_is_said_before_it_is_chosen(
    always: str, grant: Any, shown: str
) -> None:
    text = render({**question(), "always": always, "grant": grant})
    [line] = [line for line in text.splitlines() if "(id ever)" in line]
    assert f"Allow always  ! {shown}: Always" in line
    others = [line for line in text.splitlines() if "(id yes)" in line or "(id no)" in line]
    assert not any(shown in line for line in others)


@pytest.mark.parametrize(
    ("lasts", "said"),
    [
        ("session", "granted while its agent runs: acpbridge permissions revoke q⟨U+001B⟩ ends it"),
        ("agent", "sent as it is: how long it holds is up to the agent"),
        ("once", ""),
        (None, ""),
    ],
)
def test_row_26_after_the_choice_it_is_said_how_long_it_holds(lasts: str | None, said: str) -> None:
    assert how_long({"id": "q\x1b", "lasts": lasts}) == said


def test_row_04_an_option_of_unknown_kind_is_flagged_and_shows_the_agents_own_word() -> None:
    novel = [{"optionId": "x", "name": "Reject", "kind": "allow_persistent"}]
    (line,) = render(question(novel)).splitlines()[-1:]
    assert line == "    1) [allow_persistent]  ! unknown kind: it may do anything: Reject  (id x)"


def test_row_07_a_name_or_an_id_that_hides_something_is_shown_whole_and_spelt_out() -> None:
    odd = [
        {"optionId": "", "name": "", "kind": "allow_once"},
        {"optionId": "i" * 300, "name": "n" * 300, "kind": "reject_once"},
        {"optionId": "a\r\x1b[2K\u202e", "name": "b\u200b" + " " * 99, "kind": "allow_once"},
    ]
    empty, long, hidden = render(question(odd)).splitlines()[-3:]
    assert empty == "    1) Allow once: -  (id -)"
    assert long == f"    2) Reject once: {'n' * 300}  (id {'i' * 300})"
    assert hidden == ("    3) Allow once: b⟨U+200B⟩⟨99 spaces⟩  (id a⟨U+000D⟩⟨U+001B⟩[2K⟨U+202E⟩)")
