"""The command as a whole: what holds for every command, whichever rooms there are."""

from __future__ import annotations

import inspect
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path

import click
import pytest
from support.cli import call_obygaze, run_obygaze

from obygaze import cli
from obygaze.command_table import HEADINGS
from obygaze_features import __version__
from obygaze_features.core.commands import LazyGroup

HEAVY = [
    "numpy",
    "zarr",
    "torch",
    "sklearn",
    "transformers",
    "av",
    "h5py",
    "matplotlib",
    "scipy",
]
HEAVY += ["pandas", "xarray", "obstore", "jinja2", "tqdm"]
Walked = tuple[tuple[str, ...], click.Command, str | None]


def walk(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[Walked]:
    """Every command below a group: its words, itself, and its line in a lazy table."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        line = None
        if isinstance(group, LazyGroup) and name in group.table:
            line = group.summary(name)
        yield (*path, name), command, line
        if isinstance(command, click.Group):
            yield from walk(command, (*path, name))


TREE = list(walk(cli.root))
LEAVES = [entry for entry in TREE if not isinstance(entry[1], click.Group)]


def named(entries: list[Walked]) -> dict[str, object]:
    return {"argvalues": entries, "ids": [" ".join(path) for path, _, _ in entries]}


# ---- every command -----------------------------------------------------------------------------


@pytest.mark.parametrize("path, command, line", **named(TREE))
def test_every_command_explains_itself(path, command, line):
    result = call_obygaze(*path, "--help")
    assert (result.code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"Usage: obygaze {' '.join(path)}")


@pytest.mark.parametrize("path, command, line", **named(TREE))
def test_the_line_in_the_table_is_the_first_line_of_the_help(path, command, line):
    summary = inspect.cleandoc(command.help or "").partition("\n")[0]
    assert summary.endswith("."), (
        f"{' '.join(path)} has no summary that ends with a full stop"
    )
    if line is not None:
        assert summary == line


def test_the_help_of_the_program_lists_each_command_once():
    """A command under no heading has no line in the help."""
    assert [*chain.from_iterable(HEADINGS.values())] == [*cli.root.table]


@pytest.mark.parametrize("path, command, line", **named(LEAVES))
def test_every_example_can_be_parsed(path, command, line):
    examples = [x for x in getattr(command, "examples", "").splitlines() if x.strip()]
    assert examples, f"{' '.join(path)} has no example"
    ours = [example for example in joined(examples) if "obygaze" in example]
    assert any(
        example.startswith(f"obygaze {' '.join(path)}") or "obygaze -" in example
        for example in ours
    )
    for example in ours:
        parse(example)


@pytest.mark.parametrize(("path", "command", "line"), **named(LEAVES))
def test_no_option_of_one_value_may_be_given_twice(path, command, line, capsys):
    for param in command.params:
        is_option = isinstance(param, click.Option) and not param.is_flag
        if not is_option or param.multiple:
            continue
        words = [param.opts[-1], *["1"] * param.nargs]
        assert cli.run_line([*path, *words, *words]) == 2
        assert capsys.readouterr().err == (
            f"Error: {'/'.join(param.opts)} is given twice\n"
            f"  Try: obygaze {' '.join(path)} --help\n"
        )


def test_no_global_option_may_be_given_twice(capsys):
    assert cli.run_line(["-C", "one", "--workspace", "other", "doctor"]) == 2
    assert "Error: -C/--workspace is given twice\n" in capsys.readouterr().err


def joined(lines: list[str]) -> list[str]:
    """Lines of a shell with those that a backslash continues put together."""
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def parse(example: str) -> None:
    """Walk the tree along an example and let each command's own parser read its words."""
    words = shlex.split(example.split("obygaze", 1)[1], comments=True)
    for sign in ("|", ">", "&&", ";", "2>"):
        words = words[: words.index(sign)] if sign in words else words
    command: click.Command = cli.root
    ctx = click.Context(command, **command.context_settings)
    while True:
        _, words, _ = command.make_parser(ctx).parse_args(list(words))
        if not isinstance(command, click.Group) or not words:
            return
        found = command.get_command(ctx, words[0])
        assert found is not None, f"no command {words[0]!r} in: {example}"
        command, words = found, words[1:]
        ctx = click.Context(command, parent=ctx)


def test_no_option_goes_unexplained():
    silent = [
        f"{' '.join(path)} {option.opts[0]}"
        for path, command, _ in TREE
        for option in command.params
        if isinstance(option, click.Option) and not option.help and not option.hidden
    ]
    assert silent == []


# ---- start-up ----------------------------------------------------------------------------------


def test_no_help_imports_what_commands_work_with():
    commands = [[*path, "--help"] for path, _, _ in TREE]
    assert len(commands) > 60
    assert heavy_imports_of([["--help"], ["--version"], [], *commands]) == {}


def test_no_completion_imports_what_commands_work_with():
    program = (
        "import json, sys\n"
        "from click.shell_completion import ShellComplete\n"
        "from obygaze import cli\n"
        "complete = ShellComplete(cli.root, {}, 'obygaze', '_OBYGAZE_COMPLETE')\n"
        f"for path in {[path for path, _, _ in TREE]!r}:\n"
        "    found = complete.get_completions([*path], '--')\n"
        "    assert '--help' in [item.value for item in found], path\n"
        "    complete.get_completions([*path], '')\n"
        f"print(json.dumps(sorted({set(HEAVY)!r} & sys.modules.keys())))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []


def test_a_declared_function_has_the_parameters_of_the_one_that_works():
    declared = [
        command.function
        for _, command, _ in LEAVES
        if "done_in" in vars(command.function)
    ]
    assert len(declared) > 30
    for function in declared:
        work = getattr(import_module(function.done_in), function.__name__)
        of_work = inspect.signature(work).parameters.values()
        parameters = inspect.signature(function).parameters.values()
        assert [(one.name, one.kind, one.default) for one in parameters] == [
            (one.name, one.kind, one.default) for one in of_work
        ], function.__name__


@pytest.mark.parametrize(
    "words",
    [
        ["run", "honest", "--manifest", "nothing", "--store", "x"],
        ["train", "ridge", "x", "nothing"],
        ["models", "predict", "x", "nothing"],
        ["view", "nothing", "--no-browser"],
    ],
)
def test_a_wrong_name_is_said_before_anything_that_fits_is_imported(words, tmp_path):
    found = heavy_imports_of([["-C", str(tmp_path), *words]])
    assert set(found) <= {"numpy", "h5py", "scipy"}


def test_what_reads_finished_runs_imports_nothing_that_fits():
    program = (
        "import sys\nimport obygaze_models.report.comparison, obygaze_models.report.page\n"
        "print(sorted({'sklearn', 'h5py', 'scipy.optimize'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def heavy_imports_of(commands):
    """What commands import of `HEAVY` in one process, with the first that imports it."""
    program = (
        "import json, sys\nfrom obygaze import cli\nfirst = {}\n"
        f"for words in {commands!r}:\n"
        "    cli.run_line(words)\n"
        f"    for name in sys.modules.keys() & {set(HEAVY)!r}:\n"
        "        first.setdefault(name, words)\n"
        "print(json.dumps(first))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_the_console_script_and_the_module_are_one_command():
    script = Path(sys.executable).with_name("obygaze")
    if not script.exists():
        pytest.skip("obygaze is not installed as a script here")
    done = subprocess.run(
        [script, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == run_obygaze("--version").stdout == f"obygaze {__version__}\n"


def test_every_command_without_its_words_says_what_is_missing(tmp_path):
    for path, command, _ in TREE:
        if not any(param.required for param in command.params):
            continue
        done = call_obygaze(*path, cwd=tmp_path)
        assert done.code == 2, (path, done.stderr)
        assert "Missing" in done.stderr and "bug" not in done.stderr, path


def test_no_words_at_all_is_wrong_usage_and_shows_the_help():
    for words in ([], ["store"]):
        result = call_obygaze(*words)
        assert (result.code, result.stdout) == (2, "")
        assert result.stderr.startswith("Usage: obygaze")
        assert "Error" not in result.stderr
