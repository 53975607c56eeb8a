from __future__ import annotations

import sys

import click
import pytest
from click.testing import CliRunner

from obygaze_features.core.commands import (
    LazyGroup,
    Session,
    SessionCommand,
    command,
)
from obygaze_features.core.console import Console
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.workspace import Workspace

MODULE = '''
import click

@click.command()
def hello():
    """Say hello."""
    click.echo("hello")

def wait():
    """Wait for nothing."""

waiting = click.command()(wait)
'''


@pytest.fixture
def lazy(tmp_path, monkeypatch):
    (tmp_path / "lazily_imported.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lazily_imported", raising=False)
    table = {
        "zebra": "lazily_imported:hello",
        "apple": "lazily_imported:waiting",
    }

    @click.group(cls=LazyGroup, table=table)
    def group() -> None:
        """A group."""

    @group.command()
    def eager() -> None:
        """An ordinary command."""

    @group.command(hidden=True)
    def secret() -> None:
        """Nobody sees this."""

    return group


def test_listing_commands_imports_none_and_keeps_the_order_of_the_table(lazy):
    result = CliRunner().invoke(lazy, ["--help"])
    assert result.exit_code == 0
    listed = result.output.partition("Commands:\n")[2]
    assert [line.split(None, 1) for line in listed.splitlines()] == [
        ["zebra", "Say hello."],
        ["apple", "Wait for nothing."],
        ["eager", "An ordinary command."],
    ]
    assert "lazily_imported" not in sys.modules


def test_only_the_command_that_runs_is_imported(lazy):
    result = CliRunner().invoke(lazy, ["zebra"])
    assert result.output == "hello\n"
    assert "lazily_imported" in sys.modules


def test_a_key_of_several_words_is_a_command_of_a_group(tmp_path, monkeypatch):
    text = f"""{MODULE}
from obygaze_features.core.commands import LazyGroup

@click.group(cls=LazyGroup, table={{"first": "nested_groups:hello"}})
def outer():
    'A group.'

@click.group(cls=LazyGroup, table={{}})
def inner():
    'A group in it.'
"""
    (tmp_path / "nested_groups.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    table = {
        "outer": "nested_groups:outer",
        "outer second": "nested_groups:hello",
        "outer inner": "nested_groups:inner",
        "outer inner third": "nested_groups:hello",
    }

    @click.group(cls=LazyGroup, table=table)
    def group() -> None:
        """A group."""

    for words in (["outer", "first"], ["outer", "second"], ["outer", "inner", "third"]):
        assert CliRunner().invoke(group, words).output == "hello\n"
    listed = CliRunner().invoke(group, ["--help"]).output.partition("Commands:\n")[2]
    assert listed.split() == ["outer", "A", "group."]
    listed = CliRunner().invoke(group, ["outer", "--help"]).output
    assert [line.split()[0] for line in listed.splitlines()[-3:]] == [
        "first",
        "second",
        "inner",
    ]


def test_an_unknown_command_is_wrong_usage(lazy):
    result = CliRunner().invoke(lazy, ["zebu"])
    assert result.exit_code == 2
    assert "zebu" in result.output


def test_examples_stand_in_the_help_as_they_were_typed():
    @command(print)
    def ls(session: Session) -> None:
        """List.

        Examples:
            obygaze ls

            obygaze ls --json | python -m json.tool
        """

    help_text = CliRunner().invoke(ls, ["--help"]).output
    assert help_text.endswith(
        "\nExamples:\n  obygaze ls\n\n  obygaze ls --json | python -m json.tool\n"
    )


def test_a_command_without_examples_has_no_empty_block():
    @command(print)
    def ls(session: Session) -> None:
        """List."""

    assert "Examples" not in CliRunner().invoke(ls, ["--help"]).output


def test_the_session_and_the_common_switches_reach_a_command(tmp_path):
    @command(print)
    @click.option("--force", is_flag=True)
    def show(session: Session, force: bool) -> None:
        """Show."""
        session.console.result(
            f"{session.workspace.root} {session.console.as_json} {force}"
        )

    session = Session(Workspace(tmp_path), Console())
    result = CliRunner().invoke(show, ["--json", "--force"], obj=session)
    assert result.output == f"{tmp_path} True True\n"
    assert (
        CliRunner().invoke(show, [], obj=session).output == f"{tmp_path} False False\n"
    )


def test_wrong_words_without_a_hint_lead_to_the_help():
    @click.group()
    @click.pass_context
    def root(ctx):
        ctx.obj = Session(Workspace("."), Console())

    @root.command(cls=SessionCommand)
    @click.argument("hint")
    def cut(session, hint):
        """Fail."""
        raise FixUsage("wrong words", hint=hint or None)

    caught = CliRunner().invoke(root, ["cut", ""], prog_name="obygaze").exception
    assert isinstance(caught, FixUsage) and caught.hint == "obygaze cut --help"
    caught = (
        CliRunner().invoke(root, ["cut", "other words"], prog_name="obygaze").exception
    )
    assert isinstance(caught, FixUsage) and caught.hint == "other words"
