"""Count the levels, concepts, films and folds of a manifest, and draw the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from obygaze_features.core.console import count
from obygaze_features.core.figures import (
    LEVEL_COLORS,
    LEVEL_NAMES,
    MUTED,
    canvas,
    draw_grid,
    label_rows,
    save,
    spread_dots,
)
from obygaze_features.core.notebook import html_summary, short_repr
from obygaze_features.manifest.model import LEVELS, Clip, Manifest
from obygaze_features.manifest.vocabulary import film_facts

CLASS_COLUMNS = ("valence_class", "arousal_class", "violence")  # of LIRIS-ACCEDE
DOT, STEP = 0.018, 0.24  # the size of a dot across (of all shares), and along the rows


@dataclass(frozen=True)
class FoldStats:
    """The clips of one fold, and how many of them are positive (level S)."""

    clips: int
    positive: int
    prevalence: float | None
    clips_with_video: int
    prevalence_with_video: float | None


@dataclass(frozen=True)
class LevelStats:
    """The levels that one annotator gave, and the concepts of each level."""

    levels: Mapping[str, int]
    concepts: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, repr=False)
class Stats:
    """The counts of a manifest. `share` is the share of each level among all clips.

    `films` has title, year and genres of the films that are known; `by_annotator` is empty unless
    the manifest has a column `annotator`, `classes` unless it has those of LIRIS-ACCEDE.
    """

    clips: int
    movies: int
    levels: Mapping[str, int]
    share: Mapping[str, float | None]
    concepts_per_clip: Mapping[str, float | None]
    concepts: Mapping[str, Mapping[str, int]]
    without_level: int
    without_video: int
    by_movie: Mapping[str, Mapping[str, int]]
    folds: Mapping[str, Mapping[int, FoldStats]]
    films: Mapping[str, Mapping[str, Any]]
    by_annotator: Mapping[str, LevelStats]
    classes: Mapping[str, Mapping[str, int]]
    unit: str = "clip"

    def __repr__(self) -> str:
        return short_repr("Stats", *self._facts().values())

    def _repr_html_(self) -> str:
        return html_summary("Counts of a manifest", self._facts())

    def _facts(self) -> dict[str, str]:
        levels = ", ".join(f"{n} {level}" for level, n in self.levels.items() if n)
        size = f"{count(self.clips, self.unit)} of {count(self.movies, 'film')}"
        return {"size": size, "levels": levels, "without video": f"{self.without_video} no video"}

    def to_json(self) -> dict[str, Any]:
        """Return the counts as one JSON document."""
        document = asdict(self)
        del document["unit"]
        return document


def compute_stats(manifest: Manifest) -> Stats:
    """Count the levels, concepts, films and folds of a manifest.

    Args:
        manifest: The manifest, in the view that is to be counted.
    """
    levels = Counter(clip.level for clip in manifest)
    by_movie = Counter((clip.movie_id, clip.level) for clip in manifest)
    return Stats(
        clips=len(manifest),
        movies=len(manifest.movies),
        levels={level: levels[level] for level in LEVELS},
        share={level: _ratio(levels[level], len(manifest)) for level in LEVELS},
        concepts_per_clip={level: _concepts_per_clip(manifest, level) for level in LEVELS[1:]},
        concepts=_concept_counts(manifest),
        without_level=levels[""],
        without_video=sum(not clip.video for clip in manifest),
        by_movie={
            movie: {level: by_movie[movie, level] for level in LEVELS} for movie in manifest.movies
        },
        folds={name: _folds(manifest, name) for name in manifest.folds},
        films={movie: facts for movie, facts in _film_facts(manifest).items() if facts},
        by_annotator=_by_annotator(manifest),
        classes={
            column: dict(sorted(Counter(clip.extra[column] for clip in manifest).items()))
            for column in CLASS_COLUMNS
            if column in manifest.columns
        },
        unit=manifest.header.unit,
    )


def _film_facts(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Return what is known of each film, with the titles of the column `movie_title`."""
    known = {movie: film_facts(movie) for movie in manifest.movies}
    for clip in manifest:
        if title := clip.extra.get("movie_title"):
            known[clip.movie_id].setdefault("title", title)
    return known


def _by_annotator(manifest: Manifest) -> dict[str, LevelStats]:
    found: dict[str, list[Clip]] = {}
    for clip in manifest:
        if name := clip.extra.get("annotator", ""):
            found.setdefault(name, []).append(clip)
    counted = {}
    for name in sorted(found):
        own = replace(manifest, clips=tuple(found[name]))
        levels = Counter(clip.level for clip in own)
        counted[name] = LevelStats({level: levels[level] for level in LEVELS}, _concept_counts(own))
    return counted


