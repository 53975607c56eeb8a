"""Parquet: a row a clip, with its ids, title, times and labels, and a column for each array.

An array is a fixed-size list, one of several vectors a list of lists. A file has the provenance of
its features in the metadata of its schema. Such columns of other programs are read too, and lists
of any size, if they have the same size in all rows.
"""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import Progress
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage
from obygaze_features.core.files import require_file
from obygaze_features.core.lazy import need
from obygaze_features.core.schema_rules import near
from obygaze_features.manifest.film_choice import titles_of
from obygaze_features.manifest.model import Manifest, Windows
from obygaze_features.store.format.limits import check_memory
from obygaze_features.store.format.schema import SPAN_ARRAYS, ArraySpec
from obygaze_features.store.interchange.source import (
    DAMAGE,
    FILM_KEY,
    ID_KEY,
    PROVENANCE,
    Array,
    BadRow,
    FeatureSource,
    column_source,
    origin_of,
    plain_files,
)
from obygaze_features.store.read.reader import Store

EXTRA = "parquet"
SUFFIX = ".parquet"
# Columns that say of a clip what it is, in their order.
FACTS = (ID_KEY, FILM_KEY, "title", *SPAN_ARRAYS, "level", "concepts")
# The values of so many clips are compressed together, and read together.
GROUP_BYTES = 32 * 2**20
CACHE_BYTES = 256 * 2**20
# Of an id as text of Python, about.
ID_BYTES = 100
_REPEATED = (FILM_KEY, "title", "level", "concepts.list.element")


