"""Count the levels, concepts, films and folds of a manifest, and draw the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from obygaze_features.core.console import count, table
from obygaze_features.core.notebook import html_summary, short_repr
from obygaze_features.manifest.model import LEVELS, Clip, Manifest
from obygaze_features.manifest.vocabulary import film_facts

CLASS_COLUMNS = ("valence_class", "arousal_class", "violence")  # of LIRIS-ACCEDE


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

    def to_text(self) -> str:
        """Return the counts as tables for the terminal."""
        unit = self.unit
        levels = [
            (level, n, _percent(self.share[level]), self.concepts_per_clip.get(level))
            for level, n in self.levels.items()
        ]
        classes = [
            (column, name or "(none)", n)
            for column, counts in self.classes.items()
            for name, n in counts.items()
        ]
        movies = [_film_row(self, movie) for movie in self.by_movie]
        annotators = [
            f"{name}\n{_concept_table(own.concepts, own.levels)}"
            for name, own in self.by_annotator.items()
        ]
        folds = [_fold_row(name, list(each.values())) for name, each in self.folds.items() if each]
        parts = [
            f"{count(self.clips, unit)} of {count(self.movies, 'film')},"
            f" {self.without_video} without video",
            table(("level", "clips", "share", f"concepts a {unit}"), levels),
            _concept_table(self.concepts) if any(self.concepts.values()) else "",
            *annotators,
            table(("column", "class", f"{unit}s"), classes) if classes else "",
            table(("film", f"{unit}s", *LEVELS, "title", "year", "genres"), movies),
            table(("split", "folds", "clips", "share of S by fold"), folds) if folds else "",
        ]
        return "\n\n".join(part for part in parts if part)


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


def _concept_table(
    concepts: Mapping[str, Mapping[str, int]], levels: Mapping[str, int] | None = None
) -> str:
    """Return the concepts by level as a table, below all clips of each level if these are given."""
    names = sorted({name for counts in concepts.values() for name in counts})
    rows = [[name, *(concepts[level].get(name, 0) for level in LEVELS)] for name in names]
    first = [["all", *levels.values()]] if levels else []
    return table(("concept", *LEVELS), [*first, *rows])


def _film_row(counted: Stats, movie: str) -> list[Any]:
    n, facts = counted.by_movie[movie], counted.films.get(movie, {})
    genres = ", ".join(facts.get("genres", ()))
    return [movie, sum(n.values()), *n.values(), facts.get("title"), facts.get("year"), genres]


def _fold_row(name: str, folds: Sequence[FoldStats]) -> tuple[str, int, int, str]:
    shares = [fold.positive / fold.clips for fold in folds]
    n_clips = sum(fold.clips for fold in folds)
    return name, len(folds), n_clips, f"{min(shares):.3f} to {max(shares):.3f}"


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f} %"
