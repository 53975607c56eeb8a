"""Which words are said in the clips of a manifest: by subtitles, or by a table."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from obygaze_features.core.console import count, few
from obygaze_features.core.cues import READERS, Cue, read_cues, spoken
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import CsvTable, TableRow, header_of, read_table
from obygaze_features.extraction.clips import NO_VIDEO_NAMED, Failure
from obygaze_features.manifest.adapters import mobygaze
from obygaze_features.manifest.adapters.table_times import in_seconds
from obygaze_features.manifest.io import as_id
from obygaze_features.manifest.model import Clip, Manifest, Windows, unannotated_id
from obygaze_features.manifest.spans import FILM_TIMES, Span
from obygaze_features.manifest.times import IN_A_ROW, film_times
from obygaze_features.store.rows import FAILED
from obygaze_features.video.container import BadVideo
from obygaze_features.video.subtitles import length_of, read_embedded

EMBEDDED = "embedded"
CUES = ("movie_id", "start_s", "end_s", "text")
TEXTS = ("clip_id", "text")
NO_WORDS = "no words"
# How the words of a clip are found, for the recipe.
RULE_OF_CUES = "each cue that overlaps the clip, whole"
RULE_OF_TEXTS = "the text of the clip"


@dataclass(frozen=True)
class ClipTexts:
    """The words of each clip, by its id.

    Attributes:
        rule: How they were found.
        texts: What is said; the empty text where nothing is.
        failures: The status and the reason of each clip of which it is not known.
        streams: Which subtitles of its video were read, where it has several.
        unused: What the source has of other films or clips.
    """

    rule: str
    texts: Mapping[str, str]
    failures: Mapping[str, Failure] = field(default_factory=dict)
    streams: Mapping[str, str] = field(default_factory=dict)
    unused: Sequence[str] = ()


def words_of_clips(manifest: Manifest, subtitles: str) -> ClipTexts:
    """Return what is said in the clips of a manifest.

    Args:
        manifest: The clips.
        subtitles: A folder with files MOVIE_ID.srt, .vtt or .ass; "embedded", for those in the
            videos; or a table of cues or of texts.
    """
    if isinstance(manifest.clips, Windows):
        raise FixUsage(
            "words are found for clips, and this manifest cuts films into windows",
            where=manifest.name,
            hint="the manifest of the clips",
        )
    path = Path(subtitles)
    if subtitles == EMBEDDED:
        words = _of_videos(manifest)
    elif path.is_dir():
        files, unused = _files_of_films(path, manifest)
        cues_of_film = {film: read_cues(file) for film, file in files.items()}
        words = _of_films(manifest, cues_of_film, unused, str(path))
    elif not path.is_file():
        hint = f"a folder of subtitles, {EMBEDDED}, or a table"
        raise NotFound("there are no such subtitles", where=subtitles, hint=hint)
    elif path.suffix.lower() in READERS:
        hint = "--subtitles FOLDER, with a file MOVIE_ID.srt of each film"
        raise FixUsage("expected a folder, got a file", where=subtitles, hint=hint)
    else:
        words = _of_table(manifest, path)
    if not any(words.texts.values()):
        reasons = dict.fromkeys(failure.reason for failure in words.failures.values())
        if words.texts:
            n_clips = count(len(words.texts), manifest.header.unit)
            reasons[f"no cue overlaps one of {n_clips}"] = None
        raise FixInput(f"no clip has any words: {'; '.join(reasons)}", where=subtitles)
    return words


class Utterance(NamedTuple):
    """The words of a cue, and the seconds in which they are said."""

    start_s: float
    end_s: float
    text: str


# --- Subtitles of films


def _files_of_films(
    folder: Path, manifest: Manifest
) -> tuple[dict[str, Path], list[str]]:
    """Return the file of each film, and the names of those of other films."""
    files: dict[str, Path] = {}
    unused = []
    found = [
        path for path in sorted(folder.iterdir()) if path.suffix.lower() in READERS
    ]
    for path in found:
        film = as_id(path.stem)
        if film not in manifest.films:
            unused.append(path.name)
        elif film in files:
            raise FixInput(
                f"two files of the film {film}: {files[film].name} and {path.name}",
                where=str(folder),
                hint="keep one of them",
            )
        else:
            files[film] = path
    if not found:
        endings = ", ".join(READERS)
        problem = f"the folder has no subtitles ({endings})"
        raise FixInput(problem, where=str(folder))
    return files, unused


def _of_films(
    manifest: Manifest,
    cues_of_film: Mapping[str, Sequence[Cue]],
    unused: Sequence[str],
    where: str,
) -> ClipTexts:
    """Return the words of clips by their places in the films."""
    if not cues_of_film:
        raise FixInput(
            f"the subtitles are of no film of the manifest: they are of {few(unused)},"
            f" and its films are {few(list(manifest.films))}",
            where=where,
            hint="give each file the id of its film (MOVIE_ID.srt), as the manifest has it",
        )
    texts: dict[str, str] = {}
    failures = {}
    for film, clips in _clips_of_films(manifest).items():
        cues = cues_of_film.get(film)
        if cues is None:
            failure = Failure(FAILED, "no-words: the film has no subtitles")
            failures.update(dict.fromkeys(_ids(clips), failure))
            continue
        spans, length_s = _spans_in_film(clips, Path(manifest.header.video_root))
        _check_within(cues, film, length_s)
        heard = _heard(cues)
        for clip in clips:
            if clip.clip_id in spans:
                texts[clip.clip_id] = _said(heard, spans[clip.clip_id])
            else:
                reason = "no-words: the place of the clip in its film is not known"
                failures[clip.clip_id] = Failure(FAILED, reason)
    return ClipTexts(RULE_OF_CUES, texts, failures, unused=unused)


def _clips_of_films(manifest: Manifest) -> dict[str, list[Clip]]:
    clips_of_film: dict[str, list[Clip]] = {}
    for clip in manifest:
        clips_of_film.setdefault(clip.movie_id, []).append(clip)
    return clips_of_film


def _ids(clips: Iterable[Clip]) -> list[str]:
    return [clip.clip_id for clip in clips]


def _spans_in_film(
    clips: Sequence[Clip], folder: Path
) -> tuple[Mapping[str, Span], float]:
    """Return where clips are in their film, and how long it is; 0 where that is not known."""

    def seconds(video: str) -> float:
        try:
            return length_of(folder / video)
        except BadVideo:
            return 0.0

    videos = {clip.video for clip in clips}
    has_film_times = any(clip.extra.get(FILM_TIMES[0]) for clip in clips)
    length_s = 0.0
    if len(videos) == 1 and not has_film_times and videos != {""}:
        length_s = seconds(*videos)
    times = film_times(clips, length_of=lambda video: length_s)
    if times.axis == IN_A_ROW or times.unknown:
        return {}, 0.0
    return times.spans, length_s


def _check_within(cues: Iterable[Cue], film: str, length_s: float) -> None:
    """Raise an error for a cue that begins after the end of its film."""
    last = max(cues)
    if length_s and last.start_s > length_s:
        raise FixInput(
            f"a cue begins at {float(last.start_s):.1f} s, and the film {film} ends at"
            f" {length_s:.1f} s: these are the subtitles of another film or cut",
            where=last.where,
        )


def _heard(cues: Iterable[Cue]) -> list[Utterance]:
    """Return what is said, in the order in which it begins; cues without words say nothing."""
    heard = []
    for cue in sorted(cues):
        text = spoken(cue.text)
        if text:
            heard.append(Utterance(float(cue.start_s), float(cue.end_s), text))
    return heard


def _said(heard: Iterable[Utterance], span: Span) -> str:
    """Return what is said in a clip: each cue that overlaps it, whole."""
    start_s, end_s = span
    texts = []
    for begins, ends, text in heard:
        if begins < end_s and (ends > start_s or begins == ends == start_s):
            texts.append(text)
    return " ".join(texts)


# --- Subtitles inside videos


def _of_videos(manifest: Manifest) -> ClipTexts:
    """Return the words of clips by their places in their files."""
    clips_of_video: dict[str, list[Clip]] = {}
    for clip in manifest:
        clips_of_video.setdefault(clip.video, []).append(clip)
    texts: dict[str, str] = {}
    streams: dict[str, str] = {}
    failures = {}
    no_video = clips_of_video.pop("", [])
    failures.update(dict.fromkeys(_ids(no_video), NO_VIDEO_NAMED))
    for video, clips in clips_of_video.items():
        try:
            embedded = read_embedded(Path(manifest.header.video_root, video))
        except BadVideo as error:
            failure = Failure(FAILED, f"{error.reason}: {error.message}")
            failures.update(dict.fromkeys(_ids(clips), failure))
            continue
        heard = _heard(embedded.cues)
        streams.update(dict.fromkeys(_ids(clips), embedded.stream))
        for clip in clips:
            start_s = -math.inf if clip.start_s is None else clip.start_s
            end_s = math.inf if clip.end_s is None else clip.end_s
            texts[clip.clip_id] = _said(heard, (start_s, end_s))
    return ClipTexts(RULE_OF_CUES, texts, failures, streams)


# --- Tables


def _of_table(manifest: Manifest, path: Path) -> ClipTexts:
    columns = set(header_of(path))
    if columns.issuperset(TEXTS):
        return _of_texts(manifest, _texts_in(path), path)
    if columns.issuperset(mobygaze.TEXTS):
        return _of_texts(manifest, mobygaze.texts_of_segments(path), path)
    if columns.issuperset(CUES):
        cues_of_film, unused = _cues_in(path, manifest.films)
        return _of_films(manifest, cues_of_film, unused, str(path))
    raise FixInput(
        f"the table must have the columns {', '.join(CUES)} of cues, or {', '.join(TEXTS)} of"
        f" texts; it has {few(sorted(columns))}",
        where=str(path),
    )


def _texts_in(path: Path) -> dict[str, str]:
    violations = Violations(path)
    table = read_table(path, required=TEXTS, violations=violations, content="texts")
    line_of: dict[str, int] = {}
    texts = {row.unique("clip_id", line_of): row["text"] for row in table.rows}
    violations.raise_if_any("the texts cannot be read")
    return texts


def _of_texts(manifest: Manifest, texts: Mapping[str, str], path: Path) -> ClipTexts:
    """Return the words of clips by their ids, or by those without the annotator."""
    found = {}
    failures = {}
    used = set()
    text_of_id = {as_id(name): text for name, text in texts.items()}
    for clip in manifest:
        ids = (clip.clip_id, unannotated_id(clip))
        known = next(filter(text_of_id.__contains__, ids), "")
        if known:
            found[clip.clip_id] = spoken(text_of_id[known])
            used.add(known)
        else:
            reason = "no-words: the table has no text of the clip"
            failures[clip.clip_id] = Failure(FAILED, reason)
    unused = sorted(text_of_id.keys() - used)
    if not used:
        raise FixInput(
            f"the texts are of no clip of the manifest: their first is {unused[0]!r}, the"
            f" manifest's is {next(iter(manifest.clip_ids), '')!r}",
            where=str(path),
        )
    return ClipTexts(RULE_OF_TEXTS, found, failures, unused=unused)


def _cues_in(
    path: Path, films: Collection[str]
) -> tuple[dict[str, list[Cue]], list[str]]:
    """Return the cues of each film, and the other films of a table."""
    violations = Violations(path)
    table = read_table(path, required=CUES, violations=violations, content="cues")
    cues_of_film: dict[str, list[Cue]] = {}
    unused: dict[str, None] = {}
    for row in table.rows:
        start_s = _time(row, "start_s", table)
        end_s = _time(row, "end_s", table)
        if start_s is None or end_s is None:
            continue
        if end_s < start_s:
            row.add("end_s", f"the end {row['end_s']} is before {row['start_s']}")
        film = as_id(row["movie_id"])
        if film in films:
            cue = Cue(start_s, end_s, row["text"], where=f"{path}:{row.line}")
            cues_of_film.setdefault(film, []).append(cue)
        else:
            unused[film] = None
    violations.raise_if_any("the cues cannot be read")
    return cues_of_film, list(unused)


def _time(row: TableRow, column: str, table: CsvTable) -> Fraction | None:
    text = in_seconds(row[column], has_decimal_comma=table.delimiter != ",")
    try:
        return Fraction(text)
    except ValueError:
        row.add(column, f"{row[column]!r} is no time in seconds, or as h:mm:ss")
        return None
