"""Find the spoken words of the clips of a manifest, in subtitles or in a table of texts."""

import locale
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from obygaze_features.core.console import count, few
from obygaze_features.core.cues import READERS, Cue, read_cues, spoken
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.files import VIDEO_SUFFIXES, warn_of_unread
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import (
    SUBTITLES,
    CsvTable,
    TableRow,
    read_header,
    read_table,
)
from obygaze_features.core.unknown_words import (
    UnknownWords,
    no_answer_text,
    word_option,
)
from obygaze_features.extraction.clips import Failure, video_path
from obygaze_features.manifest.adapters import mobygaze
from obygaze_features.manifest.adapters.table_times import in_seconds
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.film_names import films_of_names, in_other_spelling
from obygaze_features.manifest.io import (
    MERGED,
    WRITTEN_SECONDS,
    as_id,
    ids_of_names,
)
from obygaze_features.manifest.model import (
    Clip,
    Manifest,
    by_film,
    require_films,
)
from obygaze_features.manifest.same_clips import same_clips
from obygaze_features.manifest.spans import FILM_TIMES, FRAMES, RATE_COLUMN, Span
from obygaze_features.manifest.times import IN_A_ROW, film_times
from obygaze_features.store.importing import describe_origin
from obygaze_features.store.recipe import RULE_OF_TEXTS
from obygaze_features.store.records import Origin
from obygaze_features.store.rows import FAILED, NO_WORDS
from obygaze_features.video.container import BadVideo
from obygaze_features.video.index import overshoot
from obygaze_features.video.packets import length_of

TEXTS = ("clip_id", "text")
# The language codes of two letters, and how a name states one: juno.de.srt or juno.pt-BR.srt.
LANGUAGES = {name[:2] for name in locale.locale_alias if name[2:3] == "_"}
LANGUAGE = re.compile(r"\.([a-z]{2})(-[a-z]{2})?", re.IGNORECASE)
# The rule that finds the words of a clip, for the recipe.
RULE_OF_CUES = "each cue that overlaps the clip, whole"


@dataclass(frozen=True)
class ClipTexts:
    """The words of each clip, by its id.

    Attributes:
        rule: The rule that found the words.
        texts: The words of each clip; "" if nothing is said.
        failures: The status and the reason of each clip whose words are unknown.
        origins: The folder or the table that was read.
        unused: Files, films or clips of the source that the manifest does not have.
        in_other_spelling: The files whose names differ from their films in spelling.
    """

    rule: str
    texts: Mapping[str, str]
    failures: Mapping[str, Failure] = field(default_factory=dict)
    origins: Sequence[Origin] = ()
    unused: Sequence[str] = ()
    in_other_spelling: Sequence[str] = ()


def words_of_clips(
    manifest: Manifest, subtitles: str, meanings: Mapping[str, str] | None = None
) -> ClipTexts:
    """Return the spoken words of the clips of a manifest.

    Args:
        manifest: The clips.
        subtitles: A folder with files MOVIE_ID.srt or .vtt, or a table of the texts of clips.
        meanings: `?` for texts of the table that mean that there is none, NA for a text NA.
    """
    path = Path(subtitles)
    read_files = None
    renamed: list[str] = []
    if path.is_dir():
        files, unused = _files_of_films(path, manifest)
        read_files = list(files.values())
        stems = {_without_language(file.stem): film for film, file in files.items()}
        renamed = in_other_spelling(stems)
        cues_of_film = {film: read_cues(file) for film, file in files.items()}
        words = _of_films(manifest, cues_of_film, unused, str(path))
    elif not path.is_file():
        hint = (
            f"use a folder of subtitles, or a table with the columns {', '.join(TEXTS)}"
        )
        raise NotFound("no such file or folder", where=subtitles, hint=hint)
    elif path.suffix.lower() in SUBTITLES:
        hint = "use --subtitles FOLDER, with a file MOVIE_ID.srt of each film"
        raise FixUsage("expected a folder, got a file", where=subtitles, hint=hint)
    else:
        words = _of_table(manifest, path, UnknownWords.of(meanings or {}))
    if not any(words.texts.values()):
        reasons = {str(failure) for failure in words.failures.values()}
        if words.texts:
            n_clips = count(len(words.texts), "clip")
            reasons.add(f"nothing is said in {n_clips} ({words.rule})")
        problem = f"no clip has any words: {'; '.join(sorted(reasons))}"
        raise FixInput(problem, where=subtitles)
    read = describe_origin("subtitles", path, read_files)
    origin = Origin(path.resolve().name, read["sha256"])
    return replace(words, origins=[origin], in_other_spelling=renamed)


class Utterance(NamedTuple):
    """The words of a cue, and the seconds in which they are said."""

    start_s: float
    end_s: float
    text: str


