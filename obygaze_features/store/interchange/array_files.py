"""Features in npz, npy, CSV and .pth files; what would run code is refused.

A CSV file has a column of clip ids, and a column for each number of the vectors. Of .pth files only
plain tensors are loaded (PyTorch's restricted unpickler), in the folders of the released code:
FEATURES/<film>/<video>.pth.
"""

import io
import math
import pickle
import re
import warnings
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.console import count, few
from obygaze_features.core.drafts import made_by_obygaze
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import require_file
from obygaze_features.core.lazy import need
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.schema_rules import near
from obygaze_features.manifest.tables import CsvTable, read_table
from obygaze_features.store.format.limits import check_memory
from obygaze_features.store.interchange.source import (
    DAMAGE,
    FILM_KEY,
    ID_KEY,
    ID_KEYS,
    NPY_NAMES,
    PROVENANCE,
    Array,
    BadRow,
    FeatureSource,
    by_clip,
    clip_source,
    column_source,
    has_several,
    name_of,
    origin_of,
    plain_files,
    visible_paths,
)

SUFFIXES = (".npy",)
ID_SUFFIXES = (".txt", ".csv", ".tsv", ".npy")
PTH_SUFFIXES = (".pth", ".pt")
PTH_PURPOSE = "reading .pth files"
NOT_FEATURES = "this is not a table of features"
_NUMBERED = re.compile(r"(.*?)[._ -]?([0-9]{1,18})")


def open_npz(
    path: Path, arrays: Mapping[str, str], *, id_key: str | None = None
) -> FeatureSource:
    """Open the arrays of an npz file; without `arrays`, each array that has a row for each id."""
    with _opened(path) as packed:
        names = [name for name in packed.files if name != PROVENANCE]
        if id_key is None:
            id_key = next((key for key in ID_KEYS if key in names), ID_KEY)
        return column_source(
            path,
            names,
            partial(_member, path, packed),
            arrays,
            origin=origin_of("npz", path),
            id_key=id_key,
            keep_names=PROVENANCE in packed.files,
        )


def read_arrays(path: Path) -> dict[str, Array]:
    """Read every array of an npz file by its name, as safely as `open_npz` reads them."""
    with _opened(path) as packed:
        return {
            name: _member(path, packed, name)
            for name in packed.files
            if name != PROVENANCE
        }


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    require_file(path)
    if not zipfile.is_zipfile(path):
        hint = "copy or download it again, or make it with numpy.savez"
        if path.suffix.lower() in (".csv", ".tsv", ".txt"):
            hint = "obygaze store import csv reads a table"
        raise Corrupt("not a complete npz file", where=str(path), hint=hint)
    try:
        with np.load(path, allow_pickle=False) as packed:
            yield packed
    except DAMAGE as error:
        raise Corrupt(f"not a complete npz file: {error}", where=str(path)) from error


def _member(path: Path, packed: Any, key: str) -> Array:
    """Return an array of an npz file; its size is checked before it is read."""
    where = str(path)
    names = [name for name in packed.files if name != PROVENANCE]
    if key not in names:
        raise FixInput(
            f"no array {key!r}{near(key, names)}; the file has {', '.join(names) or 'nothing'}",
            where=where,
            hint="--array NAME=KEY for features, --id-key KEY for ids, KEY being one of these",
        )
    member = key if key in packed.zip.namelist() else f"{key}.npy"
    formats = np.lib.format
    try:
        with packed.zip.open(member) as stream:
            old = formats.read_magic(stream) == (1, 0)
            read = (
                formats.read_array_header_1_0 if old else formats.read_array_header_2_0
            )
            shape, _, dtype = read(stream)
    except DAMAGE as error:
        raise Corrupt(f"{member!r} is not an array: {error}", where=where) from error
    n_bytes = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and n_bytes > packed.zip.getinfo(member).file_size:
        raise Corrupt(f"{member!r} is shorter than its shape {shape}", where=where)
    check_memory(n_bytes, member, where)
    try:
        return np.asarray(packed[key])
    except ValueError as error:
        _refuse_objects(error, repr(key), path)
        raise Corrupt(f"{key!r} cannot be read: {error}", where=where) from error


