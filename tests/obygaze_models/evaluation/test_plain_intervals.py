"""Intervals, differences and p of twenty random cells, against a second, plain computation.

The plain one draws films by the rule of docs/design/0007 and computes metrics in loops.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from support.tables import RunRow, a_table, rows_of
from support.ties import ap_of_drawn_clips

from obygaze_models.evaluation.cells import Cell, cells_from_tests
from obygaze_models.evaluation.results import (
    RunSettings,
    difference,
    film_differences,
    results,
)

N_REPLICATES = 30
# Seeds of cells, and how many of their films have positive clips at most; None: any.
CELLS = [*((seed, None) for seed in (0, 1, 11)), (0, 2), (0, 5), (1, 4)]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fold:
    """The test of one fit: the film, label and score of each clip."""

    films: NDArray[np.intp]
    y: NDArray[np.bool_]
    scores: Floats


@dataclass(frozen=True)
class Made:
    """A cell that was drawn, for both computations."""

    rows: list[RunRow]
    folds: list[Fold]
    film_of_clip: NDArray[np.str_]
    y: NDArray[np.bool_]
    n_films: int
    is_averaged: bool


def made(seed: int, n_valued: int | None = None, scores_seed: int = 0) -> Made:
    """Films of different sizes and shares, tested in folds of films or all by several runs."""
    rng = np.random.default_rng(seed)
    n_films = int(rng.choice([3, 5, 6, 8, 9, 10, 12, 14]))
    is_averaged = bool(seed % 2)
    sizes = rng.integers(8, 40, size=n_films)
    film_of_clip = np.repeat(np.arange(n_films), sizes)
    y = rng.random(len(film_of_clip)) < np.repeat(rng.beta(1, 1.5, n_films), sizes)
    if n_valued is not None:
        y &= film_of_clip < n_valued
    films_of_fold = np.array_split(rng.permutation(n_films), rng.integers(2, n_films))
    if is_averaged:
        films_of_fold = [np.arange(n_films)] * 3
    scores_rng = np.random.default_rng((seed, scores_seed))
    rows = []
    folds = []
    for number, films in enumerate(films_of_fold):
        clips = np.flatnonzero(np.isin(film_of_clip, films))
        # Rounded, so that some scores are tied.
        scores = np.round(scores_rng.random(len(clips)) + 0.3 * y[clips], 1) / 1.3
        for clip, score in zip(clips.tolist(), scores.tolist(), strict=True):
            test = {"store": f"x{scores_seed}", "fold": str(number), "n_seen": 330}
            test |= {"clip_id": f"{clip:04d}", "movie_id": f"f{film_of_clip[clip]:02d}"}
            rows.append({**test, "y": int(y[clip]), "score": score})
        folds.append(Fold(film_of_clip[clips], y[clips], scores))
    names = np.array([f"f{film:02d}" for film in film_of_clip])
    return Made(rows, folds, names, y, n_films, is_averaged)


def plain_ap(fold: Fold, weight_of_film: Floats) -> float:
    weights = weight_of_film[fold.films]
    if not weights @ fold.y:
        return np.nan
    return ap_of_drawn_clips(fold.y, fold.scores, weights)


def plain_pairs(fold: Fold, weight_of_film: Floats) -> tuple[float, float]:
    """The pairs of a positive and a negative clip that are in order, and all pairs."""
    weights = weight_of_film[fold.films]
    both = np.outer(weights[fold.y], weights[~fold.y])
    steps = np.subtract.outer(fold.scores[fold.y], fold.scores[~fold.y])
    won = both[steps > 0].sum() + both[steps == 0].sum() / 2
    return float(won), float(both.sum())


def plain_value(metric: str, drawn: Made, weight_of_film: Floats) -> float:
    """The value of a metric of all folds, if films count as often as their weights say."""
    values = []
    shares = []
    won_of_folds = 0.0
    pairs_of_folds = 0.0
    for fold in drawn.folds:
        n_drawn = weight_of_film[fold.films].sum()
        if n_drawn == 0:
            continue
        won, pairs = plain_pairs(fold, weight_of_film)
        if metric == "auc" and not drawn.is_averaged:
            won_of_folds += won / n_drawn
            pairs_of_folds += pairs / n_drawn
            continue
        value = plain_ap(fold, weight_of_film)
        if metric == "auc":
            value = won / pairs if pairs else np.nan
        if np.isfinite(value):
            values.append(value)
            shares.append(n_drawn / len(fold.y))
    if metric == "auc" and not drawn.is_averaged:
        return won_of_folds / pairs_of_folds if pairs_of_folds else np.nan
    return float(np.average(values, weights=shares)) if values else np.nan


def plain_draws(drawn: Made, seed: Sequence[int]) -> list[Floats]:
    """How often each film is in each replicate."""
    rng = np.random.default_rng(tuple(seed))
    counts = []
    for films in rng.integers(0, drawn.n_films, size=(N_REPLICATES, drawn.n_films)):
        counts.append(np.bincount(films, minlength=drawn.n_films).astype(float))
    return counts


def inflation_of(drawn: Made) -> float:
    if drawn.is_averaged:
        return 1 + len(drawn.y) / 330
    n_sets = len(drawn.folds)
    return 1 + n_sets / (n_sets - 1)


def logit(values: Floats) -> Floats:
    inside = np.clip(values, 1e-6, 1 - 1e-6)
    return np.log(inside / (1 - inside))


def ends(values: Floats, k: float) -> tuple[float, float]:
    """The quantiles at which normal draws have the width of Student's interval of k films."""
    width = stats.t.ppf(0.025, k - 1) * (k / (k - 1)) ** 0.5
    tail = stats.norm.cdf(width)
    return float(np.quantile(values, tail)), float(np.quantile(values, 1 - tail))


