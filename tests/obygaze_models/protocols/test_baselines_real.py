"""Blind baselines on the published files, against closed forms worked out here."""

from __future__ import annotations

import numpy as np
import pytest
from support.data import real_data
from support.experiments import quick, store_of, without_models
from support.published import split_file
from support.tables import the_cell

from obygaze_features.manifest.adapters.obygaze12 import read
from obygaze_features.manifest.model import Manifest
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    folder = real_data("obygaze12")
    return read(folder / "ObyGaze12_thresh_02.csv", splits=folder).manifest


@pytest.fixture(scope="module")
def run(manifest: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Only clips with a video have features, as in the released code."""
    folder = tmp_path_factory.mktemp("baselines")
    silent = [clip.clip_id for clip in manifest if not clip.video]
    store = store_of(
        folder / "store", manifest, np.ones((len(manifest), 2)), without=silent
    )
    protocol = without_models(quick("paper-table2"))
    inputs = gather(protocol, manifest, "real", {"any": store})
    return run_protocol(inputs, folder / "run", n_jobs=1)


@pytest.mark.parametrize(
    ("test", "n", "model", "binary"),
    [
        ("ENHN_S", 103, "random", 0.37),
        ("ENHN_S", 103, "all_positive", 0.46),
    ],
)
def test_blind_rows_are_the_closed_forms(
    run: Run, test: str, n: int, model: str, binary: float
) -> None:
    found = the_cell(run, train="HN_S", test=test, model=model)
    f, q = 31 / n, 0.5 if model == "random" else 1.0
    positive = 2 * f * q / (f + q)
    negative = 2 * (1 - f) * (1 - q) / ((1 - f) + (1 - q))
    assert (found.n_clips, found.n_positive) == (n, 31)
    assert found.value("f1_binary") == pytest.approx(positive, abs=1e-12)
    weighted = f * positive + (1 - f) * negative
    assert found.value("f1_weighted") == pytest.approx(weighted)
    assert found.value("f1_binary") == pytest.approx(binary, abs=0.006)
    assert found.value("precision") == pytest.approx(f)
    assert found.value("auc") == 0.5


def test_the_prevalence_and_the_leaks_stand_in_every_cell(run: Run) -> None:
    """31 of 75 and of 103; leaks among clips with a video, counted from the files."""
    for test, n in (("EN_S", 75), ("ENHN_S", 103)):
        tested = split_file(f"02_{test}.csv")
        with_video = {c for c, v in zip(tested.ids, tested.has_video, strict=True) if v}
        for train in ("EN_S", "HN_S"):
            found = the_cell(run, train=train, test=test, model="neighbour")
            assert found.value("prevalence") == pytest.approx(31 / n)
            seen = set(split_file(f"02_{train}.csv").in_folds(*range(9)))
            most = len(seen & with_video & set(tested.in_folds(9)))
            # A run trains on some folds only; over the runs nearly all of them come up.
            assert 0.9 * most <= found.leaked <= most
