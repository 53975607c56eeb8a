"""`obygaze marks clips`: turn marks into clips with labels."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil
from pathlib import Path
from typing import Any

from obygaze.films.marks import (
    COMMENT,
    CONCEPTS_COLUMN,
    FOLDER,
    LEVEL,
    NOTHING,
    WATCHED,
    Marks,
    marks_by_film,
    read_marks,
    table_of_marks,
)
from obygaze.films.pictures import Floats, LinkedFilms, nearest
from obygaze.films.projection import (
    MARK_ROUNDING_S,
    ClipSpan,
    Orders,
    Projection,
    as_threshold,
    complete_orders,
    project,
)
from obygaze.films.sampling import is_drawn, sampled_films
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import TABLE_ENDINGS
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest import read_manifest
from obygaze_features.manifest.adapters import csv_table, source_file
from obygaze_features.manifest.annotators import (
    HIGHEST,
    apply_rule,
    label_notes,
    parse_orders,
)
from obygaze_features.manifest.film_names import film_options, likely_names
from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.history import (
    command_line,
    manifest_word,
    with_command,
)
from obygaze_features.manifest.io import read_header_of, saved_facts, write_manifest
from obygaze_features.manifest.link import find_videos, manifests_with_videos
from obygaze_features.manifest.merging import licence_of_all, text_of_all
from obygaze_features.manifest.model import (
    DIFFERS,
    LEVELS,
    TARGETS,
    Clip,
    Header,
    Manifest,
    disputed_names,
    view_words,
)
from obygaze_features.manifest.spans import stated_frames
from obygaze_features.manifest.times import spans_in_films
from obygaze_features.manifest.vocabulary import concepts as concepts_of_papers
from obygaze_features.manifest.windows import span_id

_LENGTH = re.compile(r"(?=.*[1-9])[0-9]{1,6}(\.[0-9]{1,6})?")


@dataclass(frozen=True)
class ProjectedMarks:
    """Clips with the annotations of each annotator, without labels; and warnings.

    Clips without times in a film, and clips of films without marks, are excluded. But if the clips
    were sampled by `manifest sample`, such clips are kept, and count as not judged.
    """

    manifest: Manifest
    warnings: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ProjectedLabels:
    """The manifest of clips with the labels that a rule makes of the annotations."""

    manifest: Manifest
    path: Path
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the facts of the saved manifest, and the ids of the clips without a level."""
        unlabelled = [clip.clip_id for clip in self.manifest if not clip.level]
        return {**saved_facts(self.manifest, self.path), "unlabelled": unlabelled}

    def __str__(self) -> str:
        """Return the number of clips with each value, for each column."""
        parts = [count(len(self.manifest), "clip")]
        said = self.manifest.header.said or ()
        for column in (LEVEL, *(name for name in said if name != COMMENT)):
            cells = ["|".join(clip.values(column)) for clip in self.manifest]
            if column == LEVEL and not any(cells):
                continue
            words = LEVELS if column == LEVEL else sorted({*cells} - {""})
            counts = [f"{word} {cells.count(word)}" for word in words]
            counts.append(f"no label {cells.count('')}")
            parts.append(f"{column}: {', '.join(counts)}")
        return f"{self.path}: {'; '.join(parts)}"

    @property
    def notes(self) -> list[str]:
        """How the labels were made, and the next command."""
        notes = label_notes(self.manifest)
        disputed: set[str] = set()
        for clip in self.manifest:
            disputed.update(disputed_names(clip))
        # The rule highest leaves only columns without an order open.
        unordered = sorted(disputed & {*(self.manifest.header.said or ())})
        if self.manifest.header.rule == HIGHEST and unordered:
            notes.append(
                f"without an order, so only with labels that annotators agree on: {few(unordered)};"
                f" for the highest, pass --order {shell_word(unordered[0])}=WORDS, from the lowest"
            )
        return [
            *notes,
            f"next: obygaze manifest show {shell_word(self.manifest.name)}",
        ]


