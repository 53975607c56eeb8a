"""What two annotators would have said by chance: random tables of counts under three nulls.

Disorder depends only on how often each two levels met, so tables are drawn in place of labels:
the distribution is that of shuffling or drawing the labels themselves, at a cost that does not
grow with the number of clips.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixUsage

Ints = NDArray[np.int64]

NULLS = ("uniform", "own", "pooled")


def drawn_tables(
    first: Ints, second: Ints, n: int, times: int, generator: np.random.Generator
) -> Ints:
    """Tables of `n` clips, each annotator's levels drawn one by one in these proportions."""
    cells = np.outer(first, second) / (int(first.sum()) * int(second.sum()))
    return generator.multinomial(n, cells.ravel(), times).reshape(times, *cells.shape)


def shuffled_tables(counts: Ints, null: str, times: int, generator: np.random.Generator) -> Ints:
    """Tables of as many clips as `counts` has, what a permutation test of the null asks for.

    `uniform` draws levels at random, `own` shuffles one annotator's labels over the clips,
    `pooled` shuffles all labels of both between the two.
    """
    first, second = counts.sum(axis=1), counts.sum(axis=0)
    if null == "uniform":
        alike = np.ones_like(first)
        return drawn_tables(alike, alike, int(counts.sum()), times, generator)
    if null == "own":
        shape = (times, len(counts))
        rows, columns = np.broadcast_to(first, shape), np.broadcast_to(second, shape)
        return _with_margins(rows, columns, generator)
    if null == "pooled":
        rows = generator.multivariate_hypergeometric(first + second, int(first.sum()), times)
        return _with_margins(rows, first + second - rows, generator)
    raise FixUsage(f"{null!r} is not one of {', '.join(NULLS)}")


def _with_margins(rows: Ints, columns: Ints, generator: np.random.Generator) -> Ints:
    """One table for each given pair of margins, as shuffling one of the labelings makes it."""
    times, n_levels = rows.shape
    tables = np.zeros((times, n_levels, n_levels), dtype=np.int64)
    left = columns.copy()
    for i in range(n_levels - 1):
        to_place = rows[:, i].copy()
        others = left.sum(axis=1)
        for j in range(n_levels - 1):
            others -= left[:, j]
            tables[:, i, j] = generator.hypergeometric(left[:, j], others, to_place)
            to_place -= tables[:, i, j]
        tables[:, i, -1] = to_place
        left -= tables[:, i]
    tables[:, -1] = left
    return tables
