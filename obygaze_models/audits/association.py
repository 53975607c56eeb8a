"""Embedding association tests: does a backbone put one group nearer to an attribute than another.

The effect size is that of Caliskan et al. with the sample standard deviation over both groups.
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
    """The outcome of one test; `p_blocked` is there where a film has items on both sides."""

    effect_size: float | None
    n_x: int
    n_y: int
    p: PValue
    p_blocked: PValue | None
    p_normal: float | None

    def to_json(self) -> dict[str, Any]:
        """The outcome as one JSON document."""
        return {
            "effect_size": self.effect_size,
            "n_x": self.n_x,
            "n_y": self.n_y,
            "p": self.p.to_json(),
            "p_blocked": self.p_blocked.to_json() if self.p_blocked else None,
            "p_normal": self.p_normal,
        }

    @property
    def verdict(self) -> PValue:
        """The p-value to report: within films where films could explain the difference."""
        return self.p_blocked or self.p


def association(w: ArrayLike, a: ArrayLike, b: ArrayLike, name: str = "W") -> Floats:
    """For each row of `w`: mean cosine to the attributes `a` minus mean cosine to `b`."""
    vectors, first, second = unit_rows(w, name), unit_rows(a, "A"), unit_rows(b, "B")
    if not vectors.shape[1] == first.shape[1] == second.shape[1]:
        widths = f"{vectors.shape[1]}, {first.shape[1]} and {second.shape[1]}"
        raise FixInput(f"vectors of {widths} dimensions do not share a space")
    difference: Floats = vectors @ (first.mean(axis=0) - second.mean(axis=0))
    return difference


def effect_size(s_x: ArrayLike, s_y: ArrayLike) -> float | None:
    """Difference of means in sample standard deviations over both; None where nothing varies."""
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
    """Whether the items X lean more to the attributes A (against B) than the items Y do."""
    s_x, s_y = association(x, a, b, "X"), association(y, a, b, "Y")
    s = np.concatenate([s_x, s_y])
    is_x = np.arange(len(s)) < len(s_x)
    effect = effect_size(s_x, s_y)
    options = {"permutations": permutations, "seed": seed}
    blocks = _shared_blocks(x_block, y_block, len(s_x), len(s_y))
    return Association(
        effect_size=effect,
        n_x=len(s_x),
        n_y=len(s_y),
        p=permutation_p(s, is_x, **options),
        p_blocked=None if blocks is None else permutation_p(s, is_x, blocks, **options),
        p_normal=None if effect is None else normal_p(effect, len(s_x), len(s_y)),
    )


def single_category(
    w: ArrayLike, a: ArrayLike, b: ArrayLike, *, permutations: int = 1_000_000, seed: int = 0
) -> Association:
    """Whether one vector is nearer to the attributes A than to B; the attributes are exchanged."""
    vector = unit_rows(np.atleast_2d(np.asarray(w, dtype=np.float64)), "W")
    if len(vector) != 1:
        raise FixInput(f"the single-category test takes one vector, not {len(vector)}")
    near_a, near_b = unit_rows(a, "A") @ vector[0], unit_rows(b, "B") @ vector[0]
    s = np.concatenate([near_a, near_b])
    effect = effect_size(near_a, near_b)
    p = permutation_p(s, np.arange(len(s)) < len(near_a), permutations=permutations, seed=seed)
    normal = None if effect is None else normal_p(effect, len(near_a), len(near_b))
    return Association(effect, len(near_a), len(near_b), p, None, normal)


def unit_rows(vectors: ArrayLike, name: str) -> Floats:
    """The rows scaled to length one; a row that has no direction is an error."""
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise FixInput(f"{name} must be a non-empty table of vectors, has shape {rows.shape}")
    with np.errstate(over="ignore"):  # what overflows is told in the next lines
        lengths = np.linalg.norm(rows, axis=1)
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise FixInput(f"vector {int(bad[0])} of {name} is zero or not finite: it has no direction")
    unit: Floats = rows / lengths[:, None]
    return unit


def _shared_blocks(
    x_block: ArrayLike | None, y_block: ArrayLike | None, n_x: int, n_y: int
) -> NDArray[Any] | None:
    """The block of each item, where at least one block has items on both sides."""
    if x_block is None and y_block is None:
        return None
    if x_block is None or y_block is None:
        raise FixInput("blocks are needed for both groups or for neither")
    x, y = np.asarray(x_block), np.asarray(y_block)
    if x.shape != (n_x,) or y.shape != (n_y,):
        raise FixInput(f"{x.size} and {y.size} blocks for {n_x} and {n_y} items")
    return np.concatenate([x, y]) if len(np.intersect1d(x, y)) else None
