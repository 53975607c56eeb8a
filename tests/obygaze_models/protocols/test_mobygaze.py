"""The protocols over segments of whole films, on planted signals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from support.data import real_data
from support.experiments import (
    cell_of,
    long_segments,
    quick,
    run_on,
    store_of_windows,
    without_models,
)

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.adapters.mobygaze import read
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Clip
from obygaze_models.models import LogisticProbe
from obygaze_models.protocols.clips import ClipTable, clip_table, disputed, task_labels
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.runner.localise import TIOUS, precisions
from obygaze_models.protocols.runner.run import gather, run_protocol
from obygaze_models.protocols.runner.table import result_text
from obygaze_models.protocols.schema import Data, Task
from obygaze_models.report.page import write_report

PLAIN = ("report.compare=false", "data.segments=made-up")
EN_S = Task(classes={"EN": 0, "S": 1})


def seconds(clip: Clip) -> slice:
    return slice(int(clip.start_s or 0), int(clip.end_s or 0))


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Windows in sure segments of Ada stand out a little."""
    manifest, noise = long_segments()
    for clip in manifest:
        if clip.level == "S" and clip.extra["annotator"] == "ada":
            noise[clip.movie_id][seconds(clip), :2] += 0.7
    return manifest, noise, store_of_windows(tmp_path_factory.mktemp("w") / "s", noise)


def test_the_precision_of_segments_is_that_of_a_computation_without_the_runner(
    planted, tmp_path: Path
) -> None:
    manifest, values, store = planted
    changes = (
        "models.logistic.kind=logistic",
        "models.logistic.C=1.0",
        'grid.models=["logistic"]',
        "data.where=annotator == ada",
    )
    run = run_on(
        tmp_path, quick("mobygaze-visual", *PLAIN, *changes), manifest, {"w": store}
    )
    cell = cell_of(run.cells, train="ENHN_S", test="ENHN_S")
    mine = [c for c in manifest if c.extra["annotator"] == "ada"]
    X = np.stack(
        [values[c.movie_id][seconds(c)].astype(np.float32).max(axis=0) for c in mine]
    )
    y = np.array([c.level == "S" for c in mine])
    films = np.array([c.movie_id for c in mine])
    found = []
    for film in np.unique(films):
        train, test = films != film, films == film
        model = LogisticRegression(
            C=1.0, class_weight="balanced", tol=1e-10, max_iter=10_000
        )
        score = model.fit(X[train], y[train]).decision_function(X[test])
        found.append(average_precision_score(y[test], score))
    assert cell["ap"]["value"] == pytest.approx(np.mean(found), abs=1e-12)
    assert cell["ap"]["value"] > y.mean() + 0.2
    assert (cell["n_test"], cell["leaked"], cell["n_films"]) == (len(y), 0, 6)
    low, high = cell["ap"]["ci"]
    assert low < cell["ap"]["value"] < high
    annotator = cell_of(run.baselines, test="ENHN_S", model="annotator")
    assert annotator["ceiling"] and annotator["n_test"] == len(y)


@pytest.mark.check("takes a quarter of a minute")
def test_a_signal_in_one_window_is_found_in_bags_and_not_by_the_mean(
    tmp_path: Path,
) -> None:
    manifest, values = long_segments(seed=5, n_segments=16, length=(300, 500))
    rng = np.random.default_rng(1)
    for clip in manifest:
        if clip.level == "S" and clip.extra["annotator"] == "ada":
            at = seconds(clip)
            values[clip.movie_id][rng.integers(at.start, at.stop), :2] += 4
    store = store_of_windows(tmp_path / "s", values)
    protocol = quick("mobygaze-weak", *PLAIN, "data.where=annotator == ada")
    run = run_on(tmp_path, protocol, manifest, {"w": store})
    found = {
        m: cell_of(run.cells, test="EN_S", model=m)["ap"]["value"]
        for m in ("bags", "mean")
    }
    share = cell_of(run.cells, test="EN_S", model="mean")["prevalence"]
    assert found["bags"] > 0.95
    assert found["mean"] < share + 0.25


