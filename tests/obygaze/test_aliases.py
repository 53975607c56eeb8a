"""Other names of commands, options and arguments, and errors that carry the line that works."""

from __future__ import annotations

import shlex
import shutil

import click
import numpy as np
import pytest
from support.cli import call_obygaze

from obygaze import cli
from obygaze_features.core import aliases
from obygaze_features.core.commands import LazyGroup, SessionCommand

TABLE = """\
clip_id,movie_id,level,concepts
a-1,a,EN,
a-2,a,S,Look|Body
b-1,b,HN,Clothing
b-2,b,S,Look
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    root = tmp_path_factory.mktemp("aliases")
    (root / "clips.csv").write_text(TABLE)
    rows = np.arange(32, dtype=np.float32).reshape(4, 8)
    ids = ["a-1", "a-2", "b-1", "b-2"]
    np.savez(root / "features.npz", clip_id=ids, X=rows)
    csv = root / "clips.csv"
    call_obygaze("-C", root, "manifest", "import", "csv", csv, "-o", "films").ok()
    npz = ["store", "import", "npz", root / "features.npz", "--array", "clip=X"]
    call_obygaze(
        "-C", root, *npz, "--manifest", "films", "-o", "mine", "--licence", "CC0-1.0"
    ).ok()
    return root


@pytest.fixture
def inside(workspace, tmp_path, monkeypatch):
    """Work in a copy of the workspace."""
    copy = tmp_path / "copy"
    shutil.copytree(workspace, copy)
    monkeypatch.chdir(copy)
    return copy


# What a person types, and the line of the help that it stands for.
SAME = [
    ("manifest list", "manifest ls"),
    ("manifests ls", "manifest ls"),
    ("manifest info films", "manifest show films"),
    ("manifest validate films", "manifest check films"),
    ("store show mine", "store info mine"),
    ("store check mine", "store verify mine"),
    ("store history mine", "store log mine"),
    ("store license mine", "store licence mine"),
    ("store compare mine mine", "store diff mine mine"),
    ("model list", "models ls"),
    ("backbone info descriptors", "backbones show descriptors"),
    ("stats films", "manifest stats films"),
    ("verify mine", "store verify mine"),
    ("store mine", "store info mine"),
    ("manifest films", "manifest show films"),
    ("manifest help link", "manifest link --help"),
    ("help store", "store --help"),
    ("help", "--help"),
    ("version", "--version"),
    ("manifest show films --movie a", "manifest show films --film a"),
    ("manifest show --manifest films", "manifest show films"),
    (
        "manifest import clips.csv --name own --license CC0-1.0",
        "manifest import csv clips.csv -o own --licence CC0-1.0",
    ),
    ("store subset mine --films a --out part", "store subset mine --film a -o part"),
    ("store export mine -o out.csv", "store export csv mine out.csv"),
    ("store export mine csv out.csv", "store export csv mine out.csv"),
    ("store export mine --format csv --out out.csv", "store export csv mine out.csv"),
    ("store export mine out.h5", "store export hdf5 mine out.h5"),
    ("store export h5 mine out.h5", "store export hdf5 mine out.h5"),
    (
        "store import features.npz --array clip=X --manifest films -o new",
        "store import npz features.npz --array clip=X --manifest films -o new",
    ),
    ("manifest export films -o out.csv", "manifest export csv films -o out.csv"),
    ("search --store mine --similar a-1", "search mine --like a-1"),
]


@pytest.mark.parametrize("typed, meant", SAME)
def test_other_names_do_the_same(
    inside, workspace, tmp_path, monkeypatch, typed, meant
):
    answer = call_obygaze(*typed.split())
    second = tmp_path / "second"
    shutil.copytree(workspace, second)
    monkeypatch.chdir(second)
    expected = call_obygaze(*meant.split()).ok()
    assert (answer.code, answer.stdout, answer.stderr) == (
        expected.code,
        expected.stdout,
        expected.stderr,
    )
    written = sorted(p.relative_to(inside) for p in inside.rglob("*"))
    assert written == sorted(p.relative_to(second) for p in second.rglob("*"))


def test_names_in_another_order_are_read_if_each_can_be_only_one(inside):
    shutil.copytree("stores/mine", "stores/other")
    answer = call_obygaze("train", "other", "films", "ridge", "-o", "m")
    assert answer.stderr.startswith("read as obygaze train ridge other films")
    assert (inside / "models/m").is_dir()
    # `films` may be a store too: the line is read as it stands.
    shutil.copytree("stores/mine", "stores/films")
    refused = call_obygaze("train", "ridge", "other", "other")
    assert refused.code == 1
    assert "no manifest called 'other'" in refused.stderr


@pytest.mark.parametrize(
    "typed, message, line",
    [
        ("store rm mine", "no command 'rm'", "delete the folder: rm -r stores/mine"),
        ("store delete mine", "no command 'delete'", "rm -r stores/mine"),
        ("ls", "no command 'ls'", "obygaze manifest ls, or obygaze backbones ls"),
        (
            "extract run films descriptors",
            "unexpected argument: descriptors",
            "obygaze extract run films -b descriptors\n",
        ),
        (
            "search mine a-1",
            "unexpected argument: a-1",
            "obygaze search mine --like a-1\n",
        ),
        ("extract run films --gpu", "no option '--gpu'", "--device cuda in its place"),
        (
            "extract run films -b descriptors --dry-run",
            "no option '--dry-run'",
            "obygaze extract plan films -b descriptors\n",
        ),
        (
            "train mine films",
            "missing argument MANIFEST",
            "obygaze train ridge mine films; obygaze train --help",
        ),
        (
            "models predict",
            "missing argument MODEL",
            "obygaze models predict films-pcbm mine; obygaze models predict --help",
        ),
        (
            "store export csv",
            "missing argument STORE",
            "obygaze store export hdf5 obygaze12-xclip xclip.h5 --compress; ",
        ),
        (
            "store subset mine --film a",
            "missing option --output",
            "obygaze store subset mine --film a -o NAME\n",
        ),
        (
            "manifest import . -o new",
            "no command '.'",
            "obygaze manifest import folder . -o new, for a folder of films",
        ),
        (
            "store import mine.zip -o new",
            "{pth|hdf5|npz|npy|csv|parquet} must be",
            "obygaze store unpack mine.zip -o new\n",
        ),
        (
            "manifest show films --where level == S",
            "unexpected arguments: == S",
            "quotes around an expression: --where 'level == S'",
        ),
        (
            "extract films -b descriptors",
            "no command 'films'",
            "obygaze extract run films -b descriptors\n",
        ),
        ("run honest --folds 3", "no option '--folds'", "--set splits.folds=5"),
    ],
)
def test_the_first_error_has_the_line_that_works(inside, typed, message, line):
    answer = call_obygaze(*typed.split())
    assert answer.code == 2
    error, hint = answer.stderr.splitlines()
    assert error.startswith(f"Error: {message}")
    assert line in f"{hint}\n"


def groups(group: LazyGroup, words: tuple[str, ...] = ()):
    """Each group of the program, with its words and the names of its commands."""
    ctx = click.Context(group)
    names = group.list_commands(ctx)
    yield " ".join(words), names
    for name in names:
        below = group.get_command(ctx, name)
        if isinstance(below, LazyGroup):
            yield from groups(below, (*words, name))


def commands(group: LazyGroup):
    """Each command of the program that takes options."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, LazyGroup):
            yield from commands(command)
        elif isinstance(command, SessionCommand):
            yield command


