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
from dataclasses import dataclass
from itertools import chain
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
from obygaze_features.store.card import (
    HERE,
    citation_text,
    terms_lines,
)
from obygaze_features.store.files import free_bytes
from obygaze_features.store.formats import (
    TABLE,
    Format,
    format_of_ending,
    format_of_output,
)
from obygaze_features.store.importing.reader import (
    FILM_KEY,
    ID_KEY,
    TIME_KEYS,
)
from obygaze_features.store.layout import (
    CARD,
    PICTURES,
    TIMES,
    Array,
    with_companions,
)
from obygaze_features.store.placing import take_name
from obygaze_features.store.reading import Reason, Store, open_store
from obygaze_features.store.rows import OK, STATUS_OF_WORD, Row, words_of_status

# Values of so many bytes are read and written at a time.
PIECE_BYTES = 2**25
# What a data set or group of HDF5 takes beside its values, with its name and attributes.
NODE_BYTES = 2**10
# The mark of an export: where the features come from.
ORIGIN_KEY = "obygaze_origin"
DATE = (1980, 1, 1, 0, 0, 0)
EXTRA = "parquet"
SHOWN_CLIPS = 20
EXPORTED_TABLE = "data/features.parquet"
# Columns that say of a clip what it is, in their order, and what they mean.
FACT_COLUMNS = {
    ID_KEY: "the clip",
    FILM_KEY: "its film",
    "start_s": "where the clip starts in its video, in seconds",
    "end_s": "where it ends",
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
        size = count(self.n_clips, "clip")
        is_folder = format_of_ending(self.path) is None
        file = self.path / EXPORTED_TABLE if is_folder else self.path
        return f"{file}: {size}, {', '.join(self.arrays)}"

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
    of a Parquet file. `obygaze store import` reads an export as any other file of its format.

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
    kind = format_of_output(target, format)
    is_folder = format_of_ending(target) is None
    if labels is not None and kind.name != TABLE:
        raise FixUsage(
            "labels are columns of parquet only", hint="a name that ends with .parquet"
        )
    refuse_pictures(opened)
    names = list(dict.fromkeys(each_name(arrays)))
    chosen = arrays_of_export(opened, kind, names)
    job = Export(opened, chosen, labels, progress)
    warnings = _read_labels(job)
    job.progress.expect(len(job.rows) * len(chosen))
    target.parent.mkdir(parents=True, exist_ok=True)
    with _new(target, is_folder=is_folder) as hidden:
        kind.write(job, hidden)
    left_out = {}
    for row in opened.rows:
        if not row.is_ok:
            left_out[row.clip_id] = Reason(row.status, row.reason)
    return Exported(
        path=target,
        format=kind.name,
        n_clips=len(job.rows),
        arrays=[array.name for array in chosen],
        left_out=left_out,
        warnings=warnings,
        not_exported=job.left_out(),
    )


def refuse_pictures(store: Store) -> None:
    """Raise an error for a store of pictures, which is not sent, exported or published."""
    if store.record.array(PICTURES) is not None:
        raise FixUsage(
            "this store holds pictures of films; it is private",
            where=store.location,
        )


class Export:
    """What is exported: arrays of a store, and its rows with features.

    Args:
        store: The store.
        arrays: The arrays.
        labels: The manifest whose levels and concepts become columns.
        progress: Counts clips, once for each array.
    """

    def __init__(
        self,
        store: Store,
        arrays: Sequence[Array],
        labels: Manifest | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.store = store
        self.arrays = arrays
        self.labels = labels
        # The clip of the manifest that each row of the store has, by its id.
        self.label_of: Mapping[str, Clip] = {}
        self.progress = progress or Quiet()
        self.terms = store.terms
        # The rows with features, and where they are in the store.
        self.rows = [row for row in store.rows if row.is_ok]
        self.numbers = np.flatnonzero([row.is_ok for row in store.rows])
        if not self.rows:
            raise FixInput(
                "no clip has features; nothing to export",
                where=store.location,
                hint=f"obygaze store info {shell_word(store.location)} --clips",
            )

    def origin(self) -> dict[str, Any]:
        """Return of which store the features are, how they were made, and under which terms."""
        record = self.store.record
        facts = {
            "program": f"obygaze {__version__}",
            "seal": self.store.seal,
            "manifest": {
                "name": record.manifest.name,
                "sha256": record.manifest.sha256,
            },
            "licence": self.terms.licence,
            "citation": self.terms.citation,
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
        return facts

    def left_out(self) -> list[str]:
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


def _have_films(rows: Iterable[Row]) -> bool:
    """Return whether the clips have films; all have one, or none has."""
    return any(row.movie_id for row in rows)


def _have_times(rows: Iterable[Row]) -> bool:
    """Return whether a clip has a start or an end in its video."""
    return any((row.start_s, row.end_s) != (None, None) for row in rows)


# --- Checks ---


def arrays_of_export(
    store: Store, format: Format, names: Sequence[str]
) -> Sequence[Array]:
    """Return the arrays to export, by these names or by default, and what belongs to them."""
    known = store.record.arrays
    chosen = [store.array(name) for name in names] or list(known)
    if format.name == TABLE and not names:
        features = map(store.array, store.feature_arrays)
        chosen = [array for array in features if len(array.shape) == 1]
        if not chosen:
            names_there = store.feature_arrays or [array.name for array in known]
            raise FixUsage(
                "no array has one vector a clip",
                hint=f"--array NAME, one of {', '.join(names_there)}",
            )
    taken = set(FACT_COLUMNS) if format.has_columns else set()
    if format.has_columns and format.name != TABLE:
        # In a table it stands in the metadata.
        taken.add(ORIGIN_KEY)
    if not _have_times(row for row in store.rows if row.is_ok):
        taken.difference_update(TIME_KEYS)
    arrays = []
    for array in with_companions(chosen, known):
        if array.name not in taken:
            arrays.append(array)
        elif array.name in names or array.name not in TIMES:
            raise FixUsage(
                f"in {format.name}, the array {array.name!r} and the {array.name} of clips would"
                " be one",
                where=store.location,
                hint="hdf5, or --array for other arrays only",
            )
    return arrays


def _check_keys(rows: Sequence[Row], where: str) -> None:
    """Raise an error for ids that cannot be keys of HDF5."""
    for row in rows:
        if "/" in row.clip_id or row.clip_id.startswith("."):
            raise FixInput(
                f"{row.clip_id[:60]!r} cannot be a key of HDF5",
                where=where,
                hint="npz or parquet, which allow any id",
            )


def _read_labels(job: Export) -> list[str]:
    """Find each clip in the manifest; return a sentence on clips without a level.

    An error if the manifest has none of the clips, or another clip of the same id.
    """
    labels = job.labels
    rows = job.rows
    if labels is None:
        return []
    if isinstance(labels.clips, Windows):
        raise FixUsage("windows have no labels", where=labels.name)
    ids = {row.clip_id for row in rows}
    labelled = [clip for clip in labels if clip.clip_id in ids]
    # An error where the store has another clip of this id.
    job.store.match(labelled)
    job.label_of = {clip.clip_id: clip for clip in labelled}
    if not labelled:
        raise FixInput(
            f"the manifest {labels.name} has none of the clips of this store: the first clip here"
            f" is {rows[0].clip_id!r}, there {next(iter(labels.clip_ids), '')!r}",
            where=labels.name,
            hint="--with-labels MANIFEST",
        )
    n_missing = len(rows) - sum(bool(clip.level) for clip in job.label_of.values())
    if not n_missing:
        return []
    n_without = count(n_missing, "clip")
    return [f"{n_without} of {len(rows)} without a level in the manifest {labels.name}"]


@contextmanager
def _new(target: Path, *, is_folder: bool) -> Iterator[Path]:
    """Yield a hidden path beside a new file or folder, which gets its name when it is finished."""
    remove_leftovers(target)
    if os.path.lexists(target):
        raise _taken(target)
    hidden = hidden_name(target)
    if is_folder:
        hidden.mkdir()
    try:
        with files.name_in_errors(target):
            yield hidden
            files.sync_all(hidden)
        take = take_name if is_folder else files.rename_if_free
        if not take(hidden, target):
            raise _taken(target)
    finally:
        remove_hidden(hidden)


def _taken(target: Path) -> AlreadyThere:
    return AlreadyThere(
        "a file or folder of this name exists already",
        where=str(target),
    )


# --- The formats ---


def write_npz(job: Export, path: Path) -> None:
    """Write an array of each name; in pieces, so that any size fits."""
    columns = {ORIGIN_KEY: np.array(json.dumps(job.origin()))}
    for name in fact_columns(job):
        facts = [getattr(row, name) for row in job.rows]
        # A time that is not known is NaN.
        kind = np.float64 if name in TIME_KEYS else np.str_
        columns[name] = np.array(facts, dtype=kind)
    with zipfile.ZipFile(path, "w") as archive:
        for name, column in columns.items():
            _write_member(archive, name, column.shape, column.dtype, [column])
        for array in job.arrays:
            shape = (len(job.rows), *array.shape)
            dtype = np.dtype(array.dtype)
            _write_member(archive, array.name, shape, dtype, job.pieces(array))


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


def write_hdf5(job: Export, path: Path) -> None:
    """Write, of one array, a data set a clip; of several, a group a clip, a data set an array."""
    import h5py

    _check_keys(job.rows, job.store.location)
    _check_space(job, path)
    is_single = len(job.arrays) == 1
    # This form has checksums of everything but values, which HDF5 1.10 and later read.
    with h5py.File(path, "w", track_order=True, libver=("v110", "v110")) as out:
        _write_text(out, ORIGIN_KEY, json.dumps(job.origin()))
        if not is_single:
            for row in job.rows:
                _write_facts(out.create_group(row.clip_id), row)
        for array in job.arrays:
            vectors = chain.from_iterable(job.pieces(array))
            for row, values in zip(job.rows, vectors, strict=True):
                if is_single:
                    _write_facts(_write_values(out, row.clip_id, values), row)
                else:
                    _write_values(out[row.clip_id], array.name, values)


def _write_values(group: Any, name: str, values: Any) -> Any:
    """Write a data set with a checksum; one number is beside its name, where all has one."""
    import h5py

    if np.ndim(values):
        return group.create_dataset(name, data=values, fletcher32=True)
    in_header = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    in_header.set_layout(h5py.h5d.COMPACT)
    return group.create_dataset(name, data=values, dcpl=in_header)


def _write_facts(node: Any, row: Row) -> None:
    """Write the film of a clip and its times, if they are known, as attributes."""
    if row.movie_id:
        _write_text(node, FILM_KEY, row.movie_id)
    for key in TIME_KEYS:
        time_s = getattr(row, key)
        if time_s is not None:
            node.attrs[key] = time_s


def _write_text(node: Any, name: str, text: str) -> None:
    """Write a text as an attribute of fixed size; others lie where no checksum is."""
    node.attrs[name] = np.bytes_(text.encode())


def _check_space(job: Export, path: Path) -> None:
    """Raise an error if the disk is too full: the HDF5 library ends the process when it gets so."""
    n_nodes = len(job.rows) * (1 + len(job.arrays))
    n_bytes = n_nodes * NODE_BYTES
    n_bytes += len(job.rows) * sum(array.row_bytes for array in job.arrays)
    free = free_bytes(path.parent)
    if n_bytes > free:
        raise FixInput(
            f"the file needs up to {human(n_bytes)}, and {human(free)} are free",
            where=str(path.parent),
            hint="another disk, or --array for one array",
        )


def write_parquet(job: Export, path: Path) -> None:
    """Write a table with a row a clip; in a folder, also a README.md by which the hub reads it."""
    if not path.is_dir():
        write_features_table(job, path)
        return
    (path / EXPORTED_TABLE).parent.mkdir()
    columns = write_features_table(job, path / EXPORTED_TABLE)
    _write_card(job, path, columns)


def write_features_table(job: Export, path: Path) -> list[str]:
    """Write a Parquet file with a row a clip; return its columns."""
    pyarrow = need("pyarrow", EXTRA, "writing Parquet")
    parquet = need("pyarrow.parquet", EXTRA, "writing Parquet")
    names = fact_columns(job)
    types = {
        "start_s": pyarrow.float64(),
        "end_s": pyarrow.float64(),
        "concepts": pyarrow.list_(pyarrow.string()),
    }
    fields = [(name, types.get(name, pyarrow.string())) for name in names]
    for array in job.arrays:
        column_type = pyarrow.from_numpy_dtype(np.dtype(array.dtype))
        for size in reversed(array.shape):
            column_type = pyarrow.list_(column_type, size)
        fields.append((array.name, column_type))
    schema = pyarrow.schema(fields, {ORIGIN_KEY: json.dumps(job.origin())})
    row_bytes = sum(array.row_bytes for array in job.arrays)
    n_rows_of_group = max(1, PIECE_BYTES // row_bytes)
    with parquet.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=[FILM_KEY, "level", "concepts.list.element"],
        write_page_index=True,
        write_page_checksum=True,
    ) as writer:
        for first in range(0, len(job.rows), n_rows_of_group):
            piece = slice(first, first + n_rows_of_group)
            columns: dict[str, Any] = {}
            for name in names:
                columns[name] = [_fact(name, row, job) for row in job.rows[piece]]
            for array in job.arrays:
                column = pyarrow.array(job.values(array, piece).reshape(-1))
                for size in reversed(array.shape):
                    column = pyarrow.FixedSizeListArray.from_arrays(column, size)
                columns[array.name] = column
            writer.write_table(pyarrow.table(columns, schema=schema))
    return [*names, *(array.name for array in job.arrays)]


def fact_columns(job: Export) -> list[str]:
    """Return the columns beside the features."""
    names = [ID_KEY]
    if _have_films(job.rows):
        names.append(FILM_KEY)
    if _have_times(job.rows):
        names += TIME_KEYS
    if job.labels is not None:
        names += ["level", "concepts"]
    return names


def _fact(name: str, row: Row, job: Export) -> Any:
    """Return what a column says of a clip; None where it is not known."""
    if name in (ID_KEY, FILM_KEY, *TIME_KEYS):
        return getattr(row, name)
    clip = job.label_of.get(row.clip_id)
    if clip is None or job.labels is None:
        return None
    if name == "level":
        return clip.level or None
    # Where annotators differ on a concept, or nobody said anything of the clip, an absent one would
    # be read as one that is not there.
    is_open = any(concept in disputed(clip) for concept in job.labels.header.concepts)
    if is_open or not is_labelled("concept", clip.values):
        return None
    return list(clip.concepts)


def _write_card(job: Export, folder: Path, columns: Sequence[str]) -> None:
    """Write README.md beside a table."""
    record = job.store.record
    meanings = dict(FACT_COLUMNS)
    for array in job.arrays:
        shape = " x ".join(map(str, array.shape)) or "one number"
        is_of_features = array.name in job.store.feature_arrays
        what = "features" if is_of_features else "beside the features"
        meanings[array.name] = f"{what}: {shape} of {array.dtype}"
    label_licence = None if job.labels is None else job.labels.header.licence
    text = render(
        "export.md",
        HERE,
        manifest=record.manifest,
        recipe=job.store.recipe,
        terms=job.terms,
        terms_lines=map(SafeText, terms_lines(job.terms, label_licence)),
        citation=SafeText(citation_text(job.terms)),
        origin_json=SafeText(json.dumps(job.origin(), ensure_ascii=True)),
        table=EXPORTED_TABLE,
        columns=[(name, meanings[name]) for name in columns],
        labels="" if job.labels is None else labels_text(job.labels),
    )
    (folder / CARD).write_bytes(text.encode())


def labels_text(labels: Manifest) -> str:
    """Return of which manifest labels are, and under which terms, as sentences."""
    header = labels.header
    text = (
        f"Levels and concepts are those of the manifest {labels.name},"
        f" {view_words(header.view)}, sha256"
        f" {manifest_sha256(labels)}. Their licence: {header.licence or 'not stated'}."
    )
    return f"{text} Cite for them: {header.citation}" if header.citation else text
