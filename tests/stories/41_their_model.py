"""Story 41: I received a model, and want to know how well it does on my clips, by my labels."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.metrics import average_precision_score
from support.once import made_once

from stories.films import features_of, labelled_clips
from stories.results import logistic
from stories.workspace import Workspace

QUICK = "--set report.replicates=30"

Rows = list[dict[str, Any]]


def import_lab(ws: Workspace, rows: Rows, X: npt.NDArray[np.float32]) -> None:
    """Make the manifest `films` and the store `seen`; both labs compute features in one way."""
    ws.import_table(rows, "films")
    np.savez(ws.path("seen.npz"), clip_id=[row["clip_id"] for row in rows], clip=X)
    ws("store import seen.npz --manifest films --backbone sight -o seen")


def make_labs(folder: Path) -> None:
    maker = Workspace(folder / "maker")
    rows = training_clips()
    import_lab(maker, rows, features_of(rows, level=1.5, width=6, seed=2))
    maker(
        "train logistic --store seen --manifest films --set model.C=0.5"
        f" {QUICK} --jobs 1 -o keeper"
    )
    maker(f"models push keeper {folder / 'sent'}")

    receiver = Workspace(folder / "receiver")
    draws = np.random.default_rng(3)
    own = labelled_clips(n_films=8, per_film=15, seed=4)
    for row in own:
        row["clip_id"] = f"own-{row['clip_id']}"
        row["movie_id"] = f"own-{row['movie_id']}"
        is_violent = draws.random() < (0.7 if row["level"] == "S" else 0.2)
        row["violent"] = "yes" if is_violent else "no"
    import_lab(receiver, own, features_of(own, level=1.5, width=6, seed=5))
    receiver(f"models pull {folder / 'sent'} -o theirs")


def training_clips() -> Rows:
    return labelled_clips(n_films=5, per_film=20, seed=1)


@pytest.fixture
def lab(ws: Workspace) -> Workspace:
    """The lab that received the model `theirs`; the lab that made it is beside it."""
    ws.copy_of(made_once("stories", make_labs, "their model"))
    return Workspace(ws.folder / "receiver")


def rows_of(ws: Workspace, run: str, model: str = "theirs") -> list[dict[str, str]]:
    rows = ws.read_table(f"runs/{run}/predictions.csv")
    return [row for row in rows if row["model"] == model]


def ap_of(rows: list[dict[str, str]]) -> float:
    y = [int(row["y"]) for row in rows]
    return float(average_precision_score(y, [float(row["score"]) for row in rows]))


def value_of(ws: Workspace, run: str, model: str = "theirs") -> dict[str, str]:
    rows = ws.read_table(f"runs/{run}/results.csv")
    of_model = [row for row in rows if row["model"] == model and not row["film"]]
    (row,) = [
        row for row in of_model if row["metric"] == "ap" and not row["against_model"]
    ]
    return row


def test_the_score_on_my_films_is_that_of_the_model_by_my_labels(lab) -> None:
    answer = lab(f"models test theirs --store seen --manifest films {QUICK} -o tested")
    rows = rows_of(lab, "tested")
    features = np.load(lab.path("seen.npz"))
    row_of = {clip: row for row, clip in enumerate(features["clip_id"].tolist())}
    X = features["clip"][[row_of[row["clip_id"]] for row in rows]].astype(float)
    scores = [float(row["score"]) for row in rows]
    # The same model as scikit-learn fits it.
    trained = training_clips()
    is_learned = np.array([row["level"] in ("EN", "S") for row in trained])
    y = np.array([row["level"] == "S" for row in trained])
    of_trained = features_of(trained, level=1.5, width=6, seed=2)
    model = logistic(of_trained[is_learned], y[is_learned])
    np.testing.assert_allclose(scores, model.predict_proba(X)[:, 1], atol=1e-4)
    level = {row["clip_id"]: row["level"] for row in lab.read_table("films.csv")}
    with_class = [clip for clip in level if level[clip] in ("EN", "S")]
    assert [row["clip_id"] for row in rows] == with_class
    assert all((row["y"] == "1") == (level[row["clip_id"]] == "S") for row in rows)
    value = value_of(lab, "tested")
    assert float(value["value"]) == pytest.approx(ap_of(rows), abs=1e-12)
    assert value["basis"] == "unseen"
    assert value["films"] == "8"
    assert 0 < float(value["low"]) < float(value["value"]) < float(value["high"]) <= 1
    shown = f"{ap_of(rows):.2f}".removeprefix("0")
    assert "theirs ranks clips better than" in answer.text
    assert re.search(rf"theirs +{re.escape(shown)} \[", answer.out)


def test_a_report_and_a_comparison_with_my_own_model_follow(lab: Workspace) -> None:
    lab(
        f"models test theirs --store seen --manifest films --task violent {QUICK} -o tested"
    )
    models = """--set 'grid.models=["ridge"]' --set report.concepts=false"""
    lab(
        f"run honest --manifest films --store seen --task violent {models} {QUICK} -o mine"
    )
    lab("report tested mine")
    page = lab.read("runs/tested/reports.html")
    assert "Does theirs rank clips that it was not trained on?" in page
    assert "theirs was trained for the task EN_S (S, against EN)." in page
    answer = lab("compare tested mine -o compared.csv")
    of_run = {
        row["store"]: row
        for row in lab.read_table("compared.csv")
        if row["model"] == "theirs / ridge"
    }
    assert {row["test"] for row in of_run.values()} == {"violent"}
    assert {row["clips"] for row in of_run.values()} == {"120"}
    # The own run has a model for each film, which is a fold.
    folds: dict[str, list[dict[str, str]]] = {}
    for row in rows_of(lab, "mine", "ridge"):
        folds.setdefault(row["fold"], []).append(row)
    ours = float(of_run["mine"]["value"])
    expected = np.mean([ap_of(rows) for rows in folds.values()])
    assert ours == pytest.approx(expected, abs=1e-12)
    # The received model ranks all films together: an AP of another kind, which is not subtracted.
    theirs = float(of_run["tested"]["value"])
    of_theirs = rows_of(lab, "tested", "theirs")
    assert theirs == pytest.approx(ap_of(of_theirs), abs=1e-12)
    assert {row["against_store"] for row in of_run.values()} == {""}
    reason = (
        "AP of tested is of all test clips together, and AP of mine is a mean over"
        f" {len(folds)} folds"
    )
    assert of_run["mine"]["why_not"] == reason
    assert f"No difference, because {reason}" in answer.text
    lab("compare tested mine -o compared.tex")
    for text in (lab.read("compared.tex"), page):
        assert reason in text
    assert "theirs / ridge" in answer.text


def test_clips_that_it_was_trained_on_are_no_test(lab: Workspace) -> None:
    maker = lab.folder.parent / "maker"
    # The sender gives the clips and the features of the training, too.
    lab(f"store pull {maker / 'stores' / 'seen'} -o sent-features")
    lab(f"manifest import {maker / 'films.csv'} -o sent-films")
    lab("models test theirs --store sent-features --manifest sent-films", code=1)
    lab("store merge seen sent-features -o both")
    lab("manifest merge films sent-films -o both")
    answer = lab(f"models test theirs --store both --manifest both {QUICK} -o tested")
    sent = lab.read_table(str(maker / "films.csv"))
    n_trained = sum(row["level"] in ("EN", "S") for row in sent)
    assert (
        f"Left out: {n_trained} clips with a class in EN_S, which were used to train theirs."
        in answer.text
    )
    ids = {row["clip_id"] for row in rows_of(lab, "tested")}
    assert all(clip.startswith("own-") for clip in ids)
    films = {clip["movie_id"] for clip in rows_of(lab, "tested")}
    assert f"{len(ids)} clips of {len(films)} films, manifest" in answer.text
    assert "the model never saw these films" in answer.text
    # Only clips that would be tested are counted as clips without features: neither the training
    # clips, nor clips without a class in the task.
    own = lab.read_table("films.csv")
    kept = [row["clip_id"] for number, row in enumerate(own) if number % 4]
    lab.path("kept.txt").write_text("\n".join(kept), "utf-8")
    lab("store subset seen --clips kept.txt -o part")
    answer = lab(f"models test theirs --store part --manifest both {QUICK} -o partly")
    with_class = [row["clip_id"] for row in own if row["level"] in ("EN", "S")]
    without = [clip for clip in with_class if clip not in kept]
    assert 0 < len(without) < len(own) - len(kept)
    said = f"{len(without)} of {len(with_class)} clips to test have no features in part"
    assert said in answer.text
    assert len(rows_of(lab, "partly")) == len(with_class) - len(without)
