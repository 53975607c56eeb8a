"""Predictions of a saved model for the clips of a store.

A clip that the model was trained on gets its out-of-fold score: the model's own score of such a
clip is in-sample and does not count as a prediction.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.clip_ids import clip_ids
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, Mismatch
from obygaze_features.core.files import csv_bytes, json_values
from obygaze_features.core.notebook import data_frame, short_repr
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.core.written_tables import Columns, write_table
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.listing import film_columns
from obygaze_features.manifest.model import Clip, unannotated_id
from obygaze_features.manifest.same_clip import Identity, Sameness
from obygaze_features.store import Matrix, Segments, Store
from obygaze_features.store.identity import (
    identities_of,
    identity_of,
    is_guessed_film,
)
from obygaze_features.store.recipe import IMPORTED, UNKNOWN
from obygaze_features.store.records import UNKNOWN_FILM
from obygaze_models.models.common import NOT_FINITE, as_float32
from obygaze_models.zoo.info import FeatureSpec, ModelInfo, TrainingClips
from obygaze_models.zoo.mediaeval_file import (
    AFFECT,
    official_name,
    read_affect_scores,
    write_affect_run,
    write_run_file,
)
from obygaze_models.zoo.new_films import (
    features_for,
    has_recipe,
    require_same_grid,
    stores_that_fit,
    what_makes_features,
    windows_for_clips,
)
from obygaze_models.zoo.saving import SavedModel, load_model, score_columns

Floats = NDArray[np.float64]
OUT_OF_FOLD = "out-of-fold"
UNSEEN = "unseen"
FILM_SEEN = "film-seen"
FILM_UNKNOWN = "film-unknown"
IN_SAMPLE = "in-sample"
GIVEN = "given"


@dataclass(frozen=True, eq=False)
class Predicted:
    """Scores of clips; `absent` and `refused` map the other clips to the reason.

    `absent` are clips without features, `refused` are training clips without an out-of-fold score.
    `basis` is the kind of each score:

    - `out-of-fold`: the model was trained on the clip; the score is the mean over the fits of its
      evaluation that were not;
    - `unseen`: the model was trained on no clip of this film;
    - `film-seen`: the model was not trained on the clip, but on others of its film;
    - `film-unknown`: the model was not trained on the clip, and its film is not known;
    - `in-sample`: the model was trained on the clip, and the score is its own;
    - `given`: the score is that of a table, not of a model.

    Out-of-fold clips have no contributions, and may have no margins: these are NaN. `model` has the
    facts of the model that gave the scores, `films` what is known of the films and times of the
    clips, as columns that a file has beside those of the table. `n_by_id` counts the clips that are
    taken for training clips by their ids alone, because films and times are not known. `renamed`
    are clips with the film and the times of a training clip of another id. `windows` is a sentence
    if windows were scored by a model of clips.
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
    model: ModelInfo | None = None
    films: Columns = field(default_factory=dict)
    n_by_id: int = 0
    renamed: Sequence[str] = ()
    windows: str = ""

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
        return data_frame(self._table(), "clip_id")

    def write(
        self,
        output: PathLike | None = None,
        *,
        mediaeval: PathLike | None = None,
        no_external_data: bool = False,
        force: bool = False,
    ) -> PredictedFiles:
        """Write the scores to files.

        Args:
            output: Write the table to this file, with films and times: .csv or .xlsx.
            mediaeval: Write a file of predictions for MediaEval 2015, a contest on violence and
                emotion in films: the scores of a model of two classes as violence, those of
                --affect as classes of valence and arousal.
            no_external_data: --mediaeval: neither model nor backbone saw data from outside the
                task.
            force: Replace the output if it exists.
        """
        if no_external_data and mediaeval is None:
            raise FixUsage("--no-external-data needs --mediaeval PATH")
        table = self.to_csv()
        written = []
        if output is not None:
            columns = {"clip_id": self.clip_ids, **self.films, **self._table()}
            write_table(output, columns, force=force)
            written.append(f"wrote {output}")
        if mediaeval is not None:
            paths = self._write_run(
                Path(mediaeval), external_data=not no_external_data, force=force
            )
            written.append(f"wrote {' and '.join(map(str, paths))}")
        return PredictedFiles(self, table, tuple(written))

    def _write_run(
        self, path: Path, *, external_data: bool, force: bool
    ) -> tuple[Path, Path]:
        """Write a run of violence or of induced affect, as `audit mediaeval` reads it."""
        names = [official_name(clip) for clip in self.clip_ids]
        model = self.model
        if model is None:
            of_clips = [(valence, arousal) for valence, arousal in self.scores.tolist()]
            affect = dict(zip(names, of_clips, strict=True))
            return write_affect_run(
                path, affect, external_data=external_data, force=force
            )
        if len(model.classes) != 2:
            raise FixUsage(
                f"--mediaeval needs a model of two classes, {model.name} has"
                f" {len(model.classes)}",
                hint="a model of the task violence, or --affect TABLE for valence and arousal",
            )
        scores = dict(zip(names, self.scores[:, -1].tolist(), strict=True))
        return write_run_file(
            path,
            scores,
            external_data=external_data,
            tag=model.name,
            about={"model": model.kind, "backbone": model.features.backbone},
            force=force,
        )

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
        clips_of_reason: dict[str, list[str]] = {}
        for clip, reason in self.predicted.absent.items():
            clips_of_reason.setdefault(reason, []).append(clip)
        absent = []
        for reason, without in clips_of_reason.items():
            absent.append(f"{few(without)}: {reason}")
        counts = Counter(self.predicted.basis)
        by_basis = ", ".join(f"{n} {basis}" for basis, n in counts.items())
        by_id = []
        if self.predicted.n_by_id:
            clips = count(self.predicted.n_by_id, "clip")
            by_id.append(
                f"{clips} taken for training clips by their ids alone: neither films nor times are"
                " known on both sides"
            )
        windows = [self.predicted.windows] if self.predicted.windows else []
        return [*absent, f"rows by basis: {by_basis}", *windows, *by_id, *self.written]

    @property
    def warnings(self) -> list[str | tuple[str, str]]:
        """What could be taken for a prediction, or is missing, and what to do."""
        warnings: list[str | tuple[str, str]] = []
        refused = self.predicted.refused
        if refused:
            first, reason = next(iter(refused.items()))
            n = len(refused)
            clips = first if n == 1 else f"{n} clips, the first is {first}"
            warnings.append(
                (
                    f"no row for {clips}: {reason}",
                    "--in-sample, which gives all clips that the model was trained on the score"
                    " of the model itself, not only these; --clips with it chooses the clips",
                )
            )
        n_of_basis = Counter(self.predicted.basis)
        renamed = self.predicted.renamed
        if renamed:
            have = "have" if len(renamed) > 1 else "has"
            warnings.append(
                (
                    f"the model may have been trained on {few(renamed)}: training clips with other"
                    f" ids have the same film and times, and {count(len(renamed), 'score')}"
                    f" {have} no out-of-fold fit",
                    "the ids of the training clips for these clips, in the manifest",
                )
            )
        n_unknown = n_of_basis[FILM_UNKNOWN]
        if n_unknown:
            warnings.append(
                (
                    f"the films of {n_unknown} clips are not known, as the store was imported"
                    " without a manifest, or its manifest does not name them: the model may have"
                    " been trained on other clips of these films",
                    "--manifest NAME, a manifest with these clips and their films",
                )
            )
        n_in_sample = n_of_basis[IN_SAMPLE]
        if n_in_sample:
            warnings.append(
                f"the model was trained on {n_in_sample} of these clips: their in-sample scores"
                " are not predictions and cannot be used to evaluate the model"
            )
        return warnings


