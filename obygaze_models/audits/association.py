"""Embedding association tests: is one group of vectors closer to an attribute than another.

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
class Association:
    """The result of one test; `p_blocked` is None unless a film has items of both groups."""

    effect_size: float | None
    n_x: int
    n_y: int
    p: PValue
    p_blocked: PValue | None
    p_normal: float | None

    @property
    def verdict(self) -> PValue:
        """The p-value to report: within films if films could explain the difference."""
        return self.p_blocked or self.p


@dataclass(frozen=True)
class FilmShare:
    """A difference of means, and the part of it that the means of the films explain.

    `share` is that part, None if there is no difference.
    """

    n_blocks: int
    n_shared: int
    n_items_shared: int
    difference: float
    of_blocks: float
    share: float | None


def association(w: ArrayLike, a: ArrayLike, b: ArrayLike, name: str = "W") -> Floats:
    """Return, for each row of `w`, its mean cosine to the rows of `a` minus that to `b`."""
    vectors, first, second = unit_rows(w, name), unit_rows(a, "A"), unit_rows(b, "B")
    if not vectors.shape[1] == first.shape[1] == second.shape[1]:
        widths = f"{vectors.shape[1]}, {first.shape[1]} and {second.shape[1]}"
        raise FixInput(f"{name}, A and B must have the same number of dimensions, got {widths}")
    difference: Floats = vectors @ (first.mean(axis=0) - second.mean(axis=0))
    return difference


def effect_size(s_x: ArrayLike, s_y: ArrayLike) -> float | None:
    """Return the difference of means in standard deviations; None if the values are constant."""
    x, y = np.asarray(s_x, dtype=np.float64), np.asarray(s_y, dtype=np.float64)
    both = np.concatenate([x, y])
    spread = float(np.std(both, ddof=1))
    if spread <= 1e-12 * max(1.0, float(np.abs(both).max())):
        return None
    return float(x.mean() - y.mean()) / spread


def embedding_association(
    x: ArrayLike,
    y: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    *,
    x_block: ArrayLike | None = None,
    y_block: ArrayLike | None = None,
    permutations: int = 1_000_000,
    seed: int = 0,
) -> Association:
    """Test whether the vectors `x` are closer to `a` (compared with `b`) than the vectors `y`.

    Args:
        x: The vectors of the first group, one per row.
        y: The vectors of the second group.
        a: The vectors of the first attribute.
        b: The vectors of the second attribute.
        x_block: The film of each row of `x`; a second p-value then exchanges within films.
        y_block: The film of each row of `y`.
        permutations: How many permutations are drawn if they are too many to count.
        seed: The seed of these draws.
    """
    s_x, s_y = association(x, a, b, "X"), association(y, a, b, "Y")
    blocks = _shared_blocks(x_block, y_block, len(s_x), len(s_y))
    return _test(s_x, s_y, blocks, permutations, seed)


def single_category(
    w: ArrayLike, a: ArrayLike, b: ArrayLike, *, permutations: int = 1_000_000, seed: int = 0
) -> Association:
    """Test whether one vector is closer to `a` than to `b`, by exchanging the attributes.

    Args:
        w: The vector.
        a: The vectors of the first attribute, one per row.
        b: The vectors of the second attribute.
        permutations: How many permutations are drawn if they are too many to count.
        seed: The seed of these draws.
    """
    return _test(*attribute_cosines(w, a, b), None, permutations, seed)


def attribute_cosines(w: ArrayLike, a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    """Return the cosines of one vector to each row of `a` and to each row of `b`."""
    vector = unit_rows(np.atleast_2d(np.asarray(w, dtype=np.float64)), "W")
    if len(vector) != 1:
        raise FixInput(f"the single-category test expects one vector, got {len(vector)}")
    return unit_rows(a, "A") @ vector[0], unit_rows(b, "B") @ vector[0]


def _test(
    s_x: Floats, s_y: Floats, blocks: NDArray[Any] | None, permutations: int, seed: int
) -> Association:
    s, is_x = np.concatenate([s_x, s_y]), np.arange(len(s_x) + len(s_y)) < len(s_x)
    effect, options = effect_size(s_x, s_y), {"permutations": permutations, "seed": seed}
    return Association(
        effect_size=effect,
        n_x=len(s_x),
        n_y=len(s_y),
        p=permutation_p(s, is_x, **options),  # type: ignore[arg-type]
        p_blocked=None if blocks is None else permutation_p(s, is_x, blocks, **options),  # type: ignore[arg-type]
        p_normal=None if effect is None else normal_p(effect, len(s_x), len(s_y)),
    )


def unit_rows(vectors: ArrayLike, name: str) -> Floats:
    """Return the rows scaled to length one; a zero or non-finite row is an error."""
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise FixInput(f"{name} must be a non-empty 2-dimensional array, got shape {rows.shape}")
    with np.errstate(over="ignore"):  # an overflow is reported below
        lengths = np.linalg.norm(rows, axis=1)
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise FixInput(f"vector {int(bad[0])} of {name} is zero or not finite: no cosine exists")
    unit: Floats = rows / lengths[:, None]
    return unit


def film_share(s_x: ArrayLike, s_y: ArrayLike, x_block: ArrayLike, y_block: ArrayLike) -> FilmShare:
    """Return how much of mean(s_x) - mean(s_y) is a difference between films.

    Shuffled within its film, an item has the mean of its film on average. The difference that is
    left then comes from the films that the groups were taken from.
    """
    s = np.concatenate([np.asarray(s_x, dtype=np.float64), np.asarray(s_y, dtype=np.float64)])
    n_x, n_y = len(np.asarray(s_x)), len(np.asarray(s_y))
    blocks = np.concatenate([np.asarray(x_block), np.asarray(y_block)])
    if blocks.shape != s.shape:
        raise FixInput(f"expected one block per item, got {blocks.size} blocks for {s.size} items")
    names, codes = np.unique(blocks, return_inverse=True)
    sizes = np.bincount(codes)
    means = (np.bincount(codes, weights=s) / sizes)[codes]
    in_x = np.bincount(codes[:n_x], minlength=len(names))
    shared = (in_x > 0) & (in_x < sizes)
    difference, of_blocks = (
        float(v[:n_x].mean() - v[n_x:].mean()) if n_x and n_y else 0.0 for v in (s, means)
    )
    share = of_blocks / difference if abs(difference) > 1e-12 else None
    counts = (len(names), int(shared.sum()), int(sizes[shared].sum()))
    return FilmShare(*counts, difference, of_blocks, share)


def _shared_blocks(
    x_block: ArrayLike | None, y_block: ArrayLike | None, n_x: int, n_y: int
) -> NDArray[Any] | None:
    """The block of each item; None unless at least one block has items of both groups."""
    if x_block is None and y_block is None:
        return None
    if x_block is None or y_block is None:
        raise FixInput("expected blocks for both groups or for neither, got them for one")
    x, y = np.asarray(x_block), np.asarray(y_block)
    if x.shape != (n_x,) or y.shape != (n_y,):
        got = f"{x.size} and {y.size} blocks for {n_x} and {n_y} items"
        raise FixInput(f"expected one block per item, got {got}")
    return np.concatenate([x, y]) if len(np.intersect1d(x, y)) else None
