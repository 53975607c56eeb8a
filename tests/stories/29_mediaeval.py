"""Story 29: from the tables of LIRIS-ACCEDE to both official run files of MediaEval 2015 and their
scores."""

import re

import numpy as np
import pytest
from golden import worlds

from stories.films import Row
from stories.workspace import Workspace

SCALES = ("valence", "arousal")


def write_annotations(ws: Workspace, folder: str, excerpts: list[Row]) -> None:
    for name, text in worlds.accede_files(excerpts).items():
        if name.endswith("affect.txt"):
            # The rows of the files are not in one order: they are joined by name.
            head, *rows = text.splitlines(keepends=True)
            text = "".join([head, *reversed(rows)])
        ws.write(f"{folder}/{name}", text)


def begin(ws: Workspace) -> list[Row]:
    excerpts = worlds.accede_excerpts(n_films=9, per_film=10)
    write_annotations(ws, "annotations", excerpts)
    ws("manifest import annotations --as liris-accede -o accede")
    names = [excerpt["name"] for excerpt in excerpts]
    X = worlds.accede_features(excerpts)
    X[:, 0] += [1.0 * excerpt["violence"] for excerpt in excerpts]
    np.savez(ws.path("features.npz"), clip_id=names, X=X.astype(np.float32))
    ws("store import features.npz --array clip=X --manifest accede -o features")
    return excerpts


def train_violence(ws: Workspace, manifest: str, model: str) -> None:
    ws(
        f"train ridge --store features --manifest {manifest} --task violence -o {model}"
        " --set tasks.violence.column=violence"
        """ --set 'tasks.violence.values={ "0" = 0, "1" = 1 }'"""
        " --set splits.kind=fixed --set splits.column=fold:mediaeval2015"
        """ --set 'splits.test=["0"]' --set report.replicates=20"""
    )
    ws(f"models predict {model} features -o {model}.csv")
    ws(f"audit mediaeval --write {model}.txt --predictions {model}.csv")


def read_run(ws: Workspace, name: str) -> dict[str, float]:
    scores = {}
    form = re.compile(r"violence Q0 (\S+) (\d+) (\S+) \S+")
    for rank, line in enumerate(ws.read(name).splitlines(), start=1):
        found = form.fullmatch(line)
        assert found is not None, line
        assert int(found[2]) == rank
        scores[found[1]] = float(found[3])
    return scores


def trec_eval(judgements: dict[str, int], scores: dict[str, float]) -> float:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    evaluator = pytrec_eval.RelevanceEvaluator({"violence": judgements}, {"map"})
    return float(evaluator.evaluate({"violence": scores})["violence"]["map"])


def test_a_run_of_violence_has_the_test_clips_and_the_score_of_trec_eval(ws) -> None:
    excerpts = begin(ws)
    train_violence(ws, "accede", "violence")
    scores = read_run(ws, "violence.txt")
    judgements = {}
    for one in excerpts:
        if one["is_test"]:
            judgements[f"{one['name']}.mp4"] = one["violence"]
    assert scores.keys() == judgements.keys()
    assert list(scores.values()) == sorted(scores.values(), reverse=True)

    document = ws("audit mediaeval violence.txt --manifest accede --json").json()
    found = document["violence"]
    assert found["ap_trec"] == pytest.approx(trec_eval(judgements, scores), abs=1e-9)
    n = len(judgements)
    n_relevant = sum(judgements.values())
    assert found["ap_trec"] > n_relevant / n + 0.2


def test_the_labels_of_the_test_films_change_no_score_of_their_clips(ws) -> None:
    excerpts = begin(ws)
    train_violence(ws, "accede", "violence")
    flipped = []
    for one in excerpts:
        violence = 1 - one["violence"] if one["is_test"] else one["violence"]
        flipped.append({**one, "violence": violence})
    write_annotations(ws, "flipped", flipped)
    ws("manifest import flipped --as liris-accede -o flipped")
    train_violence(ws, "flipped", "other")
    assert read_run(ws, "other.txt") == read_run(ws, "violence.txt")


def test_a_run_of_affect_has_the_accuracies_of_the_task(ws: Workspace) -> None:
    excerpts = [one for one in begin(ws) if one["is_test"]]
    draws = np.random.default_rng(7)
    scores = {name: draws.uniform(-1, 1, len(excerpts)) for name in SCALES}
    rows = []
    for number, one in enumerate(excerpts):
        row = {name: float(scores[name][number]) for name in SCALES}
        rows.append({"clip_id": f"{one['name']}.mp4", **row})
    # The run does not have the last four clips, which count as wrong.
    ws.write_table("scores.csv", rows[:-4])
    ws("audit mediaeval --write affect.txt --affect scores.csv")
    answer = ws("audit mediaeval affect.txt --manifest accede --table scores-of.csv")
    assert "rules of the task" not in answer.text
    table = {row["subtask"]: row for row in ws.read_table("scores-of.csv")}
    assert table.keys() == {*SCALES}
    for name, found in table.items():
        classes = np.where(abs(scores[name]) <= 0.15, 0, np.sign(scores[name]))
        y = np.array([one[name] for one in excerpts])
        n_right = (classes == y)[:-4].sum()
        assert float(found["value"]) == pytest.approx(n_right / len(excerpts))
