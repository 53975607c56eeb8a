"""The clips of `og.load_demo`: a store of this version, with the labels of its table."""

import csv
from importlib.resources import files
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import obygaze as og

SMALL = Path(str(files("obygaze.demo"))) / "small"


def test_the_store_of_the_package_is_whole_and_has_the_clips_of_its_table() -> None:
    verified = og.store.verify("films", hashes=True, workspace=SMALL)
    assert verified.problems == [] and sum(verified.counts.values()) == 144
    with (SMALL / "manifests" / "films.csv").open(newline="", encoding="utf-8") as text:
        rows = {row["clip_id"]: row for row in csv.DictReader(text)}
    demo = og.load_demo()
    X, y, groups, ids = demo
    # What is only heard is no reason in pictures.
    levels = {}
    for clip, row in rows.items():
        is_seen = {"Body", "Look"} & set(row["concepts"].split("|"))
        levels[clip] = row["level"] if is_seen or row["level"] == "NS" else "EN"
    assert ids.tolist() == [clip for clip in rows if levels[clip] in ("EN", "S")]
    assert y.tolist() == [int(levels[clip] == "S") for clip in ids]
    assert groups.tolist() == [rows[clip]["movie_id"] for clip in ids]
    store = og.open_store("films", workspace=SMALL)
    of_clips = store.matrix("clip", clips=ids.tolist()).values
    np.testing.assert_array_equal(X, of_clips)
    for column, name in enumerate(demo.concept_names):
        has = [name in rows[clip]["concepts"].split("|") for clip in ids]
        assert (demo.concepts[:, column] == 1).tolist() == has


def test_a_concept_of_the_pictures_is_found_in_unseen_films_and_the_other_is_not():
    demo = og.load_demo()
    cv = GroupKFold(6)
    aucs = {}
    for column, name in enumerate(demo.concept_names):
        y = demo.concepts[:, column]
        probe = make_pipeline(StandardScaler(), og.LogisticProbe(C=0.01))
        scores = cross_val_predict(
            *(probe, demo.X, y),
            groups=demo.groups,
            cv=cv,
            method="predict_proba",
        )
        aucs[name] = roc_auc_score(y, scores[:, 1])
    assert aucs["Body"] > 0.8
    assert 0.4 < aucs["Look"] < 0.6
