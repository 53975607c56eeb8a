"""Which clips a file names: an export, a table of scores, a page; of which store an export is.

The files may come from a stranger, and need not be exports of obygaze: the original of an import
names the clips too. Only texts and ids are read, never other numbers.
"""

import html
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import TABLE_ENDINGS
from obygaze_features.core.lazy import need
from obygaze_features.core.own_results import PAGE_DATA, REPORT, REPORT_ENDINGS
from obygaze_features.core.tables import header_of, read_table
from obygaze_features.manifest.io import as_id
from obygaze_features.manifest.own_labels import OF_PREDICTIONS
from obygaze_features.manifest.same_clip import Identity, clip_of_cells, known_film
from obygaze_features.store.importing import npz, parquet
from obygaze_features.store.importing.reader import (
    FILM_KEY,
    FOREIGN_DAMAGE,
    ID_KEY,
    ExportOrigin,
    read_export_origin,
)

EXPORT_ENDINGS = (".npz", ".h5", ".hdf5", ".parquet")
# A longer list of texts is no list of ids of this machine.
_MOST_TEXT_BYTES = 2**30
_TEXT_OF_JSON = re.compile(r'"(?:[^"\\]|\\.)*"')
# A row of the page of a report with a score; clips without features are in a table without scores.
_SCORE_IN_REPORT = re.compile(
    r'<td data-label="clip_id">([^<>]+)</td>.*data-label="score"'
)


def clips_in_export(path: Path) -> Iterator[Identity]:
    """Yield the clips that an npz, HDF5 or Parquet file names; errors are those of `DAMAGE`."""
    if path.suffix == ".npz":
        yield from _of_columns(_texts_of_npz(path))
    elif path.suffix == ".parquet":
        yield from _of_columns(_texts_of_parquet(path))
    else:
        yield from _clips_of_hdf5(path)


def read_origin(path: Path) -> ExportOrigin | None:
    """Return of which store a file is an export; None for other files."""
    text = ""
    with suppress(*FOREIGN_DAMAGE, ObygazeError):
        if path.suffix == ".npz":
            text = npz.origin_text(path)
        elif path.suffix == ".parquet":
            text = parquet.origin_text(path)
        elif path.suffix in EXPORT_ENDINGS:
            # h5py is imported only where there is such a file.
            from obygaze_features.store.importing.hdf5 import origin_text

            text = origin_text(path)
    return read_export_origin(text)


def has_scores(path: Path) -> bool:
    """Return whether a file is a table with scores of clips."""
    if not path.name.endswith(TABLE_ENDINGS):
        return False
    try:
        header = header_of(path)
    except (OSError, ObygazeError):
        return False
    return ID_KEY in header and any(map(OF_PREDICTIONS.match, header))


def clips_in_table(path: Path) -> Iterator[Identity]:
    """Yield the clips of a table."""
    table = read_table(path, required=[ID_KEY])
    for row in table.rows:
        yield clip_of_cells(row.cells)


def clips_in_page(folder: Path) -> Iterator[Identity]:
    """Yield what may be clips of an exported page: every text of its data."""
    text = (folder / PAGE_DATA).read_text("utf-8")
    for quoted in set(_TEXT_OF_JSON.findall(text)):
        with suppress(ValueError):
            yield Identity(json.loads(quoted))


def is_report(path: Path) -> bool:
    """Return whether a file is the page of a report that obygaze wrote."""
    if path.suffix.lower() not in REPORT_ENDINGS:
        return False
    try:
        return not REPORT.refusal(path)
    except OSError:
        return False


def clips_in_report(path: Path) -> Iterator[Identity]:
    """Yield the clips with a score in the page of a report."""
    text = path.read_text("utf-8")
    for escaped in _SCORE_IN_REPORT.findall(text):
        yield Identity(html.unescape(escaped))


def _of_columns(columns: Mapping[str, Sequence[str]]) -> Iterator[Identity]:
    """Yield the clips of columns of texts: nobody says which of them has the ids."""
    films = columns.get(FILM_KEY, ())
    for name, column in columns.items():
        if name == FILM_KEY:
            continue
        of_rows = films if len(films) == len(column) else [""] * len(column)
        for clip_id, film in zip(column, of_rows, strict=True):
            yield from _as_stored(clip_id, film)


def _as_stored(clip_id: str, film: str | None) -> Iterator[Identity]:
    """Yield a clip as a file names it, and as an import of the file does."""
    yield Identity(clip_id, known_film(film))
    stored_id = as_id(clip_id)
    if stored_id != clip_id:
        yield Identity(stored_id, known_film(film and as_id(film)))


def _texts_of_npz(path: Path) -> dict[str, list[str]]:
    columns = {}
    with zipfile.ZipFile(path) as archive, np.load(path) as arrays:
        for name in arrays.files:
            entry = archive.getinfo(f"{name}.npy")
            with archive.open(entry) as stream:
                shape, _, dtype = npz.header_of_npy(stream)
            is_short = entry.file_size <= _MOST_TEXT_BYTES
            is_column = dtype.kind in "US" or (name == ID_KEY and dtype.kind in "iu")
            if is_column and len(shape) == 1 and is_short:
                values = npz.of_unicode(arrays[name])
                columns[name] = [_text(value) for value in values.tolist()]
    return columns


def _texts_of_parquet(path: Path) -> dict[str, list[str]]:
    file = need("pyarrow.parquet", "parquet", "reading Parquet").ParquetFile(path)
    types = need("pyarrow.types", "parquet", "reading Parquet")
    names = []
    for field in file.schema_arrow:
        # The categories of pandas are a dictionary of texts.
        is_dictionary = types.is_dictionary(field.type)
        texts = field.type.value_type if is_dictionary else field.type
        is_text = types.is_string(texts) or types.is_large_string(texts)
        if is_text or (field.name == ID_KEY and types.is_integer(field.type)):
            names.append(field.name)
    columns = file.read(names).to_pydict()
    return {name: list(map(_text, column)) for name, column in columns.items()}


def _clips_of_hdf5(path: Path) -> Iterator[Identity]:
    import h5py

    from obygaze_features.store.importing.hdf5 import check_texts, text_of

    with h5py.File(path, "r") as file:
        check_texts(file)
        columns = {}
        for key in file:
            node = file[key]
            is_column = isinstance(node, h5py.Dataset) and node.ndim == 1
            is_text = is_column and h5py.check_string_dtype(node.dtype)
            if is_text:
                check_texts(file, node)
            if is_text or (is_column and key == ID_KEY and node.dtype.kind in "iu"):
                columns[key] = [_text(value) for value in node[()].tolist()]
            film = text_of(node, FILM_KEY) if FILM_KEY in node.attrs else ""
            yield from _as_stored(key, film)
        yield from _of_columns(columns)


def _text(value: object) -> str:
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