def test_the_witness_of_a_bag_counts_and_each_bag_counts_the_same() -> None:
    """With the witnesses known, the fit is a weighted logistic regression."""
    rng = np.random.default_rng(0)
    sizes, y = rng.integers(2, 30, 60), np.arange(60) % 2
    X = rng.normal(size=(sizes.sum(), 5))
    starts = np.cumsum(sizes) - sizes
    X[starts[y == 1], 0] += 8
    fit = LogisticProbe(0.5).fit_bags(X, y, sizes)
    bags = np.repeat(np.arange(60), sizes)
    kept = (y[bags] == 0) | np.isin(np.arange(len(X)), starts)
    weights = np.where(y[bags] == 1, 1.0, 1 / sizes[bags])[kept]
    model = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000)
    model.fit(X[kept], y[bags][kept], sample_weight=weights)
    assert fit.coef_ == pytest.approx(model.coef_, abs=1e-6)


@pytest.mark.parametrize(
    "change", ["data.segments=", "data.scale=unit", "splits.kind=kfold"]
)
def test_windows_need_segments_without_scaling_and_splits_by_film(change: str) -> None:
    with pytest.raises(FixInput) as error:
        load_protocol("mobygaze-weak", [change, "splits.folds=3"])
    assert "models of windows need segments" in str(error.value.details)


def test_an_unknown_model_is_listed() -> None:
    for key in ("grid.models", "report.localise"):
        with pytest.raises(FixInput) as error:
            load_protocol("mobygaze-weak", [f'{key}=["nobody"]'])
        assert "nobody" in str(error.value.details)


def two_rows(levels: str) -> ClipTable:
    """Rows of Ada and Ben for each clip: "S EN" is a clip that they differ about."""
    rows = []
    for number, pair in enumerate(levels.split(", ")):
        for name, level in zip(("ada", "ben"), pair.split(), strict=True):
            extra = {"annotator": name, "given_clip_id": str(number)}
            rows.append(Clip(f"{number}.{name}", "film", level=level, extra=extra))
    return ClipTable("m", rows, ())


def test_labels_of_several_annotators() -> None:
    table = two_rows("S EN, EN EN, NS EN, S NS, HN S")
    own = task_labels("t", EN_S, table)
    assert own.tolist() == [1, 0, 0, 0, -1, 0, 1, -1, -1, 1]
    merged = task_labels("t", replace(EN_S, labels="aggregation"), table)
    assert merged.tolist() == [1, 1, 0, 0, -1, -1, 1, 1, 1, 1]
    assert np.flatnonzero(disputed(table, own)).tolist() == [0, 1]


@pytest.fixture(scope="module")
def differing(tmp_path_factory):
    """Where the annotators differ, Ben is right."""
    manifest, noise = long_segments(seed=3, n_segments=30, differ=0.5)
    levels = {c.clip_id: c.level for c in manifest if c.extra["annotator"] == "ben"}
    for clip in manifest:
        if levels.get(clip.clip_id) == "S":
            noise[clip.movie_id][seconds(clip), :2] += 2
    return manifest, noise, store_of_windows(tmp_path_factory.mktemp("w") / "s", noise)


