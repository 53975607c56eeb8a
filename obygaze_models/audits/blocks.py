"""How much of a difference between two groups is a difference between the films they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixInput


@dataclass(frozen=True)
class BlockShare:
    """A difference of means, and what of it the films' own averages would give by themselves."""

    n_blocks: int
    n_shared: int
    n_items_shared: int
    difference: float
    of_blocks: float

    @property
    def share(self) -> float | None:
        """The part of the difference that films explain; None where there is no difference."""
        return self.of_blocks / self.difference if abs(self.difference) > 1e-12 else None

    def to_json(self) -> dict[str, Any]:
        """The counts and the two differences."""
        return {**vars(self), "share": self.share}


def block_share(
    s_x: ArrayLike, s_y: ArrayLike, x_block: ArrayLike, y_block: ArrayLike
) -> BlockShare:
    """Split mean(s_x) - mean(s_y) into what shuffles within blocks keep and what they destroy.

    Shuffled within its block, an item is worth its block's mean on average: what is left of the
    difference then is made by which blocks the groups come from.
    """
    s = np.concatenate([np.asarray(s_x, dtype=np.float64), np.asarray(s_y, dtype=np.float64)])
    n_x, n_y = len(np.asarray(s_x)), len(np.asarray(s_y))
    blocks = np.concatenate([np.asarray(x_block), np.asarray(y_block)])
    if blocks.shape != s.shape:
        raise FixInput(f"{blocks.size} blocks for {s.size} items")
    names, codes = np.unique(blocks, return_inverse=True)
    sizes = np.bincount(codes)
    means = (np.bincount(codes, weights=s) / sizes)[codes]
    in_x = np.bincount(codes[:n_x], minlength=len(names))
    shared = (in_x > 0) & (in_x < sizes)
    return BlockShare(
        n_blocks=len(names),
        n_shared=int(shared.sum()),
        n_items_shared=int(sizes[shared].sum()),
        difference=float(s[:n_x].mean() - s[n_x:].mean()) if n_x and n_y else 0.0,
        of_blocks=float(means[:n_x].mean() - means[n_x:].mean()) if n_x and n_y else 0.0,
    )
