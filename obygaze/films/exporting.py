"""Export marks, labels and scores as ELAN files, and a manifest as a table.

ELAN files have times in whole milliseconds. Times are rounded up. So a player that seeks to the
start of a mark shows the first picture of the mark.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from obygaze.films.elan import ElanFile, milliseconds, write_elan
from obygaze.films.importing import elan_film_name, find_elan_film
from obygaze.films.marks import (
    COMMENT,
    CONCEPTS_COLUMN,
    ELAN,
    LEVEL,
    SCORE,
    UNKNOWN,
    Mark,
    find_marks,
    marks_by_film,
    read_marks,
)
from obygaze.films.pictures import LinkedFilms
from obygaze.films.predictions import read_predictions
from obygaze.films.sampling import is_drawn
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.file_names import printable_line
from obygaze_features.core.files import find_files, write_all_new
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import number_of_cell
from obygaze_features.core.workspace import PathLike
from obygaze_features.core.written_tables import write_table
from obygaze_features.manifest import read_manifest
from obygaze_features.manifest.annotators import annotated_columns, make_annotations
from obygaze_features.manifest.io import (
    annotations_to_csv,
    annotators_path,
    as_id,
    stale_annotations,
)
from obygaze_features.manifest.model import (
    DIFFERS,
    Annotation,
    Header,
    Manifest,
    by_film,
    own_columns,
    require_films,
)
from obygaze_features.manifest.times import spans_in_films
from obygaze_features.manifest.vocabulary import concepts

MOST_LETTERS = (
    28  # An annotation shows at most this many letters of a class or concept.
)
_SCORES = re.compile(r"score|cosine|p:.*|score:.*")
# What is exported: a clip, an annotator or a model, the column, and the word.
Said = tuple[str, str, str, str]


@dataclass(frozen=True)
class ExportedFiles:
    """The files of an export, and what they do not contain."""

    files: tuple[Path, ...]
    left_out: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the files, and what is excluded."""
        return {
            "written": [str(path) for path in self.files],
            "left_out": list(self.left_out),
        }

    def __str__(self) -> str:
        return "\n".join(map(str, self.files))

    @property
    def warnings(self) -> list[str]:
        """A sentence on what the files do not contain, if anything is excluded."""
        if not self.left_out:
            return []
        return [f"not exported: {', '.join(self.left_out)}"]


class _Export(NamedTuple):
    """The marks of an export, what is excluded, and whether the marks are clips to fill in."""

    marks: Sequence[Mark]
    left_out: Sequence[str] = ()
    are_drawn: bool = False


