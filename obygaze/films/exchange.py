"""Exchange segments, labels and predictions with annotation tools and editing programs.

A template writes the segments of one film in each format; a function reads each format into
marks. Times are exact fractions of frames. Milliseconds are rounded up, so that a player that
seeks to one shows the frame; reading takes the nearest frame.
"""

import codecs
import html
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from obygaze.films.elan import (
    KEEP,
    ElanDocument,
    TierMapping,
    TierReport,
    check_names,
    marks_of,
    notes_of,
    read_tier_mapping,
    reports_of,
    used_mapping,
)
from obygaze.films.film_segments import (
    FilmSegments,
    Label,
    Mark,
    label_of,
    plain,
)
from obygaze.films.projection import (
    WATCHED,
    Segment,
    film_rates,
    watched_path,
)
from obygaze.films.video_rate import video_rate
from obygaze.films.vocabulary import unknown_concepts
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.files import write_all_new
from obygaze_features.core.options import PYTHON_ONLY, Option
from obygaze_features.core.workspace import PathLike
from obygaze_features.core.written_tables import (
    SUFFIXES,
    Columns,
    check_table_name,
    table_as_csv,
    write_table,
)
from obygaze_features.manifest import read_manifest
from obygaze_features.manifest.adapters import ImportedManifest, source_of
from obygaze_features.manifest.adapters.csv_table import write_mapping_file
from obygaze_features.manifest.frame_rate import (
    frame_rate,
    frame_rate_text,
)
from obygaze_features.manifest.listing import manifest_columns
from obygaze_features.manifest.model import Clip, Header, Manifest, ascii_id
from obygaze_features.manifest.tables import CsvTable, open_file, read_table
from obygaze_features.manifest.times import (
    FilmTimes,
    film_rate,
    film_times,
    frames_between,
)
from obygaze_features.manifest.vocabulary import (
    canonical_level,
    concept_meaning,
    concepts,
)
from obygaze_features.manifest.workbooks import READ as WORKBOOKS
from obygaze_features.manifest.workbooks import is_workbook

Format = Literal["csv", "elan", "vtt"]
# The template of each format; its extension is that of the files.
FORMATS = {
    path.stem: path
    for path in sorted(Path(__file__).with_name("exchange_formats").iterdir())
}
ELAN = ".eaf"
# Formats in which the time that was watched is no mark: a tier of its own, a level of the table.
WITH_WATCHED = ("elan", "csv")
EXTRA = ("annotator", "start_frame", "end_frame", "framerate", "comment")
SHOT_COLUMNS = {
    "Start Frame": "start_frame",
    "End Frame": "end_frame",
    "Scene Number": "comment",
}
_SCORE = re.compile(r"score|cosine|p:.*|score:.*")
_TIME = r"(?:([0-9]{2,6}):)?([0-5][0-9]):([0-5][0-9]\.[0-9]{3})"
_CUE = re.compile(rf"(?:.*\n)?{_TIME}[ \t]+-->[ \t]+{_TIME}(?:[ \t].*)?(?:\n([^\0]*))?")
_VOICE = re.compile(r"<v(?:\.[^ \t>]*)?[ \t]+([^>]*)>")
_TAG = re.compile(r"<[^>]*>")
_TEXT = re.compile(r"<c\.(level|concept|comment)>([^<]*)</c>|<[^>]*>|([^<\n]+)")

# Names of tables of formats that are not written; they are no names of folders.
_OTHER_TABLES = (".tsv", ".txt", ".xls", ".ods")
Marked = tuple[str, str, str, tuple[str, ...], str]
# A mark with the frame rate of its film.
RatedMark = tuple[Mark, Fraction]


