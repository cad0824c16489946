"""A question shows what will happen, and a line is read as what was shown and nothing else."""

from typing import Any

from acpbridge.cli.question import Answer, parse, render, ways

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
    assert "unknown kind" in first
    assert "nobody would be asked" in second
    assert "less would be asked" in third
    assert "this id is offered twice" in fourth


def test_numbers_ids_and_two_letters_are_answers() -> None:
    asked = question()
    assert parse("y\n", asked) == parse(" YES ", asked) == Answer(effect="allow")
    assert parse("n", asked) == parse("no", asked) == Answer(effect="deny")
    assert parse("1", asked) == Answer(option_id="yes")
    assert parse("2", asked) == parse("ever", asked) == Answer(option_id="ever")
    assert parse("3", asked) == Answer(option_id="no")
    assert ways(asked) == "answer [1-3, y = allow once, n = deny]: "


def test_anything_else_is_no_answer() -> None:
    for line in ("", "0", "4", "-1", "1.0", "\u0661", "maybe", "Ever", "1 2"):
        assert parse(line, question()) is None
    assert parse("1", question([])) is None
    assert parse("1", question("nonsense")) is None


def test_a_number_means_the_line_that_shows_it_whatever_the_ids_are() -> None:
    crossed = [
        {"optionId": "2", "name": "A", "kind": "allow_once"},
        {"optionId": "1", "name": "B", "kind": "reject_once"},
    ]
    assert parse("1", question(crossed)) == Answer(option_id="2")
    assert parse("2", question(crossed)) == Answer(option_id="1")


def test_an_id_that_is_offered_twice_cannot_be_chosen_by_its_name() -> None:
    twice = [{"optionId": "a", "name": "A", "kind": kind} for kind in ("allow_once", "reject_once")]
    assert parse("a", question(twice)) is None


def test_unknown_kinds_and_modes_must_be_confirmed_and_rejections_never() -> None:
    odd = question([{"optionId": "odd", "name": "Odd", "kind": "strange"}])
    mode = question([{"optionId": "acceptEdits", "name": "Yes", "kind": "allow_once"}])
    for asked in (odd, mode, question(kind="switch_mode")):
        answer = parse("1", asked)
        assert answer is not None
        assert answer.confirm
    switch = parse("y", question(kind="switch_mode"))
    assert switch is not None
    assert switch.confirm
    reject = parse("3", question(kind="switch_mode"))
    assert reject == Answer(option_id="no")


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
