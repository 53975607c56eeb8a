"""Features in a folder with one .npy or .pth file for each clip.

The folders are those of the released code, FEATURES/<film>/<video>.pth, or all files lie in one
folder. Of .pth files only plain tensors are loaded, by PyTorch's restricted unpickler; what could
run code is refused.
"""

import io
import pickle
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.console import human
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.lazy import need
from obygaze_features.store.files import check_memory
from obygaze_features.store.importing.reader import (
    FOREIGN_DAMAGE,
    BadRow,
    Reader,
    Values,
    clip_reader,
    name_by_shape,
    plain_files,
)


def open_npy(root: Path) -> Reader:
    """Open a folder of .npy files."""
    return _open_tree(root, [".npy"], _mapped, several="frames")


def open_pth(root: Path) -> Reader:
    """Open a folder of .pth files. A tensor is [1, D] or [1, tokens, D]."""
    torch = need("torch", "mlp", "reading .pth files")
    load = partial(_tensor, torch)
    return _open_tree(root, [".pth", ".pt"], load, several="tokens")


def _open_tree(
    root: Path,
    suffixes: Sequence[str],
    open_file: Callable[[Path], Any],
    *,
    several: str,
) -> Reader:
    """Return the reader of a folder, and of the folders of films below it."""
    files = plain_files(root, suffixes)
    file_of_clip: dict[tuple[str, str], Path] = {}
    for file in files:
        clip = (file.parent.name, file.stem)
        first = file_of_clip.setdefault(clip, file)
        if first != file:
            raise FixInput(
                f"two files for the clip {file.stem!r}", where=f"{first}, {file}"
            )
    reader = clip_reader(str(root), file_of_clip, {"array": file_of_clip}, open_file)
    # Of two folders with one name nobody knows whether they are of one film.
    folders = {file.parent for file in files}
    n_of_name = Counter(folder.name for folder in folders)
    films = {folder.name for folder in folders - {root} if n_of_name[folder.name] == 1}
    reader.movie_ids = [film if film in films else "" for film, _ in file_of_clip]
    reader.files = files
    name_by_shape(reader, several)
    return reader


def _mapped(path: Path) -> Values:
    """Return an array that stays in its file; a file shorter than its array is refused."""
    try:
        # `np.load` would take other files for a zip or a pickle.
        array: Values = np.lib.format.open_memmap(path, mode="r")
    except FOREIGN_DAMAGE as error:
        if "Python objects" in str(error):
            raise Corrupt(
                "this file has Python objects, which are never unpickled",
                where=str(path),
                hint="np.array(values, dtype=...) when the file is made",
            ) from error
        raise BadRow(f"not a complete npy file: {error}") from error
    return array


def _tensor(torch: Any, file: Path) -> Values:
    """Return the tensor of a file, without the leading 1."""
    value = _loaded(torch, file)
    if not isinstance(value, torch.Tensor):
        raise BadRow(f"{file.name} holds {type(value).__name__}, not a tensor")
    is_plain = value.layout == torch.strided and not value.is_quantized
    if not is_plain or value.is_complex():
        raise BadRow(f"{file.name} holds an unsupported kind of tensor")
    shape = tuple(value.shape)
    # A few bytes can be seen as a huge tensor, by strides of zero.
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise BadRow(f"{file.name} holds less than its shape {shape}")
    if len(shape) not in (2, 3) or shape[0] != 1:
        raise BadRow(
            f"{file.name} has the shape {shape}, expected [1, D] or [1, tokens, D]"
        )
    tensor = value.detach()
    if tensor.dtype == torch.bfloat16:  # NumPy has no such type; this is exact
        tensor = tensor.float()
    array: Values = tensor.numpy()[0]
    return array


def _refuse_compressed(data: io.BytesIO, file: Path) -> None:
    """Raise BadRow for an archive that is larger unpacked; `torch.save` writes none."""
    if zipfile.is_zipfile(data):
        with zipfile.ZipFile(data) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
        if n_bytes > len(data.getbuffer()):
            raise BadRow(f"{file.name} has {human(n_bytes)} unpacked")
    data.seek(0)


def _loaded(torch: Any, file: Path) -> Any:
    """Return what a file holds; raise an error for one that could run code."""
    check_memory(file.stat().st_size, "one file", str(file))
    try:
        # What is wrong with a file is reported below, once.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = io.BytesIO(file.read_bytes())
            _refuse_compressed(data, file)
            return torch.load(data, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise Corrupt(
            "this file has more than plain tensors: loading it could run code",
            where=str(file),
            hint="torch.save(features.detach().cpu(), file) where it was made",
        ) from error
    except FOREIGN_DAMAGE as error:
        raise BadRow(f"{file.name} cannot be read: {str(error)[:120]}") from error
