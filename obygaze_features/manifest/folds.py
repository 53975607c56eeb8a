"""Splits as data: one master fold for each clip, from which every task takes its share.

Because a clip has one fold whatever the task, a clip that one task trains on is never a clip
that another tests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from random import Random

from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.dealing import (
    IntArray,
    folds_by_group,
    grouped_folds,
    stratified_folds,
)
from obygaze_features.manifest.model import Clip, Manifest, sort_key

Folds = dict[str, int]


def stratified(manifest: Manifest, k: int, seed: int = 0) -> Folds:
    """Folds of equal size, in which each level is shared out evenly."""
    _check_k(k, len(manifest), "clips")
    return _by_id(manifest, stratified_folds(_levels(manifest), k, seed=seed))


def grouped(manifest: Manifest, k: int, seed: int = 0) -> Folds:
    """Folds of whole films, as even in every level as whole films allow."""
    _check_k(k, len(manifest.movies), "films")
    films = [clip.movie_id for clip in manifest]
    return _by_id(manifest, grouped_folds(films, _levels(manifest), k, seed=seed))


def leave_one_movie_out(manifest: Manifest) -> Folds:
    """One fold a film, in the order of their ids."""
    _check_k(2, len(manifest.movies), "films")
    return _by_id(manifest, folds_by_group([clip.movie_id for clip in manifest]))


def neighbour_blocks(
    manifest: Manifest, k: int, seed: int = 0, *, block: int = 10, gap: int = 1
) -> Folds:
    """Folds of runs of neighbouring clips; within `gap` clips of another fold a clip has none.

    Neighbouring clips share their annotation, so a border without a gap leaks.
    """
    if block < 1 or gap < 0:
        raise FixUsage(
            "a block holds at least one clip, and a gap is not negative", hint="--block 10 --gap 1"
        )
    runs = [
        clips[start : start + block]
        for clips in _films(manifest)
        for start in range(0, len(clips), block)
    ]
    _check_k(k, len(runs), f"blocks of {block}")
    order = list(range(len(runs)))
    Random(seed).shuffle(order)
    folds = {clip.clip_id: position % k for position, run in enumerate(order) for clip in runs[run]}
    kept = _without_borders(manifest, folds, gap)
    empty = sorted(set(range(k)) - set(kept.values()))
    if empty:
        raise FixUsage(
            f"a gap of {gap} between blocks of {block} leaves {len(empty)} of {k} folds empty",
            hint="a smaller --gap, or a larger --block",
        )
    return kept


def _without_borders(manifest: Manifest, folds: Folds, gap: int) -> Folds:
    kept = Folds()
    for clips in _films(manifest):
        numbers = [folds[clip.clip_id] for clip in clips]
        for i, clip in enumerate(clips):
            if set(numbers[max(0, i - gap) : i + gap + 1]) == {numbers[i]}:
                kept[clip.clip_id] = numbers[i]
    return kept


def _films(manifest: Manifest) -> Iterable[list[Clip]]:
    for _, clips in groupby(sorted(manifest, key=sort_key), key=lambda clip: clip.movie_id):
        yield list(clips)


def _levels(manifest: Manifest) -> list[str]:
    return [clip.level for clip in manifest]


def _by_id(manifest: Manifest, folds: IntArray) -> Folds:
    return dict(zip(manifest.clip_ids, folds.tolist(), strict=True))


def _check_k(k: int, available: int, what: str) -> None:
    if not 2 <= k <= available:
        raise FixUsage(f"{k} folds cannot be made of {available} {what}", hint="another -k")


KINDS: dict[str, Callable[..., Folds]] = {
    "stratified": stratified,
    "grouped": grouped,
    "neighbour": neighbour_blocks,
    "leave-one-movie-out": leave_one_movie_out,
}