def films_of(
    manifest: Manifest,
    predictions: Path | None = None,
    *,
    fps: float | str | None = None,
) -> tuple[list[FilmSegments], list[str]]:
    """Return the segments of each film, and the clips left out because they have no times in it.

    `predictions`, a table with clip_id and scores, takes the place of levels and concepts. `fps`
    is the frame rate of clips without a column `framerate`; without it, it is that of their video.
    """
    films: dict[str, FilmSegments] = {}
    clips_of_film: dict[str, list[Clip]] = defaultdict(list)
    for clip in manifest:
        clips_of_film[clip.movie_id].append(clip)
    times_of_film: dict[str, FilmTimes] = {}
    without_times: list[str] = []
    for clip_id, annotator, level, names, comment in _marked(manifest, predictions):
        movie_id = manifest[clip_id].movie_id
        times = times_of_film.get(movie_id)
        if times is None:
            times = film_times(clips_of_film[movie_id])
            times_of_film[movie_id] = times
        if times.unknown or clip_id not in times.spans:
            without_times.append(clip_id)
            continue
        if movie_id not in films:
            video = _video_of_film(times, manifest.header.video_root)
            rate = _rate_of_film(manifest, clips_of_film[movie_id], fps, video)
            times_of_film[movie_id] = replace(times, rate=rate)
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
        films[movie_id].segments.append(segment)
    if not films:
        raise _nothing_to_export(manifest, without_times)
    return list(films.values()), without_times


def _video_of_film(times: FilmTimes, video_root: str) -> Path | None:
    """Return the file of a whole film; None where its clips have files of their own."""
    videos = {piece.video for piece in times.pieces}
    if len(times.pieces) != 1 or times.pieces[0].start_s or times.pieces[0].offset_s:
        return None
    return Path(video_root, *videos)


def _rate_of_film(
    manifest: Manifest,
    clips: Sequence[Clip],
    fps: float | str | None,
    video: Path | None,
) -> Fraction:
    """Return the frame rate of a film: of the manifest, the given one, or that of its video."""
    rate = film_rate(clips)
    if rate is None and fps:
        return frame_rate(fps)
    if rate is None and video is not None:
        rate = video_rate(video)
    if rate is None:
        raise FixUsage(
            f"the frame rate of the film {clips[0].movie_id} is not known",
            where=manifest.name,
            hint="--fps 24, or that of the film",
        )
    return rate


def _nothing_to_export(manifest: Manifest, without_times: Sequence[str]) -> FixInput:
    """Return the error for a manifest without a clip that can be exported, with the cause."""
    if without_times:
        return FixInput(
            f"nothing to export: {count(len(without_times), 'clip')} without times in a film",
            where=manifest.name,
            hint="import the clips again from a table with start and end of each in its film",
        )
    return FixInput(
        "nothing to export: no clip has a level or a concept",
        where=manifest.name,
        hint="obygaze manifest join adds levels from a table; --predictions exports scores",
    )


def _marked(manifest: Manifest, predictions: Path | None) -> Iterator[Marked]:
    """Yield what is to be exported: clip, annotator, level, concepts, comment."""
    if predictions is None:
        for clip in manifest:
            who = clip.extra.get("annotator", "")
            comment = clip.extra.get("comment", "")
            if who or clip.level or clip.concepts:
                annotator = who or manifest.name
                yield clip.clip_id, annotator, clip.level, clip.concepts, comment
        return
    yield from _predicted(predictions)


def _predicted(predictions: Path) -> Iterator[Marked]:
    """Yield the rows of a table of predictions: the annotator is the model, scores are comments."""
    table = _table_of_predictions(predictions)
    makers = [
        name for name in ("task", "model", "feature", "seed") if name in table.columns
    ]
    for row in table.rows:
        who = " ".join(row[name] for name in makers) or predictions.stem
        scores = [
            f"{name} {_short(cell)}"
            for name, cell in row.cells.items()
            if _SCORE.fullmatch(name)
        ]
        level = row.cells.get("decision", "")
        yield row["clip_id"], who, canonical_level(level) or "", (), ", ".join(scores)


def _table_of_predictions(path: Path) -> CsvTable:
    """Return a table of predictions, in each of the formats that `models predict -o` writes."""
    return read_table(
        path,
        required=("clip_id",),
        content="predictions",
        data=table_as_csv(path),
    )


