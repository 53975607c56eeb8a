"""Predictions for segments of a store of windows."""

from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.experiments import films
from support.stores import a_recipe, made_store

from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Row, Store, open_store
from obygaze_models.zoo import load_model, predict

# A window is 16 pictures at 16 pictures a second: window n of a film is second n to n + 1.
CLIPS = films(5, 20, seed=3)
LAST = "tt0000005"
TRAINED = Manifest(
    CLIPS.name, CLIPS.header, tuple(c for c in CLIPS if c.movie_id != LAST)
)
QUICK = ("--set", "report.replicates=20", "--set", "report.compare=false")


def windows(workspace: Path) -> tuple[Store, np.ndarray]:
    """A store of windows; those of a sure clip stand out."""
    ids = [(film, second) for film in CLIPS.films for second in range(70)]
    values = np.random.default_rng(0).normal(size=(len(ids), 4)).astype(np.float32)
    sure = {
        (clip.movie_id, second)
        for clip in CLIPS
        if clip.level == "S"
        for second in range(int(clip.start_s or 0), int(clip.end_s or 0) + 1)
    }
    values[[one in sure for one in ids], 0] += 3
    store = made_store(
        workspace / "stores" / "whole",
        [Row(f"{film}:{n:06d}", film, float(n), n + 1.0) for film, n in ids],
        {"clip": values},
        recipe=a_recipe(sampling={"unit": "window", "grid": {"window": 16, "fps": 16}}),
    )
    return store, values


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a store of windows and a model of the segments of all films but one."""
    workspace = tmp_path_factory.mktemp("workspace")
    windows(workspace)
    write_manifest(TRAINED, workspace / "manifests" / "some.toml")
    write_manifest(CLIPS, workspace / "manifests" / "all.toml")
    cut = ("data.segments=some", "data.rule=within", "data.reduce=mean")
    words = [word for change in cut for word in ("--set", change)]
    call = [
        "train",
        "ridge",
        "--store",
        "whole",
        "--manifest",
        "some",
        "--task",
        "EN_S",
        "-o",
        "kept",
    ]
    call_obygaze("-C", workspace, *call, *words, *QUICK).ok()
    return workspace


def test_a_model_of_segments_predicts_segments(trained: Path) -> None:
    model = load_model(trained / "models" / "kept")
    store, values = open_store(trained / "stores" / "whole"), None
    assert (model.info.features.rule, model.info.features.reduce) == ("within", "mean")
    card = (model.folder / "README.md").read_text("utf-8")
    assert "mean of the windows" in card
    assert "models predict kept STORE --manifest SEGMENTS > predictions.csv" in card
    found = predict(model, store, CLIPS)
    unseen = [i for i, basis in enumerate(found.basis) if basis == "unseen"]
    assert {found.clip_ids[i] for i in unseen} == {
        c.clip_id for c in CLIPS if c.movie_id == LAST
    }
    # By hand: clips are 2.5 s long from a whole second on, so two whole windows lie within each.
    values = store.matrix("clip").values.reshape(5, 70, 4)
    rows = []
    for i in unseen:
        start = int(CLIPS[found.clip_ids[i]].start_s or 0)
        rows.append(
            values[4, [start, start + 1]].mean(axis=0, dtype=np.float64).astype("f4")
        )
    own = model.estimator.decision_function(np.array(rows, dtype=np.float64))
    np.testing.assert_allclose(found.scores[unseen, 0], own, atol=1e-9)
    basis = dict(zip(found.clip_ids, found.basis, strict=True))
    levels = {clip.clip_id: clip.level for clip in TRAINED}
    assert {levels[c] for c, kind in basis.items() if kind == "out-of-fold"} == {
        "EN",
        "S",
    }
    assert {levels[c] for c, kind in basis.items() if kind == "film-seen"} <= {
        "HN",
        "NS",
    }


def test_a_model_of_segments_never_scores_windows(trained: Path) -> None:
    model, store = (
        load_model(trained / "models" / "kept"),
        open_store(trained / "stores" / "whole"),
    )
    for clips in (
        None,
        [],
        ["tt0000001_9.000-12.000"],
        [CLIPS.clips[0], "tt0000001_9.000-12.000"],
    ):
        with pytest.raises(FixUsage, match="expected a manifest of segments"):
            predict(model, store, clips)
    here = ("-C", trained, "models", "predict", "kept", "whole")
    assert call_obygaze(*here).code == 2
    one = CLIPS.clips[-1].clip_id
    words = ("--manifest", "all", "--clips", one, "--json")
    done = call_obygaze(*here, *words).ok().json()
    assert [row["clip_id"] for row in done["rows"]] == [one]
