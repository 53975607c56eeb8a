"""Joined features: a factor for each part, honest gains, and models that keep the factors."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score
from support.experiments import films, planted, quick, run_on
from support.joined_stores import joined_stores, recipe_of
from support.stores import made_store
from support.tables import rows_of, the_cell

import obygaze as og
from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Row
from obygaze_features.store.joining import JoinedPart, JoinedStore
from obygaze_models.models.common import FixTraining
from obygaze_models.models.scaling import FeaturePart, PartScaling
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner import training
from obygaze_models.runner.answer import answers
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.text import result_text
from obygaze_models.runner.training import _feature_spec
from obygaze_models.zoo.saving import save_model

MANIFEST = films(5, 30, seed=8)
# The clips that train models that are kept.
FEWER = films(3, 24, seed=8)
FEW_FITS = (
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
    "report.contrast=[]",
    "report.concepts=false",
    "models.pcbm-lr.tolerance=0.1",
    "models.pcbm-lr.cross_fit=2",
)


def senses(manifest: Manifest = MANIFEST) -> dict[str, NDArray[Any]]:
    """Two senses of other widths and scales."""
    return {
        "seen": planted(manifest, width=14, strength=0.6, seed=1),
        "heard": 6 * planted(manifest, width=22, strength=0.6, seed=2),
    }


def fusion(*changes: str, replicates: int = 60) -> Protocol:
    return quick("honest", "data.view=raw", *FEW_FITS, *changes, replicates=replicates)


def factors_by_hand(X: NDArray[Any], widths: list[int]) -> NDArray[np.float64]:
    parts = np.split(X.astype(np.float64), np.cumsum(widths)[:-1], axis=1)
    V = np.array([((part - part.mean(axis=0)) ** 2).sum() / len(X) for part in parts])
    return np.sqrt(V.mean() / (len(parts) * V))


def test_a_model_names_its_stores_without_their_folders() -> None:
    facts = {"backbone": "b", "array": "clip", "dtype": "float32", "width": 4}
    one = {**facts, "fingerprint": "ab", "location": "/films/a+b/seen"}
    assert _feature_spec(one).store == "seen"
    parts = {"seen": one, "heard": {**one, "location": "x/heard"}}
    joined = {**one, "location": "/films/seen+x/heard", "parts": parts}
    assert _feature_spec(joined).store == "seen+heard"


# ---- the factors ----


def test_a_part_that_is_the_same_for_all_clips_is_refused() -> None:
    X = np.ones((6, 5))
    X[:, :2] = np.arange(12).reshape(6, 2)
    parts = [FeaturePart("seen", 2), FeaturePart("heard", 3)]
    with pytest.raises(FixTraining, match="heard is the same for all training clips"):
        PartScaling(parts).fit(X)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of films of which one has no sound in some clips."""
    folder = tmp_path_factory.mktemp("fusion")
    lacking = {"heard": MANIFEST.clip_ids[:6]}
    stores = joined_stores(folder / "stores", MANIFEST, senses(), lacking)
    models = 'grid.models=["ridge", "pcbm-lr"]'
    protocol = fusion(models, 'grid.baselines=["random"]')
    return run_on(folder, protocol, MANIFEST, stores)


def test_each_fold_has_the_factors_of_its_training_rows(run: Run) -> None:
    X = np.concatenate([senses()["seen"], senses()["heard"]], axis=1)
    films_of = np.array([clip.movie_id for clip in MANIFEST])
    levels = np.array([clip.level for clip in MANIFEST])
    is_kept = np.arange(len(X)) >= 6
    is_in_task = np.isin(levels, ["EN", "S"]) & is_kept
    for model in ("ridge", "pcbm-lr"):
        cell = the_cell(run, model=model, store="joined")
        for fold in run.folds_of(cell):
            tests = rows_of(run.predictions, fold=fold["fold"], model=model)
            (tested,) = {row["movie_id"] for row in tests}
            # Concept vectors are found on all clips with a level.
            rows = is_kept if model == "pcbm-lr" else is_in_task
            expected = factors_by_hand(X[rows & (films_of != tested)], [14, 22])
            found = fold["chosen"]["part_factors"]
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    single = run.folds_of(the_cell(run, model="ridge", store="seen"))[0]["chosen"]
    assert "part_factors" not in single


