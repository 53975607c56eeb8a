"""Read and write manifests: `NAME.toml`, the header, and `NAME.csv`, one row per clip.

With several annotators, `NAME.annotators.csv` has a row for each annotator and clip. All files are
checked against the schema when they are read, and before they are written.
"""

import json
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from operator import itemgetter, lt
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
    NotFound,
    near_id,
)
from obygaze_features.core.file_names import compose_accents
from obygaze_features.core.files import (
    csv_bytes,
    is_printable_name,
    leads_out,
    lock_folder,
    name_taken_error,
    sha256_bytes,
    write_all_new,
    write_together,
)
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.schema_check import (
    Violations,
    read_toml,
    record_of,
    refuse_newer,
)
from obygaze_features.core.tables import OwnTable, TableRow, read_own_table
from obygaze_features.core.workspace import Workspace, toml_path
from obygaze_features.manifest.annotators import annotator_columns, sort_annotations
from obygaze_features.manifest.expression import CONCEPTS
from obygaze_features.manifest.frame_rate import parse_frame_rate
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    FOLD_PREFIX,
    LEVELS,
    WITHOUT_MANIFEST,
    Annotation,
    Clip,
    Header,
    Manifest,
    require_text,
    with_equal_numbers,
)
from obygaze_features.manifest.spans import (
    FILM_TIMES,
    FRAMES,
    RATE_COLUMN,
    FrameSpan,
    named_file,
    stated_frames,
)
from obygaze_features.manifest.spelling import Spelling
from obygaze_features.manifest.times import FrameClocks

SCHEMA = "obygaze-manifest/1"
MAX_HEADER = 1 << 26
NOT_VALID = "the header of the manifest is not valid"
MAKE_AGAIN = (
    "correct the TOML file, or make the manifest again: obygaze manifest import, or for windows of"
    " films obygaze manifest windows"
)
ANNOTATORS = ".annotators"
ANNOTATION_COLUMNS = ("clip_id", "annotator", "level", "concepts")
STRINGS = (
    *("dataset", "unit", "view", "films", "rule"),
    *("licence", "citation", "video_root", "commands_sha256"),
)
# An id becomes a key in HDF5 files and a file name: no separators, no leading dot.
# It may begin with `-`, as ids of YouTube do.
ID = re.compile(r"[+-]{0,9}[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}")
ID_FORM = "an id (letters, digits, . _ + -)"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
# Times are read as repr() writes floats, because float() also accepts 1_0, blanks and the digits of
# any script. The digits are limited, because Python refuses whole numbers of thousands of digits.
WRITTEN_SECONDS = re.compile(
    r"([0-9]{1,20}(\.[0-9]{0,400})?|\.[0-9]{1,400})(e(-[0-9]{1,3}|\+?[0-9]{1,2}))?"
)


def read_manifest(
    manifest: str | os.PathLike[str] | Manifest,
    *,
    workspace: str | os.PathLike[str] | None = None,
) -> Manifest:
    """Read a manifest: clips with their labels. Every value in it is checked.

    Args:
        manifest: A name in the workspace, or the path of the TOML or the CSV file. A `Manifest`
            is returned unchanged.
        workspace: The workspace, if it is not the current one.

    Raises:
        NotFound: There is no such manifest.
        FixInput: The manifest is not valid; `details` lists every violation with its line.

    Example:
        >>> films = og.read_manifest("films")
        >>> films["alba-001"].movie_id
        'alba'
    """
    if isinstance(manifest, Manifest):
        return manifest
    path = manifest_path(manifest, workspace=workspace)
    return _parse(path, path.read_bytes(), None, None)


def as_id(text: str) -> str:
    """Return an id made from text; a valid id is unchanged.

    >>> as_id("lake_4.000-6.000"), as_id("Les Yeux")
    ('lake_4.000-6.000', 'Les_Yeux')
    """
    given = text.strip()
    return given if ID.fullmatch(given) else ascii_id(given)