def export(films: Iterable[FilmSegments], kind: str, folder: Path) -> dict[Path, bytes]:
    """Return the files of films in one of the `FORMATS`, by their paths in a folder."""
    from jinja2 import Template

    path = FORMATS[kind]
    template = Template(
        path.read_text("utf-8"),
        autoescape=True,
        trim_blocks=True,
        extensions=["jinja2.ext.do"],
    )
    meanings = {name: concept_meaning(name) for name in concepts()}
    files: dict[Path, bytes] = {}
    for film in films:
        if kind not in WITH_WATCHED:
            film = film.without_watched()
        if not film.segments:
            continue
        text = template.render(
            film=film,
            fps_text=frame_rate_text(film.fps),
            meanings=meanings,
            relative_video=_relative_path(film.video, folder),
        )
        files[folder / f"{film.movie_id}{path.suffix}"] = text.encode()
    return files


def _relative_path(video: Path | None, folder: Path) -> str:
    """Return the path of a video as it is seen from a folder, in the form of ELAN."""
    if video is None:
        return ""
    try:
        path = Path(os.path.relpath(video.resolve(), folder.resolve())).as_posix()
    except ValueError:
        path = video.name  # on another drive of Windows: no path leads there
    return path if path.startswith("../") else f"./{path}"


def clip_table(manifest: Manifest, predictions: Path | None = None) -> Columns:
    """Return one row for each clip, times in seconds; with predictions one for each of these.

    The columns of predictions come after those of the manifest; scores are numbers.
    """
    if predictions is None:
        clips = [clip for clip in manifest if not _says_only_watched(clip)]
        return manifest_columns(manifest.with_clips(clips))
    table = _table_of_predictions(predictions)
    predicted_clips = [manifest[row["clip_id"]] for row in table.rows]
    columns = dict(manifest_columns(manifest.with_clips(predicted_clips)))
    for name in table.columns:
        if name not in columns:
            is_score = _SCORE.fullmatch(name) is not None
            cells = (row[name] for row in table.rows)
            columns[name] = [_number(cell) if is_score else cell for cell in cells]
    return columns


def _says_only_watched(clip: Clip) -> bool:
    """Return whether a clip of a manifest of segments is no mark, but time that was watched."""
    if clip.level or clip.concepts or not clip.extra.get("annotator"):
        return False
    return clip.extra.get("comment") == WATCHED


def _short(cell: str) -> str:
    """Return a score with four digits, as it is read in a subtitle."""
    number = _number(cell)
    return cell if number is None else f"{number:.4g}"


def _number(cell: str) -> float | None:
    """Return a cell as a number, None where it is none."""
    try:
        return float(cell)
    except ValueError:
        return None


