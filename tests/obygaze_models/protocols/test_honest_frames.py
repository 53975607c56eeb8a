"""The protocol honest-frames: frames and tokens of a store, in memory once or not at all."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.experiments import films, quick, run_on, store_of

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.schema import Data
from obygaze_models.runner.features import Features, read_store


def marked(manifest: Any) -> Any:
    """Frames of noise with two marks, whose order differs between sure clips and the others."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(len(manifest), 6, 8)).astype(np.float32)
    for row, clip in enumerate(manifest):
        first, second = np.sort(rng.choice(6, 2, replace=False))
        a, b = (first, second) if clip.level == "S" else (second, first)
        X[row, a, 0] += 5
        X[row, b, 1] += 5
    return X


def read_frames(store, table, *, of_frames=True, scale="none") -> Features:
    data = Data(array=("frames",), scale=scale)
    return read_store("x", store, table, data, of_frames)


def test_frames_are_those_of_the_store(tmp_path: Path) -> None:
    manifest = films(3, 20)
    X = marked(manifest)
    bad, gone = manifest.clips[4].clip_id, manifest.clips[9].clip_id
    store = store_of(
        tmp_path / "s", manifest, X, array="frames", failed=[bad], without=[gone]
    )
    table = clip_table(manifest, Data())
    found = read_frames(store, table)
    assert sorted(found.missing) == sorted([bad, gone])
    rows = np.array([3, 12, 0])
    np.testing.assert_array_equal(found.of(rows), X[rows])
    with pytest.raises(FixInput, match="one vector"):
        read_frames(store, table, of_frames=False)
    with pytest.raises(FixInput, match="unscaled frames"):
        read_frames(store, table, scale="unit")


def test_models_of_frames_and_of_clips_are_not_mixed(tmp_path: Path) -> None:
    manifest = films(3, 20)
    store = store_of(tmp_path / "s", manifest, marked(manifest), array="frames")
    protocol = quick("honest-frames", "models.ridge.kind=ridge")
    with pytest.raises(FixUsage, match="use one protocol for each"):
        run_on(tmp_path, protocol, manifest, {"x": store})