# ---- the gain ----


def ap_of_films(run: Run, store: str) -> dict[str, float]:
    films_of: dict[str, list[dict[str, Any]]] = {}
    for row in rows_of(run.predictions, model="ridge", store=store):
        films_of.setdefault(row["movie_id"], []).append(row)
    values = {}
    for film, rows in films_of.items():
        scores = [row["score"] for row in rows]
        values[film] = average_precision_score([row["y"] for row in rows], scores)
    return values


def test_the_gain_is_joined_minus_each_part(run: Run) -> None:
    joined = ap_of_films(run, "joined")
    of_two = {"model": "ridge", "against_model": "ridge"}
    compared = rows_of(run.results, **of_two)
    for part in ("seen", "heard"):
        (row,) = rows_of(run.results, store="joined", against_store=part, **of_two)
        alone = ap_of_films(run, part)
        by_hand = np.mean([joined[film] - alone[film] for film in joined])
        assert row["value"] == pytest.approx(by_hand, abs=1e-9)
        assert row["first"] - row["second"] == pytest.approx(row["value"], abs=1e-12)
        assert row["low"] <= row["value"] <= row["high"]
        assert 0 < row["p"] <= 1
    assert len(compared) == 3
    # All differences that the run asks for are one family.
    asked = run.results[run.results["asked"].notna()]
    asked = asked[asked["against_model"] != ""]
    assert set(asked["comparisons"]) == {float(len(asked))}
    assert "ridge (joined) - ridge (seen)" in result_text(run)


@pytest.mark.parametrize(
    ("p", "tested", "verdict", "expected"),
    [
        (
            0.01,
            0.1,
            "yes",
            "{} are better than seen (p = .010) and than heard (p = .010).",
        ),
        (
            *(0.4, 0.1, "not shown"),
            "{}: they are not shown to be better than seen (p = .400); they are not shown to be"
            " better than heard (p = .400).",
        ),
        (
            *(0.02, -0.1, "no, worse"),
            "{}: they are worse than seen (p = .020); they are worse than heard (p = .020).",
        ),
    ],
)
def test_the_sentence_says_only_what_p_says(run, p, tested, verdict, expected) -> None:
    changed = run.results.copy()
    is_gain = (changed["store"] == "joined") & (changed["against_store"] != "")
    changed.loc[is_gain, ["p", "tested"]] = (p, tested)
    changed.loc[is_gain, "verdict"] = verdict
    known = {**run.known, "results.csv": changed}
    first = answers(replace(run, known=known))[0]
    assert first.removeprefix("Yes. ") == expected.format("seen and heard together")


# ---- what is refused ----


def test_what_has_no_meaning_for_joined_features_is_refused(tmp_path: Path) -> None:
    stores = joined_stores(tmp_path, MANIFEST, senses())

    def refused(message: str, *changes: str) -> None:
        with pytest.raises(FixUsage, match=message):
            gather(fusion(*changes), MANIFEST, "made-up", stores)

    joined = r"joined is the join seen\+heard"
    refused(f"{joined}.* cannot have data.scale", "data.scale=standard")
    refused(f"{joined}.* cannot have data.scale", "data.scale=unit")


def test_two_joins_have_the_same_clips(tmp_path: Path) -> None:
    """A clip that lacks a part of one of them is in neither."""
    values = {**senses(), "read": planted(MANIFEST, width=13, seed=4)}
    silent = MANIFEST.clip_ids[3:9]
    stores = joined_stores(tmp_path, MANIFEST, values, {"read": silent})
    of_two = [JoinedPart(name, stores[name], name) for name in ("seen", "heard")]
    used = {"with": stores["joined"], "without": JoinedStore(of_two)}
    inputs = gather(quick(), MANIFEST, "made-up", used)
    for store in inputs.stores:
        absent = np.flatnonzero(~store.present).tolist()
        assert [inputs.table.ids[row] for row in absent] == list(silent)
        assert len(store.X) == len(MANIFEST) - len(silent)
    remark = inputs.table.remarks["left out"]
    assert remark.startswith("Clips without the features of a store are excluded.")


