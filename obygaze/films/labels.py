"""`obygaze manifest project`: from marks to clips with labels."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count as count_from
from itertools import pairwise
from pathlib import Path
from typing import Any

from obygaze.films.marks import (
    COMMENT,
    CONCEPTS_COLUMN,
    LEVEL,
    NOTHING,
    WATCHED,
    Marks,
    marks_by_film,
    read_marks,
    tables_of_marks,
)
from obygaze.films.pictures import Floats, LinkedFilms, nearest
from obygaze.films.projection import (
    DEFAULT_THRESHOLD,
    MARK_ROUNDING_S,
    ClipSpan,
    Orders,
    Projection,
    as_threshold,
    project,
    threshold_text,
    with_nothing,
)
from obygaze.films.sampling import is_drawn
from obygaze_features.core.console import count, few, table
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.files import TABLE_ENDINGS
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import number_of_cell
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest import read_manifest
from obygaze_features.manifest.adapters import csv_table, source_of
from obygaze_features.manifest.annotators import (
    BY,
    labelled,
    orders_of,
    what_differs,
)
from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import (
    DIFFERS,
    LEVELS,
    TARGETS,
    Annotation,
    Clip,
    Header,
    Manifest,
    view_words,
)
from obygaze_features.manifest.own_labels import COVERED
from obygaze_features.manifest.spans import FrameSpan, frames_of
from obygaze_features.manifest.times import spans_in_films
from obygaze_features.manifest.vocabulary import concepts as concepts_of_papers
from obygaze_features.manifest.windows import id_of_span

_LENGTH = re.compile(r"(?=.*[1-9])[0-9]{1,6}(\.[0-9]{1,6})?")


@dataclass(frozen=True)
class ProjectedMarks:
    """Marks on clips: the clips without labels, what each person says of them, and warnings."""

    clips: Manifest
    spans: tuple[ClipSpan, ...]
    projection: Projection
    warnings: tuple[str, ...]

    @property
    def marked(self) -> Manifest:
        """The clips of films with marks, with what each person says, and no labels.

        Of a draw, all clips stay: those that nobody judged are to be counted.
        """
        answered = {answer.clip_id for answer in self.projection.answers}
        own = [
            column
            for column in self.projection.columns
            if column not in (LEVEL, CONCEPTS_COLUMN)
        ]
        annotations = []
        for answer in self.projection.answers:
            cells = {column: answer.cells.get(column, "") for column in own}
            if any(answer.cells.values()):
                annotations.append(
                    Annotation(
                        answer.clip_id,
                        answer.annotator,
                        answer.level,
                        answer.concepts,
                        cells,
                    )
                )
        clips = self.clips.clips
        if not is_drawn(self.clips):
            clips = tuple(clip for clip in clips if clip.clip_id in answered)
        return replace(self.clips, clips=clips, annotations=tuple(annotations))


@dataclass(frozen=True, eq=False)
class ProjectedLabels:
    """Clips with the labels that a rule makes of what people say; `path` is where they are."""

    manifest: Manifest
    projected: ProjectedMarks
    threshold: Fraction
    path: Path | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What could not be used of the marks, and what was assumed."""
        return self.projected.warnings

    @property
    def unlabelled(self) -> list[str]:
        """The clips without a level: nothing reaches the threshold, and too little was seen."""
        return [clip.clip_id for clip in self.manifest if not clip.level]

    def to_json(self) -> dict[str, Any]:
        """Return what each person says of the clips, and the labels."""
        projections: dict[str, list[dict[str, Any]]] = {}
        for answer in self.projected.projection.answers:
            row = {
                "clip_id": answer.clip_id,
                **answer.cells,
                "level": answer.level or None,
                "concepts": list(answer.concepts),
                COVERED: answer.covered,
            }
            projections.setdefault(answer.annotator, []).append(row)
        merged = []
        for clip in self.manifest:
            covered = clip.extra.get(COVERED, "")
            row = {
                "clip_id": clip.clip_id,
                **{name: clip.extra.get(name, "") for name in self._own_columns},
                "level": clip.level or None,
                "concepts": list(clip.concepts),
                COVERED: float(covered) if covered else None,
            }
            merged.append(row)
        assumed = sorted(self.projected.projection.assumed)
        return {
            "manifest": str(self.path) if self.path else None,
            "threshold": threshold_text(self.threshold),
            "projections": projections,
            "merged": merged,
            "unlabelled": len(self.unlabelled),
            "unlabelled_clips": self.unlabelled,
            "assumed_watched": [list(one) for one in assumed],
        }

    @property
    def _own_columns(self) -> list[str]:
        columns = self.projected.projection.columns
        return [name for name in columns if name not in (LEVEL, CONCEPTS_COLUMN)]

    def __str__(self) -> str:
        if self.path:
            return f"{self.path}: {self._summary}"
        people = sorted(
            {answer.annotator for answer in self.projected.projection.answers}
        )
        said: dict[tuple[str, str], str] = {}
        columns = [
            name
            for name in self.projected.projection.columns
            if name not in (COMMENT, CONCEPTS_COLUMN)
        ]
        for answer in self.projected.projection.answers:
            cells = [answer.cells.get(column) or "-" for column in columns]
            said[answer.clip_id, answer.annotator] = " ".join(cells)
        rows = []
        for clip in self.manifest:
            answers = [said.get((clip.clip_id, name)) or "-" for name in people]
            cells = [_cell(clip, column) or "-" for column in columns]
            rows.append(
                (clip.clip_id, *answers, " ".join(cells), ", ".join(clip.concepts))
            )
        label = "label" if columns == [LEVEL] else " ".join(columns)
        return table(("clip", *people, label, "concepts"), rows)

    @property
    def _summary(self) -> str:
        """How many clips have which value, in each column."""
        parts = [count(len(self.manifest), "clip")]
        for column in (LEVEL, *self._own_columns):
            if column == COMMENT or column not in self.projected.projection.columns:
                continue
            cells = [_cell(clip, column) for clip in self.manifest]
            words = LEVELS if column == LEVEL else sorted({*cells} - {""})
            counts = [f"{word} {cells.count(word)}" for word in words]
            counts.append(f"no label {cells.count('')}")
            parts.append(f"{column}: {', '.join(counts)}")
        return "; ".join(parts)

    @property
    def notes(self) -> list[str]:
        """How the labels were made, and the next command."""
        notes = [] if self.path else [self._summary]
        notes += self.manifest.header.notes
        differing = what_differs(self.manifest)
        if differing:
            notes.append(
                f"annotators differ, so these clips have no label: {differing}"
            )
        if self.path:
            name = shell_word(self.manifest.name)
            notes.append(f"next: obygaze manifest show {name}")
        return notes