def plain_films(metric: str, drawn: Made) -> tuple[int, float]:
    """The films that give a value, and how many of one size tell as much: by loops over films."""
    sizes: dict[int, int] = {}
    positives: dict[int, int] = {}
    for fold in drawn.folds:
        if not fold.y.any() or (metric == "auc" and fold.y.all()):
            continue
        for film in np.unique(fold.films):
            sizes[film] = int((fold.films == film).sum())
            positives[film] = int(fold.y[fold.films == film].sum())
    n_with_positive = sum(positives[film] > 0 for film in sizes)
    n_with_negative = sum(positives[film] < sizes[film] for film in sizes)
    k = n_with_positive if metric == "ap" else min(n_with_positive, n_with_negative)
    if k < 6:
        return k, k
    counts = np.array([*(positives if metric == "ap" else sizes).values()])
    alike = counts.sum() ** 2 / (counts**2).sum()
    return k, alike if metric == "ap" else k * (alike / len(sizes)) ** 0.5


def plain_interval(metric: str, drawn: Made) -> tuple[float, float]:
    """The interval of a metric of a model, step by step."""
    weights = plain_draws(drawn, (0, 0))
    values = np.array([plain_value(metric, drawn, w) for w in weights])
    codes = np.unique(drawn.film_of_clip, return_inverse=True)[1]
    inflation = inflation_of(drawn)
    finite = np.isfinite(values)
    k, effective = plain_films(metric, drawn)
    if k >= 10:
        # What the share of positives explains, by a straight line, is not widened below.
        shares = np.array([w[codes] @ drawn.y / w[codes].sum() for w in weights])[
            finite
        ]
        slope = np.polyfit(shares, logit(values[finite]), 1)[0]
        explained = slope * (shares - shares.mean())
        back = logit(values[finite]) + (inflation**-0.5 - 1) * explained
        draws = 1 / (1 + np.exp(-back))
    else:
        draws = values[finite]
    middle = logit(np.array([np.median(draws)]))[0]
    wide = middle + inflation**0.5 * (logit(draws) - middle)
    if k < 3:
        return np.nan, np.nan
    if k < 6:
        value = plain_value(metric, drawn, np.ones(drawn.n_films))
        deviation = draws.std() * (inflation * k / (k - 1)) ** 0.5
        slope = 2 * (value * (1 - value)) ** 0.5
        half = stats.t.ppf(0.975, k - 1) * deviation / slope
        angles = np.arcsin(value**0.5) + np.array([-half, half])
        low, high = np.sin(np.clip(angles, 0, np.pi / 2)) ** 2
        return float(low), float(high)
    return ends(1 / (1 + np.exp(-wide)), effective)


