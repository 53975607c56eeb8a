"""Predictions for clips that a model was trained on: out-of-fold scores, or none."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from support.experiments import VISUAL, films, planted, store_of
from support.run_tables import table_of
from support.saved_models import write_model_json
from support.stores import made_store
from support.tables import rows_of, the_cell

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import sha256_bytes
from obygaze_features.manifest.clip_facts import ClipFacts
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Row, Store
from obygaze_models.models.common import NOT_FINITE
from obygaze_models.models.concepts import ConceptBank
from obygaze_models.runner.files import Run, write_run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol
from obygaze_models.runner.training import fit_final, training_clips, training_protocol
from obygaze_models.zoo import (
    SavedModel,
    TrainingClips,
    load_model,
    predict,
    save_model,
)
from obygaze_models.zoo.info import read_training_clips
from obygaze_models.zoo.sharing import pull_model, push_model

MANIFEST = films(7, 24)
X = planted(MANIFEST, 60, 0.5)
LEVEL = {clip.clip_id: clip.level for clip in MANIFEST}
FILM = {clip.clip_id: clip.movie_id for clip in MANIFEST}
LAST = "tt0000007"  # a film no model is trained on
TRAINED = Manifest(
    MANIFEST.name, MANIFEST.header, tuple(c for c in MANIFEST if c.movie_id != LAST)
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return store_of(tmp_path_factory.mktemp("stores") / "sig", MANIFEST, X)


def kept(
    folder: Path,
    store: Store,
    kind: str,
    *changes: str,
    task: str = "ENHN_S",
    manifest: Manifest = TRAINED,
) -> tuple[SavedModel, Run]:
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
    return load_model(folder / "kept"), run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, store: Store) -> Path:
    return kept(tmp_path_factory.mktemp("trained"), store, "ridge")[0].folder


@pytest.fixture
def ridge(trained: Path, tmp_path: Path) -> SavedModel:
    """A copy of a trained model, to be changed."""
    shutil.copytree(trained, tmp_path / "ridge")
    return load_model(tmp_path / "ridge")


def test_a_task_of_a_file_has_its_own_classes_whatever_its_name_is(
    tmp_path: Path, store: Store
) -> None:
    """`FILE.toml:EN_S` had the classes of the `EN_S` of honest, "negative" and "positive"."""
    own = tmp_path / "own.toml"
    own.write_text(
        "schema = 'obygaze-protocol/1'\n[tasks.EN_S]\npositive = 'level == S'"
    )
    model, _ = kept(tmp_path, store, "ridge", task=f"{own}:EN_S")
    assert model.info.classes == ("not EN_S", "EN_S")


def scores_in(run: Run, **wanted: str) -> dict[str, list[float]]:
    """The scores of each clip in predictions.csv, one for each fit that tested it."""
    found = defaultdict(list)
    for row in rows_of(run.predictions, **wanted):
        found[row["clip_id"]].append(row["score"])
    return found


def auc_within_films(score: dict[str, float]) -> float:
    """The chance that a sure clip scores above another of its film; ties count half."""
    won = pairs = 0.0
    for film in {FILM[clip] for clip in score}:
        own = [clip for clip in score if FILM[clip] == film]
        y = np.array([LEVEL[clip] == "S" for clip in own])
        if 0 < y.sum() < len(y):
            # A film counts by its pairs divided by its clips, as in `auc_over_folds`.
            weight = y.sum() * (~y).sum() / len(y)
            won += weight * roc_auc_score(y, [score[clip] for clip in own])
            pairs += weight
    return won / pairs


def test_a_training_clip_gets_its_out_of_fold_score_and_each_row_says_what_it_is(
    tmp_path: Path, store: Store
) -> None:
    model, run = kept(tmp_path, store, "ridge")
    found = predict(model, store)
    assert found.columns() == ["clip_id", "basis", "decision", "score:positive"]
    basis = dict(zip(found.clip_ids, found.basis, strict=True))
    for clip, told in basis.items():
        level = "film-seen" if LEVEL[clip] == "NS" else "out-of-fold"
        assert told == ("unseen" if FILM[clip] == LAST else level)
    score = dict(zip(found.clip_ids, found.scores[:, 0].tolist(), strict=True))
    tested = scores_in(run, model="ridge")
    assert {
        clip: [score[clip]] for clip in basis if basis[clip] == "out-of-fold"
    } == tested
    decided = dict(zip(found.clip_ids, found.decisions, strict=True))
    assert decided == {c: "positive" if s > 0 else "negative" for c, s in score.items()}
    new = [clip for clip in basis if basis[clip] != "out-of-fold"]
    rows = [found.clip_ids.index(clip) for clip in new]
    own = model.estimator.decision_function(X[rows].astype(np.float64))
    np.testing.assert_allclose([score[clip] for clip in new], own, atol=1e-9)


def test_out_of_fold_scores_are_as_good_as_the_report_says_and_in_sample_ones_better(
    tmp_path: Path, store: Store
) -> None:
    model, run = kept(tmp_path, store, "logistic")
    told = the_cell(run, model="logistic").value("auc")
    auc = {}
    for in_sample, basis in ((False, "out-of-fold"), (True, "in-sample")):
        found = predict(model, store, in_sample=in_sample)
        rows = zip(
            found.clip_ids, found.basis, found.scores[:, 1].tolist(), strict=True
        )
        auc[basis] = auc_within_films(
            {clip: p for clip, kind, p in rows if kind == basis}
        )
    assert auc["out-of-fold"] == pytest.approx(told, abs=1e-12)
    assert told < 0.8
    assert auc["in-sample"] > 0.97


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("mlp", ("fit.seeds=2", "model.hidden=[4]", "model.max_epochs=6")),
        ("ridge", ("splits.validation='each'",)),
    ],
)
def test_several_scores_of_a_clip_are_averaged(
    tmp_path: Path, store: Store, kind: str, changes: tuple[str, ...]
) -> None:
    model, run = kept(tmp_path, store, kind, *changes)
    found = predict(model, store)
    tested = scores_in(run, model=kind)
    assert max(map(len, tested.values())) > 1
    for clip, scores in tested.items():
        row = found.clip_ids.index(clip)
        mean = sum(scores) / len(scores)
        assert found.scores[row, -1] == pytest.approx(mean, abs=1e-12)
        if kind == "mlp":
            assert found.scores[row].sum() == pytest.approx(1, abs=1e-12)
            assert found.decisions[row] == ("positive" if mean > 0.5 else "negative")


def test_training_clips_that_no_fold_tested_are_refused_unless_asked(
    tmp_path: Path, store: Store
) -> None:
    film = "tt0000002"
    model, _ = kept(tmp_path, store, "logistic", f"splits.never=['{film}']")
    found = predict(model, store)
    never = {c for c in LEVEL if FILM[c] == film and LEVEL[c] != "NS"}
    assert set(found.refused) == never
    assert set(found.clip_ids) == set(LEVEL) - never
    with pytest.raises(
        FixInput, match=f"and {len(never) - 1} more: the model was trained on"
    ) as caught:
        predict(model, store, sorted(never))
    assert "--in-sample" in str(caught.value)
    assert "in_sample=True" in str(caught.value)
    asked = predict(model, store, sorted(never), in_sample=True)
    assert set(asked.basis) == {"in-sample"}
    rows = [list(LEVEL).index(clip) for clip in sorted(never)]
    own = model.estimator.predict_proba(X[rows].astype(np.float64))
    np.testing.assert_allclose(asked.scores, own, atol=1e-9)


def test_clips_that_only_found_concepts_are_training_clips_too(
    tmp_path: Path, store: Store
) -> None:
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
    tmp_path: Path, store: Store
) -> None:
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
    bank = ConceptBank(list(VISUAL), C="published").fit(
        X[rest].astype(np.float64), has[rest]
    )
    expected = bank.transform(X[own].astype(np.float64))
    rows = [found.clip_ids.index(MANIFEST.clips[i].clip_id) for i in own]
    assert {found.basis[row] for row in rows} == {"out-of-fold"}
    for column, name in enumerate(VISUAL):
        np.testing.assert_allclose(
            found.margins[name][rows], expected[:, column], atol=1e-3
        )


@pytest.mark.filterwarnings("ignore:No vector is found")
@pytest.mark.parametrize("n_films", [1, 2])
def test_a_concept_that_no_film_can_test_has_no_vector(
    tmp_path: Path, store: Store, n_films: int
) -> None:
    """It was said to have none, and the model had one: of a single film, with no metric."""
    with_look = sorted({clip.movie_id for clip in TRAINED if "Look" in clip.concepts})
    clips = []
    for clip in TRAINED:
        names = clip.concepts
        if clip.movie_id not in with_look[:n_films]:
            names = tuple(name for name in names if name != "Look")
        clips.append(replace(clip, concepts=names))
    manifest = TRAINED.with_clips(clips)
    model, _ = kept(tmp_path, store, "cav", task="EN_S", manifest=manifest)
    tested = [name for name in VISUAL if name != "Look" or n_films > 1]
    assert model.info.concepts == tuple(tested)
    assert model.clips is not None
    assert [*model.clips.scores] == [f"margin:{name}" for name in tested]


def test_a_model_without_a_list_counts_every_clip_of_its_films(
    tmp_path: Path, store: Store, ridge: SavedModel
) -> None:
    """As estimators of one's own do."""
    document = json.loads((ridge.folder / "model.json").read_text("utf-8"))
    del document["files"]["training-clips.csv"]
    write_model_json(ridge.folder, document)
    without_list = load_model(ridge.folder)
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
        predict(load_model(ridge.folder), store)
    document["training"].update(n_clips=0, n_films=0)
    write_model_json(ridge.folder, document)
    assert set(predict(load_model(ridge.folder), store).basis) == {"unseen"}


