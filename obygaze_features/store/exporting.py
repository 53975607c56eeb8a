"""Write the features of a store in other formats; clips without features are left out.

Every export says of which store it is: as an array of an npz file, an attribute of an HDF5 file,
in the metadata of a Parquet file and in the head of README.md beside it.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from obygaze_features import __version__
from obygaze_features.core import files
from obygaze_features.core.clip_ids import each_name
from obygaze_features.core.console import Progress, Quiet, count, human
from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
)
from obygaze_features.core.file_names import check_folders_above
from obygaze_features.core.lazy import need
from obygaze_features.core.leftovers import (
    hidden_name,
    remove_hidden,
    remove_leftovers,
)
from obygaze_features.core.rendering import SafeText, render
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.expression import is_labelled
from obygaze_features.manifest.io import manifest_sha256, read_manifest
from obygaze_features.manifest.model import (
    Clip,
    Manifest,
    Windows,
    disputed,
    view_words,
)
from obygaze_features.manifest.spans import FRAMES
from obygaze_features.store.card import (
    HERE,
    citation_text,
    terms_lines,
)
from obygaze_features.store.files import free_bytes
from obygaze_features.store.importing import (
    EXPORT_KEY,
    FILM_KEY,
    FORMATS_OF_FILES,
    FRAME_KEYS,
    ID_KEY,
    PARQUET_EXTRA,
    SPAN_KEYS,
    TIME_KEYS,
)
from obygaze_features.store.layout import (
    CARD,
    CHUNK_BYTES,
    PICTURES,
    Array,
    with_companions,
)
from obygaze_features.store.placing import take_name
from obygaze_features.store.reading import Reason, Store, open_store
from obygaze_features.store.rows import OK, STATUS_OF_WORD, Row, words_of_status

# Values of so many bytes are read and written at a time.
PIECE_BYTES = 2**25
# What an HDF5 file has beside its arrays, at most: names, lists of chunks, and where it comes from.
HDF5_BYTES = 2**16
DATE = (1980, 1, 1, 0, 0, 0)
SHOWN_CLIPS = 20
# The format that is a table, with labels as columns; as a folder, the hub reads it.
TABLE = "parquet"
EXPORTED_TABLE = "data/features.parquet"
# Columns that say of a clip what it is, in their order, and what they mean.
FACT_COLUMNS = {
    ID_KEY: "the clip",
    FILM_KEY: "its film",
    "start_s": "where the clip starts in its video, in seconds",
    "end_s": "where it ends",
    "start_frame": "its first frame in its film, as a table counts it",
    "end_frame": "its last frame",
    "framerate": "the frames per second of its film",
    "level": "its annotation level: EN, HN, NS or S",
    "concepts": "its concepts; not known where annotators differ on one",
}


@dataclass(frozen=True)
class Exported:
    """The result of an export.

    Args:
        path: The new file or folder.
        format: The format.
        n_clips: How many clips were written.
        arrays: The arrays.
        left_out: Each clip without features, with its status and the reason.
        warnings: How many clips have no labels.
        not_exported: What else the store has, in words.
    """

    path: Path
    format: str
    n_clips: int
    arrays: Sequence[str]
    left_out: Mapping[str, Reason]
    warnings: Sequence[str] = ()
    not_exported: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of the export."""
        left_out = {clip: str(reason) for clip, reason in self.left_out.items()}
        return {**vars(self), "path": str(self.path), "left_out": left_out}

    def __str__(self) -> str:
        is_folder = self.path.suffix.lower() not in FORMATS_OF_FILES
        file = self.path / EXPORTED_TABLE if is_folder else self.path
        return f"{file}: {count(self.n_clips, 'clip')}, {', '.join(self.arrays)}"

    @property
    def notes(self) -> list[str]:
        """The reasons of the first clips that were left out, and what else was."""
        reasons = list(self.left_out.items())[:SHOWN_CLIPS]
        notes = [f"{clip}: {reason}" for clip, reason in reasons]
        if self.not_exported:
            notes.append(f"left out: {', '.join(self.not_exported)}")
        return notes

    @property
    def exit_code(self) -> int:
        """The exit code of the command, which says whether clips failed."""
        statuses = [STATUS_OF_WORD[each.status] for each in self.left_out.values()]
        return max((status.exit_code for status in statuses), default=0)


