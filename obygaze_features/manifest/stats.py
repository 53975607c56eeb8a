"""Count the levels, concepts, films and folds of a manifest, and draw the counts."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from obygaze_features.core.console import count, table
from obygaze_features.core.errors import FixUsage, NotFound, ObygazeWarning
from obygaze_features.core.figures import (
    COLORS,
    LEVEL_COLORS,
    LEVEL_NAMES,
    WIDTH,
    canvas,
    draw_grid,
    label_rows,
    level_words,
    save,
    spread_dots,
)
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.listing import titles_of_films
from obygaze_features.manifest.model import (
    LEVELS,
    NO_LEVEL,
    Clip,
    Manifest,
    of_films,
    own_columns,
    view_words,
)
from obygaze_features.manifest.own_labels import column_words
from obygaze_features.manifest.vocabulary import film_facts

DOT = 0.018  # the size of a dot across, as a share of the widest row
STEP = 0.24  # the distance of two dots along the rows
GENRES_SOURCE = "mobygaze_movielist.csv, the list of films of MObyGaze"


@dataclass(frozen=True)
class FoldStats:
    """The clips of one fold, and how many of them are positive (level S) or have no level."""

    clips: int
    positive: int
    prevalence: float | None
    without_level: int


@dataclass(frozen=True, repr=False)
class Stats:
    """The counts of a manifest in a view. `share` is the share of each level among all clips.

    `films` has title, year and genres of the films that are known. `title` names what was counted.
    `concepts_without_level` counts the concepts of the clips without a level. `own_columns` says
    what each column of a person's own has. `clips_of_all` counts also the clips that `where` does
    not select.
    """

    clips: int
    n_films: int
    levels: Mapping[str, int]
    share: Mapping[str, float | None]
    concepts_per_clip: Mapping[str, float | None]
    concepts: Mapping[str, Mapping[str, int]]
    concepts_without_level: Mapping[str, int]
    without_level: int
    without_video: int
    by_film: Mapping[str, Mapping[str, int]]
    clips_by_film: Mapping[str, int]
    folds: Mapping[str, Mapping[int, FoldStats]]
    films: Mapping[str, Mapping[str, Any]]
    own_columns: Mapping[str, str]
    view: str = "raw"
    unit: str = "clip"
    title: str = ""
    is_linked: bool = True
    clips_of_all: int = 0

    def __repr__(self) -> str:
        levels = ", ".join(f"{n} {level}" for level, n in self.levels.items() if n)
        return short_repr("Stats", self.size, levels, f"{self.without_video} no video")

    def to_json(self) -> dict[str, Any]:
        """Return the counts as one JSON document."""
        document = asdict(self)
        del document["unit"], document["title"], document["is_linked"]
        return document

    @property
    def size(self) -> str:
        """How many clips of how many films."""
        clips = count(self.clips, self.unit)
        if self.clips < self.clips_of_all:
            clips = f"{self.clips} of {count(self.clips_of_all, self.unit)}"
        return f"{clips}{of_films(self.n_films)}"

    def __str__(self) -> str:
        parts = [
            f"{self.size}, {view_words(self.view)}, {self.without_video} without video"
            f"{self._not_linked()}",
        ]
        if self._has_levels or not self.own_columns:
            parts.append(self._level_table())
        if any(self.concepts.values()) or self.concepts_without_level:
            parts.append(self._concept_table())
        if self.own_columns:
            parts.append(table(("column", "values"), self.own_columns.items()))
        if self.by_film:
            parts.append(self._film_table())
        if self.folds:
            parts.append(self._split_table())
        return "\n\n".join(parts)

    @property
    def notes(self) -> list[str]:
        """The words of the levels that were counted."""
        return self.level_notes()

    def level_notes(
        self, words_of: Mapping[str, Sequence[str]] | None = None
    ) -> list[str]:
        """Return the words of the levels that were counted, or those that a table has for them."""
        counted = [level for level, n_clips in self.levels.items() if n_clips]
        return [level_words(counted, words_of)] if counted else []

    @property
    def _has_levels(self) -> bool:
        return self.without_level < self.clips

    def _not_linked(self) -> str:
        """Return that the files of the other clips were not looked for, where that is so."""
        n_named = self.clips - self.without_video
        if self.is_linked or not n_named:
            return ""
        return f", {n_named} with the name of a file that is not linked here"

    def _level_table(self) -> str:
        n_of_level = dict(self.levels)
        if self.without_level:
            n_of_level[NO_LEVEL] = self.without_level
        rows = []
        for level, n_clips in n_of_level.items():
            percent = f"{100 * (n_clips / self.clips):.1f} %" if self.clips else None
            mean = self.concepts_per_clip.get(level)
            rows.append((level, n_clips, percent, mean))
        headers = ("level", f"{self.unit}s", "share", f"concepts a {self.unit}")
        return table(headers, rows)

    def _concept_table(self) -> str:
        """Return the concepts by level as a table."""
        concepts = dict(self.concepts)
        if self.concepts_without_level:
            concepts[NO_LEVEL] = self.concepts_without_level
        names = set().union(*concepts.values())
        rows: list[list[object]] = []
        for name in sorted(names):
            rows.append(
                [name, *(of_level.get(name, 0) for of_level in concepts.values())]
            )
        return table(("concept", *concepts), rows)

    def _film_table(self) -> str:
        rows = []
        for film, levels in self.by_film.items():
            facts = self.films.get(film, {})
            n_clips = self.clips_by_film[film]
            counts = [n_clips]
            if self._has_levels:
                counts += levels.values()
            if self._has_levels and self.without_level:
                counts.append(n_clips - sum(levels.values()))
            genres = ", ".join(facts.get("genres", ()))
            rows.append((film, *counts, facts.get("title"), facts.get("year"), genres))
        counted = [*LEVELS, NO_LEVEL] if self.without_level else LEVELS
        if not self._has_levels:
            counted = []
        headers = ("film", f"{self.unit}s", *counted, "title", "year", "genres")
        lines = [table(headers, rows), *self._genre_lines()]
        return "\n".join(lines)

    def _genre_lines(self) -> Iterator[str]:
        """Yield where genres come from, and what other sources say of a film."""
        with_genres = [facts for facts in self.films.values() if "genres" in facts]
        if with_genres:
            yield f"genres: {GENRES_SOURCE}"
        for facts in with_genres:
            if "genres_source" in facts:
                yield f"genres of {facts['title']}: {facts['genres_source']}"
            for source, genres in facts.get("other_genres", {}).items():
                yield f"genres of {facts['title']} in {source}: {', '.join(genres)}"

    def _split_table(self) -> str:
        rows = []
        for name, folds in self.folds.items():
            shares = [fold.positive / fold.clips for fold in folds.values()] or [0.0]
            n_clips = sum(fold.clips for fold in folds.values())
            extent = f"{min(shares):.3f} to {max(shares):.3f}"
            rows.append((name, len(folds), n_clips, extent))
        return table(("split", "folds", f"{self.unit}s", "share of S by fold"), rows)


def compute_stats(
    manifest: PathLike | Manifest,
    *,
    view: Literal["raw", "visual", "as_published"] | None = None,
    where: str | None = None,
    workspace: PathLike | None = None,
) -> Stats:
    """Count levels, concepts, films and folds; each film has a row.

    Args:
        manifest: The manifest.
        view: View to count. [default: as stored]
        where: Count the clips for which this holds; manifest show has the same option.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest stats obygaze12 --view visual
        obygaze manifest stats obygaze12 --view as_published --json
        obygaze manifest stats obygaze12 --where 'level in {HN, S}'
        obygaze manifest stats obygaze12 --view visual --figure figures/concepts
    """
    manifest = read_manifest(manifest, workspace=workspace)
    if view is not None:
        seen = manifest.view(view)
        lost = manifest.levels_lost
        if lost and seen.header.view != manifest.header.view:
            warnings.warn(f"{manifest.name}: {lost}", ObygazeWarning, stacklevel=2)
        manifest = seen
    n_of_all = len(manifest)
    if where is not None:
        manifest = manifest.where(where)
        if not len(manifest):
            raise NotFound(f"no clip with {where}", where=manifest.name)
    clips = manifest.clips
    names = manifest.header.concepts
    levels = _level_counts(clips)
    concepts = _concept_counts(clips, names)
    clips_of_film = _grouped(clips, lambda clip: clip.movie_id)
    levels_of_film = {
        film: _level_counts(group) for film, group in clips_of_film.items()
    }
    return Stats(
        clips=len(clips),
        n_films=len(clips_of_film),
        levels=levels,
        share={level: _ratio(n, len(clips)) for level, n in levels.items()},
        concepts_per_clip=_concepts_per_clip(clips),
        concepts={level: concepts[level] for level in LEVELS},
        concepts_without_level=concepts[""],
        without_level=len(clips) - sum(levels.values()),
        clips_of_all=n_of_all,
        without_video=sum(not clip.video for clip in clips),
        by_film=levels_of_film,
        clips_by_film={film: len(group) for film, group in clips_of_film.items()},
        folds={name: _fold_counts(clips, name) for name in manifest.folds},
        films=_facts_of_films(manifest),
        own_columns={
            column: column_words(clips, column)
            for column in own_columns(manifest.columns)
        },
        view=manifest.header.view,
        unit=manifest.header.unit,
        is_linked=bool(manifest.header.video_root),
        title=f"{manifest.header.dataset}, {view_words(manifest.header.view)}",
    )


def _grouped(
    clips: Iterable[Clip], key: Callable[[Clip], Any]
) -> dict[Any, list[Clip]]:
    """Return the clips by a value, in the order of the values, without those that have none."""
    groups: dict[Any, list[Clip]] = {}
    for clip in clips:
        value = key(clip)
        if value not in (None, ""):
            groups.setdefault(value, []).append(clip)
    return dict(sorted(groups.items()))


def _concepts_per_clip(clips: Iterable[Clip]) -> dict[str, float | None]:
    """Return the mean number of concepts of the clips of each level but EN."""
    clips_of_level = _grouped(clips, lambda clip: clip.level)
    means = {}
    for level in LEVELS[1:]:
        of_this_level = clips_of_level.get(level, [])
        n_concepts = sum(len(clip.concepts) for clip in of_this_level)
        means[level] = _ratio(n_concepts, len(of_this_level))
    return means


def _facts_of_films(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Return title, year, genres and other genres of the films of which one of these is known.

    The title is that in the rows of clips where nothing else is known.
    """
    titles = titles_of_films(manifest)
    facts_of_film = {}
    for movie_id in manifest.films:
        facts = film_facts(movie_id)
        facts.setdefault("title", titles.get(movie_id, ""))
        if facts["title"]:
            facts_of_film[movie_id] = facts
    return facts_of_film


