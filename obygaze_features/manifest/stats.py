"""Count the levels, concepts, films and folds of a manifest, and draw the counts."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
)
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.annotators import count_differences
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.listing import titles_in_manifest
from obygaze_features.manifest.model import (
    LEVELS,
    NO_LEVEL,
    Clip,
    Manifest,
    film_count_text,
    own_columns,
    view_words,
)
from obygaze_features.manifest.own_labels import column_words
from obygaze_features.manifest.vocabulary import film_facts

GENRES_SOURCE = "mobygaze_movielist.csv, the list of films of MObyGaze"


@dataclass(frozen=True)
class FoldStats:
    """The number of clips in one fold, of positive clips (level S), and of clips without a level.

    `prevalence` is the share of positive clips among all clips of the fold.
    """

    clips: int
    positive: int
    prevalence: float
    without_level: int


@dataclass(frozen=True, repr=False)
class Stats:
    """The counts of a manifest in a view. `share` is the share of each level among all clips.

    `films` has title, year and genres of known films. `title` is the data set and the view.
    `concepts_without_level` counts the concepts of clips without a level. `own_columns` describes
    the user's own columns. `left_open` counts the clips on which annotators differ, by column and
    concept: `level 10, Look 3`. `clips` counts the clips that `where` selects, and `clips_of_all`
    all clips of the manifest.
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
    title: str = ""
    is_linked: bool = True
    clips_of_all: int = 0
    left_open: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the counts as one JSON document."""
        document = asdict(self)
        del document["title"], document["is_linked"]
        return document

    @property
    def size(self) -> str:
        """The numbers of clips and films, as text."""
        clips = count(self.clips, "clip")
        if self.clips < self.clips_of_all:
            clips = f"{self.clips} of {count(self.clips_of_all, 'clip')}"
        return f"{clips}{film_count_text(self.n_films)}"

    def __str__(self) -> str:
        n_named = self.clips - self.without_video
        not_linked = ""
        if n_named and not self.is_linked:
            not_linked = f", {n_named} with the name of a video that is not linked"
        parts = [
            f"{self.size}, {view_words(self.view)}, {self.without_video} without video{not_linked}",
        ]
        if self._has_levels or not self.own_columns:
            headers = ("level", "clips", "share", "concepts a clip")
            parts.append(table(headers, self._level_rows()))
        concepts = dict(self.concepts)
        if self.concepts_without_level:
            concepts[NO_LEVEL] = self.concepts_without_level
        names = sorted(set().union(*concepts.values()))
        if names:
            counts = [
                map(one.get, names, [0] * len(names)) for one in concepts.values()
            ]
            rows = zip(names, *counts, strict=True)
            parts.append(table(("concept", *concepts), rows))
        if self.own_columns:
            parts.append(table(("column", "values"), self.own_columns.items()))
        if self.by_film:
            parts.append(self._film_table())
        if self.folds:
            headers = ("split", "folds", "clips", "share of S by fold")
            parts.append(table(headers, self._split_rows()))
        return "\n\n".join(parts)

    @property
    def notes(self) -> list[str]:
        """The names of the levels that clips have, and how clips without a decision count."""
        notes = self.level_notes()
        if self.left_open:
            notes.append(
                "clips on which annotators differ count as clips without the label:"
                f" {self.left_open}"
            )
        return notes

    def level_notes(
        self, words_of: Mapping[str, Sequence[str]] | None = None
    ) -> list[str]:
        """Return a note with the names of the levels that clips have.

        Args:
            words_of: The words of the table for each level; None: the usual names.
        """
        counted = [level for level, n_clips in self.levels.items() if n_clips]
        return [level_words(counted, words_of)] if counted else []

    @property
    def _has_levels(self) -> bool:
        return self.without_level < self.clips

    def _level_rows(self) -> list[Sequence[object]]:
        n_of_level = dict(self.levels)
        if self.without_level:
            n_of_level[NO_LEVEL] = self.without_level
        rows: list[Sequence[object]] = []
        for level, n_clips in n_of_level.items():
            percent = f"{100 * (n_clips / self.clips):.1f} %" if self.clips else None
            mean = self.concepts_per_clip.get(level)
            rows.append((level, n_clips, percent, mean))
        return rows

    def _film_table(self) -> str:
        """Return the table of films, followed by the sources of their genres."""
        rows = []
        lines = []
        for film, levels in self.by_film.items():
            facts = self.films.get(film, {})
            n_clips = self.clips_by_film[film]
            counts = [n_clips]
            if self._has_levels:
                counts += [*levels.values(), n_clips - sum(levels.values())]
            genres = ", ".join(facts.get("genres", ()))
            rows.append((film, *counts, facts.get("title"), facts.get("year"), genres))
            if genres:
                source = facts.get("genres_source", GENRES_SOURCE)
                lines.append(f"genres of {facts['title']}: {source}")
            for source, others in facts.get("other_genres", {}).items():
                listed = ", ".join(others)
                lines.append(f"genres of {facts['title']} in {source}: {listed}")
        counted = [*LEVELS, NO_LEVEL] if self._has_levels else []
        headers = ("film", "clips", *counted, "title", "year", "genres")
        columns = []
        for column in zip(headers, *rows, strict=True):
            if {*column[1:]} - {None, ""}:
                columns.append(column)
        shown, *cells = zip(*columns, strict=True)
        return "\n".join([table(shown, cells), *lines])

    def _split_rows(self) -> list[Sequence[object]]:
        rows: list[Sequence[object]] = []
        for name, folds in self.folds.items():
            shares = [fold.prevalence for fold in folds.values()] or [0.0]
            n_clips = sum(fold.clips for fold in folds.values())
            extent = f"{min(shares):.3f} to {max(shares):.3f}"
            rows.append((name, len(folds), n_clips, extent))
        return rows


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
        view: View to count; by default as stored.
        where: Count the clips for which this holds; manifest show has the same option.
        workspace: The workspace, if it is not the current one.
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
            raise NotFound(
                f"no clip for which this holds: {where}", where=manifest.name
            )
    clips = manifest.clips
    levels = Counter(clip.level for clip in clips)
    n_of_film = Counter(clip.movie_id for clip in clips if clip.movie_id)
    films = sorted(n_of_film)
    names = list(manifest.header.concepts)
    pairs = [(clip.level, name) for clip in clips for name in clip.concepts]
    of_concept = _counts(pairs, (*LEVELS, ""), names, keep_zeros=False)
    without_level = of_concept.pop("")
    titles = titles_in_manifest(manifest)
    facts = {film: {"title": titles.get(film), **film_facts(film)} for film in films}
    own = own_columns(manifest.columns)
    return Stats(
        clips=len(clips),
        n_films=len(films),
        levels={level: levels[level] for level in LEVELS},
        share={level: _ratio(levels[level], len(clips)) for level in LEVELS},
        concepts_per_clip={
            level: _ratio(sum(of_concept[level].values()), levels[level])
            for level in LEVELS[1:]
        },
        concepts=of_concept,
        concepts_without_level=without_level,
        without_level=levels[""],
        clips_of_all=n_of_all,
        without_video=sum(not clip.video for clip in clips),
        by_film=_counts(((c.movie_id, c.level) for c in clips), films, LEVELS),
        clips_by_film={film: n_of_film[film] for film in films},
        folds={name: _fold_counts(clips, name) for name in manifest.folds},
        films={film: one for film, one in facts.items() if one["title"]},
        own_columns={column: column_words(clips, column) for column in own},
        view=manifest.header.view,
        is_linked=bool(manifest.header.video_root),
        title=f"{manifest.header.dataset}, {view_words(manifest.header.view)}",
        left_open=count_differences(clips),
    )


def _counts(
    pairs: Iterable[tuple[str, str]],
    rows: Iterable[str],
    columns: Iterable[str],
    *,
    keep_zeros: bool = True,
) -> dict[str, dict[str, int]]:
    """Return the number of pairs (row, column) by row and column.

    Args:
        pairs: The pairs to count.
        rows: The rows to return.
        columns: The columns to return.
        keep_zeros: Whether counts of 0 are returned; False: they are left out.
    """
    n_of = Counter(pairs)
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        counts[row] = {}
        for column in columns:
            if n_of[row, column] or keep_zeros:
                counts[row][column] = n_of[row, column]
    return counts


def _fold_counts(clips: Iterable[Clip], split: str) -> dict[int, FoldStats]:
    """Return the counts of each fold of a split."""
    levels_of: dict[int, list[str]] = {}
    for clip in clips:
        fold = clip.fold(split)
        if fold is not None:
            levels_of.setdefault(fold, []).append(clip.level)
    counts = {}
    for fold, levels in sorted(levels_of.items()):
        n_positive = levels.count("S")
        counts[fold] = FoldStats(
            len(levels), n_positive, n_positive / len(levels), levels.count("")
        )
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
        figure: Draw the counts of levels and concepts as PATH.svg and PATH.png, or only as PATH if
            it ends in .svg, .png or .pdf.
        force: Replace the output if it exists.
    """
    if figure is None:
        return ()
    if not stats._has_levels:
        raise FixUsage(
            "no clip has a level, but --figure draws levels and the concepts of each level",
            where=stats.title,
            hint="remove --figure, or import the table with --map level=COLUMN",
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
    """Draw one bar of all levels, with the number of clips in each part."""
    left = 0
    style = {"ha": "center", "va": "center", "fontsize": 7}
    for level, n_clips in stats.levels.items():
        axes.barh(0, n_clips, left=left, color=LEVEL_COLORS[level], height=0.7)
        if n_clips > 0.04 * stats.clips:
            color = "white" if level == "S" else "black"
            axes.text(
                left + n_clips / 2,
                0,
                f"{level}\n{n_clips}\n{100 * n_clips / stats.clips:.0f} %",
                color=color,
                **style,
            )
        left += n_clips
    without = f", {stats.without_level} without a level" if stats.without_level else ""
    axes.set_title(f"{stats.size}{without}")
    axes.set_xlim(0, max(left, 1))
    axes.axis("off")


def _draw_concepts(axes: Any, stats: Stats, names: Sequence[str]) -> None:
    """Draw a row for each concept, with a dot for the share of clips that have it, by level."""
    for level, counts in stats.concepts.items():
        if counts:
            mean = stats.concepts_per_clip.get(level)
            note = "" if mean is None else f", {mean:.2f} concepts a clip"
            axes.scatter(
                [100 * counts.get(name, 0) / stats.levels[level] for name in names],
                range(len(names)),
                # Smaller than the dots below, so that equal shares are all seen.
                s=100 - 30 * len(axes.collections),
                alpha=0.8,
                color=LEVEL_COLORS[level],
                label=f"{level} {LEVEL_NAMES[level]}{note}",
            )
    label_rows(axes, names, upwards=True)
    axes.set_xlim(left=0)
    draw_grid(axes)
    axes.set_xlabel("% of clips with the concept", color=COLORS["muted"])
    differing = f"; annotators differ: {stats.left_open}" if stats.left_open else ""
    axes.set_title(f"Concepts by level{differing}")
    if names:
        axes.figure.legend(loc="outside lower left", fontsize=7.5)
