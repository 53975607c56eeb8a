"""What of a store is read where its clips are matched and its segments are cut."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from obygaze_features.store.decoding import Rows
from obygaze_features.store.layout import Array
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import StoreRecord
from obygaze_features.store.table import RowTable


class ReadableStore(Protocol):
    """A `Store`. Its own module needs those that read it, so they cannot import it."""

    @property
    def location(self) -> str:
        """Where it is."""

    @property
    def record(self) -> StoreRecord:
        """Its document."""

    @property
    def recipe(self) -> Recipe:
        """How it was made."""

    @property
    def table(self) -> RowTable:
        """Its rows."""

    def array(self, name: str) -> Array:
        """Return one of its arrays."""

    def read(self, array: str, rows: Rows | Sequence[int]) -> npt.NDArray[Any]:
        """Return the values of some rows."""

    def is_ok(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return whether some rows have features."""

    def real_frames(self, array: str, rows: Rows) -> npt.NDArray[np.bool_] | None:
        """Return which frames of some rows are no padding."""
