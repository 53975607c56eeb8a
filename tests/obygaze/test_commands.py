"""What commands refuse, whatever they do: values outside a type, repeated options, other shapes."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from support.advice import OPTION, check_words, options_of
from support.cli import call_obygaze, commands

from obygaze import cli
from obygaze.commands.shared import Command, Group


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "0", "-1", "", "x"])
def test_seconds_are_a_finite_number_above_zero(value: str) -> None:
    done = call_obygaze("extract", "run", "films", "--timeout", value)
    assert done.code == 2
    assert "Error: Invalid value for '--timeout': " in done.stderr
    assert "  Try: obygaze extract run --help" in done.stderr


@pytest.mark.parametrize("value", ["0", "-1", "1e3", "0.1", "nan", "", "x", "99999"])
def test_a_count_is_a_whole_number_of_its_range(value: str) -> None:
    done = call_obygaze("extract", "run", "films", "--workers", value)
    assert done.code == 2
    assert "Error: Invalid value for '--workers': " in done.stderr


def test_a_word_that_is_no_choice_is_refused_with_the_most_similar_one() -> None:
    done = call_obygaze("extract", "run", "films", "--dtype", "float23")
    assert done.stderr.startswith(
        "Error: Invalid value for '--dtype': must be float32, bfloat16 or float16, got"
        " 'float23' (did you mean 'float32'?)\n"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--map", "x"), "--map must be of the form NAME=VALUE, got 'x'"),
        (("--map", "x="), "--map must be of the form NAME=VALUE, got 'x='"),
        (("--map", "x=1", "--map", "x=2"), "--map names 'x' twice"),
    ],
)
def test_words_that_are_no_mapping_are_a_usage_error(
    words: tuple[str, ...], told: str
) -> None:
    done = call_obygaze("manifest", "join", "films", "t.csv", *words)
    assert done.code == 2
    assert done.stderr.splitlines() == [
        f"Error: {told}",
        "  Try: obygaze manifest join --help",
    ]


@pytest.mark.parametrize("word", [",", " , ", ""])
def test_clips_without_an_id_are_refused(word: str) -> None:
    done = call_obygaze("store", "subset", "s", "-o", "t", "--clips", word)
    assert done.code == 2
    assert "must be ids separated by commas, or a file" in done.stderr


def test_a_list_of_clips_that_is_not_there_is_no_id() -> None:
    done = call_obygaze("store", "subset", "s", "-o", "t", "--clips", "none.csv")
    assert (done.code, "Error: no such file" in done.stderr) == (1, True)


def test_a_file_or_folder_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for words, told in (
        (("manifest", "link", "films", "file"), "is a file"),
        (("manifest", "link", "films", "none"), "does not exist"),
        (("audit", "mediaeval", "folder"), "is a directory"),
        (("video", "frames", "f.mkv", "-o", "folder"), "is a directory"),
    ):
        done = call_obygaze(*words, cwd=tmp_path)
        assert (done.code, told in done.stderr) == (2, True), done.stderr


def test_the_workspace_is_not_named_twice(tmp_path: Path) -> None:
    for words in (
        ("-C", ".", "-C", ".", "ls"),
        ("-C", ".", "ls", "-C", "."),
        ("-C", ".", "store", "-C", ".", "info", "s"),
        ("ls", "-C", ".", "-C", "."),
    ):
        done = call_obygaze(*words, cwd=tmp_path)
        assert done.code == 2
        assert "Error: -C/--workspace is given twice\n  Try: obygaze" in done.stderr


def test_an_unknown_command_has_the_similar_ones_beside_it() -> None:
    for words, similar in (("maifest", "manifest"), ("store inf", "info")):
        done = call_obygaze(*words.split())
        assert done.code == 2
        assert f"Did you mean '{similar}'?" in done.stderr, done.stderr


def test_options_that_one_may_not_see_are_only_quiet_and_verbose() -> None:
    def hidden(command: click.Command) -> set[str]:
        found = {
            param.opts[0]
            for param in command.params
            if isinstance(param, click.Option) and param.hidden
        }
        if isinstance(command, click.Group):
            ctx = click.Context(command)
            for name in command.list_commands(ctx):
                inner = command.get_command(ctx, name)
                assert inner is not None
                found |= hidden(inner)
        return found

    assert hidden(cli.root) == {"-q", "-v"}


def test_every_command_is_listed_under_a_heading() -> None:
    ctx = click.Context(cli.root)
    for name in cli.root.list_commands(ctx):
        group = cli.root.get_command(ctx, name)
        if isinstance(group, Group) and group.headings:
            listed = " ".join(group.headings.values()).split()
            assert sorted(listed) == sorted(group.commands), name


def test_a_help_names_commands_and_options_that_exist() -> None:
    n_commands = 0
    names = "|".join(cli.SUMMARIES)
    in_text = re.compile(rf"`(?:obygaze )?((?:{names}) [^`]+)`")
    for words, command in commands(cli.root):
        texts = [command.help or ""]
        texts += [
            param.help or ""
            for param in command.params
            if isinstance(param, click.Argument | click.Option)
        ]
        for text in texts:
            for typed in in_text.findall(" ".join(text.split())):
                n_commands += 1
                check_words(typed)
            own = set(OPTION.findall(re.sub(r"`[^`]*`", "", text)))
            assert own <= options_of(command), (words, own)
    assert n_commands > 15


# ---- how a result is printed -------------------------------------------------------------------


@pytest.fixture
def returns(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Make `obygaze result` print something and return an object."""

    def install(result: object) -> None:
        @click.command(cls=Command)
        def command() -> object:
            print("printed by user code")
            return result

        monkeypatch.setitem(cli.root.commands, "result", command)

    return install


