"""The command as a whole: what holds for every command, whichever rooms there are."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.cli import run_obygaze

from obygaze import cli
from obygaze_features import __version__

HEAVY = ["numpy", "zarr", "torch", "sklearn", "transformers", "av", "h5py", "scipy"]
HEAVY += ["matplotlib", "pandas", "xarray", "obstore", "jinja2", "tqdm"]
Walked = tuple[tuple[str, ...], click.Command]


def walk(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[Walked]:
    """Every command below a group: its words, and itself."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None, name
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from walk(command, (*path, name))


TREE = list(walk(cli.root))
LEAVES = [entry for entry in TREE if not isinstance(entry[1], click.Group)]


# ---- every command -----------------------------------------------------------------------------


def test_every_example_can_be_parsed():
    for path, command in LEAVES:
        examples = getattr(command, "examples", "").splitlines()
        ours = [example for example in joined(examples) if "obygaze" in example]
        assert any(
            example.strip().startswith(f"obygaze {' '.join(path)}")
            or "obygaze -" in example
            for example in ours
        ), path
        for example in ours:
            parse(example)


def test_no_option_of_one_value_may_be_given_twice(capsys):
    for words in (
        ["store", "info", "s", "-o", "a", "-o", "b"],
        ["run", *["-o", "a"] * 2],
    ):
        assert cli.run_line(words) == 2
        said = capsys.readouterr().err
        assert " is given twice\n  Try: obygaze " in said, words


def test_the_workspace_may_be_named_anywhere_on_the_line(capsys, tmp_path):
    said = []
    for words in (
        ["-C", str(tmp_path), "store", "info", "nothing"],
        ["store", "-C", str(tmp_path), "info", "nothing"],
        ["store", "info", "nothing", "-C", str(tmp_path)],
        ["store", "info", "--workspace", str(tmp_path), "nothing"],
    ):
        assert cli.run_line(words) == 1
        said.append(capsys.readouterr().err)
    assert str(tmp_path / "stores" / "nothing") in said[0]
    assert len(set(said)) == 1
    assert cli.run_line(["ls", "-C", str(tmp_path / "absent")]) == 1
    assert "no such workspace" in capsys.readouterr().err


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
        for path, command in TREE
        for option in command.params
        if isinstance(option, click.Option) and not option.help and not option.hidden
    ]
    assert silent == []


# ---- start-up ----------------------------------------------------------------------------------


def test_no_help_imports_what_commands_work_with():
    commands = [[*path, "--help"] for path, _ in TREE]
    assert len(commands) > 60
    assert heavy_imports_of([["--help"], ["--version"], [], *commands]) == {}


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