def _concept_counts(manifest: Manifest) -> dict[str, dict[str, int]]:
    """Return how many clips of each level have each concept."""
    counts = Counter((clip.level, name) for clip in manifest for name in clip.concepts)
    return {
        level: {name: n for name in manifest.header.concepts if (n := counts[level, name])}
        for level in LEVELS
    }


def _concepts_per_clip(manifest: Manifest, level: str) -> float | None:
    sizes = [len(clip.concepts) for clip in manifest if clip.level == level]
    return _ratio(sum(sizes), len(sizes))


def _folds(manifest: Manifest, name: str) -> dict[int, FoldStats]:
    members: dict[int, list[Clip]] = {}
    for clip in manifest:
        fold = clip.fold(name)
        if fold is not None:
            members.setdefault(fold, []).append(clip)
    return {fold: _fold_stats(members[fold]) for fold in sorted(members)}


def _fold_stats(clips: Sequence[Clip]) -> FoldStats:
    positive = [clip.level == "S" for clip in clips]
    with_video = [clip.level == "S" for clip in clips if clip.video]
    return FoldStats(
        clips=len(clips),
        positive=sum(positive),
        prevalence=_ratio(sum(positive), len(clips)),
        clips_with_video=len(with_video),
        prevalence_with_video=_ratio(sum(with_video), len(with_video)),
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def draw_stats(stats: Stats, stem: Path, title: str, *, force: bool = True) -> tuple[Path, Path]:
    """Draw the shares of the levels, and the concepts of each level, as Figure 2 of the paper."""
    names = _concepts(stats)
    height = 1.9 + 0.42 * max(len(names), 3)
    with canvas(7.2, height, nrows=2, height_ratios=[1, max(len(names), 3)]) as (figure, axes):
        figure.suptitle(title, x=0.01, ha="left", weight="bold")
        _draw_levels(axes[0], stats)
        _draw_concepts(axes[1], stats, names)
        return save(figure, stem, force=force)


def _concepts(stats: Stats) -> list[str]:
    seen = {name: None for level in LEVELS for name in stats.concepts[level]}
    total = {name: sum(stats.concepts[level].get(name, 0) for level in LEVELS) for name in seen}
    return sorted(seen, key=lambda name: total[name])


def _draw_levels(axes: Any, stats: Stats) -> None:
    left = 0
    for level in LEVELS:
        count = stats.levels[level]
        axes.barh(0, count, left=left, color=LEVEL_COLORS[level], height=0.7)
        if count > 0.04 * stats.clips:
            color = "white" if level == "S" else "black"
            text = f"{level}\n{count} ({100 * count / stats.clips:.1f} %)"
            axes.text(left + count / 2, 0, text, ha="center", va="center", color=color, fontsize=8)
        left += count
    axes.set_title(f"{stats.clips} {stats.unit}s of {stats.movies} films")
    axes.set_xlim(0, max(left, 1))
    axes.axis("off")


def _draw_concepts(axes: Any, stats: Stats, names: list[str]) -> None:
    """Draw one row a concept with a dot a level: the share of its clips with the concept."""
    levels = [level for level in LEVELS if stats.concepts[level]]
    found = [[_share(stats, level, name) for level in levels] for name in names]
    widest = max((share for shares in found for share in shares), default=1.0)
    for row, shares in enumerate(found):
        axes.plot([min(shares), max(shares)], [row, row], color="#e4e3df", lw=3, zorder=1)
        moved = spread_dots(shares, DOT * widest)
        for level, share, step in zip(levels, shares, moved, strict=True):
            dot = axes.scatter(share, row + STEP * step, s=46, color=LEVEL_COLORS[level])
            dot.set(edgecolor="white", zorder=2, clip_on=False)
    for level in levels:
        mean = stats.concepts_per_clip.get(level)
        note = "" if mean is None else f", {mean:.2f} concepts a {stats.unit}"
        label = f"{level} {LEVEL_NAMES[level]}{note}"
        axes.scatter([], [], s=46, color=LEVEL_COLORS[level], label=label)
    label_rows(axes, names, upwards=True)
    axes.set_xlim(left=0)
    draw_grid(axes)
    axes.set_xlabel(f"% of the level's {stats.unit}s with the concept", color=MUTED)
    axes.set_title("Concepts over levels")
    if levels:
        place = {"loc": "upper center", "bbox_to_anchor": (0.4, -0.13)}
        axes.legend(**place, ncols=3, fontsize=7.5, handletextpad=0.2)
    else:
        axes.text(0.5, 0, "no clip has a concept", ha="center", color=MUTED)


def _share(stats: Stats, level: str, name: str) -> float:
    return 100 * stats.concepts[level].get(name, 0) / max(stats.levels[level], 1)
