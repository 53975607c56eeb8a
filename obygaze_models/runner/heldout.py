"""What is held out in each fold: the clips that train, validate and are tested, and all others.

Everything that learns takes its rows from a `HeldOut`: scaling, erasing, concept vectors, choices
of settings and stores, recalibration, and the fits themselves. Two rules say what nothing may learn
from:

- In splits by film: every clip of a tested film, in every task, with or without concepts, also a
  clip that is in no fold. Fixed splits are by film if no film is on both sides.
- In splits by clip: the tested clips of the task, under the name of every annotator. What the
  paper's own training sets let through stays, and is counted as leaked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from obygaze_features.manifest.folds import OUTSIDE, IntArray
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.schedule import Labels, Pair, schedule, splits_of_task
from obygaze_models.protocols.schema import Protocol
from obygaze_models.protocols.splits import NO_ROWS, BoolArray, Split

BY_CLIP = ("published", "kfold")  # kinds of splits
FIXED = "fixed"


@dataclass(frozen=True, eq=False)
class HeldOut:
    """One fold of a training and a test task. Rows are those of the clip table.

    Attributes:
        name: The name of the fold.
        train: The rows that train.
        validation: The rows that choose: when to stop, a setting, a threshold.
        test: The rows that are tested.
        may_learn: Whether anything may learn from each clip, in this task or in another.
        units: The number of what is held out as a whole: of each clip's film, or of the clip.
        films: The film (or other group) of each clip.
        is_by_film: Whether whole films are held out.
        file_folds: The folds of the published file, in whose training folds a scheme finds concept
            vectors and chooses their tolerance; none in other splits.
    """

    name: str
    train: IntArray
    validation: IntArray
    test: IntArray
    may_learn: BoolArray
    units: IntArray
    films: NDArray[np.str_]
    is_by_film: bool
    file_folds: IntArray | None = None

    def joined(self) -> "HeldOut":
        """Return the fold in which the validation clips train, too."""
        train = np.union1d(self.train, self.validation)
        return replace(self, train=train, validation=NO_ROWS)

    def apart(self) -> "HeldOut":
        """Return the fold in which validation clips choose, and nothing else learns from them."""
        return replace(
            self, may_learn=self.may_learn & ~self._units_of(self.validation)
        )

    def inner(self, train: IntArray, validation: IntArray) -> "HeldOut":
        """Return a fold inside this one, which is tested on some of the rows that train here."""
        inside = replace(self, train=train, validation=validation)
        return inside.apart()

    def of_films(self, names: NDArray[np.str_]) -> "HeldOut":
        """Return the fold in which only these films train."""
        stays = np.isin(self.films, names)
        train = self.train[stays[self.train]]
        return replace(self, train=train, may_learn=self.may_learn & stays)

    def _units_of(self, rows: IntArray) -> BoolArray:
        """Return whether each clip is in a film (or is a clip) that one of these rows is in."""
        return np.isin(self.units, self.units[rows])

    @cached_property
    def training_films(self) -> NDArray[np.str_] | None:
        """The film of each training row; None if there is only one film."""
        films = self.films[self.train]
        return films if np.any(films != films[:1]) else None

    @property
    def rows_that_train(self) -> bytes:
        """The training rows, as a key of what depends on them alone."""
        return self.train.tobytes()

    @property
    def rows_to_learn_from(self) -> bytes:
        """All rows that a fit can depend on, as a key."""
        parts = (self.train, self.validation, np.flatnonzero(self.may_learn))
        return b"|".join(part.tobytes() for part in parts)


def folds_of(
    protocol: Protocol, table: ClipTable, labels: Labels, usable: BoolArray
) -> dict[Pair, list[HeldOut]]:
    """Return the folds of each pair of a training and a test task.

    Args:
        protocol: The protocol.
        table: Its clips.
        labels: The class of each clip, by task.
        usable: Whether each clip has features (and a video, where a scheme needs one).
    """
    groups = table.column(protocol.splits.group)
    finished = schedule(protocol, table, labels, usable)
    folds: dict[Pair, list[HeldOut]] = {}
    for pair, splits in finished.pairs.items():
        whole_splits = splits_of_task(protocol, table, labels, usable, pair[0])
        file_folds = _file_folds(protocol, table, pair[0])
        folds[pair] = [
            _held_out(protocol, table, groups, split, whole, file_folds)
            for split, whole in zip(splits, whole_splits, strict=True)
        ]
    return folds


def nothing_held_out(
    table: ClipTable, groups: NDArray[np.str_], rows: IntArray
) -> HeldOut:
    """Return a fold that trains on some rows and may learn from every clip."""
    everything = np.ones(len(table), dtype=np.bool_)
    films = _numbers(groups.tolist())
    return HeldOut(
        "every clip", rows, NO_ROWS, NO_ROWS, everything, films, groups, True
    )


def _held_out(
    protocol: Protocol,
    table: ClipTable,
    groups: NDArray[np.str_],
    split: Split,
    whole: Split,
    file_folds: IntArray | None,
) -> HeldOut:
    """Return what a split holds out; `whole` is it with every clip of its test fold."""
    is_by_film = _is_by_film(protocol, whole, groups)
    if is_by_film:
        units = _numbers(groups.tolist())
        tested = whole.test
    else:
        units = _numbers([table.clip_of[clip] for clip in table.ids])
        tested = split.test
    may_learn = ~np.isin(units, units[tested])
    train = split.train
    validation = split.validation
    if protocol.splits.kind == "published":
        # The training sets are those of the paper, whatever another file tests.
        if file_folds is not None:
            held = (OUTSIDE, split.test_fold, split.validation_fold)
            may_learn &= ~np.isin(file_folds, held)
    else:
        train = train[may_learn[train]]
        validation = validation[may_learn[validation]]
    return HeldOut(
        split.name,
        train,
        validation,
        split.test,
        may_learn,
        units,
        groups,
        is_by_film,
        file_folds,
    )


def _is_by_film(protocol: Protocol, whole: Split, groups: NDArray[np.str_]) -> bool:
    """Return whether no film has clips on both sides of a split."""
    kind = protocol.splits.kind
    if kind != FIXED:
        return kind not in BY_CLIP
    others = np.concatenate([whole.train, whole.validation])
    return not np.isin(groups[whole.test], groups[others]).any()


def _file_folds(protocol: Protocol, table: ClipTable, task: str) -> IntArray | None:
    """Return the published fold of each clip with a video; None without a scheme."""
    if not protocol.splits.follow_scheme:
        return None
    folds = table.fold(protocol.tasks[task].folds)
    if table.has_video.any():
        return np.where(table.has_video, folds, OUTSIDE)
    return folds


def _numbers(names: Sequence[str]) -> IntArray:
    """Return a number for each name; equal names have equal numbers."""
    number_of: dict[str, int] = {}
    for name in names:
        number_of.setdefault(name, len(number_of))
    return np.array([number_of[name] for name in names], dtype=np.intp)


def repeats_clips(folds: Sequence[HeldOut]) -> bool:
    """Return whether some clip is tested by more than one fold."""
    tests = [held.test for held in folds]
    return sum(map(len, tests)) > len(np.unique(np.concatenate(tests)))


def shares_films(folds: Sequence[HeldOut]) -> bool:
    """Return whether clips of one film are in several sets of test clips.

    Of a single fold, return whether a film of its test clips trains or validates too.
    """
    groups = folds[0].films
    if len(folds) == 1:
        held = folds[0]
        seen_rows = np.concatenate([held.train, held.validation])
        return bool(np.isin(groups[held.test], groups[seen_rows]).any())
    test_sets = {held.test.tobytes(): held.test for held in folds}
    films: list[str] = []
    for rows in test_sets.values():
        films += np.unique(groups[rows]).tolist()
    return len(films) > len(set(films))


def with_few_films(
    folds: Mapping[Pair, Sequence[HeldOut]], n_films: int, seed: int
) -> dict[Pair, list[HeldOut]]:
    """Return the folds with at most `n_films` of their training films, drawn by seed.

    Give folds whose validation films train, if they do (`joined`): the number is that of all films
    that a fit sees. The films of a smaller number are among those of a larger one.
    """
    thinned: dict[Pair, list[HeldOut]] = {}
    for pair, of_pair in folds.items():
        thinned[pair] = []
        for number, held in enumerate(of_pair):
            names = np.unique(held.films[held.train])
            rng = np.random.default_rng([seed, number])
            thinned[pair].append(held.of_films(rng.permutation(names)[:n_films]))
    return thinned
