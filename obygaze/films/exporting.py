"""From marks, labels and scores to files of ELAN, and from a manifest to a table.

ELAN has whole milliseconds. They are rounded up, so that a player that seeks to one shows the
picture.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from obygaze.films.elan import ElanFile, write_elan
from obygaze.films.importing import ELAN, film_of_elan, name_of_elan
from obygaze.films.marks import (
    COMMENT,
    CONCEPTS_COLUMN,
    FOLDER,
    LEVEL,
    SCORE,
    UNKNOWN,
    Mark,
    marks_by_film,
    read_marks,
    table_of_marks,
)
from obygaze.films.pictures import LinkedFilms
from obygaze.films.predictions import read_predictions
from obygaze.films.sampling import is_drawn
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.file_names import printable_line
from obygaze_features.core.files import write_all_new
from obygaze_features.core.tables import number_of_cell
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.core.written_tables import write_table
from obygaze_features.manifest import read_manifest
from obygaze_features.manifest.annotators import columns_of_people, made_columns
from obygaze_features.manifest.io import (
    annotations_to_csv,
    annotators_of,
    as_id,
    stale_annotations,
    toml_lines,
)
from obygaze_features.manifest.model import (
    NO_FILMS,
    Annotation,
    Header,
    Manifest,
    own_columns,
    require_films,
    with_columns_of,
)
from obygaze_features.manifest.times import spans_in_films
from obygaze_features.manifest.vocabulary import concepts

MOST_LETTERS = 28  # of the name of a class or concept in an annotation
_SCORES = re.compile(r"score|cosine|p:.*|score:.*")


@dataclass(frozen=True)
class ExportedFiles:
    """The files of an export, and what they do not have.

    Attributes:
        files: The files.
        without_times: The clips that are left out, as nobody knows where they are.
        left_out: What the files do not say.
        mapping: A sentence if an import of the table needs a mapping that says them, else "".
    """

    files: tuple[Path, ...]
    without_times: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    mapping: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the files, and what is left out."""
        return {
            "written": [str(path) for path in self.files],
            "without_times": list(self.without_times),
            "left_out": list(self.left_out),
        }

    def __str__(self) -> str:
        return "\n".join(map(str, self.files))

    @property
    def warnings(self) -> list[str]:
        """What is left out."""
        sentences = []
        if self.without_times:
            n_clips = count(len(self.without_times), "clip")
            sentences.append(f"{n_clips} without times: {few(self.without_times, 5)}")
        if self.left_out:
            sentences.append(f"the files do not say: {', '.join(self.left_out)}")
        if self.mapping:
            sentences.append(self.mapping)
        return sentences


