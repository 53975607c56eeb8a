"""The data of one fold: the clips to fit on, with their labels and films."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.splits import Split


@dataclass(frozen=True, eq=False)
class FoldData:
    """The data of one fold that a model is fitted on; rows are rows of the clip table."""

    task: str
    split: Split
    labels: NDArray[np.int8]
    table: ClipTable
    groups: NDArray[np.str_]
    seed: int = 0
    join_validation: bool = False

    @property
    def fit_rows(self) -> NDArray[np.intp]:
        """The training rows, and with `join_validation` the validation rows."""
        if self.join_validation:
            return np.union1d(self.split.train, self.split.validation)
        return self.split.train

    @property
    def films(self) -> NDArray[np.str_] | None:
        """The film of each row to fit on; None if there is only one film."""
        films = self.groups[self.fit_rows]
        return films if len(np.unique(films)) > 1 else None

    @property
    def y(self) -> NDArray[np.int64]:
        """The class of each row to fit on."""
        return self.labels[self.fit_rows].astype(np.int64)

    @property
    def problem(self) -> str:
        """The reason why no model can be fitted on these rows, or ""."""
        classes = np.unique(self.y).tolist()
        if len(classes) == 1:
            return f"the training clips hold one class only: {classes[0]}"
        return "" if classes else "no clip is left to train on"
