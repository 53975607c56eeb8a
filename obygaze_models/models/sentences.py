"""Zero-shot models: sentences describe two classes, or concepts; nothing is trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from msgspec import Meta

from obygaze_features.store import read_texts
from obygaze_models.models.common import Floats
from obygaze_models.models.concepts import CAV
from obygaze_models.models.estimator import Classifier
from obygaze_models.models.parameters import Attribute, Texts
from obygaze_models.text_vectors import Sentences


def bank_from_sentences(sentences: Sentences) -> CAV:
    """Return the directions of sentences (`text_vectors.Sentences`) as concept vectors.

    A margin is the dot product of a row with a direction.
    """
    bank = CAV([*sentences.directions])
    vectors = np.array([*sentences.directions.values()])
    bank.n_features_in_ = vectors.shape[1]
    bank.concepts_ = np.asarray(bank.concepts, dtype=np.str_)
    bank.coef_ = vectors
    bank.intercept_ = np.zeros(len(vectors))
    bank.C_ = np.zeros(len(vectors))
    bank.length_ = np.ones(len(vectors))
    return bank


def sentences_of(texts: str, sentences: Mapping[str, Sentences] | None) -> Sentences:
    """Return the sentences of a file; it is read if they are not given."""
    if sentences is not None:
        return sentences[texts]
    return Sentences.of(read_texts(Path(texts)))


@dataclass(eq=False)
class ZeroShot(Classifier):
    """Separate two classes by two attributes of a prompt file; nothing is trained.

    The direction of an attribute is the mean text embedding of its sentences.
    """

    texts: Annotated[Texts, Meta(min_length=1)] = ""
    positive: Attribute = ""
    negative: Attribute = ""

    def fit(
        self, X: Any, y: Any, sentences: Mapping[str, Sentences] | None = None
    ) -> Self:
        """Store the difference of the directions of the two attributes; no row is used.

        Args:
            X: Rows; only their number of features is used.
            y: The class of each row; only the classes are used.
            sentences: The sentences of each file, by its path. None: the file `texts` is read.
        """
        self._check_training(X, y)
        directions = sentences_of(self.texts, sentences).directions
        self.direction_ = directions[self.positive] - directions[self.negative]
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return the cosine with the positive direction, minus the cosine with the negative one."""
        rows = self._check(X)
        lengths = np.linalg.norm(rows, axis=1)
        products: Floats = rows @ self.direction_
        # A row of zeros gets the score 0.
        return products / np.where(lengths > 0, lengths, 1.0)
