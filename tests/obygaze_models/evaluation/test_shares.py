"""Shares of films from marked clips: another program's numbers, all draws counted, made-up worlds.

`samplics` 0.6.1 gave the numbers of the designs: `ReplicateEstimator` with the jackknife over films
(conservative, with the coefficients (k - 1) / k), for marks with the weights N / n of their films;
with scores, for each mark moved by the slope of the other films, which NumPy's `lstsq` found with
an intercept for each film, and with each clip's equation times N / sqrt(n (n - 1)) of its film.
"""

from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.seeds import most_by_chance

from obygaze_models.evaluation.shares import MarkedFilms, estimate_share

Floats = npt.NDArray[np.float64]
SIZES = [157, 178, 164, 228, 103, 125, 152, 211, 200, 115, 115, 109, 92]
SIZES += [194, 186, 223, 171, 158, 70, 209, 209, 61, 163, 221, 236]
POSITIVE = {4: 1, 7: 1, 8: 1, 9: 1, 11: 2, 13: 2, 18: 1, 21: 1}  # of 8 clips each
# The clips of each film and its marks, then the share and its standard error.
DESIGNS: dict[str, tuple[list[tuple[int, str]], float, float]] = {
    "equal films": (
        [
            *((100, "00000"), (100, "00100"), (100, "10111"), (100, "10111")),
            *((100, "11111"), (100, "01010"), (100, "01001"), (100, "01100")),
        ],
        0.5,
        0.11952286093343943,
    ),
    "marks are missing": (
        [
            *((90, "011000"), (100, "1"), (110, "0000")),
            *((120, "10000"), (130, "00"), (60, "010")),
        ],
        0.28524590163934427,
        0.15832539025851763,
    ),
    "a rare level in many films": (
        [
            (size, "1" * POSITIVE.get(film, 0) + "0" * (8 - POSITIVE.get(film, 0)))
            for film, size in enumerate(SIZES)
        ],
        0.04216049382716049,
        0.01585744999525358,
    ),
    "with scores": (
        [
            *((50, "000000"), (75, "011101"), (100, "10110")),
            *((140, "111000"), (200, "1010"), (90, "010110")),
        ],
        0.4021555857097555,
        0.14614201688673406,
    ),
}
SCORES = [
    [0.083, 0.237, 0.206, 0.225, 0.147, 0.146],
    [0.089, 0.752, 0.579, 0.424, 0.166, 0.382],
    [0.526, 0.172, 0.365, 0.695, 0.102],
    [0.632, 0.535, 0.545, 0.028, 0.365, 0.431],
    [0.796, 0.492, 0.535, 0.373],
    [0.129, 0.535, 0.102, 0.763, 0.552, 0.19],
]
SCORE_OF_ALL = [0.273, 0.369, 0.434, 0.372, 0.332, 0.466]


def films_of(films, scores=None, score_of_all=None) -> MarkedFilms:
    shape = (len(films), max(len(marks) for _, marks in films))
    marks = np.full(shape, np.nan)
    of_clips = np.zeros(shape)
    for row, (_, text) in enumerate(films):
        marks[row, : len(text)] = [int(mark) for mark in text]
        if scores is not None:
            of_clips[row, : len(text)] = scores[row]
    of_all = np.zeros(len(films)) if score_of_all is None else np.array(score_of_all)
    sizes = np.array([size for size, _ in films], dtype=np.float64)
    return MarkedFilms.of(sizes, marks, of_clips, of_all)


@pytest.mark.parametrize("name", DESIGNS)
def test_share_and_standard_error_are_those_of_another_program(name: str) -> None:
    of_design, value, error = DESIGNS[name]
    scores = (SCORES, SCORE_OF_ALL) if name == "with scores" else ()
    films = films_of(of_design, *scores)
    share = estimate_share(films, films.slopes)
    assert float(share.value) == pytest.approx(value, abs=1e-9)
    assert float(share.error) == pytest.approx(error, abs=1e-9)