def ids_of_names(names: Iterable[str], noun: str, where: str) -> dict[str, str]:
    """Return the id of each name of a clip or a film. Raise an error if two names have one id."""
    name_of: dict[str, str] = {}
    ids = {}
    for name in names:
        ids[name] = as_id(name)
        # Names that differ only in capitals are the same file on some disks.
        first = name_of.setdefault(ids[name].casefold(), name)
        if compose_accents(first).strip() != compose_accents(name).strip():
            raise FixInput(
                f"{first!r} and {name!r} both become the {noun} {ids[name]!r}",
                where=where,
                hint="rename one of them",
            )
    return ids


def manifest_path(
    manifest: str | os.PathLike[str],
    *,
    workspace: str | os.PathLike[str] | None = None,
) -> Path:
    """Return the TOML file of a manifest. Raise an error if the file does not exist.

    Args:
        manifest: A name in the workspace, or the path of the TOML or the CSV file.
        workspace: The workspace, if it is not the current one.
    """
    if isinstance(manifest, str):
        path = Workspace.of(workspace).existing_manifest(manifest)
    elif not isinstance(manifest, os.PathLike):
        raise FixUsage(
            f"expected the name or the path of a manifest, got {type(manifest).__name__}",
            hint="pass a name such as 'films', or a path",
        )
    else:
        # A Path is always a file, never a name: Path("./films") is the same as Path("films").
        path = toml_path(Path(manifest))
    if not path.is_file():
        raise NotFound(
            "no such manifest", where=str(path), hint="obygaze ls lists the manifests"
        )
    return path


def read_header_of(table: Path) -> Header | None:
    """Return the header of the manifest of a table of clips, or None if there is no manifest."""
    path = table.with_suffix(".toml")
    if not path.is_file():
        return None
    document = read_toml(path.read_bytes(), str(path), max_bytes=MAX_HEADER)
    if document.tree.pop("schema", None) != SCHEMA:
        return None
    return record_of(document, Header, NOT_VALID, hint=MAKE_AGAIN)


def annotators_path(path: Path) -> Path:
    """Return the path of the table of annotations of a manifest or a table, in the same folder."""
    return path.with_suffix(f"{ANNOTATORS}.csv")


def _parse(path: Path, toml: bytes, rows: bytes | None, said: bytes | None) -> Manifest:
    """Return the manifest in these files.

    Args:
        path: The TOML file.
        toml: The bytes of the TOML file.
        rows: The bytes of the table of clips; None: all tables are read from disk.
        said: The bytes of the table of annotators. If `rows` is given, None means no such table.
    """
    document = read_toml(toml, str(path), max_bytes=MAX_HEADER)
    document.require_schema(SCHEMA, "manifest")
    # "imported" stands for no manifest; a name that ends in ANNOTATORS is a table of annotators.
    if path.stem == WITHOUT_MANIFEST or path.stem.endswith(ANNOTATORS):
        raise FixInput(
            f"{path.stem!r} cannot be the name of a manifest",
            where=str(path),
            hint="rename its files",
        )
    refuse_newer(document.tree, Header, str(path))
    header = record_of(document, Header, NOT_VALID, hint=MAKE_AGAIN)
    violations = Violations(path.with_suffix(".csv"))
    table = read_own_table(
        path.with_suffix(".csv"),
        required=CLIP_COLUMNS,
        optional=(*FILM_TIMES, RATE_COLUMN),
        violations=violations,
        data=rows,
    )
    columns = tuple(name for name in table.columns if name not in CLIP_COLUMNS)
    spelling = Spelling()
    reader = _ClipReader(columns, header.concepts, spelling, has_films=not header.films)
    reader.read_own(table)
    clips: Sequence[Clip] = reader.clips
    violations.raise_if_any("the manifest is not valid")
    annotations: tuple[Annotation, ...] = ()
    annotations_file = annotators_path(path)
    if said is not None or (rows is None and annotations_file.is_file()):
        ids = {clip.clip_id for clip in clips}
        annotations = read_annotations(
            annotations_file, ids, header.concepts, spelling, data=said
        )
    numbers = spelling.equal_numbers()
    clips, annotations = with_equal_numbers(clips, annotations, numbers)
    return Manifest(path.stem, header, clips, columns, annotations)