# --- Subtitles of films


def _files_of_films(
    folder: Path, manifest: Manifest
) -> tuple[dict[str, Path], list[str]]:
    """Return the file of subtitles of each film, and the names of files of other films."""
    files: dict[str, Path] = {}
    unused = []
    found = []
    unread = []
    for path in sorted(folder.iterdir()):
        ending = path.suffix.lower()
        if ending in READERS:
            found.append(path)
        # Videos are not reported: the subtitles may be in the folder of their films.
        elif ending not in VIDEO_SUFFIXES and not path.is_dir():
            unread.append(path.name)
    warn_of_unread(folder, unread, "subtitles")
    stems = [path.stem for path in found]
    film_of = films_of_names([*stems, *map(_without_language, stems)], manifest.films)
    for path in found:
        film = film_of.get(path.stem) or film_of.get(_without_language(path.stem))
        if not film:
            unused.append(path.name)
        elif film in files:
            raise FixInput(
                f"two subtitle files for the film {film}: {files[film].name} and {path.name}",
                where=str(folder),
                hint="remove one of the files from the folder",
            )
        else:
            files[film] = path
    if not found:
        endings = ", ".join(READERS)
        raise FixInput(
            f"the folder has no subtitles ({endings})",
            where=str(folder),
            hint="convert other subtitles: ffmpeg -i MOVIE_ID.ass MOVIE_ID.srt",
        )
    return files, unused


def _without_language(name: str) -> str:
    """Return a name without the language at its end: juno for juno.de."""
    ending = Path(name).suffix
    language = LANGUAGE.fullmatch(ending)
    is_known = language and language[1].lower() in LANGUAGES
    return name.removesuffix(ending) if is_known else name


def _of_films(
    manifest: Manifest,
    cues_of_film: Mapping[str, Sequence[Cue]],
    unused: Sequence[str],
    where: str,
) -> ClipTexts:
    """Return the words of clips, which are found by the times of the clips in their films."""
    films = [clip.movie_id for clip in manifest]
    require_films(films, manifest.name, "the subtitles of films have no clips")
    if not cues_of_film:
        raise FixInput(
            f"no film of the manifest has subtitles: expected {few(list(manifest.films))}, got"
            f" {few(unused)}",
            where=where,
            hint="name each file after the id of its film in the manifest (MOVIE_ID.srt)",
        )
    texts: dict[str, str] = {}
    failures = {}
    for film, clips in by_film(manifest).items():
        cues = cues_of_film.get(film)
        if cues is None:
            failure = Failure(NO_WORDS, "the film has no subtitles")
            failures.update(dict.fromkeys(_ids(clips), failure))
            continue
        spans, length_s = _spans_in_film(clips, manifest.header.video_root)
        _check_within(cues, film, length_s)
        utterances = _utterances(cues)
        for clip in clips:
            span = spans.get(clip.clip_id)
            if span is None:
                reason = "the times of the clip in its film are unknown"
                failures[clip.clip_id] = Failure(NO_WORDS, reason)
            elif outside := _outside_failure(length_s, *span):
                failures[clip.clip_id] = outside
            else:
                texts[clip.clip_id] = _join_words(utterances, span)
    return ClipTexts(RULE_OF_CUES, texts, failures, unused=unused)


def _ids(clips: Iterable[Clip]) -> list[str]:
    return [clip.clip_id for clip in clips]


def _spans_in_film(
    clips: Sequence[Clip], folder: str
) -> tuple[Mapping[str, Span], float]:
    """Return the span of each clip in the film, and the length of the film in seconds.

    The length is 0 if it is unknown.
    """
    videos = {video_path(clip.video, folder) for clip in clips}
    length_s = 0.0

    def length_of_film(_: str) -> float:
        nonlocal length_s
        # If each clip has its own file, spans in the film stay unknown, and no file is opened.
        if len(videos) == 1 and "" not in videos:
            with suppress(BadVideo):
                length_s = length_of(Path(*videos))
        return length_s

    times = film_times(clips, length_of=length_of_film)
    if times.axis == IN_A_ROW or times.unknown:
        return {}, 0.0
    return times.spans, length_s


def _outside_failure(
    length_s: float, start_s: float | None, end_s: float | None
) -> Failure | None:
    """Return the failure of a clip that is not inside its film, or None if it is.

    The reason is the same as for a clip whose pictures are extracted.
    """
    if not length_s:
        return None
    problem = overshoot(length_s, start_s, end_s)
    if problem is not None:
        return Failure(FAILED, f"too-long: {problem}")
    begins_s = start_s or 0.0
    if begins_s < length_s:
        return None
    problem = f"the part begins at {begins_s:g} s, the film ends at {length_s:.2f} s"
    return Failure(FAILED, f"outside: {problem}")


