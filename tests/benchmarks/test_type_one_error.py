from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats
from support.cells import with_folds
from support.experiments import films
from support.published import split_file

from benchmarks import type_one_error
from benchmarks.type_one_error import COVERED, DESIGNS, Rate, main, simulate, to_text
from benchmarks.zoo.workspace import FILMS, REAL_LEVELS, beta_of, clips_of_films

pytestmark = pytest.mark.check("benchmarks")

WORLDS = with_folds(films(5, 60, seed=2))


@pytest.mark.parametrize("design", sorted(set(DESIGNS) - {"table4"}))
def test_every_design_counts_what_its_runs_print(design: str) -> None:
    rates = simulate(design, WORLDS, n_worlds=2)
    found = {rate.quantity: rate.n for rate in rates}
    if design.startswith("contrast"):
        n = found.get("p of a contrast")
        assert found.get("0 outside the interval of a contrast") == n
        # Films that train each other's models have neither.
        assert n is None if design == "contrast" else n > 0
        assert not any(quantity.startswith("truth") for quantity in found)
        return
    # Each world has two cells (of `levels` four, half of them ordinal), or eight concepts.
    n = {"concepts": 16, "levels": 8}.get(design, 4)
    truth = {f"truth outside the interval of {name}": n for name in COVERED["cell"]}
    if design == "segments":
        truth["truth outside the interval of map"] = 4
    if design == "levels":
        truth["truth outside the interval of concordance"] = 8
    if design == "concepts":
        assert found == {"p of a concept": 16, **truth}
        with_signal = simulate(design, WORLDS, n_worlds=1, signal=0.6)
        assert {rate.quantity: rate.n for rate in with_signal} == dict.fromkeys(
            truth, 8
        )
    elif design == "clips":
        assert found == {}  # folds that share films have no intervals
    else:
        p = "p_sign_flip" if "table2" in design else "p_corrected_t"
        n_pairs = 4 if design == "levels" else 2
        assert found == {p: n_pairs, "0 outside the interval": n_pairs, **truth}


def test_factors_are_counted_where_levels_do_not_predict_success() -> None:
    rates = simulate("factors", WORLDS, n_worlds=2, signal=1.0)
    (rate,) = (one for one in rates if one.quantity == "p of a factor")
    assert 0 < rate.n <= 2 * 2 * 8  # concepts, in the analyses of two stores


def test_what_differs_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of the check: one store with a strong signal beside one without."""
    own, signals = type_one_error._world, [3.0, 0.0]

    def world(codes, sure, rng, signal, look, *, runs_on):
        signals.append(signals.pop(0))
        return own(codes, sure, rng, signals[-1], look, runs_on=runs_on)

    monkeypatch.setattr(type_one_error, "_world", world)
    rates = simulate("films", WORLDS, n_worlds=2)
    found = {rate.quantity: rate.rejected for rate in rates}
    assert found["p_corrected_t"] == found["0 outside the interval"] == 2
    # Two stores that differ have no common truth.
    assert found["truth outside the interval of ap"] >= 2


def test_films_of_a_world_are_as_large_and_as_uneven_as_the_real_ones() -> None:
    real = np.array(REAL_LEVELS["published"])
    easy, hard, sure = real.T
    sizes = real.sum(axis=1)
    shares, hard_shares = [], []
    for seed in range(25):
        clips = clips_of_films(real, np.random.default_rng(seed))
        counts = Counter((clip.movie_id, clip.level) for clip in clips)
        n = np.array(
            [[counts[film, level] for level in ("EN", "HN", "S")] for film in FILMS]
        )
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


def test_a_beta_distribution_with_the_mean_and_variance_of_shares() -> None:
    first, second = beta_of(np.array([0.2, 0.4, 0.9]))
    mean, variance = stats.beta.stats(first, second)
    assert (mean, variance) == pytest.approx((0.5, 0.13))


def test_the_levels_of_films_are_those_of_the_published_split() -> None:
    two, three = split_file("02_EN_S.csv"), split_file("02_ENHN_S.csv")
    n_easy = Counter(
        film for film, sure in zip(two.films, two.y, strict=True) if not sure
    )
    n_negative = Counter(
        film for film, sure in zip(three.films, three.y, strict=True) if not sure
    )
    n_sure = Counter(film for film, sure in zip(two.films, two.y, strict=True) if sure)
    published = [
        (n_easy[film], n_negative[film] - n_easy[film], n_sure[film]) for film in FILMS
    ]
    assert tuple(published) == REAL_LEVELS["published"]


def test_a_star_marks_what_is_out_of_range() -> None:
    rates = [Rate("films", "ap", 0.0, "p", rejected, 100) for rejected in (2, 3, 7, 8)]
    rates += [
        Rate("films", "ap", 0.0, "0 outside the interval", n, 100) for n in (1, 2, 8, 9)
    ]
    assert rates[1].error == pytest.approx((0.03 * 0.97 / 100) ** 0.5)
    lines = to_text(rates).splitlines()[1:9]
    assert [line.endswith("*") for line in lines] == [True, False, False, True] * 2


@pytest.mark.parametrize("population", ["chance", "published"])
def test_the_command(population: str) -> None:
    options = ["--signal", "0", "--worlds", "1", "--films", population, "--json"]
    done = CliRunner().invoke(main, ["table2", *options])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["rates"]
    quantities = ["p_sign_flip", "0 outside the interval"]
    # Ridge has no interval of metrics of decisions.
    quantities += [f"truth outside the interval of {name}" for name in ("ap", "auc")]
    assert [one["quantity"] for one in found] == quantities
    assert [one["n"] for one in found][:3] == [1, 1, 2]
