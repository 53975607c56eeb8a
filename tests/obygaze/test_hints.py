"""What an error tells a person to do is what cures it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import numpy as np
import pytest
from support.advice import COMMAND, OPTION, check_words, options_of
from support.cli import ROOT, call_obygaze, commands
from support.experiments import films, planted, write_workspace

from obygaze.cli import root
from obygaze_features.core.errors import ObygazeError
from obygaze_features.store import open_store
from obygaze_models.runner.datasets import dataset


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hints")
    manifest = films(3, 4)
    write_workspace(root, manifest, planted(manifest, width=20), store="ours")
    rng = np.random.default_rng(0)
    np.savez(
        root / "features.npz",
        clip_id=np.array(manifest.clip_ids),
        clip=rng.normal(size=(12, 4)).astype(np.float32),
        frames=rng.normal(size=(12, 3, 4)).astype(np.float32),
    )
    arrays = "--array clip=clip --array frames=frames --manifest made-up"
    for name, backbone in (("theirs", "other-model"), ("mine", "my-model")):
        words = f"store import features.npz -o {name} --backbone {backbone} {arrays}"
        call_obygaze(*words.split(), cwd=root).ok()
    (root / "untimed.csv").write_text("clip_id,movie_id,level\na,tt1,S\nb,tt1,EN\n")
    words = "manifest import untimed.csv -o untimed"
    call_obygaze(*words.split(), cwd=root).ok()
    (root / "unlabelled.csv").write_text("clip_id,movie_id,start_s,end_s\na,tt1,0,9\n")
    words = "manifest import unlabelled.csv -o unlabelled"
    call_obygaze(*words.split(), cwd=root).ok()
    (root / "videos").mkdir()
    return root


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "store merge mine theirs -o both",
            [
                "have different recipes: backbone differ",
                "backbone: my-model here, other-model there",
                "Try: only stores of one recipe are merged",
            ],
        ),
        ("manifest folds made-up -k 50", ["cannot make 50 folds", "from 2 to 3 folds"]),
        (
            "search mine --array clip --like tt0000001-0001",
            ["obygaze store info STORE --clips"],
        ),
        ("video probe videos", ["this is a folder", "choose one of the files in it"]),
        (
            "manifest export untimed out --as vtt",
            ["nothing to export: 2 clips without times"],
        ),
        (
            "manifest export unlabelled out --as vtt",
            ["no clip has a level or a concept", "Try: --predictions TABLE"],
        ),
        ("run honest --set nonsense", ["a change must be section.key=value"]),
    ],
)
def test_the_hint_belongs_to_the_mistake(
    workspace: Path, words: str, told: list[str]
) -> None:
    answer = call_obygaze(*words.split(), cwd=workspace)
    assert answer.code != 0
    for part in told:
        assert part in answer.stderr
    assert "extract them again" not in answer.stderr


def test_an_array_of_frames_is_refused_with_the_arrays_that_are_not(
    workspace: Path,
) -> None:
    with pytest.raises(ObygazeError, match="one vector of each clip") as caught:
        dataset("mine", "made-up", array="frames", workspace=workspace)
    assert caught.value.hint == "another array: clip"
    assert open_store("mine", workspace=workspace).feature_arrays == ("clip", "frames")


def texts_in(tree: ast.AST) -> Iterator[str]:
    """Yield each text below a node of the source, with "x" for what is filled in."""
    inside = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            parts = []
            for part in node.values:
                parts.append(str(part.value) if isinstance(part, ast.Constant) else "x")
            yield "".join(parts)
        elif node not in inside and isinstance(node, ast.Constant):
            yield str(node.value)


def hints_of_the_program() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each hint that stands in the source."""
    for package in ("obygaze", "obygaze_features", "obygaze_models"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if is_hint(node):
                    for text in texts_in(node.value):
                        yield f"{path.relative_to(ROOT)}:{node.value.lineno}", text


def is_hint(node: ast.AST) -> TypeGuard[ast.keyword | ast.Assign]:
    """Return whether a node gives a value to a parameter, a variable or an attribute `hint`."""
    if isinstance(node, ast.keyword):
        return node.arg == "hint"
    if not isinstance(node, ast.Assign):
        return False
    target = node.targets[0]
    if isinstance(target, ast.Attribute):
        return target.attr == "hint"
    return isinstance(target, ast.Name) and target.id.lower().endswith("hint")


def test_a_hint_names_commands_and_options_that_exist() -> None:
    options: set[str] = set()
    for _, command in commands(root):
        options |= options_of(command)
    n_commands = n_options = 0
    for place, text in hints_of_the_program():
        for command in COMMAND.findall(text):
            n_commands += 1
            check_words(command)
        unknown = set(OPTION.findall(text)) - options
        n_options += len(OPTION.findall(text))
        assert not unknown, f"{place}: {text}"
    assert n_commands > 30
    assert n_options > 60
