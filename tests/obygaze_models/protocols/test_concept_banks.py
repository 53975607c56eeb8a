"""Which clips find the vectors of concepts; few films, few concepts, and none."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from support.experiments import ONE_PAIR, films, planted, quick, run_on, store_of
from support.tables import models

from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning
from obygaze_features.manifest.model import Manifest
from obygaze_models.models.common import FixTraining, Floats, Ints
from obygaze_models.models.examples import findable_columns
from obygaze_models.models.fitting import fit
from obygaze_models.models.fold_data import FoldData
from obygaze_models.models.heads import LogisticHead
from obygaze_models.models.registry import build
from obygaze_models.runner.heldout import hold_out_nothing
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.store_run import store_runs
from obygaze_models.runner.training import training_protocol


@pytest.mark.parametrize("n_films", [1, 2])
def test_no_margin_is_of_a_vector_that_was_found_on_its_clip(
    tmp_path, monkeypatch, n_films
) -> None:
    """Where all clips are of one film, vectors are found without a part of its clips.

    Of two films, each fold trains on one. A kept model is fitted on all clips, whatever the splits.
    """
    manifest = films(n_films, 120 // n_films, seed=3, runs_on=0.2)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    splits = ["splits.kind=kfold", "splits.folds=2"] if n_films == 1 else []
    changes = ['grid.models=["pcbm-lr"]', "models.pcbm-lr.tolerance=0.1", *splits]
    inputs = gather(
        quick("honest-negatives", *changes), manifest, "made-up", {"x": store}
    )
    (run,) = store_runs(inputs)
    rows = np.flatnonzero(run.labels["EN_S"] >= 0)
    all_folds = [("EN_S", hold_out_nothing(run.table, rows))]
    for (train_task, _), _, held in run.every_fold:
        all_folds.append((train_task, held.merge_validation()))
    unfitted = build("pcbm-lr", run.models["pcbm-lr"].settings)
    margins_of_head: list[Floats] = []
    fit_head = LogisticHead.fit

    def recorded(head: LogisticHead, X: Floats, y: Ints) -> LogisticHead:
        margins_of_head.append(X)
        return fit_head(head, X, y)

    monkeypatch.setattr(LogisticHead, "fit", recorded)
    for task, held in all_folds:
        data = run.fold_data(task, held)
        fitted = fit(unfitted, data)
        trained = np.sort(data.train)
        assert np.isin(trained, data.concept_rows).all()
        in_sample = fitted.bank_.margins(run.rows.X[trained])
        assert margins_of_head[-1].shape == in_sample.shape
        assert (margins_of_head[-1] != in_sample).all()


def test_vectors_that_were_found_on_test_clips_are_counted(tmp_path, monkeypatch):
    """Here vectors are found on every row, which no protocol does."""
    every_row = property(lambda data: np.arange(len(data.y)))
    monkeypatch.setattr(FoldData, "concept_rows", every_row)
    manifest = films(4, 20, seed=2)
    store = store_of(tmp_path / "s", manifest, planted(manifest, width=14))
    changes = ["splits.kind=kfold", "splits.folds=4", "report.concepts=false"]
    changes += ['grid.models=["ridge", "pcbm-lr"]', "models.pcbm-lr.tolerance=0.1"]
    changes += ["models.pcbm-lr.cross_fit=2", "report.compare=false", *ONE_PAIR]
    # Four folds of two models; vectors of the bottleneck had seen the clips.
    with pytest.raises(FixInput, match="4 of 8") as error:
        run_on(tmp_path, quick("honest-negatives", *changes), manifest, {"x": store})
    assert "used to find concept vectors" in error.value.details[0]
    protocol = quick("honest-negatives", *changes, "leakage=warn")
    for cell in models(run_on(tmp_path, protocol, manifest, {"x": store})):
        assert cell.leaked == (cell.n_clips if cell.model == "pcbm-lr" else 0)


def test_a_concept_needs_three_examples_of_each_kind() -> None:
    columns = [
        [1, 1, 1, 0, 0, 0, -1],
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, -1],
        [1, 1, 1, 1, 0, 0, 0],
    ]
    targets = np.array(columns).T
    assert findable_columns(targets) == [0, 3]
    with pytest.raises(FixTraining, match="no concept has 3 training clips with it"):
        findable_columns(targets[:, 1:3])


def with_two_rare_concepts() -> Manifest:
    """Five films; Look is in a clip of the first and of the last, Body in three and one."""
    manifest = films(5, 40)
    clips = []
    for clip in manifest:
        common = tuple(name for name in clip.concepts if name not in ("Look", "Body"))
        clips.append(replace(clip, concepts=common))
    sure = [row for row, clip in enumerate(clips) if clip.level == "S"]
    first = [row for row in sure if clips[row].movie_id == "tt0000001"]
    last = [row for row in sure if clips[row].movie_id == "tt0000005"]
    look = [first[0], last[0]]
    body = [*first[1:4], last[1]]
    for row in (*look, *body):
        name = "Look" if row in look else "Body"
        clips[row] = replace(clips[row], concepts=(*clips[row].concepts, name))
    return replace(manifest, clips=tuple(clips))


def test_training_concept_vectors_names_those_without_a_task() -> None:
    manifest = with_two_rare_concepts()
    with pytest.warns(ObygazeWarning, match=r"Look \(2 clips of 2 films\)"):
        protocol = training_protocol("cav", "EN_S", manifest)
    assert "Look" not in protocol.tasks
    assert "Body" in protocol.tasks
    of_tolerance, note = protocol.report.notes
    assert "the released code" in of_tolerance
    assert "Look (2 clips of 2 films)" in note
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        protocol = training_protocol("cav", "EN_S", films(5, 40))
    assert protocol.report.notes == (of_tolerance,)


def test_equal_features_have_no_concept_vectors_and_the_error_says_so(tmp_path) -> None:
    manifest = films(4, 20, seed=5)
    store = store_of(tmp_path / "s", manifest, np.ones((len(manifest), 5)))
    changes = ('grid.models=["b"]', "report.contrast=[]", 'grid.train=["ENHN_S"]')
    protocol = quick(
        "honest-negatives", *changes, "models.b.kind=pcbm-lr", replicates=20
    )
    with pytest.raises(FixInput, match="do not differ, so that no direction separates"):
        run_on(tmp_path, protocol, manifest, {"s": store})


def test_concept_vectors_take_no_settings() -> None:
    with pytest.raises(FixUsage, match="cav has no settings, got") as raised:
        training_protocol("cav", "EN_S", films(4, 40, seed=5), ["models.cav.C=1"])
    assert "data.view=raw" in raised.value.hint
    changes = ["data.view=raw", "leakage=warn", "features.x.array=tokens"]
    changed = training_protocol("cav", "EN_S", films(4, 40, seed=5), changes)
    # Vectors were found in the usual array, and nothing said so.
    assert changed.features["x"].array == "tokens" and changed.leakage == "warn"
    assert changed.data.view == "raw"


def test_concept_vectors_take_no_task() -> None:
    with pytest.raises(FixUsage, match="each concept vector has its own task"):
        training_protocol("cav", "HN_S", films())
    assert training_protocol("cav", "EN_S", films(4, 40, seed=5)).tasks
