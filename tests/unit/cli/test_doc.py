"""docs/cli.md names every command and every option that there is, and no other."""

from collections.abc import Iterator

import click
import pytest

from acpbridge.cli.root import COMMANDS, commands
from acpbridge.errors import TABLE
from tests import cli_doc


def leaves() -> Iterator[tuple[str, click.Command]]:
    """Return every command, and every one below a group, with its whole name."""
    waiting = [(name, commands.get_command(click.Context(commands), name)) for name in COMMANDS]
    while waiting:
        name, command = waiting.pop()
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            waiting += [(f"{name} {below}", inner) for below, inner in command.commands.items()]


ALL = dict(leaves())

# As a terminal has it, and as the library lays out by itself.
WIDTH = 80


def help_of(name: str) -> str:
    above = click.Context(commands, info_name="acpbridge", terminal_width=WIDTH)
    return ALL[name].get_help(click.Context(ALL[name], above, info_name=name))


def test_the_document_has_a_section_for_each_command_and_for_nothing_else() -> None:
    assert set(cli_doc.sections()) - {""} == set(ALL)


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_section_names_the_options_that_there_are(name: str) -> None:
    section = cli_doc.sections()[name]
    options = [p for p in ALL[name].params if isinstance(p, click.Option) and not p.hidden]
    for option in options:
        assert set(option.opts) & section.options, f"{name}: {option.opts} is not documented"
    real = {word for option in options for word in (*option.opts, *option.secondary_opts)}
    common = {word for p in commands.params for word in p.opts} | {"--help", "-h"}
    assert section.options <= real | common, section.options - real - common


def test_each_document_that_a_command_prints_has_a_table_or_a_word_that_says_where_it_is() -> None:
    told = set(cli_doc.tables())
    for name, command in ALL.items():
        if any("--json" in option.opts for option in command.params):
            text = cli_doc.sections()[name].text
            there = ("](#events)", "](#objects)", "is the same as `acpbridge ")
            assert f"{name} --json" in told or any(word in text for word in there), name


def test_the_document_has_each_code_of_an_error_with_its_exit_status() -> None:
    assert cli_doc.codes() == {code: kind.exit for code, kind in TABLE.items()}


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_command_has_help_with_an_example(name: str) -> None:
    command = ALL[name]
    assert command.help
    assert "acpbridge " in (command.epilog or ""), f"{name} has no example"
    for option in command.params:
        assert not isinstance(option, click.Option) or option.help, f"{name}: {option.opts}"


@pytest.mark.parametrize("name", sorted(ALL))
def test_help_fits_a_terminal_and_is_cut_nowhere(name: str) -> None:
    lines = help_of(name).splitlines()
    assert max(map(len, lines)) <= WIDTH
    # How the library ends what it has cut: the line of a command in a group's list.
    assert not [line for line in lines if line.endswith("...") and not line.startswith("Usage")]
