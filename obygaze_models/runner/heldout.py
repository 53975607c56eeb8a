"""What is held out in each fold: the clips that train, validate and are tested, and all others.

Everything that learns takes its rows from a `HeldOut`: scaling, concept vectors, choices of
settings and stores, and the fits themselves. Two rules say what nothing may learn from:

- In splits by film: every clip of a tested film, in every task, with or without concepts, also a
  clip that is in no fold. Fixed splits are by film if no film is on both sides.
- In splits by clip: the tested clips of the task. What the paper's own training sets let through
  stays, and is counted as leaked.
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
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.schedule import SPLIT_KINDS, Labels, splits_of_task
from obygaze_models.protocols.schema import Protocol
from obygaze_models.protocols.splits import LazySequence, Split


@dataclass(frozen=True, eq=False)
class HeldOut:
    """One fold of a training and a test task. Rows are those of the clip table.

    Attributes:
        name: The name of the fold.
        units: The number of what is held out as a whole: of each clip's film, or of the clip.
        films: The film of each clip, "" in a manifest without films; where the splits are of
            groups, the group.
        is_by_film: Whether whole films are held out.
        train: The rows that train.
        validation: The rows that choose: when to stop, a setting, a store.
        test: The rows that are tested.
        hidden: The numbers of the films, or of the clips, that nothing may learn from.
        excluded: Further rows that nothing may learn from.
        file_folds: The folds of the published file, in whose training folds a scheme finds concept
            vectors and chooses their tolerance; none in other splits.
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
        """Whether anything may learn from each clip, in this task or in another."""
        is_hidden = np.zeros(len(self.units), dtype=np.bool_)
        is_hidden[self.hidden] = True
        may_learn = ~is_hidden[self.units]
        may_learn[self.excluded] = False
        return may_learn

    @property
    def hidden_films(self) -> list[str]:
        """The films of the fold that are held out as a whole; none where films are divided.

        Nothing learns from a clip that is in no fold, either, but its film is none of these.
        """
        if not self.is_by_film:
            return []
        is_held_out = np.isin(self.units, self.hidden)
        films: list[str] = np.unique(self.films[is_held_out]).tolist()
        return films

    def joined(self) -> "HeldOut":
        """Return the fold in which the validation clips train, too."""
        train = np.union1d(self.train, self.validation)
        return replace(self, train=train, validation=NO_ROWS)

    def untrained(self) -> "HeldOut":
        """Return the fold as of what learns from no clip."""
        return replace(self, train=NO_ROWS, validation=NO_ROWS)

    def without_test(self, rows: IntArray) -> "HeldOut":
        """Return a fold that trains on some rows, and may learn from every clip."""
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
        """Return the fold in which validation clips choose, and nothing else learns from them."""
        hidden = np.union1d(self.hidden, self.units[self.validation])
        return replace(self, hidden=hidden)

    def key_of(self, *fields: str) -> tuple[bytes, ...]:
        """Return a hash of the rows of each field, as a key of what depends on them alone."""
        key = []
        for name in fields:
            rows: IntArray = getattr(self, name)
            key.append(hashlib.sha256(rows.tobytes()).digest())
        return tuple(key)


def folds_of(
    protocol: Protocol, table: ClipTable, labels: Labels, usable: BoolArray
) -> dict[Pair, Sequence[HeldOut]]:
    """Return the folds of each pair of a training and a test task.

    Each fold is made when it is asked for. Of thousands of films, each is tested by a fold that
    trains on nearly all rows: kept, the numbers of these rows would take gigabytes.

    Args:
        protocol: The protocol.
        table: Its clips.
        labels: The class of each clip, by task.
        usable: Whether each clip has features (and a video, where a scheme needs one).
    """
    folds: dict[Pair, Sequence[HeldOut]] = {}
    for task in dict.fromkeys(train for train, _ in protocol.pairs):
        splits = splits_of_task(protocol, table, labels, usable, task)
        trains = usable & (labels[task] >= 0)
        file_folds = None
        if protocol.splits.follow_scheme:
            # The published fold of each clip with a video.
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


def hold_out_nothing(table: ClipTable, rows: IntArray) -> HeldOut:
    """Return a fold that trains on some rows and may learn from every clip."""
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
    table: ClipTable,
    pair: Pair,
    splits: Sequence[Split],
    trains: BoolArray,
    tests: BoolArray,
    file_folds: IntArray | None,
    number: int,
) -> HeldOut:
    """Return what a split holds out.

    Args:
        protocol: The protocol.
        table: Its clips.
        pair: The training and the test task.
        splits: The splits of the training task, with every clip of their test folds.
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
        # A film with clips on both sides is not held out as a whole.
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
    # The training sets are those of the paper, whatever another file tests.
    if file_folds is None:
        return held
    is_outside = np.isin(file_folds, (OUTSIDE, whole.test_fold, whole.validation_fold))
    return replace(held, excluded=np.flatnonzero(is_outside))