def project_marks(
    marks: PathLike | Sequence[PathLike],
    name: str,
    *,
    clips: PathLike | None = None,
    every: str | float | None = None,
    threshold: str | float | Fraction = "0.2",
    orders: Mapping[str, str] | None = None,
    rule: str = "highest",
    columns: Sequence[str] = (),
    force: bool = False,
    workspace: PathLike | None = None,
) -> ProjectedLabels:
    """Turn marks in films into clips with labels.

    The marks are the name of a table of marks in the workspace, which `og.marks.import_` writes; or
    a file with the columns movie_id, start_s, end_s, column, value, annotator; or a manifest, such
    as that of a spreadsheet with a row for each mark. Without annotators, all its rows are one
    person's. An empty cell, or `?`, says nothing of its span: a clip there gets no label, unless
    another mark gives it one.

    A value counts for a clip if the share of the clip that it covers is at least the threshold. The
    clip gets the highest level that counts, and the concepts of its marks. In a column with an
    order, the clip gets the highest value that counts; in a column without it, the value that
    covers most of the clip. A clip for which no value counts has the level EN, and `none` in each
    further column, if the annotator has seen at least four fifths of it; otherwise it has no label.
    In a column of several numbers without an order, it has no value.
    Marks in the column `watched` state what was seen. Without such marks, the whole film counts as
    seen, and a warning says so; but a clip of `og.manifest.sample` without a mark has no label.

    Args:
        marks: One or more tables of marks, or manifests.
        name: Name of the manifest to write.
        clips: Manifest or table of clips with times in their films.
        every: Length of equal clips in seconds, instead of `clips`.
        threshold: The smallest share of a clip that a value must cover to count: 0.2, 1/3.
        orders: The words of a column from the lowest: Gewalt=schwach,stark.
        rule: Rule for one label from several annotators: highest, agreed, majority, mean or
            by:NAME. A second table has the labels of each annotator.
        columns: The columns of manifests whose cells are marks. They must be named if a manifest
            has columns of its own.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    share = as_threshold(threshold)
    words = parse_orders(orders or {})
    names = [marks] if isinstance(marks, str | os.PathLike) else marks
    paths = [table_of_marks(table, workspace) for table in names]
    projected = project_tables(paths, clips, every, share, words, columns, workspace)
    complete = complete_orders(words)
    own_orders = {column: complete[column] for column in words}
    manifest = apply_rule(projected.manifest, rule, own_orders)
    path = Workspace.of(workspace).new_manifest(name)
    manifest = replace(manifest, name=path.stem)
    options: dict[str, Any] = {
        "--every": every,
        "--threshold": threshold,
        "--order": orders,
    }
    options |= {"--rule": rule, "--column": [*columns], "-o": path.stem}
    manifest = _with_command(manifest, paths, clips, options, workspace)
    write_manifest(manifest, path, force=force)
    return ProjectedLabels(manifest, path, projected.warnings)


def _with_command(
    manifest: Manifest,
    paths: Sequence[Path],
    clips: PathLike | None,
    options: Mapping[str, Any],
    workspace: PathLike | None,
) -> Manifest:
    """Return projected labels with the command that made them, and those of what it read."""
    here = Workspace.of(workspace)
    folders = [here.folder(name).absolute() for name in (FOLDER, "manifests")]
    words: list[str | Path] = []
    parents = []
    for path in paths:
        words.append(path.stem if path.parent.absolute() in folders else path)
        if read_header_of(path) is not None:
            parents.append(read_manifest(path))
    of_clips: str | Path | None = None
    if clips is not None:
        of_clips = Path(clips)
        if of_clips.suffix.lower() not in TABLE_ENDINGS:
            parents.append(read_manifest(clips, workspace=workspace))
            of_clips = manifest_word(clips, workspace)
    # A linked film gives the times of its pictures.
    for linked in manifests_with_videos(here):
        is_read = not set(manifest.films).isdisjoint(linked.films)
        if is_read and linked.name != manifest.name:
            parents.append(linked)
    given = {"--clips": of_clips, **options}
    command = command_line("marks clips", words, given, workspace)
    return with_command(manifest, command, *parents)


def project_tables(
    paths: Sequence[Path],
    clips: PathLike | None,
    every: str | float | None,
    threshold: Fraction,
    orders: Orders,
    columns: Sequence[str],
    workspace: PathLike | None,
) -> ProjectedMarks:
    """Read tables of marks, and project the marks on clips.

    The clips are those of a table or manifest (`clips`), or clips of equal length (`every`).
    """
    length_s = _clip_length(clips, every)
    where = ", ".join(map(str, paths))
    marks = read_marks(paths, workspace, columns)
    if not marks.marks:
        raise FixInput("the table has no marks", where=where)
    warnings: list[str] = []
    if clips is None:
        cut = equal_clips(marks, length_s, LinkedFilms(workspace), warnings)
    else:
        cut = _read_clips(clips, workspace)
    bare = _without_labels(cut, marks, paths)
    spans = _clip_spans(bare, marks)
    of_sample = sampled_films(bare)
    projection = project(marks, spans, threshold, orders, sampled_films=of_sample)
    if not projection.answers:
        marked = sorted({mark.movie_id for mark in marks})
        films = few(marked, 5)
        options = _film_options(marked, bare.films)
        raise FixInput(
            f"expected clips with times in a film with marks ({films}), got none",
            where=where if clips is None else str(clips),
            hint=f"if a film has another name in the clips, import the marks with {options}"
            if options
            else "pass --every 30, or clips with the columns film_start_s and film_end_s; or cut"
            " whole films into clips: obygaze manifest windows FOLDER",
        )
    if clips is not None:
        coded = [span for span in spans if span.movie_id not in of_sample]
        outside = _marks_outside(marks, coded)
        if outside:
            warnings.append(f"marks in no clip are ignored: {few(outside, 3)}")
    warnings += _warnings(projection, bare, marks, orders)
    said = [
        one
        for one in projection.answers
        if one.level or one.concepts or any(one.own.values())
    ]
    if not said:
        raise FixInput("these marks give no clip a label", where=where)
    answered = {one.clip_id for one in projection.answers}
    has_sample = is_drawn(bare)
    kept = [clip for clip in bare if has_sample or clip.clip_id in answered]
    manifest = replace(bare, clips=tuple(kept), annotations=tuple(said))
    return ProjectedMarks(manifest, tuple(warnings))


def project_moments(path: Path, workspace: PathLike | None) -> ProjectedMarks:
    """Read a table of marks, and cut the films wherever a mark starts or ends.

    Each annotator has one annotation for each of these clips, as no mark changes inside it.
    """
    marks = read_marks([path], workspace)
    if not marks.marks:
        raise FixInput("the table has no marks", where=str(path))
    warnings: list[str] = []
    cut = clips_between_marks(marks, LinkedFilms(workspace), warnings)
    bare = _without_labels(cut, marks, [path])
    projection = project(marks, _clip_spans(bare, marks), are_moments=True)
    warnings += _warnings(projection, bare, marks, {})
    manifest = replace(bare, annotations=tuple(projection.answers))
    return ProjectedMarks(manifest, tuple(warnings))


def _clip_spans(clips: Manifest, marks: Marks) -> list[ClipSpan]:
    """Return the clips whose times in their film are known.

    Raise an error if the clips count frames of a film at a different rate than its marks.
    """
    places = spans_in_films(clips)
    spans = []
    for clip in clips:
        if clip.clip_id not in places:
            continue
        frames = stated_frames(clip.extra)
        rate = marks.rates.get(clip.movie_id)
        if frames and rate is not None and frames.rate not in (None, rate):
            raise FixInput(
                f"the clips of the film {clip.movie_id}: expected"
                f" {frame_rate_text(rate)} frames per second as in the marks, got"
                f" {frame_rate_text(frames.rate)}",
                hint="correct the framerate of one of the two tables",
            )
        place = places[clip.clip_id]
        spans.append(ClipSpan(clip.clip_id, clip.movie_id, *place, frames or ()))
    return spans


def _marks_outside(marks: Marks, spans: Sequence[ClipSpan]) -> list[str]:
    """Return the marks that overlap no clip, in films that have clips with times."""
    spans_of: dict[str, list[ClipSpan]] = {}
    for span in sorted(spans, key=lambda one: one.start_s):
        spans_of.setdefault(span.movie_id, []).append(span)
    outside = []
    marks_of = marks_by_film(marks)
    for film, of_film in spans_of.items():
        starts_s = [span.start_s for span in of_film]
        # The last end of the first clips, by their number.
        ends_s = [*accumulate((span.end_s for span in of_film), max, initial=0.0)]
        for mark in marks_of.get(film, ()):
            n_before = bisect_left(starts_s, mark.end_s - MARK_ROUNDING_S)
            if mark.column == WATCHED or not mark.value:
                continue
            if ends_s[n_before] <= mark.start_s + MARK_ROUNDING_S:
                outside.append(f"{film} at {mark.start_s:.3f} s")
    return [*dict.fromkeys(outside)]


def _without_labels(clips: Manifest, marks: Marks, paths: Sequence[Path]) -> Manifest:
    """Return the clips without labels; the header lists the columns and concepts of the marks.

    The licence and the citation are those of the clips and of the manifests with marks.
    Raise an error if a manifest uses the name of a column of the marks for something else.
    """
    columns = {mark.column for mark in marks}
    refuse_if(
        sorted(columns & ({*TARGETS} - {LEVEL, CONCEPTS_COLUMN, COMMENT})),
        FixInput,
        "columns of marks have names that a manifest reserves",
        where=", ".join(map(str, paths)),
        hint="rename the columns in the import of the marks: --tier OLD=NEW",
    )
    stated = {**clips.header.concepts, **concepts_of_papers()}
    concepts = {mark.value for mark in marks if mark.column == CONCEPTS_COLUMN}
    headers = [(path.stem, read_header_of(path) or Header("")) for path in paths]
    licences = [(name, one.licence) for name, one in headers]
    # The labels are those of the marks, so clips need not state a licence.
    if clips.header.licence:
        licences.insert(0, (clips.name, clips.header.licence))
    headers.insert(0, (clips.name, clips.header))
    citations = [(name, one.citation) for name, one in headers if one.citation]
    header = Header(
        clips.header.dataset,
        {concept: stated.get(concept, "unknown") for concept in sorted(concepts)},
        said=tuple(sorted(columns - {WATCHED, LEVEL, CONCEPTS_COLUMN})),
        licence=licence_of_all(licences),
        citation=text_of_all(citations),
        sources=tuple(map(source_file, paths)),
        video_root=clips.header.video_root,
    )
    made = {*columns, LEVEL, CONCEPTS_COLUMN, DIFFERS}
    bare = []
    for clip in clips:
        extra = {name: cell for name, cell in clip.extra.items() if name not in made}
        bare.append(replace(clip, level="", concepts=(), extra=extra))
    kept = tuple(name for name in clips.columns if name not in made)
    return Manifest(clips.name, header, tuple(bare), kept)


def _read_clips(clips: PathLike, workspace: PathLike | None) -> Manifest:
    """Return the clips of a table or of a manifest."""
    path = Path(clips)
    if path.suffix.lower() in TABLE_ENDINGS:
        return csv_table.read(path, name=path.stem).manifest
    if path.is_dir() and not Workspace.of(workspace).manifest(str(clips)).is_file():
        films = shell_word(path) if find_videos(path) else "FOLDER_OF_FILMS"
        raise FixUsage(
            "--clips: expected a manifest or a table of clips, got a folder",
            where=str(clips),
            hint="cut whole films into clips: obygaze manifest windows"
            f" {films} --seconds 2 -o NAME; or pass --every 30 in place of --clips",
        )
    manifest = read_manifest(clips, workspace=workspace)
    if manifest.header.view != "raw":
        raise FixInput(
            f"expected a manifest in the raw view, got the {view_words(manifest.header.view)}",
            where=manifest.name,
        )
    return manifest


# ---- clips of equal length -----------------------------------------------------------------------


def equal_clips(
    marks: Marks, seconds: Fraction, films: LinkedFilms, warnings: list[str]
) -> Manifest:
    """Return clips of equal length in each film, cut at boundaries of pictures if these are known.

    The times of pictures come from the file of the film, or from the frame rate in a table. A film
    without a file ends with its last mark. If the end of a film is too short for a whole clip, no
    clip has this end.
    """
    clips: list[Clip] = []
    ends = []
    rests = []
    for film, of_film in marks_by_film(marks).items():
        boundaries = films.boundaries(film)
        end_s = max(mark.end_s for mark in of_film)
        rate = marks.rates.get(film)
        if boundaries is not None:
            end_s = boundaries[-1]
        else:
            ends.append(f"{film} at {end_s:.3f} s")
            if rate is not None:
                numbers = range(ceil(end_s * rate) + 1)
                boundaries = [n * rate.denominator / rate.numerator for n in numbers]
        half_s = _half_picture_s(boundaries)
        reached_s = 0.0
        for start_s, stop_s in pairwise(_cuts(boundaries, half_s, seconds, end_s)):
            if start_s < stop_s:
                own_id = span_id(film, start_s, stop_s)
                clips.append(Clip(own_id, film, start_s=start_s, end_s=stop_s))
                reached_s = stop_s
        ends_s = [m.end_s for m in of_film if m.column != WATCHED and m.value]
        if max(ends_s, default=0.0) > reached_s + half_s + MARK_ROUNDING_S:
            rests.append(f"{film} from {reached_s:.3f} s")
    _warn_of_ends(ends, warnings)
    if rests:
        warnings.append(
            f"marks after the last whole clip of a film are ignored: {few(rests, 3)}"
        )
    if not clips:
        raise FixInput("no whole clip of this length fits the marks")
    return Manifest("clips", Header("clips of equal length"), tuple(clips))


def clips_between_marks(
    marks: Marks, films: LinkedFilms, warnings: list[str]
) -> Manifest:
    """Return clips that start and end wherever a mark of any annotator starts or ends.

    Together they cover each film: the pictures of its file, or without a file all up to the last
    mark.
    """
    clips: list[Clip] = []
    ends = []
    for film, of_film in marks_by_film(marks).items():
        boundaries = films.boundaries(film)
        if boundaries is None:
            first_s = 0.0
            last_s = max(mark.end_s for mark in of_film)
            ends.append(f"{film} at {last_s:.3f} s")
        else:
            first_s = boundaries[0]
            last_s = boundaries[-1]
        edges_s = {first_s, last_s}
        for mark in of_film:
            edges_s |= {time_s for time_s in mark[1:3] if first_s < time_s < last_s}
        for start_s, end_s in pairwise(sorted(edges_s)):
            clips.append(Clip(str(len(clips)), film, start_s=start_s, end_s=end_s))
    _warn_of_ends(ends, warnings)
    return Manifest("clips", Header("clips between marks"), tuple(clips))


def _warn_of_ends(ends: Sequence[str], warnings: list[str]) -> None:
    """Add a warning about films whose end is not known."""
    if ends:
        warnings.append(
            f"films without a linked file, cut up to the last mark: {few(ends, 3)}"
        )


def _half_picture_s(boundaries: Floats | None) -> float:
    """Return half the length of the longest picture, in seconds, or 0 without boundaries.

    No time within the film is further than this from the nearest boundary of a picture.
    """
    steps_s = [after - before for before, after in pairwise(boundaries or ())]
    return max(steps_s, default=0.0) / 2


def _cuts(
    boundaries: Floats | None, half_s: float, seconds: Fraction, end_s: float
) -> list[float]:
    """Return the boundaries of clips of equal length, from the start of a film to its end."""
    cuts: list[float] = []
    while True:
        time_s = float(len(cuts) * seconds)
        cut_s = time_s
        if boundaries is not None:
            cut_s = boundaries[nearest(boundaries, time_s)]
        # For every time after the last picture, the nearest boundary is the end of this picture.
        if max(time_s - half_s, cut_s) > end_s + MARK_ROUNDING_S:
            return cuts
        cuts.append(cut_s)


def _clip_length(clips: PathLike | None, every: str | float | None) -> Fraction:
    """Return the length of clips in seconds, or 0 for the clips of a table."""
    if (clips is None) == (every is None):
        raise FixUsage(
            "expected either --clips or --every",
            hint="pass --every 30 for clips of 30 s",
        )
    if clips is not None:
        return Fraction(0)
    if not _LENGTH.fullmatch(str(every)):
        raise FixUsage(f"--every must be a positive number of seconds, got {every!r}")
    return Fraction(str(every))


def _warnings(
    projection: Projection, clips: Manifest, marks: Marks, orders: Orders
) -> list[str]:
    """Return warnings on what was assumed about marks and clips, and on what is excluded."""
    marked = {mark.movie_id for mark in marks}
    placed = {*projection.unseen, *(one.clip_id for one in projection.answers)}
    in_marked = [clip.clip_id for clip in clips if clip.movie_id in marked]
    without = [name for name in in_marked if name not in placed]
    modality = clips.header.concepts
    assumed = []
    for film, name, column in sorted(projection.assumed):
        assumed.append(f"{name} in {film} ({column})")
    outside = []
    for (film, name, column), outside_s in sorted(projection.outside_s.items()):
        outside.append(f"{name} in {film} ({column}, {outside_s:.3f} s)")
    rest = "without a label" if is_drawn(clips) else "excluded"
    facts: dict[str, Sequence[str]] = {
        "unknown concepts, kept unchanged": [
            name for name, kind in modality.items() if kind == "unknown"
        ],
        f"without a mark in {WATCHED}, the whole film counts as watched, and a clip without a mark"
        f" gets {NOTHING} (EN in the column level)": assumed,
        f"marks outside the marks in {WATCHED} count as watched too": outside,
        f"clips in films without marks, {rest}": projection.unseen,
        f"clips without times in the film, {rest}": without,
        "films with marks and without clips": sorted(marked - {*clips.films}),
    }
    facts[
        "a clip without a mark has no value in a column of numbers (if the numbers stand for words,"
        " import the marks with --word NUMBER=WORD)"
    ] = sorted(projection.without_number)
    for column, words in orders.items():
        said = {mark.value.lower() for mark in marks if mark.column == column}
        others = [word for word in words if word.lower() not in {*said, NOTHING}]
        facts[f"--order {column} has words that no mark has"] = others
    warnings = []
    for sentence, names in facts.items():
        if names:
            warnings.append(f"{sentence}: {few(names, 3)}")
    options = _film_options(marked, clips.films)
    if options:
        warnings.append(
            f"if films of marks have another name in the clips, import the marks with {options}"
        )
    if projection.n_without_level:
        n_marks = count(projection.n_without_level, "mark")
        warnings.append(
            f"ignored: {n_marks} of a concept without a level of the same annotator"
        )
    return warnings


def _film_options(marked: Collection[str], films: Collection[str]) -> str:
    """Return options that name marked films as the clips do, or "" if no film may be meant."""
    alone = sorted({*marked} - {*films})
    unmarked = sorted({*films} - {*marked})
    if not (alone and unmarked):
        return ""
    likely = likely_names(alone, unmarked)
    n_names = Counter(likely.values())
    only = {name: film for name, film in likely.items() if n_names[film] == 1}
    return film_options(only) or "--film NAME=FILM"
