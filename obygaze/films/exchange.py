"""Marks and scores in files of other programs: ELAN, WebVTT, tables of marks.

Times are exact fractions of frames. Milliseconds are rounded up, so that a player that seeks to
one shows the frame; reading takes the nearest frame.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Literal

from obygaze.films.clip_spans import warn_of_clips_in_a_row
from obygaze.films.elan import UNLINKED, ElanDocument, write_elan
from obygaze.films.film_rates import (
    FilmRates,
    Fps,
    compare_with_video,
    video_of_film,
)
from obygaze.films.mark_tables import (
    WATCHED,
    FilmSegments,
    ReadMark,
    Segment,
    SourceFiles,
    concept_of,
    own_tables,
    plain,
    read_marks,
)
from obygaze.films.predictions import read_predictions
from obygaze.films.tiers import Tier, TierMapping, draft_of_tiers, read_tier_mapping
from obygaze.films.vocabulary import modalities_of, unknown_concepts
from obygaze.films.vtt import read_vtt, write_vtt
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.file_names import composed
from obygaze_features.core.files import TABLE_ENDINGS, write_all_new
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import number_of_cell, open_file, read_table
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.core.written_tables import write_table
from obygaze_features.manifest import read_manifest
from obygaze_features.manifest.adapters import ImportedManifest, source_of
from obygaze_features.manifest.adapters.table_mapping import (
    draft_hint,
    words_of_levels,
    write_draft,
    write_mapping_file,
)
from obygaze_features.manifest.frame_rate import frame_rate_text, seconds_of_frames
from obygaze_features.manifest.io import (
    annotations_to_csv,
    annotators_of,
    as_id,
    remove_annotations,
    toml_lines,
)
from obygaze_features.manifest.listing import TITLE
from obygaze_features.manifest.model import (
    LEVELS,
    Clip,
    Header,
    Manifest,
    ascii_id,
    by_film,
    require_films,
    with_columns_of,
)
from obygaze_features.manifest.spans import FILM_TIMES
from obygaze_features.manifest.spelling import Spelling
from obygaze_features.manifest.times import (
    IN_A_ROW,
    film_rate,
    frames_between,
    times_of_films,
)
from obygaze_features.manifest.vocabulary import concepts

FileFormat = Literal["elan", "vtt"]
ELAN = ".eaf"
VTT = ".vtt"
ENDINGS: Mapping[FileFormat, str] = {"elan": ELAN, "vtt": VTT}
EXTRA = ("annotator", "start_frame", "end_frame", "framerate", "comment")
# The columns of a manifest or a table of marks that files of marks have, or do without: times and
# ids of marks are made anew.
_KEPT = (
    *("clip_id", "movie_id", "start_s", "end_s", *FILM_TIMES, "level", "concepts"),
    *(*EXTRA, "when", "mark"),
)
MOST_LETTERS = 28  # of the name of a class or concept in a subtitle
_SCORE = re.compile(r"score|cosine|p:.*|score:.*")
Marked = tuple[str, str, str, tuple[str, ...], str]


def films_of(
    manifest: Manifest,
    predictions: Path | None = None,
    *,
    fps: Fps | FilmRates = None,
) -> tuple[list[FilmSegments], list[str]]:
    """Return the segments of each film, and the clips left out because they have no times in it.

    `predictions`, a table with clip_id and scores, takes the place of levels and concepts. `fps`
    is the frame rate of films without a column `framerate` and without a video.
    """
    rates = fps if isinstance(fps, FilmRates) else FilmRates(fps, Workspace.of(None))
    films: dict[str, FilmSegments] = {}
    clips_of_film = by_film(manifest)
    films_of_clips = [clip.movie_id for clip in manifest]
    require_films(films_of_clips, manifest.name, "clips are segments of no film")
    times_of_film = times_of_films(manifest)
    without_times: list[str] = []
    marked: Iterable[Marked] = _labelled(manifest)
    if predictions is not None:
        marked = _predicted(manifest, predictions)
    for clip_id, annotator, level, names, comment in marked:
        movie_id = manifest[clip_id].movie_id
        times = times_of_film[movie_id]
        if times.unknown or clip_id not in times.spans:
            without_times.append(clip_id)
            continue
        if movie_id not in films:
            video = video_of_film(times, manifest.header.video_root)
            rate = film_rate(clips_of_film[movie_id])
            if rate is None:
                rate = rates.required(movie_id, manifest.name, video)
            else:
                rates.refuse_other(movie_id, rate, "its manifest", manifest.name)
            times_of_film[movie_id] = replace(times, rate=rate)
            video = video or rates.video_of(movie_id, rate)
            films[movie_id] = FilmSegments(movie_id, rate, video)
        first, last = times_of_film[movie_id].frames_of(clip_id) or (0, 0)
        concepts_marked = tuple(dict.fromkeys(plain(name) for name in names))
        segment = Segment(
            movie_id=movie_id,
            annotator=plain(annotator),
            start_frame=first,
            end_frame=max(first, last),
            level=level,
            concepts=concepts_marked,
            comment=plain(comment),
        )
        film = films[movie_id]
        last = segment.end_frame
        compare_with_video(movie_id, last, film.video, film.fps, manifest.name)
        film.segments.append(segment)
    if not films:
        raise _nothing_to_export(manifest, without_times)
    warn_of_clips_in_a_row(
        [name for name in films if times_of_film[name].axis == IN_A_ROW]
    )
    return list(films.values()), without_times


def _nothing_to_export(manifest: Manifest, without_times: Sequence[str]) -> FixInput:
    """Return the error for a manifest without a clip that can be exported, with the cause."""
    if without_times:
        return FixInput(
            f"nothing to export: {count(len(without_times), 'clip')} without times in a film",
            where=manifest.name,
        )
    return FixInput(
        "nothing to export: no clip has a level or a concept",
        where=manifest.name,
        hint="--predictions TABLE, for what a model says of the clips; levels are those of a table:"
        " obygaze manifest import TABLE --map level=COLUMN",
    )


def _labelled(manifest: Manifest) -> Iterator[Marked]:
    """Yield the clips with labels: clip, annotator, level, concepts, comment."""
    for clip in manifest:
        who = clip.extra.get("annotator", "")
        comment = clip.extra.get("comment", "")
        if who or clip.level or clip.concepts:
            annotator = who or manifest.name
            yield clip.clip_id, annotator, clip.level, clip.concepts, comment


def _predicted(manifest: Manifest, predictions: Path) -> list[Marked]:
    """Return the rows of a table of predictions: the annotator is the model, scores are comments.

    What is said of each row of a clip is one mark.
    """
    table = read_predictions(manifest, predictions)
    scored = [name for name in table.columns if _SCORE.fullmatch(name)]
    if not scored:
        # Concept vectors have nothing else.
        scored = [name for name in table.columns if name.startswith("margin:")]
    score_names = {name: _cut(name) for name in scored}
    if len(scored) == 1 and scored[0].startswith("score:"):
        score_names[scored[0]] = "score"  # the decision names the task
    marked: dict[Marked, None] = {}
    for clip, model, row in table.clips:
        scores = [
            f"{score_names[name]} {_short(row[name])}" for name in scored if row[name]
        ]
        # Whether the model has seen the clip, or others of its film.
        facts = [row.cells.get("basis", ""), *scores]
        decision = row.cells.get("decision", "")
        # Words that are like levels, as `sure` and `not sure`, may be those of another column.
        level = decision if decision in LEVELS else ""
        if decision and not level:
            facts.insert(0, f"decision {_cut(decision)}")
        mark = (clip.clip_id, model, level, (), ", ".join(filter(None, facts)))
        marked[mark] = None
    return list(marked)


def exported_files(
    films: Sequence[FilmSegments], kind: str, folder: Path
) -> dict[Path, bytes]:
    """Return the files of films with their contents, for ELAN or as WebVTT."""
    files: dict[Path, bytes] = {}
    film_of_name: dict[str, str] = {}
    for film in films:
        if film.movie_id != Path(film.movie_id).name or "\\" in film.movie_id:
            raise FixInput(
                f"the film {film.movie_id!r} cannot be the name of a file",
            )
        name = film.movie_id
        # Players take subtitles that are called as the video.
        if film.video and as_id(film.video.stem) == film.movie_id:
            name = film.video.stem
        first = film_of_name.setdefault(name, film.movie_id)
        if first != film.movie_id:
            raise FixInput(
                f"{first!r} and {film.movie_id!r} are one film, and would have one file"
                f" {name!r}",
                hint="write the name of the film in one way",
            )
        if kind == "elan":
            path = folder / f"{name}{ELAN}"
            files[path] = write_elan(film, _relative_path(film.video, folder))
        elif film.marks:
            files[folder / f"{name}{VTT}"] = write_vtt(film)
    return files


def films_of_marks(table: Path, fps: FilmRates) -> list[FilmSegments]:
    """Return the segments of each film of a table of marks, with what was watched."""
    marks = read_marks(table, fps=fps)
    films: dict[str, FilmSegments] = {}
    for segment in marks.segments:
        film = segment.movie_id
        if film not in films:
            rate = marks.rate_of(film)
            films[film] = FilmSegments(film, rate, fps.video_of(film, rate))
        films[film].segments.append(segment)
    return list(films.values())


def _relative_path(video: Path | None, folder: Path) -> str:
    """Return the path of a video as it is seen from a folder, in the form of ELAN."""
    if video is None:
        return ""
    try:
        path = Path(os.path.relpath(video.resolve(), folder.resolve())).as_posix()
    except ValueError:
        path = video.name  # on another drive of Windows: no path leads there
    return path if path.startswith("../") else f"./{path}"


def _cut(name: str) -> str:
    """Return the beginning of a name, as it is read in a subtitle: classes may be expressions."""
    return name if len(name) <= MOST_LETTERS else f"{name[:MOST_LETTERS]}..."


def _short(cell: str) -> str:
    """Return a score with four digits, as it is read in a subtitle."""
    number = number_of_cell(cell)
    return cell if number is None else f"{number:.4g}"


@dataclass(frozen=True)
class ExportedSegments:
    """The files of an export, and what they do not have.

    Attributes:
        files: The files.
        without_times: The clips that are left out, as nobody knows where they are.
        n_watched: The segments that are left out because they were only watched.
        left_out: What the files do not say of the manifest.
        changed: A sentence if predictions are those of a run with other labels or clips, else "".
        of_rates: A sentence if one given rate was used for several films.
        mapping: A sentence if an import of the table needs a mapping that says them, else "".
    """

    files: tuple[Path, ...]
    without_times: tuple[str, ...] = ()
    n_watched: int = 0
    left_out: tuple[str, ...] = ()
    changed: str = ""
    of_rates: tuple[str, ...] = ()
    mapping: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the files, and what is left out."""
        return {
            "written": [str(path) for path in self.files],
            "without_times": list(self.without_times),
            "watched_left_out": self.n_watched,
            "left_out": list(self.left_out),
            "changed": self.changed,
        }

    def __str__(self) -> str:
        return "\n".join(map(str, self.files))

    @property
    def warnings(self) -> list[str]:
        """What is left out."""
        sentences = [*self.of_rates]
        if self.without_times:
            n_clips = count(len(self.without_times), "clip")
            sentences.append(f"{n_clips} without times: {few(self.without_times, 5)}")
        if self.n_watched:
            n_segments = count(self.n_watched, "segment")
            sentences.append(
                f"WebVTT has no place for what was watched: {n_segments} left out; elan and csv"
                " keep this"
            )
        if self.left_out:
            sentences.append(f"the files do not say: {', '.join(self.left_out)}")
        if self.mapping:
            sentences.append(self.mapping)
        if self.changed:
            sentences.append(self.changed.removesuffix("."))
        return sentences