def test_numbers_are_predicted_as_they_were_trained(tmp_path: Path) -> None:
    """A store of doubles: what single precision cannot hold is not read in either place."""
    doubles = X.astype(np.float64) + 1e-9 * np.arange(len(X))[:, None]
    doubles[3, 0] = 1e300
    rows = [Row(clip.clip_id, clip.movie_id) for clip in MANIFEST]
    store = made_store(tmp_path / "doubles", rows, {"clip": doubles})
    model, _ = kept(tmp_path, store, "ridge")
    found = predict(model, store, in_sample=True)
    assert found.absent == {MANIFEST.clips[3].clip_id: NOT_FINITE}
    rows_of = {clip.clip_id: row for row, clip in enumerate(MANIFEST)}
    single = doubles[[rows_of[clip] for clip in found.clip_ids]].astype(np.float32)
    expected = model.estimator.decision_function(single)
    np.testing.assert_array_equal(found.scores[:, 0], expected)


def test_a_shared_model_still_has_its_out_of_fold_scores(
    tmp_path: Path, store: Store, ridge: SavedModel
) -> None:
    push_model(ridge.folder, str(tmp_path / "shared"))
    theirs = pull_model(str(tmp_path / "shared"), tmp_path / "theirs")
    assert predict(theirs, store).to_csv() == predict(ridge, store).to_csv()
    data = (tmp_path / "shared" / "training-clips.csv").read_bytes()
    (tmp_path / "shared" / "training-clips.csv").write_bytes(
        data.replace(b"1", b"2", 1)
    )
    with pytest.raises(Corrupt, match="sha256"):
        pull_model(str(tmp_path / "shared"), tmp_path / "broken")
    assert not (tmp_path / "broken").exists()