@dataclass(frozen=True)
class ClipTable:
    """Clips of a store as a table; `facts` has a value for each of the rows."""

    store: Store
    rows: npt.NDArray[np.int64]
    specs: Sequence[ArraySpec]
    facts: Mapping[str, Sequence[Any]]
    provenance: Mapping[str, Any]
    compress: bool = False

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [*self.facts, *(spec.name for spec in self.specs)]

    @property
    def positions_of_film(self) -> dict[str, npt.NDArray[np.int64]]:
        """The positions of the clips of each film."""
        positions: dict[str, list[int]] = {}
        for position, film in enumerate(self.facts[FILM_KEY]):
            positions.setdefault(film, []).append(position)
        return {film: np.array(found) for film, found in positions.items()}

    def write(
        self, path: Path, positions: npt.NDArray[np.int64], progress: Progress
    ) -> None:
        """Write a file with the clips at some positions of the table.

        Args:
            path: The new file.
            positions: Which of the clips, in this order.
            progress: Counts clips, once for each array.
        """
        parquet = need("pyarrow.parquet", EXTRA, "writing Parquet")
        row_bytes = sum(spec.row_bytes for spec in self.specs)
        n_in_group = max(1, GROUP_BYTES // row_bytes)
        with parquet.ParquetWriter(
            path,
            self.schema(),
            compression="zstd" if self.compress else "snappy",
            use_dictionary=list(_REPEATED),
            write_page_index=True,
        ) as writer:
            for first in range(0, len(positions), n_in_group):
                group = positions[first : first + n_in_group]
                writer.write_table(self._group(group, progress))

    def schema(self) -> Any:
        """Return the columns and their types."""
        pyarrow = need("pyarrow", EXTRA, "writing Parquet")
        types = {
            "start_s": pyarrow.float64(),
            "end_s": pyarrow.float64(),
            "concepts": pyarrow.list_(pyarrow.string()),
        }
        fields = []
        for name in self.facts:
            fields.append((name, types.get(name, pyarrow.string())))
        for spec in self.specs:
            fields.append((spec.name, _type_of(spec)))
        metadata = {PROVENANCE: json.dumps(self.provenance)}
        return pyarrow.schema(fields, metadata=metadata)

    def _group(self, positions: npt.NDArray[np.int64], progress: Progress) -> Any:
        """Return a table of some clips with all of their columns."""
        pyarrow = need("pyarrow", EXTRA, "writing Parquet")
        columns: dict[str, Any] = {}
        for name, values in self.facts.items():
            columns[name] = [values[position] for position in positions]
        for spec in self.specs:
            matrix = self.store.matrix(spec.name, clips=columns[ID_KEY])
            column = pyarrow.array(np.ascontiguousarray(matrix.values).reshape(-1))
            for size in reversed(spec.tail_shape):
                column = pyarrow.FixedSizeListArray.from_arrays(column, size)
            columns[spec.name] = column
            progress.advance(len(positions))
        return pyarrow.table(columns, schema=self.schema())


def _type_of(spec: ArraySpec) -> Any:
    """Return the type of the column of an array."""
    pyarrow = need("pyarrow", EXTRA, "writing Parquet")
    column_type = pyarrow.from_numpy_dtype(np.dtype(spec.dtype))
    for size in reversed(spec.tail_shape):
        column_type = pyarrow.list_(column_type, size)
    return column_type


def facts_of_clips(
    store: Store, rows: npt.NDArray[np.int64], manifest: Manifest | None
) -> dict[str, Sequence[Any]]:
    """Return the columns of clips beside their features, each with a value for each row.

    There are ids always, titles where some are known, times where the store or the manifest may
    have them, and labels with a manifest of clips.
    """
    clip_ids = store.clip_ids[rows].tolist()
    movie_ids = store.movie_ids[rows].tolist()
    facts: dict[str, Sequence[Any]] = {ID_KEY: clip_ids, FILM_KEY: movie_ids}
    title_of_film = titles_of(set(movie_ids), manifest)
    if title_of_film:
        facts["title"] = [title_of_film.get(film) for film in movie_ids]
    if set(SPAN_ARRAYS) <= {spec.name for spec in store.plan.arrays}:
        for name in SPAN_ARRAYS:
            facts[name] = store.matrix(name, clips=clip_ids).values.tolist()
    if manifest is None or isinstance(manifest.clips, Windows):
        return facts
    clips = [manifest.by_id.get(clip_id) for clip_id in clip_ids]
    for name in SPAN_ARRAYS:
        facts.setdefault(name, [getattr(clip, name, None) for clip in clips])
    facts["level"] = [clip.level or None if clip else None for clip in clips]
    facts["concepts"] = [list(clip.concepts) if clip else None for clip in clips]
    return facts


def check_names(specs: Sequence[ArraySpec]) -> None:
    """Raise an error for an array whose column would have the name of another one."""
    for spec in specs:
        if spec.name in FACTS:
            raise FixUsage(
                f"in Parquet, the array {spec.name!r} and the {spec.name} of clips would be one"
                " column",
                hint="hdf5 or npy, or --array for other arrays only",
            )


def open_parquet(
    path: Path, arrays: Mapping[str, str], *, id_key: str = ID_KEY
) -> FeatureSource:
    """Open a file with a row for each clip, or a folder of such files.

    Without `arrays`, each column of lists of numbers is an array.
    """
    need("pyarrow.parquet", EXTRA, "reading Parquet")
    if path.is_dir():
        files = plain_files(path, [SUFFIX])
        origin = origin_of("parquet", path, files)
    else:
        require_file(path)
        files = [path]
        origin = origin_of("parquet", path)
    tables = _Tables(path, files)
    return column_source(
        path,
        [*tables.vectors, *tables.texts(id_key)],
        partial(tables.column, id_key=id_key),
        arrays,
        origin=origin,
        id_key=id_key,
        keep_names=tables.is_export,
    )


class _Tables:
    """The files of a folder as one table, of which groups of rows are read when they are used."""

    def __init__(self, path: Path, files: Sequence[Path]) -> None:
        parquet = need("pyarrow.parquet", EXTRA, "reading Parquet")
        self.path = path
        self.files = files
        # Of each group of rows: its file, its number there, and its first row in the whole table.
        self.groups: list[tuple[Path, int]] = []
        first_rows = [0]
        self.schema: Any = None
        for file in files:
            with _damage(file), parquet.ParquetFile(file) as opened:
                schema = opened.schema_arrow
                sizes = _group_sizes(opened.metadata)
            if self.schema is None:
                self.schema = schema
            elif not schema.equals(self.schema):
                raise FixInput(
                    f"{file.name} has other columns than {files[0].name}, or of other types",
                    where=str(file),
                    hint="import each into its own store",
                )
            for number, n_rows in enumerate(sizes):
                self.groups.append((file, number))
                first_rows.append(first_rows[-1] + n_rows)
        self.first_rows = np.array(first_rows)
        names = [] if self.schema is None else self.schema.names
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise FixInput(
                f"several columns have the name {repeated[0]!r}", where=str(path)
            )
        self._cache: OrderedDict[tuple[int, str], Any] = OrderedDict()

    @property
    def is_export(self) -> bool:
        """Whether the files were exported from a store, with the names of its arrays."""
        return PROVENANCE.encode() in (self.schema.metadata or {})

    @property
    def vectors(self) -> list[str]:
        """The columns of lists of numbers."""
        return [field.name for field in self.schema if _is_vector(field.type)]

    def texts(self, id_key: str) -> list[str]:
        """Return which of the columns of ids there are."""
        return [name for name in (id_key, FILM_KEY) if name in self.schema.names]

    def column(self, name: str, id_key: str) -> Any:
        """Return the ids in a column, or a column of vectors as an array that is read by rows."""
        if name not in self.schema.names:
            raise FixInput(
                f"no column {name!r}{near(name, self.schema.names)}; there are "
                f"{', '.join(self.schema.names) or 'none'}",
                where=str(self.path),
                hint="--array NAME=COLUMN for features, --id-key COLUMN for ids",
            )
        if name in (id_key, FILM_KEY):
            return self._ids(name)
        return _Vectors(self, name)

    def _ids(self, name: str) -> Array:
        """Return a column of ids; an id that is missing is an error."""
        parquet = need("pyarrow.parquet", EXTRA, "reading Parquet")
        n_bytes = ID_BYTES * int(self.first_rows[-1])
        check_memory(n_bytes, f"the column {name!r}", str(self.path))
        ids: list[Any] = []
        for file in self.files:
            with _damage(file):
                table = parquet.read_table(file, columns=[name], partitioning=None)
                values = table.column(name).to_pylist()
            if None in values:
                where = f"{file}, row {values.index(None)}"
                raise FixInput(f"the column {name!r} has no value", where=where)
            ids += values
        return np.array(ids) if ids else np.array([], dtype=np.str_)

    def row(self, name: str, row: int) -> Array:
        """Return the vector, or the vectors, of one clip."""
        group = int(np.searchsorted(self.first_rows, row, side="right")) - 1
        values = self._group(group, name)
        cell = values[row - int(self.first_rows[group])]
        if not cell.is_valid:
            raise BadRow(f"{name} has no value")
        return _numbers(cell.values if _is_list(cell.type) else cell, name)

    def _group(self, group: int, name: str) -> Any:
        """Return a column of a group of rows; those that were used last are kept in memory."""
        parquet = need("pyarrow.parquet", EXTRA, "reading Parquet")
        key = (group, name)
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        file, number = self.groups[group]
        with _damage(file), parquet.ParquetFile(file) as opened:
            n_bytes = _unpacked_bytes(opened.metadata.row_group(number), name)
            check_memory(n_bytes, f"a group of rows of {name}", str(file))
            table = opened.read_row_group(number, columns=[name])
            column = table.column(name).combine_chunks()
        self._cache[key] = column
        while len(self._cache) > 1 and self._n_cached_bytes() > CACHE_BYTES:
            self._cache.popitem(last=False)
        return column

    def _n_cached_bytes(self) -> int:
        return sum(column.nbytes for column in self._cache.values())


class _Vectors:
    """A column of vectors with the shape and type of an array; `vectors[row]` reads one row."""

    def __init__(self, tables: _Tables, name: str) -> None:
        self.tables = tables
        self.name = name
        column_type = tables.schema.field(name).type
        self.dtype = _dtype_of(column_type)
        self.shape = (int(tables.first_rows[-1]), *self._sizes(column_type))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, row: int) -> Array:
        """Return the vector, or the vectors, of one row."""
        return self.tables.row(self.name, row)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def _sizes(self, column_type: Any) -> tuple[int, ...]:
        """Return the shape of a row: that of the type, or of the first row that has a value."""
        pyarrow = need("pyarrow", EXTRA, "reading Parquet")
        sizes = []
        inner_type = column_type
        while pyarrow.types.is_fixed_size_list(inner_type):
            sizes.append(inner_type.list_size)
            inner_type = inner_type.value_type
        if not _is_list(inner_type):
            return tuple(sizes)
        for row in range(int(self.tables.first_rows[-1])):
            try:
                return self[row].shape
            except BadRow:
                continue
        return (0,)


