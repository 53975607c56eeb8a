"""Read any table of clips, with a mapping of its columns and words to those of a manifest."""

import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath, PureWindowsPath
from typing import Annotated, Any, get_args

from obygaze_features.core.console import count, few, table
from obygaze_features.core.errors import AlreadyThere, FixUsage, NotFound
from obygaze_features.core.files import require_file, write_new
from obygaze_features.core.options import PYTHON_ONLY, Option
from obygaze_features.core.schema_check import Table, Violations, read_toml, table_of
from obygaze_features.core.schema_rules import choice, filled, matching, whole
from obygaze_features.manifest.adapters import (
    ImportedManifest,
    n_with_value,
    source_of,
)
from obygaze_features.manifest.adapters.id_forms import (
    columns_of_form,
    row_with_id,
    with_mapped_columns,
)
from obygaze_features.manifest.adapters.moviegraphs import read_graphs
from obygaze_features.manifest.adapters.table_times import (
    TIMES,
    TableTimes,
    TimeForm,
)
from obygaze_features.manifest.io import (
    clips_of,
    manifest_path,
    read_manifest,
    toml_string,
    update_manifest,
)
from obygaze_features.manifest.model import (
    COLUMNS,
    LEVELS,
    UNITS,
    Header,
    Manifest,
    ascii_id,
    concept_name,
)
from obygaze_features.manifest.tables import TableRow, read_table
from obygaze_features.manifest.vocabulary import (
    canonical_concept,
    canonical_level,
    concepts,
)
from obygaze_features.manifest.workbooks import is_workbook

NEEDED = ("clip_id", "movie_id")
# A file of MovieGraphs' graphs in place of a table.
GRAPHS = ".json"
CONSTANT = "="
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
FILLED_TABLE = Table(others=filled)


@dataclass(frozen=True)
class TableMapping:
    """How to read a table: its columns, and the meaning of its words for levels and concepts.

    `columns` maps a column of the manifest to a column of the table, or to a constant: `=value`.
    `modalities` adds concepts that are not in the vocabulary, each with its modality. `id` is the
    form of clip ids, where they are made of columns.
    """

    columns: Annotated[Mapping[str, str], FILLED_TABLE] = field(default_factory=dict)
    levels: Annotated[Mapping[str, str], Table(others=choice(LEVELS))] = field(
        default_factory=dict
    )
    concepts: Annotated[Mapping[str, str], FILLED_TABLE] = field(default_factory=dict)
    modalities: Annotated[
        Mapping[str, str], Table(others=filled, names=concept_name)
    ] = field(default_factory=dict)
    delimiter: Annotated[str, matching("[,;|\t]", "one of , ; | or a tab")] = ""
    separator: Annotated[str, filled] = "|"
    encoding: Annotated[str, filled] = ""
    sheet: Annotated[str, filled] = ""
    header_row: Annotated[int | None, whole(1)] = None
    times: Annotated[str, choice(get_args(TimeForm))] = ""
    id: Annotated[str, filled] = ""
    dataset: Annotated[str, filled] = ""
    unit: Annotated[str, choice(UNITS)] = "clip"
    licence: Annotated[str, filled] = ""
    citation: Annotated[str, filled] = ""

    def level(self, word: str) -> str | None:
        """Return the level that a word of the table means, None for an unknown word."""
        return self.levels.get(word) or canonical_level(word)

    def concept(self, word: str) -> str | None:
        """Return the concept that a word of the table means, None for an unknown word."""
        if word in self.modalities:
            return word
        return self.concepts.get(word) or canonical_concept(word)