@pytest.mark.parametrize(("seed", "n_valued"), CELLS)
def test_an_interval_is_that_of_plain_code(seed: int, n_valued: int | None) -> None:
    drawn = made(seed, n_valued)
    rows = results(a_table(drawn.rows), settings_of(drawn)).to_dict("records")
    row_of = {row["metric"]: row for row in rows if not row["film"]}
    for metric in ("ap", "auc"):
        everything = np.ones(drawn.n_films)
        value = plain_value(metric, drawn, everything)
        row = row_of[metric]
        assert row["value"] == pytest.approx(value, abs=1e-12)
        # Values next to 0 and 1 are rounded there.
        expected = plain_interval(metric, drawn)
        assert (row["low"], row["high"]) == pytest.approx(
            expected, abs=2e-5, nan_ok=True
        )


def settings_of(drawn: Made, primary: str = "ap") -> RunSettings:
    return RunSettings(primary=primary, replicates=N_REPLICATES)


def both_cells(first: Made, second: Made, seen: str) -> tuple[list[Cell], RunSettings]:
    settings = settings_of(first, "auc")
    rows = [{**row, "seen": seen} for row in [*first.rows, *second.rows]]
    return cells_from_tests(a_table(rows)), settings


@pytest.mark.parametrize(("seed", "n_valued"), CELLS)
def test_a_difference_on_unseen_films_is_that_of_plain_code(seed, n_valued) -> None:
    """The mean over films, with Student's interval."""
    first = made(seed, n_valued)
    second = made(seed, n_valued, scores_seed=1)
    cells, settings = both_cells(first, second, "unseen")
    row = difference(*cells, settings).row
    by_film = plain_differences_of_films(first, second)
    k = len(by_film)
    assert row["tested"] == pytest.approx(np.mean(by_film))
    assert row["value"] == row["tested"]
    assert row["first"] - row["second"] == pytest.approx(np.mean(by_film))
    expected = (np.nan, np.nan)
    if k >= 3:
        # Runs that share their test films trained on none of them.
        factor = 1 if first.is_averaged else 2 * (k - 1) / (k - 2)
        error = np.std(by_film, ddof=1) * (factor / k) ** 0.5
        low, high = stats.t.interval(0.95, k - 1, loc=np.mean(by_film), scale=error)
        expected = (max(low, -1), min(high, 1))
    assert (row["low"], row["high"]) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("seed", "n_valued"), CELLS)
def test_a_difference_on_films_that_trained_is_that_of_plain_code(seed, n_valued):
    """Its interval by draws of films, which reaches to 0 where Student's p is above .05."""
    first = made(seed, n_valued)
    second = made(seed, n_valued, scores_seed=1)
    cells, settings = both_cells(first, second, "film")
    row = difference(*cells, settings).row
    differences = []
    for weights in plain_draws(first, (0, 2)):
        ours = plain_value("auc", first, weights)
        differences.append(ours - plain_value("auc", second, weights))
    draws = np.array(differences)
    draws = draws[np.isfinite(draws)]
    middle = np.median(draws)
    inflation = inflation_of(first)
    if not first.is_averaged:
        inflation = 2 * inflation - 1
    wide = middle + inflation**0.5 * (draws - middle)
    k, _ = plain_films("auc", first)
    if k < 3:
        expected = (np.nan, np.nan)
    elif k < 6:
        half = stats.t.ppf(0.975, k - 1) * wide.std() * (k / (k - 1)) ** 0.5
        expected = (max(np.median(wide) - half, -1), min(np.median(wide) + half, 1))
    else:
        expected = ends(wide, k)
    by_film = plain_differences_of_films(first, second)
    if len(by_film) >= 5:
        t = stats.ttest_1samp(by_film, 0).statistic / inflation**0.5
        if 2 * stats.t.sf(abs(t), len(by_film) - 1) > 0.05:
            expected = (min(expected[0], 0), max(expected[1], 0))
    everything = np.ones(first.n_films)
    whole = plain_value("auc", first, everything)
    assert row["first"] == pytest.approx(whole)
    whole -= plain_value("auc", second, everything)
    assert row["value"] == row["tested"] == pytest.approx(whole)
    assert (row["low"], row["high"]) == pytest.approx(expected, abs=1e-9, nan_ok=True)


def plain_differences_of_films(first: Made, second: Made) -> list[float]:
    """The difference on each film that has clips of both classes."""
    by_film = []
    for film in range(first.n_films):
        alone = np.zeros(first.n_films)
        alone[film] = 1.0
        ours = plain_value("auc", first, alone)
        by_film.append(ours - plain_value("auc", second, alone))
    return [value for value in by_film if np.isfinite(value)]