def predict(
    model: PathLike | SavedModel | None = None,
    store: PathLike | Store | None = None,
    clips: PathLike | Iterable[str | Clip] | None = None,
    *,
    manifest: PathLike | Manifest | None = None,
    affect: PathLike | None = None,
    in_sample: bool = False,
    trust: Sequence[str] = (),
    workspace: PathLike | None = None,
) -> Predicted:
    """Predict the clips of a store, or of new films, with a model."""
    if affect is not None:
        if model is not None or clips is not None or manifest is not None:
            raise FixUsage("--affect has clips and scores of its own, without a model")
        return _given_affect(Path(affect))
    if model is None or store is None:
        raise FixUsage("expected a model and a store, or --affect TABLE")
    saved = load_model(model, trust=trust, workspace=workspace)
    opened, named = features_for(saved, store, workspace)
    if manifest is None:
        manifest = named
    listed: list[str | Clip] | None = None
    if isinstance(clips, str | os.PathLike):
        listed = [*clip_ids(clips)]
    elif clips is not None:
        listed = list(clips)
    rows: Manifest | None
    of_films: Iterable[Clip] = ()
    if manifest is None:
        rows = opened.find_manifest(Workspace.of(workspace))
    else:
        rows = read_manifest(manifest, workspace=workspace)
        require_same_grid(opened, rows)
        of_films = rows
        listed = list(rows) if listed is None else [_row_of(rows, c) for c in listed]
    predicted, film_of = _predict(
        saved,
        opened,
        listed,
        in_sample=in_sample,
        workspace=workspace,
        of_films=of_films,
    )
    movie_ids = [film_of[clip] for clip in predicted.clip_ids]
    identities = list(map(Identity, predicted.clip_ids))
    if manifest is None:
        identities = identities_of(predicted.clip_ids, opened.table, opened.record)
    films = film_columns(identities, movie_ids, rows)
    return replace(
        predicted, films=films, windows=windows_for_clips(saved, opened, rows)
    )