@contextmanager
def _damage(file: Path) -> Iterator[None]:
    """Raise an error for a file that is not complete, or is no Parquet."""
    pyarrow = need("pyarrow", EXTRA, "reading Parquet")
    try:
        yield
    except (*DAMAGE, pyarrow.ArrowException) as error:
        raise Corrupt(
            f"not a complete Parquet file: {error}",
            where=str(file),
            hint="copy or download it again",
        ) from error


def _group_sizes(metadata: Any) -> list[int]:
    groups = range(metadata.num_row_groups)
    return [metadata.row_group(number).num_rows for number in groups]


def _unpacked_bytes(group: Any, name: str) -> int:
    """Return the most that the numbers of a column take in memory.

    Equal numbers are written once with how often they come, so that the bytes in the file say
    nothing of it.
    """
    n_values = 0
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema == name or column.path_in_schema.startswith(
            f"{name}."
        ):
            n_values += column.num_values
    return max(int(group.total_byte_size), 8 * n_values)


def _is_list(column_type: Any) -> bool:
    pyarrow = need("pyarrow", EXTRA, "reading Parquet")
    types = pyarrow.types
    return bool(
        types.is_fixed_size_list(column_type)
        or types.is_list(column_type)
        or types.is_large_list(column_type)
    )


def _is_vector(column_type: Any) -> bool:
    """Return whether a column has lists of numbers, or lists of such lists."""
    return _is_list(column_type) and _dtype_of(column_type).kind in "fiub"


def _dtype_of(column_type: Any) -> np.dtype[Any]:
    """Return the type of the numbers in a column; that of objects if they are no numbers."""
    while _is_list(column_type):
        column_type = column_type.value_type
    try:
        dtype: np.dtype[Any] = np.dtype(column_type.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        return np.dtype(object)
    return dtype


def _numbers(values: Any, name: str) -> Array:
    """Return the numbers in lists as an array; raise BadRow if the lists have several sizes."""
    if not _is_list(values.type):
        numbers: Array = values.to_numpy(zero_copy_only=False)
        return numbers
    lengths = {len(item.values) if item.is_valid else None for item in values}
    if len(lengths) != 1 or None in lengths:
        raise BadRow(f"{name} has lists of several sizes")
    inner = _numbers(values.flatten(), name)
    return inner.reshape(len(values), *lengths, *inner.shape[1:])
