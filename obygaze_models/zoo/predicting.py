"""Predictions of a saved model for the clips of a store.

A clip that the model was trained on gets its out-of-fold score: the model's own score of such a
clip is in-sample and does not count as a prediction.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch
from obygaze_features.core.files import csv_table, json_values
from obygaze_features.core.notebook import data_frame, short_repr
from obygaze_features.manifest.model import Clip, unannotated_id
from obygaze_features.store import Matrix, Segments, Store
from obygaze_models.zoo.info import TrainingClips
from obygaze_models.zoo.saving import SavedModel, score_columns

Floats = NDArray[np.float64]
OUT_OF_FOLD = "out-of-fold"
UNSEEN = "unseen"
FILM_SEEN = "film-seen"
IN_SAMPLE = "in-sample"


@dataclass(frozen=True, eq=False)
class Predicted:
    """Scores of clips; `absent` and `refused` map the other clips to the reason.

    `absent` are clips without features, `refused` are training clips without an out-of-fold score.
    `basis` is the kind of each score:

    - `out-of-fold`: the model was trained on the clip; the score is the mean over the fits of its
      evaluation that were not;
    - `unseen`: the model was trained on no clip of this film;
    - `film-seen`: the model was not trained on the clip, but on others of its film;
    - `in-sample`: the model was trained on the clip, and the score is its own.

    Out-of-fold clips have no contributions, and may have no margins: these are NaN.
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

    def __len__(self) -> int:
        return len(self.clip_ids)

    def __repr__(self) -> str:
        counts = (f"{n} {basis}" for basis, n in Counter(self.basis).items())
        return short_repr("Predicted", f"{len(self)} clips: {', '.join(counts)}")

    def columns(self) -> list[str]:
        """Return the names of the table's columns: classes, concepts and contributions."""
        return list(self._table())

    def rows(self) -> Iterator[list[Any]]:
        """Yield the rows of the table, one for each clip; None where a number is missing."""
        for row in zip(*self._table().values(), strict=True):
            yield json_values(row)

    def to_csv(self, *, for_spreadsheets: bool = False) -> str:
        """Return the table as CSV, numbers in their shortest exact form.

        Args:
            for_spreadsheets: Put an apostrophe before text that a spreadsheet program would take
                for a formula; the first line says so.
        """
        table = csv_table(
            self.columns(), self.rows(), for_spreadsheets=for_spreadsheets
        )
        return table.decode("utf-8")

    def to_json(self) -> dict[str, Any]:
        """Return the classes, the rows, and the clips without a row as plain JSON values."""
        columns = self.columns()
        return {
            "classes": list(self.classes),
            "rows": [dict(zip(columns, row, strict=True)) for row in self.rows()],
            "absent": dict(self.absent),
            "refused": dict(self.refused),
        }

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, indexed by clip_id."""
        return data_frame(self._table(), "clip_id")

    def _table(self) -> dict[str, Sequence[Any]]:
        table: dict[str, Sequence[Any]] = {
            "clip_id": self.clip_ids,
            "basis": self.basis,
        }
        if self.decisions:
            table["decision"] = self.decisions
        kind = "p" if self.are_probabilities else "score"
        for prefix, numbers in (
            (kind, dict(zip(self.classes, self.scores.T, strict=False))),
            ("margin", self.margins),
            ("contribution", self.contributions),
        ):
            table |= {
                f"{prefix}:{name}": values.tolist() for name, values in numbers.items()
            }
        return table


def predict(
    model: SavedModel,
    store: Store,
    clips: Iterable[str | Clip] | None = None,
    *,
    in_sample: bool = False,
) -> Predicted:
    """Return a model's predictions for the clips of a store.

    A clip that the model was trained on gets its out-of-fold score; it is refused where there is
    none. A store with another fingerprint than the model's is an error.

    Args:
        model: A saved model.
        store: Features of the recipe that the model was trained on.
        clips: A manifest, clips of a manifest, or clip ids. The default is all clips of the store.
            A model of segments, whose features are reduced from windows, needs a manifest.
        in_sample: Score training clips with the model itself; such scores are not predictions.
    """
    matrix, film_of = read_features(model, store, clips)
    X = np.asarray(matrix.values, dtype=np.float64)
    ids = [str(clip) for clip in matrix.clip_ids]
    if not ids:
        hint = "check the ids; obygaze store info lists clips without features"
        raise FixInput(
            "none of these clips has features", where=store.location, hint=hint
        )
    trained_on = (
        {} if model.clips is None else _training_rows(model.clips, list(film_of))
    )
    basis = _basis(model, ids, film_of, trained_on, in_sample=in_sample)
    refused = {} if in_sample else _refused(model, ids, basis)
    kept = [i for i, clip in enumerate(ids) if clip not in refused]
    ids = [ids[i] for i in kept]
    basis = [basis[i] for i in kept]
    X = X[kept]
    scores, are_probabilities = _scores(model.estimator, X)
    margins, contributions = _explain(model, X)
    _put_out_of_fold(model, ids, trained_on, basis, scores, margins, contributions)
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
        absent={clip: str(status) for clip, status in matrix.reasons.items()},
        refused=refused,
    )


def read_features(
    model: SavedModel, store: Store, clips: Iterable[str | Clip] | None
) -> tuple[Matrix | Segments, dict[str, str]]:
    """Return the features of clips that a model reads, and the film of each clip, as `predict`."""
    wanted = model.info.features
    if store.fingerprint != wanted.fingerprint:
        raise Mismatch(
            f"{model.info.name} expects features of {wanted.backbone} with fingerprint"
            f" {wanted.fingerprint[:12]}, got {store.fingerprint[:12]} ({store.recipe.title})",
            where=store.location,
            hint="a store of the same recipe; obygaze store info shows the fingerprint of each",
        )
    listed = [] if clips is None else list(clips)
    matrix: Matrix | Segments
    if wanted.rule:
        segments = [clip for clip in listed if isinstance(clip, Clip)]
        if not segments or len(segments) < len(listed):
            raise FixUsage(
                "this model needs a manifest of segments: the features of a segment are those of"
                f" its windows, by the rule {wanted.rule!r}",
                hint="--manifest NAME (in Python, a manifest as `clips`)",
            )
        cut: Any = {"rule": wanted.rule, "reduce": wanted.reduce}
        films = {clip.clip_id: clip.movie_id for clip in segments}
        matrix = store.segments(segments, wanted.level, **cut)
    else:
        ids = _ids_in(store, listed)
        films = dict(
            zip(store.clip_ids.tolist(), store.movie_ids.tolist(), strict=True)
        )
        matrix = store.matrix(
            wanted.level, clips=None if clips is None else ids, missing="drop"
        )
    if matrix.values.shape[1:] != (wanted.width,):
        raise FixInput(
            f"level {wanted.level!r} must have {wanted.width} numbers per clip,"
            f" got {matrix.values.shape[1:]}",
            where=store.location,
        )
    return matrix, films


def _ids_in(store: Store, listed: Sequence[str | Clip]) -> list[str]:
    """Return the ids of clips; those of the clips themselves where the store has no annotators."""
    ids = [clip.clip_id if isinstance(clip, Clip) else clip for clip in listed]
    if any(clip in store for clip in ids):
        return ids
    given = [
        unannotated_id(clip) if isinstance(clip, Clip) else clip for clip in listed
    ]
    return list(dict.fromkeys(given)) if any(clip in store for clip in given) else ids


def _training_rows(clips: TrainingClips, ids: Sequence[str]) -> dict[str, int]:
    """Return the row in the training clips of each clip that the model was trained on.

    Older models list the rows of annotators (`lake-001.ann`) that were read for one clip of a
    store (`lake-001`).
    """
    rows = {clip: clips.row_of[clip] for clip in ids if clip in clips.row_of}
    if rows:
        return rows
    by_clip: dict[str, list[int]] = defaultdict(list)
    for listed, row in clips.row_of.items():
        clip, dot, _ = listed.rpartition(".")
        if dot:
            by_clip[clip].append(row)
    for clip in ids:
        if clip in by_clip:
            with_score = [row for row in by_clip[clip] if clips.has_score[row]]
            rows[clip] = (with_score or by_clip[clip])[0]
    return rows


def _basis(
    model: SavedModel,
    ids: Sequence[str],
    film_of: Mapping[str, str],
    trained_on: Mapping[str, int],
    *,
    in_sample: bool,
) -> list[str]:
    """Return the kind of score of each clip. Films and clips are the same where their ids are."""
    training = model.info.training
    films = set(training.movies)
    if model.clips is None:
        unnamed = training.n_clips > 0 and not films
        return [
            IN_SAMPLE if unnamed or film_of[clip] in films else UNSEEN for clip in ids
        ]
    has_score = model.clips.has_score
    # A store may use other film ids than the manifest of the training.
    films |= {film for clip, film in film_of.items() if clip in trained_on}
    basis = []
    for clip in ids:
        if clip in trained_on:
            scored = has_score[trained_on[clip]] and not in_sample
            basis.append(OUT_OF_FOLD if scored else IN_SAMPLE)
        else:
            basis.append(FILM_SEEN if film_of[clip] in films else UNSEEN)
    return basis


def _refused(
    model: SavedModel, ids: Sequence[str], basis: Sequence[str]
) -> dict[str, str]:
    """Return the reason for each clip that has an in-sample score only; an error if all have."""
    reason = "the model was trained on this clip and has no out-of-fold score for it"
    hint = "or train a model on other clips"
    if model.clips is None:
        reason = "the model does not list its training clips and may have been trained on this one"
        hint = "or obygaze train again, which saves out-of-fold scores"
    refused = {
        clip: reason for clip, kind in zip(ids, basis, strict=True) if kind == IN_SAMPLE
    }
    if len(refused) == len(ids):
        others = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
        raise FixInput(
            f"no prediction for {ids[0]}{others}: {reason}",
            where=str(model.folder),
            hint="--in-sample (in Python in_sample=True) for in-sample scores, which are not"
            f" predictions; {hint}",
        )
    return refused


def _put_out_of_fold(
    model: SavedModel,
    ids: Sequence[str],
    trained_on: Mapping[str, int],
    basis: Sequence[str],
    scores: Floats,
    margins: Mapping[str, Floats],
    contributions: Mapping[str, Floats],
) -> None:
    """Replace the model's own scores of training clips, in place; NaN where there is none."""
    out = [i for i, kind in enumerate(basis) if kind == OUT_OF_FOLD]
    if model.clips is None or not out:
        return
    rows = [trained_on[ids[i]] for i in out]
    names = score_columns(model.estimator, model.info)[: scores.shape[1]]
    for name, column in (
        *zip(names, scores.T, strict=True),
        *((f"margin:{name}", column) for name, column in margins.items()),
        *((f"contribution:{name}", column) for name, column in contributions.items()),
    ):
        listed = model.clips.scores.get(name)
        column[out] = np.nan if listed is None else listed[rows]
    if hasattr(model.estimator, "predict_proba") and len(names) == 2:
        known = scores[out]
        scores[out] = np.where(np.isnan(known), 1.0 - known[:, ::-1], known)


