"""Remove directions of features from which a linear model could read concepts.

LEACE (Belrose et al., 2023) removes the subspace of the covariance of whitened features with the
concepts, by the oblique projection that changes the features least. After it, features of the rows
that it was fitted on have no covariance with the concepts, so no linear model that is fitted on
these rows finds them. On other rows a remainder is left, and what is not linear is left everywhere.

The covariance is shrunk towards a multiple of the identity (Ledoit and Wolf, 2004), so that it can
be inverted where features are wider than there are rows. The covariance with the concepts is zero
for any amount of shrinkage; only the direction of the projection depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from obygaze_models.models.common import FixTraining, Floats, Ints

# Singular values below this share of the largest are rounding: of concepts that follow from others.
SMALLEST = 1e-9
MIN_CLIPS = 3


class Leace:
    """Least-squares concept erasure: of all affine maps after which no linear model reads the
    concepts, the one that changes the features least.

    Features that vary in no other way than the concepts do lose all of their variance.

    Attributes:
        means_: The means of the features.
        read_: The directions that are read, a row for each.
        remove_: The vectors that are subtracted for each unit that is read.
    """

    means_: Floats
    read_: Floats
    remove_: Floats

    def fit(self, X: Any, Z: Any) -> Self:
        """Find the directions.

        Args:
            X: The features, one row for each clip.
            Z: The concepts, one column for each, or one flat array.
        """
        rows = np.asarray(X, dtype=np.float64)
        concepts = np.asarray(Z, dtype=np.float64).reshape(len(rows), -1)
        self.means_ = rows.mean(axis=0)
        centred = rows - self.means_
        covariance = centred.T @ (concepts - concepts.mean(axis=0)) / len(rows)
        values, vectors = _shrunk_covariance(centred)
        lengths = np.sqrt(values)
        # A product with one matrix whitens features, with the other it undoes that.
        whiten = vectors / lengths @ vectors.T
        unwhiten = vectors * lengths @ vectors.T
        basis = _basis(whiten @ covariance)
        self.read_ = basis.T @ whiten
        self.remove_ = basis.T @ unwhiten
        return self

    def transform(self, X: Any) -> Floats:
        """Return features without these directions."""
        rows = np.asarray(X, dtype=np.float64)
        amounts = (rows - self.means_) @ self.read_.T
        return np.asarray(rows - amounts @ self.remove_)


def _shrunk_covariance(centred: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues and eigenvectors of the shrunk covariance; no value is zero."""
    from sklearn.covariance import ledoit_wolf_shrinkage

    n_rows, width = centred.shape
    covariance = centred.T @ centred / n_rows
    mean_variance = float(np.trace(covariance)) / width
    if not mean_variance > 0:
        return np.ones(width), np.eye(width)
    values, vectors = np.linalg.eigh(covariance)
    shrinkage = float(ledoit_wolf_shrinkage(centred, assume_centered=True))
    shrunk = (1 - shrinkage) * np.maximum(values, 0.0) + shrinkage * mean_variance
    return np.maximum(shrunk, SMALLEST * mean_variance), vectors


def _basis(columns: Floats) -> Floats:
    """Return orthonormal vectors that span some columns; those that follow from others add none."""
    lengths = np.linalg.norm(columns, axis=0)
    scaled = columns / np.where(lengths > 0, lengths, 1.0)
    left, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    return np.asarray(left[:, sizes > SMALLEST * max(sizes[0], SMALLEST)])


def fit_eraser(X: Any, targets: Ints, names: Sequence[str]) -> Leace:
    """Return an eraser that is fitted on the rows whose targets are 0 or 1.

    A concept that fewer than three clips of them have, or lack, is an error that names it.

    Args:
        X: The features.
        targets: For each row and concept 1 with it, 0 without, -1 for no example.
        names: The names of the concepts.
    """
    examples = np.flatnonzero((targets >= 0).all(axis=1))
    for name, column in zip(names, targets[examples].T, strict=True):
        n_with = int(np.count_nonzero(column))
        n_without = len(column) - n_with
        if min(n_with, n_without) < MIN_CLIPS:
            raise FixTraining(
                f"erasing requires {MIN_CLIPS} training clips with the concept and {MIN_CLIPS} "
                f"without, got {n_with} and {n_without}",
                where=name,
            )
    return Leace().fit(np.asarray(X)[examples], targets[examples])