def _cell(clip: Clip, column: str) -> str:
    return clip.level if column == LEVEL else clip.extra.get(column, "")


def project_marks(
    marks: PathLike | Sequence[PathLike],
    *,
    clips: PathLike | None = None,
    every: str | float | None = None,
    threshold: str | float | Fraction = "0.2",
    orders: Mapping[str, str] | None = None,
    rule: str = "highest",
    name: str | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ProjectedLabels:
    """Turn marks in films into clips with labels.

    MARKS is a table of marks of the workspace, as `manifest import marks.eaf` writes it, or
    a file: movie_id, start_s, end_s, column, value, annotator; or a manifest of segments.

    A value counts for a clip if it covers the threshold's share of it. The highest level that
    counts is the clip's, with the concepts of its marks; so it is in columns with --order. In other
    columns the value that covers most is the clip's. Where nothing counts, the clip is EN, in other
    columns `none`, if the person has seen four fifths of it, else it has no label. Marks in the
    column `watched` say what was seen. Without any, that is the whole film, and a warning says so;
    but of clips that were drawn, one without a mark has no label.

    Args:
        marks: One or more tables of marks.
        clips: A manifest or table of clips with times in their films.
        every: Cut the films into clips of this length instead.
        threshold: The smallest share of a clip that a value must cover to count: 0.2, 1/3.
        orders: The words of a column from the lowest: Gewalt=schwach,stark.
        rule: How one label is made of those of several people: highest, agreed, majority, mean or
            by:NAME. What each said is in a table beside.
        name: Name of the manifest to write; without it, the labels are printed.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest project coded --clips films
        obygaze manifest project coded --clips films --order Gewalt=schwach,stark -o labels
        obygaze manifest project mobygaze --every 30 -o mobygaze-30
    """
    share = as_threshold(threshold)
    words = orders_of(orders or {})
    projected = project_tables(marks, clips, every, share, words, workspace)
    manifest = labels_of(projected, rule, words)
    path = None
    if name is not None:
        path = Workspace.of(workspace).new_manifest(name)
        manifest = replace(manifest, name=path.stem)
        write_manifest(manifest, path, force=force)
    return ProjectedLabels(manifest, projected, share, path)


def labels_of(
    projected: ProjectedMarks, rule: str, orders: Orders | None = None
) -> Manifest:
    """Return clips with one label each; comments are those of all people."""
    complete = with_nothing(orders or {})
    own_orders = {column: complete[column] for column in orders or {}}
    made = labelled(projected.marked, rule, own_orders)
    answers_of: dict[str, list[tuple[str, str, float | None]]] = {}
    comments_of: dict[str, list[str]] = {}
    people = {answer.annotator for answer in projected.projection.answers}
    for answer in projected.projection.answers:
        of_clip = answers_of.setdefault(answer.clip_id, [])
        of_clip.append((answer.annotator, answer.level, answer.covered))
        text = answer.cells.get(COMMENT, "")
        if text:
            if len(people) > 1:
                text = f"{answer.annotator}: {text}"
            comments_of.setdefault(answer.clip_id, []).append(text)
    clips = []
    for clip in made:
        shares = [
            covered
            for person, level, covered in answers_of.get(clip.clip_id, ())
            if covered is not None
            and level == clip.level
            and (rule == f"{BY}{person}" or not rule.startswith(BY))
        ]
        extra = {**clip.extra, COVERED: repr(round(max(shares), 12)) if shares else ""}
        if COMMENT in clip.extra:
            extra[COMMENT] = " / ".join(comments_of.get(clip.clip_id, []))
        clips.append(replace(clip, extra=extra))
    columns = tuple(dict.fromkeys((*made.columns, COVERED)))
    return replace(made, clips=tuple(clips), columns=columns)


def project_tables(
    names: PathLike | Sequence[PathLike],
    clips: PathLike | None,
    every: str | float | None,
    threshold: Fraction = DEFAULT_THRESHOLD,
    orders: Orders | None = None,
    workspace: PathLike | None = None,
) -> ProjectedMarks:
    """Read tables of marks and project them on the clips of a table, or on equal ones."""
    length_s = _length_of(clips, every)
    paths = tables_of_marks(names, workspace)
    where = ", ".join(map(str, paths))
    marks = read_marks(paths, workspace)
    if not marks.marks:
        raise FixInput("the table has no marks", where=where)
    _refuse_reserved(marks, where)
    warnings: list[str] = []
    if clips is None:
        cut = equal_clips(marks, length_s, LinkedFilms(workspace), warnings)
    else:
        cut = _clips_of(clips, workspace)
        _refuse_own_covered(cut)
    known = _with_header(cut, marks, paths)
    spans = _spans_of(known, marks)
    films = {mark.movie_id for mark in marks}
    placed = {span.clip_id for span in spans}
    without = [
        clip.clip_id
        for clip in known
        if clip.movie_id in films and clip.clip_id not in placed
    ]
    if without and not spans:
        raise FixInput(
            "the clips have no times in their films",
            where=str(clips),
            hint="--every 30, or clips with film_start_s and film_end_s",
        )
    projection = project(marks, spans, threshold, orders, are_drawn=is_drawn(cut))
    warnings += _words_without_marks(marks, orders or {})
    if not projection.answers:
        raise FixInput(
            f"no clip lies in a film with marks ({named_films(films, known.films)})",
            where=where if clips is None else str(clips),
        )
    modality = known.header.concepts
    unknown = [name for name, kind in modality.items() if kind == "unknown"]
    rest = "without a label" if is_drawn(known) else "left out"
    warnings += _warnings(projection, unknown, without, rest)
    others = films - {span.movie_id for span in spans}
    if others:
        named = named_films(others, known.films)
        warnings.append(f"no clips of films with marks: {named}")
    return ProjectedMarks(known, tuple(spans), projection, tuple(warnings))


def _spans_of(clips: Manifest, marks: Marks) -> list[ClipSpan]:
    """Return the clips whose place in their film is known."""
    places = spans_in_films(clips)
    spans = []
    for clip in clips:
        if clip.clip_id in places:
            frames = frames_of(clip.extra)
            if frames is not None:
                _refuse_another_rate(clip, frames, marks)
            place = places[clip.clip_id]
            spans.append(ClipSpan(clip.clip_id, clip.movie_id, *place, frames))
    return spans


def _refuse_another_rate(clip: Clip, frames: FrameSpan, marks: Marks) -> None:
    """Raise an error if the table of a clip counts its film at another rate than the marks."""
    rate = marks.rates.get(clip.movie_id)
    if rate is not None and frames.rate not in (None, rate):
        raise FixInput(
            f"the clips of the film {clip.movie_id} are counted at"
            f" {frame_rate_text(frames.rate)} frames per second, and its marks at"
            f" {frame_rate_text(rate)}",
            hint="correct the framerate of one of the two tables",
        )


def _words_without_marks(marks: Marks, orders: Orders) -> list[str]:
    """Return which words of an order no mark has: a step more lies between the others."""
    warnings = []
    for column, words in orders.items():
        found = {mark.value.lower() for mark in marks if mark.column == column}
        expected = [word for word in words if word != NOTHING]
        others = [repr(word) for word in expected if word.lower() not in found]
        if others:
            warnings.append(
                f"the order of {column} has {few(others)}, which no mark has"
            )
    return warnings


def _with_header(clips: Manifest, marks: Marks, paths: Sequence[Path]) -> Manifest:
    """Return clips without labels, with the concepts that the marks have."""
    marked = {mark.value for mark in marks if mark.column == CONCEPTS_COLUMN}
    modality: dict[str, str] = dict.fromkeys(sorted(marked), "unknown")
    stated = {**clips.header.concepts, **concepts_of_papers()}
    for concept in modality:
        modality[concept] = stated.get(concept, "unknown")
    own = {*columns_of_marks(marks), LEVEL, CONCEPTS_COLUMN, COVERED, DIFFERS}
    bare = []
    for clip in clips:
        extra = {name: cell for name, cell in clip.extra.items() if name not in own}
        bare.append(replace(clip, level="", concepts=(), extra=extra))
    header = Header(
        clips.header.dataset,
        modality,
        said=tuple(sorted(columns_of_marks(marks) - {WATCHED, LEVEL, CONCEPTS_COLUMN})),
        sources=tuple(map(source_of, paths)),
        video_root=clips.header.video_root,
    )
    columns = tuple(name for name in clips.columns if name not in own)
    return Manifest(clips.name, header, tuple(bare), columns)


def columns_of_marks(marks: Marks) -> set[str]:
    """Return the columns in which somebody marked something."""
    return {mark.column for mark in marks}


def _refuse_reserved(marks: Marks, where: str) -> None:
    """Raise an error for columns of marks that mean something else in a manifest."""
    taken = columns_of_marks(marks) & ({*TARGETS} - {LEVEL, CONCEPTS_COLUMN, COMMENT})
    if taken:
        raise FixInput(
            f"a column of marks cannot be called {few(sorted(taken))}: in a manifest, that is"
            " another column",
            where=where,
            hint="rename it where the marks are imported: --tier OLD=NEW",
        )


def _refuse_own_covered(clips: Manifest) -> None:
    """Raise an error for clips with words in the column that says how much of them marks cover."""
    cells = {clip.extra.get(COVERED, "") for clip in clips}
    refuse_if(
        sorted(cell for cell in cells if cell and number_of_cell(cell) is None),
        FixInput,
        f"the column {COVERED!r} gets how much of a clip marks cover, and would lose these words",
        where=clips.name,
        hint="rename it in the table of the clips, and import that again",
    )


def _clips_of(clips: PathLike, workspace: PathLike | None) -> Manifest:
    """Return the clips of a table or of a manifest."""
    path = Path(clips)
    if path.suffix in TABLE_ENDINGS:
        return csv_table.read(path, name=path.stem).manifest
    manifest = read_manifest(clips, workspace=workspace)
    if manifest.header.view != "raw":
        raise FixInput(
            f"the clips are those of the {view_words(manifest.header.view)}",
            where=manifest.name,
            hint="the manifest that this view was made of",
        )
    return manifest


def equal_clips(
    marks: Marks, seconds: Fraction, films: LinkedFilms, warnings: list[str]
) -> Manifest:
    """Return clips of equal length, cut at pictures where these are known, to each film's end.

    Pictures are known by the file of the film, or by the rate that a table states. A film without a
    file ends with its last mark. A rest that is shorter than a clip is left out.
    """
    clips: list[Clip] = []
    files: dict[str, Path] = {}
    ends = []
    rests = []
    for film, of_film in marks_by_film(marks).items():
        path = films.file_of(film)
        boundaries = films.boundaries(film)
        end_s = max(mark.end_s for mark in of_film)
        if path is not None and boundaries is not None:
            files[film] = path
            end_s = float(boundaries[-1])
        else:
            ends.append(f"{film} at {end_s:.3f} s")
        cut = _Cut(boundaries, marks.rates.get(film))
        spans = list(cut.spans(seconds, end_s))
        for start_s, stop_s in spans:
            own_id = id_of_span(film, start_s, stop_s)
            clips.append(Clip(own_id, film, start_s=start_s, end_s=stop_s))
        reached_s = spans[-1][1] if spans else 0.0
        last_s = max(
            (mark.end_s for mark in of_film if mark.column != WATCHED), default=0.0
        )
        if last_s > reached_s + cut.half_s + MARK_ROUNDING_S:
            rests.append(f"{film} from {reached_s:.3f} s")
    if ends:
        warnings.append(
            f"films end with their last mark, no file is linked: {few(ends, 3)}"
        )
    if rests:
        warnings.append(
            f"marks behind the last whole clip of a film are in no clip: {few(rests, 3)}"
        )
    if not clips:
        raise FixInput(
            "the marks span no whole clip", hint="a smaller number for --every"
        )
    return _with_files(clips, files)


def _with_files(clips: Sequence[Clip], files: Mapping[str, Path]) -> Manifest:
    """Return clips with the files of their films, where these are known."""
    root = ""
    if files:
        root = os.path.commonpath([str(path.parent) for path in files.values()])
    with_files = []
    for clip in clips:
        path = files.get(clip.movie_id)
        video = path.relative_to(root).as_posix() if path else ""
        with_files.append(replace(clip, video=video))
    header = Header("clips of equal length", video_root=root)
    return Manifest("clips", header, tuple(with_files))


@dataclass(frozen=True)
class _Cut:
    """Where a film may be cut: at its pictures, where these are known."""

    boundaries: Floats | None
    rate: Fraction | None

    def at(self, time_s: Fraction) -> float:
        """Return the place that is nearest to a time."""
        if self.boundaries is not None:
            return float(self.boundaries[nearest(self.boundaries, float(time_s))])
        if self.rate is None:
            return float(time_s)
        return float(round(time_s * self.rate) / self.rate)

    def spans(self, seconds: Fraction, end_s: float) -> Iterator[tuple[float, float]]:
        """Yield the spans of equal length from the beginning of a film to its end."""
        for number in count_from():
            after_s = (number + 1) * seconds
            start_s = self.at(number * seconds)
            stop_s = self.at(after_s)
            # Behind the last picture, all boundaries are its end.
            if max(float(after_s) - self.half_s, stop_s) > end_s + MARK_ROUNDING_S:
                return
            if start_s < stop_s:
                yield start_s, stop_s

    @property
    def half_s(self) -> float:
        """How far a place may be from a time."""
        if self.boundaries is not None:
            steps_s = [after - before for before, after in pairwise(self.boundaries)]
            return max(steps_s) / 2
        return float(1 / self.rate) / 2 if self.rate else 0.0


def _length_of(clips: PathLike | None, every: str | float | None) -> Fraction:
    """Return the length of clips in seconds; 0 where they are those of a table."""
    if (clips is None) == (every is None):
        raise FixUsage("expected one of --clips and --every", hint="--every 30")
    if clips is not None:
        return Fraction(0)
    if not _LENGTH.fullmatch(str(every)):
        raise FixUsage(
            f"--every must be a number of seconds, got {every!r}", hint="--every 30"
        )
    return Fraction(str(every))


def named_films(films: Collection[str], others: Collection[str]) -> str:
    """Return films as text, each with a film of others that has nearly its name."""
    return few([f"{film}{near(film, others)}" for film in sorted(films)], 5)


def _warnings(
    projection: Projection, unknown: Sequence[str], without: Sequence[str], rest: str
) -> list[str]:
    """Return what is odd about a projection; `rest` says what becomes of clips not projected."""
    warnings = []
    if unknown:
        warnings.append(f"unknown concepts, kept unchanged: {few(unknown, 5)}")
    if projection.n_without_level:
        n_marks = count(projection.n_without_level, "mark")
        warnings.append(
            f"{n_marks} of a concept where the annotator marked no level, left out"
        )
    if projection.assumed:
        named = few(
            [
                f"{name} in {film} ({column})"
                for film, name, column in sorted(projection.assumed)
            ],
            3,
        )
        warnings.append(
            "nothing says what was watched, so the whole film counts as watched, and clips without"
            f" a mark as having nothing: {named}"
        )
    if projection.unseen:
        n_clips = count(len(projection.unseen), "clip")
        warnings.append(
            f"{n_clips} in films without marks, {rest}: {few(projection.unseen, 5)}"
        )
    if without:
        n_clips = count(len(without), "clip")
        warnings.append(
            f"{n_clips} without a place in the film, {rest}: {few(without, 5)}"
        )
    return warnings