def read(
    csv: str | Path,
    columns: Annotated[
        Mapping[str, str] | None, Option("--map", metavar="TARGET=COLUMN")
    ] = None,
    *,
    mapping: Annotated[TableMapping | str | Path | None, Option(metavar="PATH")] = None,
    form: Annotated[str, Option("--id", metavar="FORM")] = "",
    sheet: Annotated[str, Option(metavar="NAME")] = "",
    write_mapping: Annotated[str | Path | None, Option(metavar="PATH")] = None,
    name: Annotated[str | None, PYTHON_ONLY] = None,
) -> ImportedManifest:
    """Read any table, with a mapping of its columns.

    The table is a CSV file, or a sheet of a spreadsheet: .xlsx, .xls or .ods.

    TARGET is a column of a manifest, COLUMN one of the table; TARGET==VALUE sets a constant. A
    column of the table with the name of a manifest's column needs no mapping; columns that are not
    mapped are kept under their own name. Ids are written in ASCII without blanks, times in seconds:
    0:01:10 is 70, and where cells are not separated by commas, 70,5 is 70.5.

    The targets are clip_id and movie_id, which every table needs (--id makes clip_id of others);
    scene, a number; video, a file; start_s and end_s, the times in it; level (EN, HN, NS or S: easy
    negative, hard negative, not sure, sure); concepts, joined with `|`; annotator; movie_title; and
    fold:NAME, the fold of a split.

    Args:
        csv: The table.
        columns: Map a column; it takes precedence over the mapping.
        mapping: Map columns, levels and concepts in a TOML file, which may also say how the table
            is written: separator, encoding, header_row, times.
        form: Make clip ids of columns: '{film}-{n:03d}' is the film, and n with three digits.
        sheet: The sheet of a spreadsheet, by name or number. [default: the only one with data]
        write_mapping: Write the mapping that was used to this file; --mapping reads it again.
        name: The name of the manifest. By default that of the file.

    Commands:
        obygaze manifest import csv mine.csv --map clip_id=id --map movie_id=film -o mine
        obygaze manifest import csv mine.csv --map movie_id=film --id '{film}-{n:03d}' -o mine
        obygaze manifest import csv mine.csv --mapping mine.toml -o mine
        obygaze manifest import csv mine.xlsx --sheet Clips --write-mapping mine.toml -o mine
    """
    csv = Path(csv)
    chosen = _chosen_mapping(
        csv,
        mapping,
        columns=columns or {},
        sheet=sheet,
        id=form,
    )
    targets = dict(chosen.columns)
    form = with_mapped_columns(chosen.id, targets)
    violations = Violations(csv, targets)
    source = source_of(csv)
    table = read_table(
        csv,
        required=_required(targets, form),
        delimiter=chosen.delimiter or None,
        skip_blank=True,
        violations=violations,
        content="clips",
        encoding=chosen.encoding,
        sheet=chosen.sheet,
        header_row=chosen.header_row,
    )
    # The unnamed first column that some programs write is a row number, not data.
    used = set(targets.values()) - set(NEEDED) | {"", *targets}
    unmapped = {column: column for column in table.columns if column not in used}
    plan = {**targets, **unmapped}
    rows_with_ids = table.rows
    if form:
        rows_with_ids = tuple(row_with_id(row, form) for row in table.rows)
        plan["clip_id"] = "clip_id"
    table_times = TableTimes(
        chosen.times,
        has_decimal_comma=table.delimiter != ",",
        is_spreadsheet=is_workbook(csv),
    )
    cells = [_values_of_clip(row, plan, chosen, table_times) for row in rows_with_ids]
    if form and "clip_id" in table.columns:
        _keep_given_ids(table.rows, cells)
    _check_ids(table.rows, cells)
    _name_by_annotator(cells)
    folder = csv.parent
    for values in cells:
        values["video"] = _path_in(folder, values.get("video", ""))
    changed = [column for column in NEEDED if _is_changed(column, cells)]
    extra = [target for target in plan if target not in COLUMNS]
    for column in changed:
        if f"given_{column}" not in plan:
            extra.append(f"given_{column}")
    modality_of = {**concepts(), **chosen.modalities}
    rows = zip(table.rows, cells, strict=True)
    clips = clips_of(rows, modality_of, tuple(extra))
    hint = _hint(table.columns, targets, form, violations)
    violations.raise_if_any("the table cannot be imported", hint)
    names_of_videos = {clip.video for clip in clips if clip.video}
    missing_videos = sorted(
        name for name in names_of_videos if not _is_file(folder / name)
    )
    # Names of which none is a path wait for `manifest link`.
    is_linked = len(missing_videos) < len(names_of_videos)
    header = Header(
        chosen.dataset or csv.stem,
        modality_of,
        chosen.unit,
        licence=chosen.licence,
        citation=chosen.citation,
        video_root=folder.resolve().as_posix() if is_linked else "",
        sources=(source,),
    )
    warnings = []
    if is_linked and missing_videos:
        names = few([repr(name) for name in missing_videos], 3)
        n_missing = count(len(missing_videos), "video")
        warnings.append(f"{n_missing} missing in {folder.resolve()}: {names}")
    warnings += [_changed_ids(column, cells) for column in changed]
    if write_mapping is not None:
        used_mapping = _used_mapping(chosen, table.rows)
        write_mapping_file(Path(write_mapping), used_mapping)
    manifest = Manifest(name or csv.stem, header, clips, tuple(extra))
    return ImportedManifest(manifest, tuple(warnings))


