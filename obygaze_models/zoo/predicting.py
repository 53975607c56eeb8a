"""Predictions of a saved model for the clips of a store.

A clip that the model was trained on gets its out-of-fold score: the model's own score of such a
clip is in-sample and does not count as a prediction.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.clip_ids import clip_ids
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, NotFound
from obygaze_features.core.files import csv_bytes, json_values
from obygaze_features.core.notebook import data_frame, short_repr
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace, is_url
from obygaze_features.core.written_tables import Columns, write_table
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.clip_facts import ClipFacts, Places
from obygaze_features.manifest.listing import film_columns
from obygaze_features.manifest.model import Clip
from obygaze_features.manifest.times import long_clips
from obygaze_features.store import Matrix, Segments, Store
from obygaze_features.store.importing.staging import POOLINGS
from obygaze_features.store.joining import (
    JOINED_ARRAY,
    JoinedStore,
    open_store,
)
from obygaze_features.store.recipe import IMPORTED, UNKNOWN_FACT
from obygaze_features.store.replaced import replaced_videos
from obygaze_models.evaluation.basis import FILM_UNKNOWN
from obygaze_models.models.common import NOT_FINITE, Floats, as_float32, row_hashes
from obygaze_models.models.registry import RESIDUAL
from obygaze_models.zoo.info import FeatureSpec, ModelInfo
from obygaze_models.zoo.saving import SavedModel, load_model, score_columns
from obygaze_models.zoo.seen import (
    COPY,
    IN_SAMPLE,
    OUT_OF_FOLD,
    what_was_seen,
)


@dataclass(frozen=True, eq=False)
class Predicted:
    """Scores of clips; `absent` and `refused` map the other clips to the reason.

    `absent` are clips without features, `refused` are training clips without an out-of-fold score.
    `basis` is the kind of each score:

    - `out-of-fold`: the model was trained on the clip; the score is the mean over the fits of its
      evaluation that were not;
    - `unseen`: the model was trained on no clip of this film;
    - `film-seen`: the model was not trained on this clip, but on others of its film, which may
      show the same seconds;
    - `film-unknown`: the model was not trained on this clip, and the films that it was trained on
      are not known;
    - `copy`: the model was trained on a clip of another id with exactly these features;
    - `in-sample`: the model was trained on the clip, and the score is its own.

    Out-of-fold clips have no contributions, and may have no margins: these are NaN. `model` has the
    facts of the model that gave the scores, `films` what is known of the films and times of the
    clips, as columns that a file has beside those of the table. `n_by_id` counts the clips of
    another store that are taken for training clips by their ids alone, `n_of_training` those whose
    scores are of the training and not of the features of this store. `windows` is a sentence if
    windows were scored by a model of clips. `manifest` is the name of that of the clips.
    `replaced` are videos of the manifest with other files than those whose features were scored.
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
    n_of_training: int = 0
    windows: str = ""
    manifest: str = ""
    replaced: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.clip_ids)

    def __repr__(self) -> str:
        counts = Counter(self.basis)
        by_basis = ", ".join(f"{n} {basis}" for basis, n in counts.items())
        return short_repr("Predicted", f"{len(self)} clips: {by_basis}")

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
    ) -> PredictedFiles:
        """Write the scores to a file.

        Args:
            output: Write the table to this file, with films and times: .csv or .xlsx.
            force: Replace the output if it exists.
        """
        table = self.to_csv()
        written = []
        if output is not None:
            columns = {"clip_id": self.clip_ids, **self.films, **self._table()}
            write_table(output, columns, force=force)
            written.append(f"wrote {output}")
        return PredictedFiles(self, table, tuple(written))

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