def _check_within(cues: Iterable[Cue], film: str, length_s: float) -> None:
    """Raise an error for a cue that begins after the end of its film."""
    last = max(cues)
    if length_s and last.start_s > length_s:
        raise FixInput(
            f"a cue begins at {float(last.start_s):.1f} s, and the film {film} ends at"
            f" {length_s:.1f} s: these subtitles belong to a different film or cut",
            where=last.where,
        )


def _utterances(cues: Iterable[Cue]) -> list[Utterance]:
    """Return the cues with words, in the order in which they begin, then in that of the file."""
    utterances = []
    for cue in sorted(cues, key=attrgetter("start_s")):
        text = spoken(cue.text)
        if text:
            utterances.append(Utterance(float(cue.start_s), float(cue.end_s), text))
    return utterances


def _join_words(utterances: Iterable[Utterance], span: Span) -> str:
    """Return the words of a clip: the whole text of each cue that overlaps the clip, in order."""
    start_s, end_s = span
    texts = []
    for begins, ends, text in utterances:
        if begins >= end_s:
            break
        if ends > start_s or begins == ends == start_s:
            texts.append(text)
    return " ".join(texts)


# --- Tables


def _of_table(manifest: Manifest, path: Path, words: UnknownWords) -> ClipTexts:
    columns = set(read_header(path))
    if columns.issuperset(TEXTS):
        return _of_texts(manifest, _read_texts(path, manifest, words), path)
    if columns.issuperset(mobygaze.TEXTS):
        return _of_texts(manifest, mobygaze.texts_of_segments(path), path)
    raise FixInput(
        f"expected the columns {', '.join(TEXTS)}, got {few(sorted(columns))}",
        where=str(path),
        hint="rename columns, or use --subtitles FOLDER, with a file MOVIE_ID.srt or .vtt of each"
        " film",
    )


def _read_texts(path: Path, manifest: Manifest, words: UnknownWords) -> dict[str, str]:
    violations = Violations(path)
    table = read_table(
        path, required=TEXTS, violations=violations, content="texts", words=words
    )
    line_of: dict[str, int] = {}
    texts = {}
    rows = []
    for row in table.rows:
        _require_name(row, "clip_id")
        name = row.unique("clip_id", line_of)
        text = row["text"].strip()
        if words.is_asked(text):
            way = f"likely answer: {word_option(text)}"
            row.add("text", f"{no_answer_text(text)}; {way}")
        texts[name] = "" if words.is_unknown(text) else row["text"]
        cells = {
            "clip_id": as_id(name),
            "movie_id": as_id(row.cells.get("movie_id", "")),
            **{name: row.cells.get(name, "") for name in (*FRAMES, RATE_COLUMN)},
        }
        for column in ("start_s", "end_s", *FILM_TIMES):
            if row.cells.get(column, "").strip():
                time_s = _time(row, column, table)
                cells[column] = "" if time_s is None else str(float(time_s))
        rows.append(cells)
    violations.raise_if_any("the texts of the clips cannot be read")
    # If the table states the film or the times of a clip, they must agree with the manifest.
    stated = ClipTable.of_cells(rows)
    same_clips(ClipTable.of_clips(manifest.clips), stated).require(
        ("the manifest", "the table"),
        where=str(path),
        hint="use the table of these clips",
    )
    return texts


def _of_texts(manifest: Manifest, texts: Mapping[str, str], path: Path) -> ClipTexts:
    """Return the words of clips, which are found by the ids of the clips."""
    found = {}
    failures = {}
    id_of_name = ids_of_names(texts, "clip", str(path))
    text_of_id = {id_of_name[name]: text for name, text in texts.items()}
    for clip in manifest:
        if clip.clip_id in text_of_id:
            found[clip.clip_id] = spoken(text_of_id[clip.clip_id])
        else:
            failures[clip.clip_id] = Failure(
                NO_WORDS, "the table has no text of the clip"
            )
    unused = sorted(text_of_id.keys() - found.keys())
    if not found:
        raise FixInput(
            f"no clip of the manifest has a text: expected {few(list(manifest.clip_ids))}, got"
            f" {few(unused)}",
            where=str(path),
        )
    return ClipTexts(RULE_OF_TEXTS, found, failures, unused=unused)


def _require_name(row: TableRow, column: str) -> None:
    """Add a violation for a row that does not name its clip or film."""
    if not row[column].strip():
        row.add(column, f"is empty, but required in each row{MERGED}")


def _time(row: TableRow, column: str, table: CsvTable) -> Fraction | None:
    text = in_seconds(row[column], has_decimal_comma=table.delimiter != ",")
    if WRITTEN_SECONDS.fullmatch(text):
        return Fraction(text)
    row.add(column, f"{row[column]!r} is not a time in seconds or as h:mm:ss")
    return None