def _given_affect(path: Path) -> Predicted:
    """Return the scores of a table of valence and arousal."""
    affect = read_affect_scores(path)
    return Predicted(
        clip_ids=list(affect),
        basis=[GIVEN] * len(affect),
        classes=AFFECT,
        scores=np.array(list(affect.values())).reshape(-1, len(AFFECT)),
        are_probabilities=False,
        decisions=[],
        margins={},
        contributions={},
        absent={},
        refused={},
    )


def _row_of(manifest: Manifest, clip: str | Clip) -> Clip:
    return manifest[clip.clip_id if isinstance(clip, Clip) else clip]


def _predict(
    model: SavedModel,
    store: Store,
    clips: Sequence[str | Clip] | None,
    *,
    in_sample: bool,
    workspace: PathLike | None,
    of_films: Iterable[Clip],
) -> tuple[Predicted, dict[str, str]]:
    """Return the predictions of a model, and the film of each clip.

    Training clips get their out-of-fold scores.
    """
    matrix, film_of = read_features(
        model, store, clips, workspace=workspace, of_films=of_films
    )
    values = as_float32(matrix.values)
    is_finite = np.isfinite(values).all(axis=1)
    ids = [str(clip) for clip in matrix.clip_ids]
    absent = {clip: str(status) for clip, status in matrix.reasons.items()}
    for row in np.flatnonzero(~is_finite).tolist():
        absent[ids[row]] = NOT_FINITE
    ids = [ids[row] for row in np.flatnonzero(is_finite).tolist()]
    X = values[is_finite].astype(np.float64)
    if not ids:
        raise FixInput(
            "none of these clips has features",
            where=store.location,
            hint=f"obygaze store info {shlex.quote(store.location)} --clips",
        )
    trained_on: dict[str, int] = {}
    n_by_id = 0
    renamed: list[str] = []
    if model.clips is not None:
        identities = _identities(store, ids, clips or (), model.info.features)
        trained_on, n_by_id = _training_rows(model.clips, identities, store.location)
        others = {clip: identities[clip] for clip in ids if clip not in trained_on}
        renamed = model.clips.in_the_same_places(others)
    basis = _basis(
        model,
        ids,
        film_of,
        trained_on,
        _clips_of_unknown_films(store, film_of, clips or ()),
        in_sample=in_sample,
    )
    refused = {}
    if not in_sample:
        refused = _refused(model, ids, basis)
    predicted_rows = [i for i, clip in enumerate(ids) if clip not in refused]
    ids = [ids[i] for i in predicted_rows]
    basis = [basis[i] for i in predicted_rows]
    X = X[predicted_rows]
    scores, are_probabilities = _scores(model.estimator, X)
    margins, contributions = _explain(model, X)
    _put_out_of_fold(model, ids, trained_on, basis, scores, margins, contributions)
    names = list(model.info.classes)
    predicted = Predicted(
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
        model=model.info,
        n_by_id=n_by_id,
        renamed=renamed,
    )
    return predicted, film_of


