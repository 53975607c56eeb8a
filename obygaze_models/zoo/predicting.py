"""Predictions of a saved model for the clips of a store.

A training clip gets its out-of-fold score, because the score of the model itself is in-sample and
is not a prediction.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from obygaze_features.core.clip_ids import clip_ids
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.core.files import csv_bytes, json_values
from obygaze_features.core.notebook import data_frame, short_repr
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.core.written_tables import Columns, write_table
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.clip_table import ClipTable, Places
from obygaze_features.manifest.io import manifest_sha256
from obygaze_features.manifest.listing import film_columns
from obygaze_features.manifest.model import WITHOUT_MANIFEST, Clip
from obygaze_features.manifest.same_clips import same_clips
from obygaze_features.store import Matrix, Store
from obygaze_features.store.joining import (
    JOINED_ARRAY,
    JoinedStore,
    open_store,
)
from obygaze_features.store.recipe import IMPORTED, UNKNOWN_FACT
from obygaze_features.store.replaced import replaced_videos_text
from obygaze_models.evaluation.basis import FILM_UNKNOWN
from obygaze_models.models.common import NOT_FINITE, Floats, as_float32, row_hashes
from obygaze_models.models.registry import RESIDUAL
from obygaze_models.zoo.info import FeatureSpec, ModelInfo
from obygaze_models.zoo.saving import HasModel, SavedModel, read_model, score_columns
from obygaze_models.zoo.training_overlap import (
    COPY,
    IN_SAMPLE,
    OUT_OF_FOLD,
    find_training_overlap,
)

LENGTHS = "lengths"  # clips of a different length
CHANGED = "changed"  # the manifest of the training was changed
# Lengths that differ by a larger factor are mentioned.
OTHER_LENGTH = 2
NOTED = (LENGTHS, CHANGED)  # doubts that are printed as notes
# The warning for clips of a basis, after their number.
WARNINGS = {
    FILM_UNKNOWN: "of possible training films: the films of the training clips are unknown",
    COPY: "with the same features as a training clip with a different id: such scores are like"
    " in-sample scores",
    IN_SAMPLE: "used in training: in-sample scores are not predictions and cannot be used to"
    " evaluate the model",
}


@dataclass(frozen=True, eq=False)
class Predicted:
    """Scores of clips; `absent` and `refused` contain the reason for each clip without a score.

    `absent` are clips without features; `refused` are training clips without an out-of-fold score.
    `basis` is for each score one of:

    - `out-of-fold`: a training clip; the score is the mean over the fits of the evaluation that
      were not trained on the clip;
    - `unseen`: the model was not trained on any clip of this film;
    - `film-seen`: the model was not trained on this clip, but on other clips of its film, which may
      show the same seconds;
    - `film-unknown`: the model was not trained on this clip, and the training films are unknown;
    - `copy`: a training clip with a different id has exactly these features;
    - `in-sample`: a training clip; the score is from the model itself.

    Contributions of out-of-fold clips are NaN, and their margins may be NaN. `model` contains the
    facts of the model. `films` contains films and times of the clips; they are columns only of a
    written file. If the clips are from a different store than the training clips, `n_by_id` is the
    number of clips that were matched to training clips by id only. `doubts` has sentences by topic,
    on reasons to doubt that the scores fit the clips. `is_elsewhere` is true if the out-of-fold
    scores were computed from another store than the one that is predicted. `written` is the file of
    the table; "" if there is none.
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
    model: ModelInfo
    films: Columns = field(default_factory=dict)
    n_by_id: int = 0
    is_elsewhere: bool = False
    doubts: Mapping[str, str] = field(default_factory=dict)
    written: str = ""

    def __len__(self) -> int:
        return len(self.clip_ids)

    def __repr__(self) -> str:
        return short_repr("Predicted", f"{len(self)} clips: {self._by_basis}")

    def __str__(self) -> str:
        return "" if self.written else self.to_csv().rstrip("\n")

    def columns(self) -> list[str]:
        """Return the names of the table's columns: classes, concepts and contributions."""
        return [*self._table()]

    def rows(self) -> Iterator[list[Any]]:
        """Yield the rows of the table, one for each clip; None where a number is missing."""
        for row in zip(*self._table().values(), strict=True):
            yield json_values(row)

    def to_csv(self) -> str:
        """Return the table as CSV, numbers in their shortest exact form."""
        return csv_bytes(self.columns(), self.rows()).decode("utf-8")

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
        return data_frame(self._table())

    def write(
        self, output: PathLike | None = None, *, force: bool = False
    ) -> Predicted:
        """Write the scores to a file.

        Args:
            output: Write the table to this file, with films and times: .csv or .xlsx.
            force: Replace the output if it exists.
        """
        if output is None:
            return self
        columns = {"clip_id": self.clip_ids, **self.films, **self._table()}
        write_table(output, columns, force=force)
        return replace(self, written=os.fspath(output))

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
            for name, values in numbers.items():
                table[f"{prefix}:{name}"] = values.tolist()
        return table

    @property
    def _by_basis(self) -> str:
        counts = Counter(self.basis).items()
        return ", ".join(f"{n} {basis}" for basis, n in counts)

    @property
    def notes(self) -> list[str]:
        """Clips without features, the number of rows by basis, and the written file."""
        clips_of_reason: dict[str, list[str]] = {}
        for clip, reason in self.absent.items():
            clips_of_reason.setdefault(reason, []).append(clip)
        notes = [f"{few(clips)}: {reason}" for reason, clips in clips_of_reason.items()]
        notes.append(f"rows by basis: {self._by_basis}")
        if OUT_OF_FOLD in self.basis:
            notes.append(
                "out-of-fold scores are from several fits with different scales: compare them only"
                " within a fold, which is a film if the folds were films"
            )
        if OUT_OF_FOLD in self.basis and self.is_elsewhere and not self.n_by_id:
            notes.append(
                "the model was trained on another store: the out-of-fold scores are from the"
                " features of that store, not of this one"
            )
        if self.model.where:
            notes.append(f"the model was trained on clips{self.model.with_where}")
        notes += [text for name, text in self.doubts.items() if name in NOTED]
        if self.written:
            notes.append(f"wrote {self.written}")
        return notes

    @property
    def warnings(self) -> list[str]:
        """Warnings about missing rows, doubts, and scores that are not predictions."""
        warnings = []
        if self.refused:
            (reason,) = set(self.refused.values())
            warnings.append(
                f"no row for {few([*self.refused], 1)}: {reason}; --in-sample gives all training"
                " clips the score of the saved model itself"
            )
        for name, text in self.doubts.items():
            if name not in NOTED:
                warnings.append(text)
        counts = Counter(self.basis)
        for basis, text in WARNINGS.items():
            if counts[basis]:
                warnings.append(f"{count(counts[basis], 'clip')} {text}")
        return warnings