def read_annotations(
    path: Path,
    clip_ids: Collection[str],
    concepts: Collection[str],
    spelling: Spelling | None = None,
    *,
    data: bytes | None = None,
) -> tuple[Annotation, ...]:
    """Return the annotations in the table of annotators of a manifest.

    Args:
        path: The table.
        clip_ids: The known clips.
        concepts: The known concepts.
        spelling: The spelling of the words that were read before; None: no words.
        data: The bytes of the table; None: they are read from disk.
    """
    violations = Violations(path)
    table = read_own_table(
        path, required=ANNOTATION_COLUMNS, violations=violations, data=data
    )
    own = [name for name in table.columns if name not in ANNOTATION_COLUMNS]
    facts = [name for name in own if name not in annotator_columns(own)]
    for name in facts:
        violations.add(1, name, "is a column of clips, not of annotations")
    words = spelling or Spelling()
    annotations = []
    lines: dict[tuple[str, str], int] = {}
    for row in table.rows:
        who = row["clip_id"], words.cell(row["annotator"], "annotator")
        if row["clip_id"] not in clip_ids:
            meant = near_id(row["clip_id"], clip_ids)
            row.add("clip_id", f"no clip has the id {row['clip_id']!r}{meant}")
        if not row["annotator"]:
            row.add("annotator", "is empty, but required in each row")
        if lines.setdefault(who, row.line) != row.line:
            row.add("annotator", f"has a row for this clip on line {lines[who]}")
        level = row.one_of("level", LEVELS) if row["level"] else ""
        names = _concepts(row, concepts)
        cells = {column: words.cell(row[column], column) for column in own}
        annotations.append(Annotation(*who, level, names, cells))
    violations.raise_if_any("the table of annotators is not valid")
    return tuple(annotations)


def header_to_toml(header: Header) -> str:
    """Return the header as TOML; equal headers have the same text."""
    values = {key: getattr(header, key) for key in (*STRINGS, "said", "notes")}
    filled = {key: value for key, value in values.items() if value or value == ()}
    if not header.notes:
        del filled["notes"]
    tables: list[tuple[str, Mapping[str, Any]]] = [("[concepts]", header.concepts)]
    tables += [("[[sources]]", structs.asdict(source)) for source in header.sources]
    lines = toml_lines({"schema": SCHEMA, **filled})
    if header.commands:
        commands = [f"  {toml_string(command)}," for command in header.commands]
        lines += ["commands = [", *commands, "]"]
    for title, table in tables:
        lines += ["", title, *toml_lines(table)]
    return "\n".join(lines) + "\n"


def toml_lines(values: Mapping[str, str | float | Sequence[str]]) -> list[str]:
    """Return lines `name = value` of TOML; names that are not bare keys are quoted."""
    lines = []
    for name, value in values.items():
        key = name if _BARE_KEY.fullmatch(name) else toml_string(name)
        shown = str(value)
        if isinstance(value, str):
            shown = toml_string(value)
        elif isinstance(value, Sequence):
            shown = f"[{', '.join(map(toml_string, value))}]"
        lines.append(f"{key} = {shown}")
    return lines


def toml_string(text: str) -> str:
    """Return text as a string of TOML."""
    # JSON's escapes are a subset of TOML's; DEL alone must be escaped in TOML and is not in JSON.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def rows_to_csv(manifest: Manifest) -> bytes:
    """Return the rows of a manifest as CSV; equal rows have the same bytes."""
    rows = []
    for clip in manifest:
        rows.append(
            (*_cells(clip), *(clip.extra.get(name, "") for name in manifest.columns))
        )
    return csv_bytes((*CLIP_COLUMNS, *manifest.columns), rows)


def _cells(clip: Clip) -> tuple[str, ...]:
    # Adding 0.0 makes 1 and 1.0, and -0.0 and 0.0, the same text: such clips are equal.
    numbers = (
        "" if value is None else repr(value + 0.0)
        for value in (clip.start_s, clip.end_s)
    )
    scene = "" if clip.scene is None else str(clip.scene)
    ids = (clip.clip_id, clip.movie_id, scene, clip.video)
    return (*ids, *numbers, clip.level, "|".join(clip.concepts))


