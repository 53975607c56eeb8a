"""What makes a clip difficult: the success of a cell regressed on levels and concepts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from obygaze_models.protocols.results.cells import OfPair
from obygaze_models.protocols.results.record import Record


@dataclass(frozen=True, eq=False, kw_only=True)
class FactorRecord(Record):
    """The coefficient of one factor, in log odds of success."""

    name: str
    log_odds: float
    se: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    # The clips that have it.
    n: int


@dataclass(frozen=True, eq=False, kw_only=True)
class SuccessRegression(OfPair):
    """The success of a cell regressed on what is in a clip, for one film or for all."""

    kind: str = "analysis"
    model: str
    feature: str
    train: str
    test: str
    film: str
    n: int
    n_success: int
    factors: Sequence[FactorRecord]
    intercept: float | None = None
    # "ml", or "firth", which has log odds only.
    method: str = ""
    errors: str = ""
    # Factors, and why they are left out.
    left_out: Mapping[str, str] | None = None
    note: str | None = ""