@dataclass(frozen=True)
class ExportedSegments:
    """The files of an export; `without_times` are the clips that are left out.

    `other_rates` are the films for which a rate was given although the manifest has another one.
    """

    files: tuple[Path, ...]
    without_times: tuple[str, ...]
    other_rates: Mapping[str, Fraction] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the files, and the clips that are left out."""
        written = [str(path) for path in self.files]
        return {"written": written, "without_times": list(self.without_times)}

    def __str__(self) -> str:
        return "\n".join(map(str, self.files))

    @property
    def warnings(self) -> list[str]:
        """Rates that are not used, and clips that are left out."""
        warnings: list[str] = []
        if self.other_rates:
            rates = [
                f"{movie_id} {frame_rate_text(rate)}"
                for movie_id, rate in self.other_rates.items()
            ]
            warnings.append(
                "--fps is not used for films whose rate the manifest has (framerate):"
                f" {few(rates, 5)}"
            )
        if self.without_times:
            n_clips = count(len(self.without_times), "clip")
            warnings.append(f"{n_clips} without times: {few(self.without_times, 5)}")
        return warnings


def export_segments(
    kind: Annotated[Format, Option(metavar="FORMAT")],
    manifest: PathLike | Manifest,
    *,
    predictions: Annotated[PathLike | None, Option(metavar="PATH")] = None,
    fps: Annotated[float | str | None, Option(metavar="RATE")] = None,
    frames: bool = False,
    folder: Annotated[PathLike, Option("-o --output", metavar="PATH")] = ".",
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedSegments:
    """Write segments for other programs.

    FORMAT is elan, vtt or csv; each film becomes a file. Of csv it is one table of all clips, with
    times in seconds: a file named .csv, .xlsx, .parquet or .json, or MANIFEST.csv in a folder. With
    --frames it is a table of segments for each film, as `manifest project` reads it. The time that
    was watched is a tier of ELAN and a level with --frames; VTT does not have it. --predictions
    takes what `models predict` and `search` write with -o, and the predictions.csv of a run.

    Args:
        kind: The format.
        manifest: The segments, or clips with levels or concepts.
        predictions: CSV of clips with scores, instead of the levels.
        fps: Frames per second of clips: 25, 23.976, 24000/1001. [default: that of the linked video]
            A rate in the column framerate of the manifest takes precedence, with a warning.
        frames: csv: write the segments of each film in frames.
        folder: The folder for the files; of csv also the file.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest export csv films -o films.csv
        obygaze manifest export elan mobygaze -o elan
        obygaze manifest export vtt films --predictions predicted.csv -o subtitles
    """
    if kind not in FORMATS:
        raise FixUsage(f"unknown format {kind!r}", hint=f"one of {', '.join(FORMATS)}")
    marked = read_manifest(manifest, workspace=workspace)
    table = None if predictions is None else Path(predictions)
    if frames and kind != "csv":
        raise FixUsage("--frames is for csv, the other formats have no times in frames")
    if kind == "csv" and not frames:
        if fps is not None:
            problem = "--fps is for frames, the table of clips has times in seconds"
            raise FixUsage(problem, hint="add --frames, or leave --fps out")
        path = Path(folder)
        if path.suffix.lower() in _OTHER_TABLES and not path.is_dir():
            check_table_name(path)
        if path.suffix.lower() not in SUFFIXES:
            path = path / f"{marked.name}.csv"
        columns = clip_table(marked, table)
        write_table(path, columns, force=force)
        return ExportedSegments((path,), ())
    given_rate = None if fps is None else frame_rate(fps)
    films, without_times = films_of(marked, table, fps=fps)
    files = export(films, kind, Path(folder))
    if not files:
        raise FixInput(
            "nothing to export: the manifest has only time that was watched",
            where=marked.name,
        )
    write_all_new(files, force=force)
    other_rates = {}
    if given_rate is not None:
        other_rates = {
            film.movie_id: film.fps for film in films if film.fps != given_rate
        }
    return ExportedSegments(tuple(files), tuple(without_times), other_rates)


def read_vtt(data: bytes, path: Path, fps: Fraction | None) -> Iterator[RatedMark]:
    """Yield the cues of a WebVTT file, one for each voice; the annotator of a cue is its voice."""
    if fps is None:
        raise _unknown_rate(path)
    text = _vtt_text(data, path)
    for block in re.split(r"\n{2,}", text):
        if "-->" not in block:
            continue
        cue = _CUE.fullmatch(block)
        if cue is None:
            shown = plain(next(line for line in block.splitlines() if "-->" in line))[
                :60
            ]
            problem = (
                f"expected times such as 00:01:02.500 --> 00:01:04.000, got {shown!r}"
            )
            raise FixInput(problem, where=str(path), hint="correct the cue")
        *cells, payload = cue.groups("")
        start_s = _clock_s(cells[:3])
        end_s = _clock_s(cells[3:])
        if end_s < start_s:
            shown = next(line for line in block.splitlines() if "-->" in line)
            problem = f"the cue ends before it begins: {shown}"
            raise FixInput(problem, where=str(path), hint="correct its times")
        for annotator, spoken in _voices(payload):
            texts = [
                (match[1] or "", html.unescape(match[2] or match[3] or ""))
                for match in _TEXT.finditer(spoken)
            ]
            yield ("", annotator, start_s, end_s, texts), fps


def _unknown_rate(path: Path) -> FixUsage:
    """Return the error for a file that does not say how many frames a second has."""
    return FixUsage(
        "the frame rate is not known",
        where=str(path),
        hint="--fps 25, or that of the film",
    )


def _vtt_text(data: bytes, path: Path) -> str:
    """Return the text of a WebVTT file with the line breaks of Unix."""
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"byte 0x{data[error.start]:02X} is not UTF-8, which WebVTT must be"
        hint = "save it as UTF-8: iconv -f latin1 -t utf-8 OLD.vtt > NEW.vtt"
        raise FixInput(problem, where=f"{path}:{line}", hint=hint) from None


def _voices(payload: str) -> list[tuple[str, str]]:
    """Return the text of each voice of a cue; of one voice (or none) it is the whole text."""
    # The text before the first voice, then each name with the text that follows it.
    before, *parts = _VOICE.split(payload)
    names = [html.unescape(name) for name in parts[::2]]
    if len(set(names)) < 2:
        return [(names[0] if names else "", payload)]
    spoken: dict[str, str] = {}
    if _TAG.sub("", before).strip():
        spoken[""] = before
    for name, text in zip(names, parts[1::2], strict=True):
        spoken[name] = spoken.get(name, "") + text
    return list(spoken.items())


def _clock_s(cells: Sequence[str]) -> Fraction:
    hours, minutes, seconds = cells
    return 3600 * int(hours or 0) + 60 * int(minutes) + Fraction(seconds)


def read_rows(data: bytes, path: Path, fps: Fraction | None) -> Iterator[RatedMark]:
    """Yield the rows of a table of segments, or of the shots that PySceneDetect found.

    A column framerate has the rate of each film; `fps` is the rate of films without one.
    """
    table: bytes | None = None
    first_number = 0
    if not is_workbook(path):
        table, first_number = _table_of_segments(data)
    # The page leaves a table of what was watched without rows, if all of it was taken back.
    is_of_watched = path.stem.endswith(f".{WATCHED}")
    content = None if is_of_watched else "rows"
    rows_table = read_table(path, required=EXTRA[1:3], content=content, data=table)
    if not rows_table.rows:
        return
    if fps is None and "framerate" not in rows_table.columns:
        raise _unknown_rate(path)
    rows = rows_table.rows
    violations = rows[0].violations
    rates = film_rates(rows_table, fps, violations)
    hint = None
    if fps is not None and violations:
        hint = "leave out --fps: each film has its rate in the column framerate; correct it there"
    violations.raise_if_any("the frame rates of this table cannot be used", hint)
    for row in rows:
        first, last = row.frames() or (first_number, first_number)
        if first < first_number:
            row.add(
                "start_frame", "shots of PySceneDetect are numbered from 1, got frame 0"
            )
        texts = [("concept", name) for name in row.cells.get("concepts", "").split("|")]
        texts += [(kind, row.cells.get(kind, "")) for kind in ("level", "comment")]
        annotator = row.cells.get("annotator", "shots")
        movie_id = row.cells.get("movie_id", "")
        rate = rates[movie_id]
        start_s = (first - first_number) / rate
        end_s = (last + 1 - first_number) / rate
        yield (movie_id, annotator, start_s, end_s, texts), rate
    violations.raise_if_any("this table cannot be read")


def _table_of_segments(data: bytes) -> tuple[bytes, int]:
    """Return a table with our names of columns, and the number of the first frame of a film."""
    data = data.removeprefix(codecs.BOM_UTF8)
    if data.startswith(b"Timecode List"):
        data = data.partition(b"\n")[2]
    header, line_end, lines = data.partition(b"\n")
    if not all(title.encode() in header for title in SHOT_COLUMNS):
        return header + line_end + lines, 0
    for title, column in SHOT_COLUMNS.items():
        header = header.replace(title.encode(), column.encode(), 1)
    return header + line_end + lines, 1


READERS = {
    ".vtt": read_vtt,
    ".csv": read_rows,
    **dict.fromkeys(WORKBOOKS, read_rows),
}


class ImportedSegments(ImportedManifest):
    """A manifest of segments; `reports` says what became of each tier of ELAN files.

    `rates` are the frame rates that were read from videos, by film.
    """

    reports: tuple[TierReport, ...] = ()
    rates: Mapping[str, Fraction] = MappingProxyType({})

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a line for each frame rate that was read from a video, and for each tier."""
        of_rates = [
            f"{film}: {frame_rate_text(rate)} frames per second, as its video"
            for film, rate in self.rates.items()
        ]
        return (*of_rates, *notes_of(self.reports))

    @property
    def facts(self) -> dict[str, Any]:
        """Return what became of each tier."""
        if not self.reports:
            return {}
        return {"tiers": [report.to_json() for report in self.reports]}