def predict(
    model: PathLike | HasModel,
    store: PathLike | Store,
    clips: PathLike | Iterable[str | Clip] | None = None,
    *,
    manifest: PathLike | Manifest | None = None,
    in_sample: bool = False,
    workspace: PathLike | None = None,
) -> Predicted:
    """Predict the clips of a store with a model.

    One row per clip: the decision, the probability of each class and, for a bottleneck, the margin
    and the contribution of each concept. A model without probabilities, such as ridge, has one
    score, positive for the second class. A store of different features is refused (exit code 5).

    For new films, extract the features first.

    The column `basis` shows how the score relates to the training; docs/guide/experiments.md lists
    its values. Features without films, imported without a manifest, need `manifest`.

    Args:
        model: A saved model: its name in the workspace, or its folder.
        store: A store with the same recipe as the training features.
        clips: The clips to predict: a list of ids, a manifest, or a file with one id per line or a
            column clip_id.
        manifest: Predict the clips of this manifest.
        in_sample: Score all training clips with the saved model itself, even if they have an
            out-of-fold score. In-sample scores are not predictions.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> predicted = og.predict("kept", "mine", clips=["alba-001", "alba-002"])
        >>> predicted.clip_ids, predicted.basis
        (['alba-001', 'alba-002'], ['out-of-fold', 'film-seen'])
    """
    saved = read_model(model, workspace=workspace)
    opened = _opened(saved, store, manifest, workspace)
    given: Any = clips
    listed: list[Any] | None = None if clips is None else clip_ids(given)
    if manifest is None:
        table = opened.find_manifest(Workspace.of(workspace))
    else:
        table = read_manifest(manifest, workspace=workspace)
        if listed is None:
            listed = list(table)
        else:
            ids = [c.clip_id if isinstance(c, Clip) else c for c in listed]
            listed = [table[clip_id] for clip_id in ids]
    matrix = features_for_model(saved, opened, listed)
    return _predicted(saved, opened, matrix, listed or (), table, in_sample=in_sample)


