"""The protocols over segments of whole films, on planted signals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from support.data import real_data
from support.experiments import (
    long_segments,
    quick,
    run_on,
    store_of_windows,
    without_models,
)
from support.tables import the_cell

from obygaze_features.manifest.adapters.mobygaze import read
from obygaze_features.manifest.model import Clip
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.schema import Data
from obygaze_models.runner.inputs import gather

PLAIN = ("report.compare=false", "data.segments=made-up")


def seconds(clip: Clip) -> slice:
    return slice(int(clip.start_s or 0), int(clip.end_s or 0))


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Windows in sure segments of Ada stand out a little."""
    manifest, noise = long_segments()
    for clip in manifest:
        if clip.level == "S" and clip.extra["annotator"] == "ada":
            noise[clip.movie_id][seconds(clip), :2] += 0.7
    return manifest, noise, store_of_windows(tmp_path_factory.mktemp("w") / "s", noise)


def test_the_precision_of_segments_is_that_of_a_computation_without_the_runner(
    planted, tmp_path: Path
) -> None:
    manifest, values, store = planted
    changes = (
        "models.logistic.kind=logistic",
        "models.logistic.C=1.0",
        'grid.models=["logistic"]',
        "data.where=annotator == ada",
    )
    run = run_on(
        tmp_path, quick("mobygaze-visual", *PLAIN, *changes), manifest, {"w": store}
    )
    cell = the_cell(run, model="logistic", train="ENHN_S", test="ENHN_S")
    mine = [c for c in manifest if c.extra["annotator"] == "ada"]
    X = np.stack(
        [values[c.movie_id][seconds(c)].astype(np.float32).max(axis=0) for c in mine]
    )
    y = np.array([c.level == "S" for c in mine])
    films = np.array([c.movie_id for c in mine])
    found = []
    for film in np.unique(films):
        train, test = films != film, films == film
        model = LogisticRegression(
            C=1.0, class_weight="balanced", tol=1e-10, max_iter=10_000
        )
        score = model.fit(X[train], y[train]).decision_function(X[test])
        found.append(average_precision_score(y[test], score))
    assert cell.value("ap") == pytest.approx(np.mean(found), abs=1e-12)
    assert cell.value("ap") > y.mean() + 0.2
    assert (cell.n_clips, cell.leaked, cell.n_films) == (len(y), 0, 6)
    low, high = cell.ends("ap")
    assert low < cell.value("ap") < high


def test_the_tasks_of_the_released_table() -> None:
    manifest = read(
        real_data("mobygaze") / "mobygaze_dataframe.no_subtitles.csv"
    ).manifest
    protocol = without_models(load_protocol("mobygaze-visual"))
    found = {}
    for where in ("", "annotator == annotator1", "annotator == annotator2"):
        own = replace(protocol, data=replace(protocol.data, where=where))
        inputs = gather(own, manifest, "mobygaze", {})
        for name, labels in inputs.labels.items():
            found[where[-10:], name] = (
                int((labels == 0).sum()),
                int((labels == 1).sum()),
            )
    levels = [c.level for c in manifest]
    en, hn, s = (levels.count(level) for level in ("EN", "HN", "S"))
    assert len(levels) == 6072 and len(clip_table(manifest, Data()).films) == 6072
    assert found["", "EN_S"] == (en, s)
    assert found["", "ENHN_S"] == (en + hn, s)
    assert found["", "EN_HNS"] == (en, hn + s)
    words = without_models(load_protocol("mobygaze-words"))
    labels = gather(words, manifest, "mobygaze", {}).labels
    positive = {name: int((of_task == 1).sum()) for name, of_task in labels.items()}
    heard = {"Speech", "Voice"}
    spoken = sum(c.level == "S" and bool(heard & {*c.concepts}) for c in manifest)
    assert positive["EN_S"] == s
    assert positive["EN_S_spoken"] == spoken > 100
    assert positive["EN_S_unspoken"] == s - spoken
    assert found["annotator1", "ENHN_S"] == (1525, 589)
    assert found["annotator2", "ENHN_S"] == (2788, 881)
