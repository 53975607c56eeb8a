"""Splits as data: one master fold for each clip, from which every task takes its share.

Because a clip has one fold whatever the task, a clip that one task trains on is never a clip
that another tests on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.model import Clip, Manifest, sort_key

Folds = dict[str, int]


def stratified(manifest: Manifest, k: int, seed: int = 0) -> Folds:
    """Folds of equal size, in which each level is shared out evenly."""
    _check_k(k, len(manifest), "clips")
    random, folds, dealt = Random(seed), Folds(), 0
    for level in sorted({clip.level for clip in manifest}):
        ids = sorted(clip.clip_id for clip in manifest if clip.level == level)
        random.shuffle(ids)
        # Dealing goes on where the last level stopped, so that whole folds differ by one at most.
        for position, clip_id in enumerate(ids, start=dealt):
            folds[clip_id] = position % k
        dealt += len(ids)
    return folds


def grouped(manifest: Manifest, k: int, seed: int = 0) -> Folds:
    """Folds of whole films, as even in every level as whole films allow."""
    _check_k(k, len(manifest.movies), "films")
    counts = {
        movie: Counter(clip.level for clip in manifest if clip.movie_id == movie)
        for movie in manifest.movies
    }
    movies = list(manifest.movies)
    Random(seed).shuffle(movies)
    movies.sort(key=lambda movie: -counts[movie].total())
    total = sum(counts.values(), Counter[str]())
    filled = [Counter[str]() for _ in range(k)]
    of_movie = {}
    for movie in movies:
        fold = min(range(k), key=lambda f: (_unevenness(filled, f, counts[movie], total), f))
        filled[fold] += counts[movie]
        of_movie[movie] = fold
    return {clip.clip_id: of_movie[clip.movie_id] for clip in manifest}


def leave_one_movie_out(manifest: Manifest) -> Folds:
    """One fold a film, in the order of their ids."""
    number = {movie: fold for fold, movie in enumerate(manifest.movies)}
    return {clip.clip_id: number[clip.movie_id] for clip in manifest}


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
    for movie in manifest.movies:
        yield sorted((clip for clip in manifest if clip.movie_id == movie), key=sort_key)


def _unevenness(
    filled: list[Counter[str]], fold: int, more: Counter[str], total: Counter[str]
) -> float:
    """How far the folds would be from equal shares of every level if `fold` took `more`."""
    share = 1 / len(filled)
    return sum(
        ((counts[level] + (more[level] if i == fold else 0)) / total[level] - share) ** 2
        for i, counts in enumerate(filled)
        for level in total
    )


def _check_k(k: int, available: int, what: str) -> None:
    if not 2 <= k <= available:
        raise FixUsage(f"{k} folds cannot be made of {available} {what}", hint="another -k")


KINDS: dict[str, Callable[..., Folds]] = {
    "stratified": stratified,
    "grouped": grouped,
    "neighbour": neighbour_blocks,
    "leave-one-movie-out": leave_one_movie_out,
}
