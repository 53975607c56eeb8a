"""The splits of a training task, from one fold number per clip.

Splits depend on the training task and the clips only, not on other cells of a protocol. Only
`published` splits have a fold column per task. In published splits, a test clip of one task may be
a training clip of a different task; such leaks are counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, near
from obygaze_features.core.shell import shell_word
from obygaze_features.manifest.expression import quote_word, typed_value
from obygaze_features.manifest.folds import (
    IntArray,
    folds_by_group,
    grouped_folds,
    stratified_folds,
)
from obygaze_features.manifest.model import FILM_COLUMN
from obygaze_models.evaluation.predictions import BoolArray
from obygaze_models.protocols.clips import LabelArray, TaskClips
from obygaze_models.protocols.paper_splits import SHIPPED_SCHEMES
from obygaze_models.protocols.schema import Protocol, Splits
from obygaze_models.protocols.splits import Split, film_pairs, rotate_folds

Labels = Mapping[str, LabelArray]
# One in five films (or clips) validates if only the test clips are given.
VALIDATION_SHARE = 5
MOST_SPLITS = 100_000
# Why a fold has no test, for all models.
NOT_TESTED = "no clip of this task is tested"
WITHOUT_FEATURES = f"{NOT_TESTED}: none has features"
# What to do where folds of films are not enough.
LEAVES_OUT_GROUPS = (
    "to hold out whole groups of films, such as all films of a director, use --set"
    " splits.kind=nested --set splits.column=director, with the column of your groups"
)
WITHOUT_FILMS = (
    "use --set splits.kind=kfold --set splits.folds=10 to divide clips, or --set"
    " splits.column=COLUMN with a column of groups, such as the participant of each clip"
)
# Reports name a group by its column; these names have a different meaning there.
OWN_WORDS = ("film", "clip", "row")


def splits_of_task(
    protocol: Protocol, table: TaskClips, labels: Labels, usable: BoolArray, train: str
) -> Sequence[Split]:
    """Return the splits of a training task; test rows are all clips of the test fold."""
    clips = _Clips(protocol, table, labels, usable)
    return SPLIT_KINDS[protocol.splits.kind].split(clips, train)


class _Clips(NamedTuple):
    """The input of splits."""

    protocol: Protocol
    table: TaskClips
    labels: Labels
    usable: BoolArray


def _published(clips: _Clips, train: str) -> Sequence[Split]:
    """Return the splits by the fold column of a task, or by a published scheme."""
    protocol, table, all_labels, usable = clips
    splits = protocol.splits
    labels = all_labels[train]
    folds = table.fold(protocol.tasks[train].folds)
    validates = splits.validation != "none"
    if splits.follow_scheme:
        scheme = SHIPPED_SCHEMES[splits.scheme]
        balanced = protocol.balancing == "rotated"
        return scheme(folds, labels, usable, balanced=balanced, validates=validates)
    return rotate_folds(folds, labels, usable & (labels >= 0), validates=validates)


def _drawn(clips: _Clips, train: str) -> Sequence[Split]:
    """Return the splits in which each fold of films or clips is tested in turn."""
    return _in_turn(clips, train, _drawn_folds(clips, train))


def _drawn_folds(clips: _Clips, train: str) -> IntArray:
    """Return the fold of each clip: its film or group if `folds` is 0, else a random fold."""
    splits = clips.protocol.splits
    groups = clips.table.groups
    tested = ~_never_tested(clips)
    by_clip = SPLIT_KINDS[splits.kind].by_clip
    unit = unit_name(splits.kind, splits.column)
    if not splits.folds:
        return folds_by_group(groups, unit)
    levels = clips.table.levels
    strata = levels if np.any(levels != "") else clips.labels[train].astype(np.str_)
    # Films that are never tested form a further fold.
    folds = np.full(len(groups), splits.folds, dtype=np.intp)
    if by_clip:
        drawn = stratified_folds(strata[tested], splits.folds, seed=splits.seed)
    else:
        of_groups = groups[tested], strata[tested]
        drawn = grouped_folds(*of_groups, splits.folds, seed=splits.seed, unit=unit)
    folds[tested] = drawn
    return folds


def _in_turn(clips: _Clips, train: str, folds: IntArray) -> Sequence[Split]:
    """Return the splits in which each fold, or pair of folds, tests and validates in turn."""
    _check_size(clips, folds)
    never = np.unique(folds[_never_tested(clips)]).tolist()
    validation = clips.protocol.splits.validation
    labels = clips.labels[train]
    trains = clips.usable & (labels >= 0)
    if validation == "each":
        return film_pairs(folds, clips.usable, never, trains)
    validates = validation == "next"
    return rotate_folds(folds, labels, trains, never, validates=validates)


def without_validation(
    protocol: Protocol, table: TaskClips, labels: Labels, usable: BoolArray, train: str
) -> list[str]:
    """Return the films that cannot validate a fit of a task, if validation = "each"."""
    splits = protocol.splits
    if splits.validation != "each":
        return []
    clips = _Clips(protocol, table, labels, usable)
    folds = _drawn_folds(clips, train)
    validating = folds[usable & (labels[train] >= 0)]
    lacking = ~np.isin(folds, validating) & ~_never_tested(clips)
    films: list[str] = np.unique(table.groups[lacking]).tolist()
    return films


def _check_size(clips: _Clips, folds: IntArray) -> None:
    """Raise an error if there are too many splits to fit."""
    n_splits = len(np.unique(folds))
    if clips.protocol.splits.validation == "each":
        n_splits *= n_splits - 1
    if n_splits > MOST_SPLITS:
        raise FixInput(
            f"expected at most {MOST_SPLITS:,} splits, got {n_splits:,}; each model is fitted in"
            " each split",
            where=clips.table.name,
            hint="use --set splits.folds=10 (ten groups of films), or fewer clips (data.where)",
        )


def _never_tested(clips: _Clips) -> BoolArray:
    """Return whether each clip is in a group that is never tested; refuse unknown groups."""
    splits = clips.protocol.splits
    table = clips.table
    column = table.group_column
    # Names are looked up in all clips of the manifest, because data.where may have removed a group.
    every_clip = table.of_manifest or table.clips
    words = {word for clip in every_clip for word in clip.values(column)}
    asked = [typed_value(name, column, lambda: words) for name in splits.never]
    never = np.isin(
        table.groups, [table.group_of_file.get(name, name) for name in asked]
    )
    known = dict.fromkeys("|".join(clip.values(column)) for clip in every_clip)
    unknown = [name for name in asked if name not in known]
    if unknown:
        meant = near(unknown[0], known)
        raise FixInput(
            f"splits.never: no clip has the {column} {unknown[0]!r}{meant}",
            where=table.name,
        )
    if never.all():
        message = f"splits.never names every {column}, so no clip would be tested"
        raise FixInput(message, where=table.name)
    return never


def _fixed(clips: _Clips, train: str) -> Sequence[Split]:
    """Return the single split that a column of the manifest defines."""
    splits = clips.protocol.splits
    folds = _parts_of_column(splits, clips.table)
    rows = [np.flatnonzero((folds == part) & clips.usable) for part in range(3)]
    return [Split("fixed", rows[0], rows[1], rows[2])]


def _parts_of_column(splits: Splits, table: TaskClips) -> IntArray:
    """Return 0 for training, 1 for validation, 2 for test clips, by a column of the manifest.

    One in five of the training films validates, or one in five clips if there are fewer than five
    films. With validation = "none", no clip validates.
    """
    cells = table.column(splits.column)
    n_empty = int(np.sum(cells == ""))
    if n_empty:
        where = f"data.where={quote_word(splits.column)}"
        raise FixInput(
            f"{n_empty} of {count(len(table), 'clip')} have no value in the column {splits.column},"
            " but the splits need one",
            where=table.name,
            hint=f"exclude these clips with --set {shell_word(where)}",
        )
    column_values = sorted(set(cells.tolist()))
    test = []
    for value in splits.test:
        test.append(typed_value(value, splits.column, lambda: column_values))
    unknown = sorted(set(test) - set(column_values))
    if unknown:
        raise FixInput(
            f"no clip has {unknown[0]!r} in the column {splits.column}",
            where=table.name,
            hint=f"use values of this column: {', '.join(column_values[:8])}",
        )
    folds = np.where(np.isin(cells, test), 2, 0)
    if splits.validation == "none":
        return folds
    rows = np.flatnonzero(folds == 0)
    rng = np.random.default_rng(splits.seed)
    units: NDArray[Any] = table.films[rows]
    if len(np.unique(units)) < VALIDATION_SHARE:
        units = rows
    names = np.unique(units)
    drawn = rng.permutation(names)[: len(names) // VALIDATION_SHARE]
    folds[rows[np.isin(units, drawn)]] = 1
    return folds


@dataclass(frozen=True)
class SplitKind:
    """A type of splits and its properties.

    Attributes:
        split: A function that returns the splits of a training task.
        keys: The keys of `[splits]` that it reads; other keys are refused.
        pairs: Whether `validation = "each"` is defined, which uses each pair of folds.
        needs: The keys that must have a value.
        by_clip: Whether it divides films, so that only clips are held out.
        by_task: Whether each task has its own folds, in a column of the manifest.
        by_film: Whether whole films are held out: each film is a fold if `folds` is 0, and `column`
            defines groups of films that are held out instead.
    """

    split: Callable[[_Clips, str], Sequence[Split]]
    keys: tuple[str, ...]
    pairs: bool
    needs: tuple[str, ...] = ()
    by_clip: bool = False
    by_task: bool = False
    by_film: bool = False


_OF_COLUMN = ("column", "test")
_OF_FOLDS = ("folds", "never")
SPLIT_KINDS = {
    "published": SplitKind(_published, ("scheme",), pairs=False, by_task=True),
    "kfold": SplitKind(_drawn, _OF_FOLDS, pairs=True, needs=("folds",), by_clip=True),
    "nested": SplitKind(_drawn, (*_OF_FOLDS, "column"), pairs=True, by_film=True),
    "fixed": SplitKind(_fixed, _OF_COLUMN, pairs=False, needs=("column", "test")),
}
# Keys of `[splits]` that all types read.
KEYS_OF_ALL = ("kind", "validation", "seed")


def group_column(kind: str, column: str) -> str:
    """Return the column of the groups that splits hold out: films or groups of films."""
    return column if column and SPLIT_KINDS[kind].by_film else FILM_COLUMN


def unit_name(kind: str, column: str) -> str:
    """Return the name of what splits hold out: `film`, or a group of a column."""
    found = group_column(kind, column)
    return "film" if found == FILM_COLUMN else f"group of `{found}`"


def with_groups(table: TaskClips, splits: Splits) -> TaskClips:
    """Return the table with the groups of `splits.column`, if the column is set.

    A group contains whole films, or clips if the manifest has no films. A clip without a group is
    refused, because it may belong to any group. Splits by film of a manifest without films are
    refused.
    """
    column = group_column(splits.kind, splits.column)
    if column == FILM_COLUMN:
        if SPLIT_KINDS[splits.kind].by_film and not table.has_films:
            raise FixInput(
                f"{splits.kind} splits hold out whole films, but this manifest has no films",
                where=table.name,
                hint=WITHOUT_FILMS,
            )
        return table
    if column.casefold() in OWN_WORDS:
        raise FixInput(
            f"splits.column cannot be a column with the name {column}: in reports, a"
            f" {column.casefold()} is not a group",
            where=table.name,
            hint="rename the column in the table, and import the table again",
        )
    table = replace(table, group_column=column)
    unit = "film" if table.has_films else "clip"
    wholes = table.films.tolist() if table.has_films else table.ids
    groups_of_whole: dict[str, set[str]] = {}
    for whole, group in zip(wholes, table.groups.tolist(), strict=True):
        groups_of_whole.setdefault(whole, set()).add(group)
    for whole, groups in groups_of_whole.items():
        problem = ""
        if groups == {""}:
            problem = f"no value in the column {column}, so its group is unknown"
        elif len(groups) > 1 or "|" in "".join(groups):
            named = few([*map(repr, sorted(groups))], 3)
            problem = f"{named} in the column {column}, but splits.column needs one group for each"
            problem += f" {unit}"
        if problem:
            hint = f"obygaze manifest join --force, with one {column} for each {unit}"
            if "" in groups:
                where = shell_word(f"data.where={quote_word(column)}")
                hint += f"; or exclude clips without a value with --set {where}"
            raise FixInput(
                f"the {unit} {whole!r} has {problem}", where=table.name, hint=hint
            )
    return table