def _opened(
    model: SavedModel,
    store: PathLike | Store,
    manifest: PathLike | Manifest | None,
    workspace: PathLike | None,
) -> Store:
    """Open a store.

    The error for a missing store names the command that computes the features of the model.
    """
    try:
        return open_store(store, workspace=workspace)
    except NotFound as error:
        clips, _, _ = str(store).partition(".")
        if isinstance(manifest, Manifest):
            clips = manifest.name
        elif manifest is not None:
            clips = os.fspath(manifest)
        if clips not in Workspace.of(workspace).names("manifests"):
            clips = "MANIFEST"
        features = model.info.features
        error.message += f"; {model.info.name} reads features of {features.backbone}"
        error.hint = _what_makes(features, clips)
        raise


def _what_makes(features: FeatureSpec, manifest: str) -> str:
    """Return the command that computes the features of a model for the clips of a manifest."""
    name = shell_word(manifest)
    backbones = [part.backbone for part in features.parts or (features,)]
    first = backbones[0]
    others = [one for one in backbones if one.endswith(IMPORTED)]
    others += [one for one in backbones if one.startswith(UNKNOWN_FACT)]
    if others and features.parts:
        each = " and ".join(backbones)
        return f"make one store of these clips for each of {each}, and pass A+B as the store"
    if first.startswith(UNKNOWN_FACT):
        return (
            "import the training features and these features with the same --backbone NAME, each"
            " under a new name (-o), and train again"
        )
    if others:
        word = shell_word(first.removesuffix(IMPORTED))
        return f"obygaze store import FILE --manifest {name} --backbone {word} -o STORE"
    words = " ".join(f"-b {shell_word(one)}" for one in backbones)
    command = f"obygaze extract run {name} {words}"
    if any(part.has_local_weights for part in features.parts or (features,)):
        command += ", with --weights if it computed the training features"
    if features.parts:
        command += ", and pass A+B as the store"
    return command


def _pairs(features: FeatureSpec, store: Store) -> list[tuple[FeatureSpec, Store]]:
    """Return each feature specification of a model with the store that it describes.

    A model of joined stores has one specification for each of them, in the order of its training.
    The list is empty if `store` is a join and the model reads one store, if `store` is one store
    and the model reads a join, or if the two joins have different numbers of stores.
    """
    wanted = features.parts or (features,)
    is_join = isinstance(store, JoinedStore)
    if len(wanted) != len(store.stores) or is_join != bool(features.parts):
        return []
    return [*zip(wanted, store.stores, strict=True)]


def _has_recipe(features: FeatureSpec, store: Store) -> bool:
    """Return whether a store has the recipe of the features with which a model was trained."""
    return features.fingerprint == store.fingerprint