def test_every_other_name_stands_for_something():
    names_of_groups = dict(groups(cli.root))
    for typed in aliases.COMMANDS:
        meant = {aliases.command_named(typed, n) for n in names_of_groups.values()}
        assert meant - {None}, f"{typed} stands for no command"
    for words, endings in aliases.FILES.items():
        assert {*endings.values()} <= {*names_of_groups[words]}
    for group, typed in aliases.INSTEAD:
        assert typed not in names_of_groups[group], f"{group} {typed} is a command"
    for names in (*aliases.OPTIONS, *aliases.SWITCHES):
        flags = {f for c in commands(cli.root) for p in c.params for f in p.opts}
        flags |= {f"--{f}" for f in flags}
        assert flags & {*names}, f"no command takes one of {names}"


def test_no_other_name_is_in_the_help(inside):
    answer = call_obygaze("manifest", "show", "--help")
    assert "--film " in answer.stdout
    assert "--movie" not in answer.stdout
    assert (
        "list " not in call_obygaze("models", "--help").stdout.partition("Commands")[2]
    )


def test_an_option_that_is_given_under_two_names_is_refused(inside):
    answer = call_obygaze(*shlex.split("manifest show films --film a --movie b"))
    assert answer.code == 2
    assert "takes one value, and is given 2 times" in answer.stderr
