"""The splits of every cell of a protocol, made from one fold for each clip.

The splits of a cell depend on its training task, its test task and the clips alone, never on the
other cells of a protocol. Training rows are the same for each test task, except where a gap
is kept around the test clips. Only `published` splits have a fold column for each task;
there a test clip of one task may be a training clip of another, and the leak is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from obygaze_models.protocols.paper_splits import movie_pairs, paper_splits
from obygaze_models.protocols.schema import Protocol
from obygaze_models.protocols.splits import BoolArray, Split, drop_near, n_folds_of
from obygaze_models.protocols.tasks import LabelArray

Labels = Mapping[str, LabelArray]
VALIDATION_SHARE = 5  # one in five films (or clips) validates where only the test clips are given


@dataclass(frozen=True, eq=False)
class Schedule:
    """The splits of each pair of a training and a test task, and the film or group of each clip."""

    pairs: Mapping[tuple[str, str], Sequence[Split]]
    groups: NDArray[np.str_]

    def is_repeated(self, pair: tuple[str, str]) -> bool:
        """Return whether some clip is tested by more than one fold of a cell."""
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
    """Return the splits of all pairs, within the usable clips (those that have features)."""
    groups = np.array(table.column(protocol.splits.group), dtype=np.str_)
    if protocol.splits.kind == "published":
        made = {p: _published(protocol, table, labels, usable, *p) for p in protocol.pairs}
        return Schedule(made, groups)
    shared = {
        train: _shared(protocol, table, labels[train], usable, groups)
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


def leaks(schedule: Schedule, pair: tuple[str, str], table: ClipTable) -> list[Leak]:
    """Return the leak of each fold of a cell."""
    return [split_leak(split, pair, table) for split in schedule.pairs[pair]]


def split_leak(
    split: Split, pair: tuple[str, str], table: ClipTable, found_on: IntArray | None = None
) -> Leak:
    """Return the leak of one split; `found_on` are the rows that concept vectors were found on."""
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
    inside, validates = usable & (labels[test] >= 0), protocol.splits.validation != "none"
    if protocol.splits.follow_paper:
        balanced = protocol.balancing == "rotated"
        splits = paper_splits(
            *(protocol.splits.quirk, folds, labels[train], usable),
            balanced=balanced,
            validates=validates,
        )
    else:
        trains = usable & (labels[train] >= 0)
        splits = _rotated(folds, labels[train], trains, (), validates=validates)
    return [
        replace(
            split,
            test=np.flatnonzero(inside & (tested == split.provenance["test_fold"])),
            provenance={**split.provenance, "tested_on": test},
        )
        for split in splits
    ]


def _shared(
    protocol: Protocol,
    table: ClipTable,
    labels: LabelArray,
    usable: BoolArray,
    groups: NDArray[np.str_],
) -> list[Split]:
    """Return the splits of a training task; their test rows are all clips of the test fold."""
    splits, trains = protocol.splits, usable & (labels >= 0)
    folds = _folds(protocol, table, labels, groups)
    if splits.kind == "fixed":
        train, validation, test = (np.flatnonzero((folds == part) & usable) for part in range(3))
        return [Split("fixed", train, validation, test, {"kind": "fixed"}).keep(train=trains)]
    never = np.unique(folds[np.isin(groups, splits.never)]).tolist()
    if splits.validation == "each":
        return [split.keep(train=trains) for split in movie_pairs(folds, usable, never)]
    return _rotated(folds, labels, trains, never, validates=splits.validation == "next")


def _folds(
    protocol: Protocol, table: ClipTable, labels: LabelArray, groups: NDArray[np.str_]
) -> IntArray:
    """Return the fold of each clip; -1 for clips outside of all folds.

    Folds are balanced by annotation level, or without levels by the labels of the training task.
    """
    splits = protocol.splits
    levels = np.array(table.levels, dtype=np.str_)
    strata = levels if np.any(levels != "") else labels.astype(np.str_)
    if splits.kind == "fixed":
        return _fixed(protocol, table, groups)
    if splits.kind == "kfold":
        return stratified_folds(strata, splits.folds, seed=splits.seed)
    if splits.kind == "leave_one_group_out" or not splits.folds:
        if splits.never and not set(splits.never) & set(groups.tolist()):
            raise FixInput(
                f"splits.never: no clip has the {splits.group} {min(splits.never)!r}",
                where=table.name,
            )
        return folds_by_group(groups)
    return grouped_folds(groups, strata, splits.folds, seed=splits.seed)


def _rotated(
    folds: IntArray,
    labels: LabelArray,
    trains: BoolArray,
    never: Sequence[int],
    *,
    validates: bool = True,
) -> list[Split]:
    """Let each fold test once; the next fold that has both classes validates, the others train."""
    k = n_folds_of(folds)
    splits = []
    for test in (fold for fold in range(k) if fold not in never):
        others = [(test + step) % k for step in range(1, k)]
        both = [fold for fold in others if len(np.unique(labels[trains & (folds == fold)])) == 2]
        chosen = both[0] if validates and len(both) > 1 else OUTSIDE
        inside = trains & (folds != test) & (folds != OUTSIDE)
        splits.append(
            Split(
                f"fold {test}",
                np.flatnonzero(inside & (folds != chosen)),
                np.flatnonzero(inside & (folds == chosen)),
                np.flatnonzero(folds == test),
                {"kind": "rotated", "test_fold": test, "validation_fold": chosen},
            )
        )
    return splits


def _fixed(protocol: Protocol, table: ClipTable, groups: NDArray[np.str_]) -> IntArray:
    """Return 0 for training, 1 for validation, 2 for test clips, by a column of the manifest.

    Without values for validation, every fifth film validates.
    """
    splits = protocol.splits
    cells = np.array(table.column(splits.column), dtype=np.str_)
    known = sorted(set(cells.tolist()))
    if unknown := sorted({*splits.test, *splits.choose} - set(known)):
        raise FixInput(
            f"no clip has {unknown[0]!r} in the column {splits.column}",
            where=table.name,
            hint=f"its values are {', '.join([name for name in known if name][:8])}",
        )
    folds = np.where(cells == "", OUTSIDE, 0)
    folds[np.isin(cells, splits.test)] = 2
    if splits.choose:
        folds[np.isin(cells, splits.choose)] = 1
        return folds
    rows = np.flatnonzero(folds == 0)
    rng = np.random.default_rng(splits.seed)
    names = np.unique(groups[rows])
    if len(names) >= VALIDATION_SHARE:
        drawn = rng.permutation(names)[: len(names) // VALIDATION_SHARE]
        folds[rows[np.isin(groups[rows], drawn)]] = 1
    else:
        folds[rng.permutation(rows)[: len(rows) // VALIDATION_SHARE]] = 1
    return folds


def _finish(
    split: Split,
    protocol: Protocol,
    table: ClipTable,
    labels: LabelArray,
    groups: NDArray[np.str_],
) -> Split:
    """Return the split with the gap and the balanced training rows of the protocol."""
    if protocol.splits.gap:
        if table.scenes is None:
            raise FixInput("splits.gap needs scenes or start times of all clips", where=table.name)
        split = drop_near(split, groups, table.scenes, protocol.splits.gap)
    if protocol.balancing == "subsample":
        seed = [protocol.splits.seed, int(split.provenance.get("test_fold", 0))]
        split = replace(split, train=_subsample(split.train, labels, seed))
    return split


def _subsample(rows: IntArray, labels: LabelArray, seed: Sequence[int]) -> IntArray:
    """Return all rows of the smaller class, and as many of the other, drawn by seed."""
    rng = np.random.default_rng(seed)
    sides = [rows[labels[rows] == label] for label in (0, 1)]
    n = min(len(side) for side in sides)
    return np.concatenate([rng.permutation(side)[:n] for side in sides])
