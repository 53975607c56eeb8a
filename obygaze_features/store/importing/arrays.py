"""Read files of NumPy and PyTorch: npz, and folders with one .npy or .pth file per clip."""

from __future__ import annotations

import io
import math
import pickle
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from obygaze_features.core.console import human
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import require_file
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.refusal import refuse_if
from obygaze_features.store.files import check_memory, free_bytes
from obygaze_features.store.importing.files import (
    EXPORT_KEY,
    ArrayOfClips,
    BadRow,
    FeatureFiles,
    Keys,
    Values,
    damaged,
    features_of_rows,
    unnamed_file,
)

LOCAL_HEADER = 30  # bytes of a file in a zip before its name


def open_npz(
    path: Path, arrays: Keys, id_key: str | None, folder: Path | None
) -> FeatureFiles:
    """Open an npz file, whose arrays have a row for each id."""
    columns = read_arrays(path, folder)
    is_export = EXPORT_KEY in columns
    return features_of_rows(path, columns, arrays, id_key, is_export=is_export)


def read_arrays(path: Path, folder: Path | None = None) -> dict[str, Values]:
    """Return every array of an npz file by its name.

    Compressed arrays are unpacked into a temporary file. The checksum of each array is compared.
    """
    require_file(path)
    arrays = {}
    with damaged("not a complete npz file", path), zipfile.ZipFile(path) as archive:
        members = {member.filename: member for member in archive.infolist()}
        n_bytes = 0
        for member in members.values():
            if member.compress_type != zipfile.ZIP_STORED:
                n_bytes += member.file_size
        free = free_bytes(folder or Path(tempfile.gettempdir()))
        if n_bytes > free:
            problem = f"the arrays need {human(n_bytes)} on the disk, and {human(free)} are free"
            raise FixInput(problem, where=str(path), hint="free space on the disk")
        for name, member in members.items():
            is_packed = member.compress_type != zipfile.ZIP_STORED
            with (
                damaged(f"{name!r} cannot be read", path),
                archive.open(name) as stream,
            ):
                if is_packed:
                    file = unnamed_file(folder)
                    shutil.copyfileobj(stream, file, 2**20)
                    file.seek(0)
                else:
                    file = path.open("rb")
                    start = _find_start(member, file)
                    content = np.memmap(file, np.uint8, "r", start, member.file_size)
                    if zlib.crc32(content.data) != member.CRC:
                        raise zipfile.BadZipFile(f"Bad CRC-32 for file {name!r}")
                    file.seek(start)
                end = file.tell() + member.file_size
                array = _array_in(file, f"{path}: {name}", end)
                arrays[name.removesuffix(".npy")] = array
    return arrays


def _find_start(member: zipfile.ZipInfo, file: BinaryIO) -> int:
    """Return the offset in a zip file at which the contents of a member begin.

    They follow the header, the name and the extra field of the member.
    """
    file.seek(member.header_offset)
    n_name, n_extra = struct.unpack_from("<HH", file.read(LOCAL_HEADER), 26)
    return int(member.header_offset + LOCAL_HEADER + n_name + n_extra)


def _array_in(file: BinaryIO, where: str, end: int) -> Values:
    """Return the memory-mapped array of a .npy file whose bytes end at the offset `end`.

    Raise an error if the array would be longer than this.
    """
    formats = np.lib.format
    # `np.load` would read other files as a zip or a pickle.
    read_header = formats.read_array_header_2_0
    if formats.read_magic(file) == (1, 0):
        read_header = formats.read_array_header_1_0
    shape, is_fortran, dtype = read_header(file)
    if dtype.hasobject:
        problem = (
            "expected numbers or texts, got Python objects, which are never unpickled"
        )
        hint = "write the file anew with np.array(values, dtype=np.float32)"
        raise Corrupt(problem, where=where, hint=hint)
    if file.tell() + math.prod(shape) * dtype.itemsize > end:
        raise ValueError("the array is longer than its file")
    order: Any = "F" if is_fortran else "C"
    return np.asarray(np.memmap(file, dtype, "r", file.tell(), shape, order))


def open_tree(root: Path, files: Sequence[Path], kind: str) -> FeatureFiles:
    """Open a folder with one file per clip.

    The files are in one folder for each film, as in the code released with the ObyGaze paper
    (FEATURES/<film>/<video>.pth), or all in one folder.
    """
    read = _map_npy
    if kind == "pth":
        read = partial(_tensor, import_optional("torch", "mlp", "reading .pth files"))
    names = [file.stem for file in files]
    if len(set(names)) < len(names):
        names = [f"{file.parent.name}-{file.stem}" for file in files]
    repeated = [name for name, number in Counter(names).items() if number > 1]
    refuse_if(repeated, FixInput, "several files for the same clip", where=str(root))
    # The film is unknown if two folders have one name: they may be of two films.
    folders = Counter(
        folder.name for folder in {file.parent for file in files} - {root}
    )
    films = []
    for file in files:
        film = file.parent.name
        is_known = folders[film] == 1 and file.parent != root
        films.append(film if is_known else "")
    array = ArrayOfClips(lambda place: read(files[place]), len(files))
    several = "frames" if kind == "npy" else "tokens"
    name = several if len(array.shape) > 2 else "clip"
    return FeatureFiles(str(root), names, {name: array}, films)


def _map_npy(path: Path) -> Values:
    """Return the memory-mapped array of a .npy file."""
    with path.open("rb") as file:
        return _array_in(file, str(path), path.stat().st_size)


def _tensor(torch: Any, path: Path) -> Values:
    """Return the tensor of a file without its first dimension, which must have the size 1.

    The file has the shape [1, D] or [1, tokens, D]. Only plain tensors are loaded, by PyTorch's
    restricted unpickler.
    """
    check_memory(path.stat().st_size, "one file", str(path))
    data = io.BytesIO(path.read_bytes())
    if zipfile.is_zipfile(data):
        with zipfile.ZipFile(data) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
        if n_bytes > len(data.getbuffer()):
            raise BadRow(
                f"expected a file of `torch.save` without compression, got {n_bytes} bytes unpacked"
            )
    data.seek(0)
    try:
        value = torch.load(data, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        problem = "expected only plain tensors: loading other objects could run code"
        hint = "write the file anew with torch.save(features.detach().cpu(), file)"
        raise Corrupt(problem, where=str(path), hint=hint) from error
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        raise BadRow(f"expected a plain tensor, got {type(value).__name__}")
    shape = tuple(value.shape)
    # Strides of zero make a huge tensor of a few bytes.
    n_bytes = value.numel() * value.element_size()
    is_short = n_bytes > value.untyped_storage().nbytes()
    if is_short or len(shape) not in (2, 3) or shape[0] != 1:
        problem = f"expected the shape [1, D] or [1, tokens, D], not empty, got {shape}"
        raise BadRow(problem)
    if value.dtype == torch.bfloat16:  # NumPy has no such type; this is exact
        value = value.float()
    array: Values = value.detach().numpy()[0]
    return array
