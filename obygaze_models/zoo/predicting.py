"""Predictions of a saved model on the clips of a store, with what each concept adds."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.store import Store
from obygaze_models.zoo.saving import SavedModel

Floats = NDArray[np.float64]
ROWS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class Predicted:
    """Answers for the clips that have features; `absent` are the others, with why."""

    clip_ids: Sequence[str]
    classes: Sequence[str]
    scores: Floats
    are_probabilities: bool
    decisions: Sequence[str]
    margins: Mapping[str, Floats]
    contributions: Mapping[str, Floats]
    absent: Mapping[str, str]

    def columns(self) -> list[str]:
        """The columns of the table, one for each class, concept and contribution."""
        kind = "p" if self.are_probabilities else "score"
        return [
            "clip_id",
            *(["decision"] if self.decisions else []),
            *(f"{kind}:{name}" for name in self.classes[: self.scores.shape[1]]),
            *(f"margin:{name}" for name in self.margins),
            *(f"contribution:{name}" for name in self.contributions),
        ]

    def rows(self) -> Iterator[list[Any]]:
        """The rows of the table, a clip each."""
        extra = [*self.margins.values(), *self.contributions.values()]
        for i, clip_id in enumerate(self.clip_ids):
            numbers = [*self.scores[i].tolist(), *(float(column[i]) for column in extra)]
            yield [clip_id, *self.decisions[i : i + 1], *numbers]

    def to_csv(self) -> str:
        """The table, numbers in their shortest exact form."""
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(self.columns())
        writer.writerows(self.rows())
        return stream.getvalue()


def predict(model: SavedModel, store: Store, clips: Iterable[str] | None = None) -> Predicted:
    """What a model says of the clips of a store; refused where the features are others (exit 5)."""
    check_store(model, store)
    matrix = store.matrix(model.info.features.level, clips=clips, missing="drop")
    X = np.asarray(matrix.values, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != model.info.features.width:
        raise FixInput(f"level {model.info.features.level!r} is not a vector a clip")
    absent = {clip: str(status) for clip, status in matrix.reasons.items()}
    ids = [str(clip) for clip in matrix.clip_ids]
    if not ids:
        raise FixInput("none of these clips has features", where=store.location)
    scores, are_probabilities, chosen = _answer(model, X)
    margins, contributions = _explain(model, X)
    names = list(model.info.classes)
    return Predicted(
        clip_ids=ids,
        classes=names if scores.shape[1] > 1 else names[-1:],
        scores=scores,
        are_probabilities=are_probabilities,
        decisions=[names[index] for index in chosen],
        margins=margins,
        contributions=contributions,
        absent=absent,
    )


def check_store(model: SavedModel, store: Store) -> None:
    """Refuse features that the model was not trained on."""
    wanted = model.info.features
    if store.fingerprint != wanted.fingerprint:
        raise Mismatch(
            f"{model.info.name} reads features of {wanted.backbone} with fingerprint"
            f" {wanted.fingerprint[:12]}, this store's is {store.fingerprint[:12]}"
            f" ({store.recipe.title})",
            where=store.location,
            hint="a store of the same recipe; obygaze store info shows each",
        )


def _answer(model: SavedModel, X: Floats) -> tuple[Floats, bool, NDArray[np.intp]]:
    """Scores, whether they are probabilities, and the place of the chosen class in `classes`.

    A concept bank decides nothing: it has margins only.
    """
    estimator = model.estimator
    if hasattr(estimator, "predict_proba"):
        probabilities = np.concatenate([estimator.predict_proba(part) for part in _parts(X)])
        return probabilities, True, probabilities.argmax(axis=1)
    if hasattr(estimator, "decision_function"):
        margin = np.concatenate([estimator.decision_function(part) for part in _parts(X)])
        if margin.ndim == 1:
            return margin[:, None], False, (margin > 0).astype(np.intp)
        return margin, False, margin.argmax(axis=1)
    return np.zeros((len(X), 0)), False, np.zeros(0, dtype=np.intp)


def _explain(model: SavedModel, X: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The margins of a bottleneck's concepts, and what each adds to the decision."""
    project = getattr(model.estimator, "margins", getattr(model.estimator, "transform", None))
    if project is None:
        return {}, {}
    names = list(model.info.concepts)
    margins = project(X)
    parts = np.zeros((len(X), 0))
    if hasattr(model.estimator, "contributions"):
        _, parts = model.estimator.contributions(X)
    rest = [*names, "residual"][: parts.shape[1]]
    return (
        {name: margins[:, i] for i, name in enumerate(names[: margins.shape[1]])},
        {name: parts[:, i] for i, name in enumerate(rest)},
    )


def _parts(X: Floats) -> Iterator[Floats]:
    for start in range(0, len(X), ROWS_AT_ONCE):
        yield X[start : start + ROWS_AT_ONCE]