def _refuse_objects(error: Exception, array_name: str, path: Path) -> None:
    if "allow_pickle" in str(error) or "Python objects" in str(error):
        raise FixInput(
            f"{array_name} has Python objects, which are never unpickled",
            where=str(path),
            hint="np.array(values, dtype=...) when the file is made",
        ) from error


def open_npy(
    root: Path, arrays: Mapping[str, str], *, ids: Path | None = None
) -> FeatureSource:
    """Open a folder with a file for each clip; `arrays` name the sub-folders of their files.

    With a file of `ids`, the rows of each file are clips, and `arrays` name files.
    """
    if ids is not None:
        return _open_rows(root, arrays, ids)
    if root.is_file():
        raise FixInput(
            "expected a folder with one .npy file a clip, got a file",
            where=str(root),
            hint="--ids FILE, if its rows are clips: one id a line, or a table with clip_id",
        )
    folders = dict(arrays) or _folders_of_arrays(root)
    files = {}
    for array, name in folders.items():
        folder = root / name
        if not folder.resolve().is_relative_to(root.resolve()) or not folder.is_dir():
            raise FixInput(f"no folder for the array {array!r}", where=str(folder))
        files[array] = by_clip(plain_files(folder, SUFFIXES))
    every: list[Path] = []
    for files_of_clips in files.values():
        every += files_of_clips.values()
    recorded = {array: folder or "." for array, folder in folders.items()}
    tops = {root, *(root / folder for folder in folders.values())}
    films = _films_of_folders(files, tops, root)
    origin = origin_of("npy", root, every)
    source = clip_source(origin, files, _mapped, recorded, film_of_clip=films)
    if not (root / NPY_NAMES).is_file():
        source.warnings += _rows_in_one_file(root, every)
    return source


def _rows_in_one_file(root: Path, files: Sequence[Path]) -> list[str]:
    """Return a warning where one file with many rows was taken for one clip.

    Raise an error where a file beside it has an id for each row.
    """
    matrices = []
    for file in files:
        with suppress(Corrupt):
            matrix = _mapped(file)
            if matrix.ndim > 1:
                matrices.append((file, matrix.shape))
    if len(matrices) != 1:
        return []
    [(file, shape)] = matrices
    n_rows = shape[0]
    if n_rows < 2:
        return []
    ids_file = _file_of_ids(root, n_rows)
    if ids_file is not None:
        raise FixInput(
            f"{file.name} has {n_rows} rows, and {ids_file.name} an id for each: are the rows "
            "clips?",
            where=str(root),
            hint=f"--ids {ids_file}; or, if {file.name} is one clip, keep it in a folder alone",
        )
    if len(files) > 1:
        return []
    return [
        f"{file.name}, of shape {list(shape)}, was taken for one clip of {n_rows} vectors; if its "
        "rows are clips, --ids FILE names the file of their ids"
    ]


def _file_of_ids(root: Path, n_rows: int) -> Path | None:
    """Return the first file of a folder that has an id for each row, None where there is none."""
    for file in sorted(root.iterdir()):
        if file.name.startswith(".") or file.suffix.lower() not in ID_SUFFIXES:
            continue
        with suppress(FixInput, Corrupt, *DAMAGE):
            if len(_ids_of_rows(file)[ID_KEY]) == n_rows:
                return file
    return None


def _open_rows(root: Path, arrays: Mapping[str, str], ids: Path) -> FeatureSource:
    """Open npy files whose rows are the clips of a file of ids."""
    columns = _ids_of_rows(ids)
    files = [root]
    if not root.is_file():
        files = [
            file
            for file in plain_files(root, SUFFIXES)
            if file.resolve() != ids.resolve()
        ]
    file_of_name = by_clip(files)

    def read(name: str) -> Array:
        if name in columns:
            return columns[name]
        if name not in file_of_name:
            raise FixInput(
                f"no file {name}.npy{near(name, file_of_name)}",
                where=str(root),
                hint="--array NAME=FILE, the file without .npy",
            )
        return _mapped(file_of_name[name])

    # The name of a single file says nothing of its array, unlike those of several.
    if root.is_file() and not arrays:
        rows = _mapped(root)
        has_vectors = rows.dtype.kind == "f" and rows.ndim == 2
        if has_vectors and len(rows) == len(columns[ID_KEY]):
            arrays = {"clip": root.stem}
    folder_files = None if root.is_file() else files
    source = column_source(
        root,
        [*file_of_name, *columns],
        read,
        arrays,
        origin={**origin_of("npy", root, folder_files), "ids": ids.name},
    )
    return source


