"""Simulated worlds are as uneven as the real films, and what is counted is what a run prints."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats
from support.published import split_file

from benchmarks import calibration
from benchmarks.calibration import DESIGNS, Rate, main, simulate, to_text
from benchmarks.fit import FILMS
from benchmarks.worlds import REAL_LEVELS, WORLDS, World, beta_of, clips_of, features_of

pytestmark = pytest.mark.check("benchmarks")


@pytest.mark.parametrize("design", DESIGNS)
def test_every_design_counts_what_its_runs_print(design: str) -> None:
    rates = simulate(design, n_worlds=2)
    found = {rate.quantity: rate.n for rate in rates}
    if design == "concepts":
        # Each world has a concept.
        assert found == {"p of a concept": 2, "truth outside the interval of ap": 2}
    else:
        # Each world has the cells of two stores and their difference, or of four and six.
        n_stores = 4 if design == "max-t" else 2
        n_differences = 6 if design == "max-t" else 1
        assert found == {
            "0 outside the interval": 2 * n_differences,
            "the least p of all": 2,
            "truth outside the interval of ap": 2 * n_stores,
            "truth outside the interval of auc": 2 * n_stores,
        }
    for rate in rates:
        if rate.above is not None:
            assert rate.above + rate.below == rate.rejected


def test_what_differs_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of the check: one store with a strong signal beside one without."""
    own = calibration.features_of
    signals = [3.0, 0.0]

    def features(world, film_of_row, is_sure, signal, rng):
        signals.append(signals.pop(0))
        return own(world, film_of_row, is_sure, signals[-1], rng)

    monkeypatch.setattr(calibration, "features_of", features)
    rates = simulate("ridge", n_worlds=2)
    found = {rate.quantity: rate.rejected for rate in rates}
    assert found["the least p of all"] == found["0 outside the interval"] == 2
    # Two stores that differ have no common truth.
    assert found["truth outside the interval of ap"] >= 2


def levels_by_film(world: World, seed: int) -> np.ndarray:
    """The number of clips of each film by EN, HN and S, of a world that is drawn."""
    clips = clips_of(world, np.random.default_rng(seed))
    counts = Counter((clip.movie_id, clip.level) for clip in clips)
    rows = []
    for film in sorted({clip.movie_id for clip in clips}):
        rows.append([counts[film, level] for level in ("EN", "HN", "S")])
    return np.array(rows)


def test_films_of_a_world_are_as_large_and_as_uneven_as_the_real_ones() -> None:
    real = np.array(REAL_LEVELS["published"])
    easy, hard, sure = real.T
    sizes = real.sum(axis=1)
    shares = []
    hard_shares = []
    for seed in range(25):
        n = levels_by_film(WORLDS["published"], seed)
        assert n.sum(axis=1).tolist() == sizes.tolist()
        shares.append(n[:, 2] / (n[:, 0] + n[:, 2]))
        hard_shares.append(n[:, 1] / sizes)
    for drawn, of_films in (
        (shares, sure / (easy + sure)),
        (hard_shares, hard / sizes),
    ):
        assert np.mean(drawn) == pytest.approx(of_films.mean(), abs=0.04)
        # Chance among the clips of a film adds a little.
        assert 0.9 < np.std(drawn) / of_films.std(ddof=1) < 1.25


def test_each_world_differs_in_what_its_name_says() -> None:
    def shares(name: str) -> np.ndarray:
        drawn = [levels_by_film(WORLDS[name], seed) for seed in range(20)]
        return np.array([n[:, 2].sum() / (n[:, 0] + n[:, 2]).sum() for n in drawn])

    assert shares("raw").mean() == pytest.approx(0.46, abs=0.06)
    assert shares("rare-positives").mean() == pytest.approx(0.05, abs=0.02)
    for n_films in (5, 6, 20, 30):
        assert len(levels_by_film(WORLDS[f"{n_films}-films"], 0)) == n_films

    def n_changes(name: str) -> int:
        clips = clips_of(WORLDS[name], np.random.default_rng(0))
        return sum(one.level != other.level for one, other in pairwise(clips))

    assert n_changes("runs-of-levels") < 0.8 * n_changes("raw")


def test_features_of_a_world_are_as_its_name_says() -> None:
    rng = np.random.default_rng(0)
    films_of_rows = np.repeat(np.arange(400), 20)
    is_sure = rng.random(8000) < np.repeat(rng.beta(1, 1, 400), 20)

    def of(world: World, signal: float = 0.0) -> np.ndarray:
        return features_of(world, films_of_rows, is_sure, signal, rng)

    assert of(WORLDS["strong-look"]).var() == pytest.approx(2.0, rel=0.05)
    assert of(World(look=0.0)).var() == pytest.approx(1.0, rel=0.05)
    ordered = of(WORLDS["runs-of-levels"]).reshape(400, 20, -1)
    following = np.corrcoef(ordered[:, 5, 0], ordered[:, 6, 0])[0, 1]
    assert following == pytest.approx(0.8, abs=0.1)
    # A signal moves sure rows in the first four coordinates.
    X = of(World(look=0.0), signal=0.5)
    moved = X[is_sure].mean(axis=0) - X[~is_sure].mean(axis=0)
    assert moved[:4] == pytest.approx([0.5] * 4, abs=0.1)
    assert moved[4:] == pytest.approx([0.0] * 60, abs=0.1)


def test_a_beta_distribution_with_the_mean_and_variance_of_shares() -> None:
    first, second = beta_of(np.array([0.2, 0.4, 0.9]))
    mean, variance = stats.beta.stats(first, second)
    assert (mean, variance) == pytest.approx((0.5, 0.13))


def test_the_levels_of_films_are_those_of_the_published_split() -> None:
    two = split_file("02_EN_S.csv")
    three = split_file("02_ENHN_S.csv")
    n_easy = Counter(film for film, y in zip(two.films, two.y, strict=True) if not y)
    n_sure = Counter(film for film, y in zip(two.films, two.y, strict=True) if y)
    pairs = zip(three.films, three.y, strict=True)
    n_negative = Counter(film for film, y in pairs if not y)
    published = []
    for film in FILMS:
        n_hard = n_negative[film] - n_easy[film]
        published.append((n_easy[film], n_hard, n_sure[film]))
    assert tuple(published) == REAL_LEVELS["published"]


def test_a_star_marks_what_is_out_of_range() -> None:
    def rate(quantity: str, n_rejected: int) -> Rate:
        return Rate("ridge", "raw", 0.0, quantity, n_rejected, 100, 100)

    rates = [rate("p", n) for n in (2, 3, 7, 8)]
    rates += [rate("0 outside the interval", n) for n in (1, 2, 8, 9)]
    assert rates[1].error == pytest.approx((0.03 * 0.97 / 100) ** 0.5)
    lines = to_text(rates).splitlines()[1:9]
    assert [line.endswith("*") for line in lines] == [True, False, False, True] * 2


def test_the_command_leaves_out_worlds_that_cannot_be_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = ["--signal", "0", "--worlds", "1", "--world", "5-films"]
    done = CliRunner().invoke(main, ["ridge", *options])
    assert done.exit_code == 0, done.output
    assert "truth outside the interval of ap" in done.stdout
    monkeypatch.setitem(WORLDS, "5-films", World(positives=0.001))
    done = CliRunner().invoke(main, ["ridge", *options])
    assert done.exit_code == 0, done.output
    assert "truth" not in done.stdout