def annotations_to_csv(annotations: Iterable[Annotation]) -> bytes:
    """Return the annotations as CSV, or no bytes if there are none."""
    said = sort_annotations(annotations)
    if not said:
        return b""
    rows = []
    for one in said:
        label = one.clip_id, one.annotator, one.level, "|".join(one.concepts)
        rows.append((*label, *one.own.values()))
    return csv_bytes((*ANNOTATION_COLUMNS, *said[0].own), rows)


def manifest_sha256(manifest: Manifest) -> str:
    """Return the sha256 of the tables as CSV, which identifies a manifest in runs and models."""
    return sha256_bytes(
        rows_to_csv(manifest) + annotations_to_csv(manifest.annotations)
    )


def saved_facts(manifest: Manifest, path: Path) -> dict[str, Any]:
    """Return the name, the file and the sha256 of a manifest that was written, for --json."""
    sha256 = manifest_sha256(manifest)
    return {"name": manifest.name, "path": str(path), "sha256": sha256}


def write_manifest(manifest: Manifest, path: Path, *, force: bool = False) -> None:
    """Check that the files of a manifest can be read back, then write them.

    Args:
        manifest: The manifest to write.
        path: The TOML file to write; the tables get the same name.
        force: Replace files that exist.
    """
    files = check_manifest(manifest).files(path)
    if force and not (path.is_file() and b"obygaze-manifest/" in path.read_bytes()):
        # An existing file may be the table or the mapping that is being imported.
        for file, data in {annotators_path(path): b"", **files}.items():
            if os.path.lexists(file) and not (
                file.is_file() and file.read_bytes() == data
            ):
                problem = "this file exists, and is not part of a manifest"
                hint = "choose another name with -o, or move this file"
                raise AlreadyThere(problem, where=str(file), hint=hint)
    stale = stale_annotations(files, path, force=force)
    write_all_new(files, force=force)
    if stale is not None:
        stale.unlink()


def stale_annotations(
    files: Collection[Path], path: Path, *, force: bool
) -> Path | None:
    """Return the table of annotators to delete because the new manifest has none, or None.

    Without `force`, such a table is an error.
    """
    annotations_file = annotators_path(path)
    if annotations_file in files or not annotations_file.is_file():
        return None
    if not force:
        raise name_taken_error(
            "this table of annotators belongs to other clips", annotations_file
        )
    return annotations_file


def update_manifest(before: Manifest, after: Manifest, path: Path) -> None:
    """Replace a manifest on disk by a new version (videos linked, folds added).

    Args:
        before: The manifest as it was read. If the file has changed since then, raise an error.
        after: The manifest to write.
        path: The TOML file of the manifest.
    """
    files = check_manifest(after).files(path)
    with lock_folder(path.parent):
        if read_manifest(path) != before:
            raise AlreadyThere(
                "the file was changed by another command since it was read",
                where=str(path),
                hint="run the same command again",
            )
        stale = stale_annotations(files, path, force=True)
        write_together(files)
        if stale is not None:
            stale.unlink()


class ManifestBytes(NamedTuple):
    """The bytes of the files of a manifest; `annotations` is empty without annotations."""

    toml: bytes
    rows: bytes
    annotations: bytes

    def files(self, path: Path) -> dict[Path, bytes]:
        """Return the bytes of each file, given the path of the TOML file.

        The TOML file is last, because readers look for it: they never find half a manifest.
        """
        files = {path.with_suffix(".csv"): self.rows}
        if self.annotations:
            files[annotators_path(path)] = self.annotations
        return {**files, path: self.toml}


def check_manifest(manifest: Manifest) -> ManifestBytes:
    """Return the files of a manifest. Raise an error if they could not be read back."""
    try:
        toml = header_to_toml(manifest.header).encode("utf-8")
        rows = rows_to_csv(manifest)
        said = annotations_to_csv(manifest.annotations)
    except UnicodeEncodeError as error:
        character = error.object[error.start : error.end]
        raise FixInput(
            f"the character {character!r} is not valid in UTF-8", where=manifest.name
        ) from error
    _check_columns(manifest)
    _parse(Path(f"{manifest.name}.toml"), toml, rows, said or None)
    return ManifestBytes(toml, rows, said)


