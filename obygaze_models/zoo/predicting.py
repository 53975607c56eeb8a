"""Predictions of a saved model on the clips of a store, with what each concept adds.

A clip that the model was trained on gets its out-of-fold score: what the model itself says of such
a clip is no prediction.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.store import Store
from obygaze_models.zoo.saving import SavedModel, score_columns

Floats = NDArray[np.float64]
ROWS_AT_ONCE = 8192


OUT_OF_FOLD, UNSEEN, FILM_SEEN, IN_SAMPLE = "out-of-fold", "unseen", "film-seen", "in-sample"


@dataclass(frozen=True, eq=False)
class Predicted:
    """Scores of clips; `absent` are clips without features, `refused` in-sample ones, with why.

    `basis` says what each score is:

    - `out-of-fold`: the model was trained on the clip; the score is the mean over the fits of its
      evaluation that were not;
    - `unseen`: the model was trained on no clip of this film;
    - `film-seen`: the model was not trained on the clip, but on others of its film;
    - `in-sample`: the model was trained on the clip, and the score is its own.

    Out of fold, only scores are known: margins and contributions of such clips are NaN.
    """

    clip_ids: Sequence[str]
    basis: Sequence[str]
    classes: Sequence[str]
    scores: Floats
    are_probabilities: bool
    decisions: Sequence[str]
    margins: Mapping[str, Floats]
    contributions: Mapping[str, Floats]
    absent: Mapping[str, str]
    refused: Mapping[str, str]

    def columns(self) -> list[str]:
        """The columns of the table, one for each class, concept and contribution."""
        kind = "p" if self.are_probabilities else "score"
        return [
            "clip_id",
            "basis",
            *(["decision"] if self.decisions else []),
            *(f"{kind}:{name}" for name in self.classes[: self.scores.shape[1]]),
            *(f"margin:{name}" for name in self.margins),
            *(f"contribution:{name}" for name in self.contributions),
        ]

    def rows(self) -> Iterator[list[Any]]:
        """The rows of the table, a clip each; None where a number is not known."""
        extra = [*self.margins.values(), *self.contributions.values()]
        for i, clip_id in enumerate(self.clip_ids):
            numbers = [*self.scores[i].tolist(), *(float(column[i]) for column in extra)]
            known = (None if math.isnan(number) else number for number in numbers)
            yield [clip_id, self.basis[i], *self.decisions[i : i + 1], *known]

    def to_csv(self) -> str:
        """The table, numbers in their shortest exact form."""
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(self.columns())
        writer.writerows(self.rows())
        return stream.getvalue()


def predict(
    model: SavedModel,
    store: Store,
    clips: Iterable[str] | None = None,
    *,
    in_sample: bool = False,
) -> Predicted:
    """Score the clips of a store; other features than the model's are refused (exit 5).

    A clip that the model was trained on gets its out-of-fold score, or is refused where the model
    has none. With `in_sample` the model itself scores such clips, as it scores all others.
    """
    check_store(model, store)
    matrix = store.matrix(model.info.features.level, clips=clips, missing="drop")
    X = np.asarray(matrix.values, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != model.info.features.width:
        raise FixInput(f"level {model.info.features.level!r} is not a vector a clip")
    absent = {clip: str(status) for clip, status in matrix.reasons.items()}
    ids = [str(clip) for clip in matrix.clip_ids]
    if not ids:
        raise FixInput("none of these clips has features", where=store.location)
    basis = _basis(model, store, ids, matrix.rows, in_sample=in_sample)
    refused = {} if in_sample else _refused(model, ids, basis)
    kept = [i for i, clip in enumerate(ids) if clip not in refused]
    if not kept:
        raise _nothing_left(model, len(ids))
    ids, basis = [ids[i] for i in kept], [basis[i] for i in kept]
    scores, are_probabilities = _scores(model, X[kept])
    margins, contributions = _explain(model, X[kept])
    if OUT_OF_FOLD in basis and model.clips is not None:
        out = np.flatnonzero([one == OUT_OF_FOLD for one in basis])
        rows = np.array([model.clips.row_of[ids[i]] for i in out])
        listed = {name: values[rows] for name, values in model.clips.scores.items()}
        _put_out_of_fold(model, listed, out, scores, margins, contributions)
    names = list(model.info.classes)
    return Predicted(
        clip_ids=ids,
        basis=basis,
        classes=names if scores.shape[1] > 1 else names[-1:],
        scores=scores,
        are_probabilities=are_probabilities,
        decisions=_decisions(names, scores),
        margins=margins,
        contributions=contributions,
        absent=absent,
        refused=refused,
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


def _basis(
    model: SavedModel, store: Store, ids: Sequence[str], rows: NDArray[np.int64], in_sample: bool
) -> list[str]:
    """What the score of each clip is. Films and clips are the same where their ids are."""
    training, movies = model.info.training, store.movie_ids[rows].tolist()
    films = set(training.movies)
    if model.clips is None:
        unnamed = training.n_clips > 0 and not films
        return [IN_SAMPLE if unnamed or movie in films else UNSEEN for movie in movies]
    row_of, has_score = model.clips.row_of, model.clips.has_score
    # A store may name films otherwise than the manifest of the training did.
    pairs = zip(store.clip_ids.tolist(), store.movie_ids.tolist(), strict=True)
    films |= {movie for clip, movie in pairs if clip in row_of}
    found = []
    for clip, movie in zip(ids, movies, strict=True):
        if clip in row_of:
            scored = has_score[row_of[clip]] and not in_sample
            found.append(OUT_OF_FOLD if scored else IN_SAMPLE)
        else:
            found.append(FILM_SEEN if movie in films else UNSEEN)
    return found


def _refused(model: SavedModel, ids: Sequence[str], basis: Sequence[str]) -> dict[str, str]:
    why = "the model was trained on this clip and has no out-of-fold score for it"
    if model.clips is None:
        why = "the model does not list its training clips and may have been trained on this one"
    return {clip: why for clip, one in zip(ids, basis, strict=True) if one == IN_SAMPLE}


def _nothing_left(model: SavedModel, n_clips: int) -> FixInput:
    these = "this clip" if n_clips == 1 else f"all {n_clips} clips"
    own = (
        "--in-sample (in Python in_sample=True) for the model's own scores, which are not"
        " predictions; or"
    )
    if model.clips is None:
        what = (
            f"the model may have been trained on {these}: it was trained on their films and does"
            " not list its training clips"
        )
        hint = f"{own} obygaze train again, which keeps out-of-fold scores"
    else:
        what = f"the model was trained on {these} and has no out-of-fold score for them"
        hint = f"{own} train a model on other clips"
    return FixInput(what, where=str(model.folder), hint=hint)


def _put_out_of_fold(
    model: SavedModel,
    listed: Mapping[str, Floats],
    out: NDArray[np.intp],
    scores: Floats,
    margins: Mapping[str, Floats],
    contributions: Mapping[str, Floats],
) -> None:
    """Replace what the model itself says of clips it was trained on; NaN where nothing is known."""
    nothing = np.full(len(out), np.nan)
    names = score_columns(model.estimator, model.info)[: scores.shape[1]]
    for i, name in enumerate(names):
        scores[out, i] = listed.get(name, nothing)
    if hasattr(model.estimator, "predict_proba") and len(names) == 2:
        known = scores[out]
        scores[out] = np.where(np.isnan(known), 1.0 - known[:, ::-1], known)
    for name, column in margins.items():
        column[out] = listed.get(f"margin:{name}", nothing)
    for column in contributions.values():
        column[out] = np.nan


def _scores(model: SavedModel, X: Floats) -> tuple[Floats, bool]:
    """Scores by class, and whether they are probabilities; a concept bank has none."""
    estimator = model.estimator
    if hasattr(estimator, "predict_proba"):
        return np.concatenate([estimator.predict_proba(part) for part in _parts(X)]), True
    if hasattr(estimator, "decision_function"):
        margin = np.concatenate([estimator.decision_function(part) for part in _parts(X)])
        return (margin[:, None] if margin.ndim == 1 else margin), False
    return np.zeros((len(X), 0)), False


def _decisions(names: Sequence[str], scores: Floats) -> list[str]:
    """The class of the largest probability or the positive margin; "" where a score is missing."""
    if not scores.shape[1]:
        return []
    chosen = (scores[:, 0] > 0) if scores.shape[1] == 1 else scores.argmax(axis=1)
    incomplete = set(np.argwhere(np.isnan(scores))[:, 0].tolist())
    return ["" if row in incomplete else names[int(c)] for row, c in enumerate(chosen)]


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
        {name: margins[:, i].copy() for i, name in enumerate(names[: margins.shape[1]])},
        {name: parts[:, i].copy() for i, name in enumerate(rest)},
    )


def _parts(X: Floats) -> Iterator[Floats]:
    for start in range(0, len(X), ROWS_AT_ONCE):
        yield X[start : start + ROWS_AT_ONCE]
