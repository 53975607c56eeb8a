"""Story 9, its second half: from my own table to a score of my own question.

My labels are yes and no, a rating of 0 to 3, or three words. I want to ask for them by the name of
their column, and the score that scikit-learn would give; what was not annotated is no negative.
"""

import itertools
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from support.ties import ap_by_brute_force

import obygaze as og
from stories.results import Row, in_order, results_of, scores_of, the_result
from stories.workspace import Workspace

FILMS = tuple(f"film{number}" for number in range(1, 9))
PER_FILM = 8
MOODS = ("anger", "fear", "joy")
BAYES = """--set 'grid.models=["bayes"]' --set models.bayes.kind=sklearn.naive_bayes.GaussianNB"""
GUESS = """--set 'grid.baselines=["random"]'"""
QUICK = (
    f"{BAYES} {GUESS} --set report.replicates=50 --set report.compare=false --jobs 1"
)
ANSWER = 1000.0

Array = npt.NDArray[Any]


def table_of_clips() -> tuple[list[Row], Array]:
    """Return clips with three labels, of which some are empty, and their features.

    Where a label is empty, one feature gives the clip away as what it would be: whoever takes it
    for a negative, or trains on it, has other scores.
    """
    draws = np.random.default_rng(5)
    rows: list[Row] = []
    # Rounded, so that many clips have equal scores.
    X = np.round(draws.normal(size=(len(FILMS) * PER_FILM, 4)))
    for film, number in itertools.product(FILMS, range(PER_FILM)):
        features = X[len(rows)]
        label = features + draws.normal(size=4)
        row = {
            "clip_id": f"{film}-{number + 1}",
            "movie_id": film,
            "violent": "Yes" if label[0] > 0 else "No",
            "Rating Ben": int(np.clip(np.round(label[1] + 1.5), 0, 3)),
            "mood": MOODS[int(np.argmax(label[1:]))],
        }
        # Each film begins with clips of both classes.
        if number < 3:
            row["violent"] = ("Yes", "No", "No")[number]
            row["Rating Ben"] = (3, 0, 1)[number]
            row["mood"] = MOODS[number]
        if number == PER_FILM - 1:
            features[:] = ANSWER * (row["violent"] == "Yes")
            row |= {"violent": "", "Rating Ben": "", "mood": ""}
        rows.append(row)
    return rows, X.astype(np.float32)


def import_own(ws: Workspace, rows: list[Row], X: Array) -> str:
    """Import a table without levels, and its features; return what is said of the table."""
    ws.write_table("own.csv", rows)
    said = ws("manifest import own.csv -o films").text
    np.savez(ws.path("own.npz"), clip_id=[row["clip_id"] for row in rows], X=X)
    ws("store import own.npz --array clip=X --manifest films -o own")
    return said


def check_against_sklearn(ws, run, task: str, rows, X: Array, y: Array) -> None:
    """Compare the scores and metrics of a task with scikit-learn's; y is -1 outside of it."""
    used = np.flatnonzero(y >= 0)
    X = X.astype(np.float64)
    films = np.array([rows[row]["movie_id"] for row in used])
    ids = [rows[row]["clip_id"] for row in used]
    expected = np.zeros(len(used))
    for film in FILMS:
        tested = films == film
        model = GaussianNB().fit(X[used][~tested], y[used][~tested])
        expected[tested] = model.predict_proba(X[used][tested])[:, 1]
    scores = in_order(scores_of(ws, run, model="bayes", test=task), ids)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-9)

    result = the_result(ws, run, model="bayes", test=task)
    assert result["clips"] == len(used)
    aps = []
    aucs = []
    pairs = []
    for film in FILMS:
        of_film = y[used][films == film]
        of_scores = expected[films == film]
        ap = average_precision_score(of_film, of_scores)
        if len(set(of_scores)) < len(of_scores):
            ap = ap_by_brute_force(of_film, of_scores)
        aps.append(ap)
        aucs.append(roc_auc_score(of_film, of_scores))
        pairs.append(of_film.sum() * (1 - of_film).sum() / len(of_film))
    decided = expected > 0.5
    assert result["ap"] == pytest.approx(np.mean(aps), abs=1e-9)
    auc = np.average(aucs, weights=pairs)
    assert result["auc"] == pytest.approx(auc, abs=1e-9)
    binary = f1_score(y[used], decided)
    weighted = f1_score(y[used], decided, average="weighted")
    assert result["f1_binary"] == pytest.approx(binary, abs=1e-9)
    assert result["f1_weighted"] == pytest.approx(weighted, abs=1e-9)


def classes(rows: list[Row], column: str, positive: tuple[Any, ...]) -> Array:
    """Return the class of each clip by hand: 1, 0, or -1 where its cell is empty."""
    of_cells = []
    for row in rows:
        cell = row[column]
        of_cells.append(-1 if cell == "" else int(cell in positive))
    return np.array(of_cells)


