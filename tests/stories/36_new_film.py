"""Story 36: a new film for a kept model: extracted with the recipe of the model, and scored."""

import numpy as np
from support.advice import advice_of

import obygaze as og
from stories.films import rows_of_clips
from stories.made import begin_with_extracted_films
from stories.results import logistic

TRAIN = (
    "train logistic --store films.descriptors --manifest films -o known --set model.C=0.5 --jobs 1"
    """ --set report.replicates=50 --set 'data.where="movie_id != station"'"""
)


def test_the_error_names_the_recipe_and_the_command_that_extracts(ws) -> None:
    begin_with_extracted_films(ws)
    ws(TRAIN)
    # Years later, another film is cut into other clips.
    later = rows_of_clips("station", per_film=5)
    ws.import_table(later, "later")
    ws("manifest link later videos")
    predict = "models predict known later.descriptors -o scores.csv"
    refused = ws(predict, code=1)
    assert "known reads features of descriptors" in refused.text
    extract = "extract run later -b descriptors"
    assert advice_of(refused.err) == f"obygaze {extract}"
    ws(extract)
    ws(predict)

    X, y, films, _ = og.dataset(
        "films.descriptors", "films", task="EN_S", workspace=ws.folder
    )
    known = films != "station"
    model = logistic(X[known], y[known])
    array = og.open_store("later.descriptors", workspace=ws.folder)
    rows = np.asarray(array.matrix("clip")).astype(float)
    scores = ws.read_table("scores.csv")
    assert [row["clip_id"] for row in scores] == [row["clip_id"] for row in later]
    assert {row["basis"] for row in scores} == {"unseen"}
    found = [float(row["p:positive"]) for row in scores]
    np.testing.assert_allclose(found, model.predict_proba(rows)[:, 1], atol=1e-4)

    # Numbers of the same shape of which nobody knows how they were made.
    np.savez(ws.path("other.npz"), clip_id=[row["clip_id"] for row in later], X=rows)
    ws("store import other.npz --array clip=X --manifest later -o other")
    refused = ws("models predict known other -o other.csv", code=5)
    assert "known expects features of descriptors" in refused.text
    assert advice_of(refused.err) == f"obygaze {extract}"
    assert not ws.path("other.csv").exists()