class Plain(SimpleNamespace):
    """A result with further attributes."""

    def to_json(self) -> dict[str, int]:
        return {"n": 1}

    def __str__(self) -> str:
        return "one"


def test_stdout_has_the_result_alone(returns) -> None:
    returns(Plain())
    done = call_obygaze("result")
    assert (done.stdout, done.stderr) == ("one\n", "printed by user code\n")
    document = json.loads(call_obygaze("result", "--json").stdout)
    assert document == {"json_version": 1, "n": 1}
    returns(None)
    assert call_obygaze("result").stdout == ""
    assert json.loads(call_obygaze("result", "--json").stdout) == {"json_version": 1}


def test_warnings_notes_and_details_go_to_stderr(returns) -> None:
    returns(
        Plain(
            warnings=["odd", ("strange", "look")],
            notes=["a note"],
            details=["a detail"],
            without_details="-v has more",
            quiet_text="quiet",
            exit_code=3,
        )
    )
    done = call_obygaze("result")
    assert done.code == 3
    assert done.stderr.splitlines()[1:] == [
        *("Warning: odd", "Warning: strange", "  Try: look"),
        *("a note", "-v has more"),
    ]
    verbose = call_obygaze("result", "-v").stderr
    assert verbose.splitlines()[-2:] == ["a note", "a detail"]
    quiet = call_obygaze("result", "-q")
    assert quiet.stdout == "quiet\n"
    assert "note" not in quiet.stderr and "Warning: odd" in quiet.stderr


def test_an_error_of_an_attribute_is_not_hidden(returns) -> None:
    class Broken(Plain):
        @property
        def notes(self) -> list[str]:
            raise AttributeError("inside")

    returns(Broken())
    done = call_obygaze("result")
    assert (done.code, "AttributeError: inside" in done.stderr) == (1, True)


def test_the_help_of_the_program_has_the_first_line_of_each_command() -> None:
    ctx = click.Context(cli.root)
    for name, line in cli.SUMMARIES.items():
        command = cli.root.get_command(ctx, name)
        assert command is not None and command.help is not None
        assert command.help.partition("\n")[0] == line