def _chosen_mapping(
    csv: Path,
    mapping: TableMapping | str | Path | None,
    *,
    columns: Mapping[str, str],
    **options: Any,
) -> TableMapping:
    """Return a mapping in which the options that were given take the place of its own."""
    if isinstance(mapping, str | Path):
        mapping = read_mapping(Path(mapping))
    mapping = mapping or TableMapping()
    # A mapping is for tables of both kinds; options are for this one.
    if is_workbook(csv):
        mapping = replace(mapping, encoding="")
    if not is_workbook(csv):
        mapping = replace(mapping, sheet="")
    given = {name: value for name, value in options.items() if value}
    return replace(mapping, columns={**mapping.columns, **columns}, **given)


def _hint(
    columns: Sequence[str],
    targets: Mapping[str, str],
    form: str,
    violations: Violations,
) -> str:
    """Return what to do about a table that cannot be imported."""
    problems = "\n".join(violations.lines)
    hints = []
    if "required column is missing" in problems:
        unmapped = [name for name in NEEDED if name not in {*columns, *targets}]
        if form:
            unmapped = [name for name in unmapped if name != "clip_id"]
        target = unmapped[0] if unmapped else "TARGET"
        hints.append(f"--map {target}=COLUMN; the columns of the table: {few(columns)}")
    if "is in the film" in problems:
        film = targets.get("movie_id", "movie_id")
        clip = targets.get("clip_id", "clip_id")
        hints.append(f"--id '{{{film}}}-{{{clip}}}'")
    if "unknown level" in problems or "unknown concept" in problems:
        hints.append("--mapping FILE, whose [levels] and [concepts] translate words")
    return "; ".join(hints) or "correct the cells that are listed"


def _is_file(path: Path) -> bool:
    """Return whether a file is there; False also for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _path_in(folder: Path, video: str) -> str:
    """Return the path of a video as seen from a folder; what is not a path in it is unchanged."""
    path = PurePath(os.path.normpath(video))
    for root in (folder.absolute(), folder.resolve()):
        if path.is_absolute() and path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    with_slashes = PureWindowsPath(video).as_posix()
    if _is_file(folder / with_slashes):
        return with_slashes
    return video


def _used_mapping(mapping: TableMapping, rows: Sequence[TableRow]) -> TableMapping:
    """Return a mapping with all columns and words of a table that it, or the program, reads."""
    named = rows[0].cells if rows else {}
    columns = dict(mapping.columns)
    for target in (*COLUMNS, "annotator", "movie_title"):
        if target in named and not (target == "clip_id" and mapping.id):
            columns.setdefault(target, target)
    levels = dict(mapping.levels)
    for word in _words(rows, columns.get("level", "")):
        level = mapping.level(word)
        if level is not None and level != word:
            levels[word] = level
    meanings = dict(mapping.concepts)
    for cell in _words(rows, columns.get("concepts", "")):
        for word in map(str.strip, cell.split(mapping.separator)):
            concept = mapping.concept(word)
            if concept is not None and concept != word:
                meanings[word] = concept
    return replace(mapping, columns=columns, levels=levels, concepts=meanings)


def _words(rows: Sequence[TableRow], column: str) -> list[str]:
    """Return the different cells of a column that are not empty."""
    cells = (row.cells.get(column, "").strip() for row in rows)
    return list(dict.fromkeys(cell for cell in cells if cell))


def write_mapping_file(path: Path, mapping: object) -> None:
    """Write a mapping, a dataclass of texts, numbers and tables, as a TOML file."""
    lines = []
    tables = []
    for name, value in vars(mapping).items():
        if isinstance(value, Mapping):
            if value:
                tables += ["", f"[{name}]", *_toml_lines(value)]
        elif value not in ("", None):
            lines += _toml_lines({name: value})
    text = "\n".join([*lines, *tables, ""]).lstrip("\n")
    try:
        write_new(path, text.encode("utf-8"))
    except AlreadyThere as error:
        error.hint = "choose another name, or delete the file"
        raise


def _toml_lines(values: Mapping[str, str | int]) -> list[str]:
    """Return lines `name = value` of TOML; a name with other signs is quoted."""
    lines = []
    for name, value in values.items():
        key = name if _BARE_KEY.fullmatch(name) else toml_string(name)
        shown = toml_string(value) if isinstance(value, str) else str(value)
        lines.append(f"{key} = {shown}")
    return lines


@dataclass(frozen=True)
class JoinedColumns:
    """The columns that were added to a manifest, and how many clips have a value in each."""

    name: str
    columns: Mapping[str, int]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the number of clips by column, and what should be known of the table."""
        return asdict(self)

    def __str__(self) -> str:
        return table(("column", "clips with a value"), self.columns.items())