def export_features(
    store: PathLike | Store,
    path: str | Path,
    *,
    format: Literal["parquet"] | None = None,
    arrays: Sequence[str] = (),
    labels: PathLike | Manifest | None = None,
    progress: Progress | None = None,
    workspace: PathLike | None = None,
) -> Exported:
    """Write the features of a store in another format.

    The ending of OUTPUT says the format: .npz, .h5, .hdf5 or .parquet.

    A Parquet file is a table with a row a clip and a column an array, by default of the arrays with
    one vector a clip. --as parquet writes a folder with this table, data/features.parquet, and a
    README.md by which datasets.load_dataset and the hub read it.

    Clips without features are left out and listed (exit code 3), and the output says what else of
    the store is not exported. Licence, citation, recipe and seal go with the features: as the array
    `obygaze_origin` of an npz file, the attribute of that name of an HDF5 file, and in the metadata
    of a Parquet file. `obygaze store import` reads an export without options.

    Args:
        store: The store.
        path: The new file, or the new folder.
        format: The format of a new folder.
        arrays: Only this array, with the times and the mask of its frames.
        labels: Levels and concepts of this manifest become columns of a Parquet table.
        progress: Counts clips, once for each array.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store export obygaze12-xclip xclip.h5
        obygaze store export obygaze12-xclip xclip --as parquet --with-labels obygaze12
    """
    here = Workspace.of(workspace)
    target = here.checked(Path(path))
    check_folders_above(target)
    opened = open_store(store, workspace=workspace)
    if labels is not None:
        labels = read_manifest(labels, workspace=workspace)
    written_as = _format_of(target, format)
    if labels is not None and written_as != TABLE:
        raise FixUsage(
            "labels are columns of parquet only", hint="a name that ends with .parquet"
        )
    refuse_pictures(opened)
    names = list(dict.fromkeys(each_name(arrays)))
    export = Export(opened, (), labels, progress or Quiet())
    export.arrays = export.arrays_of(written_as, names)
    warnings = export.read_labels()
    export.progress.expect(len(export.rows) * len(export.arrays))
    target.parent.mkdir(parents=True, exist_ok=True)
    writers = {"npz": write_npz, "hdf5": write_hdf5, TABLE: write_parquet}
    with _new(target, is_folder=format is not None) as hidden:
        writers[written_as](export, hidden)
    left_out = {}
    for row in opened.rows:
        if not row.is_ok:
            left_out[row.clip_id] = Reason(row.status, row.reason)
    return Exported(
        path=target,
        format=written_as,
        n_clips=len(export.rows),
        arrays=[array.name for array in export.arrays],
        left_out=left_out,
        warnings=warnings,
        not_exported=export.not_exported(),
    )


def _format_of(path: Path, folder_format: str | None) -> str:
    """Return the format of an export: that of a new folder, or the one of the ending."""
    of_ending = FORMATS_OF_FILES.get(path.suffix.lower(), "")
    if folder_format is None and of_ending:
        return of_ending
    if folder_format is None:
        raise FixUsage(
            f"the ending {path.suffix!r} is none that features are written in",
            where=str(path),
            hint=f"a name that ends with {', '.join(FORMATS_OF_FILES)}, or --as parquet for a"
            " folder",
        )
    if folder_format != TABLE:
        problem = f"{folder_format} is not written as a folder"
        raise FixUsage(problem, hint=f"--as {TABLE}")
    if of_ending:
        raise FixUsage(
            f"--as {TABLE} writes a folder, and this is the name of a file of {of_ending}",
            where=str(path),
            hint=f"the name {path.stem}, or leave --as out",
        )
    return TABLE


def refuse_pictures(store: Store) -> None:
    """Raise an error for a store of pictures, which is not sent, exported or published."""
    if store.record.array(PICTURES) is not None:
        raise FixUsage(
            "this store holds pictures of films; it is private",
            where=store.location,
        )