def _check_columns(manifest: Manifest) -> None:
    """Raise an error for a cell that is not text, or that is in no column of the manifest."""
    written = frozenset(manifest.columns)
    for clip in manifest:
        for column, value in clip.extra.items():
            require_text(clip, column, value)
            if value and column not in written:
                raise FixInput(
                    f"the clip {clip.clip_id!r} has {value!r} in {column!r}, but no column of the"
                    " manifest has this name",
                    where=manifest.name,
                    hint="add the column to Manifest.columns, or use Manifest.with_column",
                )


IS_EMPTY = "is empty, but required in each row"
# The hint for a film that only the first row of its clips states.
MERGED = "; if cells are merged, write the value into each of them"
OF_NO_FILMS = 'films = "none" is for a manifest without films: remove one of the two'
OWN_CONCEPT = (
    "the name concept is reserved for expressions; rename the column with --map concepts=concept"
    " or --map NAME=concept, in the import of marks with --tier concept=concepts or concept=NAME"
)
OF_NO_FILE = (
    "start_s without a file is a time in the film, but film_start_s differs; add the file in the"
    " column video, or leave start_s and end_s empty"
)


def clips_of_table(
    rows: Iterable[tuple[TableRow, Mapping[str, str]]],
    concepts: Iterable[str] = (),
    columns: tuple[str, ...] = (),
    *,
    is_of_people: bool = False,
    spelling: Spelling | None = None,
    has_films: bool = True,
) -> tuple[Clip, ...]:
    """Return the clip of each row; the clip of a row with violations must not be used.

    Args:
        rows: Each row with the cells of its clip; missing cells are empty. If these are the cells
            of the row itself, none is missing.
        concepts: The concepts that a clip may have.
        columns: The extra columns to keep.
        is_of_people: Whether several annotators may have rows of the same clip.
        spelling: The spelling of the words that were read before. The caller then calls
            `with_equal_numbers` when all words are read. None: no words, and there are no others.
        has_films: Whether each row must have a film; False: no row may have a film.
    """
    words = Spelling() if spelling is None else spelling
    reader = _ClipReader(
        columns, concepts, words, is_of_people=is_of_people, has_films=has_films
    )
    for row, cells in rows:
        if cells is not row.cells:
            row = replace(row, cells={**reader.blank, **cells})
        reader.read(row)
    if spelling is None:
        return with_equal_numbers(reader.clips, (), words.equal_numbers())[0]
    return tuple(reader.clips)


# The cells in which the clips of a film differ.
_OWN_CELLS = ("clip_id", "start_s", "end_s")
# The rows that are read at once as columns: so few that they are gone before the garbage collector
# of Python looks at them, which would take longer than to read them.
_MOST_ROWS = 200


class _SharedFacts(NamedTuple):
    """What the cells of a row state, except those of _OWN_CELLS."""

    movie_id: str
    scene: int | None
    video: str
    level: str
    concepts: tuple[str, ...]
    extra: Mapping[str, str]
    times_in_film: tuple[float | None, float | None]
    frames: FrameSpan | None

    @property
    def needs_times(self) -> bool:
        """Whether there are times in the film or frames, which the times of a clip must agree with.

        Most tables state neither.
        """
        return self.times_in_film[0] is not None or self.frames is not None

    def clip(self, clip_id: str, start_s: float | None, end_s: float | None) -> Clip:
        """Return the clip of this id and these times."""
        film, scene, video, level, concepts, extra, *_ = self
        return Clip(clip_id, film, scene, video, start_s, end_s, level, concepts, extra)