def _level_counts(clips: Iterable[Clip]) -> dict[str, int]:
    counts = Counter(clip.level for clip in clips)
    return {level: counts[level] for level in LEVELS}


def _concept_counts(
    clips: Iterable[Clip], names: Iterable[str]
) -> dict[str, dict[str, int]]:
    """Return how many clips of each level, and of none (""), have each concept."""
    counts: Counter[tuple[str, str]] = Counter()
    for clip in clips:
        counts.update((clip.level, name) for name in clip.concepts)
    counts_of_level: dict[str, dict[str, int]] = {level: {} for level in (*LEVELS, "")}
    for level, concepts in counts_of_level.items():
        for name in names:
            if counts[level, name]:
                concepts[name] = counts[level, name]
    return counts_of_level


def _fold_counts(clips: Iterable[Clip], split: str) -> dict[int, FoldStats]:
    """Return the counts of each fold of a split."""
    counts = {}
    for fold, of_fold in _grouped(clips, lambda clip: clip.fold(split)).items():
        levels = [clip.level for clip in of_fold]
        n_positive = levels.count("S")
        share = _ratio(n_positive, len(levels))
        counts[fold] = FoldStats(len(levels), n_positive, share, levels.count(""))
    return counts


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def draw_stats(
    stats: Stats,
    *,
    figure: str | Path | None = None,
    force: bool = False,
) -> tuple[Path, ...]:
    """Draw the shares of the levels, and the concepts of each level, as Figure 2 of the paper.

    Args:
        stats: The counts.
        figure: Draw the counts of levels and concepts as PATH.svg and PATH.png; a PATH with .svg,
            .png or .pdf is one file.
        force: Replace the output if it exists.
    """
    if figure is None:
        return ()
    if not stats._has_levels:
        raise FixUsage(
            "no clip has a level; the figure draws levels and the concepts of each",
            where=stats.title,
            hint="leave out --figure, or import the table with --map level=COLUMN",
        )
    concepts = _concepts(stats)
    n_rows = max(len(concepts), 3)
    rows = {"nrows": 2, "height_ratios": [1.4, n_rows]}
    with canvas(WIDTH, 150 + 30 * n_rows, **rows) as (page, axes):
        page.suptitle(stats.title, x=0.01, ha="left", weight="bold")
        _draw_levels(axes[0], stats)
        _draw_concepts(axes[1], stats, concepts)
        return save(page, Path(figure), force=force)