@dataclass
class Export:
    """What is exported: arrays of a store, and its rows with features.

    Args:
        store: The store.
        arrays: The arrays.
        labels: The manifest whose levels and concepts become columns.
        progress: Counts clips, once for each array.
        label_of: The clip of the manifest that each row of the store has, by its id.
    """

    store: Store
    arrays: Sequence[Array]
    labels: Manifest | None
    progress: Progress
    label_of: Mapping[str, Clip] = field(default_factory=dict)

    @cached_property
    def rows(self) -> list[Row]:
        """The rows with features."""
        rows = [row for row in self.store.rows if row.is_ok]
        if not rows:
            raise FixInput(
                "no clip has features; nothing to export",
                where=self.store.location,
                hint=f"obygaze store info {shell_word(self.store.location)} --clips",
            )
        return rows

    @cached_property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The places of these rows in the store."""
        return np.flatnonzero([row.is_ok for row in self.store.rows])

    @cached_property
    def facts(self) -> list[str]:
        """The columns beside the features."""
        names = [ID_KEY]
        if any(row.movie_id for row in self.rows):
            names.append(FILM_KEY)
        if any((row.start_s, row.end_s) != (None, None) for row in self.rows):
            names += TIME_KEYS
        if any(row.start_frame is not None for row in self.rows):
            names += FRAME_KEYS
        if self.labels is not None:
            names += ["level", "concepts"]
        return names

    def fact_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the facts as arrays; a number that is not known is NaN."""
        columns = {}
        for name in self.facts:
            kind = np.float64 if name in SPAN_KEYS else np.str_
            facts = [getattr(row, name) for row in self.rows]
            columns[name] = np.array(facts, dtype=kind)
        return columns

    def arrays_of(self, format: str, names: Sequence[str]) -> Sequence[Array]:
        """Return the arrays with these names, or those of a format, and what belongs to them."""
        store = self.store
        known = store.record.arrays
        chosen = [store.array(name) for name in names] or list(known)
        if format == TABLE and not names:
            features = map(store.array, store.feature_arrays)
            chosen = [array for array in features if len(array.shape) == 1]
            if not chosen:
                names_there = store.feature_arrays or [array.name for array in known]
                raise FixUsage(
                    "no array has one vector a clip",
                    hint=f"--array NAME, one of {', '.join(names_there)}",
                )
        # Elsewhere than in an npz file, what an export says of itself stands in metadata.
        taken = {"npz": [EXPORT_KEY], TABLE: [*FACT_COLUMNS]}.get(format, [])
        arrays = with_companions(chosen, known)
        for array in arrays:
            if array.name in taken:
                raise FixUsage(
                    f"in {format}, the array {array.name!r} and the {array.name} of clips would"
                    " be one",
                    where=store.location,
                    hint="--array for other arrays only",
                )
        return arrays

    def read_labels(self) -> list[str]:
        """Find each clip in the manifest; return a sentence on clips without a level.

        An error if the manifest has none of the clips, or another clip of the same id.
        """
        labels = self.labels
        if labels is None:
            return []
        if isinstance(labels.clips, Windows):
            raise FixUsage("windows have no labels", where=labels.name)
        ids = {row.clip_id for row in self.rows}
        labelled = [clip for clip in labels if clip.clip_id in ids]
        # An error where the store has another clip of this id.
        self.store.match(labelled)
        self.label_of = {clip.clip_id: clip for clip in labelled}
        if not labelled:
            raise FixInput(
                f"the manifest {labels.name} has none of the clips of this store: the first clip"
                f" here is {self.rows[0].clip_id!r}, there {next(iter(labels.clip_ids), '')!r}",
                where=labels.name,
                hint="--with-labels MANIFEST",
            )
        n_missing = len(self.rows) - sum(bool(clip.level) for clip in labelled)
        if not n_missing:
            return []
        n_without = count(n_missing, "clip")
        return [
            f"{n_without} of {len(self.rows)} without a level in the manifest {labels.name}"
        ]

    def origin_json(self) -> str:
        """Return of which store the features are, how they were made, and under which terms."""
        record = self.store.record
        terms = self.store.terms
        facts = {
            "program": f"obygaze {__version__}",
            "seal": self.store.seal,
            "manifest": {
                "name": record.manifest.name,
                "sha256": record.manifest.sha256,
            },
            "licence": terms.licence,
            "citation": terms.citation,
            "fingerprint": record.fingerprint,
            "recipe": record.recipe,
        }
        if self.labels is not None:
            header = self.labels.header
            facts["labels"] = {
                "name": self.labels.name,
                "sha256": manifest_sha256(self.labels),
                "licence": header.licence,
                "citation": header.citation,
            }
        return json.dumps(facts)

    def not_exported(self) -> list[str]:
        """Return what of the store is not exported, in words."""
        record = self.store.record
        left_out = []
        for status, number in record.rows.by_status.items():
            if status != OK and number:
                is_extracted = self.store.recipe.is_extracted
                words = words_of_status(status, is_extracted=is_extracted)
                left_out.append(f"{count(number, 'clip')} {words}")
        names = [array.name for array in record.arrays if array not in self.arrays]
        if names:
            left_out.append(f"the arrays {', '.join(names)}")
        n_remarks = sum(bool(row.reason) for row in self.rows)
        if n_remarks:
            left_out.append(f"remarks on {count(n_remarks, 'clip')}")
        if any(row.video_hash or row.pictures is not None for row in self.rows):
            left_out.append("which videos were read")
        if record.makers:
            left_out.append("what computed the clips")
        if record.replaces:
            left_out.append("the history of the store")
        return left_out

    def pieces(self, array: Array) -> Iterator[npt.NDArray[np.generic]]:
        """Yield the values of some rows at a time, in the order of the store."""
        n_rows = max(1, PIECE_BYTES // array.row_bytes)
        for first in range(0, len(self.rows), n_rows):
            yield self.values(array, slice(first, first + n_rows))

    def values(self, array: Array, piece: slice) -> npt.NDArray[np.generic]:
        """Return the values of some of the rows."""
        values = self.store.read(array, self.numbers[piece])
        self.progress.advance(len(values))
        return np.ascontiguousarray(values)


@contextmanager
def _new(target: Path, *, is_folder: bool) -> Iterator[Path]:
    """Yield a hidden path beside a new file or folder, which gets its name when it is finished."""
    taken = AlreadyThere(
        "a file or folder of this name exists already", where=str(target)
    )
    remove_leftovers(target)
    if os.path.lexists(target):
        raise taken
    hidden = hidden_name(target)
    if is_folder:
        hidden.mkdir()
    try:
        with files.name_in_errors(target):
            yield hidden
            files.sync_all(hidden)
        take = take_name if is_folder else files.rename_if_free
        if not take(hidden, target):
            raise taken
    finally:
        remove_hidden(hidden)


# --- The formats ---


def write_npz(export: Export, path: Path) -> None:
    """Write an array of each name; in pieces, so that any size fits."""
    columns = {EXPORT_KEY: np.array(export.origin_json()), **export.fact_arrays()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, column in columns.items():
            _write_member(archive, name, column.shape, column.dtype, [column])
        for array in export.arrays:
            shape = (len(export.rows), *array.shape)
            dtype = np.dtype(array.dtype)
            _write_member(archive, array.name, shape, dtype, export.pieces(array))


def _write_member(
    archive: zipfile.ZipFile,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    pieces: Iterable[npt.NDArray[Any]],
) -> None:
    """Write an array of an npz file piece by piece."""
    entry = zipfile.ZipInfo(f"{name}.npy", DATE)
    descr = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    with archive.open(entry, "w", force_zip64=True) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for piece in pieces:
            stream.write(piece.tobytes())


def write_hdf5(export: Export, path: Path) -> None:
    """Write an array of each name, with a row for each clip."""
    import h5py

    n_rows = len(export.rows)
    facts = export.fact_arrays()
    origin = export.origin_json().encode()
    n_bytes = HDF5_BYTES + len(origin)
    n_bytes += sum(column.nbytes for column in facts.values())
    for array in export.arrays:
        n_bytes += n_rows * array.row_bytes + CHUNK_BYTES + array.row_bytes
    free = free_bytes(path.parent)
    if n_bytes > free:
        # The HDF5 library ends the process when the disk gets full.
        raise FixInput(
            f"the file needs up to {human(n_bytes)}, and {human(free)} are free",
            where=str(path.parent),
            hint="another disk, or --array for one array",
        )
    # This form has checksums of everything but values, which HDF5 1.10 and later read.
    with h5py.File(path, "w", track_order=True, libver=("v110", "v110")) as out:
        # A text of fixed size; others lie where no checksum is.
        out.attrs[EXPORT_KEY] = np.bytes_(origin)
        for name, column in facts.items():
            if column.dtype.kind == "U":
                column = np.char.encode(column, "utf-8")
            out.create_dataset(name, data=column, fletcher32=True)
        for array in export.arrays:
            n_rows_of_chunk = min(n_rows, max(1, CHUNK_BYTES // array.row_bytes))
            values = out.create_dataset(
                array.name,
                (n_rows, *array.shape),
                array.dtype,
                chunks=(n_rows_of_chunk, *array.shape),
                fletcher32=True,
            )
            first = 0
            for piece in export.pieces(array):
                values[first : first + len(piece)] = piece
                first += len(piece)


def write_parquet(export: Export, path: Path) -> None:
    """Write a table with a row a clip; in a folder, also a README.md by which the hub reads it."""
    if not path.is_dir():
        _write_table(export, path)
        return
    (path / EXPORTED_TABLE).parent.mkdir()
    _write_table(export, path / EXPORTED_TABLE)
    _write_card(export, path)


def _write_table(export: Export, path: Path) -> None:
    """Write a Parquet file with a row a clip."""
    pyarrow = need("pyarrow", PARQUET_EXTRA, "writing Parquet")
    parquet = need("pyarrow.parquet", PARQUET_EXTRA, "writing Parquet")
    types = dict.fromkeys(SPAN_KEYS, pyarrow.float64())
    types |= dict.fromkeys(FRAMES, pyarrow.int64())
    types["concepts"] = pyarrow.list_(pyarrow.string())
    fields = [(name, types.get(name, pyarrow.string())) for name in export.facts]
    for array in export.arrays:
        column_type = pyarrow.from_numpy_dtype(np.dtype(array.dtype))
        for size in reversed(array.shape):
            column_type = pyarrow.list_(column_type, size)
        fields.append((array.name, column_type))
    schema = pyarrow.schema(fields, {EXPORT_KEY: export.origin_json()})
    row_bytes = sum(array.row_bytes for array in export.arrays)
    n_rows_of_group = max(1, PIECE_BYTES // row_bytes)
    with parquet.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=[FILM_KEY, "level", "concepts.list.element"],
        write_page_index=True,
        write_page_checksum=True,
    ) as writer:
        for first in range(0, len(export.rows), n_rows_of_group):
            piece = slice(first, first + n_rows_of_group)
            columns: dict[str, Any] = {}
            for name in export.facts:
                columns[name] = [_fact(name, row, export) for row in export.rows[piece]]
            for array in export.arrays:
                column = pyarrow.array(export.values(array, piece).reshape(-1))
                for size in reversed(array.shape):
                    column = pyarrow.FixedSizeListArray.from_arrays(column, size)
                columns[array.name] = column
            writer.write_table(pyarrow.table(columns, schema=schema))


def _fact(name: str, row: Row, export: Export) -> Any:
    """Return what a column says of a clip; None where it is not known."""
    if name in (ID_KEY, FILM_KEY, *SPAN_KEYS):
        return getattr(row, name)
    clip = export.label_of.get(row.clip_id)
    if clip is None or export.labels is None:
        return None
    if name == "level":
        return clip.level or None
    # Where annotators differ on a concept, or nobody said anything of the clip, an absent one would
    # be read as one that is not there.
    is_open = any(
        concept in disputed(clip) for concept in export.labels.header.concepts
    )
    if is_open or not is_labelled("concept", clip.values):
        return None
    return list(clip.concepts)


def _write_card(export: Export, folder: Path) -> None:
    """Write README.md beside a table."""
    store = export.store
    columns = [(name, FACT_COLUMNS[name]) for name in export.facts]
    for array in export.arrays:
        shape = " x ".join(map(str, array.shape)) or "one number"
        is_of_features = array.name in store.feature_arrays
        what = "features" if is_of_features else "beside the features"
        columns.append((array.name, f"{what}: {shape} of {array.dtype}"))
    labels = ""
    label_licence = None
    if export.labels is not None:
        header = export.labels.header
        label_licence = header.licence
        labels = (
            f"Levels and concepts are those of the manifest {export.labels.name},"
            f" {view_words(header.view)}, sha256 {manifest_sha256(export.labels)}. Their licence:"
            f" {header.licence or 'not stated'}."
        )
        if header.citation:
            labels += f" Cite for them: {header.citation}"
    text = render(
        "export.md",
        HERE,
        manifest=store.record.manifest,
        recipe=store.recipe,
        terms=store.terms,
        terms_lines=map(SafeText, terms_lines(store.terms, label_licence)),
        citation=SafeText(citation_text(store.terms)),
        origin_json=SafeText(export.origin_json()),
        table=EXPORTED_TABLE,
        columns=columns,
        labels=labels,
    )
    (folder / CARD).write_bytes(text.encode())