def test_the_three_ways_to_learn_from_annotators_who_differ(
    differing, tmp_path: Path
) -> None:
    manifest, values, store = differing
    changes = ('grid.models=["logistic"]', "data.reduce=mean", "models.logistic.C=1.0")
    protocol = quick("mobygaze-diversity", *PLAIN, *changes)
    run = run_on(tmp_path, protocol, manifest, {"w": store})
    scores = {
        train: {
            r["clip_id"]: r["score"]
            for r in run.predictions
            if (r["train"], r["model"]) == (train, "logistic")
        }
        for train in ("aggregation", "soft", "inverted")
    }
    # By hand: the same rows, and labels by the definitions, without the last film.
    ids, film = [c.clip_id for c in manifest], "tt0000006"
    X = np.stack([values[c.movie_id][seconds(c)].mean(axis=0) for c in manifest])
    inside = np.array([c.movie_id != film for c in manifest])
    level = np.array([c.level for c in manifest])
    place = {name: i for i, name in enumerate(ids)}
    swap = {"ada": "ben", "ben": "ada"}
    other = level[
        [place[c.clip_id.replace(a := c.extra["annotator"], swap[a])] for c in manifest]
    ]
    y, of_task = level == "S", level != "HN"
    differ = of_task & (other != "HN") & (level != other)

    def proba(rows: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Logistic regression on mean losses, by another optimiser."""
        weight = np.where(
            target, 0.5 / target[rows].mean(), 0.5 / (1 - target[rows].mean())
        )
        sign = np.where(target, 1.0, -1.0)

        def loss(w: np.ndarray) -> float:
            margins = sign[rows] * (X[rows] @ w[:-1] + w[-1])
            return float(weight[rows] @ np.logaddexp(0, -margins) + w[:-1] @ w[:-1] / 2)

        w = minimize(loss, np.zeros(9), method="BFGS", options={"gtol": 1e-9}).x
        return 1 / (1 + np.exp(-(X @ w[:-1] + w[-1])))

    def same(train: str, expected: np.ndarray) -> bool:
        tested = np.flatnonzero(~inside & of_task)
        own = [scores[train][ids[i]] for i in tested]
        return own == pytest.approx(expected[tested], abs=1e-4)

    rows = np.flatnonzero(inside & of_task)
    assert same("soft", proba(rows, y))
    positive = (level == "S") | (other == "S")
    negative = (level == "EN") & (other == "EN")
    assert same(
        "aggregation", proba(np.flatnonzero(inside & (positive | negative)), positive)
    )
    labels, before, found = y, np.zeros(len(y), dtype=bool), proba(rows, y)
    while (labels != before).any():
        before, labels = labels, np.where(differ, found > 0.5, y)
        found = proba(rows, labels)
    assert (labels != y).any()
    assert same("inverted", found)


def test_perceptrons_learn_inverted_labels_too(differing, tmp_path: Path) -> None:
    manifest, _, store = differing
    changes = (
        'grid.models=["mlp"]',
        "models.mlp.hidden=[4]",
        "models.mlp.max_epochs=5",
    )
    changes += (
        "models.mlp.learning_rate=0.01",
        "report.contrast=[]",
        'grid.baselines=["random"]',
    )
    protocol = quick("mobygaze-diversity", *PLAIN, *changes)
    run = run_on(tmp_path, protocol, manifest, {"w": store})
    soft, inverted = (
        cell_of(run.cells, train=t)["ap"]["value"] for t in ("soft", "inverted")
    )
    assert soft != inverted


def test_the_tasks_of_the_released_table() -> None:
    manifest = read(
        real_data("mobygaze") / "mobygaze_dataframe.no_subtitles.csv"
    ).manifest
    protocol = without_models(load_protocol("mobygaze-visual"))
    found = {}
    for where in ("", "annotator == annotator1", "annotator == annotator2"):
        own = replace(protocol, data=replace(protocol.data, where=where))
        inputs = gather(own, manifest, "mobygaze", {})
        for name, labels in inputs.labels.items():
            found[where[-10:], name] = (
                int((labels == 0).sum()),
                int((labels == 1).sum()),
            )
    levels = [c.level for c in manifest]
    en, hn, s = (levels.count(level) for level in ("EN", "HN", "S"))
    assert len(levels) == 6072 and len(clip_table(manifest, Data()).films) == 6072
    assert found["", "EN_S"] == (en, s)
    assert found["", "ENHN_S"] == (en + hn, s)
    assert found["", "EN_HNS"] == (en, hn + s)
    assert found["annotator1", "ENHN_S"] == (1525, 589)
    assert found["annotator2", "ENHN_S"] == (2788, 881)


def test_segments_are_found_in_films_that_a_model_has_not_seen(
    planted, tmp_path: Path
) -> None:
    manifest, values, store = planted
    changes = ('grid.models=["ridge"]', "data.reduce=mean", 'grid.test=["EN_S"]')
    protocol = quick("mobygaze-visual", *PLAIN, *changes, 'grid.train=["EN_S"]')
    run = run_on(tmp_path, protocol, manifest, {"w": store})
    (record,) = run.of("localisation")
    assert set(record["films"]) == set(values)
    low, high = record["map"]["ci"]
    assert low < record["map"]["value"] < high
    assert record["map"]["value"] > record["blind"]["value"] + 0.05
    assert record["0.3"]["value"] >= record["0.7"]["value"]
    assert record["map"]["value"] == pytest.approx(
        np.mean([record[str(least)]["value"] for least in TIOUS])
    )
    # By hand from the record: intervals against the segments of both annotators.
    film = "tt0000002"
    one = record["films"][film]
    marked = [
        np.array(
            [
                (c.start_s, c.end_s)
                for c in manifest
                if (c.movie_id, c.level, c.extra["annotator"]) == (film, "S", name)
            ]
        )
        for name in ("ada", "ben")
    ]
    assert precisions(np.array(one["intervals"]), marked) == pytest.approx(
        one["precisions"][0]
    )
    assert one["n_segments"] == sum(map(len, marked))
    assert len(one["time_s"]) == len(one["score"]) == 300
    inside = np.array([any(s <= t < e for s, e in marked[0]) for t in one["time_s"]])
    assert np.mean(np.array(one["score"])[inside]) > np.mean(
        np.array(one["score"])[~inside]
    )
    assert (np.array(one["low"]) <= one["high"]).all()
    assert "found in whole films: mAP" in result_text(run)


def test_films_that_are_tested_choose_nothing(planted, tmp_path: Path) -> None:
    """Other segments of a film change its own precision only."""
    manifest, _, store = planted
    last = "tt0000006"
    moved = tuple(
        replace(c, level={"EN": "S", "S": "EN"}.get(c.level, c.level))
        if c.movie_id == last
        else c
        for c in manifest
    )
    changes = ('grid.models=["ridge"]', 'grid.test=["EN_S"]', 'grid.train=["EN_S"]')
    protocol = quick("mobygaze-visual", *PLAIN, *changes)
    films = [
        run_on(tmp_path, protocol, m, {"w": store}).of("localisation")[0]["films"][last]
        for m in (manifest, replace(manifest, clips=moved))
    ]
    for key in ("intervals", "score", "low", "high", "threshold", "width", "gap"):
        assert films[0][key] == films[1][key]
    assert films[0]["precisions"] != films[1]["precisions"]


@pytest.mark.check("a large report")
def test_the_report_draws_films_on_their_time_axis(planted, tmp_path: Path) -> None:
    manifest, _, store = planted
    changes = ('grid.models=["ridge"]', 'grid.test=["EN_S"]', 'grid.train=["EN_S"]')
    path = tmp_path / "made-up.toml"
    write_manifest(manifest, path)
    inputs = gather(
        quick("mobygaze-visual", *PLAIN, *changes),
        read_manifest(path),
        str(path),
        {"w": store},
    )
    run_protocol(inputs, tmp_path / "run", n_jobs=1)
    page, *files = write_report([tmp_path / "run"])
    (figure,) = (tmp_path / "run" / "figures").glob("windows-*.svg")
    drawn = figure.read_text("utf-8")
    assert all(f"tt000000{n}" in page.read_text("utf-8") for n in range(1, 7))
    assert drawn.count("PolyCollection") >= 6
    (table,) = [f for f in files if f.name == "localisation.csv"]
    assert "ridge" in table.read_text("utf-8")