@dataclass(frozen=True)
class PredictedFiles:
    """Predictions, their table as CSV, and a sentence for each file that was written."""

    predicted: Predicted
    table: str
    written: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the predictions."""
        return self.predicted.to_json()

    def __str__(self) -> str:
        return "" if self.written else self.table.rstrip("\n")

    @property
    def notes(self) -> list[str]:
        """The clips without features, how many rows have which basis, and the files."""
        predicted = self.predicted
        clips_of_reason: dict[str, list[str]] = {}
        for clip, reason in predicted.absent.items():
            clips_of_reason.setdefault(reason, []).append(clip)
        notes = []
        for reason, clips in clips_of_reason.items():
            notes.append(f"{few(clips)}: {reason}")
        counts = Counter(predicted.basis)
        by_basis = ", ".join(f"{n} {basis}" for basis, n in counts.items())
        notes.append(f"rows by basis: {by_basis}")
        if OUT_OF_FOLD in counts:
            notes.append(
                "out-of-fold scores are of several fits, and not on one scale: compare them within"
                " a film"
            )
        if predicted.n_of_training and not predicted.n_by_id:
            notes.append(
                "this is not the store of the training: the out-of-fold scores are those of the"
                " training, not of these features"
            )
        if predicted.model.where:
            notes.append(f"the model was trained on clips{predicted.model.with_where}")
        if predicted.windows:
            notes.append(predicted.windows)
        notes += self.written
        return notes

    @property
    def warnings(self) -> list[str | tuple[str, str]]:
        """What could be taken for a prediction, or is missing, and what to do."""
        predicted = self.predicted
        counts = Counter(predicted.basis)
        warnings: list[str | tuple[str, str]] = []
        if predicted.refused:
            (reason,) = set(predicted.refused.values())
            text = f"no row for {few([*predicted.refused], 1)}: {reason}"
            hint = (
                "--in-sample, which gives all clips that the model was trained on the score of the"
                " model itself, not only these; --clips with it chooses the clips"
            )
            warnings.append((text, hint))
        if predicted.n_by_id:
            clips_by_id = count(predicted.n_by_id, "clip")
            text = (
                f"{clips_by_id} taken for training clips by their ids alone, as no film and no time"
                " is known on both sides: their scores are those of the training, not of these"
                " features"
            )
            hint = "other ids, in their manifest, if these are other clips"
            warnings.append((text, hint))
        if predicted.replaced:
            text = (
                "these videos have other files than those whose features were scored:"
                f" {few(predicted.replaced)}"
            )
            manifest = shell_word(predicted.manifest)
            hint = f"obygaze extract plan {manifest} -b BACKBONE, which says what to do"
            warnings.append((text, hint))
        if counts[FILM_UNKNOWN]:
            text = (
                "the films of the training clips are not known: the model may have been trained on"
                f" other clips of the films of {count(counts[FILM_UNKNOWN], 'clip')}"
            )
            hint = "a model of a manifest with the films of its clips"
            warnings.append((text, hint))
        if counts[COPY]:
            text = (
                f"{count(counts[COPY], 'clip')} with exactly the features of a training clip, under"
                " another id: their scores are as those of training clips"
            )
            warnings.append((text, "one id for one clip, in the manifest"))
        if counts[IN_SAMPLE]:
            warnings.append(
                f"the model was trained on {counts[IN_SAMPLE]} of these clips: their in-sample"
                " scores are not predictions and cannot be used to evaluate the model"
            )
        return warnings


def predict(
    model: PathLike | SavedModel,
    store: PathLike | Store,
    clips: PathLike | Iterable[str | Clip] | None = None,
    *,
    manifest: PathLike | Manifest | None = None,
    in_sample: bool = False,
    workspace: PathLike | None = None,
) -> Predicted:
    """Predict the clips of a store with a model.

    One row per clip: the decision, the probability of each class (of a model without probabilities,
    such as ridge: one score, positive for the second class) and, for a bottleneck, the margin of
    each concept and its contribution. A store of other features is an error (exit code 5). A
    model of segments, trained on a store of windows, needs the manifest of the segments.

    For new films, extract the features first: the error for a store that is not there names the
    command.

    The column `basis` is the kind of the score; docs/guide/experiments.md lists the kinds. Features
    without films, imported without a manifest, need --manifest.

    Args:
        model: A saved model: its name in the workspace, or its folder.
        store: Features of the recipe that the model was trained on.
        clips: Clip ids to predict, separated by commas, or a file: one id a line, or a column
            clip_id. In Python also a list of ids, or a manifest.
        manifest: Predict the clips or segments of this manifest.
        in_sample: Score all training clips with the model itself, also those that have an
            out-of-fold score; such scores are not predictions.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> predicted = og.predict("kept", "mine", clips=["alba-001", "alba-002"])
        >>> predicted.clip_ids, predicted.basis
        (['alba-001', 'alba-002'], ['out-of-fold', 'film-seen'])

    Commands:
        obygaze models predict films-pcbm films.descriptors > predictions.csv
        obygaze models predict films-pcbm new-films.descriptors -o scores.csv
        obygaze models predict films-pcbm films.descriptors --clips tt1-001,tt1-002 --json
        obygaze models predict films-pcbm films.descriptors --in-sample -o explained.csv
        obygaze models predict films-ridge whole.descriptors --manifest films
    """
    saved = load_model(model, workspace=workspace)
    opened = _opened(saved, store, manifest, workspace)
    listed: list[str | Clip] | None = None
    if isinstance(clips, str | os.PathLike):
        listed = [*clip_ids(clips)]
    elif clips is not None:
        listed = list(clips)
    of_films: Iterable[Clip] = ()
    if manifest is None:
        table = opened.find_manifest(Workspace.of(workspace))
    else:
        table = read_manifest(manifest, workspace=workspace)
        of_films = table
        if listed is None:
            listed = list(table)
        else:
            ids = [c.clip_id if isinstance(c, Clip) else c for c in listed]
            listed = [table[clip_id] for clip_id in ids]
    matrix = features_for_model(saved, opened, listed, of_films=of_films)
    predicted = _predicted(
        saved, opened, matrix, listed or (), table, in_sample=in_sample
    )
    return replace(
        predicted,
        windows=_windows_for_clips(saved, opened, table),
        manifest="" if table is None else table.name,
        replaced=_replaced(predicted.clip_ids, table, opened),
    )


def _opened(
    model: SavedModel,
    store: PathLike | Store,
    manifest: PathLike | Manifest | None,
    workspace: PathLike | None,
) -> Store:
    """Open a store; where there is none, the error says what makes the features of a model."""
    try:
        return open_store(store, workspace=workspace)
    except NotFound as error:
        text = os.fspath(store) if isinstance(store, str | os.PathLike) else ""
        backbone = model.info.features.backbone
        names = [text, text.removesuffix(f".{backbone.replace('@', '-')}")]
        if isinstance(manifest, Manifest):
            names = [manifest.name]
        elif manifest is not None:
            names = [os.fspath(manifest)]
        known = Workspace.of(workspace).names("manifests")
        clips = next((name for name in names if name in known), "MANIFEST")
        error.message += f"; {model.info.name} reads features of {backbone}"
        command = _what_makes_features(model, clips)
        is_place = is_url(text) or Path(str(error.where)).exists()
        error.hint = f"{error.hint}; or {command}" if is_place else command
        raise


def _what_makes_features(model: SavedModel, manifest: str) -> str:
    """Return the command that makes the features of a manifest that a model reads."""
    features = model.info.features
    backbones = [part.backbone for part in features.parts] or [features.backbone]
    backbone = features.backbone
    name = shell_word(manifest)
    join = f"{'+'.join('ABCDEFGH'[: len(backbones)])} in place of the store"
    if features.parts and not all(map(_is_extracted, backbones)):
        each = " and ".join(backbones)
        return f"a store of these clips for each of {each}, then {join}"
    if backbone.startswith(UNKNOWN_FACT):
        return (
            "imports have the same recipe with the same --backbone: import both so, each under a"
            " new name (-o), and train again"
        )
    if backbone.endswith(IMPORTED):
        words = f"--backbone {shell_word(backbone.removesuffix(IMPORTED))}"
        pooling = features.told.get("pooling", "")
        for pool, word in POOLINGS.items():
            if pooling.startswith(f"{word} "):
                words += f" --pool {shell_word(pool)}"
        return f"obygaze store import FILE --manifest {name} {words} -o STORE"
    words = " ".join(f"-b {shell_word(one)}" for one in backbones)
    command = f"obygaze extract run {name} {words}"
    if features.grid:
        command += f", of windows: {_what_cuts(features.grid)}"
    if features.parts:
        stores = "+".join(f"{manifest}.{one.replace('@', '-')}" for one in backbones)
        command += f", then {shell_word(stores)} in place of the store"
    return command


def _is_extracted(backbone: str) -> bool:
    """Return whether a model of this program made features, from their title."""
    return not (backbone.startswith(UNKNOWN_FACT) or backbone.endswith(IMPORTED))


def _what_cuts(grid: Mapping[str, float]) -> str:
    """Return the command that cuts films into the windows of a grid."""
    words = ["obygaze manifest windows FOLDER -o NAME"]
    for name in ("window", "stride", "seconds", "every"):
        if name in grid:
            # All digits: others would make another grid.
            words.append(f"--{name} {str(grid[name]).removesuffix('.0')}")
    return " ".join(words)


def _pairs(features: FeatureSpec, store: Store) -> list[tuple[FeatureSpec, Store]]:
    """Return what a model reads with the stores that may have it: of a join, each of its parts.

    Empty for a join in place of one store, or the reverse. Parts are in the order of their recipes.
    """
    wanted = features.parts or (features,)
    is_join = isinstance(store, JoinedStore)
    if len(wanted) != len(store.stores) or is_join != bool(features.parts):
        return []
    return [*zip(wanted, store.stores, strict=True)]


def _has_recipe(features: FeatureSpec, store: Store) -> bool:
    """Return whether a store was made as that of the training clips of a model.

    A model of clips reads windows: a window has the features of the clip that has its pictures.
    """
    recipes = (store.recipe, store.recipe.of_clips)
    return features.fingerprint in [recipe.fingerprint for recipe in recipes]


def _windows_for_clips(
    model: SavedModel, store: Store, manifest: Manifest | None
) -> str:
    """Return a sentence if windows, or whole films, are scored by a model of clips, else ""."""
    features = model.info.features
    length_s = model.info.training.median_s
    noun = "windows" if features.grid else "clips"
    if features.rule:
        noun = "segments"
    of_length = f" of {length_s:.3g} s (median)" if length_s else ""
    trained_on = f"{model.info.name} was trained on {noun}{of_length}"
    long = long_clips(manifest) if manifest is not None else ""
    if long and length_s:
        return f"{trained_on}; {long}"
    reads_same_windows = store.fingerprint == features.fingerprint
    if not store.recipe.grid or features.rule or reads_same_windows:
        return ""
    seconds = store.recipe.grid.get("seconds")
    length = f" of {seconds:g} s" if seconds else ""
    return f"{trained_on}, and these are windows{length}"


def _replaced(
    ids: Sequence[str], table: Manifest | None, store: Store
) -> Sequence[str]:
    """Return the videos of these clips with other files than those whose features were scored."""
    if table is None:
        return ()
    asked = set(ids)
    clips = [clip for clip in table if clip.clip_id in asked]
    videos: dict[str, None] = {}
    for one in store.stores:
        replaced = replaced_videos(clips, table.header.video_root, one)
        videos |= dict.fromkeys(replaced)
    return [*videos]


def _stated(
    clip_ids: Sequence[str], listed: Iterable[str | Clip], store: Store
) -> ClipFacts:
    """Return what is stated of clips: by the manifest that lists them, else by the store."""
    of_manifest = {clip.clip_id: clip for clip in listed if isinstance(clip, Clip)}
    clips = [of_manifest.get(one, Clip(one, "")) for one in clip_ids]
    listed_facts = ClipFacts.of_clips(clips)
    movie_ids = listed_facts.movie_ids.astype(np.object_)
    start_s = listed_facts.start_s.copy()
    end_s = listed_facts.end_s.copy()
    frames = listed_facts.frames.copy()
    for one in store.stores:
        rows = one.table.find(clip_ids)
        known = np.flatnonzero(rows >= 0)
        of_rows = one.facts_of(rows[known])
        is_without_frames = np.isnan(frames[:, :2]).any(axis=1)
        for column, in_store, is_missing in (
            (movie_ids, of_rows.movie_ids, movie_ids == ""),
            (start_s, of_rows.start_s, np.isnan(start_s)),
            (end_s, of_rows.end_s, np.isnan(end_s)),
            (frames, of_rows.frames, is_without_frames),
        ):
            is_taken = np.asarray(is_missing)[known]
            column[known[is_taken]] = in_store[is_taken]
    return replace(ClipFacts.of(clip_ids, movie_ids, start_s, end_s), frames=frames)


def _predicted(
    model: SavedModel,
    store: Store,
    matrix: Matrix | Segments,
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
            hint=f"obygaze store info {shell_word(store.location)} --clips",
        )
    stated = _stated(ids, listed, store)
    hashes = row_hashes(values[is_finite])
    seen = what_was_seen(model, stated, store, hashes=hashes, in_sample=in_sample)
    refused = {} if in_sample else _refused(model, ids, seen.basis)
    kept = np.flatnonzero([clip not in refused for clip in ids])
    basis = [seen.basis[place] for place in kept.tolist()]
    X = values[is_finite][kept].astype(np.float64)
    scores, are_probabilities = _scores(model.estimator, X)
    margins, contributions = _explain(model, X)
    _put_out_of_fold(model, seen.rows[kept], basis, scores, margins, contributions)
    names = list(model.info.classes)
    n_of_training = basis.count(OUT_OF_FOLD)
    pairs = _pairs(model.info.features, store)
    if all(of_part.seal in one.made_of for of_part, one in pairs):
        n_of_training = 0
    stated_of_kept = stated.some(kept)
    return Predicted(
        clip_ids=stated_of_kept.clip_ids.tolist(),
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
        n_of_training=n_of_training,
    )


def features_for_model(
    model: SavedModel,
    store: Store,
    clips: Sequence[str | Clip] | None,
    *,
    of_films: Iterable[Clip] = (),
) -> Matrix | Segments:
    """Return the features of clips that a model reads, as `predict`."""
    wanted = model.info.features
    store, array = store_to_read(model, store)
    if wanted.rule:
        segments = [clip for clip in clips or () if isinstance(clip, Clip)]
        if not segments or len(segments) < len(clips or ()):
            raise FixUsage(
                "this model needs a manifest of segments: the features of a segment are those of"
                f" its windows, by the rule {wanted.rule!r}",
                hint="--manifest NAME (in Python, a manifest as `clips`)",
            )
        cut: Any = {"rule": wanted.rule, "reduce": wanted.reduce, "of_films": of_films}
        return store.segments(segments, array, **cut)
    if clips is not None and not clips:
        hint = "ids with commas between, or omit --clips"
        raise FixUsage("--clips lists no clip", hint=hint)
    ids = None if clips is None else _ids_in(store, clips)
    return store.matrix(array, clips=ids, missing="drop")


def store_to_read(model: SavedModel, store: Store) -> tuple[Store, str]:
    """Return a store with the array of it that a model reads; an error for other features."""
    wanted = model.info.features
    pairs = _pairs(wanted, store)
    if not pairs or not all(_has_recipe(*pair) for pair in pairs):
        hint = _what_makes_features(model, store.record.manifest.name or "MANIFEST")
        is_same_command = store.recipe.title == wanted.backbone and not wanted.grid
        if is_same_command and not store.recipe.is_unknown:
            # The command made this store: its weights, or the code, are others today.
            hint = f"a store of the recipe of {shell_word(wanted.store)}, on which it was trained"
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
            f"{model.info.name} reads the arrays {', '.join(arrays)} of these stores, got"
            f" {', '.join(read)}",
            where=store.location,
            hint="+".join(names),
        )
    return join, JOINED_ARRAY


def _array_to_read(model: str, wanted: FeatureSpec, store: Store) -> str:
    """Return the array of a store that a model reads; an error for another type or width."""
    array = wanted.array
    if store.recipe.is_unknown and len(store.feature_arrays) == 1:
        # An import's only array may have another name.
        (array,) = store.feature_arrays
    stored = store.record.array(array)
    found = f"{stored.dtype} {list(stored.shape)}" if stored else "no such array"
    expected = f"{wanted.dtype} {[wanted.width]}"
    if found != expected:
        raise Mismatch(
            f"{model} expects {expected} in the array {array!r}, got {found}",
            where=store.location,
            hint=f"a store with this array, as {shell_word(wanted.store)}",
        )
    return array


def _ids_in(store: Store, listed: Sequence[str | Clip]) -> list[str]:
    """Return the ids of clips, each once; a clip of a manifest must be the one that has its id."""
    store.match([clip for clip in listed if isinstance(clip, Clip)])
    ids = [clip.clip_id if isinstance(clip, Clip) else clip for clip in listed]
    return list(dict.fromkeys(ids))


def _refused(
    model: SavedModel, ids: Sequence[str], basis: Sequence[str]
) -> dict[str, str]:
    """Return the reason for each clip that has an in-sample score only; an error if all have."""
    reason = "the model was trained on this clip and has no out-of-fold score for it"
    if model.clips is None:
        reason = "the model does not list its training clips and may have been trained on this one"
    refused = {
        clip: reason for clip, kind in zip(ids, basis, strict=True) if kind == IN_SAMPLE
    }
    if len(refused) == len(ids):
        raise FixInput(
            f"no prediction for {few(ids, 1)}: {reason}",
            where=str(model.folder),
            hint="--in-sample (in Python in_sample=True) for in-sample scores of all training"
            " clips that are asked for, which are not predictions",
        )
    return refused


def _put_out_of_fold(
    model: SavedModel,
    rows_of_training: Places,
    basis: Sequence[str],
    scores: Floats,
    margins: Mapping[str, Floats],
    contributions: Mapping[str, Floats],
) -> None:
    """Replace the model's own scores of training clips, in place; NaN where there is none."""
    out = [i for i, kind in enumerate(basis) if kind == OUT_OF_FOLD]
    if model.clips is None or not out:
        return
    rows = [rows_of_training[i] for i in out]
    names = score_columns(model.estimator, model.info)[: scores.shape[1]]
    columns = dict(zip(names, scores.T, strict=True))
    columns |= {f"margin:{name}": column for name, column in margins.items()}
    for name, column in columns.items():
        listed = model.clips.scores.get(name)
        column[out] = np.nan if listed is None else listed[rows]
    for column in contributions.values():
        column[out] = np.nan
    if hasattr(model.estimator, "predict_proba") and len(names) == 2:
        filled = scores[out]
        of_other_class = filled[:, ::-1]
        scores[out] = np.where(np.isnan(filled), 1.0 - of_other_class, filled)


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
    codes = scores.argmax(axis=1)
    if scores.shape[1] == 1:
        codes = (scores[:, 0] > 0).astype(np.intp)
    is_incomplete = np.asarray(np.isnan(scores).any(axis=1))
    decisions = []
    for code, lacks_score in zip(codes.tolist(), is_incomplete.tolist(), strict=True):
        decisions.append("" if lacks_score else names[code])
    return decisions


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
    of_parts = (*names, RESIDUAL)
    return margins, dict(zip(of_parts, parts.T.copy(), strict=False))