def _concepts(stats: Stats) -> list[str]:
    """Return the concepts of the clips, the most frequent last."""
    total: Counter[str] = Counter()
    for counts in stats.concepts.values():
        total.update(counts)
    return sorted(total, key=total.__getitem__)


def _draw_levels(axes: Any, stats: Stats) -> None:
    left = 0
    for level in LEVELS:
        n_clips = stats.levels[level]
        axes.barh(0, n_clips, left=left, color=LEVEL_COLORS[level], height=0.7)
        if n_clips > 0.04 * stats.clips:
            color = "white" if level == "S" else "black"
            text = f"{level}\n{n_clips}\n{100 * n_clips / stats.clips:.0f} %"
            axes.text(
                left + n_clips / 2,
                0,
                text,
                ha="center",
                va="center",
                color=color,
                fontsize=7,
            )
        left += n_clips
    title = stats.size
    if stats.without_level:
        title += f", {stats.without_level} without a level"
    axes.set_title(title)
    axes.set_xlim(0, max(left, 1))
    axes.axis("off")


def _draw_concepts(axes: Any, stats: Stats, names: list[str]) -> None:
    """Draw one row a concept with a dot a level: the share of its clips with the concept."""
    levels = [level for level in LEVELS if stats.concepts[level]]
    shares_of_concept: list[list[float]] = []
    for name in names:
        shares = []
        for level in levels:
            n_clips = stats.concepts[level].get(name, 0)
            shares.append(100 * n_clips / max(stats.levels[level], 1))
        shares_of_concept.append(shares)
    largest_share = max(map(max, shares_of_concept), default=1.0)
    for row, shares in enumerate(shares_of_concept):
        axes.plot(
            [min(shares), max(shares)], [row, row], color=COLORS["line"], lw=3, zorder=1
        )
        moved = spread_dots(shares, DOT * largest_share)
        for level, share, step in zip(levels, shares, moved, strict=True):
            dot = axes.scatter(
                share, row + STEP * step, s=46, color=LEVEL_COLORS[level]
            )
            dot.set(edgecolor="white", zorder=2, clip_on=False)
    for level in levels:
        mean = stats.concepts_per_clip.get(level)
        note = "" if mean is None else f", {mean:.2f} concepts a {stats.unit}"
        label = f"{level} {LEVEL_NAMES[level]}{note}"
        axes.scatter([], [], s=46, color=LEVEL_COLORS[level], label=label)
    label_rows(axes, names, upwards=True)
    axes.set_xlim(left=0)
    draw_grid(axes)
    axes.set_xlabel(f"% of {stats.unit}s with the concept", color=COLORS["muted"])
    axes.set_title("Concepts over levels")
    if levels:
        axes.figure.legend(loc="outside lower left", fontsize=7.5)
    else:
        axes.text(
            0.5,
            0,
            "no clip with a level has a concept",
            ha="center",
            color=COLORS["muted"],
        )