def test_saving_again_without_a_list_leaves_none(
    tmp_path: Path, store: Store, ridge: SavedModel
) -> None:
    save_model(ridge.estimator, ridge.info, ridge.folder, X, force=True)
    assert sorted(p.name for p in ridge.folder.iterdir()) == [
        *("README.md", "model.json", "model.safetensors")
    ]
    assert "does not list its training clips" in (ridge.folder / "README.md").read_text(
        "utf-8"
    )
    wrong = TrainingClips(ClipFacts.of(["a"]), {"p:positive": np.array([0.5])})
    with pytest.raises(FixInput, match="unknown score column 'p:positive'"):
        save_model(
            ridge.estimator, ridge.info, ridge.folder, X, clips=wrong, force=True
        )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"clip_id,score:positive\na,1\n",
        b"clip,movie_id,start_s,end_s,score:positive\na,f,0,1,1\n",
        b"clip_id,movie_id,start_s,end_s,score:positive\na,f,0,1,1\na,f,0,1,2\n",
        b"clip_id,movie_id,start_s,end_s,score:positive\na,f,0,1\n",
        b"clip_id,movie_id,start_s,end_s,score:positive\na,f,0,1,much\n",
        b"clip_id,movie_id,start_s,end_s,score:positive\na,f,0,1,nan\n",
        b"clip_id,movie_id,start_s,end_s,score:positive\na,f,inf,1,1\n",
        b"clip_id,movie_id,start_s,end_s,score:positive,score:positive\na,f,0,1,1,1\n",
        b'clip_id,movie_id,start_s,end_s,score:positive\n"a,f,0,1,1\n',
        b"\xff\xfe",
        b"clip_id,movie_id,start_s,end_s,score:negative\na,f,0,1,1\n",
    ],
)
def test_a_list_of_training_clips_that_is_none_is_refused(
    ridge: SavedModel, data: bytes
) -> None:
    (ridge.folder / "training-clips.csv").write_bytes(data)
    document = json.loads((ridge.folder / "model.json").read_text("utf-8"))
    document["files"]["training-clips.csv"] = [len(data), sha256_bytes(data)]
    write_model_json(ridge.folder, document)
    with pytest.raises(Corrupt) as caught:
        load_model(ridge.folder)
    assert "training-clips.csv" in str(caught.value)