def join_columns(
    manifest: str | os.PathLike[str],
    csv: str | Path,
    columns: Annotated[
        Mapping[str, str] | None, Option("--map", metavar="TARGET=COLUMN")
    ] = None,
    *,
    force: bool = False,
    workspace: str | os.PathLike[str] | None = None,
) -> JoinedColumns:
    """Add the columns of a table to the clips of a manifest.

    CSV has a column clip_id, or one that --map names. Several values of a clip, in one cell or in
    several rows, are joined with '|', and an expression tests each: joy in emotions. A row of
    lake-001 is also one of the clips that annotators made of it (given_clip_id).

    A table of films has movie_id in place of clip_id, or --map movie_id=COLUMN: all clips of a film
    get the values of its rows.

    A .json file has graphs of MovieGraphs: emotions, interactions, relationships, situation and
    place become columns.

    Args:
        manifest: The manifest, which is written anew; a clip without a row gets empty cells.
        csv: The table: a CSV file, a spreadsheet (.xlsx, .xls, .ods), or graphs (.json).
        columns: Rename a column.
        force: Replace columns of the manifest.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest join obygaze12 emotions.csv
        obygaze manifest join obygaze12 moods.csv --map clip_id=scene --map emotion=attribute
        obygaze manifest join obygaze12 decades.csv --map movie_id=film
        obygaze manifest join obygaze12 graphs.json
    """
    path = manifest_path(manifest, workspace=workspace)
    before = read_manifest(path)
    (joined, warnings), added = _join(
        before,
        Path(csv),
        columns,
        force=force,
    )
    update_manifest(before, joined, path)
    n_values_added = {column: n_with_value(joined, column) for column in added}
    return JoinedColumns(before.name, n_values_added, warnings)


def join(
    manifest: Manifest,
    csv: Path,
    columns: Mapping[str, str] | None = None,
    *,
    force: bool = False,
) -> ImportedManifest:
    """Return a manifest with the columns of a table, which `join_columns` writes."""
    joined, _ = _join(manifest, csv, columns, force=force)
    return joined


def _join(
    manifest: Manifest,
    csv: Path,
    columns: Mapping[str, str] | None,
    *,
    force: bool,
) -> tuple[ImportedManifest, list[str]]:
    """Return a manifest with the columns of a table, and the names of these columns."""
    columns = columns or {}
    source = source_of(csv)
    violations = Violations(csv, columns)
    if csv.suffix == GRAPHS:
        table = read_graphs(csv, violations)
        violations.raise_if_any("these are not graphs of MovieGraphs")
        if columns:
            raise FixUsage("--map is for tables, graphs have columns of their own")
    else:
        table = read_table(
            csv,
            required=list(dict.fromkeys(columns.values())),
            delimiter=None,
            skip_blank=True,
            violations=violations,
        )
    key = next((name for name in NEEDED if name in {*columns, *table.columns}), "")
    if not key and not violations:
        violations.add(
            None, "clip_id", "required column is missing, and so is movie_id"
        )
    hint = f"--map clip_id=COLUMN; the columns of the table: {few(table.columns)}"
    violations.raise_if_any("the table cannot be joined", hint)
    targets = {key: key, **columns}
    rows: dict[str, list[TableRow]] = {}
    n_without_id = 0
    for row in table.rows:
        table_id = ascii_id(row[targets[key]].strip())
        if table_id:
            rows.setdefault(table_id, []).append(row)
        else:
            n_without_id += 1
    id_in_table = _ids_in_table(manifest, rows, key)
    if rows.keys().isdisjoint(id_in_table.values()):
        noun = "film" if key == "movie_id" else "clip"
        known_ids = manifest.films if key == "movie_id" else manifest.clip_ids
        raise NotFound(
            f"no {noun} has an id of this table, such as {next(iter(rows), '')!r}",
            where=str(csv),
            hint=f"the manifest has {few(known_ids, 2)}",
        )
    plan = {**targets, **_unmapped(table.columns, targets)}
    left_out = [target for target in plan if target in ("", *COLUMNS)]
    added = {
        target: column for target, column in plan.items() if target not in left_out
    }
    taken = [target for target in added if target in manifest.columns]
    if taken and not force:
        raise AlreadyThere(
            f"the manifest has these columns already: {few(taken)}",
            where=manifest.name,
            hint="--force, or --map OTHER=COLUMN",
        )
    joined = manifest
    for target, column in added.items():
        cells = {
            clip_id: _joined(rows.get(table_id, ()), column)
            for clip_id, table_id in id_in_table.items()
        }
        joined = joined.with_column(target, cells)
    warnings = _warnings_of_join(rows, id_in_table, left_out, key)
    if n_without_id:
        warnings.append(f"left out, without a {key}: {count(n_without_id, 'row')}")
    header = replace(joined.header, sources=(*joined.header.sources, source))
    messages = [f"{csv}: {warning}" for warning in warnings]
    imported = ImportedManifest(replace(joined, header=header), tuple(messages))
    return imported, list(added)


