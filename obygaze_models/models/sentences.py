"""Zero-shot models: sentences describe two classes, or concepts; nothing is trained."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from obygaze_models.models.common import Floats
from obygaze_models.models.concepts import ConceptBank
from obygaze_models.models.estimator import Classifier
from obygaze_models.models.fold_data import FoldData, InnerScores
from obygaze_models.text_vectors import Sentences


def bank_from_sentences(sentences: Sentences) -> ConceptBank:
    """Return the directions of sentences (`text_vectors.Sentences`) as concept vectors.

    A margin is the dot product of a row with a direction.
    """
    bank = ConceptBank([*sentences.directions])
    vectors = np.array([*sentences.directions.values()])
    bank.n_features_in_ = vectors.shape[1]
    bank.concepts_ = np.asarray(bank.concepts, dtype=np.str_)
    bank.coef_ = vectors
    bank.intercept_ = np.zeros(len(vectors))
    bank.C_ = np.zeros(len(vectors))
    bank.length_ = np.ones(len(vectors))
    return bank


@dataclass(eq=False)
class ZeroShot(Classifier):
    """Separate two classes by two attributes of a prompt file; nothing is trained.

    The direction of an attribute is the mean text embedding of its sentences.
    """

    texts: str = ""
    positive: str = ""
    negative: str = ""

    def fit_fold(self, data: FoldData) -> Self:
        """Store the difference of the directions of the two attributes; no row is used."""
        directions = data.sentences[self.texts].directions
        self.direction_ = directions[self.positive] - directions[self.negative]
        return self

    def left_out_scores(self, data: FoldData) -> InnerScores | None:
        """Return the scores of the training rows, which did not train the model.

        Return None if a published scheme makes the splits.
        """
        # A published scheme makes only the choices that its publication made.
        if data.file_folds is not None:
            return None
        rows = data.train
        scores = data.rows.equalize(rows, self.decision_function(data.rows.X[rows]))
        return InnerScores(data.y[rows], scores, np.zeros(len(rows), dtype=np.intp))

    def decision_function(self, X: Any) -> Floats:
        """Return the cosine with the positive direction, minus the cosine with the negative one."""
        rows = np.asarray(X, dtype=np.float64)
        lengths = np.linalg.norm(rows, axis=1)
        products: Floats = rows @ self.direction_
        # A row of zeros gets the score 0.
        return products / np.where(lengths > 0, lengths, 1.0)