def export_elan(
    source: PathLike | Manifest,
    output: Path,
    *,
    predictions: PathLike | None = None,
    into: PathLike | None = None,
    people: Sequence[str] = (),
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedFiles:
    """Write a table of marks, or the clips of a manifest as marks, as a file for each film.

    Args:
        source: The table of marks or its name, or the manifest.
        output: The file, if there is one film; else the folder.
        predictions: A table of scores of the clips, in place of their labels.
        into: A file of ELAN, or a folder of them: each is written as the output, or into it, with
            the marks of its film as new tiers.
        people: Who fills in a tier of drawn clips.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    said = _said_in(source, predictions, people, workspace)
    if not said.marks:
        raise FixInput("nothing to export: there are no marks", where=str(source))
    marks_of = marks_by_film(said.marks)
    films = LinkedFilms(workspace)
    left_out = [*said.left_out]
    if into is None:
        files = _files_of(marks_of, output, films, are_drawn=said.are_drawn)
    elif said.are_drawn:
        raise FixUsage("drawn clips are tiers of files of their own", where=str(into))
    else:
        files = _with_new_tiers(Path(into), marks_of, output, films, left_out)
    write_all_new(files, force=force)
    return ExportedFiles(tuple(files), tuple(said.without_times), tuple(left_out))


def _with_new_tiers(
    into: Path,
    marks_of: Mapping[str, Sequence[Mark]],
    output: Path,
    films: LinkedFilms,
    left_out: list[str],
) -> dict[Path, bytes]:
    """Return a file, or those of a folder, with the marks of their films as new tiers.

    `left_out` gets the films without a file, and the files without marks of their film.
    """
    paths = [into]
    if into.is_dir():
        paths = sorted(path for path in into.glob("[!.]*") if path.suffix == ELAN)
        if output.suffix.lower() == ELAN:
            raise FixUsage(f"{into} is a folder, and {output.name} one file")
    files: dict[Path, bytes] = {}
    unmarked = []
    missing = dict.fromkeys(marks_of)
    for path in paths:
        file = ElanFile(path)
        film = film_of_elan(file, films) or as_id(name_of_elan(file))
        if film not in marks_of:
            unmarked.append(f"{path.name} of the film {film}")
            continue
        missing.pop(film, None)
        _refuse_scores(file, marks_of[film])
        to = output if output.suffix.lower() == ELAN else output / path.name
        files[to] = file.with_tiers(marks_of[film])
    if not files:
        raise FixInput(
            f"the marks are of {few([*marks_of])}, and these are other films:"
            f" {few(unmarked) or 'none'}",
            where=str(into),
            hint="obygaze manifest link, to the video that the file names",
        )
    if missing:
        left_out.append(f"marks of films without a file: {few([*missing])}")
    if unmarked:
        left_out.append(f"files without marks of their film: {few(unmarked)}")
    return files


def _refuse_scores(file: ElanFile, marks: Sequence[Mark]) -> None:
    """Raise an error for scores in a file that has them, or has clips that are to be judged."""
    scored = {mark.annotator for mark in marks if mark.column == SCORE}
    for tier in file.tiers():
        n_to_judge = sum(not text for *_, text in tier.annotations)
        if scored and tier.is_drawn and n_to_judge:
            raise FixInput(
                f"the tier {tier.name} has {count(n_to_judge, 'clip')} that nobody has judged:"
                " whoever sees scores would mark what the model says",
                where=str(file.path),
                hint="fill in the tier first",
            )
        if tier.column == SCORE and tier.annotator in scored:
            raise FixInput(
                f"the file has scores of {tier.annotator} already, in the tier {tier.name}",
                where=str(file.path),
                hint="--into the file without scores",
            )


def _files_of(
    marks_of: Mapping[str, Sequence[Mark]],
    output: Path,
    films: LinkedFilms,
    *,
    are_drawn: bool,
) -> dict[Path, bytes]:
    """Return a file for each film: of one film the output, else in its folder."""
    is_file = output.suffix.lower() == ELAN
    if is_file and len(marks_of) > 1:
        raise FixUsage(
            f"{output.name} is of one film, and the marks are of {len(marks_of)}",
            hint="a folder and --as elan: a file for each film",
        )
    folder = output.parent if is_file else output
    files = {}
    for film, marks in marks_of.items():
        if film != Path(film).name or "\\" in film:
            raise FixInput(f"the film {film!r} cannot be the name of a file")
        video = films.file_of(film)
        name = film
        # People look for the file by the name of the video.
        if video is not None and as_id(video.stem) == film:
            name = video.stem
        path = output if is_file else folder / f"{name}{ELAN}"
        media = _media(video, folder)
        files[path] = write_elan(marks, media, are_drawn=are_drawn)
    return files


def _media(video: Path | None, folder: Path) -> dict[str, str]:
    """Return the URLs of a video, the second as it is seen from a folder, in the form of ELAN."""
    if video is None:
        return {}
    try:
        path = Path(os.path.relpath(video.resolve(), folder.resolve())).as_posix()
    except ValueError:
        path = video.name  # on another drive of Windows: no path leads there
    relative = path if path.startswith("../") else f"./{path}"
    return {
        "MEDIA_URL": video.absolute().as_uri(),
        "MIME_TYPE": "video/*",
        "RELATIVE_MEDIA_URL": quote(os.fsencode(relative)),
    }


class _Said(NamedTuple):
    """The marks of an export, the clips that have no times, and what the files will not say."""

    marks: Sequence[Mark]
    without_times: Sequence[str] = ()
    left_out: Sequence[str] = ()
    are_drawn: bool = False


def _said_in(
    source: PathLike | Manifest,
    predictions: PathLike | None,
    people: Sequence[str],
    workspace: PathLike | None,
) -> _Said:
    """Return the marks of a table, or those that the clips of a manifest stand for."""
    if not isinstance(source, Manifest) and predictions is None and not people:
        path = table_of_marks(source, workspace)
        folder = Workspace.of(workspace).folder(FOLDER)
        if path == Path(source) or path.parent == folder:
            return _Said(read_marks([path], workspace).marks)
    manifest = read_manifest(source, workspace=workspace)
    films = [clip.movie_id for clip in manifest]
    require_films(films, manifest.name, "clips are marks of no film")
    left_out: list[str] = []
    are_drawn = predictions is None and is_drawn(manifest)
    if people and not are_drawn:
        raise FixUsage(
            "--person names who fills in drawn clips",
            where=manifest.name,
            hint="obygaze manifest sample draws them",
        )
    if predictions is not None:
        said = _predicted(manifest, Path(predictions))
    elif are_drawn:
        said = []
        for clip in manifest:
            said += [(clip.clip_id, person, LEVEL, "") for person in people or [""]]
        n_labelled = sum(bool(clip.level or clip.concepts) for clip in manifest)
        if n_labelled:
            n_clips = count(n_labelled, "clip")
            left_out.append(f"the labels of {n_clips}, which are to be judged anew")
    else:
        said = [*_labels_of(manifest)]
        left_out += _not_said(manifest)
        n_unlabelled = len({*manifest.clip_ids} - {clip_id for clip_id, *_ in said})
        if n_unlabelled:
            n_clips = count(n_unlabelled, "clip")
            left_out.append(f"{n_clips} of films without a label")
    spans_s = spans_in_films(manifest)
    without_times: dict[str, None] = {}
    marks = []
    for clip_id, annotator, column, value in said:
        if clip_id not in spans_s:
            without_times[clip_id] = None
            continue
        film = manifest[clip_id].movie_id
        start_s, end_s = spans_s[clip_id]
        column, value, annotator = map(printable_line, (column, value, annotator))
        marks.append(Mark(film, start_s, end_s, column, value, annotator))
    if not marks and without_times:
        n_clips = count(len(without_times), "clip")
        raise FixInput(
            f"nothing to export: {n_clips} without times in a film", where=manifest.name
        )
    if not marks:
        raise FixInput(
            "nothing to export: no clip has a level or a concept",
            where=manifest.name,
            hint="--predictions TABLE, for what a model says of the clips",
        )
    return _Said(marks, tuple(without_times), left_out, are_drawn)


def _not_said(manifest: Manifest) -> list[str]:
    """Return what a manifest says of its clips, and marks of its people do not."""
    left_out = [*_header_left_out(manifest.header)]
    if manifest.annotations:
        left_out.append("the label that a rule made of what each annotator says")
    of_people = columns_of_people(manifest)
    others = [name for name in own_columns(manifest.columns) if name not in of_people]
    others = [name for name in others if name not in made_columns(manifest)]
    if others:
        left_out.append(f"columns in which no person has words: {few(others)}")
    return left_out


def _labels_of(manifest: Manifest) -> Iterator[tuple[str, str, str, str]]:
    """Yield clip, annotator, column and word of each label: of people where they are known.

    In films in which a person has words in a column, an empty cell is a label that is not known.
    """
    made = made_columns(manifest)
    columns = [name for name in columns_of_people(manifest) if name not in made]
    known: dict[tuple[str, str], dict[str, Annotation]] = {}
    for one in manifest.annotations or _said_by_one(manifest, columns):
        film = manifest[one.clip_id].movie_id
        known.setdefault((film, one.annotator), {})[one.clip_id] = one
    clips_of: dict[str, list[str]] = {}
    for clip in manifest:
        clips_of.setdefault(clip.movie_id, []).append(clip.clip_id)
    for (film, annotator), of_film in known.items():
        used = [LEVEL] if any(one.level for one in of_film.values()) else []
        for column in columns:
            if column != COMMENT and any(
                one.own.get(column) for one in of_film.values()
            ):
                used.append(column)
        nothing = Annotation("", annotator, "", (), {})
        for clip_id in clips_of[film]:
            one = of_film.get(clip_id, nothing)
            cells = {**one.own, LEVEL: one.level}
            for column in used:
                for word in (cells.get(column) or UNKNOWN).split("|"):
                    yield clip_id, annotator, column, word
            for concept in one.concepts:
                yield clip_id, annotator, CONCEPTS_COLUMN, concept
            if one.own.get(COMMENT, "").strip():
                yield clip_id, annotator, COMMENT, one.own[COMMENT]


def _said_by_one(manifest: Manifest, columns: Sequence[str]) -> Iterator[Annotation]:
    """Yield the labels of clips as those of the person of each clip, else of the manifest."""
    for clip in manifest:
        own = {column: clip.extra.get(column, "") for column in columns}
        if clip.level or clip.concepts or any(own.values()):
            annotator = clip.extra.get("annotator") or manifest.name
            yield Annotation(clip.clip_id, annotator, clip.level, clip.concepts, own)


def _predicted(
    manifest: Manifest, predictions: Path
) -> list[tuple[str, str, str, str]]:
    """Return what models say of clips: the decision, whether the clip was seen, and scores."""
    table_of_scores = read_predictions(manifest, predictions)
    scored = [name for name in table_of_scores.columns if _SCORES.fullmatch(name)]
    if not scored:
        # Concept vectors have nothing else.
        scored = [n for n in table_of_scores.columns if n.startswith("margin:")]
    score_names = {name: _cut(name) for name in scored}
    if len(scored) == 1 and scored[0].startswith("score:"):
        score_names[scored[0]] = SCORE  # the decision names the task
    said: dict[tuple[str, str, str, str], None] = {}
    for clip, model, row in table_of_scores.clips:
        facts = [_cut(row.cells.get("decision", "")), row.cells.get("basis", "")]
        for name in scored:
            if row[name]:
                facts.append(f"{score_names[name]} {_short(row[name])}")
        said[clip.clip_id, model, SCORE, ", ".join(filter(None, facts))] = None
    return list(said)


def _cut(name: str) -> str:
    """Return the beginning of a name, as it is read in ELAN: classes may be expressions."""
    return name if len(name) <= MOST_LETTERS else f"{name[:MOST_LETTERS]}..."


def _short(cell: str) -> str:
    """Return a score with four digits, as it is read in ELAN."""
    number = number_of_cell(cell)
    return cell if number is None else f"{number:.4g}"


def export_table(
    manifest: PathLike | Manifest,
    output: Path,
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedFiles:
    """Write all clips of a manifest as a table, and beside it what annotators say."""
    marked = read_manifest(manifest, workspace=workspace)
    # Windows have the rate of their film, which is no column of their manifest.
    columns = with_columns_of(marked.clips, marked.columns)
    cells = replace(marked, columns=columns).cells_by_column()
    said = annotations_to_csv(marked.annotations)
    beside = {annotators_of(output): said} if said else {}
    stale = stale_annotations(beside, output, force=force)
    path = write_table(output, cells, force=force)
    write_all_new(beside, force=force)
    if stale is not None:
        stale.unlink()
    left_out = _header_left_out(marked.header)
    if marked.header.unit != "clip":
        left_out += (f"that the rows are {marked.header.unit}s",)
    mapping = _mapping_of_header(marked.header)
    return ExportedFiles((path, *beside), left_out=left_out, mapping=mapping)


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
    if header.films == NO_FILMS:
        of_mapping.append('the line films = "none"')
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