def export_elan(
    source: PathLike | Manifest,
    output: Path,
    *,
    predictions: PathLike | None = None,
    model: str | None = None,
    into: PathLike | None = None,
    people: Sequence[str] = (),
    are_blank: bool = False,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedFiles:
    """Write a table of marks, or the labels of a manifest as marks, as one ELAN file for each film.

    Args:
        source: The table of marks or its name, or the manifest.
        output: The file, if there is one film; else the folder.
        predictions: A table of scores of the clips, which are written instead of the labels.
        model: The only model of the table whose scores are written; None: all models.
        into: An ELAN file, or a folder of ELAN files. A copy with the marks of its film as new
            tiers is written as the output, or into the output folder. None: new files.
        people: The annotators who each get a tier of sampled clips to fill in.
        are_blank: Whether sampled clips are written, without labels.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    export = None
    if not isinstance(source, Manifest) and predictions is None and not are_blank:
        path = find_marks(source, workspace)
        if path is not None:
            export = _Export(read_marks([path], workspace).marks)
    if export is None:
        manifest = read_manifest(source, workspace=workspace)
        _check_drawn(manifest, predictions, are_blank=are_blank)
        export = _of_manifest(manifest, predictions, model, people)
    if not export.marks:
        raise FixInput("nothing to export: the table has no marks", where=str(source))
    marks_of = marks_by_film(export.marks)
    films = LinkedFilms(workspace)
    left_out = [*export.left_out]
    if into is None:
        files = _new_files(marks_of, output, films, are_drawn=export.are_drawn)
    else:
        files = _with_new_tiers(Path(into), marks_of, output, films, left_out)
    write_all_new(files, force=force)
    return ExportedFiles(tuple(files), tuple(left_out))


# ---- files ---------------------------------------------------------------------------------------


def _with_new_tiers(
    into: Path,
    marks_of: Mapping[str, Sequence[Mark]],
    output: Path,
    films: LinkedFilms,
    left_out: list[str],
) -> dict[Path, bytes]:
    """Return a file, or the files of a folder, with the marks of their films as new tiers.

    Films without a file, files without marks of their film, and what lies before the start of a
    file are added to `left_out`.
    """
    is_file = output.suffix.lower() == ELAN
    folder = into.parent
    paths = [into]
    if into.is_dir():
        folder = into
        paths = find_files(into, (ELAN,))
        # Copies that an export has made in this folder are not read.
        made = output.resolve()
        if into.resolve() in made.parents:
            paths = [path for path in paths if made not in path.resolve().parents]
        if is_file:
            raise FixUsage(
                f"expected a folder as OUTPUT, because --into {into} is a folder, got the file"
                f" {output.name}"
            )
    files: dict[Path, bytes] = {}
    unmarked = []
    missing = dict.fromkeys(marks_of)
    for path in paths:
        file = ElanFile(path)
        film = find_elan_film(file, films) or as_id(elan_film_name(file))
        if film not in marks_of:
            unmarked.append(f"{path.relative_to(folder)} of the film {film}")
            continue
        missing.pop(film, None)
        _refuse_scores(file, marks_of[film])
        to = output if is_file else output / path.relative_to(folder)
        files[to] = file.with_tiers(marks_of[film])
        before = [
            mark
            for mark in marks_of[film]
            if milliseconds(mark.start_s) < file.origin_ms
        ]
        if before:
            left_out.append(
                f"{count(len(before), 'mark')}, or the part, before {file.path.name} starts at"
                f" {file.origin_ms / 1000:.3f} s of the film {film}"
            )
    if not files:
        raise FixInput(
            f"expected ELAN files for the films {few([*marks_of])}, got"
            f" {few(unmarked) or 'no ELAN file'}",
            where=str(into),
            hint="link the manifest to the videos that the ELAN files name:"
            " obygaze manifest link NAME FOLDER",
        )
    if missing:
        left_out.append(f"marks of films without a file: {few([*missing])}")
    if unmarked:
        left_out.append(f"files without marks of their film: {few(unmarked)}")
    return files


def _refuse_scores(file: ElanFile, marks: Sequence[Mark]) -> None:
    """Raise an error if scores must not be added to a file.

    This is the case if a tier of the file already has scores of the same model. It is also the case
    if the file has sampled clips without a level, because annotators would see the scores.
    """
    scored = {mark.annotator for mark in marks if mark.column == SCORE}
    for tier in file.tiers():
        n_to_judge = sum(not text for *_, text in tier.annotations)
        if scored and tier.is_drawn and n_to_judge:
            raise FixInput(
                f"the tier {tier.name} has {count(n_to_judge, 'sampled clip')} without a level:"
                " annotators who see scores would repeat the model",
                where=str(file.path),
            )
        if tier.column == SCORE and tier.annotator in scored:
            raise FixInput(
                f"the file already has scores of {tier.annotator}, in the tier {tier.name}",
                where=str(file.path),
                hint="delete this tier in ELAN, or pass --into a folder of files without it",
            )


def _new_files(
    marks_of: Mapping[str, Sequence[Mark]],
    output: Path,
    films: LinkedFilms,
    *,
    are_drawn: bool,
) -> dict[Path, bytes]:
    """Return the ELAN file of each film by its path: the output, or a file in the output folder."""
    is_file = output.suffix.lower() == ELAN
    if is_file and len(marks_of) > 1:
        raise FixUsage(
            f"expected marks of one film for {output.name}, got marks of {len(marks_of)} films",
            hint="pass a folder, which gets a file for each film",
        )
    folder = output.parent if is_file else output
    files = {}
    for film, marks in marks_of.items():
        if film != Path(film).name or "\\" in film:
            raise FixInput(f"the film id {film!r} is not a valid file name")
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
    """Return the attributes of a video in an ELAN file in `folder`.

    They are the URL of the video, and its path relative to the folder.
    """
    if video is None:
        return {}
    try:
        path = Path(os.path.relpath(video.resolve(), folder.resolve())).as_posix()
    except ValueError:
        path = video.name  # No relative path leads to another drive of Windows.
    relative = path if path.startswith("../") else f"./{path}"
    return {
        "MEDIA_URL": video.absolute().as_uri(),
        "MIME_TYPE": "video/*",
        "RELATIVE_MEDIA_URL": quote(os.fsencode(relative)),
    }


# ---- clips as marks ------------------------------------------------------------------------------


def _check_drawn(
    manifest: Manifest, predictions: PathLike | None, *, are_blank: bool
) -> None:
    """Raise an error unless sampled clips, and only these, are written without labels."""
    are_drawn = is_drawn(manifest)
    if are_blank and not are_drawn:
        raise FixUsage(
            "only sampled clips become empty tiers",
            where=manifest.name,
            hint="obygaze manifest sample --help",
        )
    if are_drawn and not are_blank and predictions is None:
        raise FixUsage(
            "these clips were sampled for annotators, who must not see labels",
            where=manifest.name,
            hint=f"obygaze marks blank {shell_word(manifest.name)} FOLDER --person NAME",
        )


def _of_manifest(
    manifest: Manifest,
    predictions: PathLike | None,
    model: str | None,
    people: Sequence[str],
) -> _Export:
    """Return the labels, the scores or the sampled clips of a manifest as marks."""
    films = [clip.movie_id for clip in manifest]
    require_films(films, manifest.name, "clips cannot become marks in a film")
    left_out: list[str] = []
    are_drawn = predictions is None and is_drawn(manifest)
    said: list[Said] = []
    if predictions is not None:
        said = _read_scores(manifest, Path(predictions), model)
    elif are_drawn:
        for clip in manifest:
            said += [(clip.clip_id, person, LEVEL, "") for person in people or [""]]
        n_labelled = sum(bool(clip.level or clip.concepts) for clip in manifest)
        if n_labelled:
            n_clips = count(n_labelled, "clip")
            left_out.append(
                f"the labels of {n_clips}, so that annotators do not see them"
            )
    else:
        said = [*_clip_labels(manifest)]
        left_out += _unexported_facts(manifest, said)
    spans_s = spans_in_films(manifest)
    without = sorted({clip_id for clip_id, *_ in said} - spans_s.keys())
    if without:
        left_out.append(
            f"{count(len(without), 'clip')} without times: {few(without, 5)}"
        )
    marks = []
    for clip_id, annotator, column, value in said:
        if clip_id in spans_s:
            name, word, person = map(printable_line, (column, value, annotator))
            film = manifest[clip_id].movie_id
            marks.append(Mark(film, *spans_s[clip_id], name, word, person))
    if not marks:
        why = left_out[-1] if without else "no clip has a level or a concept"
        raise FixInput(f"nothing to export: {why}", where=manifest.name)
    return _Export(marks, left_out, are_drawn)


def _unexported_facts(manifest: Manifest, said: Sequence[Said]) -> list[str]:
    """Return what the manifest contains, but the marks that are exported from it do not."""
    left_out = _header_left_out(manifest.header)
    if manifest.annotations:
        left_out.append("the labels that a rule made from all annotations")
    of_people = {DIFFERS, *annotated_columns(manifest)}
    others = [name for name in own_columns(manifest.columns) if name not in of_people]
    if others:
        left_out.append(f"columns without annotations: {few(others)}")
    n_unlabelled = len({*manifest.clip_ids} - {clip_id for clip_id, *_ in said})
    if n_unlabelled:
        left_out.append(f"{count(n_unlabelled, 'clip')} without a label")
    return left_out


def _clip_labels(manifest: Manifest) -> Iterator[Said]:
    """Yield each label of each clip with its annotator.

    If the manifest has no annotations, the annotator is named by the cell `annotator` of the clip.
    If this cell is empty, the name of the manifest is the annotator. If an annotator has words in a
    column for some clips of a film, the empty cells of this annotator in this column become `?`
    (not known) for the other clips of the film. So do the levels of an annotator who has concepts
    there.
    """
    said = manifest.annotations
    if not said:
        columns = [name for name in annotated_columns(manifest) if name != DIFFERS]
        clips = []
        for clip in manifest:
            person = clip.extra.get("annotator") or manifest.name
            clips.append(replace(clip, extra={**clip.extra, "annotator": person}))
        said = make_annotations(clips, columns)
    known: dict[tuple[str, str], dict[str, Annotation]] = {}
    for one in said:
        film = manifest[one.clip_id].movie_id
        known.setdefault((film, one.annotator), {})[one.clip_id] = one
    films = by_film(manifest)
    has_levels = any(one.level for one in said)
    for (film, annotator), of_film in known.items():
        used: dict[str, None] = {}
        for one in of_film.values():
            # Next to marks of levels, a mark of a concept requires one of a level.
            unknown = UNKNOWN if has_levels and one.concepts else ""
            cells = {LEVEL: one.level or unknown, **one.own}
            used |= dict.fromkeys(name for name, cell in cells.items() if cell)
        nothing = Annotation("", annotator, "", (), {})
        for clip in films[film]:
            one = of_film.get(clip.clip_id, nothing)
            cells = {LEVEL: one.level, **one.own}
            words = [(CONCEPTS_COLUMN, concept) for concept in one.concepts]
            for column in used:
                cell = cells.get(column, "")
                if column != COMMENT:
                    words += [(column, word) for word in (cell or UNKNOWN).split("|")]
                elif cell.strip():
                    words.append((column, cell))
            for word in words:
                yield clip.clip_id, annotator, *word


def _read_scores(
    manifest: Manifest, predictions: Path, only_model: str | None
) -> list[Said]:
    """Return for each clip and model one text: the decision, the basis and the scores.

    The basis states how the scores relate to the training.
    """
    table = read_predictions(manifest, predictions, only_model=only_model)
    scored = [name for name in table.columns if _SCORES.fullmatch(name)]
    if not scored:
        # Predictions of concept vectors have only margins.
        scored = [name for name in table.columns if name.startswith("margin:")]
    said: dict[Said, None] = {}
    for clip, model, row in table.clips:
        facts = [_cut(row.cells.get("decision", "")), row.cells.get("basis", "")]
        for name in scored:
            shown = _cut(name)
            if len(scored) == 1 and name.startswith("score:"):
                shown = SCORE  # The decision names the task.
            number = number_of_cell(row[name])
            if row[name]:
                facts.append(
                    f"{shown} {row[name] if number is None else f'{number:.4g}'}"
                )
        said[clip.clip_id, model, SCORE, ", ".join(filter(None, facts))] = None
    return list(said)


def _cut(name: str) -> str:
    """Return a name, cut if it is long. The name of a class can be a long expression."""
    return name if len(name) <= MOST_LETTERS else f"{name[:MOST_LETTERS]}..."


# ---- a table -------------------------------------------------------------------------------------


def export_table(
    manifest: PathLike | Manifest,
    output: Path,
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedFiles:
    """Write all clips of a manifest as a table, and the annotations as a table next to it."""
    marked = read_manifest(manifest, workspace=workspace)
    cells = marked.cells_by_column()
    said = annotations_to_csv(marked.annotations)
    beside = {annotators_path(output): said} if said else {}
    stale = stale_annotations(beside, output, force=force)
    path = write_table(output, cells, force=force)
    write_all_new(beside, force=force)
    if stale is not None:
        stale.unlink()
    return ExportedFiles((path, *beside), tuple(_header_left_out(marked.header)))


def _header_left_out(header: Header) -> list[str]:
    """Return what the header of a manifest states, but no exported file contains."""
    said = ("rule", "licence", "citation", "notes")
    left_out = [name for name in said if getattr(header, name)]
    if header.view != "raw":
        left_out.append(f"the view of the levels ({header.view})")
    known = concepts()
    own = [n for n, kind in header.concepts.items() if known.get(n, "unknown") != kind]
    if own:
        left_out.append(f"the modality of {few(own, 3)}")
    return left_out