def test_scores_of_own_labels_are_those_of_scikit_learn(ws: Workspace) -> None:
    rows, X = table_of_clips()
    said = import_own(ws, rows, X)
    for column in ("violent", "mood"):
        n_of_word = sorted(Counter(row[column] for row in rows if row[column]).items())
        words = ", ".join(f"{word}: {n}" for word, n in n_of_word)
        assert f"{column} ({words}, empty: {len(FILMS)})" in said
    asked = "--task violent --task 'Rating Ben>=2' --task mood"
    done = ws(f"run honest --store own {asked} -o own {QUICK}")
    tasks = {
        "violent": classes(rows, "violent", ("Yes",)),
        "Rating Ben>=2": classes(rows, "Rating Ben", (2, 3)),
    }
    for mood in MOODS:
        tasks[f"mood={mood}"] = classes(rows, "mood", (mood,))
    assert {row["test"] for row in results_of(ws, "own")} == tasks.keys()
    for task, y in tasks.items():
        check_against_sklearn(ws, "own", task, rows, X, y)
    for column in ("violent", "Rating Ben", "mood"):
        assert f"8 of 64 clips have no value in the column {column}" in done.text


def test_the_words_of_a_column_are_one_question(ws: Workspace) -> None:
    import_own(ws, *table_of_clips())
    line = "run honest --store own --task mood -o moods --jobs 1 --set report.replicates=50"
    text = ws(f"{line} --set 'grid.models=[\"ridge\"]' {GUESS}").text
    assert "ridge in mood=anger " in text
    # The other words stand in the table below.
    table = text[text.index("task model positive AP") :]
    for mood in MOODS:
        ap = the_result(ws, "moods", model="ridge", test=f"mood={mood}")["ap"]
        of_mood = table[table.index(f"mood={mood}") :]
        assert f"{ap:.2f}".removeprefix("0") in of_mood[:60]
    ws("report moods")
    question = "Do the features of an unseen film predict which mood a clip has?"
    page = ws.read("runs/moods/report.html")
    assert f"<h1>{question}</h1>" in page
    rows = ws.read_table("runs/moods/tables/results.csv")
    of_ridge = [row["group"] for row in rows if row["model"] == "ridge"]
    tasks = [group.partition(":")[0].partition(" (")[0] for group in of_ridge]
    assert tasks == [f"mood={mood}" for mood in MOODS]


def test_a_saved_model_the_page_and_a_comparison_take_the_same_words(ws) -> None:
    rows, X = table_of_clips()
    import_own(ws, rows, X)
    ws(
        "train ridge --store own --manifest films --task 'Rating Ben>=2' -o keeper --jobs 1"
    )
    predicted = ws("models predict keeper own --json").json()
    basis = {row["clip_id"]: row["basis"] for row in predicted["rows"]}
    for row in rows:
        is_rated = row["Rating Ben"] != ""
        assert (basis[row["clip_id"]] == "out-of-fold") == is_rated
    # The table says the label that was asked for.
    assert predicted["classes"] == ["Rating Ben>=2"]
    decisions = {row["decision"] for row in predicted["rows"]}
    assert decisions == {"Rating Ben>=2", "not (Rating Ben>=2)"}
    assert "Rating Ben>=2" in ws("ls").text
    (page, *_) = ws("view films --run keeper --no-browser --json").json()["pages"]
    assert "Rating Ben is at least 2" in ws.read(page)
    ws(f"run honest --store own --task 'Rating Ben>=2' -o bayes {QUICK}")
    compared = ws("compare keeper bayes --json").json()["rows"]
    assert [row["clips"] for row in compared if row["against_model"]] == [56]
    data = og.dataset("own", "films", "Rating Ben>=2", workspace=ws.folder)
    y = classes(rows, "Rating Ben", (2, 3))
    assert data.y.tolist() == y[y >= 0].tolist()


def test_without_levels_the_only_yes_no_column_is_the_task(ws: Workspace) -> None:
    rows, X = table_of_clips()
    import_own(ws, rows, X)
    ws(f"run honest --store own -o own {QUICK}")
    check_against_sklearn(
        ws, "own", "violent", rows, X, classes(rows, "violent", ("Yes",))
    )
    # Of two such columns, or of none, a person chooses.
    for words, found in (
        (("Yes", "No"), "2 columns have"),
        (("low", "high"), "no column has"),
    ):
        more = []
        for number, row in enumerate(rows):
            mood = {**row, "calm": words[number % 2]}
            more.append(mood if found == "2 columns have" else {**mood, "violent": ""})
        ws.write_table("more.csv", more)
        ws("manifest import more.csv -o films --force")
        refused = ws(f"run honest --store own {QUICK}", code=2).err
        assert f"have no level, and {found} only the words yes and no" in refused
        assert "--task mood: anger: " in refused and "--task calm: " in refused


@pytest.mark.parametrize(
    ("line", "message", "advice"),
    [
        ("--task 'Rating Ben'", "numbers from 0 to 3", "--task 'Rating Ben>=2'"),
        (
            "--task mood=jo",
            "has no value 'jo' (did you mean 'joy'?)",
            "anger, fear, joy",
        ),
        (
            "--task violnt",
            "did you mean 'violent'?",
            "of the columns violent, Rating Ben, mood",
        ),
    ],
)
def test_what_cannot_be_asked_says_what_can(ws, line, message, advice) -> None:
    import_own(ws, *table_of_clips())
    text = ws(f"run honest --store own {line} {QUICK}", code=(1, 2)).text
    assert message in text
    assert advice in text
