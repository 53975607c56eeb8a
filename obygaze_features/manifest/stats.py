"""Counts of a manifest: levels, concepts, films, folds, and what has no video."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from obygaze_features.manifest.model import LEVELS, Clip, Manifest


@dataclass(frozen=True)
class FoldStats:
    """One fold of one split: how many clips, how many of them positive (level S)."""

    clips: int
    positive: int
    clips_with_video: int
    positive_with_video: int

    def to_json(self) -> dict[str, Any]:
        """The counts with the two prevalences they amount to."""
        return {
            "clips": self.clips,
            "positive": self.positive,
            "prevalence": _ratio(self.positive, self.clips),
            "clips_with_video": self.clips_with_video,
            "prevalence_with_video": _ratio(self.positive_with_video, self.clips_with_video),
        }


@dataclass(frozen=True)
class Stats:
    """What a manifest holds, in numbers."""

    clips: int
    movies: int
    levels: Mapping[str, int]
    concepts: Mapping[str, Mapping[str, int]]
    concepts_per_clip: Mapping[str, float | None]
    by_movie: Mapping[str, Mapping[str, int]]
    without_level: int
    without_video: int
    folds: Mapping[str, Mapping[int, FoldStats]]
    unit: str = "clip"

    @property
    def share(self) -> dict[str, float | None]:
        """The share of each level among all clips."""
        return {level: _ratio(n, self.clips) for level, n in self.levels.items()}

    def to_json(self) -> dict[str, Any]:
        """The numbers as one JSON document."""
        return {
            "clips": self.clips,
            "movies": self.movies,
            "levels": dict(self.levels),
            "share": self.share,
            "concepts_per_clip": dict(self.concepts_per_clip),
            "concepts": {level: dict(counts) for level, counts in self.concepts.items()},
            "without_level": self.without_level,
            "without_video": self.without_video,
            "by_movie": {movie: dict(counts) for movie, counts in self.by_movie.items()},
            "folds": {
                name: {str(fold): stats.to_json() for fold, stats in folds.items()}
                for name, folds in self.folds.items()
            },
        }


def compute_stats(manifest: Manifest) -> Stats:
    """Count everything once."""
    levels = Counter(clip.level for clip in manifest)
    return Stats(
        clips=len(manifest),
        movies=len(manifest.movies),
        levels={level: levels[level] for level in LEVELS},
        concepts={level: _concept_counts(manifest, level) for level in LEVELS},
        concepts_per_clip={level: _concepts_per_clip(manifest, level) for level in LEVELS[1:]},
        by_movie=_level_counts(manifest),
        without_level=levels[""],
        without_video=sum(not clip.video for clip in manifest),
        folds={name: _fold_stats(manifest, name) for name in manifest.folds},
        unit=manifest.header.unit,
    )


def _concept_counts(manifest: Manifest, level: str) -> dict[str, int]:
    counts = Counter(name for clip in manifest if clip.level == level for name in clip.concepts)
    return {name: counts[name] for name in manifest.header.concepts if counts[name]}


def _concepts_per_clip(manifest: Manifest, level: str) -> float | None:
    sizes = [len(clip.concepts) for clip in manifest if clip.level == level]
    return _ratio(sum(sizes), len(sizes))


def _level_counts(manifest: Manifest) -> dict[str, dict[str, int]]:
    counts = Counter((clip.movie_id, clip.level) for clip in manifest)
    return {movie: {level: counts[movie, level] for level in LEVELS} for movie in manifest.movies}


def _fold_stats(manifest: Manifest, name: str) -> dict[int, FoldStats]:
    members: dict[int, list[Clip]] = {}
    for clip in manifest:
        fold = clip.fold(name)
        if fold is not None:
            members.setdefault(fold, []).append(clip)
    return {fold: _one_fold(members[fold]) for fold in sorted(members)}


def _one_fold(clips: Iterable[Clip]) -> FoldStats:
    rows = [(clip.level == "S", bool(clip.video)) for clip in clips]
    return FoldStats(
        clips=len(rows),
        positive=sum(positive for positive, _ in rows),
        clips_with_video=sum(video for _, video in rows),
        positive_with_video=sum(positive and video for positive, video in rows),
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
