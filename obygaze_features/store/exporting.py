"""Write the features of a store in other formats, without the clips that have no features.

Every export records the store from which it was made: in an array of an npz file, in an attribute
of an HDF5 file or a group of Zarr, or in the metadata of a Parquet file and the README.md of its
folder.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from obygaze_features import __version__
from obygaze_features.core import files
from obygaze_features.core.clip_ids import each_name
from obygaze_features.core.console import Progress, Quiet, count, human
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage
from obygaze_features.core.file_names import check_folders_above
from obygaze_features.core.files import FORMATS_OF_FEATURES
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.rendering import SafeText, render
from obygaze_features.core.shell import shell_word
from obygaze_features.core.temporary_names import (
    hidden_name,
    remove_hidden,
    remove_leftovers,
)
from obygaze_features.core.untrusted_text import visible
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.expression import is_labelled
from obygaze_features.manifest.io import manifest_sha256, read_manifest
from obygaze_features.manifest.model import (
    Clip,
    Manifest,
    disputed_names,
    view_words,
)
from obygaze_features.manifest.spans import FRAMES
from obygaze_features.store.atomic_files import take_name
from obygaze_features.store.card import HERE, Terms, citation_text, terms_lines
from obygaze_features.store.files import free_bytes
from obygaze_features.store.importing.files import (
    EXPORT_KEY,
    FILM_KEY,
    ID_KEY,
    SPAN_KEYS,
)
from obygaze_features.store.importing.zarr import ORDER_KEY, without_warnings
from obygaze_features.store.layout import (
    CARD,
    CHUNK_BYTES,
    PICTURES,
    ROW_DIMENSION,
    Array,
    with_companions,
)
from obygaze_features.store.making import check_not_inside_store
from obygaze_features.store.reading import Reason, Store, open_store
from obygaze_features.store.replaced import replaced_videos_text
from obygaze_features.store.rows import STATUS_OF_WORD

# Bytes of values that are read and written at a time.
PIECE_BYTES = 2**25
# Upper bound of an HDF5 file without its arrays: names, lists of chunks, record of the store.
HDF5_BYTES = 2**16
SHOWN_CLIPS = 20
# The format of tables. A table may have labels as columns; the hub reads a folder with a table.
TABLE = "parquet"
PARQUET_EXTRA = "parquet"
EXPORTED_TABLE = "data/features.parquet"
# Columns of facts of clips, with their descriptions.
FACT_COLUMNS = {
    ID_KEY: "the clip",
    FILM_KEY: "its film",
    "start_s": "where the clip starts in its video, in seconds",
    "end_s": "where it ends",
    "start_frame": "its first frame in its film, as a table counts it",
    "end_frame": "its last frame",
    "framerate": "the frames per second of its film",
    "film_start_s": "where the clip starts in its film, if its video is another file",
    "film_end_s": "where it ends in its film",
    "level": "its annotation level: EN, HN, NS or S",
    "concepts": "its concepts; not known where annotators differ on one",
}


@dataclass(frozen=True)
class Exported:
    """The result of an export.

    Args:
        path: The new file or folder.
        format: The format.
        n_clips: The number of written clips.
        arrays: The exported arrays.
        left_out: The clips without features, each with its status and reason.
        warnings: A sentence on the clips without a level; empty if all exported clips have one.
        not_exported: The arrays of the store that are not exported.
    """

    path: Path
    format: str
    n_clips: int
    arrays: Sequence[str]
    left_out: Mapping[str, Reason]
    warnings: Sequence[str] = ()
    not_exported: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON."""
        left_out = {clip: str(reason) for clip, reason in self.left_out.items()}
        return {**vars(self), "path": str(self.path), "left_out": left_out}

    def __str__(self) -> str:
        is_folder = self.path.suffix.lower() not in FORMATS_OF_FEATURES
        file = self.path / EXPORTED_TABLE if is_folder else self.path
        return f"{file}: {count(self.n_clips, 'clip')}, {', '.join(self.arrays)}"

    @property
    def notes(self) -> list[str]:
        """Lines on the clips without features, and on the arrays that are not exported."""
        notes = []
        if self.left_out:
            notes.append(f"not exported: {count(len(self.left_out), 'clip')}")
        for clip, reason in list(self.left_out.items())[:SHOWN_CLIPS]:
            notes.append(f"  {clip}: {reason}")
        if self.not_exported:
            notes.append(f"not exported: the arrays {', '.join(self.not_exported)}")
        return notes

    @property
    def exit_code(self) -> int:
        """The exit code of the command; 0 only if all clips have features."""
        statuses = [STATUS_OF_WORD[each.status] for each in self.left_out.values()]
        return max((status.exit_code for status in statuses), default=0)


