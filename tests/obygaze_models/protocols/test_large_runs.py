"""What costs little on many films has the values of the plain way, worked out on small ones."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, special
from sklearn.linear_model import LogisticRegression
from support.experiments import films, planted, quick, run_on, store_of

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Clip
from obygaze_models.evaluation import logistic
from obygaze_models.models import linear_solvers
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.runner import cells
from obygaze_models.protocols.runner.level_records import pairs_in_order
from obygaze_models.protocols.runner.run import gather
from obygaze_models.protocols.schedule import schedule


def test_one_factor_is_separated_where_a_linear_program_says_so() -> None:
    rng = np.random.default_rng(0)
    answers = set()
    for _ in range(200):
        x = rng.integers(0, 6, size=5).astype(float)
        y = rng.random(5) < 0.5
        if np.ptp(x) == 0:
            continue
        signed = np.column_stack([np.ones(5), x]) * np.where(y, 1, -1)[:, None]
        solved = optimize.linprog(
            -signed.sum(0), A_ub=-signed, b_ub=np.zeros(5), bounds=(-1, 1)
        )
        expected = bool(-solved.fun > 1e-7)
        assert logistic.is_separated(np.column_stack([np.ones(5), x]), y) == expected
        answers.add(expected)
    assert answers == {False, True}


def test_of_many_films_every_nth_is_left_out_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against scikit-learn: films 0 and 3, 1 and 4, and 2 are recalibrated by the others."""
    rng = np.random.default_rng(1)
    movies = np.repeat(np.arange(5), 40)
    score = rng.uniform(0.05, 0.95, size=200)
    y = rng.random(200) < score**2
    monkeypatch.setattr(logistic, "MOST_FITS", 3)
    found = logistic.recalibrate(score, y, movies)
    odds = special.logit(score)[:, None]
    for together in ((0, 3), (1, 4), (2,)):
        inside = np.isin(movies, together)
        model = LogisticRegression(C=np.inf, tol=1e-10).fit(odds[~inside], y[~inside])
        expected = model.predict_proba(odds[inside])[:, 1]
        np.testing.assert_allclose(found[inside], expected, atol=1e-5)


def test_pairs_in_order_are_those_counted_one_by_one_in_little_memory() -> None:
    rng = np.random.default_rng(2)
    scores, ranks = rng.integers(0, 9, size=60) / 8, rng.integers(0, 4, size=60)
    won = pairs = 0.0
    for i in range(60):
        for j in range(60):
            if ranks[i] < ranks[j]:
                pairs += 1
                won += 1.0 if scores[i] < scores[j] else 0.5 * (scores[i] == scores[j])
    assert pairs_in_order(scores, ranks) == (won, pairs)
    many = rng.random(20_000)
    tracemalloc.start()
    pairs_in_order(many, (many * 4).astype(np.intp))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000  # a table of all pairs has 400 million entries


def test_the_hash_of_splits_is_that_of_their_json(tmp_path: Path) -> None:
    manifest = films(4, 12)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    inputs = gather(quick("honest"), manifest, "", {"x": store})
    plan = schedule(inputs.protocol, inputs.table, inputs.labels, inputs.usable(None))
    rows = {
        f"{train} -> {test}": [
            [part.tolist() for part in (split.train, split.validation, split.test)]
            for split in splits
        ]
        for (train, test), splits in plan.pairs.items()
    }
    text = json.dumps(rows, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert plan.sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_other_annotators_of_a_long_film_are_found_as_one_by_one() -> None:
    rng = np.random.default_rng(3)
    rows = []
    for number in range(90):
        start = float(rng.integers(0, 60))
        times = (
            (None, None)
            if number % 9 == 0
            else (start, start + float(rng.integers(1, 20)))
        )
        extra = {"annotator": "abc"[number % 3], "given_clip_id": f"g{number % 20}"}
        if number % 4:
            extra["given_clip_id"] = ""
        level = str(rng.choice(["EN", "HN", "S"]))
        rows.append(Clip(f"c{number}", "film", None, "", *times, level, extra=extra))
    order = ["", "EN", "HN", "NS", "S"]

    def is_about(other: Clip, clip: Clip) -> bool:
        given = clip.extra["given_clip_id"]
        if given and given == other.extra["given_clip_id"]:
            return True
        if None in (clip.start_s, other.start_s):
            return False
        shared = min(clip.end_s, other.end_s) - max(clip.start_s, other.start_s)
        return shared >= (clip.end_s - clip.start_s) / 5 - 1e-9

    for clip, others in zip(rows, ClipTable("m", rows, ()).others, strict=True):
        expected = []
        for name in "abc".replace(clip.extra["annotator"], ""):
            about = [
                o for o in rows if o.extra["annotator"] == name and is_about(o, clip)
            ]
            about.sort(key=lambda other: -order.index(other.level))
            expected += [other.clip_id for other in about[:1]]
        assert sorted(other.clip_id for other in others) == sorted(expected)


def test_films_in_blocks_have_the_values_of_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = films(5, 16)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    changes = ('grid.models=["ridge"]', "report.concepts=false", "report.compare=false")
    changes += (
        'grid.train=["EN_S"]',
        'grid.test=["EN_S"]',
        'grid.baselines=["random"]',
    )
    found = []
    for block in (cells.BLOCK, 1):
        monkeypatch.setattr(cells, "BLOCK", block)
        run = run_on(
            tmp_path, quick("honest", *changes, replicates=20), manifest, {"s": store}
        )
        found.append([record["by_movie"] for record in (*run.cells, *run.baselines)])
    for whole, in_blocks in zip(*found, strict=True):
        assert whole.keys() == in_blocks.keys()
        for film, values in whole.items():
            pair = (values, in_blocks[film])
            numbers = [
                [np.nan if v is None else v for v in own.values()] for own in pair
            ]
            np.testing.assert_allclose(*numbers, rtol=1e-12)


def test_products_larger_than_the_machine_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(linear_solvers, "most_bytes", lambda: 8 * 99**2)
    assert linear_solvers.Gram(np.ones((99, 2))).products.shape == (99, 99)
    with pytest.raises(FixInput, match="the products of 100 clips take"):
        linear_solvers.Gram(np.ones((100, 2))).products  # noqa: B018
