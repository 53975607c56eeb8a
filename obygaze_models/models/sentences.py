"""Models of sentences: texts describe two classes, or concepts, so that nothing is trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from obygaze_features.store import TextTable
from obygaze_models.models.common import Floats
from obygaze_models.models.concepts import ConceptBank
from obygaze_models.text_vectors import attribute_vectors, unit_rows


@dataclass(frozen=True, eq=False)
class Sentences:
    """The direction of each attribute of a prompt file: the unit mean of its unit sentences."""

    directions: Mapping[str, Floats]

    @classmethod
    def of(cls, texts: TextTable) -> Self:
        """Return the directions of the texts that `obygaze extract text` wrote."""
        directions = {}
        for name, group in attribute_vectors(texts).items():
            mean = unit_rows(group.vectors, name).mean(axis=0)
            (directions[name],) = unit_rows(mean[None], name)
        return cls(directions)

    def bank(self) -> ConceptBank:
        """Return the directions as concept vectors; a margin is the product with a row."""
        bank = ConceptBank([*self.directions])
        vectors = np.array([*self.directions.values()])
        bank.n_features_in_ = vectors.shape[1]
        bank.concepts_ = np.asarray(bank.concepts, dtype=np.str_)
        bank.coef_ = vectors
        bank.intercept_ = np.zeros(len(vectors))
        bank.C_ = np.zeros(len(vectors))
        bank.length_ = np.ones(len(vectors))
        return bank


@dataclass(frozen=True, eq=False)
class ZeroShot:
    """Tells two classes apart by sentences; nothing is trained."""

    positive: Floats
    negative: Floats

    def decision_function(self, X: Any) -> Floats:
        """Return for each row its cosine with the positive direction minus that with the other."""
        rows = np.asarray(X, dtype=np.float64)
        lengths = np.linalg.norm(rows, axis=1)
        products: Floats = rows @ (self.positive - self.negative)
        # A row of zeros has no direction: its score is 0.
        return products / np.where(lengths > 0, lengths, 1.0)