def test_the_list_reads_as_it_was_written() -> None:
    scores = {
        "p:S": np.array([0.1 + 0.2, np.nan]),
        "margin:a,b": np.array([-1e-300, 2.0]),
    }
    films = ["a film, of two", ""]
    facts = ClipFacts.of(["x,1", "y"], films, [0.1 + 0.2, None], [3.0, None])
    again = read_training_clips(TrainingClips(facts, scores).to_csv(), "here")
    assert again.clip_ids == ("x,1", "y")
    assert again.facts.movie_ids.tolist() == films
    np.testing.assert_array_equal(again.facts.start_s, facts.start_s)
    np.testing.assert_array_equal(again.facts.end_s, facts.end_s)
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
        row |= {"is_model": model == "m", "is_trained": True, "is_probability": True}
        rows.append({**row, "decision": 0, "n_seen": 9, "leaked": leaked})
    report = {"primary": "ap", "metrics": [], "replicates": 9, "compare": False}
    report |= {"questions": [], "contrast": []}
    protocol = {"report": report, "models": {}, "fit": {"seed": 0}, "paper": []}
    about = {"identity": "x", "protocol": protocol, "stores": {}, "averaged": []}
    about |= {"sizes": {}, "fits": []}
    written = {"predictions.csv": rows, "results.csv": []}
    tables = {name: table_of(name, of) for name, of in written.items()}
    run = write_run(tmp_path / "run", about, tables)
    clips = ClipFacts.of(["a", "b", "c", "d"])
    found = training_clips(run, clips, {"T": "p:positive"})
    expected = [0.375, np.nan, 0.0, np.nan]
    np.testing.assert_array_equal(found.scores["p:positive"], expected)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((), "on films it has not seen"),
        (
            ("splits.kind='kfold'", "splits.folds=4"),
            "on further clips of films that trained",
        ),
    ],
)
def test_the_card_says_what_the_folds_left_out(
    tmp_path: Path, store: Store, changes: tuple[str, ...], said: str
) -> None:
    model, _ = kept(tmp_path, store, "ridge", *changes)
    notes: Any = model.info.notes
    assert said in notes[0]