@pytest.mark.parametrize("name", DESIGNS)
def test_the_ends_are_clopper_and_pearsons_of_the_independent_clips(name: str) -> None:
    of_design, value, error = DESIGNS[name]
    scores = (SCORES, SCORE_OF_ALL) if name == "with scores" else ()
    films = films_of(of_design, *scores)
    share = estimate_share(films, films.slopes)
    by_marks = float(estimate_share(films).value)
    left = 1.0
    if scores:
        left = float(films.variance_within(films.slopes) / films.variance_within())
    n_clips = sum(len(marks) for _, marks in of_design)
    t_ratio = stats.t.ppf(0.975, n_clips - 1) / stats.t.ppf(0.975, len(of_design) - 1)
    of_films = by_marks * (1 - by_marks) / error**2 * t_ratio**2
    # A film of which n of N clips are marked, as alike as an intraclass correlation of 0.17.
    n_all = sum(size for size, _ in of_design)
    least = sum(
        (size / n_all) ** 2 * (0.17 + 0.83 * left / len(marks))
        for size, marks in of_design
    )
    n_effective = min(of_films, 1 / least)
    n_with = value * n_effective
    # The chance of as many clips with it, or of as few, is .025 at the ends.
    low = float(share.low)
    high = float(share.high)
    assert stats.beta.cdf(low, n_with, n_effective - n_with + 1) == pytest.approx(0.025)
    assert stats.beta.sf(high, n_with + 1, n_effective - n_with) == pytest.approx(0.025)


def test_equal_shares_in_films_of_other_sizes_have_the_width_of_films() -> None:
    n_clips = 6
    # Each film has a third. Their differences from the mean are rounding, of about 1e-17.
    marks = "1" * (n_clips // 3) + "0" * (n_clips - n_clips // 3)
    sizes = [71, 113, 152, 209, 61, 97]
    share = estimate_share(films_of([(size, marks) for size in sizes]))
    equal = sum(size**2 for size in sizes) / sum(sizes) ** 2
    n_effective = 1 / (equal * (0.17 + 0.83 / n_clips))
    n_with = n_effective / 3
    low = stats.beta.ppf(0.025, n_with, n_effective - n_with + 1)
    high = stats.beta.ppf(0.975, n_with + 1, n_effective - n_with)
    assert (float(share.low), float(share.high)) == pytest.approx((low, high))
    assert high - low > 0.3


def test_no_marked_clip_leaves_a_width_and_one_film_no_interval() -> None:
    n_effective = 10 / (0.17 + 0.83 / 4)
    nothing = estimate_share(films_of([(100, "0000")] * 10))
    assert float(nothing.low) == 0
    # So improbable is no clip of so many.
    assert (1 - float(nothing.high)) ** n_effective == pytest.approx(0.025)
    all_of_them = estimate_share(films_of([(100, "1111")] * 10))
    assert float(all_of_them.low) ** n_effective == pytest.approx(0.025)
    assert float(all_of_them.high) == 1
    assert np.isnan(estimate_share(films_of([(100, "0101")])).low)


@given(st.data())
def test_over_all_draws_the_mean_is_the_share_whatever_the_scores(data: Any) -> None:
    sizes = data.draw(st.lists(st.integers(2, 4), min_size=2, max_size=3))
    marks = [data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) for n in sizes]
    some = st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0])
    scores = [data.draw(st.lists(some, min_size=n, max_size=n)) for n in sizes]
    draws = list(product(*(combinations(range(n), 2) for n in sizes)))
    picked = np.array(draws)  # draw, film, clip
    drawn_marks = np.empty(picked.shape)
    drawn_scores = np.empty(picked.shape)
    for film in range(len(sizes)):
        of_film = np.array(marks[film], dtype=np.float64)
        drawn_marks[:, film] = of_film[picked[:, film]]
        drawn_scores[:, film] = np.array(scores[film])[picked[:, film]]
    score_of_all = np.array([np.mean(of_film) for of_film in scores])
    films = MarkedFilms.of(
        np.tile(np.array(sizes, dtype=np.float64), (len(draws), 1)),
        drawn_marks,
        drawn_scores,
        np.tile(score_of_all, (len(draws), 1)),
    )
    estimates = (films.weights * (films.shares + films.slopes * films.ahead)).sum(1)
    truth = sum(map(sum, marks)) / sum(sizes)
    assert estimates.mean() == pytest.approx(truth, abs=1e-9)


# ---- made-up worlds ------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_films", "alike"), [(6, 0.3), (20, 1 / 7)])
def test_the_interval_misses_at_most_a_twentieth(n_films: int, alike: float) -> None:
    n_draws = 1000
    for place, truth in enumerate((0.3, 0.1, 0.05, 0.02)):
        rng = np.random.default_rng([83, n_films, int(100 * alike), place])
        size = 1 / alike - 1
        shares = rng.beta(truth * size, (1 - truth) * size, size=(n_draws, n_films, 1))
        marks = (rng.random((n_draws, n_films, 20)) < shares).astype(np.float64)
        none = np.zeros((n_draws, n_films))
        films = MarkedFilms.of(none + 100, marks, np.zeros_like(marks), none)
        share = estimate_share(films)
        n_missed = int(np.sum((share.low > truth) | (share.high < truth)))
        assert n_missed <= most_by_chance(n_draws, 0.05, 5e-5)
