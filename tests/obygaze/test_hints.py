"""What an error tells a person to do is what cures it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.experiments import films, planted, write_workspace

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
        words = (
            f"store import npz features.npz -o {name} --backbone {backbone} {arrays}"
        )
        call_obygaze(*words.split(), cwd=root).ok()
    (root / "untimed.csv").write_text("clip_id,movie_id,level\na,tt1,S\nb,tt1,EN\n")
    words = "manifest import csv untimed.csv -o untimed"
    call_obygaze(*words.split(), cwd=root).ok()
    (root / "videos").mkdir()
    return root


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "store merge mine theirs -o both",
            [
                "have different recipes: told.backbone differ",
                "told.backbone: my-model here, other-model there",
                "obygaze run takes several, each with --store",
            ],
        ),
        ("manifest folds made-up -k 50", ["cannot make 50 folds", "from 2 to 3 folds"]),
        (
            "search mine --array clip --like tt0000001-0001",
            ["check their ids (the store has ", "tt0000001-001"],
        ),
        ("video probe videos", ["this is a folder", "choose one of the files in it"]),
        (
            "manifest export vtt untimed -o out",
            ["nothing to export: 2 clips without times", "start and end of each"],
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
    with pytest.raises(Exception, match="one vector of each clip") as caught:
        dataset("mine", "made-up", array="frames", workspace=workspace)
    assert caught.value.hint == "another array: clip"
    assert open_store("mine", workspace=workspace).feature_arrays == ("clip", "frames")