def _doubts(
    model: SavedModel,
    store: Store,
    table: Manifest | None,
    stated: ClipTable,
    basis: Sequence[str],
) -> dict[str, str]:
    """Return by topic the sentences on reasons to doubt that the scores fit the clips.

    One topic is clips that are much shorter or longer than the training clips. The other topics
    are videos that were replaced after their features were extracted, and a manifest that was
    changed after the training.

    Args:
        model: The model.
        store: The store of the features.
        table: The manifest of the clips; None if there is none.
        stated: The facts of the clips.
        basis: The basis of each clip.
    """
    doubts = {}
    basis_of = dict(zip(stated.clip_ids.tolist(), basis, strict=True))
    trained_s = model.info.training.median_s
    in_film_s = stated.column("film_end_s") - stated.column("film_start_s")
    in_file_s = stated.column("end_s") - stated.column("start_s")
    lengths_s = np.where(np.isnan(in_film_s), in_file_s, in_film_s)
    lengths_s = lengths_s[np.isfinite(lengths_s)]
    if trained_s and len(lengths_s):
        median_s = float(np.median(lengths_s))
        if not trained_s / OTHER_LENGTH <= median_s <= trained_s * OTHER_LENGTH:
            doubts[LENGTHS] = (
                f"{model.info.name} was trained on clips of {trained_s:.3g} s (median), but these"
                f" clips have {median_s:.3g} s"
            )
    if table is not None:
        clips = [clip for clip in table if clip.clip_id in basis_of]
        replaced = replaced_videos_text(clips, table, store.stores)
        if replaced:
            doubts["replaced films"] = replaced
        training = model.info.training
        is_of_training = OUT_OF_FOLD in basis_of.values()
        is_same = manifest_sha256(table) == training.manifest_sha256
        if is_of_training and table.name == training.manifest and not is_same:
            doubts[CHANGED] = (
                f"the manifest {table.name} differs from the one that {model.info.name} was trained"
                " on: if its labels were corrected, train again"
            )
    return doubts


def _stated(
    clip_ids: Sequence[str], listed: Iterable[str | Clip], store: Store
) -> ClipTable:
    """Return the facts of clips.

    The facts are from the manifest that lists the clips. Facts that the manifest does not have are
    from the store.
    """
    of_manifest = {clip.clip_id: clip for clip in listed if isinstance(clip, Clip)}
    clips = [of_manifest.get(one, Clip(one, "")) for one in clip_ids]
    stated = ClipTable.of_clips(clips)
    for one in store.stores:
        rows = one.table.find(clip_ids)
        there = one.facts_of(rows[rows >= 0])
        stated = stated.filled(there, same_clips(stated, there).places_of_same)
    return stated


def _predicted(
    model: SavedModel,
    store: Store,
    matrix: Matrix,
    listed: Iterable[str | Clip],
    table: Manifest | None,
    *,
    in_sample: bool,
) -> Predicted:
    """Return the predictions of a model; training clips get their out-of-fold scores."""
    values = as_float32(matrix.values)
    all_ids = np.array([str(clip) for clip in matrix.clip_ids], dtype=np.str_)
    is_finite = np.asarray(np.isfinite(values).all(axis=1))
    absent = {clip: str(status) for clip, status in matrix.reasons.items()}
    absent |= dict.fromkeys(all_ids[~is_finite].tolist(), NOT_FINITE)
    ids = all_ids[is_finite].tolist()
    if not ids:
        raise FixInput(
            "none of these clips has features",
            where=store.location,
        )
    stated = _stated(ids, listed, store)
    hashes = row_hashes(values[is_finite])
    seen = find_training_overlap(
        model, stated, store, hashes=hashes, in_sample=in_sample
    )
    refused = {} if in_sample else _refused(model, ids, seen.basis)
    kept = np.flatnonzero([clip not in refused for clip in ids])
    basis = [seen.basis[place] for place in kept.tolist()]
    X = values[is_finite][kept].astype(np.float64)
    scores, are_probabilities = _scores(model.estimator, X)
    margins, contributions = _explain(model, X)
    _put_out_of_fold(model, seen.rows[kept], basis, scores, margins, contributions)
    names = list(model.info.classes)
    stated_of_kept = stated.some(kept)
    kept_ids = stated_of_kept.clip_ids.tolist()
    doubts = _doubts(model, store, table, stated_of_kept, basis)
    if seen.n_by_ids:
        doubts["by ids"] = (
            f"{count(seen.n_by_ids, 'clip')} matched to training clips only by id, because no film"
            " and no time is known on both sides: the scores are from the training, not from these"
            " features"
        )
    pairs = _pairs(model.info.features, store)
    return Predicted(
        clip_ids=kept_ids,
        basis=basis,
        classes=names if scores.shape[1] > 1 else names[-1:],
        scores=scores,
        are_probabilities=are_probabilities,
        decisions=_decisions(names, scores),
        margins=margins,
        contributions=contributions,
        absent=absent,
        refused=refused,
        model=model.info,
        films=film_columns(stated_of_kept, table),
        n_by_id=seen.n_by_ids,
        is_elsewhere=any(part.seal not in one.made_of for part, one in pairs),
        doubts=doubts,
    )


