"""Simulated worlds are as uneven as the real films."""

from __future__ import annotations

from collections import Counter

import pytest
from support.published import split_file

from benchmarks.fit import FILMS
from benchmarks.worlds import REAL_LEVELS

pytestmark = pytest.mark.check("benchmarks")


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