def _ids_of_rows(path: Path) -> dict[str, Array]:
    """Return the ids in a file, and the films where it has them.

    It is an npy file of text, a table with the column `clip_id`, or has one id a line.
    """
    require_file(path)
    if path.suffix.lower() in SUFFIXES:
        ids = _mapped(path)
        if ids.ndim != 1 or ids.dtype.kind not in "USiu":
            raise FixInput(
                f"expected a list of ids, got {ids.dtype} {list(ids.shape)}",
                where=str(path),
                hint="a text file with one id a line",
            )
        return {ID_KEY: np.array(ids)}
    check_memory(path.stat().st_size, "the ids", str(path))
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FixInput(f"not UTF-8: {error}", where=str(path)) from error
    is_table = path.suffix.lower() != ".txt" or ID_KEY in re.split(
        r"[,;\t]", "".join(lines[:1])
    )
    if is_table:
        table = read_table(path, required=[ID_KEY], delimiter=None, skip_blank=True)
        names = [name for name in (ID_KEY, FILM_KEY) if name in table.columns]
        return {
            name: np.array([row[name] for row in table.rows], dtype=np.str_)
            for name in names
        }
    ids_of_lines = [line.strip() for line in lines if line.strip()]
    return {ID_KEY: np.array(ids_of_lines, dtype=np.str_)}


def _folders_of_arrays(root: Path) -> dict[str, str]:
    """Return the folder of each array: those that `export` wrote, else one array in all of it."""
    if (root / NPY_NAMES).is_file():
        names = (root / NPY_NAMES).read_text(encoding="utf-8").split()
        return {name: name for name in names}
    n_dimensions = []
    for file in plain_files(root, SUFFIXES):
        with suppress(Corrupt):  # it becomes a failed row
            n_dimensions.append(_mapped(file).ndim)
    return {"frames" if has_several(n_dimensions) else "clip": ""}


def _films_of_folders(
    files: Mapping[str, Mapping[str, Path]], tops: Collection[Path], root: Path
) -> dict[str, str]:
    """Return the film of each clip that has its files in a folder of that name, not in `tops`."""
    films: dict[str, str] = {}
    for of_array in files.values():
        for clip, file in of_array.items():
            if file.parent in tops:
                continue
            film = films.setdefault(clip, file.parent.name)
            if film != file.parent.name:
                raise FixInput(
                    f"{clip!r} is in the folders {film!r} and {file.parent.name!r}",
                    where=str(root),
                    hint="files of one clip belong to one film, in each array",
                )
    return films


def _mapped(path: Path) -> Array:
    """Return an array that stays in its file; a file shorter than its array is refused."""
    try:
        # `np.load` would take other files for a zip or a pickle.
        array: Array = np.lib.format.open_memmap(path, mode="r")
    except DAMAGE as error:
        _refuse_objects(error, "this file", path)
        raise Corrupt(f"not a complete npy file: {error}", where=str(path)) from error
    return array