def features_for_model(
    model: SavedModel,
    store: Store,
    clips: Sequence[str | Clip] | None,
) -> Matrix:
    """Return the features of clips that `predict` reads.

    `clips` are ids or clips; None: all clips of the store.
    """
    store, array = store_to_read(model, store)
    if clips is not None and not clips:
        hint = "pass ids separated by commas, or omit --clips"
        raise FixUsage("expected at least one id in --clips", hint=hint)
    if clips is None:
        return store.matrix(array, missing="drop")
    # A clip of the manifest must be the clip of the store that has the same id.
    store.match([clip for clip in clips if isinstance(clip, Clip)])
    ids = dict.fromkeys(c.clip_id if isinstance(c, Clip) else c for c in clips)
    return store.matrix(array, clips=[*ids], missing="drop")


def store_to_read(model: SavedModel, store: Store) -> tuple[Store, str]:
    """Return the store and the name of the array that a model reads.

    Raise an error if the features differ from those with which the model was trained.
    """
    wanted = model.info.features
    if isinstance(store, JoinedStore):
        # A model reads the columns in the order of its training.
        parts = [(part.fingerprint, part.array) for part in wanted.parts]
        store = store.in_order_of(parts)
    pairs = _pairs(wanted, store)
    if not pairs or not all(_has_recipe(*pair) for pair in pairs):
        clips = store.record.manifest.name
        if clips in ("", WITHOUT_MANIFEST):
            clips = "MANIFEST"
        hint = _what_makes(wanted, clips)
        is_same_command = store.recipe.title == wanted.backbone
        if is_same_command and not store.recipe.is_unknown:
            # This command made the given store, with different weights or code.
            hint = f"use a store with the recipe of {shell_word(wanted.store)}, the training store"
        raise Mismatch(
            f"{model.info.name} expects features of {wanted.backbone} with fingerprint"
            f" {wanted.fingerprint[:12]}, got {store.fingerprint[:12]} ({store.recipe.title})",
            where=store.location,
            hint=hint,
        )
    arrays = [_array_to_read(model.info.name, *pair) for pair in pairs]
    if not isinstance(store, JoinedStore):
        return store, arrays[0]
    names = [part.name for part in store.parts]
    join = store.with_arrays(dict(zip(names, arrays, strict=True)))
    read = [part.array.name for part in join.parts]
    if read != arrays:
        raise Mismatch(
            f"{model.info.name} expects the arrays {', '.join(arrays)} of these stores, got"
            f" {', '.join(read)}",
            where=store.location,
        )
    return join, JOINED_ARRAY


def _array_to_read(model: str, wanted: FeatureSpec, store: Store) -> str:
    """Return the name of the array that a model reads.

    Raise an error if the array has a different data type or width than the model expects.
    """
    array = wanted.array
    if store.recipe.is_unknown and len(store.feature_arrays) == 1:
        # The only array of an import may have a different name.
        (array,) = store.feature_arrays
    stored = store.record.array(array)
    found = f"{stored.dtype} {list(stored.shape)}" if stored else "no such array"
    expected = f"{wanted.dtype} {[wanted.width]}"
    if found != expected:
        raise Mismatch(
            f"{model} expects {expected} in the array {array!r}, got {found}",
            where=store.location,
        )
    return array


