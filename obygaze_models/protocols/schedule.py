"""Every fold of every cell of a protocol, all of them from one fold a clip.

The splits of a cell depend on its training task, its test task and the clips alone, never on which
other cells a protocol asks for. Training rows are the same for each test task, except where a gap
is kept around the clips that are tested. Only `published` splits have a fold column for each task;
there a test clip of one task may have trained in another, and that is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.manifest.folds import (
    OUTSIDE,
    IntArray,
    folds_by_group,
    grouped_folds,
    stratified_folds,
)
from obygaze_models.evaluation.leakage import Leak, count_leak
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.released import authors_splits, movie_pairs, text_splits
from obygaze_models.protocols.schema import Protocol, Splits
from obygaze_models.protocols.splits import BoolArray, Origin, Split, drop_near, n_folds_of
from obygaze_models.protocols.tasks import LabelArray

Labels = Mapping[str, LabelArray]
CHOOSING_SHARE = 5  # of data with a split of their own, one in five films (or clips) chooses


@dataclass(frozen=True, eq=False)
class Schedule:
    """For each pair of a training and a test task its splits, fold by fold.

    `groups` is the film (or other group) of each clip.
    """

    pairs: Mapping[tuple[str, str], Sequence[Split]]
    groups: NDArray[np.str_]

    def is_repeated(self, pair: tuple[str, str]) -> bool:
        """Whether some clip is tested by more than one fold of a cell."""
        tests = [split.test for split in self.pairs[pair]]
        return sum(map(len, tests)) > len(np.unique(np.concatenate(tests)))

    @property
    def sha256(self) -> str:
        """The hash over the row numbers of all splits."""
        rows = {
            f"{train} -> {test}": [
                [part.tolist() for part in (split.train, split.validation, split.test)]
                for split in splits
            ]
            for (train, test), splits in self.pairs.items()
        }
        return sha256_bytes(canonical_json(rows))


def schedule(protocol: Protocol, table: ClipTable, labels: Labels, usable: BoolArray) -> Schedule:
    """The splits of all pairs, within the clips that can be used (those that have features)."""
    groups = np.array(table.column(protocol.splits.group), dtype=np.str_)
    if protocol.splits.kind == "published":
        made = {p: _published(protocol, table, labels, usable, *p) for p in protocol.pairs}
        return Schedule(made, groups)
    shared = {
        train: _shared(
            protocol.splits,
            master_folds(protocol, table, labels[train], groups),
            labels[train],
            usable,
            groups,
        )
        for train in dict.fromkeys(train for train, _ in protocol.pairs)
    }
    pairs = {}
    for train, test in protocol.pairs:
        tested = usable & (labels[test] >= 0)
        pairs[train, test] = [
            _finish(split.keep(test=tested), protocol, table, labels[train], groups)
            for split in shared[train]
        ]
    return Schedule(pairs, groups)


def master_folds(
    protocol: Protocol, table: ClipTable, labels: LabelArray, groups: NDArray[np.str_]
) -> IntArray:
    """The one fold of each clip; -1 for clips outside the scheme.

    Folds are balanced by level, or without levels by the labels of the training task.
    """
    splits = protocol.splits
    levels = np.array(table.levels, dtype=np.str_)
    strata = levels if np.any(levels != "") else labels.astype(np.str_)
    if splits.kind == "fixed":
        return _fixed(splits, table, groups)
    if splits.kind == "kfold":
        return stratified_folds(strata, splits.folds, seed=splits.seed)
    unknown = sorted(set(splits.never) - set(groups.tolist()))
    if splits.kind == "leave_one_group_out" or not splits.folds:
        if len(unknown) == len(splits.never) and splits.never:
            raise FixInput(f"no clip is of {unknown[0]!r}, which is never to be tested")
        return folds_by_group(groups)
    return grouped_folds(groups, strata, splits.folds, seed=splits.seed)


def leaks(schedule: Schedule, pair: tuple[str, str], table: ClipTable) -> list[Leak]:
    """What each fold of a cell lets through."""
    return [split_leak(split, pair, table) for split in schedule.pairs[pair]]


def split_leak(
    split: Split, pair: tuple[str, str], table: ClipTable, found_on: IntArray | None = None
) -> Leak:
    """What one split lets through; `found_on` are the rows that concept vectors were found on."""
    ids, (train, test) = np.array(table.ids, dtype=np.str_), pair
    return count_leak(
        ids[split.train].tolist(),
        ids[split.validation].tolist(),
        ids[split.test].tolist(),
        concepts=() if found_on is None else ids[found_on].tolist(),
        places=table.places,
        cell=f"{train} -> {test}, {split.name}",
    )


def _published(
    protocol: Protocol, table: ClipTable, labels: Labels, usable: BoolArray, train: str, test: str
) -> list[Split]:
    folds, tested = (table.fold(protocol.tasks[name].folds) for name in (train, test))
    inside = usable & (labels[test] >= 0)
    if protocol.splits.quirk == "none":
        splits = _rotated(folds, labels[train], usable & (labels[train] >= 0), ())
    else:
        make = authors_splits if protocol.splits.quirk == "authors" else text_splits
        splits = make(folds, labels[train], usable)
    done = []
    for split in splits:
        rows = np.flatnonzero(inside & (tested == split.provenance["test_fold"]))
        origin = {**split.provenance, "tested_on": test}
        done.append(Split(split.name, split.train, split.validation, rows, origin))
    return done


def _shared(
    splits: Splits,
    master: IntArray,
    labels: LabelArray,
    usable: BoolArray,
    groups: NDArray[np.str_],
) -> list[Split]:
    """Splits of one training task whose test part still holds every clip of the test fold."""
    trains = usable & (labels >= 0)
    if splits.kind == "fixed":
        parts = [np.flatnonzero((master == part) & usable) for part in range(3)]
        return [Split("fixed", parts[0], parts[1], parts[2], {"kind": "fixed"}).keep(train=trains)]
    never = np.unique(master[np.isin(groups, splits.never)]).tolist()
    if splits.validation == "each":
        return [split.keep(train=trains) for split in movie_pairs(master, usable, never)]
    return _rotated(master, labels, trains, never, choosing=splits.validation == "next")


def _rotated(
    folds: IntArray,
    labels: LabelArray,
    trains: BoolArray,
    never: Sequence[int],
    *,
    choosing: bool = True,
) -> list[Split]:
    """Each fold tests once; the next fold that holds both classes chooses, the others train."""
    k = n_folds_of(folds)
    done = []
    for test in (fold for fold in range(k) if fold not in never):
        others = [(test + step) % k for step in range(1, k)]
        both = [fold for fold in others if len(np.unique(labels[trains & (folds == fold)])) == 2]
        chooses = both[0] if choosing and len(both) > 1 else OUTSIDE
        validation = trains & (folds == chooses) & (folds != OUTSIDE)
        train = trains & (folds != test) & ~validation & (folds != OUTSIDE)
        trained, chosen = np.flatnonzero(train), np.flatnonzero(validation)
        origin: Origin = {"kind": "rotated", "test_fold": test, "validation_fold": chooses}
        tested = np.flatnonzero(folds == test)
        done.append(Split(f"fold {test}", trained, chosen, tested, origin))
    return done


def _fixed(splits: Splits, table: ClipTable, groups: NDArray[np.str_]) -> IntArray:
    """0 trains, 1 chooses, 2 tests; without values for it, every fifth film chooses."""
    cells = np.array(table.column(splits.column), dtype=np.str_)
    unknown = sorted({*splits.test, *splits.choose} - set(cells.tolist()))
    if unknown:
        raise FixInput(
            f"no clip has {unknown[0]!r} in the column {splits.column}",
            where=table.name,
            hint=f"it holds {', '.join(sorted(set(cells.tolist()) - {''})[:8])}",
        )
    folds = np.where(cells == "", OUTSIDE, 0)
    folds[np.isin(cells, splits.test)] = 2
    if splits.choose:
        folds[np.isin(cells, splits.choose)] = 1
        return folds
    rows = np.flatnonzero(folds == 0)
    rng = np.random.default_rng(splits.seed)
    names = np.unique(groups[rows])
    if len(names) >= CHOOSING_SHARE:
        drawn = rng.permutation(names)[: len(names) // CHOOSING_SHARE]
        folds[rows[np.isin(groups[rows], drawn)]] = 1
    else:
        folds[rng.permutation(rows)[: len(rows) // CHOOSING_SHARE]] = 1
    return folds


def _finish(
    split: Split,
    protocol: Protocol,
    table: ClipTable,
    labels: LabelArray,
    groups: NDArray[np.str_],
) -> Split:
    """Open the gap and balance, as the protocol asks."""
    if protocol.splits.gap:
        if table.scenes is None:
            raise FixInput("a gap needs scenes, and this manifest has none", where=table.name)
        split = drop_near(split, groups, table.scenes, protocol.splits.gap)
    if protocol.balancing == "subsample":
        seed = [protocol.splits.seed, int(split.provenance.get("test_fold", 0))]
        kept = _subsample(split.train, labels, seed)
        split = Split(split.name, kept, split.validation, split.test, split.provenance)
    return split


def _subsample(rows: IntArray, labels: LabelArray, seed: Sequence[int]) -> IntArray:
    """All rows of the smaller class, as many of the other, drawn by seed."""
    rng = np.random.default_rng(seed)
    sides = [rows[labels[rows] == label] for label in (0, 1)]
    n = min(len(side) for side in sides)
    return np.concatenate([rng.permutation(side)[:n] for side in sides])