def import_segments(
    files: Sequence[str | Path],
    name: Annotated[str, PYTHON_ONLY],
    fps: Annotated[float | str | None, Option("--fps", metavar="RATE")] = None,
    *,
    mapping: Annotated[TierMapping | str | Path | None, Option(metavar="PATH")] = None,
    write_mapping: Annotated[str | Path | None, Option(metavar="PATH")] = None,
) -> ImportedManifest:
    """Read segments from ELAN, WebVTT, PySceneDetect, or a table.

    FILES are .eaf and .vtt, each called after its film, a folder of them, and .csv: lists of shots
    of PySceneDetect or tables of segments as for `manifest project`, which may be spreadsheets too.
    What was watched is read from FILE.watched.csv beside a table.

    A tier of ELAN is an annotator's where most of its annotations are levels; one that is linked to
    it has its concepts where most of its annotations are concepts, joined with `|`, `,` or `;`.
    All other tiers are not used. The output says what each tier is, and a mapping changes it.

    Args:
        files: The files.
        name: The name of the manifest.
        fps: Frames per second: 25, 23.976. Of a table, the default is the column framerate; of
            ELAN it is that of the video which the file names, if it lies beside the file.
        mapping: Say what tiers of ELAN are, and what their words mean, in a TOML file.
        write_mapping: Write the mapping that was used to this file; --mapping reads it again.

    Commands:
        obygaze manifest import segments tt0108160.eaf --fps 23.976 -o marks
        obygaze manifest import segments films/*-Scenes.csv --fps 25 -o shots
        obygaze manifest import segments own.eaf --fps 25 --mapping tiers.toml -o own
    """
    given_rate = None if fps is None else frame_rate(fps)
    paths: list[Path] = []
    for file in files:
        paths += _files_in(Path(file))
    paths = _with_watched(paths)
    tier_mapping = _tier_mapping(mapping)
    documents: list[ElanDocument] = []
    clips: list[Clip] = []
    warnings: list[str] = []
    file_of: dict[str, Path] = {}
    rates: dict[str, Fraction] = {}
    for path in paths:
        if path.suffix not in (ELAN, *READERS):
            shown = ", ".join((ELAN, *READERS))
            raise FixUsage(f"expected a file named {shown}", where=str(path))
        with open_file(path) as stream:
            data = stream.read()
        stem = ascii_id(_film_name(path))
        # Files may be called after one film, but not after two that only their ids confuse.
        earlier = file_of.setdefault(stem, path)
        if _film_name(earlier) != _film_name(path):
            problem = f"two films would have the id {stem!r}"
            raise FixInput(
                problem, where=f"{earlier}, {path}", hint="rename one of them"
            )
        if path.suffix == ELAN:
            document = ElanDocument(data, path, tier_mapping)
            elan_rate = given_rate
            if elan_rate is None:
                elan_rate = _rate_of_elan(document)
                rates[stem] = elan_rate
            documents.append(document)
            marks: Iterable[RatedMark] = [
                (mark, elan_rate) for mark in marks_of(document, warnings)
            ]
        else:
            marks = READERS[path.suffix](data, path, given_rate)
        for (movie_id, annotator, start_s, end_s, texts), rate in marks:
            label = label_of(texts)
            first, last = frames_between(start_s, end_s, rate)
            frames = (max(0, first), max(0, first, last))
            number = len(clips) + 1
            clip = _clip_of(movie_id or stem, annotator, number, frames, rate, label)
            levels = label[0]
            if len(levels) > 1:
                shown = ", ".join(levels)
                warnings.append(
                    f"{path}: {clip.clip_id} has the levels {shown}; it gets the first"
                )
            clips.append(clip)
    check_names(tier_mapping, documents)
    reports: list[TierReport] = []
    for document in documents:
        reports += reports_of(document)
    if write_mapping is not None:
        used = used_mapping(tier_mapping, documents)
        write_mapping_file(Path(write_mapping), used)
    if not clips and any(report.role == KEEP for report in reports):
        tiers = "; ".join(notes_of(reports))
        raise FixInput(
            f"no tier has annotations that are used: {tiers}",
            where=", ".join(map(str, files)),
            hint="--write-mapping FILE, change in it what the tiers are, then --mapping FILE",
        )
    if not clips:
        hint = (
            "check that the program that wrote the file opens it and shows annotations"
        )
        raise FixInput(
            "no annotation has times", where=", ".join(map(str, files)), hint=hint
        )
    marked_concepts: set[str] = set()
    for clip in clips:
        marked_concepts.update(clip.concepts)
    # What a mapping says is meant as it is.
    marked_concepts.difference_update(tier_mapping.concepts.values())
    unknown = unknown_concepts(marked_concepts, paths)
    if unknown:
        warnings.append(f"unknown concepts, kept unchanged: {few(unknown, 5)}")
    modality_of: dict[str, str] = {}
    for clip in clips:
        modality_of.update(dict.fromkeys(clip.concepts, "unknown"))
    modality_of.update(concepts())
    sources = tuple(map(source_of, paths))
    header = Header(name, modality_of, unit="segment", sources=sources)
    manifest = Manifest(name, header, tuple(clips), EXTRA)
    imported = ImportedSegments(manifest, tuple(warnings))
    imported.reports = tuple(reports)
    imported.rates = rates
    return imported