def _refused(
    model: SavedModel, ids: Sequence[str], basis: Sequence[str]
) -> dict[str, str]:
    """Return a reason for each clip that has only an in-sample score.

    Raise an error if all clips have only an in-sample score.
    """
    reason = "the model was trained on this clip and has no out-of-fold score for it"
    if model.clips is None:
        reason = "the model does not list its training clips and may have been trained on this one"
    in_sample = np.array(ids)[np.array(basis) == IN_SAMPLE].tolist()
    if len(in_sample) == len(ids):
        raise FixInput(
            f"no prediction for {few(ids, 1)}: {reason}",
            where=str(model.folder),
            hint="pass --in-sample (in Python in_sample=True) for in-sample scores of these clips,"
            " which are not predictions",
        )
    return dict.fromkeys(in_sample, reason)


def _put_out_of_fold(
    model: SavedModel,
    rows_of_training: Places,
    basis: Sequence[str],
    scores: Floats,
    margins: Mapping[str, Floats],
    contributions: Mapping[str, Floats],
) -> None:
    """Replace the scores and margins of clips with the basis out-of-fold, in place.

    They become the out-of-fold values of the model, or NaN if the model has none. The contributions
    of these clips become NaN.
    """
    out = np.flatnonzero(np.array(basis) == OUT_OF_FOLD)
    if model.clips is None or not len(out):
        return
    rows = rows_of_training[out]
    columns = [*scores.T, *margins.values()]
    names = score_columns(model.estimator, model.info)
    for name, column in zip(names, columns, strict=False):
        listed = model.clips.scores.get(name)
        column[out] = np.nan if listed is None else listed[rows]
    for column in contributions.values():
        column[out] = np.nan
    if hasattr(model.estimator, "predict_proba"):
        filled = scores[out]
        # The probability of the other class is known.
        scores[out] = np.where(np.isnan(filled), 1.0 - filled[:, ::-1], filled)


def _scores(estimator: Any, X: Floats) -> tuple[Floats, bool]:
    """Return the scores of rows, with a column for each score, and whether they are probabilities.

    A concept bank has no scores.
    """
    # Classes that are numbers may have any order; the names of the model are in that of numbers.
    classes = np.asarray(getattr(estimator, "classes_", ()))
    is_reversed = classes.dtype.kind in "biuf" and bool((np.diff(classes) < 0).any())
    if hasattr(estimator, "predict_proba"):
        scores = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        return (scores[:, ::-1] if is_reversed else scores), True
    if hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X), dtype=np.float64)[:, None]
        return (-scores if is_reversed else scores), False
    return np.zeros((len(X), 0)), False


def _decisions(names: Sequence[str], scores: Floats) -> list[str]:
    """Return the decision of each row: a class, or "" if the score of the row is missing.

    If a row has probabilities, the decision is the class with the larger probability. If a row has
    one score, the decision is the second class for a positive score, and the first class for any
    other score.
    """
    if not scores.shape[1]:
        return []
    threshold = scores[:, 0] if scores.shape[1] > 1 else 0.0
    words = np.where(scores[:, -1] > threshold, names[-1], names[0])
    decisions: list[str] = np.where(np.isnan(scores[:, -1]), "", words).tolist()
    return decisions


def _explain(
    model: SavedModel, X: Floats
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the margin of each concept of a bottleneck, and the contribution of each concept.

    A contribution is a part of the score that decides.
    """
    if not hasattr(model.estimator, "margins"):
        return {}, {}
    names = model.info.concepts
    parts = np.zeros((len(X), 0))
    if hasattr(model.estimator, "contributions"):
        _, parts = model.estimator.contributions(X)
    margins = dict(zip(names, model.estimator.margins(X).T.copy(), strict=False))
    return margins, dict(zip((*names, RESIDUAL), parts.T.copy(), strict=False))