def _unmapped(columns: Iterable[str], targets: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of a table that are not mapped; each is its own target."""
    unmapped = {}
    for column in columns:
        if column not in targets.values() and column not in targets:
            unmapped[column] = column
    return unmapped


def _ids_in_table(
    manifest: Manifest, table_ids: Container[str], key: str
) -> dict[str, str]:
    """Return, for each clip, its id (or its film's) if the table has it, else the one given first.

    `key` is clip_id or movie_id.
    """
    id_in_table: dict[str, str] = {}
    for clip in manifest:
        id_of_row = clip.movie_id if key == "movie_id" else clip.clip_id
        if id_of_row not in table_ids:
            id_of_row = ascii_id(clip.extra.get(f"given_{key}", ""))
        id_in_table[clip.clip_id] = id_of_row
    return id_in_table


def _warnings_of_join(
    rows: Mapping[str, object],
    id_in_table: Mapping[str, str],
    left_out: Sequence[str],
    key: str,
) -> list[str]:
    """Return what a user should know of clips, rows and columns that were not joined."""
    warnings = []
    noun = "clips"
    if key == "movie_id":
        noun = "films"
        warnings.append("joined by movie_id: all clips of a film get its values")
    n_without = sum(table_id not in rows for table_id in id_in_table.values())
    if n_without:
        warnings.append(f"{n_without} of {len(id_in_table)} clips have no row")
    unknown = sorted(rows.keys() - set(id_in_table.values()))
    if unknown:
        warnings.append(f"not {noun} of the manifest: {few(unknown, 3)}")
    columns = [name for name in left_out if name not in ("", key)]
    if columns:
        warnings.append(f"left out, every manifest has them: {', '.join(columns)}")
    return warnings


def _joined(rows: Iterable[TableRow], column: str) -> str:
    """Return the different values of some rows, joined with '|'."""
    values: dict[str, None] = {}
    for row in rows:
        for part in row[column].split("|"):
            values.setdefault(part.strip())
    return "|".join(value for value in values if value)


def _keep_given_ids(rows: Sequence[TableRow], cells: Sequence[dict[str, str]]) -> None:
    """Keep the names that clips have in a table, beside the ids that were made.

    Numbers that begin anew in each film are no names of clips.
    """
    names = [row["clip_id"].strip() for row in rows]
    if len(set(names)) < len(names):
        return
    for name, values in zip(names, cells, strict=True):
        if name and name != values["clip_id"]:
            values["given_clip_id"] = name


def _is_changed(column: str, cells: Iterable[Mapping[str, str]]) -> bool:
    """Return whether the id of a row is not what the table has."""
    return any(values.get(f"given_{column}") for values in cells)


def _changed_ids(column: str, cells: Sequence[Mapping[str, str]]) -> str:
    new_ids = {}
    for values in cells:
        if values.get(f"given_{column}"):
            new_ids[values[f"given_{column}"]] = values[column]
    changes = [f"{given!r} is now {new_id!r}" for given, new_id in new_ids.items()]
    shown = few(changes, 3)
    rule = "ids have letters a-z, digits, . _ + - only and are unique"
    return f"{column}: {rule}; {shown} (given_{column})"


def _check_ids(rows: Sequence[TableRow], cells: Sequence[Mapping[str, str]]) -> None:
    """Add violations: names that become one id, clip ids that several films have."""
    given_names: dict[tuple[str, str], str] = {}
    film_of_clip: dict[str, str] = {}
    for row, values in zip(rows, cells, strict=True):
        movie_id = values["movie_id"]
        for column in NEEDED:
            id_ = values[column]
            given_name = values.get(f"given_{column}", id_)
            first_given = given_names.setdefault((column, id_), given_name)
            if first_given != given_name:
                row.add(
                    column,
                    f"{first_given!r} and {given_name!r} both become {id_!r}; rename one",
                )
        first_film = film_of_clip.setdefault(values["clip_id"], movie_id)
        if first_film != movie_id:
            clip_id = values["clip_id"]
            problem = f"the clip {clip_id!r} is in the film {first_film!r} too"
            solution = f"an id such as {movie_id}-{clip_id} is unique"
            row.add("clip_id", f"{problem}; {solution}")


def _name_by_annotator(cells: Sequence[dict[str, str]]) -> None:
    """Where several annotators have rows of the same clips, add the annotator to each id."""
    ids = Counter(values["clip_id"] for values in cells)
    if len(ids) < len(cells) and all(values.get("annotator") for values in cells):
        for values in cells:
            values.setdefault("given_clip_id", values["clip_id"])
            values["clip_id"] += "." + ascii_id(values["annotator"].strip())


def read_mapping(path: Path) -> TableMapping:
    """Return the mapping in a TOML file, or raise one error of all its violations."""
    require_file(path)
    document = read_toml(path.read_bytes(), str(path))
    mapping: TableMapping = document.check(table_of(TableMapping))
    for word, concept in mapping.concepts.items():
        if concept not in concepts() and concept not in mapping.modalities:
            document.add(
                f"concepts.{word}",
                f"unknown concept {concept!r}; give its modality in [modalities]",
            )
    document.raise_if_any("the mapping is not valid")
    return mapping


def _required(targets: Mapping[str, str], form: str = "") -> list[str]:
    """Return the required columns of the table; with a form of ids, those that it names."""
    for target in targets:
        if not target or target != target.strip():
            raise FixUsage(
                f"--map: invalid column name {target!r}", hint="a name without blanks"
            )
    sources = [source for source in targets.values() if not source.startswith(CONSTANT)]
    unmapped = [name for name in NEEDED if name not in targets]
    if form:
        sources += columns_of_form(form)
        unmapped = [name for name in unmapped if name != "clip_id"]
    return list(dict.fromkeys([*sources, *unmapped]))


def _scene_in(clip_id: str, movie_id: str) -> str:
    """Return the scene number of an id such as `tt0108160-011`, or an empty string."""
    film, _, number = clip_id.rpartition("-")
    if film == movie_id and number.isascii() and number.isdigit():
        return str(int(number))
    return ""


def _values_of_clip(
    row: TableRow,
    plan: Mapping[str, str],
    mapping: TableMapping,
    times: TableTimes,
) -> dict[str, str]:
    """Return the cells of one row by the columns of the manifest, with canonical words."""
    cells = {}
    for target, source in plan.items():
        if source.startswith(CONSTANT):
            cells[target] = source.removeprefix(CONSTANT)
        else:
            cells[target] = row[source]
    for column in NEEDED:
        given_name = cells[column].strip()
        cells[column] = ascii_id(given_name)
        if cells[column] != given_name:
            cells[f"given_{column}"] = given_name
    for column in TIMES:
        cells[column] = times.seconds(row, column, cells.get(column, ""))
    if "scene" not in plan:
        cells["scene"] = _scene_in(cells["clip_id"], cells["movie_id"])
    _translate_level(row, cells, mapping)
    _translate_concepts(row, cells, mapping)
    return cells


def _translate_level(
    row: TableRow, cells: dict[str, str], mapping: TableMapping
) -> None:
    word = cells.get("level", "").strip()
    cells["level"] = mapping.level(word) or ""
    if word and not cells["level"]:
        row.add("level", f"unknown level {word!r}")


def _translate_concepts(
    row: TableRow, cells: dict[str, str], mapping: TableMapping
) -> None:
    text = cells.get("concepts", "")
    names: list[str] = []
    # An empty cell has no concepts; an empty part between separators is an unknown word.
    words = text.split(mapping.separator) if text.strip() else []
    for word in words:
        name = mapping.concept(word.strip())
        if name:
            names.append(name)
        else:
            row.add("concepts", f"unknown concept {word.strip()!r}")
    cells["concepts"] = "|".join(names)