def _files_in(path: Path) -> list[Path]:
    """Return the files of ELAN in a folder, else those of WebVTT; a file as it is."""
    if not path.is_dir():
        return [path]
    for suffix in (ELAN, ".vtt"):
        paths = sorted(path.glob(f"*{suffix}"))
        if paths:
            return paths
    raise FixInput(
        "the folder has no .eaf and no .vtt files",
        where=str(path),
        hint="name the files: FOLDER/*.csv",
    )


def _rate_of_elan(document: ElanDocument) -> Fraction:
    """Return the frame rate of the video beside an ELAN file; an error if it is not known."""
    name = document.media_name
    rate = video_rate(document.path.parent / name) if name else None
    if rate is None:
        beside = f": {name} is not beside it, or cannot be read" if name else ""
        raise FixUsage(
            f"the frame rate of the film is not known{beside}",
            where=str(document.path),
            hint="--fps 25, or that of the film",
        )
    return rate


def _with_watched(paths: Sequence[Path]) -> list[Path]:
    """Return files, each table with the one beside it that says what was watched."""
    with_watched = list(paths)
    for path in paths:
        beside = watched_path(path)
        is_table = path.suffix == ".csv" or path.suffix in WORKBOOKS
        if is_table and beside.is_file() and beside not in with_watched:
            with_watched.append(beside)
    return with_watched


def _tier_mapping(mapping: TierMapping | str | Path | None) -> TierMapping:
    """Return a mapping of tiers; that of a file is read."""
    if isinstance(mapping, str | Path):
        return read_tier_mapping(Path(mapping))
    return mapping or TierMapping()


def _clip_of(
    film: str,
    annotator: str,
    number: int,
    frames: tuple[int, int],
    rate: Fraction,
    label: Label,
) -> Clip:
    """Return the clip of the mark with a number; of several levels it has the first."""
    first, last = frames
    levels, concepts_marked, comment = label
    return Clip(
        clip_id=ascii_id(f"{film}-{annotator or 'cue'}-{number:04d}"),
        movie_id=film,
        scene=None,
        video="",
        start_s=float(first / rate),
        end_s=float((last + 1) / rate),
        level=levels[0] if levels else "",
        concepts=concepts_marked,
        extra={
            "annotator": plain(annotator) or "cue",
            "start_frame": str(first),
            "end_frame": str(last),
            "framerate": frame_rate_text(rate),
            "comment": comment,
        },
    )


def _film_name(path: Path) -> str:
    """Return the name of the film that a file is called after, however its accents are coded."""
    return unicodedata.normalize("NFC", path.stem.removesuffix("-Scenes")).strip()
