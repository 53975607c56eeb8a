"""Count the levels, concepts, films and folds of a manifest, and draw the counts."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from obygaze_features.core.console import count, table
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.outside import safe_text
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


@dataclass(frozen=True, repr=False)
class Stats:
    """The counts of a manifest. `share` is the share of each level among all clips.

    `films` has title, year and genres of the films that are known; `by_annotator` the levels and
    concepts of each annotator, empty unless the manifest has a column `annotator`; `classes` are
    those of LIRIS-ACCEDE.
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
    clips_by_movie: Mapping[str, int]
    folds: Mapping[str, Mapping[int, FoldStats]]
    films: Mapping[str, Mapping[str, Any]]
    by_annotator: Mapping[str, Mapping[str, Any]]
    classes: Mapping[str, Mapping[str, int]]
    unit: str = "clip"

    def __repr__(self) -> str:
        levels = ", ".join(f"{n} {level}" for level, n in self.levels.items() if n)
        size = f"{count(self.clips, self.unit)} of {count(self.movies, 'film')}"
        return short_repr("Stats", size, levels, f"{self.without_video} no video")

    def to_json(self) -> dict[str, Any]:
        """Return the counts as one JSON document."""
        document = asdict(self)
        del document["unit"]
        return document

    def to_text(self) -> str:
        """Return the counts as tables for the terminal."""
        unit = self.unit
        mean = self.concepts_per_clip
        levels = [
            (
                level,
                n,
                f"{100 * (n / self.clips):.1f} %" if self.clips else None,
                mean.get(level),
            )
            for level, n in self.levels.items()
        ]
        classes = [
            (column, name or "(none)", n)
            for column, counts in self.classes.items()
            for name, n in counts.items()
        ]
        films = []
        for movie, counts in self.by_movie.items():
            facts = {
                "title": None,
                "year": None,
                "genres": (),
                **self.films.get(movie, {}),
            }
            facts["genres"] = ", ".join(facts["genres"])
            n_clips = self.clips_by_movie[movie]
            films.append((movie, n_clips, *counts.values(), *facts.values()))
        splits = []
        for name, folds in self.folds.items():
            positive = [fold.positive / fold.clips for fold in folds.values()] or [0.0]
            n_clips = sum(fold.clips for fold in folds.values())
            extent = f"{min(positive):.3f} to {max(positive):.3f}"
            splits.append((name, len(folds), n_clips, extent))
        parts = [
            f"{count(self.clips, unit)} of {count(self.movies, 'film')},"
            f" {self.without_video} without video",
            table(("level", "clips", "share", f"concepts a {unit}"), levels),
            _concept_table(self.concepts, {}) if any(self.concepts.values()) else "",
            *(
                f"{safe_text(name, 'terminal')}\n{_concept_table(own['concepts'], own['levels'])}"
                for name, own in self.by_annotator.items()
            ),
            table(("column", "class", f"{unit}s"), classes) if classes else "",
            table(("film", f"{unit}s", *LEVELS, "title", "year", "genres"), films),
            table(("split", "folds", "clips", "share of S by fold"), splits)
            if splits
            else "",
        ]
        return "\n\n".join(part for part in parts if part)


def compute_stats(manifest: Manifest) -> Stats:
    """Count the levels, concepts, films and folds of a manifest.

    Args:
        manifest: The manifest, in the view that is to be counted.
    """
    clips = list(manifest)
    names = manifest.header.concepts
    levels = _level_counts(clips)
    films = _grouped(clips, lambda clip: clip.movie_id)
    by_level = _grouped(clips, lambda clip: clip.level)
    annotators = _grouped(clips, lambda clip: clip.extra.get("annotator"))
    return Stats(
        clips=len(clips),
        movies=len(films),
        levels=levels,
        share={level: _ratio(n, len(clips)) for level, n in levels.items()},
        concepts_per_clip={
            level: _ratio(sum(len(clip.concepts) for clip in own), len(own))
            for level in LEVELS[1:]
            for own in [by_level.get(level, [])]
        },
        concepts=_concept_counts(clips, names),
        without_level=len(clips) - sum(levels.values()),
        without_video=sum(not clip.video for clip in clips),
        by_movie={movie: _level_counts(own) for movie, own in films.items()},
        clips_by_movie={movie: len(own) for movie, own in films.items()},
        folds={
            split: {
                fold: _fold_stats(own) for fold, own in _grouped(clips, fold_in).items()
            }
            for split in manifest.folds
            for fold_in in [partial(Clip.fold, name=split)]
        },
        films={
            movie: facts for movie, own in films.items() if (facts := _film_facts(own))
        },
        by_annotator={
            name: {
                "levels": _level_counts(own),
                "concepts": _concept_counts(own, names),
            }
            for name, own in annotators.items()
        },
        classes={
            column: dict(sorted(Counter(clip.extra[column] for clip in clips).items()))
            for column in CLASS_COLUMNS
            if column in manifest.columns
        },
        unit=manifest.header.unit,
    )


def _grouped(
    clips: Iterable[Clip], key: Callable[[Clip], Any]
) -> dict[Any, list[Clip]]:
    """Return the clips by a value, in the order of the values, without those that have none."""
    groups: dict[Any, list[Clip]] = {}
    for clip in clips:
        if (value := key(clip)) not in (None, ""):
            groups.setdefault(value, []).append(clip)
    return dict(sorted(groups.items()))


def _film_facts(clips: Sequence[Clip]) -> dict[str, Any]:
    """Return what is known of the film of these clips, or else its `movie_title` or `title`."""
    rows = (clip.extra for clip in clips)
    titles = (
        title for row in rows if (title := row.get("movie_title") or row.get("title"))
    )
    title = next(titles, None)
    return {**({"title": title} if title else {}), **film_facts(clips[0].movie_id)}


def _level_counts(clips: Iterable[Clip]) -> dict[str, int]:
    counts = Counter(clip.level for clip in clips)
    return {level: counts[level] for level in LEVELS}


def _concept_counts(
    clips: Iterable[Clip], names: Iterable[str]
) -> dict[str, dict[str, int]]:
    """Return how many clips of each level have each concept."""
    counts = Counter((clip.level, name) for clip in clips for name in clip.concepts)
    return {
        level: {name: n for name in names if (n := counts[level, name])}
        for level in LEVELS
    }


def _fold_stats(clips: Sequence[Clip]) -> FoldStats:
    positive = sum(clip.level == "S" for clip in clips)
    seen = [clip.level == "S" for clip in clips if clip.video]
    shares = _ratio(positive, len(clips)), _ratio(sum(seen), len(seen))
    return FoldStats(len(clips), positive, shares[0], len(seen), shares[1])


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _concept_table(
    concepts: Mapping[str, Mapping[str, int]], levels: Mapping[str, int]
) -> str:
    """Return the concepts by level as a table, below all clips of each level if these are given."""
    names = sorted({name for counts in concepts.values() for name in counts})
    rows = [
        [name, *(concepts[level].get(name, 0) for level in LEVELS)] for name in names
    ]
    return table(
        ("concept", *LEVELS), [*([["all", *levels.values()]] if levels else []), *rows]
    )