def read_features(
    model: SavedModel,
    store: Store,
    clips: Iterable[str | Clip] | None,
    *,
    workspace: PathLike | None = None,
    of_films: Iterable[Clip] = (),
) -> tuple[Matrix | Segments, dict[str, str]]:
    """Return the features of clips that a model reads, and the film of each clip, as `predict`."""
    wanted = model.info.features
    if not has_recipe(model, store):
        raise Mismatch(
            f"{model.info.name} expects features of {wanted.backbone} with fingerprint"
            f" {wanted.fingerprint[:12]}, got {store.fingerprint[:12]} ({store.recipe.title})",
            where=store.location,
            hint=_hint_for_other_recipe(model, store, Workspace.of(workspace)),
        )
    dtype = store.array(wanted.array).dtype
    if dtype != wanted.dtype:
        raise Mismatch(
            f"{model.info.name} expects {wanted.dtype} in the array {wanted.array!r}, got {dtype}",
            where=store.location,
            hint=_stores_that_fit(model, Workspace.of(workspace)),
        )
    listed = [] if clips is None else list(clips)
    matrix: Matrix | Segments
    if wanted.rule:
        matrix, films = _read_segments(store, wanted, listed, of_films)
    elif clips is not None and not listed:
        hint = "ids with commas between, or omit --clips"
        raise FixUsage("--clips lists no clip", hint=hint)
    else:
        ids = _ids_in(store, listed)
        films = dict(
            zip(store.clip_ids.tolist(), store.movie_ids.tolist(), strict=True)
        )
        for clip_id, movie_id in _films_of_manifest(listed).items():
            if clip_id in films:
                films[clip_id] = movie_id
        matrix = store.matrix(
            wanted.array, clips=None if clips is None else ids, missing="drop"
        )
    if matrix.values.shape[1:] != (wanted.width,):
        raise FixInput(
            f"array {wanted.array!r} must have {wanted.width} numbers per clip,"
            f" got {matrix.values.shape[1:]}",
            where=store.location,
        )
    return matrix, films


def _hint_for_other_recipe(model: SavedModel, store: Store, here: Workspace) -> str:
    """Return what to do about a store of another recipe than that of a model.

    Imports have the same recipe if the importer states the same of both.
    """
    wanted = model.info.features
    if store.recipe.is_unknown and wanted.backbone.endswith(IMPORTED):
        name = shlex.quote(wanted.backbone.removesuffix(IMPORTED))
        return (
            f"if they were made in the same way, import them with --backbone {name} and the"
            " same --fact"
        )
    if store.recipe.is_unknown and wanted.backbone.startswith(UNKNOWN):
        return (
            "if both were made in the same way, import both with the same --backbone and"
            " --fact, and train again"
        )
    # Features of the same clips, if they are there, before those of any others.
    clips = store.find_manifest(here)
    if clips is not None and not stores_that_fit(model, here, clips.name):
        return what_makes_features(model, clips, here)
    return _stores_that_fit(model, here, clips)


def _stores_that_fit(
    model: SavedModel, here: Workspace, clips: Manifest | None = None
) -> str:
    """Return the stores of the workspace that a model reads, or how to find one, as a hint."""
    fitting = stores_that_fit(model, here, clips.name if clips else None)
    if fitting:
        return f"{' or '.join(fitting)}, of the same recipe"
    return (
        "a store of the same recipe; obygaze store info shows the fingerprint of each"
    )


def _read_segments(
    store: Store,
    wanted: FeatureSpec,
    listed: Sequence[str | Clip],
    of_films: Iterable[Clip],
) -> tuple[Segments, dict[str, str]]:
    """Return the features of segments, made from those of their windows, and their films."""
    segments = [clip for clip in listed if isinstance(clip, Clip)]
    if not segments or len(segments) < len(listed):
        raise FixUsage(
            "this model needs a manifest of segments: the features of a segment are those of"
            f" its windows, by the rule {wanted.rule!r}",
            hint="--manifest NAME (in Python, a manifest as `clips`)",
        )
    cut: Any = {"rule": wanted.rule, "reduce": wanted.reduce, "of_films": of_films}
    films = {clip.clip_id: clip.movie_id for clip in segments}
    return store.segments(segments, wanted.array, **cut), films


def _ids_in(store: Store, listed: Sequence[str | Clip]) -> list[str]:
    """Return the ids of clips; those of the clips themselves where the store has no annotators."""
    clips = [clip for clip in listed if isinstance(clip, Clip)]
    if not clips:
        return [str(clip) for clip in listed]
    id_of = dict(
        zip((clip.clip_id for clip in clips), store.match(clips).ids, strict=True)
    )
    ids = []
    for clip in listed:
        ids.append(id_of[clip.clip_id] if isinstance(clip, Clip) else clip)
    return list(dict.fromkeys(ids))


def _films_of_manifest(listed: Iterable[str | Clip]) -> dict[str, str]:
    """Return the films that clips of a manifest name, by each id that a store may have of them."""
    films = {}
    for clip in listed:
        if isinstance(clip, Clip):
            films[clip.clip_id] = clip.movie_id
            films[unannotated_id(clip)] = clip.movie_id
    return films


