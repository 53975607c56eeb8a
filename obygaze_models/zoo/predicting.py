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

from obygaze_features.core.clip_ids import clip_ids
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, Mismatch
from obygaze_features.core.files import csv_bytes, json_values
from obygaze_features.core.notebook import data_frame, short_repr
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.core.written_tables import Columns, write_table
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.listing import film_columns
from obygaze_features.manifest.model import Clip, Windows
from obygaze_features.manifest.same_clip import Identity
from obygaze_features.manifest.times import spans_in_films
from obygaze_features.store import Matrix, Segments, Store
from obygaze_features.store.identity import (
    identities_of,
    of_clips_in_store,
    of_row,
    replaced_videos,
    videos_of_films,
)
from obygaze_features.store.records import UNKNOWN_FILM
from obygaze_models.models.common import NOT_FINITE, Floats, as_float32
from obygaze_models.models.registry import RESIDUAL
from obygaze_models.zoo.info import (
    ModelInfo,
    TrainingClips,
    withdrawn_from_training,
)
from obygaze_models.zoo.mediaeval_file import (
    AFFECT,
    read_affect_scores,
    write_mediaeval,
)
from obygaze_models.zoo.new_films import (
    array_for,
    expected_features,
    features_for,
    has_recipe,
    other_store,
    require_same_grid,
    windows_for_clips,
)
from obygaze_models.zoo.saving import SavedModel, load_model, score_columns

OUT_OF_FOLD = "out-of-fold"
UNSEEN = "unseen"
FILM_SEEN = "film-seen"
FILM_UNKNOWN = "film-unknown"
IN_SAMPLE = "in-sample"
GIVEN = "given"
# The most clips that a note advises to draw and to mark.
MOST_DRAWN = 40


