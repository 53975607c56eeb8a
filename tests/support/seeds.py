"""What changes in tests that search: their seed (`SEED=`), and how much they draw (`TORTURE=`)."""

import os
from typing import TypeVar

T = TypeVar("T")

SEED = int(os.environ.get("SEED", "0"))
IS_TORTURE = "TORTURE" in os.environ


def amount(check: T, torture: T) -> T:
    """Return how much a search draws: a small part, and all of it in `make torture`."""
    return torture if IS_TORTURE else check


def most_by_chance(n: int, share: float, p: float) -> int:
    """Return the number that more of `n` draws reach with a probability of at most `p`."""
    from scipy.stats import binom

    return int(binom.isf(p, n, share))
