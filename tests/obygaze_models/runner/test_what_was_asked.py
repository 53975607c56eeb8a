"""What a run says of itself is of what was asked: chosen settings, names of classes, folds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.experiments import films, planted, quick, run_on, store_of

from obygaze_features.manifest.folds import OUTSIDE
from obygaze_models.protocols.clips import class_names, clip_table
from obygaze_models.protocols.schema import Data, Task
from obygaze_models.protocols.splits import film_pairs, rotated
from obygaze_models.runner.files import Run

BOTTLENECK = (
    'grid.models=["pcbm-lr"]',
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
    "grid.baselines=[]",
    "report.compare=false",
    "report.replicates=2",
    "models.pcbm-lr.tolerance=0.1",
    "report.contrast=[]",
)


def concepts_of(found: Run) -> dict[str, float]:
    """Return the weight of each concept."""
    table = found.table("concepts.csv")
    return dict(zip(table["concept"], table["weight"], strict=True))


def test_the_table_of_concepts_is_of_the_settings_that_folds_chose(
    tmp_path: Path,
) -> None:
    manifest = films(5, 30)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    stores = {"x": store}

    def found(*changes: str) -> Run:
        return run_on(
            tmp_path, quick("honest", *BOTTLENECK, *changes), manifest, stores
        )

    chosen = found("models.pcbm-lr.C={ grid = [1.0, 0.000001] }")
    (fit,) = [fit for fit in chosen.about["fits"] if fit["model"] == "pcbm-lr"]
    (most, _), *_ = Counter(fold["chosen"]["C"] for fold in fit["folds"]).most_common()
    # Neither the first of the grid nor the default.
    assert most == 0.000001
    alone = found("models.pcbm-lr.C=0.000001")
    assert concepts_of(chosen) == pytest.approx(concepts_of(alone))


def test_a_clip_without_a_concept_is_not_one_of_another() -> None:
    manifest = films(2, 40)
    clips = [clip for clip in manifest if clip.concepts in ((), ("Look",), ("Body",))]
    some = manifest.with_clips(clips)
    task = Task(positive="Look in concept")
    labels = np.array(["Look" in clip.concepts for clip in some]).astype(np.intp)
    names = class_names("concept=Look", task, labels, clip_table(some, Data()))
    assert names == ["not (concept=Look)", "concept=Look"]


def test_nothing_learns_from_a_clip_in_no_fold() -> None:
    folds = np.array([0, 1, OUTSIDE, 2, OUTSIDE, 0])
    labels = np.array([0, 1, 0, 1, 1, 1])
    usable = np.ones(6, dtype=np.bool_)
    for splits in (rotated(folds, labels, usable), film_pairs(folds, usable)):
        assert [split.outside.tolist() for split in splits] == [[2, 4]] * len(splits)