def refuse_pictures(store: Store) -> None:
    """Raise an error for a store of pictures, which must not be sent, exported or published."""
    if store.record.array(PICTURES) is not None:
        problem = (
            "stores with pictures of films are private, and are not exported or sent"
        )
        raise FixUsage(problem, where=store.location)


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

    The ending of the path says the format: .npz, .h5, .hdf5, .parquet, or .zarr for a folder that
    is a group of Zarr, compressed. A store itself is such a group, not compressed.

    A Parquet file is a table with a row a clip and a column an array, by default of the arrays with
    one vector a clip. The format "parquet" writes a folder with this table, data/features.parquet,
    and a README.md by which datasets.load_dataset and the hub read it.

    Clips without features are left out and listed, as are arrays that are not
    exported. Licence, citation, recipe and seal go with the features: in the array `obygaze_origin`
    of an npz file, the attribute of this name of an HDF5 file or a group of Zarr, and the metadata
    of a Parquet file. `og.store.import_` reads the features, and takes these facts from its own
    arguments only.

    Args:
        store: The store.
        path: The new file, or the new folder.
        format: The format of a new folder.
        arrays: Only this array, with the times and the mask of its frames.
        labels: Levels and concepts of this manifest become columns of a Parquet table.
        progress: Counts clips, once for each array.
        workspace: The workspace, if it is not the current one.
    """
    target = Workspace.of(workspace).checked(Path(path))
    check_folders_above(target)
    check_not_inside_store(target)
    opened = open_store(store, workspace=workspace)
    of_ending = FORMATS_OF_FEATURES.get(target.suffix.lower())
    kind = format or of_ending
    if kind is None or (format and (of_ending or format != TABLE)):
        raise FixUsage(
            f"expected a file with the ending {', '.join(FORMATS_OF_FEATURES)}; or a folder and"
            f" --as {TABLE}",
            where=str(target),
        )
    if labels is not None:
        labels = read_manifest(labels, workspace=workspace)
        if kind != TABLE:
            raise FixUsage("--with-labels is for Parquet only")
    refuse_pictures(opened)
    chosen = [opened.array(name) for name in dict.fromkeys(each_name(arrays))]
    known = opened.record.arrays
    if not chosen and kind == TABLE:
        features = map(opened.array, opened.feature_arrays)
        chosen = [array for array in features if len(array.shape) == 1]
        if not chosen:
            names = ", ".join(array.name for array in known)
            hint = f"pass --array NAME with one of {names}"
            raise FixUsage("no array has exactly one vector for each clip", hint=hint)
    export = Export(
        opened, with_companions(chosen or known, known), progress or Quiet()
    )
    warnings = export.add_labels(labels) if labels is not None else []
    target.parent.mkdir(parents=True, exist_ok=True)
    writers = {
        "npz": write_npz,
        "hdf5": write_hdf5,
        TABLE: write_parquet,
        "zarr": write_zarr,
    }
    is_folder = kind == "zarr" or format is not None
    with _new(target, is_folder=is_folder) as hidden:
        writers[kind](export, hidden)
    exported = [array.name for array in export.arrays]
    return Exported(
        path=target,
        format=kind,
        n_clips=len(export.numbers),
        arrays=exported,
        left_out=export.left_out,
        warnings=warnings,
        not_exported=[array.name for array in known if array.name not in exported],
    )


class Export:
    """The exported arrays of a store, and the rows that have features.

    Attributes:
        store: The store.
        arrays: The exported arrays.
        columns: The facts of each clip, by column; None for an unknown fact.
        numbers: The row numbers of the clips in the store.
        left_out: The clips without features, with the reason of each.
        origin: The store, the recipe and the terms of the features.
        labels: The sentences of the card on the labels, their licence and their citation.
    """

    def __init__(
        self, store: Store, arrays: Sequence[Array], progress: Progress
    ) -> None:
        self.store = store
        self.arrays = arrays
        self.progress = progress
        self.labels = ""
        self.label_licence: str | None = None
        status = store.status()
        self.numbers = np.flatnonzero(status.is_ok)
        rows = store.table.some(self.numbers)
        if not rows:
            raise FixInput(
                "no clip has features; nothing to export",
                where=store.location,
                hint=f"obygaze store info {shell_word(store.location)} --clips shows why",
            )
        progress.expect(len(rows) * len(arrays))
        self.left_out: dict[str, Reason] = {}
        for number, reason in status.reasons.items():
            self.left_out[store.rows[number].clip_id] = reason
        self.columns: dict[str, list[Any]] = {}
        for name in (ID_KEY, FILM_KEY, *SPAN_KEYS):
            facts = [getattr(row, name) for row in rows]
            if any(fact not in (None, "") for fact in facts):
                self.columns[name] = facts
        record = store.record
        self.origin: dict[str, Any] = {
            "program": f"obygaze {__version__}",
            "seal": store.seal,
            "manifest": {
                "name": record.manifest.name,
                "sha256": record.manifest.sha256,
            },
            **store.terms._asdict(),
            "fingerprint": record.fingerprint,
            "recipe": record.recipe,
        }

    def add_labels(self, labels: Manifest) -> list[str]:
        """Add the labels of a manifest; return warnings: of clips without a level, replaced videos.

        Raise an error if the manifest has none of the clips of the store, or if it has a different
        clip with the id of a clip of the store.
        """
        ids = self.columns[ID_KEY]
        clips = labels.by_id
        # This raises an error if the store has a different clip with the same id.
        self.store.match([clips[clip_id] for clip_id in ids if clip_id in clips])
        if clips.keys().isdisjoint(ids):
            raise FixInput(
                f"no clip of this store is in the manifest {labels.name}; a clip of the store is"
                f" {ids[0]!r}",
                where=labels.name,
                hint="pass --with-labels MANIFEST with the manifest of these clips",
            )
        header = labels.header
        of_clips = [clips.get(clip_id) for clip_id in ids]
        levels = [clip.level or None if clip else None for clip in of_clips]
        self.columns["level"] = levels
        exported = "Levels"
        # A table that states levels only does not say which concepts are absent.
        if any(clip.concepts for clip in labels):
            exported = "Levels and concepts"
            self.columns["concepts"] = [
                _concepts(clip, header.concepts) for clip in of_clips
            ]
        sha256 = manifest_sha256(labels)
        self.origin["labels"] = {
            "name": labels.name,
            "sha256": sha256,
            "licence": header.licence,
            "citation": header.citation,
        }
        self.label_licence = Terms(header.licence).spelled.licence
        self.labels = (
            f"{exported} come from the manifest {labels.name},"
            f" {view_words(header.view)}, SHA-256 {sha256}. Licence of the labels:"
            f" {header.licence or 'not stated'}."
        )
        if header.citation:
            self.labels += f" Cite for the labels: {header.citation}"
        exported_clips = [clip for clip in of_clips if clip is not None]
        replaced = replaced_videos_text(exported_clips, labels, self.store.stores)
        warnings = [replaced] if replaced else []
        n_without = levels.count(None)
        if n_without:
            of_all = f"{count(n_without, 'clip')} of {len(ids)}"
            warnings.append(f"{of_all} without a level in the manifest {labels.name}")
        return warnings

    def fact_arrays(self, **others: Any) -> dict[str, npt.NDArray[Any]]:
        """Return arrays of the columns in `others`, followed by arrays of the facts of clips.

        Unknown numbers are NaN. Raise an error if an exported array has the name of a column.
        """
        columns = {name: np.array(value) for name, value in others.items()}
        for name, facts in self.columns.items():
            columns[name] = np.array(
                facts, np.float64 if name in SPAN_KEYS else np.str_
            )
        self.check_names(columns)
        return columns

    def check_names(self, columns: Mapping[str, Any]) -> None:
        """Raise an error if an array has the name of a column."""
        for array in self.arrays:
            if array.name in columns:
                raise FixUsage(
                    f"the array {array.name!r} and the {array.name} of clips need the same column",
                    where=self.store.location,
                    hint="choose other arrays with --array",
                )

    def pieces(self, array: Array, n_rows: int = 0) -> Iterator[npt.NDArray[Any]]:
        """Yield the values of an array for some rows at a time, in the order of the store."""
        n_rows = n_rows or max(1, PIECE_BYTES // array.row_bytes)
        for first in range(0, len(self.numbers), n_rows):
            values = self.store.read(array, self.numbers[first : first + n_rows])
            self.progress.advance(len(values))
            yield np.ascontiguousarray(values)


def _concepts(clip: Clip | None, concepts: Iterable[str]) -> list[str] | None:
    """Return the concepts of a clip, or None if they are unknown.

    They are unknown if the clip has no annotation, or if its annotators differ on a concept. A list
    of concepts would then wrongly state that all concepts outside of the list are absent.
    """
    if clip is None or not is_labelled("concept", clip.values):
        return None
    return None if {*concepts} & {*disputed_names(clip)} else list(clip.concepts)


@contextmanager
def _new(target: Path, *, is_folder: bool) -> Iterator[Path]:
    """Yield a hidden path next to `target`, and rename it to `target` at the end."""
    taken = AlreadyThere("a file or folder of this name exists", where=str(target))
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
    """Write an npz file, in pieces that fit into memory."""
    n_rows = len(export.numbers)
    formats = np.lib.format
    columns = export.fact_arrays(**{EXPORT_KEY: json.dumps(export.origin)})
    with zipfile.ZipFile(path, "w") as archive:
        for name, column in columns.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                formats.write_array(stream, column, allow_pickle=False)
        for array in export.arrays:
            header = {
                "descr": np.dtype(array.dtype).str,
                "fortran_order": False,
                "shape": (n_rows, *array.shape),
            }
            with archive.open(f"{array.name}.npy", "w", force_zip64=True) as stream:
                formats.write_array_header_1_0(stream, header)
                for piece in export.pieces(array):
                    stream.write(piece.tobytes())


def write_hdf5(export: Export, path: Path) -> None:
    """Write an HDF5 file of arrays with a row per clip."""
    import h5py

    n_rows = len(export.numbers)
    facts = export.fact_arrays()
    origin = json.dumps(export.origin).encode()
    n_bytes = HDF5_BYTES + len(origin)
    n_bytes += sum(column.nbytes for column in facts.values())
    for array in export.arrays:
        n_bytes += (n_rows + 1) * array.row_bytes + CHUNK_BYTES
    free = free_bytes(path.parent)
    if n_bytes > free:
        # The HDF5 library ends the process if the disk is full.
        problem = f"the file needs up to {human(n_bytes)}, and {human(free)} are free"
        raise FixInput(problem, where=str(path.parent))
    # This version, for HDF5 1.10 and later, has checksums of everything except values.
    with h5py.File(path, "w", track_order=True, libver=("v110", "v110")) as out:
        # A text of fixed size: texts of variable size have no checksum.
        out.attrs[EXPORT_KEY] = np.bytes_(origin)
        for name, column in facts.items():
            if column.dtype.kind == "U":
                column = np.char.encode(column, "utf-8")
            out.create_dataset(name, data=column, fletcher32=True)
        for array in export.arrays:
            shape = (n_rows, *array.shape)
            rows_of_chunk = min(n_rows, max(1, CHUNK_BYTES // array.row_bytes))
            chunks = (rows_of_chunk, *array.shape)
            values = out.create_dataset(
                array.name, shape, array.dtype, chunks=chunks, fletcher32=True
            )
            first = 0
            for piece in export.pieces(array):
                values[first : first + len(piece)] = piece
                first += len(piece)


def write_zarr(export: Export, path: Path) -> None:
    """Write a group of Zarr 3 with compressed arrays, a row per clip, for zarr and xarray."""
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec

    facts = export.fact_arrays()
    attributes = {
        EXPORT_KEY: json.dumps(export.origin),
        ORDER_KEY: [array.name for array in export.arrays],
        "coordinates": " ".join(facts),
    }
    group = zarr.create_group(path, zarr_format=3, attributes=attributes)
    settings: dict[str, Any] = {
        "compressors": [ZstdCodec(level=3), Crc32cCodec()],
        # A chunk of fill values exists too: a missing chunk is damage.
        "config": {"write_empty_chunks": True},
    }
    for name, column in facts.items():
        if column.dtype.kind == "U":
            column = column.astype(np.dtypes.StringDType())
        group.create_array(
            name, data=column, dimension_names=[ROW_DIMENSION], **settings
        )
    for array in export.arrays:
        n_chunks = max(1, PIECE_BYTES // array.chunk_bytes)
        n_rows = n_chunks * array.chunk_rows
        values = group.create_array(
            array.name,
            shape=(len(export.numbers), *array.shape),
            dtype=array.dtype,
            chunks=(array.chunk_rows, *array.shape),
            shards=(n_rows, *array.shape),
            dimension_names=[ROW_DIMENSION, *array.dims],
            **settings,
        )
        first = 0
        for piece in export.pieces(array, n_rows):
            values[first : first + len(piece)] = piece
            first += len(piece)
    with without_warnings():
        zarr.consolidate_metadata(path)


def write_parquet(export: Export, path: Path) -> None:
    """Write a table with a row per clip; if `path` is a folder, also its README.md."""
    if not path.is_dir():
        _write_table(export, path)
        return
    (path / EXPORTED_TABLE).parent.mkdir()
    _write_table(export, path / EXPORTED_TABLE)
    store = export.store
    columns = [(name, FACT_COLUMNS[name]) for name in export.columns]
    for array in export.arrays:
        shape = " x ".join(map(str, array.shape)) or "one number"
        is_of_features = array.name in store.feature_arrays
        what = "features" if is_of_features else "about the features"
        columns.append((array.name, f"{what}: {shape} of {array.dtype}"))
    lines = terms_lines(store.terms, export.label_licence)
    text = render(
        "export.md",
        HERE,
        manifest=store.record.manifest,
        recipe=store.recipe,
        terms=store.terms,
        terms_lines=map(SafeText, lines),
        citation=SafeText(citation_text(store.terms)),
        # YAML does not join the two halves that JSON writes of some signs.
        origin_json=SafeText(visible(json.dumps(export.origin, ensure_ascii=False))),
        table=EXPORTED_TABLE,
        columns=columns,
        labels=export.labels,
    )
    (path / CARD).write_bytes(text.encode())


def _write_table(export: Export, path: Path) -> None:
    """Write a Parquet file with a row per clip."""
    pyarrow = import_optional("pyarrow", PARQUET_EXTRA, "writing Parquet")
    parquet = import_optional("pyarrow.parquet", PARQUET_EXTRA, "writing Parquet")
    export.check_names(export.columns)
    types = dict.fromkeys(SPAN_KEYS, pyarrow.float64())
    types |= dict.fromkeys(FRAMES, pyarrow.int64())
    types["concepts"] = pyarrow.list_(pyarrow.string())
    fields = [(name, types.get(name, pyarrow.string())) for name in export.columns]
    for array in export.arrays:
        column_type = pyarrow.from_numpy_dtype(np.dtype(array.dtype))
        for size in reversed(array.shape):
            column_type = pyarrow.list_(column_type, size)
        fields.append((array.name, column_type))
    schema = pyarrow.schema(fields, {EXPORT_KEY: json.dumps(export.origin)})
    row_bytes = sum(array.row_bytes for array in export.arrays)
    n_rows = max(1, PIECE_BYTES // row_bytes)
    all_pieces = [export.pieces(array, n_rows) for array in export.arrays]
    with (
        # PyArrow opens no file whose name is not UTF-8.
        path.open("xb") as stream,
        parquet.ParquetWriter(
            stream,
            schema,
            compression="zstd",
            use_dictionary=[FILM_KEY, "level", "concepts.list.element"],
            write_page_index=True,
            write_page_checksum=True,
        ) as writer,
    ):
        for first, pieces in enumerate(zip(*all_pieces, strict=True)):
            piece = slice(first * n_rows, (first + 1) * n_rows)
            columns = [facts[piece] for facts in export.columns.values()]
            for array, values in zip(export.arrays, pieces, strict=True):
                column = pyarrow.array(values.reshape(-1))
                for size in reversed(array.shape):
                    column = pyarrow.FixedSizeListArray.from_arrays(column, size)
                columns.append(column)
            writer.write_table(pyarrow.table(columns, schema=schema))
