"""Story 15: I ask which concepts a model uses, correct them, remove them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import logit
from sklearn.svm import SVC

from stories.films import (
    CONCEPTS,
    Row,
    features_of,
    import_features,
    labelled_clips,
)
from stories.results import scores_of, the_result
from stories.workspace import Workspace

QUICK = "--set report.replicates=100 --jobs 1"

# How tolerant the paper's code is to clips on the wrong side of a concept's border.
PUBLISHED_C = {"Look": 0.05, "Body": 0.05, "Posture": 0.01, "Clothing": 0.01}


def has_concept(rows: list[Row], concept: str) -> npt.NDArray[np.bool_]:
    """Return which clips have a concept."""
    return np.array([concept in row["concepts"].split("|") for row in rows])


def test_concept_vectors_are_those_of_the_published_machines(ws: Workspace) -> None:
    rows = labelled_clips(n_films=8, per_film=15)
    X = features_of(rows, concepts=1.5, width=8)
    import_features(ws, rows, X, "planted")
    ws(f"train cav planted films -o cav {QUICK}")
    ws("models predict cav planted --in-sample -o margins.csv")
    margins = ws.read_table("margins.csv")
    for column, concept in enumerate(CONCEPTS, start=1):
        machine = SVC(
            kernel="linear",
            C=PUBLISHED_C[concept],
            class_weight="balanced",
            tol=1e-8,
        )
        machine.fit(X.astype(float), has_concept(rows, concept))
        direction = machine.coef_[0] / np.linalg.norm(machine.coef_)
        assert np.abs(direction).argmax() == column
        expected = machine.decision_function(X.astype(float))
        expected = expected / np.linalg.norm(machine.coef_)
        found = [float(row[f"margin:{concept}"]) for row in margins]
        np.testing.assert_allclose(found, expected, atol=0.01)


def clips_of_a_look(ws: Workspace) -> tuple[str, str]:
    """Make clips that are S because of a look; return two of film08 that mislead.

    In the first, which is S, no look can be seen; in the second, which is EN, one is seen.
    """
    rows = labelled_clips(n_films=8, per_film=12)
    for row in rows:
        row["concepts"] = {"S": "Look", "HN": "Body", "EN": ""}[row["level"]]
    X = features_of(rows, concepts=4.0, width=8)
    column_of_look = 1 + CONCEPTS.index("Look")
    of_last_film = [n for n, row in enumerate(rows) if row["movie_id"] == "film08"]
    unseen_look = next(n for n in of_last_film if rows[n]["level"] == "S")
    seen_look = next(n for n in of_last_film if rows[n]["level"] == "EN")
    X[unseen_look, column_of_look] -= 4.0
    X[seen_look, column_of_look] += 4.0
    import_features(ws, rows, X, "looks")
    return rows[unseen_look]["clip_id"], rows[seen_look]["clip_id"]


@pytest.mark.parametrize("kind", ["pcbm-h", "pcbm-dt"])
def test_correcting_a_concept_flips_the_decision(ws: Workspace, kind: str) -> None:
    unseen_look, seen_look = clips_of_a_look(ws)
    ws(
        f"train {kind} looks films -o corrected {QUICK} --set model.tolerance=0.1"
        """ --set 'data.where="movie_id != film08"'"""
    )
    ws("models predict corrected looks --in-sample -o predicted.csv")
    clips = {row["clip_id"]: row for row in ws.read_table("predicted.csv")}
    assert clips[unseen_look]["basis"] == clips[seen_look]["basis"] == "unseen"
    assert clips[unseen_look]["decision"] == "negative"
    assert clips[seen_look]["decision"] == "positive"

    # What concepts (and the residual) contribute, and one base, is the whole of a score.
    border = 0.5 if kind == "pcbm-dt" else 0.0
    scores: dict[str, float] = {}
    parts: dict[str, dict[str, float]] = {}
    bases = []
    for clip_id, row in clips.items():
        probability = float(row["p:positive"])
        scores[clip_id] = (
            probability if kind == "pcbm-dt" else float(logit(probability))
        )
        parts[clip_id] = contributions(row)
        bases.append(scores[clip_id] - sum(parts[clip_id].values()))
    assert np.ptp(bases) < 1e-6
    assert ("residual" in parts[seen_look]) == (kind == "pcbm-h")

    # What was annotated in the two clips takes the place of what is seen in them.
    annotated = {row["clip_id"]: row["concepts"] for row in ws.read_table("films.csv")}
    with_look = [parts[name]["Look"] for name in clips if annotated[name] == "Look"]
    without_look = [parts[name]["Look"] for name in clips if annotated[name] != "Look"]
    change = np.median(with_look) - parts[unseen_look]["Look"]
    assert scores[unseen_look] < border < scores[unseen_look] + change
    change = np.median(without_look) - parts[seen_look]["Look"]
    assert scores[seen_look] + change < border < scores[seen_look]


def contributions(row: dict[str, str]) -> dict[str, float]:
    """Return what each concept contributes to the score of a clip."""
    found: dict[str, float] = {}
    for column, value in row.items():
        kind, _, concept = column.partition(":")
        if kind == "contribution":
            found[concept] = float(value)
    return found


def erased(ws: Workspace, run: str, manifest: str, concepts: str) -> None:
    """Learn two concepts from features, of which some concepts are removed before."""
    ws(
        f"run honest --manifest {manifest} --store planted -o {run} {QUICK}"
        """ --set 'tasks.Look.positive="Look in concept"'"""
        """ --set 'tasks.Body.positive="Body in concept"'"""
        """ --set 'grid.train=["Look", "Body"]' --set 'grid.test=["Look", "Body"]'"""
        """ --set grid.pairs=same --set 'grid.models=["ridge"]'"""
        """ --set 'grid.baselines=["random"]'"""
        """ --set report.contrast=[] --set report.concepts=false"""
        f" --set 'data.erase=[{concepts}]'"
    )


def test_an_erased_concept_is_gone_and_the_others_stay(ws: Workspace) -> None:
    rows = labelled_clips(n_films=8, per_film=15)
    import_features(ws, rows, features_of(rows, concepts=1.5, width=8), "planted")
    erased(ws, "before", "films", "")
    erased(ws, "after", "films", '"Look"')
    before = the_result(ws, "before", model="ridge", test="Look")
    after = the_result(ws, "after", model="ridge", test="Look")
    assert before["auc_low"] > 0.5
    assert after["auc_low"] < 0.5 < after["auc_high"]
    assert after["auc_high"] < before["auc"]
    other = the_result(ws, "after", model="ridge", test="Body")
    assert other["auc_low"] > 0.5

    # Erasing learns nothing from the film that is tested: its own looks change no score of it.
    for row in rows:
        if row["movie_id"] == "film08" and row["level"] != "EN":
            row["concepts"] = "Body" if "Look" in row["concepts"] else "Body|Look"
    ws.write_table("other.csv", rows)
    ws("manifest import other.csv -o other")
    erased(ws, "other", "other", '"Look"')
    of_film = scores_of(ws, "after", model="ridge", test="Look", movie_id="film08")
    assert of_film == scores_of(
        ws, "other", model="ridge", test="Look", movie_id="film08"
    )