def _scores(estimator: Any, X: Floats) -> tuple[Floats, bool]:
    """Return scores by class, and whether they are probabilities; a concept bank has none."""
    if hasattr(estimator, "predict_proba"):
        return estimator.predict_proba(X), True
    if hasattr(estimator, "decision_function"):
        margin = estimator.decision_function(X)
        return (margin[:, None] if margin.ndim == 1 else margin), False
    return np.zeros((len(X), 0)), False


def _decisions(names: Sequence[str], scores: Floats) -> list[str]:
    """Return the class of the largest probability or positive margin; "" if a score is missing."""
    if not scores.shape[1]:
        return []
    chosen = (scores[:, 0] > 0) if scores.shape[1] == 1 else scores.argmax(axis=1)
    incomplete = set(np.flatnonzero(np.isnan(scores).any(axis=1)).tolist())
    return ["" if row in incomplete else names[int(c)] for row, c in enumerate(chosen)]


def _explain(
    model: SavedModel, X: Floats
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the margin of each concept of a bottleneck, and its contribution to the decision."""
    project = getattr(
        model.estimator, "margins", getattr(model.estimator, "transform", None)
    )
    if project is None:
        return {}, {}
    names = model.info.concepts
    parts = np.zeros((len(X), 0))
    if hasattr(model.estimator, "contributions"):
        _, parts = model.estimator.contributions(X)
    margins = dict(zip(names, project(X).T.copy(), strict=False))
    return margins, dict(zip((*names, "residual"), parts.T.copy(), strict=False))