def open_csv(
    path: Path, arrays: Mapping[str, str], *, id_key: str = ID_KEY
) -> FeatureSource:
    """Open a table with a row for each clip; without `arrays`, its numbered columns.

    `arrays` has the name of the columns of each array without the number: `clip_0`, `clip_1`, ...
    are the array `clip` by `{"clip": "clip"}`. The numbers give the order of a vector, wherever the
    columns are in the table.
    """
    violations = Violations(path)
    table = read_table(
        path,
        required=[id_key],
        delimiter=None,
        skip_blank=True,
        violations=violations,
        content="clips",
    )
    hint = None
    if table.columns and id_key not in table.columns:
        # Ids are seldom in a column with a number.
        likely_first = sorted(
            table.columns, key=lambda name: _NUMBERED.fullmatch(name) is not None
        )
        hint = f"--id-key COLUMN, one of {few(likely_first)}"
    violations.raise_if_any(NOT_FEATURES, hint)
    columns = _numbered_columns(table, id_key)
    if not columns and not arrays:
        raise FixInput(
            "no numbered columns",
            where=str(path),
            hint="name the columns of a vector x_0, x_1, ...",
        )
    vectors = {
        name: _in_order(numbered, violations)
        for name, numbered in columns.items()
        if not arrays or name in arrays.values()
    }
    violations.raise_if_any(
        NOT_FEATURES,
        hint="name the columns of a vector x_0, x_1, x_2, ..., each number once",
    )
    numbers = {name: _numbers(table, ordered) for name, ordered in vectors.items()}
    violations.raise_if_any(NOT_FEATURES)
    texts = [name for name in (id_key, FILM_KEY) if name in table.columns]

    def read(name: str) -> Array:
        if name in numbers:
            return numbers[name]
        if name not in table.columns:
            there = ", ".join(columns) or "none"
            problem = f"no columns {name!r}_0, ...; numbered: {there}"
            raise FixInput(problem, where=str(path), hint="--array NAME=COLUMNS")
        return np.array([row[name] for row in table.rows], dtype=np.str_)

    return column_source(
        path,
        [*numbers, *texts],
        read,
        arrays,
        origin=origin_of("csv", path),
        id_key=id_key,
        keep_names=made_by_obygaze(path.with_name(f"{path.name}.json")),
    )


def _numbered_columns(table: CsvTable, id_key: str) -> dict[str, list[tuple[int, str]]]:
    """Return the numbers and names of the columns of each vector, such as `clip_0`, `clip_1`."""
    columns: dict[str, list[tuple[int, str]]] = {}
    for column in table.columns:
        match = _NUMBERED.fullmatch(column)
        if match is not None and column not in (id_key, FILM_KEY):
            columns.setdefault(match[1] or "x", []).append((int(match[2]), column))
    return columns


def _in_order(numbered: Sequence[tuple[int, str]], violations: Violations) -> list[str]:
    """Return the columns of a vector by their numbers; a repeated or missing one is a violation.

    A table may have them in the order of their names as text: x_0, x_1, x_10, x_2.
    """
    ascending = sorted(numbered, key=lambda pair: pair[0])
    for (number, column), (next_number, next_column) in pairwise(ascending):
        if next_number == number:
            problem = f"{column!r} and {next_column!r} have the same number"
            violations.add(1, next_column, problem)
        elif next_number > number + 1:
            between = f"between {column!r} and {next_column!r}"
            problem = f"no column with the number {number + 1} {between}"
            violations.add(1, next_column, problem)
    return [column for _, column in ascending]


def _numbers(table: CsvTable, columns: list[str]) -> Array:
    """Return the cells of some columns as numbers; a decimal comma is read where it can be one.

    Where there are decimal commas, a point may stand between thousands: 1.234 is refused.
    """
    may_be_decimal = table.delimiter != ","
    has_comma = may_be_decimal and any(
        "," in row[name] for row in table.rows for name in columns
    )
    values = np.zeros((len(table.rows), len(columns)))
    for index, row in enumerate(table.rows):
        for column_index, column in enumerate(columns):
            text = row[column]
            if has_comma and "." in text:
                row.add(
                    column, f"{text!r} has a point, other numbers have a decimal comma"
                )
                continue
            digits = text.replace(",", ".") if may_be_decimal else text
            try:
                if "_" in digits:  # Python reads 1_0 as 10
                    raise ValueError
                values[index, column_index] = float(digits)
            except ValueError:
                row.add(column, f"{text!r} is not a number")
    return values