def test_a_gain_needs_the_stores_of_all_parts(tmp_path: Path) -> None:
    """Else the gain could be that of the part which was never tried alone."""
    values = {**senses(), "read": planted(MANIFEST, width=13, seed=4)}
    stores = joined_stores(tmp_path, MANIFEST, values)
    without = {name: store for name, store in stores.items() if name != "read"}
    ridge = ('grid.models=["ridge"]', 'grid.baselines=["random"]')
    found = run_on(tmp_path, fusion(*ridge, replicates=2), MANIFEST, without)
    assert not any("together" in text for text in answers(found))
    rows = [Row(clip.clip_id, clip.movie_id) for clip in MANIFEST]
    X = values["read"].astype(np.float32)
    of_two = {"clip": X, "pooled": X}
    read = made_store(tmp_path / "two", rows, of_two, recipe=recipe_of("read"))
    parts = [JoinedPart("read", read, "read:pooled", "pooled")]
    parts += [JoinedPart(name, stores[name], name) for name in ("seen", "heard")]
    used = {**stores, "read": read, "joined": JoinedStore(parts)}
    read_so = "the array pooled of read, but the store read is read with the array clip"
    with pytest.raises(FixUsage, match=read_so) as error:
        gather(fusion(), MANIFEST, "made-up", used)
    assert error.value.hint == "write read without :pooled in the join"


# ---- models that are kept ----


QUICK_TRAINING = {"pcbm-h": ("model.tolerance=0.1", "model.cross_fit=2")}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    write_manifest(FEWER, folder / "manifests" / f"{FEWER.name}.toml")
    joined_stores(folder / "stores", FEWER, senses(FEWER))
    return folder


@pytest.mark.parametrize("kind", ["ridge", "cav", "pcbm-h"])
def test_a_saved_model_gives_stored_features_the_scores_of_the_fit(
    workspace, kind, monkeypatch
):
    """Its first step has the factors: the second reads features times these."""
    fits = []

    def recorded(estimator: Any, *arguments: Any, **others: Any) -> Path:
        fits.append([step for _, step in estimator.steps])
        return save_model(estimator, *arguments, **others)

    monkeypatch.setattr(training, "save_model", recorded)
    changes = (
        "report.replicates=2",
        "report.concepts=false",
        *QUICK_TRAINING.get(kind, ()),
    )
    _, model = og.train(
        kind,
        "heard+seen",
        FEWER.name,
        changes=changes,
        output=f"kept-{kind}",
        n_jobs=1,
        workspace=workspace,
    )
    assert model.info.features.backbone == "heard + seen"
    parts = [(part.store, part.width) for part in model.info.features.parts]
    assert parts == [("heard", 22), ("seen", 14)]
    assert model.info.training.view == "raw"
    predicted = og.predict(
        f"kept-{kind}", "seen+heard", in_sample=True, workspace=workspace
    )
    scaling, fitted = fits[0]
    rows = [FEWER.clip_ids.index(clip) for clip in predicted.clip_ids]
    values = senses(FEWER)
    X = np.concatenate([values["heard"], values["seen"]], axis=1)[rows]
    factors = np.repeat(scaling.factors_, [22, 14])
    scaled = X.astype(np.float64) * factors
    if kind == "cav":
        found = np.column_stack([*predicted.margins.values()])
        expected = fitted.margins(scaled)
    elif hasattr(fitted, "predict_proba"):
        found = predicted.scores
        expected = fitted.predict_proba(scaled)
    else:
        found = predicted.scores[:, 0]
        expected = fitted.decision_function(scaled)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    # The factors are in use: without them, the scores are others.
    assert np.ptp(scaling.factors_) > 0.1 * scaling.factors_.max()