def _clips_of_unknown_films(
    store: Store, film_of: Mapping[str, str], listed: Iterable[str | Clip]
) -> set[str]:
    """Return the clips whose film nobody names: neither the store nor a manifest."""
    known = _films_of_manifest(listed)
    unknown = set()
    for clip, film in film_of.items():
        is_guess = clip not in known and is_guessed_film(film, clip, store.record)
        if film == UNKNOWN_FILM or is_guess:
            unknown.add(clip)
    return unknown


def _identities(
    store: Store,
    ids: Sequence[str],
    listed: Iterable[str | Clip],
    wanted: FeatureSpec,
) -> dict[str, Identity]:
    """Return what is known of each clip: by the store, and by the manifest that names it."""
    of_manifest = {}
    for clip in listed:
        if isinstance(clip, Clip):
            of_manifest[clip.clip_id] = Identity.of_clip(clip)
            of_manifest.setdefault(unannotated_id(clip), Identity.of_clip(clip))
    if wanted.rule:
        return {clip: of_manifest[clip] for clip in ids}
    identities = {}
    rows = store.table.some(store.table.find(ids))
    for clip_id, row in zip(ids, rows, strict=True):
        of_store = identity_of(row, store.record)
        named = of_manifest.get(clip_id)
        if named is not None:
            # Times of the store may be unknown, and so may its films.
            of_store = named._replace(
                in_either=of_store.in_either, video=of_store.video
            )
        identities[clip_id] = of_store
    return identities


def _training_rows(
    clips: TrainingClips, identities: Mapping[str, Identity], where: str
) -> tuple[dict[str, int], int]:
    """Return the row in the training clips of each clip that the model was trained on.

    Also return how many of them have the same id, and nothing else that is known on both sides. A
    clip that has the id of a training clip and is another one is an error.
    """
    rows = {}
    n_by_id = 0
    for clip_id, identity in identities.items():
        found = clips.find(clip_id, identity)
        if found is None:
            continue
        row, comparison = found
        if not comparison.sameness.is_same:
            raise FixInput(
                f"clip {clip_id!r} is another one than the training clip of this id:"
                f" {comparison.contradiction} here",
                where=where,
                hint="other ids for the clips of this data set, in its manifest",
            )
        rows[clip_id] = row
        n_by_id += comparison.sameness is Sameness.UNKNOWN
    return rows, n_by_id


def _basis(
    model: SavedModel,
    ids: Sequence[str],
    film_of: Mapping[str, str],
    trained_on: Mapping[str, int],
    of_unknown_films: set[str],
    *,
    in_sample: bool,
) -> list[str]:
    """Return the kind of score of each clip. Films are the same where their ids are."""
    training = model.info.training
    films = set(training.films)
    if model.clips is None:
        if training.n_clips > 0 and not films:
            return [IN_SAMPLE] * len(ids)
        if training.n_clips > 0:
            films |= {film_of[clip] for clip in ids if clip in of_unknown_films}
        return [IN_SAMPLE if film_of[clip] in films else UNSEEN for clip in ids]
    has_score = model.clips.has_score
    # A store without a manifest may use other film ids than the manifest of the training.
    films |= {film for clip, film in film_of.items() if clip in model.clips.row_of}
    films.discard(UNKNOWN_FILM)
    basis = []
    for clip in ids:
        if clip in trained_on:
            scored = has_score[trained_on[clip]] and not in_sample
            basis.append(OUT_OF_FOLD if scored else IN_SAMPLE)
        elif film_of[clip] in films:
            basis.append(FILM_SEEN)
        else:
            basis.append(FILM_UNKNOWN if clip in of_unknown_films else UNSEEN)
    return basis


def _refused(
    model: SavedModel,
    ids: Sequence[str],
    basis: Sequence[str],
) -> dict[str, str]:
    """Return the reason for each clip that has an in-sample score only; an error if all have."""
    reason = "the model was trained on this clip and has no out-of-fold score for it"
    if model.clips is None:
        reason = "the model does not list its training clips and may have been trained on this one"
    refused = {
        clip: reason for clip, kind in zip(ids, basis, strict=True) if kind == IN_SAMPLE
    }
    if len(refused) == len(ids):
        others = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
        raise FixInput(
            f"no prediction for {ids[0]}{others}: {reason}",
            where=str(model.folder),
            hint="--in-sample (in Python in_sample=True) for in-sample scores of all training"
            " clips that are asked for, which are not predictions",
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
        filled = scores[out]
        scores[out] = np.where(np.isnan(filled), 1.0 - filled[:, ::-1], filled)


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
