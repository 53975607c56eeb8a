"""What the released code has hard-coded: tolerances by concept, heads by the task they learn."""

from __future__ import annotations

from typing import Literal

Penalty = Literal["l1", "l2"]

_TOLERANT = ("Body", "Look", "Activities")
TREE = {"EN_S": (8, 6), "ENHN_S": (4, 6), "HN_S": (10, 10)}  # depth, clips in a leaf
LOGISTIC: dict[str, tuple[Penalty, float]] = {  # penalty, inverse strength
    "EN_S": ("l2", 0.1),
    "ENHN_S": ("l1", 0.01),
    "HN_S": ("l2", 0.1),
}
SEED = 42


def tolerance_of(concept: str) -> float:
    """The tolerance of a concept's machine."""
    return 0.05 if concept in _TOLERANT else 0.01
