"""No line of the list after a withdrawal removes what a person wrote."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stores import made_store

from obygaze_features.core.workspace import Workspace
from obygaze_features.store import Row, open_store
from obygaze_features.store.changing import subset
from obygaze_features.store.exporting import export_features

TABLE = "clip_id,movie_id,level,score\nlake-1,lake,S,.5\n"
# What a person has, in the names that obygaze gives, with the same clip in it.
THEIRS = {
    "manifests/my.csv": {"manifests/my.csv": TABLE, "manifests/my.toml": ""},
    "scores.csv": {"scores.csv": TABLE},
    "mine/run.json": {"mine/run.json": "{}", "mine/predictions.csv": TABLE},
    "mine/model.json": {"mine/model.json": "{}", "mine/training-clips.csv": TABLE},
    "mine/data.js": {"mine/data.js": 'const words = ["lake-1"]'},
    "zarr": {"zarr/data.zarr/mine": "mine", "zarr/films.csv": TABLE},
}


@settings(max_examples=40, deadline=None)
@given(
    theirs=st.lists(st.sampled_from(sorted(THEIRS)), unique=True),
    folder=st.sampled_from((".", "deep/er")),
    features=st.sampled_from(("theirs.npz", "theirs.h5")),
)
def test_no_line_removes_what_a_person_wrote(
    theirs: list[str], folder: str, features: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        place = root / "stores" / "films"
        values = {"clip": np.ones((2, 4), np.float32)}
        made_store(place, [Row("lake-1", "lake"), Row("pier-1", "pier")], values)
        for written in theirs:
            for path, text in THEIRS[written].items():
                (root / folder / path).parent.mkdir(parents=True, exist_ok=True)
                (root / folder / path).write_text(text)
        (root / folder).mkdir(parents=True, exist_ok=True)
        _write_features(root / folder / features)
        export_features(open_store(place), root / "ours.npz", "npz")
        made = subset(
            place, without=["lake"], reason="asked", workspace=Workspace(root)
        )
        removed = []
        for copy in made.copies:
            removed += [Path(word) for word in shlex.split(copy.command)[2:]]
        before = next(root.glob("stores/films.before-*"))
        assert sorted(removed) == sorted([root / "ours.npz", before])
        # They are listed, to be looked at.
        listed = {copy.path for copy in made.copies}
        assert root / folder / features in listed
        assert len(listed) >= 3 + ("scores.csv" in theirs)
        assert "archives (.zip, .tar) are not looked into" in str(made)


def _write_features(path: Path) -> None:
    ids = ["lake-1", "pier-1"]
    if path.suffix == ".npz":
        np.savez(path, clip_id=ids, movie_id=["lake", "pier"], X=np.ones((2, 4)))
        return
    import h5py

    with h5py.File(path, "w") as file:
        for clip_id in ids:
            file[clip_id] = np.ones(4)