@dataclass(frozen=True, eq=False)
class Predicted:
    """Scores of clips; `absent` and `refused` map the other clips to the reason.

    `absent` are clips without features, `refused` are training clips without an out-of-fold score.
    `basis` is the kind of each score:

    - `out-of-fold`: the model was trained on the clip; the score is the mean over the fits of its
      evaluation that were not;
    - `unseen`: the model was trained on no clip of this film;
    - `film-seen`: the model was trained on no clip that has time in common with this one, but on
      others of its film;
    - `film-unknown`: the model was not trained on the clip, and its film, or that of a training
      clip, is not known;
    - `in-sample`: the model was trained on the clip, or on one that has time in common with it,
      and the score is its own;
    - `given`: the score is that of a table, not of a model.

    Out-of-fold clips have no contributions, and may have no margins: these are NaN. `model` has the
    facts of the model that gave the scores, `films` what is known of the films and times of the
    clips, as columns that a file has beside those of the table. `n_by_id` counts the clips of
    another store that are taken for training clips by their ids, without equal times. `found` says
    which manifest and store were taken, where a folder or a manifest was named. `windows` is a
    sentence if windows were scored by a model of clips. `manifest` is the name of that of the
    clips; where films are not known, `same_name` is that of a manifest with them, which is called
    as the store. `can_be_drawn` is whether this manifest says where its clips are in their films.
    `replaced` are videos of the manifest with other files than those whose features were scored.
    `withdrawn` says which clips were withdrawn that the model was trained on.
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
    found: str = ""
    windows: str = ""
    manifest: str = ""
    same_name: str = ""
    can_be_drawn: bool = False
    replaced: Sequence[str] = ()
    withdrawn: Sequence[str] = ()

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
            output: A table with films and times: .csv or .xlsx.
            mediaeval: A file of predictions for MediaEval 2015.
            no_external_data: For it: neither model nor backbone saw data from outside the task.
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
            # The page shows one score of a clip, and these are the clips of a manifest.
            if self.found and self.decisions and len(self.classes) < 3:
                words = ["view", self.manifest, "--scores", os.fspath(output)]
                written.append(f"next: obygaze {shlex.join(words)}")
        if mediaeval is not None:
            paths = write_mediaeval(
                Path(mediaeval),
                self.clip_ids,
                self.scores,
                self.model,
                external_data=not no_external_data,
                force=force,
            )
            written.append(f"wrote {' and '.join(map(str, paths))}")
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
        if predicted.found:
            notes.append(predicted.found)
        counts = Counter(predicted.basis)
        by_basis = ", ".join(f"{n} {basis}" for basis, n in counts.items())
        notes.append(f"rows by basis: {by_basis}")
        if predicted.model is not None and predicted.model.where:
            notes.append(f"the model was trained on clips{predicted.model.with_where}")
        if predicted.windows:
            notes.append(predicted.windows)
        notes += self.written
        if counts[UNSEEN] and predicted.decisions and predicted.can_be_drawn:
            name = shell_word(predicted.manifest)
            n_drawn = min(MOST_DRAWN, len(predicted))
            notes.append(
                "for how often it happens in these films, do not count decisions: draw clips with"
                f" obygaze manifest sample {name} -n {n_drawn} -o drawn, mark them, and ask obygaze"
                " audit share"
            )
        return notes

    @property
    def warnings(self) -> list[str | tuple[str, str]]:
        """What could be taken for a prediction, or is missing, and what to do."""
        predicted = self.predicted
        counts = Counter(predicted.basis)
        warnings: list[str | tuple[str, str]] = [*predicted.withdrawn]
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
                f"{clips_by_id} taken for training clips by their ids alone, as no times are known"
                " on both sides: their scores are those of the training, not of these features"
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
            whose = f"{counts[FILM_UNKNOWN]} clips"
            name = shell_word(predicted.same_name or "NAME")
            hint = f"--manifest {name}, a manifest with these clips and their films"
            if predicted.model is not None and predicted.model.training.lacks_films:
                whose = "some training clips"
                hint = "a model of a manifest with the films of all its clips"
            text = (
                f"the films of {whose} are not known: the model may have been trained on other"
                " clips of these films"
            )
            warnings.append((text, hint))
        if counts[IN_SAMPLE]:
            warnings.append(
                f"the model was trained on {counts[IN_SAMPLE]} of these clips, or on clips that"
                " have time in common with them: their in-sample scores are not predictions and"
                " cannot be used to evaluate the model"
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
    opened, named, found = features_for(saved, store, workspace)
    manifest = named if manifest is None else manifest
    listed: list[str | Clip] | None = None
    if isinstance(clips, str | os.PathLike):
        listed = [*clip_ids(clips)]
    elif isinstance(clips, Manifest):
        listed = list(clips.without_watched())
    elif clips is not None:
        listed = list(clips)
    of_films: Iterable[Clip] = ()
    replaced: Sequence[str] = ()
    if manifest is None:
        table = opened.find_manifest(Workspace.of(workspace))
    else:
        table = read_manifest(manifest, workspace=workspace)
        require_same_grid(opened, table)
        of_films = table
        if listed is None:
            listed = list(table.without_watched())
        else:
            ids = [c.clip_id if isinstance(c, Clip) else c for c in listed]
            listed = [table[clip_id] for clip_id in ids]
        named_clips = [clip for clip in listed if isinstance(clip, Clip)]
        folder = table.header.video_root
        replaced = replaced_videos(named_clips, folder, opened.table)
    matrix = features_for_model(
        saved, opened, listed, workspace=workspace, of_films=of_films
    )
    asked = _asked_clips(saved, opened, matrix, listed or ())
    predicted = _predicted(saved, asked, matrix, in_sample=in_sample)
    identities = []
    for clip in predicted.clip_ids:
        # A manifest that is named says which clips these are.
        is_named = manifest is not None
        identities.append(Identity(clip) if is_named else asked.identities[clip])
    movie_ids = [asked.film_of[clip] for clip in predicted.clip_ids]
    here = Workspace.of(workspace)
    can_be_drawn = False
    if table is not None:
        is_cut = isinstance(table.clips, Windows)
        can_be_drawn = is_cut or bool(spans_in_films(table))
    return replace(
        predicted,
        films=film_columns(identities, movie_ids, table),
        found=found,
        windows=windows_for_clips(saved, opened, table),
        manifest="" if table is None else table.name,
        same_name=_manifest_of_same_name(opened, predicted, here),
        can_be_drawn=can_be_drawn,
        replaced=replaced,
        withdrawn=withdrawn_from_training(saved.info, saved.clips, here),
    )


def _manifest_of_same_name(
    store: Store, predicted: Predicted, workspace: Workspace
) -> str:
    """Return the name of a store if a manifest of this name has the clips of unknown films."""
    name = Path(store.location).name
    if FILM_UNKNOWN not in predicted.basis or name not in workspace.names("manifests"):
        return ""
    pairs = zip(predicted.clip_ids, predicted.basis, strict=True)
    of_unknown_films = {clip for clip, basis in pairs if basis == FILM_UNKNOWN}
    manifest = read_manifest(name, workspace=workspace)
    return name if of_unknown_films <= manifest.by_id.keys() else ""


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


@dataclass(frozen=True, eq=False)
class _AskedClips:
    """What is known of the clips that a model is to predict.

    Attributes:
        where: The store.
        identities: What is known of each clip that has features, by the store and by the manifest
            that names it.
        film_of: The film of each of them; a store without a manifest has guesses.
        trained_films: The films of all training clips that the store has, and those of which it
            has the same videos under other names.
        is_of_training: Whether the store is the one that the model was trained on.
    """

    where: str
    identities: Mapping[str, Identity]
    film_of: Mapping[str, str]
    trained_films: set[str]
    is_of_training: bool


def _asked_clips(
    model: SavedModel,
    store: Store,
    matrix: Matrix | Segments,
    listed: Iterable[str | Clip],
) -> _AskedClips:
    """Return what is known of the clips that have features."""
    of_manifest: dict[str, Clip] = {}
    for clip in listed:
        if isinstance(clip, Clip):
            of_manifest[clip.clip_id] = clip
    films = {clip_id: clip.movie_id for clip_id, clip in of_manifest.items()}
    ids = [str(clip) for clip in matrix.clip_ids]
    if model.info.features.rule:
        segments = list(of_manifest.values())
        of_segments = of_clips_in_store(segments, store, are_segments=True)
        identities = {
            name: of_segments[segment.clip_id] for name, segment in of_manifest.items()
        }
    else:
        of_store = zip(store.clip_ids.tolist(), store.movie_ids.tolist(), strict=True)
        films = {**dict(of_store), **films}
        trained_on = model.clips.row_of if model.clips else {}
        known_ids = list(set(ids) | (films.keys() & trained_on))
        known = identities_of(known_ids, store)
        identities = dict(zip(known_ids, known, strict=True))
        for clip in identities.keys() & of_manifest.keys():
            identities[clip] = of_row(of_manifest[clip], identities[clip])
    trained_films = set()
    if model.clips is not None:
        trained_videos = model.clips.films_of_video.keys()
        asked_films = [films[clip] for clip in ids]
        for film, hashes in videos_of_films(asked_films, store).items():
            if not trained_videos.isdisjoint(hashes):
                trained_films.add(film)
        for clip, identity in identities.items():
            # The manifest may have another name for the film than the store.
            if identity.video in trained_videos:
                trained_films.add(films[clip])
    for clip, identity in identities.items():
        found = model.clips.find(identity) if model.clips else None
        # Another data set may have the ids of training clips for clips of other films.
        if found is not None and found[1].sameness.is_same:
            trained_films.add(films[clip])
    return _AskedClips(
        store.location,
        identities,
        {clip: films[clip] for clip in ids},
        trained_films,
        store.seal == model.info.features.seal,
    )


def _predicted(
    model: SavedModel,
    asked: _AskedClips,
    matrix: Matrix | Segments,
    *,
    in_sample: bool,
) -> Predicted:
    """Return the predictions of a model; training clips get their out-of-fold scores."""
    values = as_float32(matrix.values)
    is_finite = np.asarray(np.isfinite(values).all(axis=1))
    ids = [str(clip) for clip in matrix.clip_ids]
    absent = {clip: str(status) for clip, status in matrix.reasons.items()}
    row_of: dict[str, int] = {}
    for row, clip in enumerate(ids):
        if is_finite[row]:
            row_of[clip] = row
        else:
            absent[clip] = NOT_FINITE
    ids = [*row_of]
    if not ids:
        raise FixInput(
            "none of these clips has features",
            where=asked.where,
            hint=f"obygaze store info {shell_word(asked.where)} --clips",
        )
    trained_on: dict[str, int] = {}
    n_by_id = 0
    if model.clips is not None:
        trained_on, n_by_id = _training_rows(model.clips, ids, asked)
    _refuse_other_capitals(model, ids, asked)
    basis = _basis(model, ids, asked, trained_on, in_sample=in_sample)
    refused = {} if in_sample else _refused(model, ids, basis)
    kept = [clip for clip in ids if clip not in refused]
    basis_of = dict(zip(ids, basis, strict=True))
    rows_of_kept = [row_of[clip] for clip in kept]
    X = values[rows_of_kept].astype(np.float64)
    scores, are_probabilities = _scores(model.estimator, X)
    margins, contributions = _explain(model, X)
    basis = [basis_of[clip] for clip in kept]
    rows = [trained_on.get(clip, -1) for clip in kept]
    _put_out_of_fold(model, rows, basis, scores, margins, contributions)
    names = list(model.info.classes)
    return Predicted(
        clip_ids=kept,
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
    )


def features_for_model(
    model: SavedModel,
    store: Store,
    clips: Sequence[str | Clip] | None,
    *,
    workspace: PathLike | None = None,
    of_films: Iterable[Clip] = (),
) -> Matrix | Segments:
    """Return the features of clips that a model reads, as `predict`."""
    wanted = model.info.features
    here = Workspace.of(workspace)
    if not has_recipe(model, store):
        raise Mismatch(
            f"{model.info.name} expects {expected_features(model, store, here)}",
            where=store.location,
            hint=other_store(model, store, here),
        )
    array = array_for(model, store)
    stored = store.record.array(array)
    found = f"{stored.dtype} {list(stored.shape)}" if stored else "no such array"
    expected = f"{wanted.dtype} {[wanted.width]}"
    if found != expected:
        raise Mismatch(
            f"{model.info.name} expects {expected} in the array {array!r}, got {found}",
            where=store.location,
            hint=other_store(model, store, here),
        )
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


def _ids_in(store: Store, listed: Sequence[str | Clip]) -> list[str]:
    """Return the ids of clips, each once; a clip of a manifest must be the one that has its id."""
    store.match([clip for clip in listed if isinstance(clip, Clip)])
    ids = [clip.clip_id if isinstance(clip, Clip) else clip for clip in listed]
    return list(dict.fromkeys(ids))


def _training_rows(
    clips: TrainingClips, ids: Sequence[str], asked: _AskedClips
) -> tuple[dict[str, int], int]:
    """Return the row in the training clips of each clip that the model was trained on.

    Also return how many of them only the id says to be clips of the training: in another store,
    where no times are known on both sides. A clip that has the id of a training clip and is another
    one is an error.
    """
    rows = {}
    n_by_id = 0
    for clip_id in ids:
        found = clips.find(asked.identities[clip_id])
        if found is None:
            continue
        row, comparison = found
        if not comparison.sameness.is_same:
            raise FixInput(
                f"clip {clip_id!r} is another one than the training clip of this id:"
                f" {comparison.contradiction} here",
                where=asked.where,
                hint="other ids for the clips of this data set, in its manifest",
            )
        rows[clip_id] = row
        n_by_id += comparison.is_by_id and not asked.is_of_training
    return rows, n_by_id


def _refuse_other_capitals(
    model: SavedModel, ids: Sequence[str], asked: _AskedClips
) -> None:
    """Raise an error for a clip or a film that differs by capitals alone from one of the training.

    Nothing says whether it is the same, and so whether the model has seen it. A film of which the
    store has training clips is one that it has seen, however it is spelled there.
    """
    trained_clips = model.clips.clip_ids if model.clips else ()
    films = {asked.film_of[clip]: None for clip in ids}
    for film in asked.trained_films:
        films.pop(film, None)
    for noun, names, trained in (
        ("film", films, model.info.training.films),
        ("clip", ids, trained_clips),
    ):
        known = set(trained)
        spelling = {name.casefold(): name for name in trained}
        for name in names:
            other = spelling.get(name.casefold(), name)
            if name not in known and other != name:
                raise FixInput(
                    f"the {noun} {name!r} differs by capitals alone from {other!r}, which the"
                    " model was trained on",
                    where=asked.where,
                    hint="one spelling of its id, in the manifest of these clips: --manifest",
                )


def _basis(
    model: SavedModel,
    ids: Sequence[str],
    asked: _AskedClips,
    trained_on: Mapping[str, int],
    *,
    in_sample: bool,
) -> list[str]:
    """Return the kind of score of each clip. Films are the same where their ids are."""
    training = model.info.training
    lists_clips = model.clips is not None
    has_score = model.clips.has_score if model.clips else np.zeros(0)
    may_be_any = not lists_clips and training.n_clips > 0
    # A store without a manifest may use other film ids than the manifest of the training.
    films = {*training.films, *asked.trained_films} - {UNKNOWN_FILM}
    asked_ids = {clip: asked.identities[clip] for clip in ids}
    overlapping = model.clips.overlapping(asked_ids) if model.clips else set()
    basis = []
    for clip in ids:
        # A training clip of an unknown film may be of any film.
        is_known = bool(asked.identities[clip].movie_id) and not training.lacks_films
        if clip in trained_on:
            is_scored = has_score[trained_on[clip]] and not in_sample
            basis.append(OUT_OF_FOLD if is_scored else IN_SAMPLE)
        elif clip in overlapping:
            basis.append(IN_SAMPLE)
        elif asked.film_of[clip] in films:
            basis.append(FILM_SEEN if lists_clips else IN_SAMPLE)
        elif may_be_any and not (is_known and films):
            basis.append(IN_SAMPLE)
        else:
            basis.append(UNSEEN if is_known or not lists_clips else FILM_UNKNOWN)
    return basis


def _refused(
    model: SavedModel, ids: Sequence[str], basis: Sequence[str]
) -> dict[str, str]:
    """Return the reason for each clip that has an in-sample score only; an error if all have."""
    reason = (
        "the model was trained on this clip, or on one that has time in common with it, and has no"
        " out-of-fold score for it"
    )
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
    rows_of_training: Sequence[int],
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
