"""The overlap of clips with the training clips and training films of a saved model.

A saved model contains the ids, films and spans of its training clips, and the hashes of their
features and of their video files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.manifest.clip_table import ClipTable, Places, find_rows
from obygaze_features.manifest.same_clips import same_clips
from obygaze_models.evaluation.basis import FILM_SEEN, FILM_UNKNOWN, UNSEEN

if TYPE_CHECKING:
    from obygaze_features.store.reading import Store
    from obygaze_models.zoo.info import TrainingData
    from obygaze_models.zoo.saving import SavedModel

COPY = "copy"  # a clip with exactly the features of a training clip that has a different id
OUT_OF_FOLD = "out-of-fold"
IN_SAMPLE = "in-sample"


@dataclass(frozen=True, eq=False)
class TrainingOverlap:
    """The overlap of clips with the training clips of a model.

    Attributes:
        basis: For each clip, how its score relates to the training, such as `film-seen`.
        rows: The row of each clip in the training clips of the model; -1 for all other clips.
        n_by_ids: If the clips are from a different store than the training clips: the number of
            clips that were matched to training clips by id only.
    """

    basis: Sequence[str]
    rows: Places
    n_by_ids: int


def find_training_overlap(
    model: SavedModel,
    clips: ClipTable,
    store: Store,
    *,
    hashes: Sequence[str],
    in_sample: bool = False,
) -> TrainingOverlap:
    """Return the overlap of clips with the training clips of a model.

    Raise an error for a clip with the id of a training clip and a different film or span, and for
    clips without a film if the model was trained on films.

    Args:
        model: The model.
        clips: The facts of the clips, from a manifest or from the store.
        store: The store of their features, which may contain the hashes of their videos.
        hashes: The hash of the features of each clip.
        in_sample: Whether training clips with an out-of-fold score get the score of the model
            itself instead.
    """
    training = model.info.training
    n_without = int((clips.movie_ids == "").sum())
    if n_without and training.films:
        raise Mismatch(
            f"the films of {count(n_without, 'clip')} are unknown, and {model.info.name} may have"
            " been trained on other clips of these films",
            where=store.location,
            hint="pass --manifest NAME, a manifest with these clips and their films",
        )
    rows = np.full(len(clips), -1, dtype=np.int64)
    n_by_ids = 0
    if model.clips is not None:
        rows = find_rows(clips.clip_ids, model.clips.facts.clip_ids)
        found = same_clips(clips, model.clips.facts, rows)
        n_by_ids = found.n_by_ids
        found.require(
            ("this store", f"the training of {model.info.name}"),
            tell=False,
            where=store.location,
            hint="if these clips were corrected, train again; if they are other clips, give them"
            " different ids in their manifest",
        )
    is_film_seen = _is_film_seen(training, clips, store)
    new_films = dict.fromkeys(clips.movie_ids[~is_film_seen].tolist())
    _check_case("film", new_films, training.films, store)
    new = UNSEEN if training.films else FILM_UNKNOWN
    if model.clips is None:
        # A model without a list of films may have been trained on any film.
        may_be_any = training.n_clips > 0 and not training.films
        basis = np.where(is_film_seen | may_be_any, IN_SAMPLE, UNSEEN)
    else:
        known = model.clips.clip_ids
        _check_case("clip", clips.clip_ids.tolist(), known, store)
        trained = {*model.clips.hashes} - {""}
        is_copy = np.array([features in trained for features in hashes], dtype=np.bool_)
        # Row -1 selects the appended False: such a clip did not train.
        is_scored = np.append(model.clips.has_score, False)[rows]
        basis = np.where(is_film_seen, FILM_SEEN, new)
        basis = np.where(is_copy, COPY, basis)
        basis = np.where(rows >= 0, IN_SAMPLE, basis)
        basis = np.where(is_scored & (not in_sample), OUT_OF_FOLD, basis)
    is_of_training = store.seal == model.info.features.seal
    return TrainingOverlap(basis.tolist(), rows, 0 if is_of_training else n_by_ids)


def video_hashes(clips: ClipTable, store: Store) -> list[str]:
    """Return the hashes that a store contains of the videos of clips, and of their whole films."""
    hashes: set[str] = set()
    for one in store.stores:
        rows = one.table.find(clips.clip_ids.tolist())
        hashes |= set(one.files_of(rows[rows >= 0]))
        hashes |= {video for _, video in _videos_of_films(clips, one)}
    return sorted(hashes - {""})


def _videos_of_films(clips: ClipTable, store: Store) -> list[tuple[str, str]]:
    """Return the rows of a store that belong to the films of some clips.

    For each row, the film and the hash of the video are returned.
    """
    rows = store.table.rows_of(set(clips.movie_ids.tolist()) - {""})
    films = store.movie_ids_of(rows).tolist()
    return [*zip(films, store.files_of(rows), strict=True)]


def _is_film_seen(
    training: TrainingData, clips: ClipTable, store: Store
) -> npt.NDArray[np.bool_]:
    """Return for each clip whether the model was trained on its film.

    A film is recognised by its name, or by the hash of its video file.
    """
    trained_hashes = set(training.video_hashes)
    films = set(training.films)
    is_seen = np.zeros(len(clips), dtype=np.bool_)
    for one in store.stores if trained_hashes else ():
        rows = one.table.find(clips.clip_ids.tolist())
        known = np.flatnonzero(rows >= 0)
        files = one.files_of(rows[known])
        is_seen[known] |= np.isin(files, [*trained_hashes])
        for film, file in _videos_of_films(clips, one):
            if file in trained_hashes:
                films.add(film)
    films.update(clips.movie_ids[is_seen].tolist())
    films.discard("")
    is_named = [film in films for film in clips.movie_ids.tolist()]
    return is_seen | np.array(is_named, dtype=np.bool_)


def _check_case(
    noun: str, names: Iterable[str], trained: Sequence[str], store: Store
) -> None:
    """Raise an error for an id that differs only in case from an id of the training data.

    It is unknown whether both ids are of the same clip or film, so the overlap is unknown.
    """
    spelling = {name.casefold(): name for name in trained}
    known = {*trained}
    for name in names:
        other = spelling.get(name.casefold(), name)
        if name not in known and other != name:
            raise FixInput(
                f"the {noun} {name!r} differs only in case from {other!r}, which the model"
                " was trained on",
                where=store.location,
                hint="use one spelling in the manifest of these clips, and pass --manifest NAME",
            )
