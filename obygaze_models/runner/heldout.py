"""The clips that each fold trains on, validates on, tests, and excludes from all learning.

Everything that learns takes its rows from a `HeldOut`: scaling, concept vectors, choices of
settings and stores, and the fits themselves. Nothing may learn from these clips:

- In splits by film: all clips of a tested film, in all tasks, with or without concepts. This
  includes clips that are in no fold. Fixed splits are by film if no film has test clips as well as
  training or validation clips.
- In splits by clip: the tested clips of the task. If a published training set contains tested
  clips, they are not removed from the training set, and are counted as leaked.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from obygaze_features.manifest.folds import OUTSIDE, IntArray
from obygaze_models.evaluation.predictions import NO_ROWS, BoolArray
from obygaze_models.evaluation.tables import Pair
from obygaze_models.protocols.clips import TaskClips
from obygaze_models.protocols.schedule import SPLIT_KINDS, Labels, splits_of_task
from obygaze_models.protocols.schema import Protocol
from obygaze_models.protocols.splits import LazySequence, Split


@dataclass(frozen=True, eq=False)
class HeldOut:
    """One fold of a training task and a test task. Rows are rows of the clip table.

    Attributes:
        name: The name of the fold.
        units: For each clip, the number of its resampling group: its film, or the clip itself.
        films: The film of each clip, or its group if splits are by groups of films. Empty in a
            manifest without films.
        is_by_film: Whether whole films are held out.
        train: Training rows.
        validation: Validation rows, on which the epoch or a setting is chosen.
        test: Test rows.
        hidden: The values of `units` whose clips are excluded from all learning.
        excluded: Further rows that are excluded from all learning.
        file_folds: The fold of each clip in the published file, if a published scheme makes the
            splits. Concept vectors and their tolerances are found on the training folds of this
            file. None for all other splits.
    """

    name: str
    units: IntArray
    films: NDArray[np.str_]
    is_by_film: bool
    train: IntArray
    validation: IntArray
    test: IntArray
    hidden: IntArray
    excluded: IntArray
    file_folds: IntArray | None = None

    @property
    def may_learn(self) -> BoolArray:
        """Whether each clip may be used for learning, in any task."""
        is_hidden = np.zeros(len(self.units), dtype=np.bool_)
        is_hidden[self.hidden] = True
        may_learn = ~is_hidden[self.units]
        may_learn[self.excluded] = False
        return may_learn

    @property
    def hidden_films(self) -> list[str]:
        """The films that the fold holds out as a whole; empty if films are divided.

        Clips that are in no fold are also excluded from learning, but their films are not listed.
        """
        if not self.is_by_film:
            return []
        is_held_out = np.isin(self.units, self.hidden)
        films: list[str] = np.unique(self.films[is_held_out]).tolist()
        return films

    def merge_validation(self) -> "HeldOut":
        """Return this fold with its validation clips added to the training clips."""
        train = np.union1d(self.train, self.validation)
        return replace(self, train=train, validation=NO_ROWS)

    def without_training(self) -> "HeldOut":
        """Return this fold for a model that is not trained: without training clips."""
        return replace(self, train=NO_ROWS, validation=NO_ROWS)

    def without_test(self, rows: IntArray) -> "HeldOut":
        """Return a fold without test clips: it trains on `rows` and may learn from all clips."""
        return replace(
            self,
            name="every clip",
            train=rows,
            validation=NO_ROWS,
            test=NO_ROWS,
            hidden=NO_ROWS,
            excluded=NO_ROWS,
            file_folds=None,
        )

    def apart(self) -> "HeldOut":
        """Return this fold with its validation clips excluded from learning.

        In splits by film, all clips of their films are excluded.
        """
        hidden = np.union1d(self.hidden, self.units[self.validation])
        return replace(self, hidden=hidden)

    def make_key(self, *fields: str) -> tuple[bytes, ...]:
        """Return a key made of the hashes of the rows in the attributes that `fields` names.

        Folds with equal rows have equal keys.
        """
        key = []
        for name in fields:
            rows: IntArray = getattr(self, name)
            key.append(hashlib.sha256(rows.tobytes()).digest())
        return tuple(key)


def make_folds(
    protocol: Protocol, table: TaskClips, labels: Labels, usable: BoolArray
) -> dict[Pair, Sequence[HeldOut]]:
    """Return the folds of each pair of a training task and a test task.

    Folds are computed when they are read. With thousands of films, the row numbers of all folds
    would take gigabytes.

    Args:
        protocol: The protocol.
        table: The clips of the protocol.
        labels: The class of each clip, by task.
        usable: Whether each clip has features (and a video, where a scheme needs one).
    """
    folds: dict[Pair, Sequence[HeldOut]] = {}
    for task in dict.fromkeys(train for train, _ in protocol.pairs):
        splits = splits_of_task(protocol, table, labels, usable, task)
        trains = usable & (labels[task] >= 0)
        file_folds = None
        if protocol.splits.follow_scheme:
            # Clips without a video are in no published fold.
            file_folds = table.fold(protocol.tasks[task].folds)
            if table.has_video.any():
                file_folds = np.where(table.has_video, file_folds, OUTSIDE)
        for pair in protocol.pairs:
            if pair[0] != task:
                continue
            tests = usable & (labels[pair[1]] >= 0)
            make = partial(
                _held_out, protocol, table, pair, splits, trains, tests, file_folds
            )
            folds[pair] = LazySequence(len(splits), make)
    return {pair: folds[pair] for pair in protocol.pairs}


def hold_out_nothing(table: TaskClips, rows: IntArray) -> HeldOut:
    """Return a fold that trains on `rows` and may learn from all clips."""
    has_groups = bool(np.any(table.groups != ""))
    return HeldOut(
        "every clip",
        train=rows,
        validation=NO_ROWS,
        test=NO_ROWS,
        units=table.group_numbers if has_groups else np.arange(len(table)),
        hidden=NO_ROWS,
        excluded=NO_ROWS,
        films=table.groups,
        is_by_film=has_groups,
    )


def _held_out(
    protocol: Protocol,
    table: TaskClips,
    pair: Pair,
    splits: Sequence[Split],
    trains: BoolArray,
    tests: BoolArray,
    file_folds: IntArray | None,
    number: int,
) -> HeldOut:
    """Return the fold of a split.

    Args:
        protocol: The protocol.
        table: The clips of the protocol.
        pair: The training and the test task.
        splits: The splits of the training task, with all clips of their test folds.
        trains: Whether each clip can train.
        tests: Whether each clip can be tested.
        file_folds: As in `HeldOut`.
        number: The number of the split.
    """
    whole = splits[number]
    has_own_folds = SPLIT_KINDS[protocol.splits.kind].by_task
    test = whole.test[tests[whole.test]]
    if has_own_folds:
        folds = table.fold(protocol.tasks[pair[1]].folds)
        test = np.flatnonzero(tests & (folds == whole.test_fold))
    units = np.arange(len(table))
    tested = test
    test_fold = np.union1d(whole.test, test)
    is_by_film = False
    if not SPLIT_KINDS[protocol.splits.kind].by_clip:
        others = np.concatenate([whole.train, whole.validation])
        # If a test film also has clips in training or validation, the fold is not by film.
        is_divided = np.isin(table.groups[test_fold], table.groups[others]).any()
        is_by_film = not (protocol.splits.follow_scheme or is_divided)
    if is_by_film:
        units = table.group_numbers
        tested = test_fold
    held = HeldOut(
        whole.name,
        train=whole.train,
        validation=whole.validation,
        test=test,
        units=units,
        hidden=np.unique(units[tested]),
        excluded=whole.outside,
        films=table.groups,
        is_by_film=is_by_film,
        file_folds=file_folds,
    )
    if not has_own_folds:
        return replace(
            held,
            train=whole.train[trains[whole.train]],
            validation=whole.validation[trains[whole.validation]],
        )
    # The training sets are those of the paper, also if the test folds come from another file.
    if file_folds is None:
        return held
    is_outside = np.isin(file_folds, (OUTSIDE, whole.test_fold, whole.validation_fold))
    return replace(held, excluded=np.flatnonzero(is_outside))
