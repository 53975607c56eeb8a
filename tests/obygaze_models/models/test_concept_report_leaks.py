"""What margins carry beyond their concepts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from obygaze_models.models.common import FixTraining
from obygaze_models.models.concept_report import film_leak, leakage_scores

rng = np.random.default_rng(0)


def test_the_film_is_told_from_margins_that_name_it_and_not_from_noise() -> None:
    films = np.repeat(np.arange(4), 50)
    named = film_leak(np.eye(4)[films] + 0.01 * rng.normal(size=(200, 4)), films)
    nothing = film_leak(rng.normal(size=(200, 4)), films)
    assert named["balanced_accuracy"] == 1.0
    assert named["excess"] == 1.0
    assert nothing["chance"] == 0.25
    assert abs(nothing["excess"]) < 0.15


def test_films_with_too_few_clips_are_refused() -> None:
    with pytest.raises(FixTraining, match="5 clips each"):
        film_leak(np.zeros((6, 2)), [0, 0, 0, 0, 0, 1])


def test_leakage_is_what_margins_say_beyond_the_concepts() -> None:
    rng = np.random.default_rng(0)
    n, shift = 4000, 1.0
    y, has = rng.random(n) < 0.5, rng.random((n, 2)) < 0.5
    margins = rng.normal(size=(n, 2))
    clean = leakage_scores(margins, has, y)
    assert clean["ctl"] == pytest.approx(0, abs=0.02) and clean["icl"] == pytest.approx(
        0, abs=0.02
    )
    # The information of a normal margin at +1 or -1 about the class, by numerical integration.
    at = np.linspace(-9, 9, 20001)
    sides = np.stack([norm.pdf(at, shift), norm.pdf(at, -shift)])
    integrand = 0.5 * (sides * np.log(sides / sides.mean(axis=0))).sum(axis=0)
    expected = np.trapezoid(integrand, at) / np.log(2)
    margins[:, 0] += np.where(y, shift, -shift)
    one = leakage_scores(margins, has, y)
    assert one["ctl"] == pytest.approx(expected / 2, abs=0.02)  # one of two concepts
    assert one["icl"] == pytest.approx(clean["icl"], abs=0.02)
    # Where the true concept is the class, its margin cannot say more.
    true = np.column_stack([y, has[:, 1]])
    assert leakage_scores(margins, true, y)["ctl"] == pytest.approx(0, abs=0.02)
    same = np.repeat(margins[:, :1], 2, axis=1)
    assert leakage_scores(same, has, y)["icl"] == pytest.approx(1, abs=0.05)
    assert leakage_scores(same, np.repeat(has[:, :1], 2, axis=1), y)["icl"] < 0.05
    assert 0 <= one["icl_chance"] < 0.02 and 0 <= one["ctl_chance"] < 0.02
