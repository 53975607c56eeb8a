"""`obygaze manifest project`: from tables of segments to the labels of clips."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from obygaze.films.clip_spans import (
    equal_clips,
    read_clip_spans,
    rests_of_films,
    where_films_end,
)
from obygaze.films.film_rates import FilmRates, Fps
from obygaze.films.mark_tables import read_marks
from obygaze.films.projection import (
    ClipLevel,
    ClipSpan,
    Projection,
    as_threshold,
    project,
    projection_to_csv,
)
from obygaze.films.vocabulary import unknown_concepts
from obygaze_features.core.console import count, few, table
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.files import TABLE_ENDINGS, write_all_new
from obygaze_features.core.options import Option
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest import read_manifest
from obygaze_features.manifest.annotators import HIGHEST
from obygaze_features.manifest.io import (
    annotations_to_csv,
    annotators_of,
    remove_annotations,
)
from obygaze_features.manifest.model import Header, view_words
from obygaze_features.manifest.vocabulary import canonical_concept

_LENGTH = re.compile(r"(?=.*[1-9])[0-9]{1,6}(\.[0-9]{1,6})?")
Tables = Annotated[PathLike | Sequence[PathLike], Option(is_repeated=True)]
Seconds = Annotated[str | float | None, Option(metavar="SECONDS")]


@dataclass(frozen=True)
class ProjectedClips:
    """The levels of clips, the clips, what could not be used of the tables, and films' titles."""

    projection: Projection
    spans: tuple[ClipSpan, ...]
    warnings: tuple[str, ...]
    titles: Mapping[str, str]