@pytest.mark.parametrize("strength", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("kind", ["ridge", "cav"])
def test_the_card_says_what_guessing_has_and_whether_the_model_is_better(
    tmp_path: Path, kind: str, strength: float
) -> None:
    """It had the value alone, and who received the model took it for good."""
    features = planted(MANIFEST, 20, strength, seed=3)
    store = store_of(tmp_path / "made", MANIFEST, features)
    changes = ("report.compare=true", "report.replicates=100")
    model, run = kept(tmp_path, store, kind, *changes, task="EN_S")
    card = (model.folder / "README.md").read_text("utf-8").replace("\\", "")
    guesses: dict[str, dict[str, float]] = defaultdict(dict)
    better = {}
    for row in rows_of(run.results, metric="ap", film=""):
        if row["against_model"]:
            is_sure = row["low"] > 0 and row["p_all"] <= 0.05
            better[row["test"], row["against_model"]] = is_sure
        elif row["model"] not in (kind, "oracle"):
            guesses[row["test"]][row["model"]] = row["value"]
    values = {}
    for name, metric in model.info.metrics.items():
        if name.endswith("ap"):
            values[name.removesuffix("ap").removesuffix(": ")] = metric["value"]
    assert len(values) == len(guesses) > 0
    for test, of_test in guesses.items():
        value = values.get(test, values.get(""))
        (line,) = [line for line in card.splitlines() if f"({test}) with AP" in line]
        found = re.search(
            r"with AP (\.?\d[\d.]*).*; guessing without video has (\S+) \((\w+)\)", line
        )
        assert found is not None
        guess = max(of_test.values())
        assert abs(of_test[found[3]] - guess) < 1e-9
        assert float(found[1]) == pytest.approx(value, abs=0.0051)
        assert float(found[2]) == pytest.approx(guess, abs=0.0051)
        assert line.startswith("- On films it has not seen, ") == better[test, found[3]]


@pytest.mark.parametrize("kind", ["mlp", "svm", "pcbm-lr", "pcbm-h"])
def test_a_kept_model_is_fitted_as_the_evaluated_one(
    kind: str, store: Store, tmp_path: Path
) -> None:
    """Fitted without the film that a run tested, the kept model has the scores of that run."""
    changes = [
        "splits.kind=fixed",
        "splits.column=movie_id",
        'splits.choose=["tt0000001"]',
    ]
    changes += ["report.replicates=20", "report.compare=false"]
    if kind.startswith("pcbm"):
        changes += ["model.tolerance=0.1", "model.cross_fit=2"]
    tested = training_protocol(
        kind, "ENHN_S", MANIFEST, [*changes, f'splits.test=["{LAST}"]']
    )
    run = run_protocol(
        gather(tested, MANIFEST, "made-up", {"sig": store}), tmp_path / "run"
    )
    evaluated = {
        row["clip_id"]: row["score"] for row in rows_of(run.predictions, model=kind)
    }
    assert {FILM[clip] for clip in evaluated} == {LAST}

    without = training_protocol(
        kind, "ENHN_S", TRAINED, [*changes, 'splits.test=["tt0000006"]']
    )
    inputs = gather(without, TRAINED, "made-up", {"sig": store})
    model = load_model(fit_final(inputs, run, tmp_path / "kept")).estimator
    unseen = X[[row for row, clip in enumerate(MANIFEST) if clip.clip_id in evaluated]]
    is_machine = not hasattr(model, "predict_proba")
    scores = (
        model.decision_function(unseen)
        if is_machine
        else model.predict_proba(unseen)[:, 1]
    )
    in_order = [
        evaluated[clip.clip_id] for clip in MANIFEST if clip.clip_id in evaluated
    ]
    np.testing.assert_allclose(scores, in_order, rtol=1e-9)