def export_table(
    manifest: PathLike | Manifest,
    output: Path,
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedSegments:
    """Write all clips of a manifest as a table, and beside it what annotators say."""
    marked = read_manifest(manifest, workspace=workspace)
    # Windows have the rate of their film, which is no column of their manifest.
    columns = with_columns_of(marked.clips, marked.columns)
    cells = replace(marked, columns=columns).cells_by_column()
    said = annotations_to_csv(marked.annotations)
    beside = {annotators_of(output): said} if said else {}
    remove_annotations(beside, output, force=force)
    path = write_table(output, cells, force=force)
    write_all_new(beside, force=force)
    left_out = _header_left_out(marked.header)
    if marked.header.unit != "clip":
        left_out += (f"that the rows are {marked.header.unit}s",)
    mapping = _mapping_of_header(marked.header)
    return ExportedSegments((path, *beside), left_out=left_out, mapping=mapping)


def _export_marks(
    kind: FileFormat,
    manifest: PathLike | Manifest,
    output: Path,
    *,
    predictions: PathLike | None = None,
    fps: Fps = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedSegments:
    """Write the marks of a manifest, or of a table of marks, as a file for each film.

    Of one film, `output` may be the file; else it is the folder.
    """
    table = None if predictions is None else Path(predictions)
    without_times: list[str] = []
    left_out: tuple[str, ...] = ()
    changed = ""
    rates = FilmRates(fps, Workspace.of(workspace))
    marks_table = _table_of_marks(manifest)
    if marks_table is not None:
        if table is not None:
            raise FixUsage(
                "--predictions are of the clips of a manifest",
            )
        films = films_of_marks(marks_table, rates)
        left_out = tuple(_columns_left_out(_filled_columns(marks_table), kind))
    else:
        marked = read_manifest(manifest, workspace=workspace)
        films, without_times = films_of(marked, table, fps=rates)
        if table is None:
            of_header = _header_left_out(marked.header)
            left_out = (*of_header, *_clips_left_out(marked, films, kind))
        else:
            changed = _changed_since_run(table, marked)
    of_rates = tuple(rates.warnings())  # refuses before anything is written
    is_file = _ending(output) == ENDINGS[kind]
    if is_file and len(films) > 1:
        raise FixUsage(
            f"{output.name} is of one film, and the marks are of {len(films)}",
            where=str(manifest),
            hint=f"{shell_word(output.with_suffix(''))} --as {kind} makes a folder of files",
        )
    files = exported_files(films, kind, output.parent if is_file else output)
    if not files:
        raise FixInput(
            "nothing to export: there is only time that was watched",
            where=str(manifest),
        )
    if is_file:
        files = dict.fromkeys([output], *files.values())
    write_all_new(files, force=force)
    n_watched = 0
    if kind == "vtt":
        n_watched = sum(len(film.segments) - len(film.marks) for film in films)
    return ExportedSegments(
        tuple(files),
        tuple(without_times),
        n_watched,
        left_out,
        changed,
        of_rates,
    )


export_elan = partial(_export_marks, "elan")
export_vtt = partial(_export_marks, "vtt")


def _changed_since_run(predictions: Path, manifest: Manifest) -> str:
    """Return a sentence if a table is that of a run with other labels or clips, else ""."""
    if predictions.name != "predictions.csv":
        return ""
    # Late: other exports do not need what runs need.
    from obygaze_models.runner.files import RUN_FILE, read_folder
    from obygaze_models.runner.labels import labels_since

    folder = predictions.absolute().parent
    if not (folder / RUN_FILE).is_file():
        return ""
    run = read_folder(folder)
    changed = labels_since(run, manifest).changed
    made_from = run.about["manifest"]["name"]
    if changed and manifest.name != made_from:
        return (
            f"{manifest.name} is not the manifest of the run {folder.name}, which is {made_from}:"
            f" the times are those of the clips of {manifest.name} with the same ids"
        )
    return changed


def _header_left_out(header: Header) -> tuple[str, ...]:
    """Return what the header of a manifest says of its clips, and its clips do not."""
    said = ("licence", "citation", "notes")
    left_out = [name for name in said if getattr(header, name)]
    if header.view != "raw":
        left_out.append(f"that the levels are those of the {header.view} view")
    own = _own_concepts(header)
    if own:
        left_out.append(f"the modality of {few([*own], 3)}")
    return tuple(left_out)


def _own_concepts(header: Header) -> dict[str, str]:
    """Return the concepts whose modality is not that of the vocabulary, with it."""
    known = concepts()
    return {
        name: modality
        for name, modality in header.concepts.items()
        if known.get(name, "unknown") != modality
    }


def _mapping_of_header(header: Header) -> str:
    """Return a sentence on what a mapping must say of a table without this header; "" if nothing.

    Without the modality of a concept of its own, the table is refused.
    """
    of_mapping = []
    if header.licence or header.citation:
        of_mapping.append("its licence and its citation, as lines licence and citation")
    own = _own_concepts(header)
    if own:
        lines = few(toml_lines(own), 3)
        of_mapping.append(f"its own concepts, in a table [concepts]: {lines}")
    if not of_mapping:
        return ""
    return (
        "send with the file what manifest import reads from a --mapping file:"
        f" {'; '.join(of_mapping)}"
    )


def _clips_left_out(
    manifest: Manifest, films: Sequence[FilmSegments], kind: FileFormat
) -> list[str]:
    """Return what the clips of a manifest say, and files of marks have no place for."""
    left_out = []
    n_unmarked = len(manifest) - sum(1 for _ in _labelled(manifest))
    if n_unmarked:
        left_out.append(f"{count(n_unmarked, 'clip')} without a label")
    columns = _filled(manifest.cells_by_column())
    # A file of ELAN has the link to the video of its film.
    if kind == "elan" and all(film.video for film in films):
        columns = [name for name in columns if name != "video"]
    return [*left_out, *_columns_left_out(columns, kind)]


def _filled_columns(table: Path) -> list[str]:
    """Return the columns of a table in which something is."""
    read = read_table(table, required=(), violations=Violations(table))
    columns = {}
    for name in read.columns:
        columns[name] = [row.cells.get(name, "") for row in read.rows]
    return _filled(columns)


def _filled(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the columns in which something is."""
    filled = []
    for name, cells in columns.items():
        if any(cell not in ("", None) for cell in cells):
            filled.append(name)
    return filled


def _columns_left_out(columns: Sequence[str], kind: FileFormat) -> list[str]:
    """Return in words which columns files of marks do not have."""
    lost = [name for name in columns if name and name not in _KEPT]
    if kind == "vtt" and "framerate" in columns:
        lost.append("framerate")
    return [f"the columns {few(lost, 5)}"] if lost else []


def _table_of_marks(manifest: PathLike | Manifest) -> Path | None:
    """Return the path of a table of marks, None for a manifest."""
    if isinstance(manifest, Manifest):
        return None
    path = Path(manifest)
    return path if path.suffix in TABLE_ENDINGS and path.is_file() else None


def import_segments(
    files: Sequence[str | Path],
    name: str,
    fps: Fps = None,
    *,
    mapping: TierMapping | str | Path | None = None,
    write_mapping: str | Path | None = None,
    workspace: PathLike | None = None,
) -> ImportedManifest:
    """Read marks from ELAN, WebVTT, or tables of marks.

    `.eaf` and `.vtt` files are called after their film. The film of an `.eaf` of others is that of
    the video which it names: the one that a manifest is linked to, else the video's name.

    Args:
        files: The files; those with another ending are tables of marks.
        name: The name of the manifest.
        fps: Frames per second of films without a video and a column framerate.
        mapping: What tiers of ELAN are, and what their words mean, or its file.
        write_mapping: A file for the mapping of ELAN files that was used; of files that cannot be
            read without one, for a draft.
        workspace: The workspace, if it is not the current one.
    """
    paths = own_tables([Path(file) for file in files])
    given = mapping
    if not isinstance(mapping, TierMapping):
        mapping = read_tier_mapping(Path(mapping)) if mapping else TierMapping()
    documents = {
        path: ElanDocument(path, mapping) for path in paths if _ending(path) == ELAN
    }
    try:
        _check_tiers([*documents.values()], mapping, draft_hint("tiers.toml", given))
    except FixInput as error:
        if write_mapping is not None and error.details:
            tiers: list[Tier] = []
            for document in documents.values():
                tiers += document.tiers
            write_draft(write_mapping, draft_of_tiers(tiers, mapping), error)
        raise
    importer = _Importer(FilmRates(fps, Workspace.of(workspace)), mapping, documents)
    for path in paths:
        importer.read(path)
    importer.warnings += importer.rates.warnings()
    if not importer.clips:
        raise FixInput(
            "no annotation has times",
            where=", ".join(map(str, files)),
        )
    if write_mapping is not None:
        roles = dict(mapping.tiers)
        for document in documents.values():
            # A tier without annotations may have some in another file.
            filled = (tier for tier in document.tiers if tier.annotations)
            roles.update({tier.name: tier.role for tier in filled})
        write_mapping_file(Path(write_mapping), replace(mapping, tiers=roles))
    return importer.manifest(name, paths)


def _ending(path: Path) -> str:
    return path.suffix.lower()


def _check_tiers(
    documents: Sequence[ElanDocument], mapping: TierMapping, hint: str
) -> None:
    """Raise one error of all tiers and words that are not known, or of names that no file has."""
    names: set[str] = set()
    is_all_known = True
    for document in documents:
        names.update(tier.name for tier in document.tiers)
        is_all_known &= all(tier.role for tier in document.tiers)
    for table in ("tiers", "annotators"):
        for name in getattr(mapping, table):
            # A mapping of several files may have tiers that this one has not.
            is_of_others = is_all_known and name in mapping.tiers
            if name not in names and not is_of_others:
                raise FixInput(
                    f"[{table}] of the mapping names the tier {name!r}, which no file has",
                    hint=f"the tiers of the files: {few(sorted(names), 10)}",
                )
    # What is the same in several files is one line.
    violations = Violations("")
    for document in documents:
        document.add_violations(violations)
    # A draft asks for no tier that has a role, as one that is only to be linked has.
    is_asked = any(UNLINKED not in line for line in violations.lines)
    problems = []
    if is_asked:
        problems.append("the tiers of these files are not known")
    if any(UNLINKED in line for line in violations.lines):
        problems.append("tiers of concepts or comments are not linked to one of levels")
    violations.raise_if_any("; ".join(problems), hint if is_asked else None)


class _Importer:
    """Collects the marks of files as the clips of a manifest."""

    def __init__(
        self,
        rates: FilmRates,
        mapping: TierMapping,
        documents: Mapping[Path, ElanDocument],
    ) -> None:
        self.rates = rates
        self.mapping = mapping
        self.documents = documents
        self.clips: list[Clip] = []
        self.n_clips_of: Counter[str] = Counter()
        self.warnings: list[str] = []
        self.rates_of_videos: dict[str, Fraction] = {}
        self.file_of: dict[str, tuple[str, Path]] = {}
        self.title_of_film: dict[str, str] = {}
        self.ids_of_names: set[tuple[str, str]] = set()
        self.sources = SourceFiles()
        self.spelling = Spelling()

    def read(self, path: Path) -> None:
        """Add the marks of a file."""
        if _ending(path) in (ELAN, VTT):
            self._read_film(path)
        else:
            self._read_table(path)

    def _read_table(self, path: Path) -> None:
        marks = read_marks(path, fps=self.rates)
        for columns in _columns_left_out(_filled_columns(path), "elan"):
            self.warnings.append(
                f"{path}: left out, since marks have no place for them: {columns}"
            )
        id_of_film: dict[str, str] = {}
        for name in dict.fromkeys(segment.movie_id for segment in marks.segments):
            id_of_film[name] = self._id_of_film(name, path)
            if self._is_first(name, id_of_film[name]):
                self.warnings.append(
                    f"{path.name}: the id of the film {name} is {id_of_film[name]}"
                )
        for segment in marks.segments:
            rate = marks.rate_of(segment.movie_id)
            segment = replace(segment, movie_id=id_of_film[segment.movie_id])
            if segment.is_watched:
                # A manifest has no level for what was only watched: there it is a comment.
                segment = replace(segment, level="", comment=WATCHED)
            names = tuple(dict.fromkeys(map(concept_of, segment.concepts)))
            self._add(replace(segment, concepts=names), rate, path)

    def _read_film(self, path: Path) -> None:
        """Add the marks of a file about one film."""
        film = self._id_of_film(self._name_of_film(path), path)
        if self._is_first(composed(path.stem).strip(), film):
            self.warnings.append(f"{path.name}: the id of this film is {film}")
        video = None
        rate = None
        if _ending(path) == ELAN:
            document = self.documents[path]
            video = document.video
            rate = document.frame_rate
            read: Iterator[ReadMark] = document.marks(self.warnings)
        else:
            with open_file(path) as stream:
                read = read_vtt(stream.read(), path)
        if rate is not None:
            self.rates.refuse_other(film, rate, "the file", str(path))
        else:
            rate = self.rates.required(film, str(path), video)
            if self.rates.given(film) is None:
                self.rates_of_videos[film] = rate
        for mark in read:
            first, last = frames_between(mark.start_s, mark.end_s, rate)
            first = max(0, first)
            segment = Segment(
                film,
                mark.annotator,
                first,
                max(first, last),
                mark.level,
                mark.concepts,
                mark.comment,
            )
            compare_with_video(film, segment.end_frame, video, rate, str(path))
            self._add(segment, rate, path)

    def _id_of_film(self, name: str, path: Path) -> str:
        """Return the id of a film; an error if one of another name has it, too."""
        film = as_id(name)
        written = composed(name).strip()
        # Of a film that is known, its name may be written in several ways.
        if film not in self.rates.videos:
            first, earlier = self.file_of.setdefault(film, (written, path))
            if first != written:
                raise FixInput(
                    f"{first!r} and {written!r} both become the film {film!r}",
                    where=", ".join(dict.fromkeys([str(earlier), str(path)])),
                    hint="rename one of them",
                )
        if film != written:
            self.title_of_film.setdefault(film, written)
        return film

    def _is_first(self, name: str, film: str) -> bool:
        """Return whether a film has another id than its name, and no file before had this name.

        Several annotators have files of one name, each in a folder.
        """
        is_new = (name, film) not in self.ids_of_names
        self.ids_of_names.add((name, film))
        return is_new and film != name

    def _name_of_film(self, path: Path) -> str:
        """Return the name of a film: of the video that a file of others names, or of the file."""
        name = composed(path.stem).strip()
        document = self.documents.get(path)
        if document is None or document.is_own or not document.media_name:
            return name
        video = composed(document.media_name)
        films = self.rates.films_of_video(video)
        if len(films) == 1:
            return films[0]
        is_known = as_id(name) in self.rates.videos
        return name if is_known else Path(video).stem.strip()

    def _add(self, segment: Segment, rate: Fraction, path: Path) -> None:
        """Add the clip of a segment of a file."""
        annotator = self.spelling.cell(plain(segment.annotator), "annotator") or "cue"
        words = [self.spelling.word(name, "concepts") for name in segment.concepts]
        names = tuple(dict.fromkeys(words))
        self.rates.compare(segment.movie_id, segment.end_frame, rate, str(path))
        self.sources.add(segment.movie_id, annotator, path)
        # A new mark leaves the ids of other films and annotators as they are. The film `lake` by
        # `b-ada` and the film `lake-b` by `ada` are counted together: their ids begin alike.
        beginning = f"{segment.movie_id}-{annotator}"
        counted_as = ascii_id(beginning)
        self.n_clips_of[counted_as] += 1
        number = self.n_clips_of[counted_as]
        extra = {
            "annotator": annotator,
            "start_frame": str(segment.start_frame),
            "end_frame": str(segment.end_frame),
            "framerate": frame_rate_text(rate),
            "comment": segment.comment,
        }
        if segment.movie_id in self.title_of_film:
            extra[TITLE] = self.title_of_film[segment.movie_id]
        frames = (segment.start_frame, segment.end_frame)
        start_s, end_s = seconds_of_frames(*frames, rate)
        self.clips.append(
            Clip(
                clip_id=ascii_id(f"{beginning}-{number:04d}"),
                movie_id=segment.movie_id,
                start_s=start_s,
                end_s=end_s,
                level=segment.level,
                concepts=names,
                extra=extra,
            )
        )

    def manifest(self, name: str, paths: Sequence[Path]) -> ImportedManifest:
        """Return the manifest of all clips."""
        marked_concepts: set[str] = set()
        for clip in self.clips:
            marked_concepts.update(clip.concepts)
        given = self.mapping.modalities
        unknown = unknown_concepts(marked_concepts - given.keys(), paths)
        if unknown:
            self.warnings.append(f"unknown concepts, kept unchanged: {few(unknown, 5)}")
        modality_of = dict.fromkeys(sorted(marked_concepts), "unknown")
        modality_of.update(concepts())
        for concept, modality in {**modalities_of(paths), **given}.items():
            if concept in modality_of and modality != "unknown":
                modality_of[concept] = modality
        sources = tuple(map(source_of, paths))
        header = Header(name, modality_of, unit="segment", sources=sources)
        columns = (*EXTRA, TITLE) if self.title_of_film else EXTRA
        manifest = Manifest(name, header, tuple(self.clips), columns)
        without = []
        for clip in self.clips:
            if not clip.level and clip.extra["comment"] != WATCHED:
                without.append(clip.clip_id)
        if without:
            self.warnings.append(
                f"{count(len(without), 'segment')} without a level, which manifest project, agree"
                f" and view --segments refuse: {few(without, 3)}"
            )
        notes = [
            f"{film}: {frame_rate_text(rate)} frames per second, as its video"
            for film, rate in self.rates_of_videos.items()
        ]
        tiers = []
        for path, document in self.documents.items():
            for tier in document.tiers:
                made = {"role": tier.role, "made_of": tier.made_of()}
                tiers.append({"file": path.name, "tier": tier.name, **made})
        # What is the same in several files is one line.
        n_files = Counter((tier["tier"], tier["made_of"]) for tier in tiers)
        for (tier_name, made_of), number in n_files.items():
            files = "" if len(self.documents) == 1 else f" ({count(number, 'file')})"
            notes.append(f"tier {tier_name}: {made_of}{files}")
        if any(_ending(path) == VTT for path in paths):
            notes.append("WebVTT does not say what was watched: all of a film counts")
        facts: dict[str, Any] = {"tiers": tiers} if tiers else {}
        if self.mapping.levels:
            facts["level_words"] = words_of_levels(self._used_levels())
        return ImportedManifest(manifest, tuple(self.warnings), tuple(notes), facts)

    def _used_levels(self) -> dict[str, str]:
        """Return the words of the mapping that tiers of levels have, each with its level."""
        texts: set[str] = set()
        for document in self.documents.values():
            for tier in document.tiers:
                if tier.role == "levels":
                    texts.update(one.text for one in tier.annotations.values())
        used = texts & self.mapping.levels.keys()
        return {word: self.mapping.levels[word] for word in sorted(used)}