class _ClipReader:
    """Reads the rows of one table as clips, and compares them with the rows before.

    Clips of a film often differ in their ids and times only; all other cells are read once.

    Attributes:
        clips: The clips that were read so far.
        blank: The cells of a row in which all are empty.
    """

    def __init__(
        self,
        columns: tuple[str, ...],
        concepts: Iterable[str],
        words: Spelling,
        *,
        is_of_people: bool = False,
        has_films: bool = True,
    ) -> None:
        self.clips: list[Clip] = []
        self.blank = dict.fromkeys(
            (*CLIP_COLUMNS, *FILM_TIMES, RATE_COLUMN, *columns), ""
        )
        self._columns = columns
        self._concepts = frozenset(concepts)
        self._words = words
        self._is_of_people = is_of_people
        self._has_films = has_films
        self._clocks = FrameClocks()
        self._is_after_film = False
        self._line_of: dict[str, int] = {}
        self._shared = [name for name in self.blank if name not in _OWN_CELLS]
        self._shared_cells = itemgetter(*self._shared)
        self._facts_of_cells: dict[tuple[str, ...], _SharedFacts] = {}
        # Those that the times of a row need not agree with.
        self._plain_facts: dict[tuple[str, ...], _SharedFacts] = {}

    def read_own(self, table: OwnTable) -> None:
        """Read all rows of a table that obygaze wrote.

        Rows whose shared cells were read before are read as columns, which takes less time.
        """
        shared_cells = itemgetter(*[table.names.index(name) for name in self._shared])
        own_cells = itemgetter(*[table.names.index(name) for name in _OWN_CELLS])
        while records := [*islice(table.records, _MOST_ROWS)]:
            facts = [self._plain_facts.get(shared_cells(cells)) for _, cells in records]
            lines = [line for line, _ in records]
            own = [own_cells(cells) for _, cells in records]
            if not self._add_valid(facts, lines, own):
                for line, cells in records:
                    self.read(table.row(line, cells))

    def _add_valid(
        self,
        facts: Sequence[_SharedFacts | None],
        lines: Sequence[int],
        own_cells: Sequence[tuple[str, str, str]],
    ) -> bool:
        """Add the clips of rows, if all of these rows are surely valid.

        Return whether the clips were added. Else the rows are read one by one, and each violation
        gets its line.
        """
        known = [of_row for of_row in facts if of_row is not None]
        ids, starts, ends = zip(*own_cells, strict=True)
        if len(known) < len(ids) or not all(map(ID.fullmatch, ids)):
            return False
        if len({*ids}) < len(ids) or not self._line_of.keys().isdisjoint(ids):
            return False
        if not all(map(WRITTEN_SECONDS.fullmatch, chain(starts, ends))):
            return False
        starts_s = [*map(float, starts)]
        ends_s = [*map(float, ends)]
        if max(ends_s) == math.inf or not all(map(lt, starts_s, ends_s)):
            return False
        self._line_of.update(zip(ids, lines, strict=True))
        for of_row, *own in zip(known, ids, starts_s, ends_s, strict=True):
            self.clips.append(of_row.clip(*own))
        return True

    def read(self, row: TableRow) -> None:
        """Read a row; violations are added to it. The clip of an invalid row must not be used."""
        if row["clip_id"]:
            row.match("clip_id", ID, ID_FORM)
        else:
            row.add("clip_id", IS_EMPTY)
        if not self._is_of_people:
            row.unique("clip_id", self._line_of)
        key = self._shared_cells(row.cells)
        facts = self._facts_of_cells.get(key)
        if facts is None:
            n_violations = len(row.violations)
            facts = self._read_shared(row)
            if len(row.violations) == n_violations:
                self._facts_of_cells[key] = facts
                if not facts.needs_times:
                    self._plain_facts[key] = facts
        start_s, end_s = _span(row, "start_s", "end_s")
        clip = facts.clip(row["clip_id"], start_s, end_s)
        self.clips.append(clip)
        self._check_times(row, clip, facts)

    def _read_shared(self, row: TableRow) -> _SharedFacts:
        """Return what the cells of a row state, except those of _OWN_CELLS."""
        film = row["movie_id"]
        if film:
            row.match("movie_id", ID, ID_FORM)
        elif self._has_films:
            merged = MERGED if self._is_after_film else ""
            row.add("movie_id", f"{IS_EMPTY}{merged}")
        if film and not self._has_films:
            row.add("movie_id", f"{film!r} is a film, but {OF_NO_FILMS}")
        self._is_after_film = self._is_after_film or bool(film)
        scene = row.whole("scene") if row["scene"] else None
        video = _video(row)
        level = row.one_of("level", LEVELS) if row["level"] else ""
        names = _concepts(row, self._concepts)
        times_in_film = _span(row, *FILM_TIMES)
        for column in self._columns:
            if column.startswith(FOLD_PREFIX) and row[column]:
                row.whole(column)
        if CONCEPTS[0] in self._columns:
            row.add(CONCEPTS[0], OWN_CONCEPT)
        extra = {name: self._words.cell(row[name], name) for name in self._columns}
        frames = stated_frames(extra) if self._has_known_rate(row) else None
        return _SharedFacts(
            film, scene, video, level, names, extra, times_in_film, frames
        )

    def _has_known_rate(self, row: TableRow) -> bool:
        """Add a violation if a film has two frame rates; return whether it has not."""
        rate = parse_frame_rate(row[RATE_COLUMN])
        if row[RATE_COLUMN] and rate is None:
            row.add(RATE_COLUMN, f"{row[RATE_COLUMN]!r} is not a frame rate")
        if rate is None:
            return True
        film = row["movie_id"] or row["clip_id"]
        problem = self._clocks.rate_problem(film, rate)
        if problem:
            row.add(RATE_COLUMN, problem)
        return not problem

    def _check_times(self, row: TableRow, clip: Clip, facts: _SharedFacts) -> None:
        """Add a violation if times in the film, or frames, contradict the times of a row."""
        if not facts.needs_times:
            return
        start_s, end_s = facts.times_in_film
        has_both = None not in (start_s, end_s, clip.start_s)
        is_elsewhere = has_both and (start_s, end_s) != (clip.start_s, clip.end_s)
        if is_elsewhere and not named_file(clip):
            row.add("start_s", OF_NO_FILE)
        if start_s is None and not named_file(clip):
            start_s, end_s = clip.start_s, clip.end_s
        if facts.frames is None or start_s is None or end_s is None:
            return
        film = clip.movie_id or clip.clip_id
        problem = self._clocks.span_problem(film, facts.frames, (start_s, end_s))
        if problem:
            row.add(FRAMES[0], problem)


