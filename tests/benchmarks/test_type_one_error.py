from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats
from support.cells import with_folds
from support.experiments import films
from support.published import split_file

from benchmarks import type_one_error
from benchmarks.type_one_error import COVERED, DESIGNS, Rate, main, simulate, to_text
from benchmarks.worlds import REAL_LEVELS, WORLDS, World, beta_of, clips_of, features_of
from benchmarks.zoo.workspace import FILMS

pytestmark = pytest.mark.check("benchmarks")

MANIFEST = with_folds(films(12, 60, seed=2))


@pytest.mark.parametrize("design", sorted(set(DESIGNS) - {"table4"}))
def test_every_design_counts_what_its_runs_print(design: str) -> None:
    rates = simulate(design, MANIFEST, n_worlds=2)
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
        with_signal = simulate(design, MANIFEST, n_worlds=1, signal=0.6)
        assert {rate.quantity: rate.n for rate in with_signal} == dict.fromkeys(
            truth, 8
        )
    elif design == "films-chosen":
        # Cells of both stores and of the chosen one, and no difference.
        of_chosen = {f"{name} of the chosen store": 2 for name in truth}
        assert found == {**truth, **of_chosen}
    elif design == "clips":
        assert found == {}  # folds that share films have no intervals
    else:
        p = "p_sign_flip" if "table2" in design else "p_corrected_t"
        n_pairs = 4 if design == "levels" else 2
        found.pop("p of a factor", None)  # only where levels do not predict success
        assert found == {p: n_pairs, "0 outside the interval": n_pairs, **truth}


def test_factors_are_counted_where_levels_do_not_predict_success() -> None:
    rates = simulate("factors", MANIFEST, n_worlds=2, signal=1.0)
    (rate,) = (one for one in rates if one.quantity == "p of a factor")
    assert 0 < rate.n <= 2 * 2 * 8  # concepts, in the analyses of two stores


def test_what_differs_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of the check: one store with a strong signal beside one without."""
    own, signals = type_one_error.features_of, [3.0, 0.0]

    def features(world, film_of_row, is_sure, signal, rng):
        signals.append(signals.pop(0))
        return own(world, film_of_row, is_sure, signals[-1], rng)

    monkeypatch.setattr(type_one_error, "features_of", features)
    rates = simulate("films", MANIFEST, n_worlds=2)
    found = {rate.quantity: rate.rejected for rate in rates}
    assert found["p_corrected_t"] == found["0 outside the interval"] == 2
    # Two stores that differ have no common truth.
    assert found["truth outside the interval of ap"] >= 2


def levels_by_film(world: World, seed: int) -> np.ndarray:
    """The number of clips of each film by EN, HN and S, of a world that is drawn."""
    clips = clips_of(world, np.random.default_rng(seed))
    counts = Counter((clip.movie_id, clip.level) for clip in clips)
    names = sorted({clip.movie_id for clip in clips})
    return np.array(
        [[counts[film, level] for level in ("EN", "HN", "S")] for film in names]
    )


def test_films_of_a_world_are_as_large_and_as_uneven_as_the_real_ones() -> None:
    real = np.array(REAL_LEVELS["published"])
    easy, hard, sure = real.T
    sizes = real.sum(axis=1)
    shares, hard_shares = [], []
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
    for name, n_films in (("5-films", 5), ("20-films", 20), ("30-films", 30)):
        assert len(levels_by_film(WORLDS[name], 0)) == n_films
    uneven = levels_by_film(WORLDS["uneven-sizes"], 0).sum(axis=1)
    assert uneven.max() > 20 * uneven.min()
    even = levels_by_film(WORLDS["equal-shares"], 0)
    assert np.ptp(even[:, 2] / (even[:, 0] + even[:, 2])) < 0.3
    runs = clips_of(WORLDS["runs-of-levels"], np.random.default_rng(0))
    alone = clips_of(WORLDS["raw"], np.random.default_rng(0))

    def n_changes(clips: list) -> int:
        pairs = pairwise(clips)
        return sum(one.level != other.level for one, other in pairs)

    assert n_changes(runs) < 0.8 * n_changes(alone)


def test_features_of_a_world_are_as_its_name_says() -> None:
    rng = np.random.default_rng(0)
    films_of_rows = np.repeat(np.arange(400), 20)
    is_sure = rng.random(8000) < np.repeat(rng.beta(1, 1, 400), 20)

    def of(name: str) -> np.ndarray:
        return features_of(WORLDS[name], films_of_rows, is_sure, 0.0, rng)

    def correlation_with_share(X: np.ndarray) -> float:
        means = X.reshape(400, 20, -1).mean(axis=1)[:, -1]
        shares = is_sure.reshape(400, 20).mean(axis=1)
        return float(np.corrcoef(means, shares)[0, 1])

    assert abs(correlation_with_share(of("raw"))) < 0.15
    # The look has a correlation of .7; noise of the mean of twenty rows is added.
    assert 0.4 < correlation_with_share(of("look-with-share")) < 0.7
    assert of("strong-look").var() == pytest.approx(2.0, rel=0.05)
    assert of("no-look").var() == pytest.approx(1.0, rel=0.05)
    heavy = of("heavy-tails")
    assert stats.kurtosis(heavy, axis=None) > 3
    ordered = of("runs-of-levels").reshape(400, 20, -1)
    following = np.corrcoef(ordered[:, 5, 0], ordered[:, 6, 0])[0, 1]
    assert following == pytest.approx(0.8, abs=0.1)
    # A signal moves sure rows in the first four coordinates.
    X = features_of(WORLDS["no-look"], films_of_rows, is_sure, 0.5, rng)
    moved = X[is_sure].mean(axis=0) - X[~is_sure].mean(axis=0)
    assert moved[:4] == pytest.approx([0.5] * 4, abs=0.1)
    assert moved[4:] == pytest.approx([0.0] * 60, abs=0.1)


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
    def rate(quantity: str, n_rejected: int) -> Rate:
        return Rate("films", "raw", "ap", 0.0, quantity, n_rejected, 100, 100)

    rates = [rate("p", n) for n in (2, 3, 7, 8)]
    rates += [rate("0 outside the interval", n) for n in (1, 2, 8, 9)]
    assert rates[1].error == pytest.approx((0.03 * 0.97 / 100) ** 0.5)
    lines = to_text(rates).splitlines()[1:9]
    assert [line.endswith("*") for line in lines] == [True, False, False, True] * 2


@pytest.mark.parametrize("world", ["raw", "uneven-sizes"])
def test_the_command(world: str) -> None:
    options = ["--signal", "0", "--worlds", "2", "--world", world, "--json"]
    done = CliRunner().invoke(main, ["table2", *options])
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in done.stdout.splitlines()]
    quantities = ["p_sign_flip", "0 outside the interval"]
    # Ridge has no interval of metrics of decisions.
    quantities += [f"truth outside the interval of {name}" for name in ("ap", "auc")]
    assert [one["quantity"] for one in found] == quantities
    assert [one["n"] for one in found][:3] == [2, 2, 4]
    for one in found[2:]:
        assert one["above"] + one["below"] == one["rejected"]
    assert {one["world"] for one in found} == {world}


def test_a_world_that_a_design_refuses_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The released code needs ten training clips of a class, which very rare ones do not give."""
    very_rare = {"raw": World(positives=0.01)}
    monkeypatch.setattr(type_one_error, "WORLDS", very_rare)
    options = ["--signal", "0", "--worlds", "1", "--world", "raw"]
    done = CliRunner().invoke(main, ["table2", *options])
    assert done.exit_code == 0, done.output
    assert "left out: the protocol does not take these worlds" in done.stderr
