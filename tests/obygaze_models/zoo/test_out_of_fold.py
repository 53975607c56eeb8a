"""Predictions for clips that a model was trained on: out-of-fold scores, or none."""

import csv
import io
import json
import shutil
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from support.experiments import VISUAL, films, planted, store_of
from support.run_tables import table_of, write_model_json
from support.tables import rows_of

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import sha256_bytes
from obygaze_features.manifest.clip_table import FILE_TIMES, FRAME_COLUMNS, ClipTable
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.spans import FrameSpan
from obygaze_features.store import Store
from obygaze_models.evaluation.results import results
from obygaze_models.models.concepts import CAV
from obygaze_models.runner.files import Run, run_settings, write_run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.training import (
    fit_final,
    out_of_fold_scores,
    training_protocol,
)
from obygaze_models.zoo import SavedModel, TrainingClips, predict, read_model
from obygaze_models.zoo.info import read_training_clips

MANIFEST = films(5, 24)
X = planted(MANIFEST, 24, 0.5)
LEVEL = {clip.clip_id: clip.level for clip in MANIFEST}
FILM = {clip.clip_id: clip.movie_id for clip in MANIFEST}
LAST = "tt0000005"  # a film no model is trained on
TRAINED = Manifest(
    MANIFEST.name, MANIFEST.header, tuple(c for c in MANIFEST if c.movie_id != LAST)
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return store_of(tmp_path_factory.mktemp("stores") / "sig", MANIFEST, X)


def kept(folder, store, kind, *changes, task="ENHN_S", manifest=TRAINED):
    """A model trained on all films but the last, and the run that judged it."""
    quick = ("report.replicates=20", "report.compare=false", *changes)
    inputs = gather(
        training_protocol(kind, task, manifest, quick),
        manifest,
        "made-up",
        {"sig": store},
    )
    run = run_protocol(inputs, folder / "run", n_jobs=1)
    fit_final(inputs, run, folder / "kept")
    return read_model(folder / "kept"), run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Path:
    return kept(tmp_path_factory.mktemp("trained"), store, "ridge")[0].folder


@pytest.fixture
def ridge(trained: Path, tmp_path: Path) -> SavedModel:
    """A copy of a trained model, to be changed."""
    shutil.copytree(trained, tmp_path / "ridge")
    return read_model(tmp_path / "ridge")


def scores_in(run: Run, **wanted: str) -> dict[str, list[float]]:
    """The scores of each clip in predictions.csv, one for each fit that tested it."""
    found = defaultdict(list)
    for row in rows_of(run.predictions, **wanted):
        found[row["clip_id"]].append(row["score"])
    return found


def test_clips_that_only_found_concepts_are_training_clips_too(tmp_path, store) -> None:
    """Of EN_S, clips of HN teach concepts and no class: no fold tests them."""
    model, run = kept(tmp_path, store, "pcbm-lr", "model.tolerance=0.01", task="EN_S")
    found = predict(model, store)
    assert {LEVEL[clip] for clip in found.refused} == {"HN"}
    out = np.array([one == "out-of-fold" for one in found.basis])
    assert set(np.array(found.clip_ids)[out]) == set(scores_in(run, model="pcbm-lr"))
    # Margins and contributions of the model itself would be in-sample.
    for column in (*found.margins.values(), *found.contributions.values()):
        assert np.isnan(column[out]).all()
        assert np.isfinite(column[~out]).all()
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert {
        row["margin:Look"] == "" for row in rows if row["basis"] == "out-of-fold"
    } == {True}
    asked = predict(model, store, in_sample=True)
    assert np.isfinite(asked.margins["Look"]).all()


def test_margins_of_concept_vectors_are_those_of_vectors_without_the_film(
    tmp_path, store
):
    """Each film left out, and one film chooses nothing: the vectors of the others, found anew."""
    changes = ("splits.validation='none'", "splits.kind='nested'")
    model, _ = kept(tmp_path, store, "cav", *changes, task="EN_S")
    found = predict(model, store)
    told = [
        i
        for i, clip in enumerate(MANIFEST)
        if clip.level != "NS" and FILM[clip.clip_id] != LAST
    ]
    has = np.array(
        [[name in clip.concepts for name in VISUAL] for clip in MANIFEST]
    ).astype(int)
    film = "tt0000003"
    rest = [i for i in told if MANIFEST.clips[i].movie_id != film]
    own = [i for i in told if MANIFEST.clips[i].movie_id == film]
    bank = CAV(list(VISUAL), C="published").fit(X[rest].astype(np.float64), has[rest])
    expected = bank.transform(X[own].astype(np.float64))
    rows = [found.clip_ids.index(MANIFEST.clips[i].clip_id) for i in own]
    assert {found.basis[row] for row in rows} == {"out-of-fold"}
    for column, name in enumerate(VISUAL):
        np.testing.assert_allclose(
            found.margins[name][rows], expected[:, column], atol=1e-3
        )


def test_a_model_without_a_list_counts_every_clip_of_its_films(tmp_path, store, ridge):
    """As estimators of one's own do."""
    document = json.loads((ridge.folder / "model.json").read_text("utf-8"))
    del document["files"]["training-clips.csv"]
    write_model_json(ridge.folder, document)
    without_list = read_model(ridge.folder)
    assert without_list.clips is None
    found = predict(without_list, store)
    assert set(found.clip_ids) == {clip for clip in LEVEL if FILM[clip] == LAST}
    assert set(found.basis) == {"unseen"}
    assert set(found.refused) == set(LEVEL) - set(found.clip_ids)
    with pytest.raises(FixInput, match="does not list its training clips"):
        predict(without_list, store, list(found.refused)[:3])
    in_sample = predict(without_list, store, in_sample=True)
    assert set(in_sample.basis) == {"unseen", "in-sample"}
    # Films that are not even named might be any.
    document["training"]["films"] = []
    write_model_json(ridge.folder, document)
    with pytest.raises(FixInput, match="may have been trained on this one"):
        predict(read_model(ridge.folder), store)
    document["training"].update(n_clips=0, n_films=0)
    write_model_json(ridge.folder, document)
    assert set(predict(read_model(ridge.folder), store).basis) == {"unseen"}


@pytest.mark.parametrize(
    "data",
    [
        b"clip_id,score:positive\na,1\n",
        b"\xff\xfe",
        b"clip_id,movie_id,start_s,end_s,score:positive\na,f,0,1,much\n",
        b"clip_id,movie_id,start_s,end_s,score:positive\na,f,0,1,1\na,f,0,1,2\n",
        b"clip_id,movie_id,start_s,end_s,score:positive\na,f,0,1,nan\n",
        b"clip_id,movie_id,start_s,end_s,score:positive,score:positive\na,f,0,1,1,1\n",
        b"clip_id,movie_id,start_s,end_s,score:negative\na,f,0,1,1\n",
    ],
)
def test_a_list_of_training_clips_that_is_none_is_refused(ridge, data) -> None:
    (ridge.folder / "training-clips.csv").write_bytes(data)
    document = json.loads((ridge.folder / "model.json").read_text("utf-8"))
    document["files"]["training-clips.csv"] = [len(data), sha256_bytes(data)]
    write_model_json(ridge.folder, document)
    with pytest.raises(Corrupt) as caught:
        read_model(ridge.folder)
    assert "training-clips.csv" in str(caught.value)


def test_the_list_reads_as_it_was_written() -> None:
    scores = {
        "p:S": np.array([0.1 + 0.2, np.nan]),
        "margin:a,b": np.array([-1e-300, 2.0]),
    }
    films = ["a film, of two", ""]
    frames = [FrameSpan(7, 74, Fraction(24000, 1001)), None]
    facts = ClipTable.of(["x,1", "y"], films, [0.1 + 0.2, None], [3.0, None], frames)
    again = read_training_clips(TrainingClips(facts, scores).to_csv(), "here")
    assert again.clip_ids == ("x,1", "y")
    assert again.facts.movie_ids.tolist() == films
    for name in (*FILE_TIMES, *FRAME_COLUMNS):
        np.testing.assert_array_equal(again.facts.column(name), facts.column(name))
    assert again.has_score.tolist() == [True, True]
    for name, values in scores.items():
        np.testing.assert_array_equal(again.scores[name], values)


def test_scores_of_clips_that_trained_are_not_out_of_fold(tmp_path: Path) -> None:
    """Other clips of their folds did not train, and have the mean of their scores."""
    rows = []
    for clip, fold, model, score, leaked in (
        ("a", "1", "m", 0.5, False),
        ("a", "2", "m", 0.25, False),
        ("b", "2", "m", 0.75, True),
        ("c", "1", "m", 1.0, True),
        ("c", "2", "m", 0.0, False),
        ("a", "1", "other", 9.0, False),
    ):
        row = {"task": "T", "train": "T", "test": "T", "store": "f", "model": model}
        row |= {"fold": fold, "seed": 0, "clip_id": clip, "y": 1, "score": score}
        row |= {
            "is_model": model == "m",
            "is_trained": True,
            "is_probability": model == "m",
        }
        rows.append({**row, "decision": 0, "n_seen": 9, "leaked": leaked})
    report = {"primary": "ap", "metrics": [], "replicates": 9, "compare": False}
    report |= {"lead": "", "against": "", "contrast": []}
    protocol = {"report": report, "models": {}, "fit": {"seed": 0}, "paper": []}
    protocol |= {"grid": {"pairs": "same", "models": []}, "tasks": {}}
    about = {"identity": "x", "protocol": protocol, "stores": {}}
    about |= {"sizes": {}, "fits": []}
    tests = table_of("predictions.csv", rows)
    values = results(tests, run_settings(about))
    tables = {"predictions.csv": tests, "results.csv": values}
    run = write_run(tmp_path / "run", about, tables)
    clips = ClipTable.of(["a", "b", "c", "d"])
    found = out_of_fold_scores(run, clips, {"T": "p:positive"})
    expected = [0.375, np.nan, 0.0, np.nan]
    np.testing.assert_array_equal(found["p:positive"], expected)


def test_a_manifest_that_was_corrected_after_the_training_is_named(ridge, store):
    first, *others = TRAINED.clips
    corrected = [replace(first, level="S" if first.level == "EN" else "EN"), *others]
    same = predict(ridge, store, manifest=TRAINED)
    assert "labels were corrected" not in str(same.notes)
    found = predict(ridge, store, manifest=TRAINED.with_clips(corrected))
    name = TRAINED.name
    said = f"the manifest {name} differs from the one that ridge was trained on: if its labels"
    assert any(note.startswith(said) for note in found.notes)
