"""Embedding association: test whether one group of vectors is closer to an attribute than another.

The effect size is that of Caliskan et al., with the sample standard deviation over both groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput
from obygaze_models.audits.permutation import PValue, normal_p, permutation_p

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FilmShare:
    """A difference of means, and `of_blocks`: the difference between the means of the films.

    `share` is `of_blocks` divided by the difference, None if there is no difference.
    """

    n_blocks: int
    n_shared: int
    n_items_shared: int
    difference: float
    of_blocks: float
    share: float | None


@dataclass(frozen=True)
class Association:
    """The result of one test; `p_blocked` is None unless a film has items of both groups."""

    effect_size: float | None
    n_x: int
    n_y: int
    p: PValue
    p_blocked: PValue | None
    p_normal: float | None
    blocks: FilmShare | None

    @property
    def verdict(self) -> PValue:
        """The p-value to report: within films if films could explain the difference."""
        return self.p_blocked or self.p


def association(w: ArrayLike, a: ArrayLike, b: ArrayLike, name: str = "W") -> Floats:
    """Return, for each row of `w`, its mean cosine to the rows of `a` minus that to `b`."""
    vectors, first, second = unit_rows(w, name), unit_rows(a, "A"), unit_rows(b, "B")
    if not vectors.shape[1] == first.shape[1] == second.shape[1]:
        widths = f"{vectors.shape[1]}, {first.shape[1]} and {second.shape[1]}"
        raise FixInput(f"{name}, A and B must have the same number of dimensions, got {widths}")
    difference: Floats = vectors @ (first.mean(axis=0) - second.mean(axis=0))
    return difference


def attribute_cosines(w: ArrayLike, a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    """Return the cosines of one vector to each row of `a` and to each row of `b`."""
    vector = unit_rows(np.atleast_2d(np.asarray(w, dtype=np.float64)), "W")[0]
    return unit_rows(a, "A") @ vector, unit_rows(b, "B") @ vector


def effect_size(s_x: ArrayLike, s_y: ArrayLike) -> float | None:
    """Return the difference of means in standard deviations; None if the values are constant."""
    x, y = np.asarray(s_x, dtype=np.float64), np.asarray(s_y, dtype=np.float64)
    both = np.concatenate([x, y])
    spread = float(np.std(both, ddof=1))
    if spread <= 1e-12 * max(1.0, float(np.abs(both).max())):
        return None
    return float(x.mean() - y.mean()) / spread


def compare(
    s_x: Floats,
    s_y: Floats,
    blocks: NDArray[Any] | None = None,
    *,
    permutations: int = 1_000_000,
    seed: int = 0,
) -> Association:
    """Test whether the values of one group are larger than those of another.

    Args:
        s_x: The values of the first group.
        s_y: The values of the second group.
        blocks: The film of each value, first those of `s_x`, then those of `s_y`; a second p-value
            then exchanges within films.
        permutations: How many permutations are drawn if they are too many to count.
        seed: The seed of these draws.
    """
    n_x, n_y = len(s_x), len(s_y)
    s, is_x = np.concatenate([s_x, s_y]), np.arange(n_x + n_y) < n_x
    draws: dict[str, Any] = {"permutations": permutations, "seed": seed}
    films, p_blocked = None, None
    if blocks is not None:
        films = film_share(s, is_x, blocks)
        p_blocked = permutation_p(s, is_x, blocks, **draws) if films.n_shared else None
    effect = effect_size(s_x, s_y)
    p_normal = None if effect is None else normal_p(effect, n_x, n_y)
    p = permutation_p(s, is_x, **draws)
    return Association(effect, n_x, n_y, p, p_blocked, p_normal, films)


def film_share(s: Floats, is_x: NDArray[np.bool_], blocks: NDArray[Any]) -> FilmShare:
    """Return how much of the difference of two means is a difference between films.

    Shuffled within its film, an item has the mean of its film on average. The difference that is
    left then comes from the films that the groups were taken from.
    """
    names, codes = np.unique(blocks, return_inverse=True)
    sizes = np.bincount(codes)
    means = (np.bincount(codes, weights=s) / sizes)[codes]
    in_x = np.bincount(codes[is_x], minlength=len(names))
    shared = (in_x > 0) & (in_x < sizes)
    difference, of_blocks = (float(v[is_x].mean() - v[~is_x].mean()) for v in (s, means))
    share = of_blocks / difference if abs(difference) > 1e-12 else None
    counts = (len(names), int(shared.sum()), int(sizes[shared].sum()))
    return FilmShare(*counts, difference, of_blocks, share)


def unit_rows(vectors: ArrayLike, name: str) -> Floats:
    """Return the rows scaled to length one; a zero or non-finite row is an error."""
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise FixInput(f"{name} must be a non-empty 2-dimensional array, got shape {rows.shape}")
    with np.errstate(over="ignore"):  # an overflow is reported below
        lengths = np.linalg.norm(rows, axis=1)
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise FixInput(f"vector {int(bad[0])} of {name} is zero or not finite: remove it")
    unit: Floats = rows / lengths[:, None]
    return unit