def _concepts(row: TableRow, known_concepts: Collection[str]) -> tuple[str, ...]:
    names = tuple(row["concepts"].split("|")) if row["concepts"] else ()
    for name in dict.fromkeys(names):
        if name not in known_concepts:
            row.add(
                "concepts",
                f"unknown concept {name!r}; add it to [concepts] in the TOML file",
            )
        elif names.count(name) > 1:
            row.add("concepts", f"{name!r} is listed more than once")
    return names


def _video(row: TableRow) -> str:
    if row["video"] and leads_out(row["video"]):
        row.add(
            "video",
            f"expected a path inside the folder of the videos, got {row['video']!r}",
        )
    elif not is_printable_name(row["video"]):
        # Control characters could change the terminal that shows the name.
        row.add("video", f"{row['video']!r} contains characters that cannot be printed")
    return row["video"]


def _span(row: TableRow, start: str, end: str) -> tuple[float | None, float | None]:
    """Return the start and the end in two columns; None for empty and invalid cells."""
    start_cell, end_cell = row[start], row[end]
    start_s = _seconds(row, start) if start_cell else None
    end_s = _seconds(row, end) if end_cell else None
    if bool(start_cell) != bool(end_cell):
        row.add(end, f"expected both {start} and {end}, or neither")
    elif start_s is not None and end_s is not None and end_s <= start_s:
        row.add(end, f"expected an end after the start {start_s}, got {end_s}")
    return start_s, end_s


def _seconds(row: TableRow, column: str) -> float | None:
    cell = row[column]
    value = float(cell) if WRITTEN_SECONDS.fullmatch(cell) else math.inf
    if value == math.inf:
        row.add(column, f"{cell!r} is not a time in seconds")
        return None
    return value