def open_pth(path: Path, arrays: Mapping[str, str]) -> FeatureSource:
    """Open a folder with one tensor file a clip.

    `arrays` name keys, where the files hold dictionaries of tensors.
    """
    need("torch", "mlp", PTH_PURPOSE)
    if path.is_file():
        raise FixInput(
            "expected a folder with one .pth file a clip, got a file",
            where=str(path),
            hint="of a dictionary {id: tensor} make an npz in Python: np.savez('x.npz', "
            "clip_id=list(d), clip=np.stack([t.numpy() for t in d.values()]))",
        )
    files = plain_files(path, PTH_SUFFIXES)
    clips = by_clip(files, _ids_of_files(files))
    keys = {}
    for name, key in (arrays or {"": ""}).items():
        keys[name] = {clip: (file, key) for clip, file in clips.items()}
    films = {
        clip: file.parent.name for clip, file in clips.items() if file.parent != path
    }
    origin = origin_of("pth", path, files)
    source = clip_source(origin, keys, _tensor, arrays, film_of_clip=films)
    n_others = sum(other.is_file() for other in visible_paths(path)) - len(files)
    if n_others > 0:
        verb = "was" if n_others == 1 else "were"
        source.warnings.append(f"{count(n_others, 'file')} {verb} left out: not .pth")
    if not arrays:
        source.arrays = {_array_of(source): source.arrays[""]}
    return source


def _ids_of_files(files: Sequence[Path]) -> list[str]:
    """Return the clip of each file: its name, with that of its film where two have one name."""
    ids = [file.stem for file in files]
    if len(set(ids)) < len(ids):
        return [f"{file.parent.name}-{file.stem}" for file in files]
    return ids


def _array_of(source: FeatureSource) -> str:
    """Return `tokens` if most clips have several vectors, else `clip`."""
    n_dimensions = []
    first_problem = ""
    for index in range(len(source.clip_ids)):
        try:
            n_dimensions.append(len(source.shape("", index).sizes))
        except BadRow as error:
            first_problem = first_problem or str(error)
    if not n_dimensions:
        raise FixInput(
            f"no file has a usable tensor; the first: {first_problem}",
            where=name_of(source),
            hint="torch.save(tensor[None], file), for a tensor without the leading 1; --array "
            "NAME=KEY, for dictionaries of tensors",
        )
    return "tokens" if has_several(n_dimensions) else "clip"


def _tensor(key: tuple[Path, str]) -> Array:
    """Return the tensor of a file, of one of its keys if not "", without the leading 1."""
    file, name = key
    torch = need("torch", "mlp", PTH_PURPOSE)
    value = _loaded(torch, file)
    if name:
        if not isinstance(value, dict):
            raise BadRow(f"{file.name} is not a dictionary of tensors")
        value = value.get(name)
    if not isinstance(value, torch.Tensor):
        raise BadRow(
            f"{file.name} holds {type(value).__name__}, not {name or 'a tensor'}"
        )
    _check_tensor(torch, value, file.name)
    tensor = value.detach()
    if tensor.dtype == torch.bfloat16:  # NumPy has no such type; this is exact
        tensor = tensor.float()
    array: Array = tensor.numpy()[0]
    return array


def _loaded(torch: Any, file: Path) -> Any:
    """Return what a file holds; raise an error for one that could run code."""
    check_memory(file.stat().st_size, "one file", str(file))
    try:
        # What is wrong with a file is reported below, once.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = io.BytesIO(file.read_bytes())
            return torch.load(data, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise FixInput(
            "this file has more than plain tensors: loading it could run code",
            where=str(file),
            hint="torch.save(features.detach().cpu(), file) where it was made",
        ) from error
    except DAMAGE as error:
        raise BadRow(f"{file.name} cannot be read: {str(error)[:120]}") from error


def _check_tensor(torch: Any, value: Any, name: str) -> None:
    """Raise BadRow unless a tensor is the plain one of a clip, and all of it is in the file."""
    is_plain = value.layout == torch.strided and not value.is_quantized
    if not is_plain or value.is_complex():
        raise BadRow(f"{name} holds an unsupported kind of tensor")
    # A few bytes can be seen as a huge tensor, by strides of zero.
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise BadRow(f"{name} holds less than its shape {tuple(value.shape)}")
    if value.ndim not in (2, 3) or value.shape[0] != 1:
        shape = tuple(value.shape)
        raise BadRow(f"{name} has the shape {shape}, expected [1, D] or [1, tokens, D]")