@pytest.mark.parametrize("seed", [0, 1, 11])
def test_beside_a_guess_films_have_half_of_the_order_minus_the_reversed_one(seed):
    """AP minus that of a random order is not 0 on average where an order means nothing."""
    drawn = made(seed)
    guess = [{**row, "score": 0.0, "store": ""} for row in drawn.rows]
    guess = [{**row, "model": "random", "is_model": False} for row in guess]
    tests = a_table([*drawn.rows, *guess])
    cells = cells_from_tests(tests)
    found = film_differences(*cells, "ap")
    expected = {}
    for film in range(drawn.n_films):
        alone = np.zeros(drawn.n_films)
        alone[film] = 1.0
        classes = drawn.y[drawn.film_of_clip == f"f{film:02d}"]
        if classes.all() or not classes.any():
            continue
        backwards = [Fold(fold.films, fold.y, -fold.scores) for fold in drawn.folds]
        order = plain_value("ap", drawn, alone)
        reversed_order = plain_value("ap", replace(drawn, folds=backwards), alone)
        expected[f"f{film:02d}"] = (order - reversed_order) / 2
    assert found == pytest.approx(expected)
    rows = rows_of(
        results(tests, RunSettings(replicates=2)), model="ridge", metric="ap"
    )
    tested = {row["film"]: row["tested"] for row in rows if row["film"] in expected}
    assert tested == pytest.approx(expected)
    # The order in which two models are typed does not matter.
    exchanged = film_differences(*reversed(cells), "ap")
    assert exchanged == pytest.approx({film: -value for film, value in found.items()})
    ours, theirs = (
        difference(*cells, RunSettings()),
        difference(*reversed(cells), RunSettings()),
    )
    assert (ours.row["low"], ours.row["high"]) == pytest.approx(
        (-theirs.row["high"], -theirs.row["low"]), nan_ok=True
    )


def test_films_that_say_the_opposite_of_all_clips_give_no_p() -> None:
    """A model that orders clips within films only, and a baseline that knows the films."""
    rows = []
    for film in range(8):
        share = 8 if film % 2 else 2
        for clip in range(10):
            is_positive = clip < share
            name = {"clip_id": f"{film}-{clip}", "movie_id": f"f{film}"}
            of_clip = {**name, "y": int(is_positive), "seen": "film", "n_seen": 80}
            of_clip["is_probability"] = False
            # One film has two clips in the wrong order.
            score = 0.1 * is_positive - 0.1 * share - 0.1 * (film == clip == 1)
            rows.append({**of_clip, "score": score})
            guess = {"model": "film_prior", "is_model": False, "store": ""}
            rows.append({**of_clip, **guess, "score": 0.1 * share})
    tests = a_table(rows)
    settings = RunSettings(primary="ap", replicates=40)
    found = results(tests, settings)
    (row,) = found[found["against_model"] == "film_prior"].to_dict("records")
    assert row["value"] < 0
    assert min(film_differences(*cells_from_tests(tests), "ap").values()) > 0
    assert np.isnan(row["p"])


def test_four_positive_clips_give_no_interval() -> None:
    """Neither to a value nor to a difference on films that trained."""
    both = [made(1), made(1, scores_seed=1)]
    positive = {row["clip_id"] for row in both[0].rows if row["y"]}
    kept = sorted(positive)[::9][:4]
    for drawn in both:
        for row in drawn.rows:
            row["y"] = int(row["clip_id"] in kept)
    cells, settings = both_cells(*both, "film")
    rows = results(a_table(both[0].rows), settings).to_dict("records")
    row_of = {row["metric"]: row for row in rows if not row["film"]}
    for row in (row_of["ap"], row_of["auc"], difference(*cells, settings).row):
        assert np.isfinite(row["value"])
        assert np.isnan(row["low"]) and np.isnan(row["high"])


def test_a_film_with_the_value_of_the_guess_is_not_better() -> None:
    drawn = made(0)
    guess = [{**row, "model": "random", "is_model": False} for row in drawn.rows]
    settings = RunSettings(primary="accuracy", replicates=2)
    found = results(a_table([*drawn.rows, *guess]), settings)
    rows = rows_of(found, model="ridge", metric="accuracy", against_model="")
    better = [row["films_better"] for row in rows if row["film"]]
    assert better == [0] * drawn.n_films