@dataclass(frozen=True)
class ProjectedLabels:
    """The labels of clips; `outputs` are the files that they were written to, if there are any.

    `without_rate` are the films of which the file has no times.
    """

    projection: Projection
    warnings: tuple[str, ...] = ()
    outputs: tuple[Path, ...] = ()
    without_rate: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the levels of all annotators, and the merged ones."""
        return self.projection.to_json()

    def __str__(self) -> str:
        return "" if self.outputs else _levels_text(self.projection)

    @property
    def notes(self) -> list[str]:
        """The files, and how many clips have which level."""
        projection = self.projection
        counts = ", ".join(f"{level} {n}" for level, n in projection.counts().items())
        unlabelled = f"without a label {len(projection.unlabelled)}"
        summary = f"{count(len(projection.merged), 'clip')}: {counts}, {unlabelled}"
        if not self.outputs:
            return [summary]
        output = self.outputs[0]
        command = f"next: obygaze manifest import {shell_word(output)}"
        own: dict[str, None] = {}
        for row in projection.merged:
            own.update(dict.fromkeys(row.concepts))
        asked = [concept for concept in own if canonical_concept(concept) is None]
        if asked:
            mapping = shell_word(output.with_suffix(".toml"))
            command += (
                f" --write-mapping {mapping}, which asks what {few(asked, 3)} is; then"
            )
            command += f" --mapping {mapping}"
        notes = [f"wrote {output}", summary]
        if self.outputs[1:]:
            notes.append(
                f"wrote {self.outputs[1]}, what each annotator said; the import reads both"
            )
        notes.append(f"{command} -o NAME")
        if self.without_rate:
            films = few(self.without_rate, 5)
            notes.append(f"without times, the frame rate is not known: {films}")
        return notes


def project_segments(
    segments: Tables,
    *,
    clips: PathLike | None = None,
    every: Seconds = None,
    fps: Fps = None,
    threshold: str | float | Fraction = "0.2",
    output: Annotated[
        PathLike | None, Option("-o --output", is_file=True, group="Output")
    ] = None,
    rule: Annotated[str, Option(metavar="RULE", group="Output")] = HIGHEST,
    force: Annotated[bool, Option(group="Output")] = False,
    workspace: PathLike | None = None,
) -> ProjectedLabels:
    """Turn experts' segments into clip labels.

    SEGMENTS is a CSV with movie_id, annotator, start_frame, end_frame (inclusive), level and
    concepts (joined with '|'), or a manifest that has these columns. The highest level of the
    segments that each cover the threshold's share of a clip is the clip's level, and the concepts
    of the segments of this level are the clip's: those of lower levels are not.

    Where none covers that share, the clip is EN if the annotator has seen four fifths of it, else
    it has no label. Segments with the level `watched`, here or in SEGMENTS.watched.csv, say what
    was seen. Without any, that is the whole film, and a warning says so.

    Args:
        segments: One or more such tables, or names of manifests.
        clips: CSV with clip_id, movie_id, start_frame, end_frame (or start_s, end_s in seconds).
        every: Cut the films, up to their last segment, into clips of this length instead.
        fps: Frames per second of films without a video and a column framerate: 25 for all of them,
            or lake=23.976 for one.
        threshold: The smallest share of a clip that a segment must cover to count: 0.2, 1/3.
        output: Write the rows as CSV, print the counts; a clip without a label has an empty level.
        rule: How the labels of several annotators become one: highest, agreed, majority, by:NAME,
            or each for a column of each. What each said is in a table beside the output.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest project segments.csv --clips clips.csv
        obygaze manifest project segments.csv --clips clips.csv --threshold 1/3 -o levels.csv
        obygaze manifest project mobygaze --every 30 -o levels.csv
    """
    share = as_threshold(threshold)
    projected = project_tables(segments, clips, every, fps, share, workspace, rule)
    projection = projected.projection
    files: dict[Path, bytes] = {}
    if output is not None:
        path = Path(output)
        data = projection_to_csv(projection, projected.spans, titles=projected.titles)
        files[path] = data
        if len(projection.labels.annotators) > 1:
            said = annotations_to_csv(projection.labels.annotations)
            files[annotators_of(path)] = said
        remove_annotations(files, path, force=force)
        write_all_new(files, force=force)
    clip_ids = projection.labels.by_id
    without_rate = {
        span.movie_id
        for span in projected.spans
        if span.clip_id in clip_ids and span.times_s is None
    }
    return ProjectedLabels(
        projection, projected.warnings, tuple(files), tuple(sorted(without_rate))
    )


def project_tables(
    segments: PathLike | Sequence[PathLike],
    clips: PathLike | None,
    every: str | float | None,
    fps: Fps,
    threshold: Fraction,
    workspace: PathLike | None,
    rule: str = HIGHEST,
) -> ProjectedClips:
    """Read the tables and project the segments on the clips, or on clips of equal length."""
    length_s = _length_of(clips, every)
    names = table_names(segments)
    paths = [table_path(name, workspace) for name in names]
    rates = FilmRates(fps, Workspace.of(workspace))
    marks = read_marks(paths, fps=rates)
    for segment in marks.segments:
        rate = marks.rates.get(segment.movie_id)
        if rate is not None:
            where = ", ".join(map(str, names))
            rates.compare(segment.movie_id, segment.end_frame, rate, where)
    known: set[str] = set()
    views = set()
    for name, path in zip(names, paths, strict=True):
        header = header_of_table(name, path)
        views.add(header.view)
        for concept, modality in header.concepts.items():
            if modality != "unknown":
                known.add(concept)
    if len(views) > 1:
        raise FixInput(
            f"the levels of these tables are those of different views: {', '.join(sorted(views))}",
            where=", ".join(map(str, names)),
            hint="the manifests that the views were made of",
        )
    n_frames: dict[str, int] = {}
    if clips is None:
        for film in dict.fromkeys(segment.movie_id for segment in marks.segments):
            n_frames_of_film = rates.n_frames(film, marks.rate_of(film))
            if n_frames_of_film:
                n_frames[film] = n_frames_of_film
        spans = equal_clips(marks, length_s, n_frames)
    else:
        path = table_path(clips, workspace)
        spans = read_clip_spans(path, marks)
        for span in spans:
            # A clip that begins behind the end of its film would be an easy negative.
            if span.fps is not None:
                rates.compare(span.movie_id, span.start_frame, span.fps, str(path))
    concepts: set[str] = set()
    for segment in marks.segments:
        concepts.update(segment.concepts)
    projection = project(marks.segments, spans, threshold, rule)
    if not projection.merged and clips is not None:
        raise FixInput(
            "no clip lies in a film with segments",
            where=str(clips),
        )
    if not projection.merged:
        raise FixInput(
            "the segments span no whole clip",
            where=", ".join(map(str, names)),
            hint="use a smaller number for --every",
        )
    warnings = [
        *rates.warnings(),
        *_warnings(projection, unknown_concepts(concepts - known, paths)),
    ]
    warnings += [
        f"the levels of the segments are those of the {view_words(view)}"
        for view in sorted(views)
        if view != "raw"
    ]
    if every is not None:
        warnings += where_films_end(marks, n_frames)
        warnings += rests_of_films(spans, marks, n_frames)
    films_of_clips = {span.movie_id for span in spans}
    films = {segment.movie_id for segment in marks.segments} - films_of_clips
    if films:
        named = named_films(films, films_of_clips)
        warnings.append(f"no clips of films with segments: {named}")
    return ProjectedClips(projection, spans, tuple(warnings), marks.titles)


def named_films(films: Collection[str], others: Collection[str]) -> str:
    """Return films as text, each with a film of others that has nearly its name."""
    return few([f"{film}{near(film, others)}" for film in sorted(films)], 5)


def _length_of(clips: PathLike | None, every: str | float | None) -> Fraction:
    """Return the length of clips in seconds; 0 where they are those of a table."""
    if (clips is None) == (every is None):
        raise FixUsage(
            "expected one of --clips and --every",
            hint="--every 30, with about the seconds that a mark lasts; or --clips FILE, a table or"
            " manifest of clips with times (on the marks of one annotator, the rest of a film is"
            " not compared)",
        )
    if clips is not None:
        return Fraction(0)
    if not _LENGTH.fullmatch(str(every)):
        raise FixUsage(
            f"--every must be a number of seconds, got {every!r}", hint="--every 30"
        )
    return Fraction(str(every))


def table_names(segments: PathLike | Sequence[PathLike]) -> list[PathLike]:
    """Return the names of one or more tables."""
    if isinstance(segments, str | os.PathLike):
        return [segments]
    return list(segments)


def _warnings(projection: Projection, unknown: Sequence[str]) -> list[str]:
    """Return what is odd about a projection: unknown concepts, and clips without segments."""
    warnings = []
    if unknown:
        warnings.append(f"unknown concepts, kept unchanged: {few(unknown, 5)}")
    if projection.assumed:
        named = few(
            [f"{annotator} in {film}" for film, annotator in projection.assumed], 3
        )
        warnings.append(
            "nothing says what was watched, so the whole film counts as watched, and clips"
            f" without a mark as EN: {named}"
        )
    if projection.unseen:
        n_clips = count(len(projection.unseen), "clip")
        warnings.append(
            f"{n_clips} in films without segments, skipped: {few(projection.unseen, 5)}"
        )
    return warnings


def is_table(name: PathLike) -> bool:
    """Return whether a name is that of a table, and not of a manifest or its TOML file."""
    path = Path(name)
    return path.suffix in TABLE_ENDINGS or (path.is_file() and path.suffix != ".toml")


def table_path(name: PathLike, workspace: PathLike | None) -> Path:
    """Return the path of a table, or that of the rows of a manifest of that name."""
    if is_table(name):
        return Path(name)
    manifest = Workspace.of(workspace).existing_manifest(os.fspath(name))
    return manifest.with_suffix(".csv")


def header_of_table(name: PathLike, path: Path) -> Header:
    """Return the header of the manifest whose rows are a table, or an empty one."""
    if path == Path(name):  # a table, which may have any file beside it
        return Header(path.stem)
    return read_manifest(path.with_suffix(".toml")).header


def _levels_text(projection: Projection) -> str:
    """Return a table of clips: the level from each annotator, and the merged level."""
    annotators = list(projection.by_annotator)
    levels_of: dict[str, dict[str, str]] = {}
    for annotator, clip_levels in projection.by_annotator.items():
        levels_of[annotator] = {row.clip_id: _level_text(row) for row in clip_levels}
    rows = []
    for row in projection.merged:
        share = None
        if row.ratio is not None:
            overlap_frames, clip_frames = row.ratio
            share = f"{100 * overlap_frames / clip_frames:.1f} %"
        levels = [levels_of[annotator].get(row.clip_id) for annotator in annotators]
        concepts = ", ".join(row.concepts)
        rows.append((row.clip_id, *levels, _level_text(row), share, concepts))
    return table(("clip", *annotators, "level", "share", "concepts"), rows)


def _level_text(row: ClipLevel) -> str:
    return row.level if row.labelled else "none"
